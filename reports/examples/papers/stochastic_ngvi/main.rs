//! Stochastic natural gradients against stochastic gradients: the figures and claims of Wu & Gardner 2024, and all rules on sparse GPs.
//!
//! `cargo run --release --example stochastic_ngvi -- DATA_FOLDER [--out DIR] [--steps T] [--runs N] [--epochs
//! E] [--quick] [--book DIR]` with bike, mushroom, mnist17, magic, bike_count and kin40k (.csv.gz) in the
//! folder; docs/experiments.md shows the results.

#[path = "../paper.rs"]
mod paper;

mod conjugate;
mod logistic;
mod rules;

use paper::{Paper, common};

fn main() -> sparsegp::Result<()> {
    let (mut paper, mut arguments) = Paper::new("stochastic_ngvi")?;
    let (steps, runs, epochs) = (paper.setting(1_000_000, 3000), paper.setting(2, 4), paper.setting(20, 5));
    let steps = common::option(&mut arguments, "--steps", steps)?;
    let runs = common::option(&mut arguments, "--runs", runs)?;
    let epochs = common::option(&mut arguments, "--epochs", epochs)?;
    Paper::refuse_rest(&arguments)?;
    conjugate::constant(&mut paper);
    conjugate::run(&mut paper, steps, runs)?;
    logistic::run(&mut paper, runs)?;
    rules::run(&mut paper, epochs)?;
    paper.finish()
}
