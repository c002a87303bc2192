//! Projections in natural-gradient variational inference: bounded covariances, and means that must be positive.
//!
//! `cargo run --release --example projection -- DATA_FOLDER [--out DIR] [--runs N] [--scale S]` with gas_turbine.csv.gz and
//! mushroom.csv.gz in the folder; docs/experiments.md says what comes out. (Guilmeau, Hendrikx & Forbes 2026: Student-t
//! regression with 3 degrees of freedom and the eigenvalues of S in [1e-4, 1e4]; logistic regression with m ≥ 0.)

mod common;

use common::{Data, Experiment, median, normals, record_at, series};
use faer::{Mat, Scale};
use sparsegp::Result;
use sparsegp::likelihood::TargetKind;
use sparsegp::likelihood::{BernoulliLogit, StudentT};
use sparsegp::model::LatentModel;
use sparsegp::objective::Objective;
use sparsegp::training::{Inference, InferenceOptions};
use sparsegp::variational::{Family, Guard, Normal, QUpdate, RuleOptions, Schedule};

/// The prior variance of the coefficients in the Student-t regression, and the number of steps in either study.
const PRIOR: f64 = 5.0;
const STEPS: usize = 300;
/// Standard deviations of the random means and variances of the coefficients at the start of the Student-t regression.
const STARTS: [(f64, f64); 4] = [(0.0, PRIOR), (0.0, 1e-3), (1.0, 1e-3), (10.0, 1e-3)];

fn main() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let experiment = Experiment::new("projection", &mut arguments)?;
    let runs = common::option(&mut arguments, "--runs", 10)?;
    let scale = common::option(&mut arguments, "--scale", 1.0)?;
    if let Some(data) = experiment.read("gas_turbine", "TEY", Some(TargetKind::Real))? {
        let of_2013 = (0..data.y.len()).filter(|&i| data.x[(0, i)] == 2013.0); // The year is the first column.
        let mut data = data.take(&of_2013.take(715).collect::<Vec<_>>());
        data.x = data.x.subrows(1, data.x.nrows() - 1).to_owned();
        data.standardise(false);
        let mean = data.y.iter().sum::<f64>() / data.y.len() as f64;
        data.y.iter_mut().for_each(|y| *y -= mean);
        student(&experiment, &data, scale, runs)?;
    }
    let mushroom = experiment.read("mushroom", "y", Some(TargetKind::Binary))?;
    mushroom.map_or(Ok(()), |data| positive(&experiment, &data))
}

/// The ELBO before every step and after the last, the steps whose new precision was not positive definite, and q at the end.
type Run = (Vec<f64>, Vec<usize>, Normal);

fn run(data: &Data, model: &LatentModel, q: Normal, rule: &RuleOptions, step: f64) -> Run {
    let options = InferenceOptions::full_batch(rule.clone(), Schedule::Constant(step));
    let mut inference = Inference::new(model.clone(), q, Objective::elbo(1.0), data.set(), options);
    let (mut elbo, mut indefinite) = (Vec::new(), Vec::new());
    for t in 0..STEPS {
        let (value, info) = inference.step();
        elbo.push(-value);
        indefinite.extend((info.rollbacks > 0).then_some(t));
    }
    elbo.push(-inference.objective());
    (elbo, indefinite, inference.q().clone())
}

/// Student-t regression with and without projection, by start and step.
fn student(out: &Experiment, data: &Data, scale: f64, runs: u64) -> Result<()> {
    let (d, model) = (data.x.nrows(), data.model(StudentT::new(scale, 3.0), PRIOR)?);
    println!("student-t: {} rows, {d} inputs, scale {scale}, {runs} runs", data.y.len());
    print!("  start (sd of m, S) | step | rule | ELBO after 0, 10, {STEPS} (medians) | worst");
    println!(" | runs, steps a run with an indefinite precision, the first (-1: none)");
    // Whitened: S is that of the coefficients over the prior's variance.
    let bounds = (1e-4 / PRIOR, 1e4 / PRIOR);
    let projected = RuleOptions { bounds, ..RuleOptions::of(QUpdate::ProjectedNgvi) };
    let backtracking = RuleOptions { guard: Guard::Backtrack, ..RuleOptions::of(QUpdate::Ngd) };
    let rules = [("projected", &projected, 1.0), ("backtracking", &backtracking, 0.0)];
    let cases = STARTS.iter().flat_map(|start| [0.5, 0.1, 0.03, 0.01].map(|step| (*start, step)));
    let (at, mut lines, mut rows) = (record_at(STEPS, 10), Vec::new(), Vec::new());
    for (case, ((spread, variance), step)) in cases.enumerate() {
        for (name, rule, projects) in rules {
            let one = |seed: u64| {
                let mut draw = normals(seed);
                let mean = (0..d).map(|_| spread / PRIOR.sqrt() * draw()).collect();
                let q = Normal::new(mean, Scale(variance / PRIOR) * Mat::<f64>::identity(d, d))?;
                Ok(run(data, &model, q, rule, step))
            };
            let all = (0..runs).map(one).collect::<Result<Vec<_>>>()?;
            let elbo: Vec<f64> = (0..=STEPS).map(|t| median(all.iter().map(|run| run.0[t]))).collect();
            let [a, b, c] = [0, 10, STEPS].map(|t| elbo[t]);
            let worst = all.iter().map(|run| run.0[STEPS]).fold(f64::INFINITY, f64::min);
            let failed = all.iter().filter(|run| !run.1.is_empty()).count();
            let indefinite: Vec<usize> = all.iter().flat_map(|run| run.1.clone()).collect();
            let first = indefinite.iter().min().map_or(-1, |t| *t as i64);
            print!("  {spread}, {variance} | {step} | {name} | {a:.1}, {b:.1}, {c:.2} | {worst:.2}");
            println!(" | {failed}, {:.1}, {first}", indefinite.len() as f64 / runs as f64);
            if (spread, variance) == STARTS[0] {
                lines.push(series(&format!("{name}, step {step}"), at.iter().map(|&t| (t as f64, -elbo[t]))));
            }
            let row = |(t, elbo): (usize, &f64)| vec![case as f64, projects, t as f64, *elbo];
            rows.extend(elbo.iter().enumerate().map(row));
        }
    }
    out.csv("student_t.csv", &["case", "projected", "t", "elbo"], &rows)?;
    out.logarithmic("student_t.svg", ("iteration", "minus the ELBO"), lines)
}

/// Logistic regression with a diagonal covariance, with m ≥ 0 and without.
fn positive(out: &Experiment, data: &Data) -> Result<()> {
    let (d, model) = (data.x.nrows(), data.model(BernoulliLogit, 1.0)?);
    println!("logistic: {} rows, {d} inputs", data.y.len());
    print!("  means | step | ELBO after 10, {STEPS} steps | gain of the last step | steps that lowered it");
    println!(" | least mean | means at 0");
    let (at, mut lines) = (record_at(STEPS, 10), Vec::new());
    for (name, lower) in [("m ≥ 0", vec![0.0; d]), ("free", Vec::new())] {
        let rule = RuleOptions { lower, ..RuleOptions::of(QUpdate::ProjectedNgvi) };
        for step in [0.5, 0.1, 0.05] {
            let (elbo, _, q) = run(data, &model, Normal::standard(Family::Diagonal, d), &rule, step);
            let (a, b, gain) = (elbo[10], elbo[STEPS], elbo[STEPS] - elbo[STEPS - 1]);
            let lowered = elbo.windows(2).filter(|e| e[1] < e[0] - 1e-9 * e[0].abs()).count();
            let least = q.mean().iter().fold(f64::INFINITY, |a, b| a.min(*b));
            let zero = q.mean().iter().filter(|m| **m == 0.0).count();
            println!("  {name} | {step} | {a:.3}, {b:.6} | {gain:.1e} | {lowered} | {least:.3e} | {zero}");
            lines.push(series(&format!("{name}, step {step}"), at.iter().map(|&t| (t as f64, -elbo[t]))));
        }
    }
    out.logarithmic("positive.svg", ("iteration", "minus the ELBO"), lines)
}
