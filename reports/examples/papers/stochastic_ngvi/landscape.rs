//! The objective in expectation parameters: Proposition 1, §5, and appendices B and E.

use crate::paper::prelude::*;
use sparsegp::likelihood::Poisson;

/// The variance of both coefficients where the curvature is taken.
const VARIANCE: f64 = 0.1;

/// Returns the share of samples u for which the gradient of log N(0; Lu, I) in S = L Lᵀ is indefinite, for a
/// diagonal S of two variances, and the share for which its computed determinant is positive.
///
/// Differentiation through the Cholesky factor gives `−½ sym(L⁻ᵀ Φ(LᵀL u uᵀ) L⁻¹)`, where Φ keeps the lower triangle
/// and half the diagonal.
fn indefinite(variances: [f64; 2]) -> (f64, f64) {
    let (mut draw, count) = (normals(4), 10_000);
    let (mut indefinite, mut positive) = (0, 0);
    for _ in 0..count {
        let u = [draw(), draw()];
        let v = [variances[0] * u[0], variances[1] * u[1]];
        let diagonal = [0, 1].map(|i| -0.5 * v[i] * u[i] / variances[i]);
        let below = -0.5 * v[1] * u[0] / (variances[0] * variances[1]).sqrt();
        let determinant = diagonal[0] * diagonal[1] - below * below;
        indefinite += usize::from(determinant < -1e-12 * below * below);
        positive += usize::from(determinant > 0.0);
    }
    (indefinite as f64 / count as f64, positive as f64 / count as f64)
}

fn logistic(n: usize) -> Data {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let x = Mat::from_fn(2, n, |i, _| if i == 0 { random.random_range(-1.0..1.0) } else { 1.0 });
    let y = (0..n).map(|_| f64::from(random.random_range(0.0..1.0) < 0.5)).collect();
    Data { x, y }
}

/// Returns the second derivative of the objective in the variance of the intercept, at S = [`VARIANCE`] · I and m = 0.
fn curvature(data: &Data) -> Result<f64> {
    let width = 0.2 * VARIANCE;
    let value = |change: f64| -> Result<f64> {
        let q = Normal::diagonal(vec![0.0; 2], vec![VARIANCE, VARIANCE + change])?;
        Ok(data.objective(q, data.model(Bernoulli::Logit, 1.0)?))
    };
    Ok((value(width)? - 2.0 * value(0.0)? + value(-width)?) / (width * width))
}

/// Returns the largest eigenvalue of the Hessian of the objective of a Poisson regression in ξ, at Ξ = ξξᵀ + 2I, by
/// differences, by the formula of App. E.2, and by its bound without the exponential. The inputs are c times two rows with
/// xᵀξ = 0.9 at c = 1, and ξ is divided by c.
fn poisson(c: f64) -> Result<[f64; 3]> {
    let (x, xi) = (Mat::from_fn(2, 2, |i, j| if i == j { c } else { 0.5 * c }), [0.6 / c; 2]);
    let data = Data { x, y: vec![1.0, 0.0] };
    let width = 1e-3 / c;
    let value = |i: f64, j: f64| -> Result<f64> {
        let moved = [xi[0] + i * width, xi[1] + j * width];
        let of = |a: usize, b: usize| if a == b { 2.0 } else { 0.0 } + xi[a] * xi[b] - moved[a] * moved[b];
        let q = Normal::new(moved.to_vec(), Mat::from_fn(2, 2, of))?;
        Ok(data.objective(q, data.model(Poisson::Exp, 1.0)?))
    };
    let second = |i: f64, j: f64| -> Result<f64> {
        Ok((value(i, j)? - 2.0 * value(0.0, 0.0)? + value(-i, -j)?) / (width * width))
    };
    let (first, last, both) = (second(1.0, 0.0)?, second(0.0, 1.0)?, second(1.0, 1.0)?);
    let along = 0.5 * (both - first - last);
    let measured = 0.5 * (first + last) + (0.25 * (first - last).powi(2) + along * along).sqrt();
    // Both formulas have the eigenvectors (1, ±1): Σ x xᵀ = c² (2.25, 0.25), and ∇²A* = ½ (1 + ½ ‖ξ‖²) I + ¼ ξξᵀ.
    let norm = 2.0 * xi[0] * xi[0];
    let largest = |weight: f64| {
        let of = |share: f64, extra: f64| -0.99 * weight * c * c * share + 0.5 * (1.0 + 0.5 * norm) + extra;
        of(2.25, 0.25 * norm).max(of(0.25, 0.0))
    };
    Ok([measured, largest((0.9 + 1.25 * c * c).exp()), largest(1.0)])
}

/// Returns the largest divergence between the ends of Bures–Wasserstein descent with steps 1/𝓜 from random starts.
fn apart(data: &Data) -> Result<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let mut ends: Vec<Normal> = Vec::new();
    for _ in 0..10 {
        let mean = (0..2).map(|_| random.random_range(-5.0..5.0)).collect();
        let variance = 10f64.powf(random.random_range(-4.0..1.0));
        let q = Normal::new(mean, Mat::from_fn(2, 2, |i, j| if i == j { variance } else { 0.0 }))?;
        let smoothness = Some(1.0 + 0.5 * data.y.len() as f64);
        let rule = RuleOptions { smoothness, relative: true, ..RuleOptions::of(QUpdate::BwGd) };
        let options = InferenceOptions::full_batch(rule, Schedule::Constant(1.0));
        let mut run = data.infer_from(q, data.model(Bernoulli::Logit, 1.0)?, Estimator::Exact, options);
        (0..300).for_each(|_| _ = run.step());
        ends.push(run.q().clone());
    }
    Ok(ends.iter().map(|end| ends[0].kl_to(end)).fold(0.0, f64::max))
}

pub fn run(paper: &mut Paper) -> Result<()> {
    let (identity, positive) = indefinite([1.0, 1.0]);
    let (rising, falling) = (indefinite([1.0, 2.0]).0, indefinite([2.0, 1.0]).0);
    let claim =
        "the automatic gradient of App. B is not negative definite in about half of the draws, at S = I";
    let ours = format!(
        "its determinant is exactly 0, and positive by rounding in {positive:.2} of the draws; indefinite at S = diag(1, 2) in \
         {rising:.2}, at diag(2, 1) in {falling:.2} and at S = I in a share"
    );
    paper
        .judge(claim, "0.5", ours, Compared::near(identity, 0.5, 0.1))
        .because("at S = I it is −½uuᵀ, of rank one; at S = diag(1, 2) the counterexample holds");
    let rows = (8.0 / VARIANCE.powi(2)).round() as usize;
    let (few, many) = (curvature(&logistic(rows))?, curvature(&logistic(4 * rows))?);
    let claim = "logistic regression: the objective is not convex in expectation parameters with n ≥ 8/δ² rows at S = δI (App. E.1)";
    let ours = format!(
        "second derivative in a variance at δ = {VARIANCE}: {many:.1} with {} rows, and with {rows} rows",
        4 * rows
    );
    paper
        .judge(claim, "second derivative below 0", ours, Compared::at_most(few, 0.0, 0.0))
        .because("App. E.1 drops the ½ of Price's theorem in both derivatives; four times the rows suffice");
    paper.expect("curvature with four times the rows", many, -1e4..=0.0);
    let [measured, formula, bound] = poisson(2.0)?;
    let claim = "Poisson regression: the objective is not convex in expectation parameters (§5, App. E.2)";
    let ours = format!(
        "two rows at c = 2: largest eigenvalue {} by the formula of App. E.2, at most {} without its exponential, and by differences",
        short(formula),
        short(bound)
    );
    paper.judge(claim, "negative Hessian in ξ", ours, Compared::at_most(measured, bound.min(0.0), 0.0));
    paper.expect("Poisson: eigenvalue over the formula", measured / formula, 0.999..=1.001);
    let claim = "the objective of logistic regression has one minimiser (Proposition 1)";
    let ours = format!("largest KL between the ends of BW-GD from 10 starts, {} rows", 4 * rows);
    paper.judge(claim, "unique", ours, Compared::at_most(apart(&logistic(4 * rows))?, 0.0, 1e-8));
    Ok(())
}
