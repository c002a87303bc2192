//! What projections do for natural-gradient variational inference: bounded covariances, and means that must be positive.
//!
//! `cargo run --release --example projection -- DATA_FOLDER [--out DIR] [--runs N] [--scale S]` with gas_turbine.csv.gz and
//! mushroom.csv.gz in the folder; docs/experiments.md says what comes out. (Guilmeau, Hendrikx & Forbes 2026: Student-t
//! regression with 3 degrees of freedom and the eigenvalues of S in [1e-4, 1e4]; logistic regression with m ≥ 0.)

mod common;

use common::{Data, Experiment, record_at};
use faer::{Mat, Scale};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparsegp::collapsed::Dataset;
use sparsegp::data::TargetKind;
use sparsegp::latent::LinearLayer;
use sparsegp::likelihood::{BernoulliLogit, Likelihood, StudentT};
use sparsegp::model::{Inference, InferenceOptions, LatentModel};
use sparsegp::objective::Objective;
use sparsegp::report::{CurveSeries, Curves};
use sparsegp::variational::{Family, Guard, Normal, QUpdate, RuleOptions, Schedule};
use std::error::Error;

/// The prior variance of the coefficients in the Student-t regression, and the number of steps in either study.
const PRIOR: f64 = 5.0;
const STEPS: usize = 300;
/// Standard deviations of the random means and variances of the coefficients at the start of the Student-t regression.
const STARTS: [(f64, f64); 4] = [(0.0, PRIOR), (0.0, 1e-3), (1.0, 1e-3), (10.0, 1e-3)];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let experiment = Experiment::new("projection", &mut arguments)?;
    let runs = common::option(&mut arguments, "--runs", 10)?;
    let scale = common::option(&mut arguments, "--scale", 1.0)?;
    if let Some(data) = experiment.read("gas_turbine", "TEY", Some(TargetKind::Real))? {
        // The year is the first column.
        let of_2013 = (0..data.y.len()).filter(|&i| data.x[(0, i)] == 2013.0);
        let mut data = data.take(&of_2013.take(715).collect::<Vec<_>>());
        data.x = data.x.subrows(1, data.x.nrows() - 1).to_owned();
        data.standardise(false);
        let mean = data.y.iter().sum::<f64>() / data.y.len() as f64;
        data.y.iter_mut().for_each(|y| *y -= mean);
        student(&experiment, &data, scale, runs)?;
    }
    if let Some(data) = experiment.read("mushroom", "y", Some(TargetKind::Binary))? {
        positive(&experiment, &data)?;
    }
    Ok(())
}

/// The ELBO before every step and after the last, and the steps whose new precision was not positive definite.
type Trace = (Vec<f64>, Vec<usize>);

fn trace(model: LatentModel, q: Normal, data: &Data, rule: RuleOptions, step: f64) -> (Trace, Normal) {
    let all = InferenceOptions::full_batch(rule.update, Schedule::Constant(step));
    let set = Dataset::of(data.x.as_ref(), &data.y);
    let options = InferenceOptions { rule, ..all };
    let mut inference = Inference::new(model, q, Objective::elbo(1.0), set, options);
    let (mut elbo, mut indefinite) = (Vec::new(), Vec::new());
    for t in 0..STEPS {
        let (value, info) = inference.step();
        elbo.push(-value);
        indefinite.extend((info.rollbacks > 0).then_some(t));
    }
    elbo.push(-inference.objective());
    ((elbo, indefinite), inference.q().clone())
}

fn model(d: usize, prior: f64, likelihood: Box<dyn Likelihood>) -> sparsegp::Result<LatentModel> {
    let layer = LinearLayer::isotropic(d, 0.0, prior)?.into();
    Ok(LatentModel { layer, likelihood, fix_inducing: true })
}

/// Student-t regression with and without projection, by start and step.
fn student(out: &Experiment, data: &Data, scale: f64, runs: u64) -> Result<(), Box<dyn Error>> {
    let d = data.x.nrows();
    println!("student-t: {} rows, {d} inputs, scale {scale}, {runs} runs", data.y.len());
    println!(
        "  start (sd of m, S) | step | rule | ELBO after 0, 10, {STEPS} (medians) | worst | runs, steps a run with an indefinite precision, the first (-1: none)"
    );
    // Whitened: S is that of the coefficients over the prior's variance.
    let bounds = (1e-4 / PRIOR, 1e4 / PRIOR);
    let projected = RuleOptions { bounds, ..RuleOptions::of(QUpdate::ProjectedNgvi) };
    let backtracking = RuleOptions { guard: Guard::Backtrack, ..RuleOptions::of(QUpdate::Ngd) };
    let rules = [("projected", &projected), ("backtracking", &backtracking)];
    let cases = STARTS.iter().flat_map(|start| [0.5, 0.1, 0.03, 0.01].map(|step| (*start, step)));
    let (mut series, mut rows) = (Vec::new(), Vec::new());
    for (case, ((spread, variance), step)) in cases.enumerate() {
        for (name, rule) in rules {
            let run = |seed: u64| -> sparsegp::Result<Trace> {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let mut draw = || -> f64 { StandardNormal.sample(&mut random) };
                let mean = (0..d).map(|_| spread / PRIOR.sqrt() * draw()).collect();
                let q = Normal::new(mean, Scale(variance / PRIOR) * Mat::<f64>::identity(d, d))?;
                let likelihood = Box::new(StudentT::new(scale, 3.0));
                Ok(trace(model(d, PRIOR, likelihood)?, q, data, rule.clone(), step).0)
            };
            let traces = (0..runs).map(run).collect::<sparsegp::Result<Vec<_>>>()?;
            let sorted = |t: usize| {
                let mut values: Vec<f64> = traces.iter().map(|trace| trace.0[t]).collect();
                values.sort_by(f64::total_cmp);
                values
            };
            let median = |t: usize| sorted(t)[traces.len() / 2];
            let ([a, b, c], worst) = ([0, 10, STEPS].map(median), sorted(STEPS)[0]);
            let failed = traces.iter().filter(|trace| !trace.1.is_empty()).count();
            let first = traces.iter().filter_map(|trace| trace.1.first()).min().map_or(-1, |t| *t as i64);
            let times = traces.iter().map(|trace| trace.1.len()).sum::<usize>() as f64 / runs as f64;
            println!(
                "  {spread}, {variance} | {step} | {name} | {a:.1}, {b:.1}, {c:.2} | {worst:.2} | {failed}, {times:.1}, {first}"
            );
            let by_step = (0..=STEPS).map(|t| (t as f64, median(t)));
            rows.extend(
                by_step
                    .clone()
                    .map(|(t, elbo)| vec![case as f64, (rule == &projected) as u8 as f64, t, elbo]),
            );
            if (spread, variance) == STARTS[0] {
                let points = record_at(STEPS, 10).iter().map(|&t| (t as f64, -median(t), f64::NAN)).collect();
                series.push(CurveSeries { name: format!("{name}, step {step}"), points });
            }
        }
    }
    out.csv("student_t.csv", &["case", "projected", "t", "elbo"], &rows)?;
    figure(out, "student_t.svg", series)
}

/// Logistic regression with a diagonal covariance, with m ≥ 0 and without.
fn positive(out: &Experiment, data: &Data) -> Result<(), Box<dyn Error>> {
    let d = data.x.nrows();
    println!("logistic: {} rows, {d} inputs", data.y.len());
    println!(
        "  means | step | ELBO after 10, {STEPS} steps | gain of the last step | steps that lowered it | least mean | means at 0"
    );
    let mut series = Vec::new();
    for (name, lower) in [("m ≥ 0", vec![0.0; d]), ("free", Vec::new())] {
        for step in [0.5, 0.1, 0.05] {
            let rule = RuleOptions { lower: lower.clone(), ..RuleOptions::of(QUpdate::ProjectedNgvi) };
            let prior = Normal::standard(Family::Diagonal, d);
            let ((elbo, _), q) = trace(model(d, 1.0, Box::new(BernoulliLogit))?, prior, data, rule, step);
            let (early, late, gain) = (elbo[10], elbo[STEPS], elbo[STEPS] - elbo[STEPS - 1]);
            let lowered = elbo.windows(2).filter(|e| e[1] < e[0] - 1e-9 * e[0].abs()).count();
            let least = q.mean().iter().fold(f64::INFINITY, |a, b| a.min(*b));
            let zero = q.mean().iter().filter(|m| **m == 0.0).count();
            println!(
                "  {name} | {step} | {early:.3}, {late:.6} | {gain:.1e} | {lowered} | {least:.3e} | {zero}"
            );
            let points = record_at(STEPS, 10).iter().map(|&t| (t as f64, -elbo[t], f64::NAN)).collect();
            series.push(CurveSeries { name: format!("{name}, step {step}"), points });
        }
    }
    figure(out, "positive.svg", series)
}

fn figure(out: &Experiment, file: &str, series: Vec<CurveSeries>) -> Result<(), Box<dyn Error>> {
    let axes = ("iteration".to_owned(), "minus the ELBO".to_owned());
    Ok(out.figure(file, &Curves { axes, log_x: true, log_y: true, series })?)
}
