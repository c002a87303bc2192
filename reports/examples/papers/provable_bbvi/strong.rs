//! Theorems 6 and 9: squared distances from the optimum with decreasing and with constant steps, compared
//! with the bounds.

use super::problem::{METHODS, Method, Parameters, Problem, squared};
use crate::data::{means, record_at, series, slope, trace};
use crate::paper::{Axes, Compared, Paper, short};
use sparsegp::Result;
use sparsegp::objective::Estimator;
use sparsegp::variational::{QUpdate, Schedule};
use sparsegp_reports::CurveSeries;

/// The third method, sticking the landing, has no theorem.
const LANDING: Method = Method {
    name: "proj, sticking the landing",
    steps: "",
    update: QUpdate::ProjSgd,
    estimator: Estimator::StickingTheLanding { samples: 1 },
};

/// Returns the mean over runs of squared distances.
fn mean(
    problem: &Problem,
    (method, step): (&Method, Schedule),
    count: u64,
    at: &[usize],
) -> Result<Vec<f64>> {
    let best = method.parameters(&problem.optimum)?;
    // S has no factor if steps were too long.
    let distance = |now: Result<Parameters>| now.map_or(f64::INFINITY, |now| squared(&now, &best));
    let means = means(count, |seed| {
        let mut run = problem.start(method, step, seed)?;
        Ok(trace(&mut run, at, |run| [distance(method.parameters(run.q()))]))
    })?;
    Ok(means.into_iter().map(|[distance]| distance).collect())
}

pub fn run(paper: &mut Paper, problem: &Problem, (model, steps, count): (&str, usize, u64)) -> Result<()> {
    let at = record_at(steps, 8);
    let last = at.len() - 1;
    let mut lines: Vec<CurveSeries> = Vec::new();
    let mut schedule = Schedule::Constant(0.0);
    let points = |values: &[f64]| at.iter().map(|t| *t as f64).zip(values.to_vec()).collect::<Vec<_>>();
    for (method, equations) in METHODS.iter().zip([["(11)", "(10)"], ["(13)", "(12)"]]) {
        let known = problem.constants(method)?;
        let bound = problem.curvature.distance_bound(known.start, known.noise, known.gradient)?;
        schedule = bound.schedule();
        let measured = mean(problem, (method, schedule), count, &at)?;
        let recursion: Vec<f64> = at.iter().map(|&t| bound.recursion(t)).collect();
        let closed: Vec<f64> = at.iter().map(|&t| bound.at(t)).collect();
        let step = problem.curvature.strong_convexity / (2.0 * known.noise.constant);
        let fixed = mean(problem, (method, Schedule::Constant(step)), count, &at)?;
        let limits: Vec<f64> = at.iter().map(|&t| bound.with_constant_step(step, t)).collect();
        let least: Vec<f64> = recursion.iter().zip(&closed).map(|(a, b)| a.min(*b)).collect();
        for (kind, equation, measured, bound) in [
            (method.steps, equations[0], &measured, &least),
            ("constant steps ϖ/(2a)", equations[1], &fixed, &limits),
        ] {
            let ratios = measured.iter().zip(bound).skip(1).map(|(measured, bound)| measured / bound);
            let largest = ratios.fold(0.0, f64::max);
            paper.judge(
                &format!(
                    "{model}, {}: {kind}, eq. {equation} in our constants, bound E‖θ_T − θ*‖²",
                    method.name
                ),
                "holds for all T",
                format!(
                    "{} of its bound after {steps} steps; largest share of the bound after T ≥ 1 steps",
                    short(measured[last] / bound[last])
                ),
                Compared::at_most(largest, 1.0, 0.0),
                "",
            );
            paper.expect(
                &format!("{model}, {}: {kind}, share of the bound", method.name),
                largest,
                0.0..=1.0,
            );
        }
        let turn = bound.constant_phase();
        let late: Vec<_> = points(&measured).into_iter().filter(|p| p.0 >= 4.0 * turn).collect();
        if late.len() >= 4 {
            paper.judge(
                &format!("{model}, {}: the rate is 1/T", method.name),
                "slope −1",
                format!("slope from four times the constant phase of {turn:.0} steps on"),
                Compared::near(slope(late), -1.0, 0.25),
                "",
            );
        }
        let row = |k: usize| [at[k] as f64, measured[k], recursion[k], closed[k], fixed[k], limits[k]];
        let columns = ["t", "decreasing", "recursion", "closed", "constant", "constant_bound"];
        let rows: Vec<[f64; 6]> = (0..=last).map(row).collect();
        paper.csv(&format!("{model}_{}.csv", method.name), &columns, &rows)?;
        for (name, values) in [("measured", &measured), ("bound", &recursion), ("constant step", &fixed)] {
            lines.push(series(&format!("{}: {name}", method.name), points(values)));
        }
    }
    // The steps of the last method, projected gradients.
    let landing = mean(problem, (&LANDING, schedule), count, &at)?;
    let energy = lines[3].points[last].1;
    paper.judge(
        &format!("{model}: sticking the landing has less noise near a Gaussian posterior (conjecture of §5)"),
        "less (we ask for a tenth)",
        format!("{:.2e} over {energy:.2e} after {steps} steps of the same sizes", landing[last]),
        Compared::at_most(landing[last] / energy, 0.1, 0.0),
        "",
    );
    paper.figure(&format!("{model}.svg"), ("iteration", "squared distance of (m, C)"), Axes::LogLog, lines)
}
