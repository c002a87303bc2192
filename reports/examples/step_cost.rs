//! Times training steps (value, all gradients, both updates) and their parts against the machine's own GEMM rate in the same run.
//!
//! `cargo run --release --example step_cost -- --inducing 512 --batch 1024 --dims 8 --json`; shapes,
//! likelihoods and forms may be lists (`--inducing 100,512`), and each combination is a line. `--parts` adds
//! the times of the parts of a step, on one thread.

mod common;
#[path = "step_cost/parts.rs"]
mod parts;
#[path = "step_cost/problem.rs"]
mod problem;

use clap::Parser;
use common::{gemm_timer, median, print_report};
use problem::{Problem, Step};
use sparsegp::likelihood::LikelihoodKind;
use std::error::Error;

/// The shapes of the steps to time.
#[derive(Parser)]
struct Args {
    /// Inducing inputs M.
    #[arg(long, value_delimiter = ',', default_value = "512")]
    inducing: Vec<usize>,
    /// Data per batch b.
    #[arg(long, value_delimiter = ',', default_value = "1024")]
    batch: Vec<usize>,
    /// Input dimensions D.
    #[arg(long, value_delimiter = ',', default_value = "8")]
    dims: Vec<usize>,
    /// Likelihoods, by the names of the command line.
    #[arg(long, value_delimiter = ',', default_value = "gaussian")]
    likelihood: Vec<LikelihoodKind>,
    /// The forms to time.
    #[arg(long, value_delimiter = ',', default_value = "stable,direct")]
    forms: Vec<Step>,
    /// Also time the parts of a step in the stable form, on a window of at most 1024 rows and one thread.
    #[arg(long)]
    parts: bool,
    /// Threads (0 for all).
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Minimum number of timed repeats; the median is reported.
    #[arg(long, default_value_t = 30)]
    repeats: usize,
    /// Print each shape as one line of JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    rayon::ThreadPoolBuilder::new().num_threads(args.threads).build_global()?;
    for &likelihood in &args.likelihood {
        for &inducing in &args.inducing {
            for &dims in &args.dims {
                for &batch in &args.batch {
                    let problem = Problem::new(inducing, batch, dims, likelihood);
                    print_report(&report(&args, &problem)?, args.json);
                }
            }
        }
    }
    Ok(())
}

/// Returns the times of one shape.
fn report(args: &Args, problem: &Problem) -> Result<serde_json::Value, Box<dyn Error>> {
    let (m, b) = (problem.inducing(), problem.y.len());
    let (mf, bf) = (m as f64, b as f64);
    let mut runs: Vec<Box<dyn FnMut() -> f64>> = vec![Box::new(gemm_timer(m, b))];
    for &form in &args.forms {
        runs.push(Box::new(problem.step_timer(form)));
    }
    let times = interleaved(&mut runs, args.repeats);
    let rate = 2.0 * mf * mf * bf / times[0] / 1e6;
    let mut report = serde_json::json!({
        "inducing": m, "batch": b, "dims": problem.x.nrows(), "likelihood": LikelihoodKind::of(&*problem.model.likelihood),
        "threads": rayon::current_num_threads(), "gemm_ms": times[0], "gemm_gflops": rate,
    });
    for (form, time) in args.forms.iter().zip(&times[1..]) {
        if *form == Step::Direct {
            report["direct_step_ms"] = (*time).into();
            continue;
        }
        report["step_ms"] = (*time).into();
        let floor_ms = (5.0 * bf * mf * mf + 4.0 * mf.powi(3)) / rate / 1e6;
        report["roofline_ratio"] = (floor_ms / time).into();
    }
    if args.parts {
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        report["parts_ms"] = alone.install(|| parts::report(problem, args.repeats))?;
    }
    Ok(report)
}

/// The number of times in a burst.
const BURST: usize = 3;

/// Returns the milliseconds of a few runs, after one run to warm up.
fn burst(run: &mut dyn FnMut() -> f64) -> [f64; BURST] {
    run();
    std::array::from_fn(|_| run())
}

/// Returns the median milliseconds of each function. The functions alternate in bursts, so that a change in
/// the speed of the machine affects all of them. The first step of a burst is not counted, because in a fit
/// the matrices are already in the cache.
fn interleaved(runs: &mut [Box<dyn FnMut() -> f64 + '_>], repeats: usize) -> Vec<f64> {
    let mut samples = vec![Vec::new(); runs.len()];
    for repeat in 0..=repeats.div_ceil(BURST) {
        for (run, samples) in runs.iter_mut().zip(&mut samples) {
            let times = burst(run);
            if repeat > 0 {
                samples.extend(times);
            }
        }
    }
    samples.into_iter().map(median).collect()
}
