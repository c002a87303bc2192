//! The smoothness 𝓜 of the negative log joint, set by the user or observed so far, and steps in
//! units of 1/𝓜. Symbols are those of [`variational`](crate::variational).

use crate::checkpoint::{decode, encode};
use crate::linalg::{self, dot};
use crate::variational::DataGradient;
use crate::variational::carried::{Carried, replace};
use faer::MatRef;

/// The smoothness 𝓜: the user's value, or the largest eigenvalue in size of `H = 2B + βI` observed
/// so far, by power iteration.
///
/// With gradients from samples the observed 𝓜 is too large, because noise counts as curvature; the
/// user should then set 𝓜.
pub(in crate::variational) struct Smoothness {
    given: Option<f64>,
    relative: bool,
    largest: f64,
    warm: bool,
    vector: Vec<f64>,
    image: Vec<f64>,
    scratch: Vec<f64>,
}

impl Smoothness {
    /// The numbers of iterations for the first estimate and for later ones, which start from the
    /// last vector.
    const ITERATIONS: (usize, usize) = (12, 2);
    /// A margin, because so few iterations underestimate the largest eigenvalue.
    const MARGIN: f64 = 1.1;
    /// The share of the first start vector that is mixed into later ones: without it, a lost
    /// direction could never be found again.
    const REFRESH: f64 = 0.1;

    /// Creates the smoothness in dimension `m`: `given` is the user's 𝓜, and `relative` means steps
    /// in units of 1/𝓜.
    pub(in crate::variational) fn new(given: Option<f64>, relative: bool, m: usize) -> Self {
        Smoothness {
            given: given.filter(|s| *s > 0.0 && s.is_finite()),
            relative,
            largest: 0.0,
            warm: false,
            vector: vec![0.0; m],
            image: vec![0.0; m],
            scratch: vec![0.0; 2 * m],
        }
    }

    pub(in crate::variational) fn reset(&mut self) {
        self.largest = 0.0;
        self.warm = false;
    }

    /// Returns 𝓜; if it is observed, at least β, the contribution of the prior.
    pub(in crate::variational) fn value(&self, beta: f64) -> f64 {
        self.given.unwrap_or(self.largest.max(beta))
    }

    /// Returns the step γ for a step size, which may be in units of 1/𝓜.
    pub(in crate::variational) fn gamma(&self, step: f64, beta: f64) -> f64 {
        if self.relative { step / self.value(beta) } else { step }
    }

    /// Returns true if γ depends on observed gradients.
    pub(in crate::variational) fn scales_steps(&self) -> bool {
        self.relative && self.given.is_none()
    }

    /// Returns true if 𝓜 is given, so that no gradient has to be observed.
    pub(in crate::variational) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Observes the diagonal of H. Its largest entry is the smoothness in the variances. The smoothness in m is the largest eigenvalue, up
    /// to M times as large if features are correlated; the user should then set 𝓜.
    pub(in crate::variational) fn observe_diagonal(&mut self, hessian: impl Iterator<Item = f64>) {
        self.largest = hessian.fold(self.largest, |a, h| a.max(h.abs()));
    }

    /// Observes `H = 2B + βI`, or `K + βI` with the Hessian K in m of the predictive log loss,
    /// which is at least 2B.
    pub(in crate::variational) fn observe(&mut self, gradient: &DataGradient<'_>, beta: f64) {
        let (hessian, scale) = match gradient.curvature {
            Some(curvature) => (curvature.full(), 1.0),
            None => (gradient.cov.full(), 2.0),
        };
        self.iterate(beta, |v, out| {
            linalg::matvec(hessian, v, out);
            out.iter_mut().for_each(|x| *x *= scale);
        });
    }

    /// Observes `½ (G C⁻¹ + C⁻ᵀ Gᵀ) + βI`, where samples give the gradient `G` in C. `solve` turns
    /// a vector x into `C⁻¹x`, or on request into `C⁻ᵀx`; it receives a buffer.
    pub(in crate::variational) fn observe_path(
        &mut self,
        path: MatRef<'_, f64>,
        beta: f64,
        solve: impl Fn(bool, &mut [f64], &mut [f64]),
    ) {
        let m = self.vector.len();
        let mut other = std::mem::take(&mut self.scratch);
        self.iterate(beta, |v, out| {
            let (x, buffer) = other.split_at_mut(m);
            x.copy_from_slice(v);
            solve(false, x, buffer);
            linalg::matvec(path, x, out);
            linalg::matvec(path.transpose(), v, x);
            solve(true, x, buffer);
            out.iter_mut().zip(&*x).for_each(|(out, x)| *out = 0.5 * (*out + x));
        });
        self.scratch = other;
    }

    fn iterate(&mut self, beta: f64, mut data: impl FnMut(&[f64], &mut [f64])) {
        self.start();
        let (first, later) = Self::ITERATIONS;
        for _ in 0..if self.warm { later } else { first } {
            data(&self.vector, &mut self.image);
            self.image.iter_mut().zip(&self.vector).for_each(|(y, v)| *y += beta * v);
            let norm = dot(&self.image, &self.image).sqrt();
            if !(norm > 0.0 && norm.is_finite()) {
                return;
            }
            self.largest = self.largest.max(Self::MARGIN * norm);
            self.vector.iter_mut().zip(&self.image).for_each(|(v, y)| *v = y / norm);
        }
        self.warm = true;
    }

    /// Prepares the unit vector that an iteration starts from: the last one, mixed with a vector
    /// that has no symmetry and is therefore not orthogonal to an eigenvector.
    fn start(&mut self) {
        let entry = |i: usize| 1.0 + (i as f64 * 0.618_033_988_7).fract();
        let length = (0..self.vector.len()).map(|i| entry(i).powi(2)).sum::<f64>().sqrt();
        let (keep, share) = if self.warm { (1.0, Self::REFRESH) } else { (0.0, 1.0) };
        for (i, v) in self.vector.iter_mut().enumerate() {
            *v = keep * *v + share * entry(i) / length;
        }
        let norm = dot(&self.vector, &self.vector).sqrt();
        self.vector.iter_mut().for_each(|v| *v /= norm);
    }
}

impl Carried for Smoothness {
    fn save(&self) -> Vec<u8> {
        encode(&(self.largest, self.warm, &self.vector))
    }

    fn load(&mut self, bytes: &[u8]) -> bool {
        let Some((largest, warm, vector)) = decode::<(f64, bool, Vec<f64>)>(bytes) else { return false };
        (self.largest, self.warm) = (largest, warm);
        replace(&mut self.vector, Some(vector), |own, read| own.len() == read.len())
    }
}
