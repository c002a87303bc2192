//! Limits of natural-gradient steps, for every covariance: guards, the trust region, bounds of variances.
//!
//! Symbols are those of [`variational`](crate::variational).

use super::{DataGradient, Normal, OVERFLOW};
use crate::linalg::{Operand, Part, dot, matvec, product, reflect_lower};
use crate::words::word_option;
use faer::{Accum, Mat, MatMut, MatRef};

word_option! {
    /// The guard that keeps a natural-gradient step positive definite.
    #[non_exhaustive]
    Guard, "guard of the q update" {
        /// For the predictive log loss, and for reparameterised samples, whose curvature is mostly
        /// noise, no variance grows by more than a factor of 2 or falls by more than a third in a
        /// step. Otherwise the same as backtrack.
        Trust = "trust",
        /// Halve ρ until the new precision is positive definite.
        Backtrack = "backtrack",
        /// `S₊⁻¹ = S⁻¹ + γĜ + ½γ²ĜSĜ` with γ = ρ/β, positive definite for every Ĝ (Lin, Schmidt & Khan 2020). Used for the steps that
        /// would otherwise not be positive definite.
        Retraction = "retraction",
        /// Eigenvalues of the new precision are clipped to [1e-4, 1e8], the prior's being 1.
        Projection = "projection",
        /// Steps are taken as they are (sr-vn): the algorithm of Kumar, Möllenhoff, Khan & Lucchi 2025, which may diverge.
        None = "none",
    }
}

/// The range of the eigenvalues of a projected precision.
pub(super) const PRECISION_RANGE: (f64, f64) = (1e-4, 1e8);

/// The largest relative change of S⁻¹ in a step within the trust region.
pub(super) const TRUST_RADIUS: f64 = 0.5;

/// Returns true if the curvature in a gradient is reliable only for small steps: if it differs from
/// the curvature in m, or comes from slopes at few samples.
pub(super) fn needs_trust(gradient: &DataGradient<'_>) -> bool {
    gradient.curvature.is_some() || gradient.path.is_some()
}

/// Adds `½ D S D`, `D = S₊⁻¹ − S⁻¹`, to the lower triangle of the new precision S₊⁻¹: the second-order term of the retraction of Lin, Schmidt &
/// Khan 2020, `½γ²ĜSĜ`.
///
/// With it, an eigenvalue that a step changes by the share δ is multiplied by `1 + δ + ½δ² ≈ e^δ`. Noise in δ then has no drift on the
/// logarithmic scale. Without it, the logarithm falls by ½δ² on average, so variances grow without bound.
pub(super) fn add_second_order(mut next: MatMut<'_, f64>, precision: MatRef<'_, f64>, cov: MatRef<'_, f64>) {
    let m = precision.nrows();
    let mut change = Mat::from_fn(m, m, |i, j| if i >= j { next[(i, j)] - precision[(i, j)] } else { 0.0 });
    reflect_lower(change.as_mut());
    let mut half = Mat::zeros(m, m);
    let full = Operand::full(change.as_ref());
    product(half.as_mut(), Part::All, Accum::Replace, full, Operand::full(cov), 0.5);
    product(next.as_mut(), Part::Lower, Accum::Add, Operand::full(half.as_ref()), full, 1.0);
}

/// Returns `s` clipped to the bounds; the upper bound takes precedence if it is below the lower
/// one.
pub(super) fn clip(s: f64, low: f64, high: f64) -> f64 {
    s.max(low).min(high)
}

/// Returns the bounds of variances, limited to values that do not overflow in computations.
pub(super) fn usable(low: f64, high: f64) -> (f64, f64) {
    let least = 1.0 / OVERFLOW;
    let low = if low > least { low.min(OVERFLOW) } else { least };
    (low, if high >= low { high.min(OVERFLOW) } else { low.max(1.0) })
}

/// The trust region of the change of a full S⁻¹ in a natural-gradient step, with its buffers.
pub(super) struct TrustRegion {
    direction: Vec<f64>,
    probe: Vec<f64>,
    image: Vec<f64>,
}

impl TrustRegion {
    /// Creates the buffers for posteriors of dimension `m`.
    pub fn new(m: usize) -> Self {
        TrustRegion { direction: vec![0.0; m], probe: vec![0.0; m], image: vec![0.0; m] }
    }

    /// Returns the largest step up to `rho` that changes S⁻¹ by no more than [`TRUST_RADIUS`].
    pub fn limit(&mut self, q: &Normal, gradient: &DataGradient<'_>, beta: f64, rho: f64) -> f64 {
        let change = self.relative_change(q, gradient, beta, rho);
        if change > TRUST_RADIUS { rho * TRUST_RADIUS / change } else { rho }
    }

    /// Returns the largest eigenvalue in size of `S^½ D S^½`, `D = ρ(I + 2B/β − S⁻¹)`, by power
    /// iteration in `p = S y`, where `S⁻¹p = y` is known.
    fn relative_change(&mut self, q: &Normal, gradient: &DataGradient<'_>, beta: f64, rho: f64) -> f64 {
        const ITERATIONS: usize = 12;
        let (y, p, data) = (&mut self.direction, &mut self.probe, &mut self.image);
        let (cov, curvature) = (q.cov().full(), gradient.cov.full());
        // The start has no symmetry that could make it orthogonal to an eigenvector.
        y.iter_mut().enumerate().for_each(|(i, y)| *y = 1.0 + (i as f64 * 0.618).fract());
        let mut largest = 0.0f64;
        for _ in 0..ITERATIONS {
            matvec(cov, y, p);
            let norm = dot(y, p).sqrt();
            if !(norm > 0.0 && norm.is_finite()) {
                return largest;
            }
            matvec(curvature, p, data);
            for ((y, p), data) in y.iter_mut().zip(&*p).zip(&*data) {
                *y = rho * (p + 2.0 / beta * data - *y) / norm;
            }
            matvec(cov, y, p);
            largest = dot(y, p).max(0.0).sqrt();
        }
        // A margin for the error of few iterations in the largest eigenvalue.
        1.1 * largest
    }
}
