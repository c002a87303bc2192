//! Projected stochastic natural-gradient variational inference: the figures and claims of Guilmeau, Hendrikx & Forbes 2026.
//!
//! `cargo run --release --example projected_ngvi -- DATA_FOLDER [--out DIR] [--runs N] [--quick] [--book
//! DIR]` with gas_turbine.csv.gz in the folder; docs/experiments.md shows the results.

#[path = "../paper.rs"]
mod paper;

mod logistic;
mod problem;
mod schedules;
mod student;

use paper::{Paper, common};

fn main() -> sparsegp::Result<()> {
    let (mut paper, mut arguments) = Paper::new("projected_ngvi")?;
    let hundred = paper.setting(100, 20);
    let runs = common::option(&mut arguments, "--runs", hundred)?;
    Paper::refuse_rest(&arguments)?;
    schedules::gaussian(&mut paper, runs)?;
    schedules::regression(&mut paper, runs)?;
    logistic::run(&mut paper, runs.div_ceil(2))?;
    student::run(&mut paper, runs.div_ceil(2))?;
    paper.finish()
}
