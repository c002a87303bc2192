//! Survival probabilities and hazards of predicted times, and their scores.

use super::Predictions;
use crate::likelihood::TargetKind;
use crate::metrics::{SurvivalGroup, Survives, integrated_brier, survival_groups};
use crate::parallel::*;

impl Predictions {
    /// The probabilities P(Y > t) of each row at these times, in the units of the target: rows × times, row by row.
    ///
    /// ```
    /// use sparsegp::likelihood::Weibull;
    /// use sparsegp::prelude::*;
    ///
    /// let x: Vec<f64> = (0..60).map(|i| i as f64 / 10.0).collect();
    /// let y: Vec<f64> = (0..60).map(|i| (x[i] / 3.0).exp() * (0.6 + 0.2 * (i % 5) as f64)).collect();
    /// let x = Rows::from_row_major(&x, 1)?;
    /// let model = Fit::new(Inducing::new(sparsegp::kernels::Stationary::rbf(1.0, &[3.0])), Weibull::new(0.3)).fit(x, &y)?;
    /// let survival = model.predict(&[[1.0], [5.0]], &[])?.survival(&[2.0, 4.0]);
    /// // Fewer survive 4 than 2, and more survive where times are long.
    /// assert!(survival[1] < survival[0] && survival[3] > survival[1] + 0.5);
    /// # Ok::<(), sparsegp::Error>(())
    /// ```
    pub fn survival(&self, times: &[f64]) -> Vec<f64> {
        let width = times.len().max(1);
        let cells = (0..self.rows() * times.len()).into_par_iter();
        cells.map(|cell| self.survives(cell / width, times[cell % width])).collect()
    }

    /// The hazard `p(t) / P(Y > t)` of a row at time t, per unit of time; it is that of counts at whole numbers alone.
    #[doc(hidden)]
    pub fn hazard(&self, row: usize, t: f64) -> f64 {
        let density = if self.kind().admits(t) { self.known_log_density(row, t).exp() } else { 0.0 };
        density / self.survives(row, t)
    }

    /// The probability P(Y > t) of a row.
    #[doc(hidden)]
    pub fn survives(&self, row: usize, t: f64) -> f64 {
        match self.kind().is_censored() {
            // Before the least target, all survive.
            true if self.kind() == TargetKind::Lifetime && t <= 0.0 => 1.0,
            true if self.kind() == TargetKind::CensoredCount && t < 0.0 => 1.0,
            // A count that is censored at a number is this number or more.
            true if self.kind() == TargetKind::CensoredCount => self.log_survival(row, t.floor() + 1.0).exp(),
            true => self.log_survival(row, t).exp(),
            false => 1.0 - self.distribution(row, t),
        }
    }
}

/// Returns the integrated Brier score of predictions of censored targets, given block by block with their targets and the other ends of
/// their intervals.
#[doc(hidden)]
pub fn integrated_brier_score(blocks: &[(&Predictions, &[f64])]) -> Option<f64> {
    with_survival(blocks, integrated_brier)?
}

/// Returns groups of rows by their predictions, with their curves of P(Y > y), for the same blocks.
#[doc(hidden)]
pub fn survival_curves(blocks: &[(&Predictions, &[f64])]) -> Vec<SurvivalGroup> {
    with_survival(blocks, survival_groups).unwrap_or_default()
}

/// Passes the targets of all blocks, the other ends of their intervals and P(Y > y) of their rows to `work`; `None` if no target is censored.
fn with_survival<T>(
    blocks: &[(&Predictions, &[f64])],
    work: fn(&[f64], &[f64], &Survives<'_>) -> T,
) -> Option<T> {
    if !blocks.iter().any(|(of, _)| of.has_other_ends()) {
        return None;
    }
    let places: Vec<(usize, usize)> = blocks
        .iter()
        .enumerate()
        .flat_map(|(block, (of, _))| (0..of.rows()).map(move |row| (block, row)))
        .collect();
    let times: Vec<f64> = blocks.iter().flat_map(|(_, targets)| targets.iter().copied()).collect();
    let ends: Vec<f64> = places.iter().map(|&(block, row)| blocks[block].0.other_end(row)).collect();
    Some(work(&times, &ends, &|at, t| {
        let (block, row) = places[at];
        blocks[block].0.survives(row, t)
    }))
}
