//! Proximal and projected stochastic gradients with the steps of their convergence theorem, against what it promises.
//!
//! `cargo run --release --example bbvi -- DATA_FOLDER [--out DIR] [--steps T] [--runs N]` with concrete.csv.gz and
//! diabetes.csv.gz in the folder; docs/experiments.md says what comes out. (Domke, Gower & Garrigos 2023, "Provable
//! convergence guarantees for black-box variational inference": one sample of w a step, squared distance to the optimum.)

mod common;
#[path = "bbvi/problem.rs"]
mod problem;

use common::{Experiment, record_at, series, slope};
use faer::Mat;
use problem::{Problem, parameters, squared};
use rayon::prelude::*;
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::objective::Estimator;
use sparsegp::variational::{Family, Normal, QUpdate, RuleOptions, Schedule};
use sparsegp_tables::report::Curves;
use std::error::Error;

/// 𝓜, to which inputs are scaled.
const SMOOTHNESS: f64 = 5.0;
/// Constant steps; the one that is nearest to the optimum after this many steps is shown.
const CONSTANT: [f64; 6] = [0.2, 0.1, 0.05, 0.02, 0.01, 0.005];
const EARLY: usize = 1000;
const METHODS: [(&str, QUpdate, Estimator); 3] = [
    ("prox, energy", QUpdate::ProxSgd, Estimator::Energy { samples: 1 }),
    ("proj, entropy", QUpdate::ProjSgd, Estimator::EnergyEntropy { samples: 1 }),
    ("proj, landing", QUpdate::ProjSgd, Estimator::StickingTheLanding { samples: 1 }),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let experiment = Experiment::new("bbvi", &mut arguments)?;
    let runs = common::option(&mut arguments, "--runs", 10)?;
    let steps = common::option(&mut arguments, "--steps", 50_000)?;
    let (at, early) = (record_at(steps, 8), record_at(EARLY, 8));
    for (name, kind) in [("concrete", LikelihoodKind::Gaussian), ("diabetes", LikelihoodKind::BernoulliLogit)]
    {
        let Some(data) = experiment.read(name, "y", Some(kind.target_kind()))? else { continue };
        // A fifth of the rows: the bounds know the data through their curvature, which is set.
        let (mut data, _) = data.split(0.8, 0)?;
        data.standardise(kind.scales_target());
        let problem = Problem::new(data, kind, SMOOTHNESS)?;
        let (d, curvature) = (problem.optimum.dim(), problem.curvature);
        let convexity = curvature.strong_convexity;
        println!(
            "{name}: {} rows, d = {d}, M = {SMOOTHNESS}, convexity {convexity:.3}",
            problem.data.y.len()
        );
        println!("method a t0 | measured recursion closed at the end | below both | slope from 4 t0");
        let mut rows: Vec<Vec<f64>> = at.iter().map(|&t| vec![t as f64]).collect();
        let mut lines = Vec::new();
        for (method, update, estimator) in METHODS {
            let lower = update == QUpdate::ProxSgd;
            let best = parameters(&problem.optimum, lower)?;
            let from_mode = squared(&best, &(problem.mode.clone(), Mat::zeros(d, d)));
            let (noise, floor, gradient) = if lower {
                let entropy = (0..d).map(|i| best.1[(i, i)].powi(-2)).sum();
                (curvature.noise_constant_energy(d), curvature.noise_floor_energy(d, from_mode), entropy)
            } else {
                let floor = curvature.noise_floor_energy_entropy(d, from_mode, 1.0);
                (curvature.noise_constant_energy_entropy(d), floor, 0.0)
            };
            let start = squared(&parameters(&Normal::standard(Family::Full, d), lower)?, &best);
            let bound = curvature.distance_bound(start, (noise, floor), gradient)?;
            let rule = RuleOptions { smoothness: Some(SMOOTHNESS), ..RuleOptions::of(update) };
            let average = |step: Schedule, at: &[usize]| -> sparsegp::Result<Vec<f64>> {
                let seeds = (0..runs as u64).into_par_iter();
                let all = seeds.map(|seed| problem.distances(estimator, (&rule, step, seed), &best, at));
                let all: Vec<Vec<f64>> = all.collect::<sparsegp::Result<_>>()?;
                Ok((0..at.len()).map(|k| all.iter().map(|run| run[k]).sum::<f64>() / runs as f64).collect())
            };
            let measured = average(curvature.step_schedule(noise), &at)?;
            let closed: Vec<f64> = at.iter().map(|&t| bound.at(t)).collect();
            let recursion: Vec<f64> = at.iter().map(|&t| bound.recursion(t)).collect();
            let holds = |k: &usize| measured[*k] <= (1.0 + 1e-12) * closed[*k].min(recursion[*k]);
            let (below, last, phase) =
                ((0..at.len()).filter(holds).count(), at.len() - 1, bound.constant_phase());
            let points = |at: &[usize], values: &[f64]| -> Vec<(f64, f64)> {
                at.iter().zip(values).map(|(t, v)| (*t as f64, *v)).collect()
            };
            let late: Vec<_> = points(&at, &measured).into_iter().filter(|p| p.0 >= 4.0 * phase).collect();
            let (m, r, c, late) = (measured[last], recursion[last], closed[last], slope(&late));
            print!("{method}: {noise:.0} {phase} | {m:.3e} {r:.3e} (×{:.0}) {c:.3e} (×{:.0})", r / m, c / m);
            println!(" | {below} of {} | {late:.2}", at.len());
            let mut tuned = (f64::INFINITY, 0.0, Vec::new());
            for step in CONSTANT {
                let distances = average(Schedule::Constant(step), &early)?;
                let end = distances[early.len() - 1];
                if end < tuned.0 {
                    tuned = (end, step, distances);
                }
            }
            let there = average(curvature.step_schedule(noise), &early)?[early.len() - 1];
            println!(
                "    after {EARLY} steps {there:.3e}; {:.3e} with constant steps of {}",
                tuned.0, tuned.1
            );
            lines.push(series(method, points(&at, &measured).into_iter()));
            lines.push(series(&format!("{method}: bound"), points(&at, &recursion).into_iter()));
            let constant = format!("{method}: constant {}", tuned.1);
            lines.push(series(&constant, points(&early, &tuned.2).into_iter()));
            rows.iter_mut().enumerate().for_each(|(k, r)| r.extend([measured[k], recursion[k], closed[k]]));
        }
        let columns = "t prox prox_recursion prox_closed entropy entropy_recursion entropy_closed landing \
                       landing_recursion landing_closed";
        let columns: Vec<&str> = columns.split_whitespace().collect();
        experiment.csv(&format!("{name}.csv"), &columns, &rows)?;
        let axes = ("iteration".to_owned(), "squared distance of (m, C)".to_owned());
        experiment.figure(
            &format!("{name}.svg"),
            &Curves { axes, log_x: true, log_y: true, series: lines, ..Curves::default() },
        )?;
    }
    Ok(())
}
