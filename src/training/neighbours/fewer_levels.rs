//! The rows of a random part of the levels of grouped effects, on which hyper-parameters are trained if there are many levels.

use super::super::row_buffer::RowBuffer;
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

    /// Returns the rows.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_part_of_the_levels_are_renumbered() {
        let (n, levels) = (6000, 2000);
        let x = Mat::from_fn(n, 3, |i, j| match j {
            0 => i as f64,
            1 => (i * 7 % levels) as f64,
            _ => (i % 3) as f64,
        });
        let y: Vec<f64> = (0..n).map(|i| i as f64).collect();
        let terms = vec![EffectTerm::intercepts("a", levels, 0), EffectTerm::intercepts("b", 3, 1)];
        let mut effects = Effects::new(1, terms);
        effects.start(0, &[0.7]);
        let data = Dataset::of(x.as_ref(), &y);
        let fewer = FewerLevels::draw(&effects, data, 3).expect("many levels");
        let found = fewer.data();
        let count = fewer.terms[0].levels;
        assert!(count > 1400 && count < 1500 && found.len() == 3 * count, "{count} levels");
        assert_eq!(fewer.terms[1].levels, 3);
        for row in 0..found.len() {
            // Rows keep their inputs and targets, and rows of one level stay together.
            let old = found.targets.y[row] as usize;
            assert_eq!(found.x[(row, 0)], x[(old, 0)]);
            assert!(found.x[(row, 1)] < count as f64 && found.x[(row, 2)] < 3.0);
            assert_eq!(fewer.codes[0][&x[(old, 1)].to_bits()], found.x[(row, 1)]);
        }
        let other = fewer.recoded(x.as_ref());
        let new = (0..n).filter(|&row| other[(1, row)] >= count as f64).count();
        assert_eq!(new, n - found.len());
        assert!(
            FewerLevels::draw(&Effects::new(1, vec![EffectTerm::intercepts("b", 3, 1)]), data, 3).is_none()
        );
    }
}
