//! Forecasts without a Gaussian process, with which scores are compared: seasonal naive, drift and damped exponential smoothing.

use super::distribution::Distribution;

/// A simple forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The value of one season ago.
    SeasonalNaive,
    /// The last value, and the mean change per step since the first one.
    Drift,
    /// Additive exponential smoothing with a damped trend and a season (Hyndman et al. 2008, model AAdA).
    Smoothing,
}

impl Baseline {
    /// All baselines, in the order of tables.
    pub const ALL: [Baseline; 3] = [Baseline::SeasonalNaive, Baseline::Drift, Baseline::Smoothing];

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Baseline::SeasonalNaive => "seasonal naive",
            Baseline::Drift => "drift",
            Baseline::Smoothing => "ETS",
        }
    }

    /// Forecasts the `horizon` steps after `values`, which have regular steps. `season` is the length of a season in steps, or 1.
    pub(super) fn forecast(self, values: &[f64], season: usize, horizon: usize) -> Vec<Distribution> {
        let season = if values.len() > 2 * season { season } else { 1 };
        match self {
            Baseline::SeasonalNaive => seasonal_naive(values, season, horizon),
            Baseline::Drift => drift(values, horizon),
            Baseline::Smoothing => Smoothed::best(values, season).forecast(season, horizon),
        }
    }
}

fn root_mean_square(errors: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = errors.fold((0.0, 0usize), |(sum, count), error| (sum + error * error, count + 1));
    (sum / count.max(1) as f64).sqrt()
}

fn seasonal_naive(values: &[f64], season: usize, horizon: usize) -> Vec<Distribution> {
    let n = values.len();
    let deviation = root_mean_square((season..n).map(|i| values[i] - values[i - season]));
    let at = |step: usize| {
        let seasons = 1 + step / season;
        Distribution::normal(values[n - season + step % season], deviation * (seasons as f64).sqrt())
    };
    (0..horizon).map(at).collect()
}

fn drift(values: &[f64], horizon: usize) -> Vec<Distribution> {
    let steps = (values.len() - 1).max(1) as f64;
    let (first, last) = (values[0], values[values.len() - 1]);
    let slope = (last - first) / steps;
    let deviation = root_mean_square(values.windows(2).map(|pair| pair[1] - pair[0] - slope));
    let at = |step: usize| {
        let ahead = (step + 1) as f64;
        Distribution::normal(last + slope * ahead, deviation * (ahead * (1.0 + ahead / steps)).sqrt())
    };
    (0..horizon).map(at).collect()
}

/// The rates of exponential smoothing.
#[derive(Clone, Copy)]
struct Rates {
    level: f64,
    trend: f64,
    damping: f64,
    season: f64,
}

/// The state of exponential smoothing after the last value.
struct Smoothed {
    rates: Rates,
    level: f64,
    trend: f64,
    /// The seasonal effects, the next one first.
    seasons: Vec<f64>,
    /// The root mean square of one-step errors.
    deviation: f64,
}

impl Smoothed {
    /// Returns the state by the rates with the smallest one-step errors on a grid.
    fn best(values: &[f64], season: usize) -> Smoothed {
        const LEVELS: [f64; 6] = [0.05, 0.15, 0.3, 0.5, 0.7, 0.95];
        const SHARES: [f64; 4] = [0.0, 0.1, 0.3, 0.6];
        let seasonal: &[f64] = if season > 1 { &[0.02, 0.15, 0.4] } else { &[0.0] };
        let first = Rates { level: LEVELS[0], trend: 0.0, damping: 0.8, season: 0.0 };
        let mut best = Smoothed::of(values, season, first);
        for level in LEVELS {
            for trend in SHARES.map(|share| share * level) {
                for damping in [0.8, 0.9, 0.98] {
                    for season_rate in seasonal.iter().map(|share| share * (1.0 - level)) {
                        let rates = Rates { level, trend, damping, season: season_rate };
                        let state = Smoothed::of(values, season, rates);
                        if state.deviation < best.deviation {
                            best = state;
                        }
                    }
                }
            }
        }
        best
    }

    fn of(values: &[f64], season: usize, rates: Rates) -> Smoothed {
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
        let first = mean(&values[..season]);
        let mut seasons: Vec<f64> = values[..season].iter().map(|value| value - first).collect();
        let (mut level, mut trend, mut sum) = (first, 0.0, 0.0);
        if values.len() >= 2 * season {
            trend = (mean(&values[season..2 * season]) - first) / season as f64;
        }
        for (i, &value) in values.iter().enumerate() {
            let effect = seasons[i % season];
            let error = value - (level + rates.damping * trend + effect);
            level += rates.damping * trend + rates.level * error;
            trend = rates.damping * trend + rates.trend * error;
            seasons[i % season] = effect + rates.season * error;
            if i >= season {
                sum += error * error;
            }
        }
        seasons.rotate_left(values.len() % season);
        let count = values.len().saturating_sub(season).max(1) as f64;
        Smoothed { rates, level, trend, seasons, deviation: (sum / count).sqrt() }
    }

    fn forecast(&self, season: usize, horizon: usize) -> Vec<Distribution> {
        let (mut damped, mut factor, mut variance) = (0.0, 1.0, 1.0);
        let mut at = |step: usize| {
            let own = if step > 0 && step.is_multiple_of(season) { self.rates.season } else { 0.0 };
            if step > 0 {
                // The effect of an earlier error on this step: α + β (φ + … + φ^j), and γ at full seasons.
                let effect = self.rates.level + self.rates.trend * damped + own;
                variance += effect * effect;
            }
            factor *= self.rates.damping;
            damped += factor;
            let mean = self.level + damped * self.trend + self.seasons[step % season];
            Distribution::normal(mean, self.deviation * f64::sqrt(variance))
        };
        (0..horizon).map(&mut at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baselines_continue_what_they_know() {
        let values: Vec<f64> =
            (0..40).map(|i| f64::from(i) + [0.0, 3.0, -3.0, 0.0][i as usize % 4]).collect();
        let naive = Baseline::SeasonalNaive.forecast(&values, 4, 6);
        assert_eq!(naive[0].median().round(), values[36]);
        let drift = Baseline::Drift.forecast(&values, 4, 2);
        assert!((drift[1].median() - (values[39] + 2.0)).abs() < 0.3);
        let ets = Baseline::Smoothing.forecast(&values, 4, 4);
        for (step, distribution) in ets.iter().enumerate() {
            let exact = 40.0 + step as f64 + [0.0, 3.0, -3.0, 0.0][step];
            assert!((distribution.median() - exact).abs() < 1.0, "{step}: {}", distribution.median());
        }
    }
}
