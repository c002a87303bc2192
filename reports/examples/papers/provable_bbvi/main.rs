//! Proximal and projected stochastic gradients with known constants: the theorems of Domke, Garrigos & Gower
//! 2023, compared with runs.
//!
//! `cargo run --release --example provable_bbvi -- DATA_FOLDER [--out DIR] [--steps T] [--runs N] [--quick]
//! [--book DIR]` with concrete.csv.gz and diabetes.csv.gz in the folder; docs/experiments.md shows the
//! results. The paper has no experiments.

#[path = "../paper.rs"]
mod paper;

mod hierarchical;
mod problem;
mod strong;

use crate::paper::prelude::*;
use paper::Paper;
use problem::Problem;

/// The value of 𝓜 to which inputs are scaled.
const SMOOTHNESS: f64 = 5.0;

fn main() -> sparsegp::Result<()> {
    let mut paper = Paper::new("provable_bbvi", &["logistic."], clap::Parser::parse())?;
    let (runs, steps) = (paper.runs(10, 4), paper.steps(50_000, 4000));
    for (name, model, kind) in [
        ("concrete", "linear", LikelihoodKind::Gaussian),
        ("diabetes", "logistic", LikelihoodKind::BernoulliLogit),
    ] {
        let Some(data) = paper.read(name, "y", kind.target_kind())? else { continue };
        // A fifth of the rows, or 150 rows, suffice, because the bounds depend on the data only through their
        // curvature, which is fixed.
        let left_out = if paper.quick { 1.0 - 150.0 / data.y.len() as f64 } else { 0.8 };
        let (mut data, _) = data.split(left_out, 0)?;
        data.standardise(kind.scales_target());
        let problem = Problem::scaled(data, kind, SMOOTHNESS)?;
        paper.settings(format!(
            "{model} model: {}, {} rows, d = {}, prior N(0, I), inputs scaled to 𝓜 = {SMOOTHNESS} (ϖ = {:.3}), one sample of w a step, \
             from the prior, means of {runs} runs. The paper has no experiments; its constants a and b are used, those of Theorem 6 are ours.",
            paper.setting(name, "an embedded data set"), problem.data.y.len(), problem.optimum.dim(), problem.curvature.strong_convexity
        ));
        strong::run(&mut paper, &problem, (model, steps, runs))?;
        strong::convex(&mut paper, &problem, (model, steps / 5, runs))?;
        strong::proven(&mut paper, &problem, model)?;
    }
    hierarchical::run(&mut paper, runs)?;
    paper.finish()
}
