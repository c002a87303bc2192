//! The smoothness 𝓜 of the negative log joint, given or met so far, and the steps in its units; no rules.

use crate::checkpoint::Archive;
use crate::linalg::{self, dot};
use crate::variational::DataGradient;
use faer::MatRef;

/// 𝓜 as given, or the largest eigenvalue in size of `H = 2B + βI` met so far, by power iteration.
///
/// Gradients from samples make it too large, since it takes the noise for curvature: there it is better given.
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
    /// Iterations of the first estimate, and of later ones, which start from the last vector.
    const ITERATIONS: (usize, usize) = (12, 2);
    /// The margin for the error of so few iterations in the largest eigenvalue.
    const MARGIN: f64 = 1.1;
    /// The share of the unstructured start in a warm one: without it a direction once forgotten is never found again.
    const REFRESH: f64 = 0.1;

    /// The options for 𝓜 and for steps in units of 1/𝓜, in dimension `m`.
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

    /// Forgets what was met.
    pub(in crate::variational) fn reset(&mut self) {
        self.largest = 0.0;
        self.warm = false;
    }

    /// Passes what was met through an archive.
    pub(in crate::variational) fn archive(&mut self, archive: &mut Archive) {
        archive.value(&mut self.largest);
        archive.value(&mut self.warm);
        archive.numbers(&mut self.vector);
    }

    /// 𝓜. At least β, which is the prior's part of it.
    pub(in crate::variational) fn value(&self, beta: f64) -> f64 {
        self.given.unwrap_or(self.largest.max(beta))
    }

    /// The step γ that a step size asks for.
    pub(in crate::variational) fn gamma(&self, step: f64, beta: f64) -> f64 {
        if self.relative { step / self.value(beta) } else { step }
    }

    /// True if γ depends on observed gradients.
    pub(in crate::variational) fn scales_steps(&self) -> bool {
        self.relative && self.given.is_none()
    }

    /// True if 𝓜 is given, so that no gradient has to be observed.
    pub(in crate::variational) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Observes the diagonal of H. Its largest entry is the smoothness in the variances. The smoothness in m is the largest eigenvalue, up
    /// to M times as large if features are correlated; the user should then set 𝓜.
    pub(in crate::variational) fn observe_diagonal(&mut self, hessian: impl Iterator<Item = f64>) {
        self.largest = hessian.fold(self.largest, |a, h| a.max(h.abs()));
    }

    /// Takes in `H = 2B + βI`, or `K + βI` with the Hessian K in m of the predictive log loss, which is at least 2B.
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

    /// Takes in `½ (G C⁻¹ + C⁻ᵀ Gᵀ) + βI` from samples' gradient `G` in C. `solve` turns a vector x into `C⁻¹x`, or into
    /// `C⁻ᵀx` when told so, with a buffer to use.
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

    /// A unit vector: the last one with a share of the start, which no eigenvector is orthogonal to by symmetry.
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
