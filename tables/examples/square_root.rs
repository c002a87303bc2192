//! Variational Newton, its square-root form and Bures–Wasserstein descent on Bayesian logistic regression.
//!
//! `cargo run --release --example square_root -- DATA_FOLDER [--out DIR] [--steps T] [--runs SPLITS] [--set NAME]` with the data
//! sets below as NAME.csv.gz; docs/experiments.md says what comes out. (Kumar, Möllenhoff, Khan & Lucchi 2025,
//! "Optimization Guarantees for Square-Root Natural-Gradient Variational Inference": exact full-batch gradients.)

mod common;
#[path = "square_root/problem.rs"]
mod problem;
#[path = "square_root/regulariser.rs"]
mod regulariser;

use common::Experiment;
use problem::{Problem, Trace};
use sparsegp::likelihood::TargetKind;
use sparsegp::variational::{Family, QUpdate};
use sparsegp_tables::report::Curves;
use std::error::Error;

/// Name, the prior precision λ, the family, the weight of the non-convex regulariser per row, and what divides the steps.
const SETS: [(&str, f64, Family, f64, usize); 11] = [
    ("australian_scale", 1.0, Family::Full, 0.0, 1),
    ("diabetes", 1.0, Family::Full, 0.0, 1),
    ("breast_cancer_scale", 1.0, Family::Full, 0.0, 1),
    ("mushroom", 1.0, Family::Full, 0.0, 2),
    ("phishing", 1.0, Family::Full, 0.0, 2),
    ("leukemia", 100.0, Family::Full, 0.0, 1),
    ("leukemia", 100.0, Family::Diagonal, 0.0, 1),
    ("mnist17", 100.0, Family::Full, 0.0, 4),
    ("australian_scale", 1.0, Family::Full, 0.1, 1),
    ("diabetes", 1.0, Family::Full, 0.1, 1),
    ("breast_cancer_scale", 1.0, Family::Full, 0.1, 1),
];
const MIXING: [f64; 6] = [1.0, 0.5, 0.2, 0.1, 0.05, 0.02];
const METHODS: [(&str, QUpdate, [f64; 6]); 3] = [
    ("VN", QUpdate::Ngd, MIXING),
    ("SR-VN", QUpdate::SrVn, MIXING),
    ("BW-GD", QUpdate::BwGd, [16.0, 8.0, 4.0, 2.0, 1.0, 0.5]),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let experiment = Experiment::new("square_root", &mut arguments)?;
    let steps = common::option(&mut arguments, "--steps", 200)?;
    let splits = common::option(&mut arguments, "--runs", 1)?;
    let only = common::option(&mut arguments, "--set", String::new())?;
    println!("set split method step ELBO/n test-NLL accuracy seconds-to-1e-3 iterations-to-1e-3 shrunk");
    for (name, lambda, family, weight, share) in SETS {
        let kind = match (family, weight) {
            (Family::Diagonal, _) => "-diagonal",
            (_, weight) if weight > 0.0 => "-nonconvex",
            _ => "",
        };
        let label = format!("{name}{kind}");
        if !only.is_empty() && only != label {
            continue;
        }
        let Some(data) = experiment.read(name, "y", Some(TargetKind::Binary))? else { continue };
        let before = peak_memory();
        for split in 0..splits {
            let (mut train, mut test) = data.split(0.2, split as u64)?;
            train.standardise(false).scale_inputs(test.x.as_mut().transpose_mut());
            let problem = Problem::new((&train, &test), lambda, family, weight)?;
            let mut best: Vec<Trace> = Vec::new();
            for (_, update, grid) in METHODS {
                let runs: Vec<Trace> =
                    grid.iter().map(|step| problem.trace(update, *step, steps / share)).collect();
                // The least end; among ends that differ by less than 1e-6 the first one.
                let end = runs.iter().map(Trace::end).fold(f64::INFINITY, f64::min);
                let ends = runs.into_iter().filter(|run| run.end() <= end + 1e-6);
                best.extend(ends.min_by_key(|run| run.reached(end + 1e-3).map(|row| row[0] as usize)));
            }
            let least = best.iter().flat_map(|t| &t.rows).fold(f64::INFINITY, |a, row| a.min(row[2]));
            for ((method, ..), run) in METHODS.iter().zip(&best) {
                let reached = run.reached(least + 1e-3);
                let dash = |k: usize, p: usize| reached.map_or("-".into(), |row| format!("{:.p$}", row[k]));
                let nll = run.rows[run.rows.len() - 1][3];
                print!(
                    "{label} {split} {method} {} {:.5} {nll:.4} {:.4} ",
                    run.step,
                    -run.end(),
                    run.accuracy
                );
                println!("{} {} {}", dash(1, 3), dash(0, 0), run.shrunk);
                let file = format!("{label}_{split}_{method}.csv");
                experiment.csv(&file, &["t", "seconds", "negative_elbo", "test_nll"], &run.rows)?;
            }
            for (file, x, y, axes) in [
                ("gap", 0, 2, ("iteration", "−ELBO per datum, above the least")),
                ("gap_time", 1, 2, ("seconds", "−ELBO per datum, above the least")),
                ("nll", 0, 3, ("iteration", "test NLL")),
                ("nll_time", 1, 3, ("seconds", "test NLL")),
            ] {
                let least = if y == 2 { least } else { 0.0 };
                let series =
                    METHODS.iter().zip(&best).map(|((name, ..), run)| run.curve(name, (x, y), least));
                let axes = (axes.0.to_owned(), axes.1.to_owned());
                let curves =
                    Curves { axes, log_x: true, log_y: true, series: series.collect(), ..Curves::default() };
                experiment.figure(&format!("{label}_{split}_{file}.svg"), &curves)?;
            }
        }
        println!(
            "{label}: peak memory {before:.0} MiB after reading, {:.0} MiB after training",
            peak_memory()
        );
    }
    Ok(())
}

/// The peak resident memory so far in MiB; NaN where the system does not tell.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
    line.and_then(|line| line.trim().parse::<f64>().ok()).map_or(f64::NAN, |k| k / 1024.0)
}
