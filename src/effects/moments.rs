//! The posterior moments of w and of the whitened effects u, and the moments of rows.

use super::rows::Entry;
use super::sums::scale_segments;
use super::term::Effects;
use crate::variational::{Matrix, Normal};
use faer::{Mat, MatRef};
use serde::{Deserialize, Serialize};

/// Loads on r, a column for each row.
pub(super) struct Loads {
    /// On w, `M × n`.
    pub weights: Mat<f64>,
    /// On the coefficients of terms that are not eliminated, `O × n`.
    pub others: Mat<f64>,
}

impl Loads {
    pub(super) fn product(&self, right: &Loads) -> Mat<f64> {
        self.weights.transpose() * &right.weights + self.others.transpose() * &right.others
    }

    /// The inner product of a column with a column of `right`.
    pub(super) fn dot(&self, i: usize, right: &Loads, j: usize) -> f64 {
        self.weights.col(i).transpose() * right.weights.col(j)
            + self.others.col(i).transpose() * right.others.col(j)
    }
}

/// A sparse matrix by levels of the eliminated term: for every level some coefficients of the other terms, r numbers each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sparse {
    pub offsets: Vec<usize>,
    pub columns: Vec<u32>,
    pub values: Vec<f64>,
}

/// Moments of w and `u = F⁻¹b` given the data.
///
/// The covariances of an eliminated level l with everything else follow from `K_l = C_l T_l`: `Cov(u_l, ·) = −K_lᵀ S⁻¹`, with C_l, T_l and
/// S as in `collapsed::grouped_evidence`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Moments {
    /// The eliminated term; the number of terms if none is eliminated.
    pub(crate) eliminated: usize,
    /// `E w`, M.
    pub(crate) weights: Vec<f64>,
    /// `Cov w`, `M × M`.
    #[serde(with = "crate::linalg::stored")]
    pub(crate) covariance: Mat<f64>,
    /// `E u`, all terms one after the other, level by level.
    pub(crate) coefficients: Vec<f64>,
    /// `Cov(w, u)`, M × coefficients.
    #[serde(with = "crate::linalg::stored")]
    pub(crate) cross: Mat<f64>,
    /// `K_l` at the coefficients of other terms.
    pub(crate) loads: Sparse,
    /// `K_l` at w, M × L·r.
    #[serde(with = "crate::linalg::stored")]
    pub(crate) weight_loads: Mat<f64>,
    /// `Cov u_l` of the eliminated levels, `r × r` each, row by row.
    pub(crate) blocks: Vec<f64>,
    /// The covariance of the coefficients of all other terms.
    #[serde(with = "crate::linalg::stored")]
    pub(crate) others: Mat<f64>,
}

/// A row's entry of a term in whitened coordinates.
struct Whitened {
    term: usize,
    level: usize,
    /// `Fᵀ z`.
    z: Vec<f64>,
    /// The index of its first coefficient among the coefficients of all terms, and among the
    /// coefficients that are not eliminated.
    first: usize,
    other: usize,
}

impl Moments {
    /// Splits the joint distribution of w (one number for each of `features`) and u. No term is eliminated.
    pub(crate) fn of_joint(effects: &Effects, q: &Normal, features: usize) -> Moments {
        let dense = q.cov().to_dense();
        let cov = dense.as_ref();
        let all = effects.coefficients();
        let block =
            |i: usize, j: usize, rows: usize, columns: usize| cov.submatrix(i, j, rows, columns).to_owned();
        Moments {
            eliminated: effects.terms().len(),
            weights: q.mean()[..features].to_vec(),
            covariance: block(0, 0, features, features),
            coefficients: q.mean()[features..].to_vec(),
            cross: block(0, features, features, all),
            loads: Sparse { offsets: vec![0], columns: Vec::new(), values: Vec::new() },
            weight_loads: Mat::zeros(features, 0),
            blocks: Vec::new(),
            others: block(features, features, all, all),
        }
    }

    /// Returns true if no term is eliminated, as in models with neighbours.
    pub(crate) fn is_joint(&self) -> bool {
        self.others.nrows() == self.coefficients.len()
    }

    /// Returns the distribution of w.
    pub(crate) fn of_weights(&self) -> Normal {
        let (mean, cov) = (self.weights.clone(), self.covariance.clone());
        Normal::new(mean.clone(), cov.clone()).unwrap_or(Normal {
            mean,
            cov: Matrix::Full(cov),
            log_det: f64::NAN,
        })
    }

    /// Returns the joint distribution of w and u, without its log determinant.
    pub(crate) fn joint(&self, effects: &Effects) -> Normal {
        let (m, all) = (self.weights.len(), self.coefficients.len());
        let mut cov = Mat::zeros(m + all, m + all);
        let mut put = |i: usize, j: usize, block: MatRef<'_, f64>| {
            cov.as_mut().submatrix_mut(i, j, block.nrows(), block.ncols()).copy_from(block);
        };
        put(0, 0, self.covariance.as_ref());
        put(0, m, self.cross.as_ref());
        put(m, 0, self.cross.transpose());
        put(m, m, self.coefficient_covariance(effects).as_ref());
        let mean = self.weights.iter().chain(&self.coefficients).copied().collect();
        Normal { mean, cov: Matrix::Full(cov), log_det: f64::NAN }
    }

    /// Returns `Cov u`. A level of an eliminated term is `u_l = −K_lᵀr + ε_l`, with r of w and of all other coefficients, and the ε_l
    /// of different levels are independent.
    fn coefficient_covariance(&self, effects: &Effects) -> Mat<f64> {
        if self.is_joint() {
            return self.others.clone();
        }
        let r = effects.terms()[self.eliminated].width();
        // The coefficients of a level are the effects of a row that meets this level alone, with z a unit vector in whitened coordinates.
        let mut loads = Loads {
            weights: Mat::zeros(self.weights.len(), self.coefficients.len()),
            others: Mat::zeros(self.others.nrows(), self.coefficients.len()),
        };
        let (mut first, mut other) = (0, 0);
        for (term, of) in effects.terms().iter().enumerate() {
            for own in 0..of.coefficients() {
                if term != self.eliminated {
                    loads.others[(other + own, first + own)] = 1.0;
                    continue;
                }
                self.add_eliminated_load((own / r, own % r, r), 1.0, (&mut loads, first + own));
            }
            first += of.coefficients();
            other += if term == self.eliminated { 0 } else { of.coefficients() };
        }
        let spread = self.spread(effects, &loads);
        let mut out = loads.weights.transpose() * &spread.weights + loads.others.transpose() * &spread.others;
        let own: usize = effects.terms()[..self.eliminated].iter().map(|term| term.coefficients()).sum();
        for (at, value) in self.blocks.iter().enumerate() {
            let (level, i, j) = (at / (r * r), at / r % r, at % r);
            out[(own + level * r + i, own + level * r + j)] = *value;
        }
        out
    }

    /// Returns the entries of known levels in whitened coordinates.
    fn whitened(&self, effects: &Effects, entries: &[Entry]) -> Vec<Whitened> {
        let (mut first, mut other) = (0, 0);
        let mut out = Vec::with_capacity(entries.len());
        for (term, (entry, of)) in entries.iter().zip(effects.terms()).enumerate() {
            if let Some(level) = entry.known() {
                let mut z = entry.z().to_vec();
                scale_segments(&mut z, &effects.factor(term));
                let at = level * of.width();
                out.push(Whitened { term, level, z, first: first + at, other: other + at });
            }
            first += of.coefficients();
            other += if term == self.eliminated { 0 } else { of.coefficients() };
        }
        out
    }

    /// Returns the mean of a row's effects, `zᵀE b`.
    pub(crate) fn mean(&self, effects: &Effects, entries: &[Entry]) -> f64 {
        self.mean_of(&self.whitened(effects, entries))
    }

    fn mean_of(&self, row: &[Whitened]) -> f64 {
        let own =
            |w: &Whitened| -> f64 { w.z.iter().zip(&self.coefficients[w.first..]).map(|(z, u)| z * u).sum() };
        row.iter().map(own).sum()
    }

    /// Returns the variance of a row's effects: the posterior variance for known levels, `zᵀΣz` for
    /// new levels.
    pub(crate) fn variance(&self, effects: &Effects, entries: &[Entry]) -> f64 {
        let row = self.whitened(effects, entries);
        let mut variance = 0.0;
        for (at, left) in row.iter().enumerate() {
            variance += self.covariance_of(left, left);
            variance += row[at + 1..].iter().map(|right| 2.0 * self.covariance_of(left, right)).sum::<f64>();
        }
        variance + prior_variance(effects, entries, Entry::is_new)
    }

    /// Adds the product of a matrix, which has one column for each coefficient, with the row's
    /// whitened z to `out`.
    pub(crate) fn add_with(
        &self,
        columns: &Mat<f64>,
        (effects, entries): (&Effects, &[Entry]),
        out: &mut [f64],
    ) {
        for Whitened { z, first, .. } in self.whitened(effects, entries) {
            for (k, z) in z.iter().enumerate() {
                out.iter_mut().zip(columns.col(first + k).iter()).for_each(|(out, x)| *out += z * x);
            }
        }
    }

    /// Returns `z′ᵀ Cov(u, u′) z″` of two entries of one row.
    fn covariance_of(&self, left: &Whitened, right: &Whitened) -> f64 {
        match (left.term == self.eliminated, right.term == self.eliminated) {
            (true, true) => {
                let r = left.z.len();
                let block = &self.blocks[left.level * r * r..(left.level + 1) * r * r];
                bilinear(&left.z, &right.z, |i, j| block[i * r + j])
            }
            (false, false) => {
                bilinear(&left.z, &right.z, |i, j| self.others[(left.other + i, right.other + j)])
            }
            (true, false) => self.covariance_with_other(left, right),
            (false, true) => self.covariance_with_other(right, left),
        }
    }

    /// Returns `−zᵀ K_lᵀ S⁻¹ z′` of an eliminated level and a coefficient of another term.
    fn covariance_with_other(&self, own: &Whitened, other: &Whitened) -> f64 {
        let (r, places) = (own.z.len(), self.loads.offsets[own.level]..self.loads.offsets[own.level + 1]);
        bilinear(&own.z, &other.z, |i, j| {
            let met = places.clone().map(|place| {
                let column = self.loads.columns[place] as usize;
                self.loads.values[place * r + i] * self.others[(column, other.other + j)]
            });
            let cross = self.cross.col(other.first + j);
            let weights = self.weight_loads.col(own.level * r + i).iter().zip(cross.iter());
            -(met.sum::<f64>() + weights.map(|(k, q)| k * q).sum::<f64>())
        })
    }

    /// Returns the loads `−K_l z` of the eliminated levels of rows; 0 for rows without a known level.
    pub(super) fn eliminated_loads(&self, effects: &Effects, rows: &[Vec<Entry>]) -> Loads {
        let mut out = Loads {
            weights: Mat::zeros(self.weights.len(), rows.len()),
            others: Mat::zeros(self.others.nrows(), rows.len()),
        };
        for (row, entries) in rows.iter().enumerate() {
            let Some(Whitened { level, z, .. }) = self.eliminated_entry(effects, entries) else { continue };
            let r = z.len();
            for (i, z) in z.iter().enumerate() {
                self.add_eliminated_load((level, i, r), *z, (&mut out, row));
            }
        }
        out
    }

    /// Adds `−z` times `K_l` of coefficient `i` of the r of an eliminated level to a column of loads.
    fn add_eliminated_load(
        &self,
        (level, i, r): (usize, usize, usize),
        z: f64,
        (out, column): (&mut Loads, usize),
    ) {
        let load = self.weight_loads.col(level * r + i);
        out.weights.col_mut(column).iter_mut().zip(load.iter()).for_each(|(out, k)| *out -= z * k);
        for place in self.loads.offsets[level]..self.loads.offsets[level + 1] {
            out.others[(self.loads.columns[place] as usize, column)] -= z * self.loads.values[place * r + i];
        }
    }

    /// Adds the loads of the coefficients that are not eliminated, the rows' whitened z.
    pub(super) fn add_other_loads(&self, effects: &Effects, rows: &[Vec<Entry>], out: &mut Mat<f64>) {
        for (row, entries) in rows.iter().enumerate() {
            for entry in self.whitened(effects, entries) {
                if entry.term != self.eliminated {
                    entry.z.iter().enumerate().for_each(|(i, z)| out[(entry.other + i, row)] += z);
                }
            }
        }
    }

    /// Returns `Cov(r)` times loads.
    pub(super) fn spread(&self, effects: &Effects, loads: &Loads) -> Loads {
        let widths = effects.terms().iter().map(|term| term.coefficients());
        let mut out =
            Loads { weights: &self.covariance * &loads.weights, others: &self.others * &loads.others };
        let (mut first, mut other) = (0, 0);
        for (term, width) in widths.enumerate() {
            if term != self.eliminated {
                let cross = self.cross.as_ref().subcols(first, width);
                out.weights += cross * loads.others.as_ref().subrows(other, width);
                let mut own = out.others.as_mut().subrows_mut(other, width);
                own += cross.transpose() * &loads.weights;
                other += width;
            }
            first += width;
        }
        out
    }

    /// Returns `zᵀ Cov(u_l) z′` of two rows with the same eliminated level.
    pub(super) fn within_level(&self, effects: &Effects, rows: [&[Entry]; 2]) -> f64 {
        match rows.map(|entries| self.eliminated_entry(effects, entries)) {
            [Some(left), Some(right)] => self.covariance_of(&left, &right),
            _ => 0.0,
        }
    }

    fn eliminated_entry(&self, effects: &Effects, entries: &[Entry]) -> Option<Whitened> {
        self.whitened(effects, entries).into_iter().find(|entry| entry.term == self.eliminated)
    }

    /// Returns means and covariance of the effects `b` of one level of a term.
    pub(crate) fn level(&self, effects: &Effects, term: usize, level: usize) -> (Vec<f64>, Mat<f64>) {
        let terms = effects.terms();
        let r = terms[term].width();
        let first: usize = terms[..term].iter().map(|term| term.coefficients()).sum::<usize>() + level * r;
        let before = terms[..term].iter().enumerate().filter(|(at, _)| *at != self.eliminated);
        let other: usize = before.map(|(_, term)| term.coefficients()).sum::<usize>() + level * r;
        let own = Mat::from_fn(r, r, |i, j| {
            if term == self.eliminated {
                self.blocks[(level * r + i) * r + j]
            } else {
                self.others[(other + i, other + j)]
            }
        });
        let factor = effects.factor(term);
        let mean =
            (0..r).map(|i| (0..=i).map(|k| factor[(i, k)] * self.coefficients[first + k]).sum()).collect();
        (mean, &factor * own * factor.transpose())
    }
}

/// Returns the prior variance `Σ zᵀΣz` of the effects of those entries of a row that `counts`
/// selects.
pub(super) fn prior_variance(effects: &Effects, entries: &[Entry], counts: impl Fn(&Entry) -> bool) -> f64 {
    let of_term = |(term, entry): (usize, &Entry)| {
        let covariance = effects.covariance(term);
        bilinear(entry.z(), entry.z(), |i, j| covariance[(i, j)])
    };
    entries.iter().enumerate().filter(|(_, entry)| counts(entry)).map(of_term).sum()
}

pub(super) fn bilinear(left: &[f64], right: &[f64], matrix: impl Fn(usize, usize) -> f64) -> f64 {
    let row =
        |(i, x): (usize, &f64)| right.iter().enumerate().map(|(j, y)| x * y * matrix(i, j)).sum::<f64>();
    left.iter().enumerate().map(row).sum()
}
