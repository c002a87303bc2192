//! Steps with a proof of convergence: the bound that is known without the optimum, compared with the distance
//! that the steps reach.

use super::problem::{METHODS, Problem, squared};
use crate::paper::{Paper, Verdict};
use sparsegp::Result;

pub fn run(paper: &mut Paper, problem: &Problem, model: &str) -> Result<()> {
    let steps = paper.setting(20_000, 2000);
    for method in &METHODS {
        let (q, guarantee) = problem.proven(method, steps)?;
        let reached = squared(&method.parameters(&q)?, &method.parameters(&problem.optimum)?);
        paper.claim(
            &format!("{model}: proven steps of {}", method.update),
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
