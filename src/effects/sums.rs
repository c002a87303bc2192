//! Weighted sums over rows by level: z zᵀ, z times the residual of the target, and products with
//! other features.

use super::rows::{EffectRows, TermRows};
use super::term::Effects;
use crate::error::{Error, Result};
use faer::{ColMut, Mat, MatMut, MatRef};
use serde::{Deserialize, Serialize};

/// Sums over rows with weights ω, `c = y − o`.
///
/// The coefficients of all terms follow each other, term by term and level by level. "Others" are the coefficients of terms that are not
/// eliminated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EffectSums {
    /// `G_l = Σ ω z zᵀ` of every level of the eliminated term, `r × r` each.
    pub(crate) blocks: Vec<f64>,
    /// `Σ ω z′ zᵀ` of the eliminated term's z with each coefficient of the others that occurs with
    /// its level: r numbers for each place.
    pub(crate) pairs: Vec<f64>,
    /// `Σ ω z′ z′ᵀ` of the others, both triangles.
    #[serde(with = "crate::linalg::stored")]
    pub(crate) others: Mat<f64>,
    /// `C = Σ ω a zᵀ`, M × coefficients.
    #[serde(with = "crate::linalg::stored")]
    pub(crate) cross: Mat<f64>,
    /// `Σ ω c z`.
    pub(crate) response: Vec<f64>,
    /// ω of every row.
    #[serde(skip)]
    weights: Vec<f64>,
}

impl EffectSums {
    /// Creates sums of zero for M features.
    pub fn zeros(rows: &EffectRows, features: usize) -> Self {
        let (own, other) = (&rows.terms[rows.eliminated], rows.other_size());
        let coefficients = (0..rows.terms.len()).map(|term| rows.size(term)).sum();
        EffectSums {
            blocks: vec![0.0; own.levels * own.width * own.width],
            pairs: vec![0.0; rows.meetings.columns.len() * own.width],
            others: Mat::zeros(other, other),
            cross: Mat::zeros(features, coefficients),
            response: vec![0.0; coefficients],
            weights: vec![1.0; rows.len()],
        }
    }

    /// Sets everything to zero.
    pub fn clear(&mut self) {
        self.blocks.fill(0.0);
        self.pairs.fill(0.0);
        self.others.as_mut().fill(0.0);
        self.cross.as_mut().fill(0.0);
        self.response.fill(0.0);
    }

    /// Adds the sums over other rows. The levels of the eliminated term must not occur together with levels of other terms, because the pairs
    /// that occur differ between rows.
    ///
    /// # Errors
    ///
    /// If the other sums belong to other terms or features.
    pub fn merge(&mut self, other: &EffectSums) -> Result<()> {
        let shape = |s: &EffectSums| (s.blocks.len(), s.pairs.len(), s.others.shape(), s.cross.shape());
        if shape(self) != shape(other) || !self.pairs.is_empty() {
            return Err(Error::unlike_sums(self.cross.nrows(), other.cross.nrows()));
        }
        let add = |own: &mut [f64], other: &[f64]| own.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        add(&mut self.blocks, &other.blocks);
        add(&mut self.response, &other.response);
        self.cross += &other.cross;
        Ok(())
    }

    /// Adds the rows from `first` on with features `a` (M × b), weights ω and `ω c` (b each).
    pub fn add_features(
        &mut self,
        rows: &EffectRows,
        first: usize,
        a: MatRef<'_, f64>,
        weights: &[f64],
        weighted: &[f64],
    ) {
        self.weights[first..first + weights.len()].copy_from_slice(weights);
        let mut offset = 0;
        for (index, term) in rows.terms.iter().enumerate() {
            for (i, (weight, weighted)) in weights.iter().zip(weighted).enumerate() {
                let (row, code) = (first + i, term.codes[first + i] as usize);
                for (k, z) in term.z(row).iter().enumerate() {
                    let column = offset + code * term.width + k;
                    self.response[column] += weighted * z;
                    let factor = weight * z;
                    self.cross
                        .col_mut(column)
                        .iter_mut()
                        .zip(a.col(i).iter())
                        .for_each(|(c, a)| *c += factor * a);
                }
            }
            offset += rows.size(index);
        }
    }

    /// Adds the products of the terms with each other over all rows, with the weights that
    /// [`add_features`](Self::add_features) received.
    pub fn add_products(&mut self, rows: &EffectRows) {
        let own = &rows.terms[rows.eliminated];
        let others: Vec<(usize, &TermRows)> =
            rows.others().map(|term| (rows.other_offset(term), &rows.terms[term])).collect();
        let r = own.width;
        for row in 0..rows.len() {
            let weight = self.weights[row];
            let (z, level) = (own.z(row), own.codes[row] as usize);
            add_outer(&mut self.blocks[level * r * r..(level + 1) * r * r], z, z, weight);
            for (place, (_, other)) in others.iter().enumerate() {
                let first = rows.meetings.places[row * others.len() + place] as usize;
                let room = &mut self.pairs[first * r..(first + other.width) * r];
                add_outer(room, other.z(row), z, weight);
            }
            for (offset, left) in &others {
                let i = offset + left.codes[row] as usize * left.width;
                for (offset, right) in &others {
                    let j = offset + right.codes[row] as usize * right.width;
                    for (b, right) in right.z(row).iter().enumerate() {
                        for (a, left) in left.z(row).iter().enumerate() {
                            self.others[(i + a, j + b)] += weight * left * right;
                        }
                    }
                }
            }
        }
    }

    /// Returns the sums with `F_jᵀ z` instead of z, for coefficients `u = F⁻¹ b ~ N(0, I)`, times
    /// `precision`.
    pub(crate) fn whitened(&self, rows: &EffectRows, effects: &Effects, precision: f64) -> EffectSums {
        let mut out = EffectSums {
            blocks: self.blocks.clone(),
            pairs: self.pairs.clone(),
            others: self.others.clone(),
            cross: self.cross.clone(),
            response: self.response.clone(),
            // The sums over rows are complete, so the weights are no longer needed.
            weights: Vec::new(),
        };
        let r = rows.terms[rows.eliminated].width;
        let own = effects.factor(rows.eliminated);
        for block in out.blocks.chunks_exact_mut(r * r) {
            let mut block = MatMut::from_row_major_slice_mut(block, r, r);
            scale_columns(block.as_mut(), &own);
            scale_columns(block.transpose_mut(), &own);
        }
        for place in out.pairs.chunks_exact_mut(r) {
            scale_segments(place, &own);
        }
        for term in rows.others() {
            let (factor, width) = (effects.factor(term), rows.terms[term].width);
            let range = rows.other_offset(term)..rows.other_offset(term) + rows.size(term);
            scale_columns(out.others.as_mut().subcols_mut(range.start, range.len()), &factor);
            scale_columns(out.others.as_mut().subrows_mut(range.start, range.len()).transpose_mut(), &factor);
            let mut place = 0;
            while place < rows.meetings.columns.len() {
                if !range.contains(&(rows.meetings.columns[place] as usize)) {
                    place += 1;
                    continue;
                }
                let room = &mut out.pairs[place * r..(place + width) * r];
                scale_columns(MatMut::from_row_major_slice_mut(room, width, r).transpose_mut(), &factor);
                place += width;
            }
        }
        for term in 0..rows.terms.len() {
            let (factor, from, size) = (effects.factor(term), rows.offset(term), rows.size(term));
            scale_columns(out.cross.as_mut().subcols_mut(from, size), &factor);
            scale_segments(&mut out.response[from..from + size], &factor);
        }
        out.scale(precision);
        out
    }

    fn scale(&mut self, factor: f64) {
        if factor == 1.0 {
            return;
        }
        [&mut self.blocks, &mut self.pairs, &mut self.response]
            .into_iter()
            .for_each(|values| values.iter_mut().for_each(|value| *value *= factor));
        self.others *= faer::Scale(factor);
        self.cross *= faer::Scale(factor);
    }
}

/// Adds `weight x yᵀ` to a matrix that is stored row by row.
fn add_outer(out: &mut [f64], x: &[f64], y: &[f64], weight: f64) {
    for (out, x) in out.chunks_exact_mut(y.len()).zip(x) {
        out.iter_mut().zip(y).for_each(|(out, y)| *out += weight * x * y);
    }
}

/// Multiplies the columns, `r` at a time, by F from the right.
fn scale_columns(mut columns: MatMut<'_, f64>, factor: &Mat<f64>) {
    let r = factor.nrows();
    for first in (0..columns.ncols()).step_by(r) {
        // Column b of the product depends on columns b and later, so in ascending order nothing
        // needed is overwritten.
        for b in 0..r {
            let (done, rest) = columns.as_mut().split_at_col_mut(first + b + 1);
            let mut column: ColMut<'_, f64> = done.col_mut(first + b);
            column.as_mut().iter_mut().for_each(|value| *value *= factor[(b, b)]);
            for a in b + 1..r {
                let other = rest.as_ref().col(a - b - 1);
                column
                    .as_mut()
                    .iter_mut()
                    .zip(other.iter())
                    .for_each(|(value, x)| *value += factor[(a, b)] * x);
            }
        }
    }
}

/// Multiplies segments of r numbers by Fᵀ.
pub(super) fn scale_segments(values: &mut [f64], factor: &Mat<f64>) {
    let r = factor.nrows();
    for segment in values.chunks_exact_mut(r) {
        for b in 0..r {
            segment[b] = (b..r).map(|a| factor[(a, b)] * segment[a]).sum();
        }
    }
}
