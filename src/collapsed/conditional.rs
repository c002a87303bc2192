//! The derivative of an objective at the q of another objective, as a direction in q.

use crate::gradient::{ProcessSums, Tangent};
use crate::linalg::{self, Operand, congruence};
use crate::variational::Normal;
use faer::Mat;

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
