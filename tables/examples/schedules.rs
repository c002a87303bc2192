//! Step schedules against schedules of sample and batch sizes in natural-gradient variational inference.
//!
//! `cargo run --release --example schedules -- [DATA_FOLDER] [--out DIR] [--runs N] [--steps T] [--kappa K]
//! [--estimator price:10]` with gas_turbine.csv.gz in the folder; docs/experiments.md says what comes out. (Guilmeau, Hendrikx
//! & Forbes 2026, projected stochastic natural-gradient variational inference: (i) a normal target in 10 dimensions with
//! condition number 100 from Monte Carlo samples, (ii) linear regression, σ² = 1, from subsamples.)

mod common;

use common::{Data, Experiment, normals, record_at, series, slope, trace};
use faer::Mat;
use rayon::prelude::*;
use sparsegp::Result;
use sparsegp::data::BatchPlan;
use sparsegp::data::SizeSchedule;
use sparsegp::likelihood::Gaussian;
use sparsegp::likelihood::TargetKind;
use sparsegp::objective::Estimator;
use sparsegp::training::{Inference, InferenceOptions};
use sparsegp::variational::{QUpdate, Schedule};

fn main() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let experiment = Experiment::new("schedules", &mut arguments)?;
    let runs = common::option(&mut arguments, "--runs", 100)?;
    let steps = common::option(&mut arguments, "--steps", 1000)?;
    let kappa = common::option(&mut arguments, "--kappa", 1.0)?;
    let estimator = common::option(&mut arguments, "--estimator", Estimator::Price { samples: 10 })?;
    let target = Problem { name: "target", data: target(), prior: 1.0, estimator, size: 10 };
    target.study(&experiment, (runs, steps, kappa))?;
    let Some(mut data) = experiment.read("gas_turbine", "NOX", Some(TargetKind::Real))? else {
        return Ok(());
    };
    // Neither the year, the first column, nor CO, the last one.
    data.x = data.x.subrows(1, data.x.nrows() - 2).to_owned();
    data.standardise(true);
    let regression =
        Problem { name: "gas_turbine", data, prior: 5.0, estimator: Estimator::Exact, size: 100 };
    regression.study(&experiment, (runs, steps, kappa))
}

/// Data whose posterior is a normal distribution with a precision of eigenvalues from 1 to 100 in random directions.
fn target() -> Data {
    let (d, mut draw) = (10, normals(0));
    let rotation = Mat::from_fn(d, d, |_, _| draw()).qr().compute_thin_Q();
    let eigenvalue = |i: usize| 100f64.powf(i as f64 / (d - 1) as f64);
    let x = Mat::from_fn(d, d, |j, i| (eigenvalue(i) - 1.0).sqrt() * rotation[(j, i)]);
    Data { x, y: (0..d).map(|_| draw()).collect() }
}

/// Bayesian linear regression with σ² = 1, a prior variance, and the size of constant samples or batches.
struct Problem {
    name: &'static str,
    data: Data,
    prior: f64,
    estimator: Estimator,
    size: usize,
}

impl Problem {
    fn start(&self, estimator: Estimator, options: InferenceOptions) -> Result<Inference<'_>> {
        Ok(self.data.infer(self.data.model(Gaussian::new(1.0), self.prior)?, estimator, options))
    }

    /// Schedules of steps and sizes against the posterior, which a whole step on all data leads to.
    fn study(&self, out: &Experiment, (runs, steps, kappa): (u64, usize, f64)) -> Result<()> {
        let all = |step: Schedule| InferenceOptions::full_batch(QUpdate::Ngd, step);
        let mut exact = self.start(Estimator::Exact, all(Schedule::Constant(1.0)))?;
        let prior = exact.q().clone();
        exact.step();
        let (posterior, at, sampled) = (exact.q(), record_at(steps, 10), self.estimator.is_sampled());
        let (name, n, start) = (self.name, self.data.y.len(), prior.kl_to(posterior));
        println!("{name}: {n} rows, {runs} runs; KL at the start {start:.3e}");
        println!(
            "  step, size | KL after 10, 100, {steps} | used | slope in t (expected) | in used (expected)"
        );
        let constant = SizeSchedule::Constant(self.size);
        let growing = SizeSchedule::AtLeast { least: self.size, exponent: kappa };
        let sizes = [constant, SizeSchedule::Power { exponent: kappa }, growing];
        let halving = Schedule::HalfT { strong_convexity: 1.0 };
        let schedules = [Schedule::Constant(0.1), halving].into_iter().flat_map(|s| sizes.map(|n| (s, n)));
        let (mut rows, mut by_step, mut by_used) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (step, size)) in schedules.enumerate() {
            let run = |seed: u64| -> Result<Vec<[f64; 2]>> {
                let mut options = InferenceOptions { seed, ..all(step) };
                if sampled {
                    options.samples = Some(size)
                } else {
                    options.batches = BatchPlan::Independent(size)
                }
                Ok(trace(&mut self.start(self.estimator, options)?, &at, |inference, _| {
                    let used = if sampled { inference.samples_used() } else { inference.rows_used() };
                    [used as f64, inference.q().kl_to(posterior)]
                }))
            };
            let traces = (0..runs).into_par_iter().map(run).collect::<Result<Vec<_>>>()?;
            let mean = |k: usize, j: usize| traces.iter().map(|trace| trace[k][j]).sum::<f64>() / runs as f64;
            let means: Vec<_> = (0..at.len()).map(|k| [at[k] as f64, mean(k, 0), mean(k, 1)]).collect();
            let points = |x: usize| means.iter().map(|m| (m[x], m[2])).collect::<Vec<_>>();
            let [in_t, in_used] = [0, 1].map(|x| slope(&points(x)[at.partition_point(|t| 10 * t < steps)..]));
            let [a, b, c] = [10, 100, steps].map(|t| means[at.partition_point(|s| *s < t.min(steps))][2]);
            let (growth, used) = (if size == constant { 0.0 } else { kappa }, means[at.len() - 1][1]);
            let rate = -growth - if step == halving { 1.0 } else { 0.0 };
            let other = rate / (growth + 1.0);
            print!("  {step}, {size} | {a:.3e}, {b:.3e}, {c:.3e} | {used:.0}");
            println!(" | {in_t:.2} ({rate:.2}) | {in_used:.2} ({other:.2})");
            let line = |x: usize| series(&format!("step {step}, size {size}"), points(x).into_iter());
            by_step.push(line(0));
            by_used.push(line(1));
            rows.extend(means.iter().map(|m| vec![index as f64, m[0], m[1], m[2]]));
        }
        out.csv(&format!("{name}.csv"), &["schedule", "t", "used", "kl"], &rows)?;
        let kl = "mean KL to the posterior";
        out.logarithmic(&format!("{name}_iterations.svg"), ("iterations", kl), by_step)?;
        out.logarithmic(&format!("{name}_used.svg"), ("used", kl), by_used)
    }
}
