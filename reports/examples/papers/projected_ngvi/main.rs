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

use clap::Parser;
use paper::{Paper, PaperArgs, data};

/// The figures and claims of Guilmeau, Hendrikx & Forbes 2026.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    paper: PaperArgs,
    /// Number of runs of each schedule [default: 100].
    #[arg(long)]
    runs: Option<u64>,
}

fn main() -> sparsegp::Result<()> {
    let args = Args::parse();
    let mut paper = Paper::new("projected_ngvi", &["gaussian_iterations.", "student."], args.paper)?;
    let runs = args.runs.unwrap_or(paper.setting(100, 10));
    schedules::gaussian(&mut paper, runs)?;
    schedules::regression(&mut paper, runs)?;
    logistic::run(&mut paper, runs)?;
    student::run(&mut paper, runs)?;
    paper.finish()
}
