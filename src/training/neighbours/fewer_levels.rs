//! The rows of a random part of the levels of grouped effects, on which hyper-parameters are trained if there are many levels.

use super::super::rows::RowBuffer;
use crate::collapsed::Dataset;
use crate::data::{Purpose, generator};
use crate::effects::{EffectTerm, Effects, columns_of};
use crate::model::LatentModel;
use faer::{Mat, MatRef};
use rand::seq::SliceRandom;
use std::collections::HashMap;

/// The number of coefficients with which hyper-parameters are trained: every evaluation takes time with its cube. More than a thousand
/// levels determine a standard deviation to 3 %.
const COEFFICIENTS: usize = 1500;

/// The rows of some levels of the largest grouping, with the levels of all groupings renumbered.
pub(super) struct FewerLevels {
    rows: RowBuffer,
    /// The inputs of the rows and new codes, a column for each row.
    x: Mat<f64>,
    terms: Vec<EffectTerm>,
    /// For every term the new codes of the old codes.
    codes: Vec<HashMap<u64, f64>>,
}

impl FewerLevels {
    /// Draws the rows. Returns `None` if the effects have few coefficients, or if the levels are too few to leave some out.
    pub fn draw(effects: &Effects, data: Dataset<'_>, seed: u64) -> Option<FewerLevels> {
        let all = effects.coefficients();
        let largest = effects.terms().get(effects.eliminated()).filter(|_| all > COEFFICIENTS)?;
        let inputs = data.x.ncols() - effects.columns();
        let mut levels: Vec<usize> = (0..largest.levels).collect();
        levels.shuffle(&mut generator(seed, Purpose::Neighbours, 2));
        levels.truncate(((largest.levels as f64 * COEFFICIENTS as f64 / all as f64) as usize).max(2));
        let mut is_chosen = vec![false; largest.levels];
        levels.iter().for_each(|&level| is_chosen[level] = true);
        let code = |row: usize| data.x[(row, inputs + largest.code)] as usize;
        let chosen: Vec<usize> = (0..data.len()).filter(|&row| is_chosen[code(row)]).collect();
        let mut rows = RowBuffer::new(data, chosen.len());
        rows.take(data, &chosen);
        let mut fewer = FewerLevels { rows, x: Mat::new(), terms: Vec::new(), codes: Vec::new() };
        for term in effects.terms() {
            let mut codes = HashMap::new();
            for &row in &chosen {
                let next = codes.len() as f64;
                codes.entry(data.x[(row, inputs + term.code)].to_bits()).or_insert(next);
            }
            fewer.terms.push(EffectTerm { levels: codes.len(), ..term.clone() });
            fewer.codes.push(codes);
        }
        fewer.x = fewer.recoded(fewer.rows.data().x);
        Some(fewer)
    }

    /// Returns inputs with the new codes, a column for each row of `x`. Levels that are left out become new levels.
    pub fn recoded(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        let inputs = x.ncols() - columns_of(&self.terms);
        let mut out = x.transpose().to_owned();
        for (term, codes) in self.terms.iter().zip(&self.codes) {
            for (row, code) in out.row_mut(inputs + term.code).iter_mut().enumerate() {
                // Each level that is left out keeps a code of its own, behind the known ones.
                let other = term.levels as f64 + x[(row, inputs + term.code)];
                *code = codes.get(&code.to_bits()).copied().unwrap_or(other);
            }
        }
        out
    }

    pub fn data(&self) -> Dataset<'_> {
        Dataset { x: self.x.transpose(), ..self.rows.data() }
    }

    /// Returns the model with the effects of these levels and the same parameters.
    pub fn model_of(&self, model: &LatentModel) -> LatentModel {
        let mut fewer = model.clone();
        fewer.effects = model.effects.with_terms(self.terms.clone());
        fewer
    }
}
