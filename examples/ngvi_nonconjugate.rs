//! Natural-gradient against stochastic-gradient variational inference on logistic regression, by kind of gradient.
//!
//! `cargo run --release --example ngvi_nonconjugate -- DATA_FOLDER [--out DIR] [--runs N]` with mushroom.csv.gz and
//! mnist17.csv.gz in the folder; docs/experiments.md says what comes out. (Wu & Gardner 2024, "Understanding Stochastic
//! Natural Gradient Variational Inference": prior N(0, I), all data in every step, 10 samples of the weights.)
//!
//! Bonnet–Price, reparameterised and sticking-the-landing gradients; constant steps are the best of a grid, by the objective
//! after half of the iterations (those that reach ten times the start's are given up). Inputs that are always 0 are left out:
//! q and the prior are the same there.

mod common;

use common::{Data, Experiment, record_at};
use faer::Mat;
use sparsegp::collapsed::Dataset;
use sparsegp::data::TargetKind;
use sparsegp::latent::LinearLayer;
use sparsegp::likelihood::BernoulliLogit;
use sparsegp::model::{Inference, InferenceOptions, LatentModel};
use sparsegp::objective::{Estimator, Loss, Objective};
use sparsegp::report::{CurveSeries, Curves};
use sparsegp::variational::guarantees::Curvature;
use sparsegp::variational::{Family, Normal, QUpdate, Schedule};
use std::error::Error;
use std::time::Instant;

const PRICE: Estimator = Estimator::Price { samples: 10 };
const ENERGY: Estimator = Estimator::Energy { samples: 10 };
const STL: Estimator = Estimator::StickingTheLanding { samples: 10 };
/// Mixing weights, and steps in units of 1/𝓜.
const MIXING: &[f64] = &[0.1, 0.03];
const SMALL: &[f64] = &[1e-4, 1e-5, 1e-6];
const RELATIVE: &[f64] = &[0.1, 1.0, 10.0, 100.0];
/// Name, rule, gradient, and the steps to choose from; none for 2/(t+2).
const CONTENDERS: [(&str, QUpdate, Estimator, &[f64]); 7] = [
    ("NGD, Price, 2/(t+2)", QUpdate::Ngd, PRICE, &[]),
    ("NGD, Price, constant", QUpdate::Ngd, PRICE, MIXING),
    ("NGD, reparam., constant", QUpdate::Ngd, ENERGY, SMALL),
    ("NGD, stl, constant", QUpdate::Ngd, STL, SMALL),
    ("SGD, Price, constant", QUpdate::ProxSgd, PRICE, RELATIVE),
    ("SGD, reparam., constant", QUpdate::ProxSgd, ENERGY, RELATIVE),
    ("SGD, stl, constant", QUpdate::ProxSgd, STL, RELATIVE),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let experiment = Experiment::new("ngvi_nonconjugate", &mut arguments)?;
    let runs = common::option(&mut arguments, "--runs", 2)?;
    // Pixels are 0 to 255; mushroom is 0 or 1.
    for (name, unit, steps) in [("mushroom", 1.0, 200), ("mnist17", 255.0, 60)] {
        let Some(data) = experiment.read(name, "y", Some(TargetKind::Binary))? else { continue };
        compare(&experiment, name, &occupied(&data, unit), runs, steps)?;
    }
    Ok(())
}

/// The inputs that are not always 0, over `unit`.
fn occupied(data: &Data, unit: f64) -> Data {
    let rows: Vec<usize> = (0..data.x.nrows()).filter(|&d| data.x.row(d).iter().any(|x| *x != 0.0)).collect();
    let x = Mat::from_fn(rows.len(), data.x.ncols(), |d, i| data.x[(rows[d], i)] / unit);
    Data { x, y: data.y.clone() }
}

fn compare(out: &Experiment, name: &str, data: &Data, runs: u64, steps: usize) -> Result<(), Box<dyn Error>> {
    let (d, n) = data.x.shape();
    let smoothness = Curvature::logistic(data.x.as_ref(), Mat::<f64>::identity(d, d).as_ref())?.smoothness;
    let mut exact = start(data, QUpdate::Ngd, Estimator::Exact, (Schedule::Constant(0.5), 1.0, 0))?;
    let mut change = f64::INFINITY;
    while change > 1e-12 && exact.iterations() < 200 {
        let before = exact.q().clone();
        exact.step();
        change = before.kl_to(exact.q());
    }
    let (best, optimum, count) = (exact.objective(), exact.q().clone(), exact.iterations());
    println!(
        "{name}: {n} rows, {d} inputs, smoothness {smoothness:.3e}; optimum {best:.6} after {count} steps (last one {change:.0e} nats)"
    );
    println!(
        "  contender | step | KL after 0, 10, {steps} steps | gap | ms a step | s to a KL of 1 | rollbacks a run"
    );
    let at = record_at(steps, 10);
    let (mut rows, mut figures) = (Vec::new(), [const { Vec::new() }; 3]);
    for (index, (label, update, estimator, grid)) in CONTENDERS.into_iter().enumerate() {
        let trial = |step: &f64| -> sparsegp::Result<(f64, f64)> {
            let mut inference =
                start(data, update, estimator, (Schedule::Constant(*step), smoothness, 1000))?;
            let first = inference.step().0;
            let bounded = (1..steps / 2).all(|_| inference.step().0 <= 10.0 * first);
            Ok((if bounded { inference.objective() } else { f64::NAN }, *step))
        };
        let tried = grid.iter().map(trial).collect::<Result<Vec<_>, _>>()?;
        let chosen = tried.into_iter().filter(|t| t.0.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0));
        if chosen.is_none() && !grid.is_empty() {
            println!("  {label} | none of {grid:?} keeps the objective below ten times that at the start");
            continue;
        }
        let step = chosen.map_or(Schedule::TwoOverT, |(_, step)| Schedule::Constant(step));
        let (mut means, mut rollbacks) = (vec![[0.0; 4]; at.len()], 0);
        for seed in 0..runs {
            let mut inference = start(data, update, estimator, (step, smoothness, seed))?;
            let mut seconds = 0.0;
            for (mean, &t) in means.iter_mut().zip(&at) {
                let clock = Instant::now();
                (inference.iterations()..t).for_each(|_| _ = inference.step());
                seconds += clock.elapsed().as_secs_f64();
                let gap = inference.objective() - best;
                let seen = [t as f64, seconds, inference.q().kl_to(&optimum), gap];
                mean.iter_mut().zip(seen).for_each(|(mean, x)| *mean += x / runs as f64);
            }
            rollbacks += inference.rollbacks() as u64;
        }
        let [[.., zero, _], [.., ten, _], [_, seconds, last, gap]] =
            [0, 10, steps].map(|t| means[at.partition_point(|s| *s < t)]);
        let reached = means.iter().find(|m| m[2] <= 1.0).map_or(f64::NAN, |m| m[1]);
        let (each, rollbacks) = (1e3 * seconds / steps as f64, rollbacks / runs);
        println!(
            "  {label} | {step} | {zero:.3e}, {ten:.3e}, {last:.3e} | {gap:.3e} | {each:.1} | {reached:.2} | {rollbacks}"
        );
        for (series, (x, y)) in figures.iter_mut().zip([(0, 2), (1, 2), (0, 3)]) {
            let points = means.iter().map(|m| (m[x], m[y], f64::NAN)).collect();
            series.push(CurveSeries { name: label.to_owned(), points });
        }
        rows.extend(means.iter().map(|m| [&[index as f64], m.as_slice()].concat()));
    }
    out.csv(&format!("{name}.csv"), &["contender", "t", "seconds", "kl", "gap"], &rows)?;
    let kl = "KL to the optimum";
    let axes =
        [("kl", "iteration", kl), ("time", "seconds", kl), ("gap", "iteration", "objective less optimum")];
    for ((file, x, y), series) in axes.into_iter().zip(figures) {
        let figure = Curves { axes: (x.to_owned(), y.to_owned()), log_x: true, log_y: true, series };
        out.figure(&format!("{name}_{file}.svg"), &figure)?;
    }
    Ok(())
}

/// Inference from the prior with a step schedule (in units of 1/𝓜 for the gradient rule) and a seed.
fn start(
    data: &Data,
    update: QUpdate,
    estimator: Estimator,
    (step, smoothness, seed): (Schedule, f64, u64),
) -> sparsegp::Result<Inference<'_>> {
    let layer = LinearLayer::isotropic(data.x.nrows(), 0.0, 1.0)?;
    let model = LatentModel { layer: layer.into(), likelihood: Box::new(BernoulliLogit), fix_inducing: true };
    let mut options = InferenceOptions { seed, ..InferenceOptions::full_batch(update, step) };
    (options.rule.smoothness, options.rule.relative) = (Some(smoothness), true);
    let objective = Objective { loss: Loss::ExpectedLog(estimator), beta: 1.0, nodes: None };
    let q = Normal::standard(Family::Full, data.x.nrows());
    Ok(Inference::new(model, q, objective, Dataset::of(data.x.as_ref(), &data.y), options))
}
