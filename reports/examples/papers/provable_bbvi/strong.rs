//! Theorems 6 and 9: squared distances from the optimum with decreasing and with constant steps, compared
//! with the bounds.

use super::problem::{METHODS, Method, Parameters, Problem, squared};
use crate::data::{means, record_at, series, slope, trace};
use crate::paper::{Axes, Paper, Verdict};
use sparsegp::Result;
use sparsegp::objective::Estimator;
use sparsegp::variational::{QUpdate, Schedule};
use sparsegp_reports::CurveSeries;

/// The third method, sticking the landing, has no theorem.
const LANDING: Method = Method {
    name: "proj, sticking the landing",
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
    for (method, (decreasing, constant)) in METHODS.iter().zip([("(11)", "(10)"), ("(13)", "(12)")]) {
        let known = problem.constants(method)?;
        let bound = problem.curvature.distance_bound(known.start, known.noise, known.gradient)?;
        schedule = bound.schedule();
        let measured = mean(problem, (method, schedule), count, &at)?;
        let recursion: Vec<f64> = at.iter().map(|&t| bound.recursion(t)).collect();
        let closed: Vec<f64> = at.iter().map(|&t| bound.at(t)).collect();
        let above = (0..=last).filter(|&k| measured[k] > (1.0 + 1e-12) * closed[k].min(recursion[k])).count();
        let turn = bound.constant_phase();
        let points = |values: &[f64]| at.iter().map(|t| *t as f64).zip(values.to_vec()).collect::<Vec<_>>();
        let late: Vec<_> = points(&measured).into_iter().filter(|p| p.0 >= 4.0 * turn).collect();
        paper.claim(
            &format!("{model}, {}: decreasing steps, eq. {decreasing} in our constants, bound ‖θ_T − θ*‖²", method.name),
            "holds for all T",
            format!(
                "{} of {} records below; {:.2e} after {steps} steps, bounds {:.2e} (recursion) and {:.2e} (closed)",
                last + 1 - above, last + 1, measured[last], recursion[last], closed[last]
            ),
            Verdict::of(above == 0, "some records are above"),
        );
        paper.expect(&format!("{model}, {}: records above the bound", method.name), above as f64, 0.0..=0.0);
        if late.len() >= 4 {
            let rate = slope(late);
            paper.claim(
                &format!("{model}, {}: the rate is 1/T", method.name),
                "slope −1",
                format!("slope {rate:.2} from four times the constant phase of {turn:.0} steps on"),
                Verdict::of((rate + 1.0).abs() < 0.25, "the slope is another"),
            );
        }
        let step = problem.curvature.strong_convexity / (2.0 * known.noise.constant);
        let fixed = mean(problem, (method, Schedule::Constant(step)), count, &at)?;
        let limits: Vec<f64> = at.iter().map(|&t| bound.with_constant_step(step, t)).collect();
        let above = (0..=last).filter(|&k| fixed[k] > (1.0 + 1e-12) * limits[k]).count();
        paper.claim(
            &format!("{model}, {}: constant steps ϖ/(2a), eq. {constant}", method.name),
            "holds, with a floor",
            format!(
                "{} of {} records below; {:.2e} at the end, bound {:.2e}",
                last + 1 - above,
                last + 1,
                fixed[last],
                limits[last]
            ),
            Verdict::of(above == 0, "some records are above"),
        );
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
    paper.claim(
        &format!("{model}: sticking the landing may have less noise (remark)"),
        "no theorem",
        format!("{:.2e} instead of {energy:.2e} after {steps} steps of the same sizes", landing[last]),
        Verdict::of(landing[last] < energy, "it has more"),
    );
    paper.figure(&format!("{model}.svg"), ("iteration", "squared distance of (m, C)"), Axes::LogLog, lines)
}
