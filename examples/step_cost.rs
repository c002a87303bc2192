//! Times one training step (value, all gradients, both updates) against the machine's own GEMM rate in the same run.
//!
//! `cargo run --release --example step_cost -- --inducing 512 --batch 1024 --dims 8 --json`

mod common;

use clap::Parser;
use common::{median, normals};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use sparsegp::gradient::{Batch, Precision};
use sparsegp::hyper::FreeVector;
use sparsegp::kernels::Stationary;
use sparsegp::latent::{InducingLayer, Jitter};
use sparsegp::likelihood::Gaussian;
use sparsegp::model::{LatentModel, VariationalModel};
use sparsegp::moments::Moments;
use sparsegp::objective::Objective;
use sparsegp::variational::{Family, NaturalGradient, Normal};
use std::error::Error;
use std::time::Instant;

/// The shape of the step to time.
#[derive(Parser)]
struct Args {
    /// Inducing inputs M.
    #[arg(long, default_value_t = 512)]
    inducing: usize,
    /// Data per batch b.
    #[arg(long, default_value_t = 1024)]
    batch: usize,
    /// Input dimensions D.
    #[arg(long, default_value_t = 8)]
    dims: usize,
    /// Threads (0 for all).
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Timed repeats, at least; the median is reported.
    #[arg(long, default_value_t = 30)]
    repeats: usize,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    rayon::ThreadPoolBuilder::new().num_threads(args.threads).build_global()?;
    let (m, b, d) = (args.inducing, args.batch, args.dims);
    let (mf, bf) = (m as f64, b as f64);

    let mut gemm = gemm_timer(m, b);
    let mut stable = step_timer(m, b, d, None, Precision::Double)?;
    let mut direct = step_timer(m, b, d, Some(f64::INFINITY), Precision::Double)?;
    let mut mixed = step_timer(m, b, d, None, Precision::Mixed)?;
    // Interleaved, so that a change of the machine's speed touches all alike, and in bursts of which the first is not
    // counted, since in a fit a step finds its matrices in the cache where the step before left them.
    let mut samples = [const { Vec::new() }; 4];
    for repeat in 0..args.repeats.div_ceil(BURST) + 2 {
        let times = [burst(&mut gemm), burst(&mut stable), burst(&mut direct), burst(&mut mixed)];
        if repeat >= 2 {
            samples.iter_mut().zip(times).for_each(|(samples, times)| samples.extend(times));
        }
    }
    let [gemm_ms, step_ms, direct_ms, mixed_ms] = samples.map(median);
    let rate = 2.0 * mf * mf * bf / gemm_ms / 1e6;
    let floor_ms = (5.0 * bf * mf * mf + 4.0 * mf.powi(3)) / rate / 1e6;
    let report = serde_json::json!({
        "inducing": m, "batch": b, "dims": d, "threads": rayon::current_num_threads(),
        "step_ms": step_ms, "direct_step_ms": direct_ms, "mixed_step_ms": mixed_ms, "gemm_ms": gemm_ms, "gemm_gflops": rate,
        "roofline_ratio": floor_ms / step_ms,
    });
    if args.json {
        println!("{report}");
    } else {
        println!("{report:#}");
    }
    Ok(())
}

/// Times that are taken together.
const BURST: usize = 3;

/// The milliseconds of a few runs, after one to warm up.
fn burst(run: &mut impl FnMut() -> f64) -> [f64; BURST] {
    run();
    std::array::from_fn(|_| run())
}

/// Times one `M × M` by `M × b` product.
fn gemm_timer(m: usize, b: usize) -> impl FnMut() -> f64 {
    let left = Mat::from_fn(m, m, |i, j| ((i * 7 + j * 3) % 11) as f64 * 0.1);
    let right = Mat::from_fn(m, b, |i, j| ((i * 5 + j * 3) % 13) as f64 * 0.1);
    let mut out = Mat::zeros(m, b);
    move || {
        let from = Instant::now();
        matmul(out.as_mut(), Accum::Replace, left.as_ref(), right.as_ref(), 1.0, Par::rayon(0));
        from.elapsed().as_secs_f64() * 1e3
    }
}

/// Times one joint step of an SVGP on synthetic data: batch objective and all gradients, q by a natural gradient, θ and
/// Z by Adam, and the refactorisation of `K_uu`.
fn step_timer(
    m: usize,
    b: usize,
    d: usize,
    direct_guard: Option<f64>,
    precision: Precision,
) -> Result<impl FnMut() -> f64, Box<dyn Error>> {
    let mut normal = normals(1);
    let x = Mat::from_fn(d, b, |_, _| normal());
    let y: Vec<f64> = (0..b).map(|j| (2.0 * x[(0, j)]).sin() + 0.1 * normal()).collect();
    let z = Mat::from_fn(m, d, |_, _| normal());
    let kernel = Box::new(Stationary::rbf(1.0, &vec![(d as f64).sqrt(); d]));
    let layer = InducingLayer::new(kernel, z, Jitter::DEFAULT)?.with_mean(0.0, false);
    let mut model = LatentModel::new(layer.into(), Box::new(Gaussian::new(0.1)), false);
    model.refresh().map_err(|e| format!("{e:?}"))?;
    let free = FreeVector::new(&model.descriptors());
    let mut natural = model.natural();
    let mut theta = free.pack(&natural);
    let mut gradient = vec![0.0; theta.len()];
    let mut moments = Moments::new(theta.len());
    let q = Normal::standard(Family::Full, m);
    let mut rule = NaturalGradient::new(&q);
    let mut svgp = VariationalModel::new(model, q, Objective::elbo(1.0), b)
        .with_direct_guard(direct_guard)
        .with_precision(precision);
    Ok(move || {
        let from = Instant::now();
        svgp.step(Batch::of(x.as_ref(), &y, 10.0), true, &mut rule, 0.1);
        free.pull_back(&natural, svgp.theta_gradient(), &mut gradient);
        moments.step(&mut theta, &gradient, 1e-3);
        free.unpack(&theta, &mut natural);
        svgp.set_natural(&natural);
        from.elapsed().as_secs_f64() * 1e3
    })
}
