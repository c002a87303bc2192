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

use common::{Data, Experiment, record_at, series, trace};
use faer::Mat;
use sparsegp::Result;
use sparsegp::likelihood::BernoulliLogit;
use sparsegp::likelihood::TargetKind;
use sparsegp::objective::Estimator;
use sparsegp::training::{Inference, InferenceOptions};
use sparsegp::variational::{QUpdate, Schedule, guarantees::Curvature};

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

fn main() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let experiment = Experiment::new("ngvi_nonconjugate", &mut arguments)?;
    let runs = common::option(&mut arguments, "--runs", 2)?;
    // Pixels are 0 to 255; mushroom is 0 or 1.
    for (name, unit, steps) in [("mushroom", 1.0, 200), ("mnist17", 255.0, 60)] {
        let Some(mut data) = experiment.read(name, "y", Some(TargetKind::Binary))? else { continue };
        let occupied = |&d: &usize| data.x.row(d).iter().any(|x| *x != 0.0);
        let rows: Vec<usize> = (0..data.x.nrows()).filter(occupied).collect();
        data.x = Mat::from_fn(rows.len(), data.x.ncols(), |d, i| data.x[(rows[d], i)] / unit);
        compare(&experiment, name, &data, runs, steps)?;
    }
    Ok(())
}

fn compare(out: &Experiment, name: &str, data: &Data, runs: u64, steps: usize) -> Result<()> {
    let (d, n) = data.x.shape();
    let smoothness = Curvature::logistic(data.x.transpose(), Mat::<f64>::identity(d, d).as_ref())?.smoothness;
    let start = |update: QUpdate, estimator: Estimator, step: Schedule, seed: u64| -> Result<Inference<'_>> {
        let mut options = InferenceOptions { seed, ..InferenceOptions::full_batch(update, step) };
        (options.rule.smoothness, options.rule.relative) = (Some(smoothness), true);
        Ok(data.infer(data.model(BernoulliLogit, 1.0)?, estimator, options))
    };
    let mut exact = start(QUpdate::Ngd, Estimator::Exact, Schedule::Constant(0.5), 0)?;
    let mut change = f64::INFINITY;
    while change > 1e-12 && exact.iterations() < 200 {
        let before = exact.q().clone();
        exact.step();
        change = before.kl_to(exact.q());
    }
    let (best, optimum, count) = (exact.objective(), exact.q(), exact.iterations());
    print!("{name}: {n} rows, {d} inputs, smoothness {smoothness:.3e}; optimum {best:.6} ");
    println!("after {count} steps (last one {change:.0e} nats)");
    print!("  contender | step | KL after 0, 10, {steps} steps | gap");
    println!(" | ms a step | s to a KL of 1 | rollbacks a run");
    let at = record_at(steps, 10);
    let (mut rows, mut figures) = (Vec::new(), [const { Vec::new() }; 3]);
    for (index, (label, update, estimator, grid)) in CONTENDERS.into_iter().enumerate() {
        let trial = |step: &f64| -> Result<(f64, f64)> {
            let mut inference = start(update, estimator, Schedule::Constant(*step), 1000)?;
            let first = inference.step().0;
            let bounded = (1..steps / 2).all(|_| inference.step().0 <= 10.0 * first);
            Ok((if bounded { inference.objective() } else { f64::NAN }, *step))
        };
        let tried = grid.iter().map(trial).collect::<Result<Vec<_>>>()?;
        let chosen = tried.into_iter().filter(|t| t.0.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0));
        if chosen.is_none() && !grid.is_empty() {
            println!("  {label} | none of {grid:?} keeps the objective below ten times that at the start");
            continue;
        }
        let step = chosen.map_or(Schedule::TwoOverT, |(_, step)| Schedule::Constant(step));
        let (mut means, mut rollbacks) = (vec![[0.0; 4]; at.len()], 0);
        for seed in 0..runs {
            let mut inference = start(update, estimator, step, seed)?;
            let seen = trace(&mut inference, &at, |inference, seconds| {
                let gap = inference.objective() - best;
                [inference.iterations() as f64, seconds, inference.q().kl_to(optimum), gap]
            });
            let sums = means.iter_mut().flatten().zip(seen.into_iter().flatten());
            sums.for_each(|(mean, x)| *mean += x / runs as f64);
            rollbacks += inference.rollbacks() as u64;
        }
        let [[.., zero, _], [.., ten, _], [_, seconds, last, gap]] =
            [0, 10, steps].map(|t| means[at.partition_point(|s| *s < t)]);
        let reached = means.iter().find(|m| m[2] <= 1.0).map_or(f64::NAN, |m| m[1]);
        let (each, rollbacks) = (1e3 * seconds / steps as f64, rollbacks / runs);
        print!("  {label} | {step} | {zero:.3e}, {ten:.3e}, {last:.3e} | {gap:.3e}");
        println!(" | {each:.1} | {reached:.2} | {rollbacks}");
        for (lines, (x, y)) in figures.iter_mut().zip([(0, 2), (1, 2), (0, 3)]) {
            lines.push(series(label, means.iter().map(|m| (m[x], m[y]))));
        }
        rows.extend(means.iter().map(|m| [&[index as f64], m.as_slice()].concat()));
    }
    out.csv(&format!("{name}.csv"), &["contender", "t", "seconds", "kl", "gap"], &rows)?;
    let [by_step, by_time, gaps] = figures;
    out.logarithmic(&format!("{name}_kl.svg"), ("iteration", "KL to the optimum"), by_step)?;
    out.logarithmic(&format!("{name}_time.svg"), ("seconds", "KL to the optimum"), by_time)?;
    out.logarithmic(&format!("{name}_gap.svg"), ("iteration", "objective less optimum"), gaps)
}
