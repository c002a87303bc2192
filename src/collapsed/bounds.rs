//! The best q in closed form, for losses that are quadratic in the latent mean, and an upper bound on the evidence.

use crate::gradient::{BatchSums, ProcessSums, Tangent};
use crate::linalg::{
    self, Factorizer, NotPositiveDefinite, Operand, congruence, dot, gram_of_inverse, trace,
};
use crate::variational::{Matrix, Normal};
use faer::{Mat, MatRef};
use std::f64::consts::PI;

/// The minimum of an objective over q.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The objective, a sum over the data.
    pub value: f64,
    /// The whitened q of every process.
    pub q: Vec<Normal>,
}

/// Returns the minimum of `Σ ℓ_i + β KL(q ‖ p)` over q for losses that are quadratic in μ and linear in s, from the sums of a pass at the
/// origin ([docs/mathematics.md#closed-forms](crate::book::mathematics#closed-forms)):
///
/// ```text
/// B = I + (2/β) A diag(h) Aᵀ,   S = B⁻¹,   m = −S A g / β,   J = Σ ℓ_i(0) + ½ (A g)ᵀm + (β/2) log|B|
/// ```
///
/// These are Titsias' bound (β = 1) and its collapsed β-ELBOs, the evidence of FITC and of rows given their neighbours, and the square-loss
/// objective of Wei, Sheth & Khardon (2021), which does not depend on S, so that S stays I.
///
/// # Errors
///
/// If B has no Cholesky factor.
pub fn solve(sums: &BatchSums, beta: f64) -> Result<Solution, NotPositiveDefinite> {
    let mut solution = Solution { value: sums.value, q: Vec::with_capacity(sums.processes.len()) };
    for process in &sums.processes {
        let (gain, q) = solve_process(process, beta)?;
        solution.value += gain;
        solution.q.push(q);
    }
    Ok(solution)
}

/// Returns the change of the objective from the origin to the best q of a process, and this q.
fn solve_process(sums: &ProcessSums, beta: f64) -> Result<(f64, Normal), NotPositiveDefinite> {
    let of_mean = |inverse: &Mat<f64>| {
        let mut mean = vec![0.0; sums.mean.len()];
        linalg::matvec(inverse.as_ref(), &sums.mean, &mut mean);
        mean.iter_mut().for_each(|x| *x /= -beta);
        mean
    };
    let (mean, cov, log_det) = match &sums.curvature {
        Some(curvature) => {
            let (inverse, _) = shrunk_inverse(curvature.as_ref().full(), beta)?;
            (of_mean(&inverse), Mat::identity(inverse.nrows(), inverse.nrows()), 0.0)
        }
        None => {
            let (cov, log_det) = shrunk_inverse(sums.cov.as_ref().full(), 0.5 * beta)?;
            (of_mean(&cov), cov, log_det)
        }
    };
    let gain = 0.5 * dot(&sums.mean, &mean) + 0.5 * beta * log_det;
    Ok((gain, Normal { mean, cov: Matrix::Full(cov), log_det: -log_det }))
}

/// Returns the derivative of the collapsed β-ELBO of a process in its noise variance, given the sums of a pass at the origin with this noise,
/// the sum of the weights of the rows, and the best q.
///
/// It is `½ (n − E/σ²)/σ²` with `E = Σ w_i E_q (y_i − f_i)²`, and `E/σ² = squares + 2 residual + (A g)ᵀm + β (M − tr S − mᵀm)` at that q.
pub fn noise_derivative(sums: &ProcessSums, weight: f64, noise: f64, beta: f64, q: &Normal) -> f64 {
    let (mean, m) = (q.mean(), q.dim() as f64);
    let spread = beta * (m - trace(q.cov().full()) - dot(mean, mean));
    let errors = sums.squares + 2.0 * sums.residual + dot(&sums.mean, mean) + spread;
    0.5 * (weight - errors) / noise
}

/// `(τ⁻¹Φ + I)⁻¹` and `log|τ⁻¹Φ + I|`. It fails if the rounding of `τ⁻¹Φ` is more than a
/// thousandth of I, since bounds from it would be wrong by whole nats.
pub(super) fn shrunk_inverse(
    gram: MatRef<'_, f64>,
    tau: f64,
) -> Result<(Mat<f64>, f64), NotPositiveDefinite> {
    let m = gram.nrows();
    let mut factor = Mat::from_fn(m, m, |i, j| gram[(i, j)] / tau);
    linalg::add_diagonal(factor.as_mut(), 1.0);
    if let Some(pivot) = (0..m).find(|&i| factor[(i, i)] * f64::EPSILON > 1e-3) {
        return Err(NotPositiveDefinite { pivot });
    }
    let mut inverse_factor = linalg::spread(m, m);
    Factorizer::new(m).cholesky_with_inverse(factor.as_mut(), inverse_factor.as_mut())?;
    let log_det = linalg::log_det(factor.as_ref());
    gram_of_inverse(inverse_factor.as_ref(), factor.as_mut());
    Ok((factor, log_det))
}

/// Returns an upper bound on the log evidence (Titsias 2014; [docs/mathematics.md#closed-forms](crate::book::mathematics#closed-forms)), from the sums of a pass of the ELBO at the
/// origin with the noise variance σ²:
///
/// ```text
/// U = −½ log|Q + σ²I| − ½ cᵀ(Q + τI)⁻¹c − (n/2) log 2π,   Q = AᵀA, τ = σ² + t
/// ```
///
/// and `cᵀ(Q + τI)⁻¹c = (cᵀc − φᵀx)/τ` with `φ = A c` and `x = (AAᵀ + τI)⁻¹φ`. Rows have no sample weights.
pub(crate) fn upper_bound(sums: &BatchSums, noise: f64) -> Result<f64, NotPositiveDefinite> {
    let (n, process) = (sums.weight, &sums.processes[0]);
    let (gram, tau) = (process.cov.as_ref().full(), noise + 2.0 * noise * process.residual);
    let (_, log_det) = shrunk_inverse(gram, 0.5)?;
    let (inverse, _) = shrunk_inverse(gram, 0.5 * tau / noise)?;
    let mut x = vec![0.0; process.mean.len()];
    linalg::matvec(inverse.as_ref(), &process.mean, &mut x);
    // A g = −φ/σ².
    let explained = noise * noise * dot(&process.mean, &x) / tau;
    let quadratic = (noise * process.squares - explained) / tau;
    Ok(-0.5 * (n * (2.0 * PI * noise).ln() + log_det + quadratic))
}

/// Returns the direction in which the gradient of an objective J in θ changes by the derivative of another objective F through q(θ), the q
/// that minimises J: `dF/dθ = ∂F/∂θ + d/dt ∂J/∂θ (q + t · tangent)`.
///
/// `inner` has the sums of J, whose losses are quadratic in μ, at the origin; `outer` has the sums of the losses of F at q. Both have the KL
/// term of weight β. With `B` of [`solve`](super::solve), the Hessian of J in m is `βB`, and `S = B⁻¹` moves by `−S dB S`.
pub(crate) fn tangent(inner: &ProcessSums, outer: &ProcessSums, q: &Normal, beta: f64) -> Tangent {
    let (m, mean, cov) = (q.dim(), q.mean(), q.cov().full());
    // ∂F/∂S; for β KL it is (β/2) (I − S⁻¹) = −A diag(h) Aᵀ.
    let (known, own) = (inner.cov.as_ref().full(), outer.cov.as_ref().full());
    let mut direction = Mat::from_fn(m, m, |i, j| own[(i, j)] - known[(i, j)]);
    congruence(Operand::full(cov), direction.as_mut(), Mat::zeros(m, m).as_mut());
    let slope: Vec<f64> = outer.mean.iter().zip(mean).map(|(bar, m)| bar + beta * m).collect();
    let mut moved = vec![0.0; m];
    linalg::matvec(cov, &slope, &mut moved);
    moved.iter_mut().for_each(|x| *x /= -beta);
    direction *= faer::Scale(-2.0 / beta);
    Tangent { mean: moved, cov: direction }
}
