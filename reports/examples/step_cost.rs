//! Times training steps (value, all gradients, both updates), their parts, or predictions, against the machine's own GEMM rate in the same run.
//!
//! `cargo run --release --example step_cost -- --inducing 512 --batch 1024 --dims 8 --json`; shapes,
//! likelihoods and forms may be lists (`--inducing 100,512`), and each combination is a line. `--parts` adds
//! the times of the parts of a step, on one thread. `--predict 1000000 --repeats 3` times predictions of so many rows instead of steps.

#[path = "step_cost/parts.rs"]
mod parts;

use clap::Parser;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use sparsegp::gradient::Batch;
use sparsegp::hyper::{Adam, AdamOptions, FreeVector, Pace};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::{LatentModel, Posterior};
use sparsegp::objective::Objective;
use sparsegp::training::VariationalModel;
use sparsegp::variational::{Family, NaturalGradient, Normal, Rules};
use sparsegp_testkit::problems::Normals;
use sparsegp_testkit::shapes::{model, points, targets_for};
use std::error::Error;
use std::time::Instant;

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
    /// Time predictions of this many rows instead of steps.
    #[arg(long, value_name = "ROWS")]
    predict: Option<usize>,
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
                if let Some(rows) = args.predict {
                    print_report(
                        &rates(&posterior(likelihood, inducing, dims)?, [rows, inducing, dims], &args),
                        args.json,
                    );
                    continue;
                }
                for &batch in &args.batch {
                    let problem = Problem::new(inducing, batch, dims, likelihood);
                    print_report(&report(&args, &problem)?, args.json);
                }
            }
        }
    }
    Ok(())
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Step {
    Stable,
    Direct,
}

/// Data of a shape, targets that suit a likelihood, and the model.
struct Problem {
    /// The inputs, D × b.
    x: Mat<f64>,
    y: Vec<f64>,
    /// The model with its factor of `K_uu`.
    model: LatentModel,
}

impl Problem {
    /// Creates a problem with M inducing inputs and b data of D dimensions.
    fn new(m: usize, b: usize, dims: usize, likelihood: LikelihoodKind) -> Self {
        let x = points(dims, b, 0.0);
        let y = targets_for(likelihood, &x);
        let mut model = model(likelihood, m, dims);
        model.likelihood.initialise(&y, &[]);
        Problem { x, y, model }
    }

    fn inducing(&self) -> usize {
        self.model.layer().dim()
    }

    fn inputs(&self, rows: usize) -> MatRef<'_, f64> {
        self.x.transpose().subrows(0, rows)
    }

    fn targets(&self, rows: usize) -> &[f64] {
        &self.y[..rows]
    }

    /// Returns a function that times one joint step: batch objective and all gradients, q by a natural
    /// gradient, θ and Z by Adam, and the refactorisation of `K_uu`.
    fn step_timer(&self, form: Step) -> impl FnMut() -> f64 + use<> {
        let model = self.model.clone();
        let free = FreeVector::new(&model.descriptors());
        let mut natural = model.natural();
        let mut gradient = vec![0.0; free.len()];
        let mut adam = Adam::new(free.pack(&natural), AdamOptions { rate: 1e-3, decay_share: 0.0 });
        let q = Normal::standard(Family::Full, self.inducing());
        let mut rules = Rules::from(NaturalGradient::new(&q));
        let mut svgp = VariationalModel::new(model, q, Objective::elbo(1.0), self.y.len())
            .with_direct_guard((form == Step::Direct).then_some(f64::INFINITY));
        let (x, y) = (self.x.clone(), self.y.clone());
        let mut step = move || {
            let value = svgp.evaluate_under(Batch::of(x.transpose(), &y, 10.0), true, rules.factor());
            free.pull_back(&natural, svgp.theta_gradient(), &mut gradient);
            adam.take(value, &gradient, Pace { total_steps: 1, plateaus: 0 });
            free.unpack(adam.theta(), &mut natural);
            svgp.advance(&mut rules, 0.1, &natural);
        };
        // Runs on a thread of the pool, as in a fit.
        move || milliseconds(|| rayon::scope(|_| step()))
    }
}

/// Returns the rates of predictions with variances and of means alone.
fn rates(posterior: &Posterior, [n, m, dims]: [usize; 3], args: &Args) -> serde_json::Value {
    let x = points(dims, n, 0.0);
    let mut product = gemm_timer(m, m);
    let (mut gemm, mut both, mut means) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.repeats {
        gemm.extend((0..10).map(|_| product()));
        both.push(milliseconds(|| drop(posterior.marginals(x.transpose()))));
        means.push(milliseconds(|| drop(posterior.means(x.transpose()))));
    }
    let rate = 2e3 * (m as f64).powi(3) / median(gemm);
    let (both, means) = (1e3 * n as f64 / median(both), 1e3 * n as f64 / median(means));
    serde_json::json!({
        "rows": n, "inducing": m, "dims": dims, "threads": rayon::current_num_threads(),
        "rows_per_second": both, "rows_per_second_mean_only": means, "gemm_gflops": rate / 1e9,
        "roofline_ratio": both * (m * m) as f64 / rate,
    })
}

/// Creates a posterior that differs from the prior.
fn posterior(likelihood: LikelihoodKind, m: usize, dims: usize) -> Result<Posterior, Box<dyn Error>> {
    let mut normals = Normals::new(1);
    let root = Mat::from_fn(m, m, |i, j| if i == j { 0.1 } else { 0.1 * normals.next() / m as f64 });
    Ok(Posterior::new(&model(likelihood, m, dims), &Normal::new(normals.vec(m), &root * root.transpose())?))
}

fn milliseconds(what: impl FnOnce()) -> f64 {
    let from = Instant::now();
    what();
    from.elapsed().as_secs_f64() * 1e3
}

/// Returns a function that times one product of `M × M` by `M × b` on all threads, in milliseconds.
fn gemm_timer(m: usize, b: usize) -> impl FnMut() -> f64 {
    let left = Mat::from_fn(m, m, |i, j| ((i * 7 + j * 3) % 11) as f64 * 0.1);
    let right = Mat::from_fn(m, b, |i, j| ((i * 5 + j * 3) % 13) as f64 * 0.1);
    let mut out = Mat::zeros(m, b);
    let threads = rayon::current_num_threads();
    move || milliseconds(|| gemm(out.as_mut(), left.as_ref(), right.as_ref(), threads))
}

/// Computes a product with a share of the columns on each thread.
fn gemm(out: MatMut<'_, f64>, left: MatRef<'_, f64>, right: MatRef<'_, f64>, threads: usize) {
    if threads == 1 {
        return matmul(out, Accum::Replace, left, right, 1.0, Par::Seq);
    }
    let (half, at) = (threads / 2, out.ncols() * (threads / 2) / threads);
    let (first, second) = out.split_at_col_mut(at);
    let (x, z) = right.split_at_col(at);
    rayon::join(|| gemm(first, left, x, half), || gemm(second, left, z, threads - half));
}

fn print_report(report: &serde_json::Value, json: bool) {
    if json {
        println!("{report}");
    } else {
        println!("{report:#}");
    }
}

/// Returns the middle value, or the upper of the two middle values.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted = Vec::from_iter(values);
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
