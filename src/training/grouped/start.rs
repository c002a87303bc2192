//! Starting values for the variances of grouped effects, by an analysis of variance of the targets,
//! one grouping at a time.

use crate::data::Moments;
use crate::effects::{EffectTerm, Effects, columns_of};
use crate::error::{Error, Result};
use crate::model::LatentPrior;
use faer::MatRef;

/// The least share of the variance of the target that effects and noise start with: smaller ones would hardly move.
const LEAST_SHARE: f64 = 1e-3;

/// The share of the variance of the target that slopes start with, at the root mean square of their columns.
const SLOPE_SHARE: f64 = 0.05;

/// Gives a model independent effects with starting variances from the targets. A linear model with
/// Gaussian noise also gets the remaining variance of the targets as its noise variance.
///
/// `responses` has for every function the target of every row, or the value of f that explains it. Functions that share a layer start with
/// the variances of the first one.
///
/// # Errors
///
/// A data error for a slope whose column is constant.
pub(in crate::training) fn start_effects(
    model: &mut LatentPrior,
    x: MatRef<'_, f64>,
    responses: &[Vec<f64>],
    terms: &[EffectTerm],
) -> Result<()> {
    let of_layers = responses.iter().take(model.layers.len()).map(|responses| started(x, responses, terms));
    let (effects, rest): (Vec<Effects>, Vec<f64>) =
        of_layers.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    model.effects = Effects::of_layers(effects);
    if model.layer().linear().is_some() && model.noise_variance().is_some() {
        model.likelihood.for_each_parameter_mut(&mut |p| p.start(|_| rest[0]));
    }
    Ok(())
}

/// Returns independent effects with starting variances from the responses of a function, and the variance that is left for noise.
fn started(x: MatRef<'_, f64>, responses: &[f64], terms: &[EffectTerm]) -> Result<(Effects, f64)> {
    let d = x.ncols() - columns_of(terms);
    let mut effects = Effects::new(d, terms.to_vec());
    let total = Moments::of(responses.iter().copied()).variance().filter(|v| *v > 0.0).unwrap_or(1.0);
    let mut rest = total;
    for (index, term) in terms.iter().enumerate() {
        let mut deviations = Vec::with_capacity(term.width());
        if term.intercept {
            let share = between((x, responses), d + term.code, term.levels).clamp(LEAST_SHARE * total, total);
            rest -= share;
            deviations.push(share.sqrt());
        }
        let squares = term.mean_squares(x.subcols(d, x.ncols() - d));
        for (spread, slope) in squares[usize::from(term.intercept)..].iter().zip(&term.slopes) {
            if *spread == 0.0 {
                return Err(Error::data(format!(
                    "⟨group⟩: the column of the slope '{slope}' of {} is constant, expected values that vary",
                    term.name
                )));
            }
            deviations.push((SLOPE_SHARE * total / spread).sqrt());
        }
        effects.start(index, &deviations);
    }
    Ok((effects, rest.max(0.1 * total)))
}

/// Returns the variance of levels by the method of moments, `(MS_between − MS_within)/n₀` (Searle,
/// Casella & McCulloch 1992, section 3.6); it may be negative.
fn between((x, y): (MatRef<'_, f64>, &[f64]), column: usize, levels: usize) -> f64 {
    let n = y.len() as f64;
    let mean = y.iter().sum::<f64>() / n;
    let (mut counts, mut sums) = (vec![0.0; levels], vec![0.0; levels]);
    let mut squares = 0.0;
    for (code, y) in x.col(column).iter().zip(y) {
        let c = y - mean;
        counts[*code as usize] += 1.0;
        sums[*code as usize] += c;
        squares += c * c;
    }
    let met = || counts.iter().zip(&sums).filter(|(count, _)| **count > 0.0);
    let known = met().count() as f64;
    let explained: f64 = met().map(|(count, sum)| sum * sum / count).sum();
    let within = (squares - explained) / (n - known).max(1.0);
    let usual = (n - met().map(|(count, _)| count * count).sum::<f64>() / n) / (known - 1.0).max(1.0);
    if known > 1.0 && usual > 0.0 { (explained / (known - 1.0) - within) / usual } else { 0.0 }
}
