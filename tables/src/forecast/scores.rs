//! Scores of forecasts from earlier origins, by horizon.

use super::distribution::Distribution;

/// The sums of scores of forecasts some steps ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepScore {
    mase: f64,
    smape: f64,
    crps: f64,
    covered: f64,
    count: f64,
}

impl StepScore {
    /// Scores a forecast of an outcome. `unit` is the mean absolute difference of values one season apart.
    pub(super) fn of(forecast: &Distribution, outcome: f64, unit: f64) -> StepScore {
        let error = (outcome - forecast.median()).abs();
        let size = outcome.abs() + forecast.median().abs();
        let inside = outcome >= forecast.quantile(0.025) && outcome <= forecast.quantile(0.975);
        if unit <= 0.0 {
            return StepScore::default();
        }
        StepScore {
            mase: error / unit,
            smape: if size > 0.0 { 200.0 * error / size } else { 0.0 },
            crps: forecast.crps(outcome) / unit,
            covered: if inside { 1.0 } else { 0.0 },
            count: 1.0,
        }
    }

    /// Adds other scores.
    pub(super) fn add(&mut self, other: &StepScore) {
        self.mase += other.mase;
        self.smape += other.smape;
        self.crps += other.crps;
        self.covered += other.covered;
        self.count += other.count;
    }

    /// Returns the number of forecasts.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// Returns the mean absolute error in units of the mean absolute difference of values one season apart (MASE).
    pub fn mase(&self) -> f64 {
        self.mase / self.count
    }

    /// Returns the symmetric mean absolute percentage error.
    pub fn smape(&self) -> f64 {
        self.smape / self.count
    }

    /// Returns the mean continuous ranked probability score in the unit of [`mase`](Self::mase).
    pub fn crps(&self) -> f64 {
        self.crps / self.count
    }

    /// Returns the share of outcomes within the 95 % intervals.
    pub fn coverage(&self) -> f64 {
        self.covered / self.count
    }
}

/// The scores of a method by horizon.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginScores {
    /// The name of the method.
    pub name: &'static str,
    /// The scores one step ahead, two steps ahead and so on.
    pub steps: Vec<StepScore>,
}

impl OriginScores {
    pub(super) fn new(name: &'static str, horizon: usize) -> OriginScores {
        OriginScores { name, steps: vec![StepScore::default(); horizon] }
    }

    /// Adds the scores of the same method for another series.
    fn add(&mut self, other: &OriginScores) {
        self.steps.iter_mut().zip(&other.steps).for_each(|(own, other)| own.add(other));
    }

    /// Adds the scores of each method over several forecasts.
    pub fn together<'a>(forecasts: impl IntoIterator<Item = &'a [OriginScores]>) -> Vec<OriginScores> {
        let mut sums: Vec<OriginScores> = Vec::new();
        for scores in forecasts {
            match sums.is_empty() {
                true => sums = scores.to_vec(),
                false => sums.iter_mut().zip(scores).for_each(|(own, other)| own.add(other)),
            }
        }
        sums
    }

    /// Returns the scores one step ahead, two steps ahead and so on, as far as there are forecasts.
    pub fn scored(&self) -> impl Iterator<Item = &StepScore> {
        self.steps.iter().take_while(|step| step.count > 0.0)
    }

    /// Returns the scores of a range of horizons together, counted from 0.
    pub fn over(&self, horizons: std::ops::Range<usize>) -> StepScore {
        let mut sum = StepScore::default();
        self.steps[horizons].iter().for_each(|step| sum.add(step));
        sum
    }
}
