//! Exact steps that the library does not have: natural gradients on square roots of S other than Cholesky's, and Gaussian SVGD.
//!
//! With S = C Cᵀ, H the Hessian of the energy and `X = CᵀHC − I`, the natural-gradient flow `S' = S − SHS` is `C' = −CK` for every K with
//! `K + Kᵀ = X` that keeps C a root of its kind. Then `⟨X, K⟩ = ½‖X‖²`, and `‖K‖² ≤ ½‖X‖²` for every kind here, so the proof of
//! [`SquareRootRate`](sparsegp_research::SquareRootRate) holds with the same constants where S keeps its bounds between two iterates, as it
//! does for triangular and for symmetric roots.

use crate::paper::prelude::*;
use crate::problem::Problem;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// C is lower triangular: SR-VN.
    Lower,
    Upper,
    Symmetric,
    /// C is any square root, `K = X/2`.
    Square,
    /// Gaussian SVGD with the kernel xᵀy + 1 (Liu, Ghosal, Balasubramanian & Pillai 2024).
    Svgd,
    /// Gaussian SVGD with the kernel (x − m)ᵀ(y − m) + 1.
    CentredSvgd,
}

impl Way {
    /// The roots other than Cholesky's, with their names.
    pub const OTHERS: [(&str, Way); 3] =
        [("upper triangular", Way::Upper), ("symmetric", Way::Symmetric), ("any square", Way::Square)];

    /// Returns K.
    fn direction(self, c: &Mat<f64>, x: &Mat<f64>) -> Option<Mat<f64>> {
        let d = x.nrows();
        let keep = |part: &dyn Fn(usize, usize) -> f64| Mat::from_fn(d, d, |i, j| part(i, j) * x[(i, j)]);
        let triangle = |kept: bool, i, j| if i == j { 0.5 } else { f64::from(kept) };
        Some(match self {
            Way::Lower => keep(&|i, j| triangle(i > j, i, j)),
            Way::Upper => keep(&|i, j| triangle(i < j, i, j)),
            Way::Symmetric => {
                // In the basis of eigenvectors of C, CK has the entries r_i r_j X_ij/(r_i + r_j).
                let (r, v) = symmetric_eigen(c.as_ref())?;
                let turned = v.transpose() * x * &v;
                let k = Mat::from_fn(d, d, |i, j| r[j] * turned[(i, j)] / (r[i] + r[j]));
                &v * k * v.transpose()
            }
            _ => x * Scale(0.5),
        })
    }

    /// Returns the directions of (m, C) for the gradient ĝ and the Hessian H of the energy.
    ///
    /// SVGD moves points by `x' = Ax − ĝ` with `A = I − HS − ĝmᵀ`, or `x' = A(x − m) − ĝ` with `A = I − HS` for the centred kernel
    /// (by Stein's identity `E ∇V(y)(y − m)ᵀ = HS`), so q stays normal.
    fn directions(
        self,
        (m, c): (&Mat<f64>, &Mat<f64>),
        g: &Mat<f64>,
        h: &Mat<f64>,
    ) -> Option<(Mat<f64>, Mat<f64>)> {
        let d = m.nrows();
        let identity = Mat::<f64>::identity(d, d);
        if !matches!(self, Way::Svgd | Way::CentredSvgd) {
            let k = self.direction(c, &(c.transpose() * h * c - &identity))?;
            return Some((c * (c.transpose() * g) * Scale(-1.0), c * k * Scale(-1.0)));
        }
        let centred = identity - h * c * c.transpose();
        if self == Way::CentredSvgd {
            return Some((g * Scale(-1.0), centred * c));
        }
        let a = centred - g * m.transpose();
        Some((&a * m - g, a * c))
    }
}

/// Runs exact steps of constant size from a normal q whose covariance is a multiple of I, where the prior is N(0, I). Returns what `see` makes
/// of the objective and q at every iteration, infinite from the first q that is not valid.
pub fn trace(
    (data, model): (&Data, LatentModel),
    start: &Normal,
    way: Way,
    (step, steps): (f64, usize),
    see: impl Fn(f64, &Normal) -> f64,
) -> Vec<f64> {
    let d = start.dim();
    let objective = Objective { loss: Loss::ExpectedLog(Estimator::Exact), ..Objective::elbo(1.0) };
    let mut model = VariationalModel::new(model, start.clone(), objective, data.y.len());
    let mut c = Mat::<f64>::identity(d, d) * Scale((start.trace() / d as f64).sqrt());
    let mut seen = Vec::new();
    while seen.len() <= steps {
        let value = model.evaluate(Batch::of(data.x.transpose(), &data.y, 1.0), false);
        seen.push(see(value, model.q()));
        let gradient = model.q_gradient();
        let m = Mat::from_fn(d, 1, |i, _| model.q().mean()[i]);
        let g = Mat::from_fn(d, 1, |i, _| gradient.mean[i] + m[(i, 0)]);
        let h = gradient.cov.to_dense() * Scale(2.0) + Mat::<f64>::identity(d, d);
        let Some((along_m, along_c)) = way.directions((&m, &c), &g, &h) else { break };
        let m = m + along_m * Scale(step);
        c += along_c * Scale(step);
        let Ok(q) = Normal::new(m.col_as_slice(0).to_vec(), &c * c.transpose()) else { break };
        model.set_q(q);
    }
    seen.resize(steps + 1, f64::INFINITY);
    seen
}

/// Returns the first iteration from which the values stay at or below a goal, or infinity.
pub fn reached(values: &[f64], goal: f64) -> f64 {
    let first = values.iter().rposition(|value| value.is_nan() || *value > goal).map_or(0, |last| last + 1);
    if first < values.len() { first as f64 } else { f64::INFINITY }
}

/// Returns the fewest iterations with a step of a grid, and that step. `run` returns the iterations with a step.
pub fn fastest(grid: impl IntoIterator<Item = f64>, run: impl Fn(f64) -> f64) -> (f64, f64) {
    let all = grid.into_iter().map(|step| (run(step), step));
    all.fold((f64::INFINITY, f64::NAN), |best, next| if next.0 < best.0 { next } else { best })
}

/// Section 5.2 on the problem of Theorem 2, and section 3.3: other roots keep to its bound, and all follow one flow.
pub fn rates(
    paper: &mut Paper,
    problem: (&Data, &LatentModel),
    optimum: f64,
    (step, bound): (f64, f64),
) -> Result<()> {
    let start = Normal::standard(Family::Full, problem.1.layer().dim());
    let gaps = |way, step| {
        trace((problem.0, problem.1.clone()), &start, way, (step, 300), |value, _| value - optimum)
    };
    let (mut worst, mut text) = (0.0f64, Vec::new());
    for (name, way) in Way::OTHERS {
        let gaps = gaps(way, step);
        let pairs = gaps.windows(2).filter(|pair| pair[0] > 1e-9);
        let factor = pairs.map(|pair| pair[1] / pair[0]).fold(0.0, f64::max);
        worst = worst.max(factor);
        text.push(format!("{name} {factor:.4}"));
    }
    let ours = format!(
        "largest factor of F − F* in a step of {step:.4}: {}; largest, and the bound of Theorem 2",
        text.join(", ")
    );
    let claim = "the proof of Theorem 2 extends to any square root of S (section 5.2, constants ours)";
    paper.judge(claim, "exponential rate", ours, Compared::at_most(worst, bound, 0.0)).expect(0.5..=bound);
    // With correlated inputs the roots differ.
    let x = Mat::from_fn(3, problem.0.y.len(), |i, j| (0..=i).map(|k| 2.0 * problem.0.x[(k, j)]).sum());
    let mixed = Data { x, y: problem.0.y.clone() };
    let (_, optimum) = mixed.optimum(problem.1.clone(), 1.0)?;
    let small = 0.002;
    let gaps =
        |way| trace((&mixed, problem.1.clone()), &start, way, (small, 300), |value, _| value - optimum);
    let lower = gaps(Way::Lower);
    let apart =
        |way| gaps(way).iter().zip(&lower).map(|(a, b)| (a - b).abs() / b.max(1e-12)).fold(0.0, f64::max);
    let apart = Way::OTHERS.map(|(_, way)| apart(way)).into_iter().fold(0.0, f64::max);
    let ours = format!(
        "largest relative difference of F − F* from Cholesky's over 300 iterations with step {small}, correlated inputs"
    );
    let claim = "the flow of natural gradients does not depend on the square root (section 3.3)";
    paper.judge(claim, "the same", ours, Compared::at_most(apart, 0.0, 0.05)).expect(0.0..=0.05);
    Ok(())
}

/// Judges a claim of appendix G: SVGD is the slowest algorithm. Arguments are the iterations and the step of the general and of the centred
/// kernel, the number of iterations run, and the iterations of the others.
pub fn judge_svgd(
    paper: &mut Paper,
    label: &str,
    (svgd, run): ([(f64, f64); 2], usize),
    others: [(&str, f64); 3],
) {
    let listed = others.map(|(name, iterations)| format!("{name} {iterations:.0}")).join(", ");
    let most = others.iter().map(|(_, iterations)| *iterations).fold(0.0, f64::max);
    for (kernel, (iterations, step)) in ["xᵀy + 1", "(x − m)ᵀ(y − m) + 1"].into_iter().zip(svgd) {
        let reached = iterations.is_finite();
        let said = if reached {
            format!("{iterations:.0} (step {})", short(step))
        } else {
            format!("more than {run}")
        };
        let ours = format!(
            "iterations with the best steps: SVGD {said}, {listed}; SVGD, at most {run}, and the slowest other"
        );
        let claim = format!(
            "{label}: Gaussian SVGD with the kernel {kernel} is the slowest algorithm (App. G, Fig. 10)"
        );
        let compared = Compared::at_least(iterations.min(run as f64), most, 0.0);
        let cause =
            if svgd[0].0 >= most { "the paper names no kernel; with xᵀy + 1 the claim holds" } else { "" };
        paper.judge(&claim, "slowest, like BW-GD at best", ours, compared).because(cause);
    }
}

/// Compares how many iterations other square roots need with how many Cholesky's needs, from S = I/𝓜.
pub fn judge_roots(
    paper: &mut Paper,
    (label, problem): (&str, &Problem),
    (goal, steps): (f64, usize),
    grid: &[f64],
) {
    let best =
        |way| fastest(grid.iter().copied(), |step| reached(&problem.other(way, true, (step, steps)), goal));
    let lower = best(Way::Lower);
    let (mut worst, mut text) = (0.0f64, vec![format!("Cholesky {:.0} (step {})", lower.0, short(lower.1))]);
    for (name, way) in Way::OTHERS {
        let (iterations, step) = best(way);
        worst = worst.max(iterations / lower.0.max(1.0));
        text.push(format!("{name} {iterations:.0} (step {})", short(step)));
    }
    let ours = format!(
        "iterations from S = I/𝓜 with the best steps: {}; largest ratio to Cholesky's",
        text.join(", ")
    );
    let claim =
        format!("{label}: other square roots of S need no more iterations than Cholesky's (section 5.2)");
    paper
        .judge(&claim, "not stated (we allow twice the iterations)", ours, Compared::at_most(worst, 1.0, 1.0))
        .expect(0.3..=2.0);
}
