//! Direct loss minimisation: learning curves, β, estimators and their bias, as in Wei, Sheth & Khardon 2021.
//!
//! `cargo run --release --example dlm -- DATA_FOLDER [--out DIR] [--repeats N] [--sizes A,B] [--betas LIST]
//! [--sets A,B] [--quick] [--book DIR]` with the data sets of reports/examples/papers/dlm/curves.rs in the
//! folder; docs/experiments.md shows the results. Fits that are already in the output folder are not
//! repeated.

#[path = "../paper.rs"]
mod paper;

mod bias;
mod curves;
mod estimators;
mod rules;

use curves::Wanted;
use paper::{Paper, common};

fn main() -> sparsegp::Result<()> {
    let (mut paper, mut arguments) = Paper::new("dlm")?;
    let mut text = |name: &str, default: &str| common::option(&mut arguments, name, default.to_owned());
    let sizes = text("--sizes", paper.setting("250,500,1000,2000", "200"))?;
    let betas = text("--betas", paper.setting("auto", "10,0.1"))?;
    let sets = text("--sets", "")?;
    let repeats = common::option(&mut arguments, "--repeats", paper.setting(5, 1))?;
    Paper::refuse_rest(&arguments)?;
    let numbers = sizes.split(',').map(|size| size.parse().map_err(|_| expected(&sizes)));
    let wanted = Wanted {
        sizes: numbers.collect::<sparsegp::Result<_>>()?,
        betas: betas.parse()?,
        repeats,
        sets: sets.split(',').filter(|set| !set.is_empty()).map(str::to_owned).collect(),
    };
    bias::run(&mut paper)?;
    rules::run(&mut paper)?;
    estimators::run(&mut paper)?;
    curves::run(&mut paper, &wanted)?;
    paper.finish()
}

fn expected(sizes: &str) -> sparsegp::Error {
    sparsegp::Error::usage(format!("--sizes is '{sizes}', expected whole numbers with commas between them"))
}
