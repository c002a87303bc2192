//! Theorems 7 and 10: the objective at the weighted average of iterates with steps 1/(𝓜√T) and 1/√T, without using
//! strong convexity.

use super::problem::{METHODS, Method, Parameters, Problem};
use crate::paper::prelude::*;
use sparsegp_research::ConvexBound;

/// Returns the average of the iterates of a run with weights `decay^{t+1}`, over t = 1, …, T or t = 0, …, T −
/// 1.
fn averaged(
    problem: &Problem,
    method: &Method,
    run: (Schedule, u64),
    (decay, steps): (f64, usize),
) -> Result<Parameters> {
    let d = problem.optimum.dim();
    let counted = if method.lower() { 1..=steps } else { 0..=steps - 1 };
    let (mut mean, mut c, mut total) = (vec![0.0; d], Mat::<f64>::zeros(d, d), 0.0);
    problem.walk(method, run, &Vec::from_iter(counted), |t, now| {
        if let Some((m, factor)) = now {
            let weight = decay.powf(t as f64 + 1.0);
            total += weight;
            mean.iter_mut().zip(m).for_each(|(sum, m)| *sum += weight * m);
            c += Scale(weight) * factor;
        }
    })?;
    mean.iter_mut().for_each(|m| *m /= total);
    Ok((mean, Scale(1.0 / total) * c))
}

pub fn run(paper: &mut Paper, problem: &Problem, (model, steps, count): (&str, usize, u64)) -> Result<()> {
    let [proximal, projected] = &METHODS;
    let smoothness = problem.curvature.smoothness;
    for (method, theorem, name, unit) in [
        (proximal, "7", "1/(𝓜√T)", smoothness),
        (projected, "10", "1/√T", 1.0),
        (projected, "10", "1/(𝓜√T) in place of 1/√T", smoothness),
    ] {
        let known = problem.constants(method)?;
        let best = problem.objective(&known.best)?;
        let bound = ConvexBound::new(known.noise, known.start)?;
        let (mut text, mut largest) = (Vec::new(), 0.0f64);
        for horizon in [steps / 100, steps / 10, steps] {
            let step = 1.0 / (unit * (horizon as f64).sqrt());
            let (most, decay) = (bound.at(method.theorem, step, horizon), bound.decay(method.theorem, step));
            let gaps = means(count, |seed| {
                let run = (Schedule::Constant(step), seed);
                Ok(vec![[problem.objective(&averaged(problem, method, run, (decay, horizon))?)? - best]])
            })?;
            let gap = gaps[0][0];
            largest = largest.max(gap / most);
            text.push(format!("{gap:.2e} of {most:.2e} (T = {horizon})"));
        }
        let claim = format!("{model}, {}: F(θ̄) − F* with steps {name}, Theorem {theorem}", method.name);
        let ours = format!("{}; largest share of the bound", text.join(", "));
        paper.judge(&claim, "holds", ours, Compared::at_most(largest, 1.0, 0.0)).expect(0.0..=1.0);
    }
    Ok(())
}
