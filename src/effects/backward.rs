//! The terms that grouped effects add to the gradient in the features of a row.

use super::moments::{Moments, of_raw_features};
use super::term::Effects;
use crate::latent::LatentLayer;
use faer::{Mat, MatMut, MatRef};

/// The contribution of grouped effects to `∂J/∂a_i` and `∂J/∂c_i`, if all rows have the precision
/// d.
///
/// With `η_i = a_iᵀw + z_iᵀb`, `∂J/∂a_i = d [Cov(w, η_i) − (c_i − E η_i) E w]`. The effects contribute `d [Cov(w, b) + E w E bᵀ] z_i` to it,
/// and `d z_iᵀ E b` to `∂J/∂o_i = −d (c_i − E η_i)`.
pub struct RowAdjoint<'a> {
    effects: &'a Effects,
    moments: &'a Moments,
    /// `d Wᵀ (Cov(w, u) + E w E uᵀ)`, M × coefficients.
    columns: Mat<f64>,
    precision: f64,
}

impl<'a> RowAdjoint<'a> {
    /// Creates the adjoint for the precision `1/σ²` of all rows.
    pub fn new(layer: &dyn LatentLayer, effects: &'a Effects, moments: &'a Moments, precision: f64) -> Self {
        let (weights, u) = (&moments.weights, &moments.coefficients);
        let columns = Mat::from_fn(moments.cross.nrows(), moments.cross.ncols(), |i, j| {
            precision * (moments.cross[(i, j)] + weights[i] * u[j])
        });
        RowAdjoint { effects, moments, columns: of_raw_features(layer, columns), precision }
    }

    /// Adds the terms of the rows `x` to `t = ∂J/∂k` (M × b) and to the derivatives in the offsets. `weights` holds one weight for each row, or
    /// nothing if all weights are 1.
    pub(crate) fn add(
        &self,
        x: MatRef<'_, f64>,
        mut t: MatMut<'_, f64>,
        weights: &[f64],
        offset_bar: &mut [f64],
    ) {
        let mut column = vec![0.0; t.nrows()];
        for (i, bar) in offset_bar.iter_mut().enumerate() {
            let (entries, weight) = (self.effects.entries(x.row(i)), weights.get(i).copied().unwrap_or(1.0));
            column.fill(0.0);
            self.moments.add_with(&self.columns, (self.effects, &entries), &mut column);
            t.as_mut().col_mut(i).iter_mut().zip(&column).for_each(|(t, x)| *t += weight * x);
            *bar += weight * self.precision * self.moments.mean(self.effects, &entries);
        }
    }
}

/// The moments of the effects of each row, as the gradient of FITC needs them.
#[derive(Clone, Copy)]
pub struct RowMoments<'a> {
    /// The terms and their factors.
    pub effects: &'a Effects,
    /// The posterior.
    pub moments: &'a Moments,
}

impl RowMoments<'_> {
    /// Turns `t = S a`, `quad = aᵀSa` and `fit = aᵀm` of the rows `x` with features `a` into `Cov(w, η)`, `Var η` and `E η`.
    pub(crate) fn add(
        &self,
        x: MatRef<'_, f64>,
        a: MatRef<'_, f64>,
        mut t: MatMut<'_, f64>,
        (quad, fit): (&mut [f64], &mut [f64]),
    ) {
        let mut cross = vec![0.0; t.nrows()];
        for (i, (quad, fit)) in quad.iter_mut().zip(fit).enumerate() {
            let entries = self.effects.entries(x.row(i));
            cross.fill(0.0);
            self.moments.add_cross(self.effects, &entries, &mut cross);
            let shared: f64 = a.col(i).iter().zip(&cross).map(|(a, x)| a * x).sum();
            t.as_mut().col_mut(i).iter_mut().zip(&cross).for_each(|(t, x)| *t += x);
            *quad += 2.0 * shared + self.moments.variance(self.effects, &entries);
            *fit += self.moments.mean(self.effects, &entries);
        }
    }
}
