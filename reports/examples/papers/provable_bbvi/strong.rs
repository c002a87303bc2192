//! Theorems 6 and 9 and Corollary 30: squared distances from the optimum with decreasing and with constant steps,
//! compared with the bounds; and Theorems 7 and 10.

use super::problem::{Constants, METHODS, Method, Parameters, Problem, squared};
use crate::paper::prelude::*;
use sparsegp_research::ConvexBound;

/// The third method, sticking the landing, has no theorem.
const LANDING: Method = Method {
    name: "proj, sticking the landing",
    steps: "",
    theorem: Theorem::Projected,
    update: QUpdate::ProjSgd,
    estimator: Estimator::StickingTheLanding { samples: 1 },
};

pub fn mean(
    problem: &Problem,
    (method, step): (&Method, Schedule),
    count: u64,
    at: &[usize],
) -> Result<Vec<f64>> {
    let best = method.parameters(&problem.optimum)?;
    let means =
        means(count, |seed| {
            problem.walk(method, (step, seed), at, |_, now| {
                [now.map_or(f64::INFINITY, |now| squared(now, &best))]
            })
        })?;
    Ok(means.into_iter().map(|[distance]| distance).collect())
}

pub fn run(paper: &mut Paper, problem: &Problem, (model, steps, count): (&str, usize, u64)) -> Result<()> {
    let at = record_at(steps, 8);
    let last = at.len() - 1;
    let mut lines: Vec<CurveSeries> = Vec::new();
    let (mut schedule, mut reached) = (Schedule::Constant(0.0), f64::NAN);
    for (method, equations) in METHODS.iter().zip([["(11)", "(10)"], ["(13)", "(12)"]]) {
        let known = problem.constants(method)?;
        let bound = problem.curvature.distance_bound(known.start, known.noise, known.gradient)?;
        let step = problem.curvature.strong_convexity / (2.0 * known.noise.constant);
        schedule = bound.schedule();
        let decreasing = mean(problem, (method, schedule), count, &at)?;
        let constant = mean(problem, (method, Schedule::Constant(step)), count, &at)?;
        reached = decreasing[last];
        let row = |k: usize| {
            let t = at[k];
            let limit = bound.with_constant_step(step, t);
            [t as f64, decreasing[k], bound.recursion(t), bound.at(t), constant[k], limit]
        };
        let rows: Vec<[f64; 6]> = (0..=last).map(row).collect();
        let columns = ["t", "decreasing", "recursion", "closed", "constant", "constant_bound"];
        paper.csv(&format!("{model}_{}.csv", method.name), &columns, &rows)?;
        let shares: [fn(&[f64; 6]) -> f64; 2] = [|row| row[1] / row[2].min(row[3]), |row| row[4] / row[5]];
        for ((kind, equation), share) in
            [method.steps, "constant steps ϖ/(2a)"].into_iter().zip(equations).zip(shares)
        {
            let largest = rows.iter().skip(1).map(share).fold(0.0, f64::max);
            let end = short(share(&rows[last]));
            let name = method.name;
            let claim =
                format!("{model}, {name}: {kind}, eq. {equation} in our constants, bound E‖θ_T − θ*‖²");
            let ours = format!(
                "{end} of its bound after {steps} steps; largest share of the bound after T ≥ 1 steps"
            );
            let compared = Compared::at_most(largest, 1.0, 0.0);
            paper.judge(&claim, "holds for all T", ours, compared).expect(0.0..=1.0);
        }
        let turn = bound.constant_phase();
        let late: Vec<_> =
            rows.iter().filter(|row| row[0] >= 4.0 * turn).map(|row| (row[0], row[1])).collect();
        if late.len() >= 4 {
            let claim = format!("{model}, {}: the rate is 1/T", method.name);
            let ours = format!("slope from four times the constant phase of {turn:.0} steps on");
            paper.judge(&claim, "slope −1", ours, Compared::near(slope(late), -1.0, 0.25));
        }
        for (name, column) in [("measured", 1), ("bound", 2), ("constant step", 4)] {
            let points = rows.iter().map(|row| (row[0], row[column]));
            lines.push(series(&format!("{}: {name}", method.name), points));
        }
    }
    logarithmic(paper, problem, (model, steps, count))?;
    // The steps of the last method, projected gradients.
    let landing = mean(problem, (&LANDING, schedule), count, &at)?;
    let claim =
        format!("{model}: sticking the landing has less noise near a Gaussian posterior (conjecture of §5)");
    let ours = format!("{:.2e} over {reached:.2e} after {steps} steps of the same sizes", landing[last]);
    let compared = Compared::at_most(landing[last] / reached, 0.1, 0.0);
    paper.judge(&claim, "less (we ask for a tenth)", ours, compared);
    paper.figure(&format!("{model}.svg"), ("iteration", "squared distance of (m, C)"), Axes::LogLog, lines)
}

/// Claims Corollary 30, constant proximal steps log T/(ϖT), for the smallest and the largest T that it covers.
fn logarithmic(
    paper: &mut Paper,
    problem: &Problem,
    (model, steps, count): (&str, usize, u64),
) -> Result<()> {
    let (method, of) = (&METHODS[0], problem.curvature);
    let Constants { start, noise, from_mode, .. } = problem.constants(method)?;
    let pace = |horizon: usize| (horizon as f64).ln() / horizon as f64;
    let covered = |horizon: &usize| 2.0 * noise.constant * pace(*horizon) <= of.strong_convexity.powi(2);
    let Some(first) = (3..=steps).find(covered) else { return Ok(()) };
    let (mut text, mut largest) = (Vec::new(), 0.0f64);
    for horizon in [first, steps] {
        let step = pace(horizon) / of.strong_convexity;
        let reached = mean(problem, (method, Schedule::Constant(step)), count, &[horizon + 1])?[0];
        let variance = noise.floor + of.smoothness.powi(2) * from_mode;
        let bound = start / horizon as f64 + 2.0 * step * variance / of.strong_convexity;
        largest = largest.max(reached / bound);
        text.push(format!(
            "{reached:.2e} of {bound:.2e} (T = {horizon}; {} log T/T)",
            short(reached / pace(horizon))
        ));
    }
    let claim =
        format!("{model}, prox: constant steps log T/(ϖT), Corollary 30, bound E‖θ_T₊₁ − θ*‖² by O(log T/T)");
    let ours = format!("{}; largest share of the bound", text.join(", "));
    paper.judge(&claim, "holds", ours, Compared::at_most(largest, 1.0, 0.0));
    Ok(())
}

/// Checks, without a row in the table, that the distance that steps with a proof of convergence reach is below the bound
/// that is known without the optimum. The bound is a thousand times the distance, so it tests no claim.
pub fn proven(paper: &mut Paper, problem: &Problem, model: &str) -> Result<()> {
    for method in &METHODS {
        let (q, bound) = problem.proven(method, 2000)?;
        let reached = squared(&method.parameters(&q)?, &method.parameters(&problem.optimum)?);
        let what = format!("{model}, {}: distance over its bound", method.update);
        paper.expect(&what, reached / bound, 0.0..=1.0);
    }
    Ok(())
}

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

/// Theorems 7 and 10: the objective at the weighted average of iterates with steps 1/(𝓜√T) and 1/√T, without using strong convexity.
pub fn convex(paper: &mut Paper, problem: &Problem, (model, steps, count): (&str, usize, u64)) -> Result<()> {
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
