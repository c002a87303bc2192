//! How q(w) moves when θ and Z do: what stays put, the part of the gradient that flows through it, and the move; no steps.
//!
//! The layer's own adjoint holds w: then `G = Ā Aᵀ = m cᵀ + 2 (S − I) B`, the adjoint of the whitening, which enters as
//! `−⟨G, L⁻¹dL⟩`. With `c = Ag`, `m̄ = ∇_m F = c + βm` and `S̄ = ∇_S F = B + (β/2)(I − S⁻¹)`, prior included:
//!
//! *u.* `m = L⁻¹m_u` and `S = L⁻¹S_uL⁻ᵀ`, so `G` gains `m̄ mᵀ + 2 S̄ S`.
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
use crate::columns;
use crate::linalg::{self, Factorizer, Part, Shape, gram_of_inverse, product, reflect_lower};
use faer::{Accum, Mat, MatRef};

/// What stays put when θ and Z of a sparse GP move: the whitened w, u = f(Z), or the sites (the last two for a full
/// covariance).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameterization {
    /// q(w) with `u = L w`: the default. q moves with the prior.
    Whitened,
    /// q(u): the gradient in θ has a further part through `P = K_uu`.
    Unwhitened,
    /// q(u) ∝ p(u) t(u) with Gaussian sites t that keep what the data said, while the prior moves.
    Sites,
}

/// `m̄ = Ag + βm`.
fn mean_bar(q: &Normal, gradient: &DataGradient<'_>, beta: f64) -> Vec<f64> {
    gradient.mean.iter().zip(q.mean()).map(|(g, m)| g + beta * m).collect()
}

/// The matrices of `G`, kept from step to step.
pub(crate) struct AdjointRoom {
    g: Mat<f64>,
    /// `S − I`.
    rest: Mat<f64>,
    inner: Mat<f64>,
}

impl AdjointRoom {
    /// For posteriors of dimension `m`.
    fn new(m: usize) -> Self {
        let square = || linalg::spread(m, m);
        AdjointRoom { g: square(), rest: square(), inner: square() }
    }

    /// Takes up `S − I`.
    fn take(&mut self, q: &Normal) {
        self.rest.copy_from(q.cov().full());
        linalg::add_diagonal(self.rest.as_mut(), -1.0);
    }

    /// `G`, lower triangle, when u stays: `m cᵀ + 2 (S − I) B + m̄ mᵀ + 2 B S + β (S − I)`.
    fn unwhitened(&mut self, q: &Normal, gradient: &DataGradient<'_>, beta: f64) -> MatRef<'_, f64> {
        self.take(q);
        let AdjointRoom { g, rest, .. } = self;
        columns::convert(rest.as_ref(), g.as_mut(), |r| beta * r);
        let [rest, data, cov] =
            [rest.as_ref(), gradient.cov.full(), q.cov().full()].map(|a| (a, Shape::Full));
        product(g.as_mut(), Part::Lower, Accum::Add, rest, data, 2.0);
        product(g.as_mut(), Part::Lower, Accum::Add, data, cov, 2.0);
        linalg::add_outer_lower(g.as_mut(), q.mean(), gradient.mean);
        linalg::add_outer_lower(g.as_mut(), &mean_bar(q, gradient, beta), q.mean());
        g.as_ref()
    }

    /// The same when the sites stay.
    fn sites(&mut self, q: &Normal, gradient: &DataGradient<'_>, beta: f64) -> MatRef<'_, f64> {
        self.take(q);
        let AdjointRoom { g, rest, inner } = self;
        columns::convert(rest.as_ref(), inner.as_mut(), |r| beta * r);
        let [left, data] = [rest.as_ref(), gradient.cov.full()].map(|a| (a, Shape::Full));
        product(inner.as_mut(), Part::All, Accum::Add, data, left, 2.0);
        product(g.as_mut(), Part::Lower, Accum::Replace, left, (inner.as_ref(), Shape::Full), -1.0);
        let (mut bar, mut inside) = (mean_bar(q, gradient, beta), vec![0.0; q.dim()]);
        linalg::matvec(q.cov().full(), &bar, &mut inside);
        bar.iter_mut().zip(&inside).for_each(|(bar, inside)| *bar -= inside);
        inside.iter_mut().zip(gradient.mean).for_each(|(inside, c)| *inside = c - *inside);
        linalg::add_outer_lower(g.as_mut(), q.mean(), &inside);
        linalg::add_outer_lower(g.as_mut(), &bar, q.mean());
        g.as_ref()
    }
}

/// `G`, lower triangle, where q moves with θ; `room` is made when it is first needed.
pub(crate) fn adjoint<'a>(
    parameterization: Parameterization,
    q: &Normal,
    gradient: &DataGradient<'_>,
    beta: f64,
    room: &'a mut Option<AdjointRoom>,
) -> Option<MatRef<'a, f64>> {
    let make = || AdjointRoom::new(q.dim());
    match parameterization {
        Parameterization::Whitened => None,
        Parameterization::Unwhitened => Some(room.get_or_insert_with(make).unwhitened(q, gradient, beta)),
        Parameterization::Sites => Some(room.get_or_insert_with(make).sites(q, gradient, beta)),
    }
}

/// The whitened form of an unchanged q(u): `m ← T m`, `S ← T S Tᵀ` with `T = L₊⁻¹ L`.
pub(crate) fn carry_unwhitened(q: &mut Normal, new_inverse: MatRef<'_, f64>, old: MatRef<'_, f64>) {
    let m = q.dim();
    let Matrix::Full(cov) = &mut q.cov else { return };
    let (mut t, mut half) = (Mat::zeros(m, m), Mat::zeros(m, m));
    product(t.as_mut(), Part::Lower, Accum::Replace, (new_inverse, Shape::Lower), (old, Shape::Lower), 1.0);
    let lower = (t.as_ref(), Shape::Lower);
    linalg::congruence(lower, cov.as_mut(), half.as_mut());
    let mean = q.mean.clone();
    linalg::matvec(t.as_ref(), &mean, &mut q.mean);
    q.log_det += 2.0 * (0..m).map(|i| t[(i, i)].ln()).sum::<f64>();
}

/// Moves q so that its sites stay, with the matrices that takes.
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
    /// For posteriors of dimension `m`.
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

    /// Remembers `L⁻¹`, which is about to change.
    pub(crate) fn remember(&mut self, inverse: MatRef<'_, f64>) {
        self.old_inverse.copy_from(inverse);
    }

    /// Moves `q` from the remembered `L⁻¹` to `new`, the L after; `precision` is the lower triangle of its `S⁻¹`, if that is
    /// known. What comes back is that of the new `S⁻¹`, to be taken from. Where sites of negative precision leave no
    /// posterior, q stays as it is in the whitened form, and nothing comes back.
    pub(crate) fn carry(
        &mut self,
        q: &mut Normal,
        precision: Option<MatRef<'_, f64>>,
        new: MatRef<'_, f64>,
    ) -> Option<&mut Mat<f64>> {
        self.take_sites(q, precision)?;
        let lower = (self.old_inverse.as_ref(), Shape::Lower);
        product(self.t.as_mut(), Part::Lower, Accum::Replace, lower, (new, Shape::Lower), 1.0);
        linalg::clear_upper(self.t.as_mut());
        let upper = (self.t.transpose(), Shape::Upper);
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

    /// `Λ = S⁻¹ − I` and `λ = S⁻¹m`.
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
