//! Predictions of a fitted model at some rows, in original units of the target; no fitting, no files.

use super::posterior::{Marginals, Posterior};
use crate::data::Scaling;
use crate::likelihood::{Observation, continuous_crps};
use crate::likelihood::{TargetKind, Task};
use crate::metrics::{Compared, Metrics, Report};
use crate::quadrature::Integrator;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// Predictions for the rows of one table; everything is in original units of the target.
///
/// Classes are 1 (positive) and 0, ordered levels 0, 1, …; a count's exposure is that of its row.
pub struct Predictions<'a> {
    pub(super) scaling: &'a Scaling,
    pub(super) posterior: &'a Posterior,
    pub(super) latent: Marginals,
    /// Exposures, or empty when all are 1.
    pub(super) exposure: Vec<f64>,
    /// Whether the model defines a mean but no distribution (square-loss training).
    pub(super) mean_only: bool,
}

/// The moments of one prediction; a variance that the model does not define is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The mean of y; the probability of the positive class.
    pub mean: f64,
    /// The variance of y.
    pub variance: f64,
    /// The mean of the latent function; where the target is warped, of what the warp makes of it.
    pub latent_mean: f64,
    /// The variance of the latent function, likewise.
    pub latent_variance: f64,
}

impl Predictions<'_> {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.latent.mean.len()
    }

    /// The moments at a row.
    ///
    /// # Panics
    ///
    /// When there is no such row, as for the other methods.
    pub fn row(&self, row: usize) -> Prediction {
        self.moments(row, &mut Integrator::default())
    }

    /// The smallest value that y is at or below with probability `p` at least, for p in (0, 1).
    pub fn quantile(&self, row: usize, p: f64) -> f64 {
        self.quantile_with(row, p, &mut Integrator::default())
    }

    /// The log predictive density (or probability) of y = `target`.
    pub fn log_density(&self, row: usize, target: f64) -> f64 {
        self.log_density_with(row, target, &mut Integrator::default())
    }

    /// The continuous ranked probability score of y = `target`, in units of the target (Gneiting & Raftery 2007, eq. 20); NaN for models
    /// that define a mean alone.
    pub fn crps(&self, row: usize, target: f64) -> f64 {
        self.crps_with(row, target, &mut Integrator::default())
    }

    /// A draw of y at a row: of the latent function there, then of y given that. NaN for models that define a mean alone.
    pub fn draw(&self, row: usize, random: &mut ChaCha8Rng) -> f64 {
        let (mu, v) = self.latent_at(row);
        let z: f64 = StandardNormal.sample(random);
        let f = mu + v.max(0.0).sqrt() * z;
        let y = self.posterior.likelihood().sample(f, self.exposure_at(row), random);
        self.defined(self.scaling.unscaled_target(y))
    }

    /// What a comparison of each row with its observed target needs.
    ///
    /// # Panics
    ///
    /// When there are not as many targets as rows.
    pub fn compare(&self, targets: &[f64]) -> Vec<Compared> {
        assert_eq!(targets.len(), self.rows(), "one target per row");
        let compare = |integrator: &mut Integrator, row: usize| self.compared(row, targets[row], integrator);
        (0..self.rows()).into_par_iter().map_init(Integrator::default, compare).collect()
    }

    /// The log density of every target, and its squared distance from the mean.
    pub(crate) fn losses(&self, targets: &[f64]) -> Vec<(f64, f64)> {
        let loss = |integrator: &mut Integrator, row: usize| {
            let distance = targets[row] - self.moments(row, integrator).mean;
            (self.log_density_with(row, targets[row], integrator), distance * distance)
        };
        (0..self.rows()).into_par_iter().map_init(Integrator::default, loss).collect()
    }

    /// Compares every row with its target.
    ///
    /// # Panics
    ///
    /// When there are not as many targets as rows.
    pub fn report(&self, targets: &[f64]) -> Report {
        let mut metrics = Metrics::new(self.kind().task());
        self.compare(targets).iter().for_each(|row| metrics.push(row));
        metrics.report()
    }

    fn kind(&self) -> TargetKind {
        self.posterior.likelihood().target_kind()
    }

    fn latent_at(&self, row: usize) -> (f64, f64) {
        (self.latent.mean[row], self.latent.variance[row])
    }

    fn exposure_at(&self, row: usize) -> f64 {
        self.exposure.get(row).copied().unwrap_or(1.0)
    }

    fn defined(&self, value: f64) -> f64 {
        if self.mean_only { f64::NAN } else { value }
    }

    fn moments(&self, row: usize, integrator: &mut Integrator) -> Prediction {
        let (mu, v) = self.latent_at(row);
        let likelihood = self.posterior.likelihood();
        let moments = likelihood.predictive_moments((mu, v), self.exposure_at(row), integrator);
        let (mean, variance) = self.scaling.unscale_moments(moments, integrator);
        Prediction {
            mean,
            variance: self.defined(variance),
            latent_mean: self.scaling.unscale_mean(mu),
            latent_variance: self.defined(self.scaling.unscale_variance(v)),
        }
    }

    fn quantile_with(&self, row: usize, p: f64, integrator: &mut Integrator) -> f64 {
        if self.mean_only {
            return f64::NAN;
        }
        let (latent, exposure) = (self.latent_at(row), self.exposure_at(row));
        let quantile = self.posterior.likelihood().predictive_quantile(p, latent, exposure, integrator);
        self.scaling.unscaled_target(quantile)
    }

    fn log_density_with(&self, row: usize, target: f64, integrator: &mut Integrator) -> f64 {
        if self.mean_only || target.is_nan() {
            return f64::NAN;
        }
        let at = Observation { y: self.scaling.scaled_target(target), exposure: self.exposure_at(row) };
        let local = self.posterior.likelihood().log_predictive(at, self.latent_at(row), &mut [], integrator);
        local.value + self.scaling.log_density_shift(target)
    }

    fn crps_with(&self, row: usize, target: f64, integrator: &mut Integrator) -> f64 {
        if self.mean_only || target.is_nan() {
            return f64::NAN;
        }
        if !self.scaling.target_map().is_none() {
            return continuous_crps(self.kind(), target, &mut |y| self.cdf(row, y, integrator));
        }
        let at = Observation { y: self.scaling.scaled_target(target), exposure: self.exposure_at(row) };
        self.posterior.likelihood().crps(at, self.latent_at(row), integrator) * self.scaling.target.scale
    }

    fn cdf(&self, row: usize, y: f64, integrator: &mut Integrator) -> f64 {
        let (latent, exposure) = (self.latent_at(row), self.exposure_at(row));
        self.posterior.likelihood().predictive_cdf(
            self.scaling.scaled_target(y),
            latent,
            exposure,
            integrator,
        )
    }

    fn compared(&self, row: usize, target: f64, integrator: &mut Integrator) -> Compared {
        let kind = self.kind();
        let mean = self.moments(row, integrator).mean;
        let discrete = matches!(kind, TargetKind::Count | TargetKind::Binary | TargetKind::Ordinal);
        let (mut pit, mut interval_95) = ((f64::NAN, f64::NAN), (f64::NAN, f64::NAN));
        if !self.mean_only && kind != TargetKind::Binary {
            let at = self.cdf(row, target, integrator);
            pit = (if discrete { self.cdf(row, target - 1.0, integrator) } else { at }, at);
            interval_95 =
                (self.quantile_with(row, 0.025, integrator), self.quantile_with(row, 0.975, integrator));
        }
        Compared {
            target,
            mean,
            log_density: self.log_density_with(row, target, integrator),
            pit,
            interval_95,
            crps: self.crps_with(row, target, integrator),
            deviance: self.posterior.likelihood().unit_deviance(target, mean),
            most_probable: match kind.task() {
                Task::Classification => f64::from(u8::from(mean > 0.5)),
                Task::Ordinal => self.most_probable_level(row, integrator),
                Task::Regression | Task::Count => f64::NAN,
            },
        }
    }

    fn most_probable_level(&self, row: usize, integrator: &mut Integrator) -> f64 {
        let (mut best, mut most, mut below) = (f64::NAN, f64::NEG_INFINITY, 0.0);
        for level in 0..self.posterior.likelihood().levels() {
            let at = self.cdf(row, level as f64, integrator);
            if at - below > most {
                (best, most) = (level as f64, at - below);
            }
            below = at;
        }
        best
    }
}
