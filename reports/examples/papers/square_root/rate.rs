//! Theorems 2 and 3 with our constants: the contraction of plain SR-VN on a logistic model, and the error that
//! wrong gradients leave, compared with their bounds.

use crate::paper::prelude::*;
use crate::roots::{self, Way};
use sparsegp::variational::{DataGradient, MatrixRef};
use sparsegp_research::SquareRootRate;

fn data() -> Data {
    let mut draw = normals(8);
    let x = Mat::from_fn(3, 100, |_, _| 0.5 * draw());
    let y = x.col_iter().map(|x| f64::from(x[0] - x[1] + draw() > 0.0)).collect();
    Data { x, y }
}

/// Returns the smallest and the largest eigenvalue of S.
fn extremes(q: &Normal) -> (f64, f64) {
    symmetric_eigen(q.cov().to_dense().as_ref())
        .map_or((f64::NAN, f64::NAN), |(values, _)| (values[0], values[values.len() - 1]))
}

fn plain() -> RuleOptions {
    RuleOptions { guard: Guard::None, ..RuleOptions::of(QUpdate::SrVn) }
}

/// Theorem 2: the largest factor of F − F* in a step.
pub fn run(paper: &mut Paper) -> Result<()> {
    let data = data();
    let prior = Mat::<f64>::identity(3, 3);
    let curvature = Curvature::logistic(data.x.transpose(), prior.as_ref())?;
    let model = data.model(Bernoulli::Logit, 1.0)?;
    let (_, optimum) = data.optimum(model.clone(), 1.0)?;
    // S stays between 1/𝓜, the bound at the optimum, and the prior.
    let rate = SquareRootRate::new(curvature, 1.0 / curvature.smoothness, 1.0, 1.0)?;
    let step = rate.best_step();
    let options = InferenceOptions::full_batch(plain(), Schedule::Constant(step));
    let mut run = data.infer(model.clone(), Estimator::Exact, options);
    let all: Vec<usize> = (0..=300).collect();
    let seen = trace(&mut run, &all, |run| (extremes(run.q()), run.objective() - optimum));
    if seen.iter().any(|((low, high), _)| *low < 1.0 / curvature.smoothness || *high > 1.0 + 1e-9) {
        return Err(Error::fit("the covariance leaves the range that the rate assumes"));
    }
    let factors = seen.windows(2).filter(|pair| pair[0].1 > 1e-9).map(|pair| pair[1].1 / pair[0].1);
    let worst = factors.fold(0.0, f64::max);
    paper.settings(format!(
        "Rate: logistic model, 100 rows, d = 3, prior N(0, I), 𝓜 = {:.1}, ϖ = {:.1}, plain SR-VN with its best proven step {step:.4} (the \
         paper has no such run).",
        curvature.smoothness, curvature.strong_convexity
    ));
    let bound = rate.contraction(step);
    let claim =
        "exact SR-VN contracts F − F* in every step for strongly convex energies (Theorem 2, constants ours)";
    let ours = format!("largest factor {worst:.4}, bound {bound:.4}");
    paper.judge(claim, "linear rate", ours, Compared::at_most(worst, bound, 0.0)).expect(0.0..=bound);
    let lower = roots::trace(
        (&data, model.clone()),
        &Normal::standard(Family::Full, 3),
        Way::Lower,
        (step, 300),
        |value, _| value,
    );
    let what = "our SR-VN less the library's, F after 300 steps";
    paper.expect(what, lower[300] - optimum - seen[300].1, -1e-9..=1e-9);
    roots::rates(paper, (&data, &model), optimum, (step, bound))?;
    let (mut largest, mut text) = (0.0f64, Vec::new());
    for d in [1, 2, 4] {
        let ratio = [(1e-2, 0.0), (0.0, 1e-2), (1e-2, 1e-2), (0.0, -1e-2)].map(|errors| floor(d, errors));
        let ratio = ratio.into_iter().collect::<Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
        largest = largest.max(ratio);
        text.push(format!("{ratio:.3} (d = {d}, condition number {d})"));
    }
    let claim =
        "errors of known size in gradient and Hessian leave F − F* below a bound (Theorem 3, constants ours)";
    let ours = format!("largest F − F* in the limit over its bound: {}", text.join(", "));
    paper.judge(claim, "bounded bias", ours, Compared::at_most(largest, 1.0, 0.0)).expect(0.3..=1.0);
    Ok(())
}

/// Returns F − F* in the limit of plain SR-VN, over its bound, for a normal posterior of precisions 2 to 2d if
/// the gradient and the Hessian have these errors in the direction of the least precision.
fn floor(d: usize, (slope, hessian): (f64, f64)) -> Result<f64> {
    let precision = |i: usize| 2.0 + 2.0 * i as f64;
    let variances = Mat::from_fn(d, d, |i, j| if i == j { 1.0 / precision(i) } else { 0.0 });
    let posterior = Normal::new(vec![0.0; d], variances)?;
    let mut q = posterior.clone();
    let mut rule = plain().build(&q);
    let error = |i: usize, size: f64| if i == 0 { size } else { 0.0 };
    let half = |i: usize| 0.5 * (precision(i) - 1.0 + error(i, hessian));
    let cov = Mat::from_fn(d, d, |i, j| if i == j { half(i) } else { 0.0 });
    let (mut least, mut most) = extremes(&q);
    for _ in 0..1000 {
        let slope = |(i, m): (usize, &f64)| (precision(i) - 1.0) * m + error(i, slope);
        let mean: Vec<f64> = q.mean().iter().enumerate().map(slope).collect();
        let cov = MatrixRef::Full(cov.as_ref());
        rule.step(&mut q, DataGradient { mean: &mean, cov, curvature: None, path: None }, 1.0, 0.1);
        let (low, high) = extremes(&q);
        (least, most) = (least.min(low), most.max(high));
    }
    let curvature = Curvature { smoothness: precision(d - 1), strong_convexity: precision(0) };
    let bound = SquareRootRate::new(curvature, least, most, 1.0)?.bias(slope, hessian.abs())?;
    Ok(q.kl_to(&posterior) / bound)
}
