//! The posterior covariance that grouped effects add to several rows together.
//!
//! With w the weights of f and `u_o` the coefficients of the terms that are not eliminated, let `r = (w, u_o)`. Given r, an eliminated
//! level is `u_l = E[u_l | r] + ε_l`, where `E[u_l | r]` depends on r by `−K_lᵀ r` and the `ε_l ~ N(0, T_l)` are independent
//! ([`Moments`](super::Moments) has K_l and T_l). The effects of
//! a row are therefore `aᵀr + zᵀε_l` up to a constant, with the loads `a = (−K_l z, z_o − K_l z)`. Two rows have the covariance
//! `aᵀ Cov(r) a′`, and `zᵀT_l z′` more if they share the eliminated level l.

use super::moments::{Loads, bilinear};
use super::posterior::EffectPosterior;
use super::rows::Entry;
use super::term::Effects;
use faer::{Mat, MatRef};

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
