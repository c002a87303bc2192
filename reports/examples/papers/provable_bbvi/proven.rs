//! Steps with a proof of convergence: a check, without a row in the table, that the distance that they reach is below
//! the bound that is known without the optimum. The bound is a thousand times the distance, so it tests no claim.

use super::problem::{METHODS, Problem, squared};
use crate::paper::Paper;
use sparsegp::Result;

pub fn run(paper: &mut Paper, problem: &Problem, model: &str) -> Result<()> {
    for method in &METHODS {
        let (q, guarantee) = problem.proven(method, 2000)?;
        let reached = squared(&method.parameters(&q)?, &method.parameters(&problem.optimum)?);
        let share = reached / guarantee.distance;
        paper.expect(&format!("{model}, {}: distance over its bound", method.update), share, 0.0..=1.0);
    }
    Ok(())
}
