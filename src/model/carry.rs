//! How q(w) moves when θ and Z do: what stays put, the part of the gradient that flows through it, and the move; no steps.
//!
//! The layer's own adjoint holds w; every other choice adds to `G = Ā Aᵀ`, the adjoint of the whitening, which enters as
//! `−⟨G, L⁻¹dL⟩`. With `m̄ = ∇_m F` and `S̄ = ∇_S F`, prior included:
//!
//! *u.* `m = L⁻¹m_u` and `S = L⁻¹S_uL⁻ᵀ`, so `G` gains `m̄ mᵀ + 2 S̄ S`.
//!
//! *Sites* (Adam, Chang, Khan & Solin 2021). `S⁻¹ = I + Λ` and `S⁻¹m = λ` with `Λ ← TᵀΛT`, `λ ← Tᵀλ`, `T = L⁻¹L₊`; then
//! `dΛ = EᵀΛ + ΛE`, `dλ = Eᵀλ` with `E = L⁻¹dL`, and since `SΛ = I − S`,
//!
//! ```text
//! dS = −S Eᵀ(I − S) − (I − S) E S,    dm = S Eᵀm − (I − S) E m
//! G gains 2 (I − S) S̄ S + (I − S) m̄ mᵀ − m (S m̄)ᵀ,    S̄ S = B S − (β/2)(I − S)
//! ```

use crate::linalg::{self, Factorizer, Part, Shape, gram_of_inverse, product, reflect_lower};
use crate::variational::{DataGradient, Matrix, Normal};
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

/// What `G` gains, lower triangle, when u stays: `m̄ mᵀ + 2 B S + β (S − I)`.
pub(super) fn unwhitened_adjoint(q: &Normal, gradient: &DataGradient<'_>, beta: f64) -> Mat<f64> {
    let (m, cov) = (q.dim(), q.cov().full());
    let bar = mean_bar(q, gradient, beta);
    let mut g = Mat::zeros(m, m);
    let left = (gradient.cov.full(), Shape::Full);
    product(g.as_mut(), Part::Lower, Accum::Replace, left, (cov, Shape::Full), 2.0);
    for j in 0..m {
        for i in j..m {
            let identity = if i == j { 1.0 } else { 0.0 };
            g[(i, j)] += bar[i] * q.mean()[j] + beta * (cov[(i, j)] - identity);
        }
    }
    g
}

/// What `G` gains, lower triangle, when the sites stay.
pub(super) fn sites_adjoint(q: &Normal, gradient: &DataGradient<'_>, beta: f64) -> Mat<f64> {
    let (m, cov) = (q.dim(), q.cov().full());
    let rest = Mat::from_fn(m, m, |i, j| if i == j { 1.0 - cov[(i, j)] } else { -cov[(i, j)] });
    let mut inner = Mat::zeros(m, m);
    let left = (gradient.cov.full(), Shape::Full);
    product(inner.as_mut(), Part::All, Accum::Replace, left, (cov, Shape::Full), 1.0);
    for (x, r) in inner.as_mut().col_iter_mut().zip(rest.col_iter()) {
        x.iter_mut().zip(r.iter()).for_each(|(x, r)| *x -= 0.5 * beta * r);
    }
    let mut g = Mat::zeros(m, m);
    let (left, right) = ((rest.as_ref(), Shape::Full), (inner.as_ref(), Shape::Full));
    product(g.as_mut(), Part::Lower, Accum::Replace, left, right, 2.0);
    let bar = mean_bar(q, gradient, beta);
    let mut inside = vec![0.0; m];
    linalg::matvec(cov, &bar, &mut inside);
    for j in 0..m {
        for i in j..m {
            g[(i, j)] += (bar[i] - inside[i]) * q.mean()[j] - q.mean()[i] * inside[j];
        }
    }
    g
}

/// The whitened form of an unchanged q(u): `m ← T m`, `S ← T S Tᵀ` with `T = L₊⁻¹ L`.
pub(super) fn carry_unwhitened(q: &mut Normal, new_inverse: MatRef<'_, f64>, old: MatRef<'_, f64>) {
    let m = q.dim();
    let Matrix::Full(cov) = &mut q.cov else { return };
    let (mut t, mut half) = (Mat::zeros(m, m), Mat::zeros(m, m));
    product(t.as_mut(), Part::Lower, Accum::Replace, (new_inverse, Shape::Lower), (old, Shape::Lower), 1.0);
    let lower = (t.as_ref(), Shape::Lower);
    product(half.as_mut(), Part::All, Accum::Replace, lower, (cov.as_ref(), Shape::Full), 1.0);
    let upper = (t.transpose(), Shape::Upper);
    product(cov.as_mut(), Part::Lower, Accum::Replace, (half.as_ref(), Shape::Full), upper, 1.0);
    reflect_lower(cov.as_mut());
    let mean = q.mean.clone();
    linalg::matvec(t.as_ref(), &mean, &mut q.mean);
    q.log_det += 2.0 * (0..m).map(|i| t[(i, i)].ln()).sum::<f64>();
}

/// The posterior of unchanged sites, from `L⁻¹` before and `L` after. Where sites of negative precision leave no posterior,
/// q stays as it is in the whitened form.
pub(super) fn carry_sites(q: &mut Normal, old_inverse: MatRef<'_, f64>, new: MatRef<'_, f64>) {
    if let Some(carried) = carried_sites(q, old_inverse, new) {
        *q = carried;
    }
}

fn carried_sites(q: &Normal, old_inverse: MatRef<'_, f64>, new: MatRef<'_, f64>) -> Option<Normal> {
    let m = q.dim();
    let mut factorizer = Factorizer::new(m);
    let (mut factor, mut inverse, mut precision) = (Mat::zeros(m, m), Mat::zeros(m, m), Mat::zeros(m, m));
    factor.copy_from(q.cov().full());
    factorizer.cholesky(factor.as_mut()).ok()?;
    linalg::invert_lower(factor.as_ref(), inverse.as_mut());
    gram_of_inverse(inverse.as_ref(), precision.as_mut());
    let mut shift = vec![0.0; m];
    linalg::matvec(precision.as_ref(), q.mean(), &mut shift);
    linalg::add_diagonal(precision.as_mut(), -1.0);

    let (mut t, mut half) = (factor, inverse);
    product(t.as_mut(), Part::Lower, Accum::Replace, (old_inverse, Shape::Lower), (new, Shape::Lower), 1.0);
    linalg::clear_upper(t.as_mut());
    let upper = (t.transpose(), Shape::Upper);
    product(half.as_mut(), Part::All, Accum::Replace, upper, (precision.as_ref(), Shape::Full), 1.0);
    let (left, right) = ((half.as_ref(), Shape::Full), (t.as_ref(), Shape::Lower));
    product(precision.as_mut(), Part::Lower, Accum::Replace, left, right, 1.0);
    linalg::add_diagonal(precision.as_mut(), 1.0);
    let mut carried = vec![0.0; m];
    linalg::matvec(t.transpose(), &shift, &mut carried);

    factorizer.cholesky(precision.as_mut()).ok()?;
    linalg::invert_lower(precision.as_ref(), half.as_mut());
    let mut cov = t;
    gram_of_inverse(half.as_ref(), cov.as_mut());
    let mut mean = shift;
    linalg::matvec(cov.as_ref(), &carried, &mut mean);
    let log_det = -linalg::log_det(precision.as_ref());
    let finite = log_det.is_finite() && mean.iter().all(|x| x.is_finite());
    finite.then_some(Normal { mean, cov: Matrix::Full(cov), log_det })
}
