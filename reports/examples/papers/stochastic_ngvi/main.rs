//! Stochastic natural gradients against stochastic gradients: the figures and claims of Wu & Gardner 2024.
//!
//! `cargo run --release --example stochastic_ngvi -- DATA_FOLDER [--out DIR] [--steps T] [--runs N] [--quick]
//! [--book DIR]` with bike, mushroom and mnist17 (.csv.gz) in the folder; docs/experiments.md shows the results.

#[path = "../paper.rs"]
mod paper;

mod conjugate;
mod landscape;
mod logistic;

use paper::Paper;

fn main() -> sparsegp::Result<()> {
    let mut paper = Paper::new("stochastic_ngvi", &["kl.", "nlpd.", "logistic."], clap::Parser::parse())?;
    let (steps, runs) = (paper.steps(1_000_000, 3000), paper.runs(2, 4));
    conjugate::constant(&mut paper);
    landscape::run(&mut paper)?;
    conjugate::run(&mut paper, steps, runs)?;
    logistic::run(&mut paper, runs)?;
    paper.finish()
}
