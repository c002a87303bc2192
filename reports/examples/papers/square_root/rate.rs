//! Theorems 2 and 3 with our constants: the contraction of plain SR-VN on a logistic model, compared with its
//! bound.

use crate::data::Data;
use crate::paper::common::normals;
use crate::paper::{Paper, Verdict};
use faer::Mat;
use sparsegp::Result;
use sparsegp::likelihood::BernoulliLogit;
use sparsegp::linalg::symmetric_eigen;
use sparsegp::objective::Estimator;
use sparsegp::training::InferenceOptions;
use sparsegp::variational::{Guard, Normal, QUpdate, RuleOptions, Schedule};
use sparsegp_research::{Curvature, SquareRootRate};

/// Returns 100 rows of three inputs with random labels.
fn data() -> Data {
    let mut draw = normals(8);
    let x = Mat::from_fn(3, 100, |_, _| 0.5 * draw());
    let y = x.col_iter().map(|x| f64::from(x[0] - x[1] + draw() > 0.0)).collect();
    Data { x, y }
}

/// Returns the smallest and the largest eigenvalue of S.
fn extremes(q: &Normal) -> (f64, f64) {
    let values = symmetric_eigen(q.cov().to_dense().as_ref()).map(|(values, _)| values).unwrap_or_default();
    (values.first().copied().unwrap_or(f64::NAN), values.last().copied().unwrap_or(f64::NAN))
}

pub fn run(paper: &mut Paper) -> Result<()> {
    let data = data();
    let prior = Mat::<f64>::identity(3, 3);
    let curvature = Curvature::logistic(data.x.transpose(), prior.as_ref())?;
    let (_, optimum) = data.optimum(data.model(BernoulliLogit, 1.0)?, 1.0)?;
    let plain = RuleOptions { guard: Guard::None, ..RuleOptions::of(QUpdate::SrVn) };
    // S stays between 1/𝓜, the bound at the optimum, and the prior.
    let rate = SquareRootRate::new(curvature, 1.0 / curvature.smoothness, 1.0, 1.0)?;
    let step = rate.best_step();
    let options = InferenceOptions::full_batch(plain, Schedule::Constant(step));
    let mut run = data.infer(data.model(BernoulliLogit, 1.0)?, Estimator::Exact, options);
    let (mut least, mut largest) = extremes(run.q());
    let mut gaps = vec![run.objective() - optimum];
    let steps = 300;
    for _ in 0..steps {
        run.step();
        let (low, high) = extremes(run.q());
        (least, largest) = (least.min(low), largest.max(high));
        gaps.push(run.objective() - optimum);
    }
    let inside = least >= 1.0 / curvature.smoothness && largest <= 1.0 + 1e-9;
    let worst =
        gaps.windows(2).filter(|pair| pair[0] > 1e-9).map(|pair| pair[1] / pair[0]).fold(0.0, f64::max);
    paper.settings(format!(
        "Rate: logistic model, 100 rows, d = 3, prior N(0, I), 𝓜 = {:.1}, ϖ = {:.1}, plain SR-VN with its best proven step {step:.4}.",
        curvature.smoothness, curvature.strong_convexity
    ));
    paper.claim(
        "exact SR-VN converges linearly for strongly convex energies (Theorem 2, constants ours)",
        "F − F* contracts in every step",
        format!(
            "largest measured factor {worst:.4}, bound {:.4}; Polyak–Łojasiewicz constant {:.4}; S within its bounds: {inside}",
            rate.contraction(step), rate.pl_constant()
        ),
        Verdict::of(worst <= rate.contraction(step) && inside, "a step contracts less"),
    );
    paper.expect("largest factor of SR-VN over its bound", worst / rate.contraction(step), 0.0..=1.0);
    let bias = rate.bias(0.01, 0.01)?;
    paper.claim(
        "errors of the gradient leave a bias (Theorem 3, constants ours)",
        "stated",
        format!("errors of 0.01 in gradient and Hessian leave at most {bias:.2e} nats"),
        Verdict::Agrees,
    );
    Ok(())
}
