//! How q(w) moves with θ and Z: the quantity that stays fixed, its effect on the gradient, and the
//! move.
//!
//! The adjoint of the layer is taken at fixed w. The adjoint of the whitening is then
//! `G = Ā Aᵀ = m cᵀ + 2 (S − I) B`, which enters as `−⟨G, L⁻¹dL⟩`. Here L is the Cholesky factor of K_uu, A
//! has the features of a row in each column, Ā is the derivative in A, and `c = Ag` and B are the gradients
//! of the losses in m and S, with `g_i = ∂ℓ_i/∂μ_i`. The gradients of the objective are
//! `m̄ = ∇_m F = c + βm` and `S̄ = ∇_S F = B + (β/2)(I − S⁻¹)`.
//!
//! *Sites* (Adam, Chang, Khan & Solin 2021). `S⁻¹ = I + Λ` and `S⁻¹m = λ` with `Λ ← TᵀΛT`, `λ ← Tᵀλ`, `T = L⁻¹L₊`; then
//! `dΛ = EᵀΛ + ΛE`, `dλ = Eᵀλ` with `E = L⁻¹dL`, and since `SΛ = I − S`,
//!
//! ```text
//! dS = −S Eᵀ(I − S) − (I − S) E S,    dm = S Eᵀm − (I − S) E m
//! G gains 2 (I − S) S̄ S + (I − S) m̄ mᵀ − m (S m̄)ᵀ,    S̄ S = B S − (β/2)(I − S)
//! G = m cᵀ − (S − I)(2B + βI)(S − I) + (I − S) m̄ mᵀ − m (S m̄)ᵀ
//! ```

use super::{DataGradient, Matrix, Normal};
use crate::linalg::{self, Factorizer, Operand, Part, gram_of_inverse, product, reflect_lower};
use faer::{Accum, Mat, MatRef};

/// The quantity that stays fixed when θ and Z of a sparse GP change, with inducing variables `u = L w`, `L Lᵀ = K_uu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Parameterization {
    /// The mean and covariance of the whitened w: q(u) moves with the prior, and no computation is
    /// needed.
    Whitened,
    /// The sites of a full q(u) ∝ p(u) t(u): the Gaussian factor t, which carries the information
    /// of the data. The prior moves.
    Sites,
}

/// The matrices for `G` at fixed sites, kept from step to step.
pub(crate) struct SiteAdjoint {
    g: Mat<f64>,
    /// `S − I`.
    rest: Mat<f64>,
    inner: Mat<f64>,
    /// Buffers for `m̄` and vectors computed from it.
    bar: Vec<f64>,
    inside: Vec<f64>,
}

impl SiteAdjoint {
    pub(crate) fn new(m: usize) -> Self {
        let square = || linalg::spread(m, m);
        SiteAdjoint { g: square(), rest: square(), inner: square(), bar: vec![0.0; m], inside: vec![0.0; m] }
    }

    /// Returns the lower triangle of `G`.
    pub(crate) fn of(&mut self, q: &Normal, gradient: &DataGradient<'_>, beta: f64) -> MatRef<'_, f64> {
        let SiteAdjoint { g, rest, inner, bar, inside } = self;
        rest.copy_from(q.cov().full());
        linalg::add_diagonal(rest.as_mut(), -1.0);
        for (inner, rest) in inner.col_iter_mut().zip(rest.col_iter()) {
            inner.iter_mut().zip(rest.iter()).for_each(|(inner, rest)| *inner = beta * rest);
        }
        let [left, data] = [rest.as_ref(), gradient.cov.full()].map(Operand::full);
        product(inner.as_mut(), Part::All, Accum::Add, data, left, 2.0);
        product(g.as_mut(), Part::Lower, Accum::Replace, left, Operand::full(inner.as_ref()), -1.0);
        let terms = gradient.mean.iter().zip(q.mean());
        bar.iter_mut().zip(terms).for_each(|(bar, (c, m))| *bar = c + beta * m);
        linalg::matvec(q.cov().full(), bar, inside);
        bar.iter_mut().zip(&*inside).for_each(|(bar, inside)| *bar -= inside);
        inside.iter_mut().zip(gradient.mean).for_each(|(inside, c)| *inside = c - *inside);
        linalg::add_outer_lower(g.as_mut(), q.mean(), inside);
        linalg::add_outer_lower(g.as_mut(), bar, q.mean());
        g.as_ref()
    }
}

/// Moves q at fixed sites; keeps the matrices for that.
pub(crate) struct SiteCarrier {
    factorizer: Factorizer,
    old_inverse: Mat<f64>,
    precision: Mat<f64>,
    t: Mat<f64>,
    half: Mat<f64>,
    shift: Vec<f64>,
    carried: Vec<f64>,
    mean: Vec<f64>,
}

impl SiteCarrier {
    pub(crate) fn new(m: usize) -> Self {
        let square = || linalg::spread(m, m);
        let vector = || vec![0.0; m];
        SiteCarrier {
            factorizer: Factorizer::new(m),
            old_inverse: square(),
            precision: square(),
            t: square(),
            half: square(),
            shift: vector(),
            carried: vector(),
            mean: vector(),
        }
    }

    /// Stores `L⁻¹` before it changes.
    pub(crate) fn remember(&mut self, inverse: MatRef<'_, f64>) {
        self.old_inverse.copy_from(inverse);
    }

    /// Moves `q` from the stored `L⁻¹` to `new`, the current L. `precision` is the lower triangle
    /// of the `S⁻¹` of `q`, if it is known. Returns the new `S⁻¹`, which the caller may take.
    /// Returns `None`, and leaves the whitened q unchanged, if sites of negative precision allow no
    /// posterior.
    pub(crate) fn carry(
        &mut self,
        q: &mut Normal,
        precision: Option<MatRef<'_, f64>>,
        new: MatRef<'_, f64>,
    ) -> Option<&mut Mat<f64>> {
        self.take_sites(q, precision)?;
        let lower = Operand::lower(self.old_inverse.as_ref());
        product(self.t.as_mut(), Part::Lower, Accum::Replace, lower, Operand::lower(new), 1.0);
        linalg::clear_upper(self.t.as_mut());
        let upper = Operand::upper(self.t.transpose());
        linalg::congruence(upper, self.precision.as_mut(), self.half.as_mut());
        linalg::add_diagonal(self.precision.as_mut(), 1.0);
        linalg::matvec(self.t.transpose(), &self.shift, &mut self.carried);

        linalg::copy_lower(self.precision.as_ref(), self.t.as_mut());
        self.factorizer.cholesky_with_inverse(self.t.as_mut(), self.half.as_mut()).ok()?;
        let log_det = -linalg::log_det(self.t.as_ref());
        gram_of_inverse(self.half.as_ref(), self.t.as_mut());
        linalg::matvec(self.t.as_ref(), &self.carried, &mut self.mean);
        let finite = log_det.is_finite() && self.mean.iter().all(|x| x.is_finite());
        let Matrix::Full(cov) = &mut q.cov else { return None };
        if !finite {
            return None;
        }
        std::mem::swap(cov, &mut self.t);
        q.mean.copy_from_slice(&self.mean);
        q.log_det = log_det;
        Some(&mut self.precision)
    }

    /// Returns `Λ = S⁻¹ − I` and `λ = S⁻¹m`.
    fn take_sites(&mut self, q: &Normal, precision: Option<MatRef<'_, f64>>) -> Option<()> {
        match precision {
            Some(precision) => {
                self.precision.copy_from(precision);
                reflect_lower(self.precision.as_mut());
            }
            None => {
                self.t.copy_from(q.cov().full());
                self.factorizer.cholesky_with_inverse(self.t.as_mut(), self.half.as_mut()).ok()?;
                gram_of_inverse(self.half.as_ref(), self.precision.as_mut());
            }
        }
        linalg::matvec(self.precision.as_ref(), q.mean(), &mut self.shift);
        linalg::add_diagonal(self.precision.as_mut(), -1.0);
        Some(())
    }
}
