//! Projected stochastic natural-gradient variational inference: the figures and claims of Guilmeau, Hendrikx & Forbes 2026.
//!
//! `cargo run --release --example projected_ngvi -- DATA_FOLDER [--out DIR] [--runs N] [--quick] [--book
//! DIR]` with gas_turbine.csv.gz in the folder; docs/experiments.md shows the results.

#[path = "../paper.rs"]
mod paper;

mod logistic;
mod mean_field;
mod problem;
mod schedules;
mod student;

use paper::Paper;

fn main() -> sparsegp::Result<()> {
    let mut paper =
        Paper::new("projected_ngvi", &["gaussian_iterations.", "student."], clap::Parser::parse())?;
    let runs = paper.runs(100, 10);
    schedules::gaussian(&mut paper, runs)?;
    schedules::regression(&mut paper, runs)?;
    mean_field::run(&mut paper)?;
    logistic::run(&mut paper, runs)?;
    student::run(&mut paper, runs)?;
    paper.finish()
}
