//! Variational Newton, its square-root form and Bures–Wasserstein descent: the figures and claims of Kumar, Möllenhoff, Khan & Lucchi 2025.
//!
//! `cargo run --release --example square_root -- DATA_FOLDER [--out DIR] [--steps T] [--quick] [--book DIR]`
//! with the data sets of reports/examples/papers/square_root/logistic.rs in the folder; docs/experiments.md
//! shows the results.

#[path = "../paper.rs"]
mod paper;

mod logistic;
mod problem;
mod rate;
mod regulariser;
mod toy;

use clap::Parser;
use paper::{Paper, PaperArgs, data};

/// The figures and claims of Kumar, Möllenhoff, Khan & Lucchi 2025.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    paper: PaperArgs,
    /// Number of steps of a run on logistic regression [default: 200].
    #[arg(long)]
    steps: Option<usize>,
}

fn main() -> sparsegp::Result<()> {
    let args = Args::parse();
    let mut paper = Paper::new("square_root", &["toy.", "mushroom_gap."], args.paper)?;
    let steps = args.steps.unwrap_or(paper.setting(200, 60));
    toy::run(&mut paper)?;
    rate::run(&mut paper)?;
    logistic::run(&mut paper, steps)?;
    logistic::expectations(&mut paper, steps)?;
    paper.finish()
}
