//! The mixture of a series' candidate models: weights, and a factor of widths, from forecasts of its own past.

use super::baselines::Baseline;
use super::distribution::Distribution;
use super::models::{Fitter, Scale, Trend};
use super::scores::{OriginScores, StepScore};
use super::series::{FEWEST, OneSeries};
use crate::tabular::TableModel;
use sparsegp::error::Result;

/// Series with at most this many values are fitted again at every origin. Longer ones keep the hyper-parameters of all values, which
/// depend little on the last few.
const REFITTED: usize = 300;

/// The prior of the squared factor of widths: its mean, and the number of origins that it counts as. Single hyper-parameters make
/// intervals too narrow. With these values, 95 % intervals of 60 series of M3 and of the tourism competition, which no reported result uses,
/// contain 96 % of the values.
const PRIOR_SQUARE: f64 = 1.6;
const PRIOR_ORIGINS: f64 = 2.0;

/// The largest squared error of an origin in units of its variance, so that a single break does not widen all later intervals.
const LARGEST_SQUARE: f64 = 16.0;

/// The quantiles of a candidate: [`ATOMS`](super::distribution::ATOMS) values for each step.
type Quantiles = Vec<Vec<f64>>;

/// The forecasts of all candidates from an earlier time.
struct Origin {
    candidates: Vec<Quantiles>,
    outcomes: Vec<f64>,
}

impl Origin {
    /// Returns the mean score of a candidate on the scale of the model.
    fn score(&self, candidate: usize, scale: Scale) -> f64 {
        let steps = self.candidates[candidate].iter().zip(&self.outcomes);
        let of_step = |(atoms, &outcome): (&Vec<f64>, &f64)| {
            let atoms = atoms.iter().map(|&value| scale.to(value)).collect();
            Distribution::mixture(&[(1.0, atoms)]).crps(scale.to(outcome))
        };
        steps.map(of_step).sum::<f64>() / self.outcomes.len() as f64
    }

    /// Returns the mean squared error of the mixture in units of its variance.
    fn square(&self, weights: &[f64], scale: Scale) -> f64 {
        let steps = mixed(&self.candidates, weights, 1.0, scale);
        let of_step = |(step, &outcome): (&Distribution, &f64)| {
            let ends = [0.025, 0.975].map(|p| scale.to(step.quantile(p)));
            let deviation = ((ends[1] - ends[0]) / 3.92).max(f64::MIN_POSITIVE);
            ((scale.to(outcome) - scale.to(step.median())) / deviation).powi(2).min(LARGEST_SQUARE)
        };
        steps.iter().zip(&self.outcomes).map(of_step).sum::<f64>() / self.outcomes.len() as f64
    }
}

/// Mixes the forecasts of candidates, and widens the mixture by a factor on the scale of the model.
fn mixed(candidates: &[Quantiles], weights: &[f64], factor: f64, scale: Scale) -> Vec<Distribution> {
    let of_step = |step: usize| {
        let part = |(quantiles, &weight): (&Quantiles, &f64)| {
            (weight, quantiles[step].iter().map(|&value| scale.to(value)).collect())
        };
        let parts: Vec<(f64, Vec<f64>)> = candidates.iter().zip(weights).map(part).collect();
        Distribution::mixture(&parts).widened(factor).map(|value| scale.from(value))
    };
    (0..candidates.first().map_or(0, Vec::len)).map(of_step).collect()
}

/// The forecast of a series.
pub(super) struct Ensemble {
    pub steps: Vec<Distribution>,
    pub draws: Vec<Vec<f64>>,
    pub scores: Vec<OriginScores>,
}

impl Ensemble {
    /// Fits the candidates, weighs them by their forecasts from earlier origins, and forecasts the future.
    pub fn of(fitter: &Fitter<'_>, series: &OneSeries) -> Result<Ensemble> {
        let (scale, options) = (fitter.scale, fitter.options);
        if series.is_constant(series.values.len()) {
            return Ok(Ensemble::constant(series, options.draws));
        }
        let models =
            Trend::ALL.map(|trend| fitter.fit(series, trend)).into_iter().collect::<Result<Vec<_>>>()?;
        let mut counts = origin_counts(series.times.len(), options.horizon, options.origins, fitter);
        // Equal values have no scale for a model.
        counts.retain(|&count| !series.is_constant(count));
        let origins = counts
            .iter()
            .map(|&count| Origin::of(fitter, &series.until(count, options.horizon), series, &models))
            .collect::<Result<Vec<_>>>()?;
        let weights = weights(&origins, None, scale);
        let factor = factor(&origins, &weights, None, fitter);
        let quantiles = models.iter().map(|model| fitter.atoms(model, series)).collect::<Result<Vec<_>>>()?;
        let steps = mixed(&quantiles, &weights, factor, scale);
        let draws = draws(fitter, series, &models, &weights, (factor, &steps))?;
        let scores = scores(fitter, series, &counts, &origins);
        Ok(Ensemble { steps, draws, scores })
    }

    /// Continues a series of equal values, without intervals and scores.
    fn constant(series: &OneSeries, draws: usize) -> Ensemble {
        let (value, steps) = (series.values[0], series.future.len());
        Ensemble {
            steps: vec![Distribution::normal(value, 0.0); steps],
            draws: vec![vec![value; steps]; draws],
            scores: Vec::new(),
        }
    }
}

impl Origin {
    fn of(fitter: &Fitter<'_>, past: &OneSeries, whole: &OneSeries, models: &[TableModel]) -> Result<Origin> {
        let candidate = |(trend, model): (Trend, &TableModel)| {
            let model = match whole.times.len() <= REFITTED {
                true => fitter.fit(past, trend)?,
                false => fitter.condition(past, model)?,
            };
            fitter.atoms(&model, past)
        };
        let candidates = Trend::ALL.into_iter().zip(models).map(candidate).collect::<Result<Vec<_>>>()?;
        let start = past.times.len();
        Ok(Origin { candidates, outcomes: whole.values[start..start + past.future.len()].to_vec() })
    }
}

/// Returns the numbers of values before each origin: the last one leaves a horizon, and the first one half of the values or two seasons.
fn origin_counts(values: usize, horizon: usize, origins: usize, fitter: &Fitter<'_>) -> Vec<usize> {
    let season = fitter.time.season_steps(values);
    let fewest = FEWEST.max(values / 2).max(if season > 1 { 2 * season + 2 } else { 0 });
    let Some(last) = values.checked_sub(horizon.min(values / 4).max(1)) else { return Vec::new() };
    let room = last.saturating_sub(fewest);
    let gap = (room / origins.saturating_sub(1).max(1)).min(horizon).max(1);
    let counts = (0..origins).filter_map(|index| last.checked_sub(index * gap));
    counts.filter(|&count| count >= fewest).collect()
}

/// Returns the weights of candidates, which fall with the square of their scores; `without` leaves an origin out.
fn weights(origins: &[Origin], without: Option<usize>, scale: Scale) -> Vec<f64> {
    let used = || origins.iter().enumerate().filter(|(index, _)| Some(*index) != without);
    let of_candidate = |candidate: usize| match used().count() {
        0 => 1.0,
        count => {
            let score = used().map(|(_, origin)| origin.score(candidate, scale)).sum::<f64>() / count as f64;
            1.0 / (score * score).max(f64::MIN_POSITIVE)
        }
    };
    let raw: Vec<f64> = (0..Trend::ALL.len()).map(of_candidate).collect();
    let total: f64 = raw.iter().sum();
    raw.into_iter().map(|weight| weight / total).collect()
}

/// Returns the factor of widths. Distributions of counts keep their widths, because they would no longer be of whole numbers.
fn factor(origins: &[Origin], weights: &[f64], without: Option<usize>, fitter: &Fitter<'_>) -> f64 {
    if fitter.options.counts {
        return 1.0;
    }
    let used = origins.iter().enumerate().filter(|(index, _)| Some(*index) != without);
    let (mut sum, mut count) = (PRIOR_SQUARE * PRIOR_ORIGINS, PRIOR_ORIGINS);
    for (_, origin) in used {
        sum += origin.square(weights, fitter.scale);
        count += 1.0;
    }
    (sum / count).sqrt()
}

/// Draws from each candidate by its weight, and widens the draws as the mixture.
fn draws(
    fitter: &Fitter<'_>,
    series: &OneSeries,
    models: &[TableModel],
    weights: &[f64],
    (factor, steps): (f64, &[Distribution]),
) -> Result<Vec<Vec<f64>>> {
    let count = fitter.options.draws;
    let (mut drawn, mut share) = (Vec::new(), 0.0);
    for (index, (model, weight)) in models.iter().zip(weights).enumerate() {
        share += weight;
        let end = if index + 1 == models.len() { count } else { (share * count as f64).round() as usize };
        let own = end.saturating_sub(drawn.len());
        if own > 0 {
            drawn.extend(fitter.draws(model, series, own, fitter.options.seed + index as u64)?);
        }
    }
    for draw in &mut drawn {
        for (value, step) in draw.iter_mut().zip(steps).filter(|_| factor != 1.0) {
            let median = fitter.scale.to(step.median());
            *value = fitter.scale.from(median + factor * (fitter.scale.to(*value) - median));
        }
    }
    Ok(drawn)
}

/// Scores the mixture and the baselines at all origins. The weights and the factor of an origin come from the other origins.
fn scores(
    fitter: &Fitter<'_>,
    series: &OneSeries,
    counts: &[usize],
    origins: &[Origin],
) -> Vec<OriginScores> {
    let names = std::iter::once("sparsegp").chain(Baseline::ALL.iter().map(|baseline| baseline.name()));
    let mut scores: Vec<OriginScores> =
        names.map(|name| OriginScores::new(name, fitter.options.horizon)).collect();
    let grid = series.grid();
    for (index, (&count, origin)) in counts.iter().zip(origins).enumerate() {
        let past = series.until(count, fitter.options.horizon).regular();
        let season = fitter.time.season_steps(past.len());
        let differences = past.iter().zip(&past[season..]).map(|(before, after)| (after - before).abs());
        let unit = differences.sum::<f64>() / (past.len() - season) as f64;
        let ahead = |step: usize| (grid[count + step] - grid[count - 1] - 1).max(0) as usize;
        let steps = origin.outcomes.len();
        let weights = weights(origins, Some(index), fitter.scale);
        let factor = factor(origins, &weights, Some(index), fitter);
        let own = mixed(&origin.candidates, &weights, factor, fitter.scale);
        let others = Baseline::ALL.map(|baseline| {
            let all = baseline.forecast(&past, season, ahead(steps - 1) + 1);
            (0..steps).map(|step| all[ahead(step)].clone()).collect::<Vec<_>>()
        });
        for (scores, forecast) in scores.iter_mut().zip(std::iter::once(&own).chain(&others)) {
            for (step, distribution) in forecast.iter().enumerate() {
                scores.steps[step].add(&StepScore::of(distribution, origin.outcomes[step], unit));
            }
        }
    }
    scores
}
