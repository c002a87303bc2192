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
mod roots;
mod toy;

use paper::Paper;

fn main() -> sparsegp::Result<()> {
    let mut paper = Paper::new("square_root", &["toy.", "mushroom_gap."], clap::Parser::parse())?;
    let steps = paper.steps(200, 60);
    toy::run(&mut paper)?;
    rate::run(&mut paper)?;
    logistic::run(&mut paper, steps)?;
    logistic::expectations(&mut paper, steps)?;
    paper.finish()
}
