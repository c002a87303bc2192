//! The effects of a fitted model for predictions: moments, factors, and covariances with raw
//! features. W is the whitening of the layer of f.

use super::moments::{Loads, Moments, bilinear};
use super::rows::Entry;
use super::term::Effects;
use crate::linalg;
use faer::{ColRef, Mat, MatMut, MatRef, RowRef};

/// The posterior of the grouped effects of a model with a latent function.
#[derive(Clone, Debug)]
#[doc(hidden)]
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

/// The effects of a model with their moments under q.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct RowMoments<'a> {
    /// The terms and their factors.
    pub(crate) effects: &'a Effects,
    pub(crate) moments: &'a Moments,
}

impl RowMoments<'_> {
    /// Adds the effects of the rows `x` to `T = (S − κI) A` (`M × b`), which becomes `T + Cov(w, b) Z`, to the means of f and, if wanted, to
    /// its variances. `cross` is `Cov(w, u)` in the coordinates of the features `a`.
    pub(crate) fn add(
        &self,
        x: MatRef<'_, f64>,
        (a, cross): (MatRef<'_, f64>, &Mat<f64>),
        mut t: MatMut<'_, f64>,
        mean: &mut [f64],
        mut variance: Option<&mut [f64]>,
    ) {
        let mut own = vec![0.0; t.nrows()];
        for (i, mean) in mean.iter_mut().enumerate() {
            let entries = self.effects.entries(x.row(i));
            own.fill(0.0);
            self.moments.add_with(cross, (self.effects, &entries), &mut own);
            t.as_mut().col_mut(i).iter_mut().zip(&own).for_each(|(t, x)| *t += x);
            *mean += self.moments.mean(self.effects, &entries);
            if let Some(variance) = &mut variance {
                let shared: f64 = a.col(i).iter().zip(&own).map(|(a, x)| a * x).sum();
                variance[i] += 2.0 * shared + self.moments.variance(self.effects, &entries);
            }
        }
    }
}

impl EffectPosterior {
    /// Adds to `out` (`n × n`), the covariance of f at the rows `x` (inputs of f, then the columns of the terms), what effects add to it:
    /// their covariances with each other and with f. `k` are the raw features of the rows (`M × n`). Rows that share a level which training
    /// did not see share its prior covariance.
    pub(crate) fn add_covariance(&self, x: MatRef<'_, f64>, k: MatRef<'_, f64>, out: &mut Mat<f64>) {
        let (effects, moments) = (self.effects(), self.moments());
        let rows: Vec<Vec<Entry>> = x.row_iter().map(|row| effects.entries(row)).collect();
        let eliminated = moments.eliminated_loads(effects, &rows);
        let mut loads = Loads { weights: eliminated.weights.clone(), others: eliminated.others.clone() };
        moments.add_other_loads(effects, &rows, &mut loads.others);
        let spread = moments.spread(effects, &loads);
        *out += loads.product(&spread);
        let mut raw = Mat::zeros(k.nrows(), rows.len());
        for (row, entries) in rows.iter().enumerate() {
            self.add_raw_cross(entries, raw.col_as_slice_mut(row));
        }
        let with_function = k.transpose() * &raw;
        *out += &with_function + with_function.transpose();

        let own = moments.spread(effects, &eliminated);
        let level = |row: usize| rows[row].get(moments.eliminated).and_then(Entry::known);
        for j in 0..rows.len() {
            for i in (0..rows.len()).filter(|&i| level(i).is_some() && level(i) == level(j)) {
                let whole = moments.within_level(effects, [&rows[i], &rows[j]]);
                out[(i, j)] += whole - eliminated.dot(i, &own, j);
            }
        }
        effects.add_new_covariances(x, out);
    }
}

impl Effects {
    /// Adds `zᵀΣz′` to `out` for every term in which two rows of x share a level that training did not see.
    pub(crate) fn add_new_covariances(&self, x: MatRef<'_, f64>, out: &mut Mat<f64>) {
        let rows: Vec<Vec<Entry>> = x.row_iter().map(|row| self.entries(row)).collect();
        for (index, term) in self.terms().iter().enumerate() {
            let covariance = self.covariance(index);
            let code = |row: usize| x[(row, self.inputs() + term.code)].to_bits();
            let new: Vec<usize> = (0..rows.len()).filter(|&row| rows[row][index].is_new()).collect();
            for &j in &new {
                for &i in new.iter().filter(|&&i| code(i) == code(j)) {
                    let (left, right) = (rows[i][index].z(), rows[j][index].z());
                    out[(i, j)] += bilinear(left, right, |a, b| covariance[(a, b)]);
                }
            }
        }
    }
}
