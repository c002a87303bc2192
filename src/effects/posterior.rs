//! The effects of a fitted model for predictions: moments, factors, and covariances with raw
//! features. W is the whitening of the layer of f.

use super::moments::Moments;
use super::rows::Entry;
use super::term::Effects;
use crate::linalg;
use faer::{ColRef, Mat, RowRef};

/// The posterior of the grouped effects of a model with a latent function.
#[derive(Clone, Debug)]
pub struct EffectPosterior {
    effects: Effects,
    moments: Moments,
    /// `Wᵀ Cov(w, u)`: its products with raw features k are covariances with the function.
    raw_cross: Mat<f64>,
}

impl EffectPosterior {
    /// Creates the posterior from `Wᵀ Cov(w, u)`, W the whitening of the layer of f.
    pub(crate) fn with_cross(effects: Effects, moments: Moments, raw_cross: Mat<f64>) -> Self {
        EffectPosterior { effects, moments, raw_cross }
    }

    /// Returns the terms and their factors.
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Returns the moments.
    pub(crate) fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Returns the terms that the effects of the row `x` (inputs of f, then the columns of the terms) add to the mean and to the variance of
    /// its function, given raw features k (M).
    pub(crate) fn row(&self, x: RowRef<'_, f64>, k: ColRef<'_, f64>) -> (f64, f64) {
        let entries = self.effects.entries(x);
        let mut cross = vec![0.0; k.nrows()];
        self.add_raw_cross(&entries, &mut cross);
        let mean = self.moments.mean(&self.effects, &entries);
        let shared: f64 = k.iter().zip(&cross).map(|(k, x)| k * x).sum();
        (mean, self.moments.variance(&self.effects, &entries) + 2.0 * shared)
    }

    /// Adds the numbers whose products with raw features k are covariances of a row's effects with f, to `out` (M).
    pub(super) fn add_raw_cross(&self, entries: &[Entry], out: &mut [f64]) {
        self.moments.add_with(&self.raw_cross, (&self.effects, entries), out);
    }

    /// Returns the term that the effects of the row `x` add to the mean of its function.
    pub(crate) fn row_mean(&self, x: RowRef<'_, f64>) -> f64 {
        let entries: Vec<Entry> = self.effects.entries(x);
        self.moments.mean(&self.effects, &entries)
    }

    /// Returns the part of the mean of the effects of a row that one term contributes.
    pub fn term_mean(&self, x: RowRef<'_, f64>, term: usize) -> f64 {
        let mut entries = self.effects.entries(x);
        let others = entries.iter_mut().enumerate().filter(|(at, _)| *at != term);
        others.for_each(|(_, entry)| entry.leave_out());
        self.moments.mean(&self.effects, &entries)
    }

    /// Returns means and covariance of the effects of one level of a term, on the scale the model sees.
    pub(crate) fn level(&self, term: usize, level: usize) -> (Vec<f64>, Mat<f64>) {
        self.moments.level(&self.effects, term, level)
    }

    /// Returns means and covariance of the effects of one level of a term at the user's 0 of all slopes, on the scale the model sees.
    pub(crate) fn level_at_origin(&self, term: usize, level: usize) -> (Vec<f64>, Mat<f64>) {
        let (means, covariance) = self.level(term, level);
        let moved = self.effects.terms()[term].at_origin();
        let mut at_origin = vec![0.0; means.len()];
        linalg::matvec(moved.as_ref(), &means, &mut at_origin);
        (at_origin, &moved * covariance * moved.transpose())
    }
}
