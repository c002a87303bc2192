//! The hierarchical logistic model of Theorem 24 and Corollary 25: its curvature, and runs of the methods on its own
//! coefficients, which the library would whiten.

use super::problem::{METHODS, Method, Parameters, Problem};
use super::strong;
use crate::paper::prelude::*;

/// The number of inputs, of groups, and of rows of a group.
const D: usize = 2;
const GROUPS: usize = 2;
const ROWS: usize = 8;
/// The variance Δ of a group's coefficients around θ, whose prior is N(0, I).
const SPREAD: f64 = 3.0;
const DRAWS: usize = 2000;

/// Returns the prior covariance of w = (θ, z₁, …), where z_i = θ + √Δ ε_i.
fn prior() -> Mat<f64> {
    let size = D * (GROUPS + 1);
    let inner = |i: usize, j: usize| if i == j && i >= D { SPREAD } else { 0.0 };
    Mat::from_fn(size, size, |i, j| inner(i, j) + if i % D == j % D { 1.0 } else { 0.0 })
}

/// Creates a problem with generated inputs and labels. A row has an input for each element of w, zero outside its group.
fn problem() -> Result<Problem> {
    let (mut draw, size, mut random) = (normals(6), D * (GROUPS + 1), ChaCha8Rng::seed_from_u64(7));
    let x = Mat::from_fn(size, GROUPS * ROWS, |i, row| if i / D == row / ROWS + 1 { draw() } else { 0.0 });
    let theta: [f64; D] = std::array::from_fn(|_| draw());
    let w = (0..size).map(|i| theta[i % D] + if i < D { 0.0 } else { SPREAD.sqrt() * draw() });
    let w = Vec::from_iter(w);
    let y = x.col_iter().map(|x| {
        let f: f64 = x.iter().zip(&w).map(|(x, w)| x * w).sum();
        f64::from(random.random_range(0.0..1.0) < 1.0 / (1.0 + (-f).exp()))
    });
    let y = y.collect();
    Problem::new(Data { x, y }, prior(), LikelihoodKind::BernoulliLogit)
}

fn eigen(a: &Mat<f64>) -> Result<(Vec<f64>, Mat<f64>)> {
    symmetric_eigen(a.as_ref()).ok_or_else(|| Error::fit("a matrix has no eigenvalues"))
}

/// Returns the maximum over block rows of the sum of the spectral norms of the blocks, in which the proof of Theorem 24
/// bounds the Hessian. All blocks are symmetric. The block of θ is Σ⁻¹ plus Δ⁻¹ for every group; the proof of Corollary 25
/// prints it with one Δ⁻¹.
fn block_norm(hessian: &Mat<f64>) -> Result<f64> {
    let mut largest = 0.0f64;
    for i in 0..=GROUPS {
        let mut sum = 0.0;
        for j in 0..=GROUPS {
            let (values, _) = eigen(&hessian.submatrix(i * D, j * D, D, D).to_owned())?;
            sum += values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        }
        largest = largest.max(sum);
    }
    Ok(largest)
}

pub fn run(paper: &mut Paper, runs: u64) -> Result<()> {
    let (problem, steps) = (problem()?, paper.setting(200_000, 4000));
    paper.settings(format!(
        "hierarchical model: generated, {GROUPS} groups of {ROWS} rows, {D} inputs, so that d = {}, prior θ ~ N(0, I), z_i ~ N(θ, {SPREAD} I), \
         𝓜 = {} and ϖ = {}, {steps} steps of our own in (θ, z), because the library whitens coefficients; means of {runs} runs.",
        problem.mode.len(), short(problem.curvature.smoothness), short(problem.curvature.strong_convexity)
    ));
    curvature(paper, &problem)?;
    compare_with_library(paper, &problem)?;
    strong::run(paper, &problem, ("hierarchical", steps, runs))?;
    strong::convex(paper, &problem, ("hierarchical", steps / 5, runs))
}

/// Checks in quick runs that [`descend`] comes as close as the library where both move the same coefficients.
fn compare_with_library(paper: &mut Paper, problem: &Problem) -> Result<()> {
    let (size, kind) = (problem.mode.len(), LikelihoodKind::BernoulliLogit);
    let mut plain = Problem::new(problem.data.clone(), Mat::identity(size, size), kind)?;
    for method in METHODS.iter().take(paper.setting(0, 2)) {
        let distances = [true, false].map(|standard| {
            plain.standard = standard;
            strong::mean(&plain, (method, Schedule::Constant(0.02)), 200, &[400])
        });
        let [library, ours] = distances;
        let ratio = ours?[0] / library?[0];
        paper.expect(&format!("{}: our mean distance over the library's", method.name), ratio, 0.85..=1.15);
    }
    Ok(())
}

fn curvature(paper: &mut Paper, problem: &Problem) -> Result<()> {
    let (size, mut draw) = (problem.mode.len(), normals(9));
    let at_zero = problem.derivatives(&vec![0.0; size]).1;
    let bound = block_norm(&at_zero)?;
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    for k in 0..DRAWS {
        // From near 0, at which a logistic loss bends most, to far away, at which it does not.
        let scale = 10f64.powf(-2.0 + 5.0 * k as f64 / DRAWS as f64);
        let w = Vec::from_iter((0..size).map(|_| scale * draw()));
        for value in eigen(&problem.derivatives(&w).1)?.0 {
            (least, most) = (least.min(value), most.max(value));
        }
    }
    let of = problem.curvature;
    let claim = "hierarchical: the negative log joint is smooth (Corollary 25), by the block norms of the proof of Theorem 24";
    let ours = format!(
        "{} and λ_max(P⁻¹ + ¼AAᵀ) = {} are our constants; largest eigenvalue in {DRAWS} draws of w over the latter {}, and over the former",
        short(bound),
        short(of.smoothness),
        short(most / of.smoothness)
    );
    paper.judge(claim, "a constant exists", ours, Compared::at_most(most / bound, 1.0, 0.0));
    paper.expect("largest eigenvalue over λ_max(P⁻¹ + ¼AAᵀ)", most / of.smoothness, 0.99..=1.0 + 1e-12);
    let claim = "hierarchical: the negative log joint is convex (Corollary 25)";
    let ours = format!("smallest eigenvalue in {DRAWS} draws");
    paper.judge(claim, "yes", ours, Compared::at_least(least, 0.0, 0.0)).expect(0.0..=1.0);
    let claim = "hierarchical: it has no constant of strong convexity (Table 2)";
    let ours = format!(
        "smallest eigenvalue in {DRAWS} draws is {} of ϖ = λ_min(P⁻¹), and",
        short(least / of.strong_convexity)
    );
    paper
        .judge(claim, "n/a", ours, Compared::at_most(least, 0.0, 0.0))
        .because("(θ, z) has a normal prior N(0, P), so that this is a logistic model of Corollary 23");
    paper.expect("smallest eigenvalue over λ_min(P⁻¹)", least / of.strong_convexity, 1.0 - 1e-12..=1.01);
    Ok(())
}

/// [`Problem::walk`] by the definitions of the paper: proximal gradients with a lower triangular C (Lemma 31), or
/// gradients projected to symmetric C with eigenvalues of at least 1/√𝓜 (Lemma 32).
pub fn descend<T>(
    problem: &Problem,
    method: &Method,
    (step, seed): (Schedule, u64),
    at: &[usize],
    mut see: impl FnMut(usize, Option<&Parameters>) -> T,
) -> Result<Vec<T>> {
    let (mut now, mut draw) = (method.parameters(&problem.prior()?)?, normals(seed));
    let (d, floor) = (now.0.len(), problem.curvature.smoothness.powf(-0.5));
    let (mut values, mut vectors) = eigen(&now.1)?;
    let (mut t, mut seen) = (0, Vec::new());
    for &last in at {
        while t < last {
            let (gamma, (m, c)) = (step.at(t), &mut now);
            let u = Vec::from_iter((0..d).map(|_| draw()));
            let mut w = vec![0.0; d];
            matvec(c.as_ref(), &u, &mut w);
            w.iter_mut().zip(&*m).for_each(|(w, m)| *w += m);
            let (mut gradient, _) = problem.derivatives(&w);
            if method.lower() {
                *c -= Mat::from_fn(d, d, |i, j| gamma * gradient[i] * u[j]);
                clear_upper(c.as_mut());
                (0..d).for_each(|i| c[(i, i)] = 0.5 * (c[(i, i)] + (c[(i, i)].powi(2) + 4.0 * gamma).sqrt()));
            } else {
                let inverse = Mat::from_fn(d, d, |i, j| vectors[(i, j)] / values[j]) * vectors.transpose();
                if let Estimator::StickingTheLanding { .. } = method.estimator {
                    let pulled = &inverse * Mat::from_fn(d, 1, |i, _| u[i]);
                    gradient.iter_mut().zip(pulled.col(0).iter()).for_each(|(g, pull)| *g -= pull);
                } else {
                    *c += Scale(gamma) * &inverse;
                }
                *c -= Mat::from_fn(d, d, |i, j| 0.5 * gamma * (gradient[i] * u[j] + gradient[j] * u[i]));
                (values, vectors) = eigen(c)?;
                values.iter_mut().for_each(|value| *value = value.max(floor));
                *c = Mat::from_fn(d, d, |i, j| vectors[(i, j)] * values[j]) * vectors.transpose();
            }
            m.iter_mut().zip(&gradient).for_each(|(m, g)| *m -= gamma * g);
            t += 1;
        }
        seen.push(see(t, Some(&now)));
    }
    Ok(seen)
}
