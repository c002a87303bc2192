//! Grouped effects as features of rows, whitened so that their coefficients are N(0, I), and the
//! adjoint of these features.

use super::moments::prior_variance;
use super::rows::Entry;
use super::sums::scale_segments;
use super::term::Effects;
use faer::{Mat, MatRef, RowRef};

/// The features of some rows, one for each coefficient `u = F⁻¹b`, in the order of terms and
/// levels. A row has the features `Fᵀz` at the coefficients of its levels, and 0 at all others.
/// Levels that training did not see have no coefficients.
#[derive(Default)]
pub(crate) struct EffectFeatures {
    /// F of every term, and the index of its first coefficient.
    factors: Vec<Mat<f64>>,
    offsets: Vec<usize>,
    /// The index of the first entry of every row in `met`, and the length of `met` at the end.
    starts: Vec<usize>,
    met: Vec<Met>,
    /// z and `Fᵀz`, one after the other for all of `met`.
    raw: Vec<f64>,
    whitened: Vec<f64>,
}

/// A level of a row.
struct Met {
    term: usize,
    /// The index of its first coefficient.
    place: usize,
    /// The index of its z.
    at: usize,
}

impl EffectFeatures {
    /// Sets the effects, and drops all rows.
    pub fn reset(&mut self, effects: &Effects) {
        let terms = effects.terms();
        let before = terms.iter().scan(0, |at, term| Some(std::mem::replace(at, *at + term.coefficients())));
        self.offsets = before.collect();
        self.factors = (0..terms.len()).map(|term| effects.factor(term)).collect();
        [&mut self.raw, &mut self.whitened].into_iter().for_each(Vec::clear);
        self.met.clear();
        self.starts.clear();
        self.starts.push(0);
    }

    /// Appends the row `x` (inputs of f, then the columns of the terms).
    pub fn push(&mut self, effects: &Effects, x: RowRef<'_, f64>) {
        for (term, entry) in effects.entries(x).iter().enumerate() {
            let Some(level) = entry.known() else { continue };
            let (at, z) = (self.raw.len(), entry.z());
            self.met.push(Met { term, place: self.offsets[term] + level * z.len(), at });
            self.raw.extend_from_slice(z);
            self.whitened.extend_from_slice(z);
            scale_segments(&mut self.whitened[at..], &self.factors[term]);
        }
        self.starts.push(self.met.len());
    }

    fn met(&self, row: usize) -> impl Iterator<Item = (&Met, &[f64], &[f64])> {
        self.met[self.starts[row]..self.starts[row + 1]].iter().map(|met| {
            let own = met.at..met.at + self.factors[met.term].nrows();
            (met, &self.raw[own.clone()], &self.whitened[own])
        })
    }

    /// Adds `weight` times the features of a row to `out`, which has one number for each
    /// coefficient.
    pub fn add(&self, row: usize, weight: f64, out: &mut [f64]) {
        for (met, _, whitened) in self.met(row) {
            out[met.place..].iter_mut().zip(whitened).for_each(|(out, z)| *out += weight * z);
        }
    }

    /// Returns the inner product of the features of a row with `x`, which has one number for each
    /// coefficient.
    pub fn dot(&self, row: usize, x: &[f64]) -> f64 {
        let of_level = |(met, _, whitened): (&Met, _, &[f64])| -> f64 {
            x[met.place..].iter().zip(whitened).map(|(x, z)| x * z).sum()
        };
        self.met(row).map(of_level).sum()
    }

    /// Adds `∂J/∂F` of every term, given `weight` times the derivatives in the features of a row: `F̄_ab += z_a φ̄_b`.
    pub fn adjoint(&self, row: usize, weight: f64, bar: &[f64], factors: &mut [Mat<f64>]) {
        for (met, z, _) in self.met(row) {
            for (b, bar) in bar[met.place..met.place + z.len()].iter().enumerate() {
                (b..z.len()).for_each(|a| factors[met.term][(a, b)] += weight * z[a] * bar);
            }
        }
    }
}

impl Effects {
    /// Adds the prior variance `Σ zᵀΣz` of the effects of every row of `x` to `out`.
    pub(crate) fn add_prior_variances(&self, x: MatRef<'_, f64>, out: &mut [f64]) {
        for (out, x) in out.iter_mut().zip(x.row_iter()).filter(|_| !self.is_empty()) {
            *out += prior_variance(self, &self.entries(x), |_| true);
        }
    }

    /// Returns the prior variance `Σ zᵀΣz` of the effects of the row `x` whose levels training did
    /// not see.
    pub(crate) fn new_variance(&self, x: RowRef<'_, f64>) -> f64 {
        prior_variance(self, &self.entries(x), Entry::is_new)
    }
}
