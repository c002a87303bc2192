//! Stochastic natural gradients against stochastic gradients: the figures and claims of Wu & Gardner 2024.
//!
//! `cargo run --release --example stochastic_ngvi -- DATA_FOLDER [--out DIR] [--steps T] [--runs N] [--quick]
//! [--book DIR]` with bike, mushroom and mnist17 (.csv.gz) in the folder; docs/experiments.md shows the results.

#[path = "../paper.rs"]
mod paper;

mod conjugate;
mod landscape;
mod logistic;

use clap::Parser;
use paper::{Paper, PaperArgs, data};

/// The figures and claims of Wu & Gardner 2024.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    paper: PaperArgs,
    /// Number of steps of linear regression [default: 1000000].
    #[arg(long)]
    steps: Option<usize>,
    /// Number of runs of each rule [default: 2].
    #[arg(long)]
    runs: Option<u64>,
}

fn main() -> sparsegp::Result<()> {
    let args = Args::parse();
    let mut paper = Paper::new("stochastic_ngvi", &["kl.", "nlpd.", "logistic."], args.paper)?;
    let steps = args.steps.unwrap_or(paper.setting(1_000_000, 3000));
    let runs = args.runs.unwrap_or(paper.setting(2, 4));
    conjugate::constant(&mut paper);
    landscape::run(&mut paper)?;
    conjugate::run(&mut paper, steps, runs)?;
    logistic::run(&mut paper, runs)?;
    paper.finish()
}
