//! `--q-step theorem`: the bound that a fit reports without knowing the optimum, compared with the distance
//! that the fit reaches.

use super::problem::{METHODS, Problem, squared};
use crate::paper::{Paper, Verdict};
use sparsegp::options::{FitOptions, Hyper, ModelKind, StepOptions};
use sparsegp::training::{TrainingData, fit_arrays};
use sparsegp::variational::Schedule;
use sparsegp::{Error, Result};

pub fn run(paper: &mut Paper, problem: &Problem, model: &str) -> Result<()> {
    let steps = paper.setting(20_000, 2000);
    for method in &METHODS {
        let options = FitOptions {
            model: ModelKind::Glm,
            likelihood: Some(problem.kind),
            hyper: Some(Hyper::Fixed),
            epochs: Some(steps),
            tolerance: Some(0.0),
            standardize: false,
            estimator: method.estimator,
            steps: StepOptions {
                q_update: method.update,
                q_step: Some(Schedule::Theorem),
                batch_size: problem.data.y.len(),
                polish: false,
                ..StepOptions::default()
            },
            ..FitOptions::default()
        };
        let start = problem.start()?;
        let fitted = fit_arrays(TrainingData::of(problem.data.set()), &options, Some(&start), &mut |_| ())?;
        let guarantee = fitted.summary.guarantee.ok_or_else(|| Error::fit("the fit reports no guarantee"))?;
        let q = &fitted.q[0];
        let reached = squared(&method.parameters(q)?, &method.parameters(&problem.optimum)?);
        paper.claim(
            &format!("{model}: `--q-step theorem` with {}", method.update),
            "the distance is below a bound known before training",
            format!(
                "{reached:.2e} after {} steps, bound {:.2e} (𝓜 = {:.2}, ϖ = {:.3}, a = {:.0})",
                guarantee.steps,
                guarantee.distance,
                guarantee.smoothness,
                guarantee.strong_convexity,
                guarantee.noise
            ),
            Verdict::of(reached <= guarantee.distance, "the distance is above the bound"),
        );
        paper.expect(
            &format!("{model}, {}: distance over its bound", method.update),
            reached / guarantee.distance,
            0.0..=1.0,
        );
    }
    Ok(())
}
