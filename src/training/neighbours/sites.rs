//! Gaussian sites that replace the likelihood in models with neighbours, found by moment matching.
//!
//! Given the prediction `N(f_i; μ, v)` of a datum's latent value from the other data, expectation
//! propagation (Minka 2001; Rasmussen & Williams 2006, section 3.6) replaces `p(y_i | f_i)` by a
//! Gaussian that gives f_i the same mean and variance. With `Z = E p(y_i | f_i)`, `g = ∂ log Z/∂μ`
//! and `h = ∂² log Z/∂μ² = 2 ∂ log Z/∂v − g²`:
//!
//! ```text
//! Λ = −h / (1 + v h),   λ/Λ = μ + v g + g/Λ
//! ```
//!
//! The site is equivalent to a target λ/Λ with noise variance 1/Λ.

use crate::likelihood::{Expectation, LatentMarginal, OneFunction, Row};
use crate::objective::Targets;
use crate::quadrature::Integrator;
use crate::threads::PerThread;
use rayon::prelude::*;
use std::f64::consts::TAU;

/// The minimum and maximum precision of a site, in units of the precision `1/v` that the other rows
/// give. Beyond this range, rounding errors grow, while predictions hardly change.
const KNOWN: (f64, f64) = (1e-6, 1e6);

/// The least precision of a site, as a share of the precision of a secant. The secant of the slope
/// of the log likelihood leads from the matched mean to the f that explains the datum best.
///
/// The limit matters for heavy tails, where moment matching may give a negative precision; it keeps
/// the matched mean. Log-concave likelihoods hardly reach it. On `mcycle` and `concrete` with
/// Student-t noise, shares of 0.5 and 1 gave the same results, while with 0.1 training took all
/// data for outliers.
///
/// The precision of the secant is itself limited to the curvature at the best f. A larger value
/// only means that the two points are close, and would make repeated rows count as exact.
const SECANT: f64 = 0.5;

/// The sites of all rows, which replace the observations.
pub(super) struct Sites {
    /// λ/Λ.
    pub targets: Vec<f64>,
    /// 1/Λ.
    pub noise: Vec<f64>,
    /// The leave-one-out predictions that the sites were matched to: means and variances.
    others: (Vec<f64>, Vec<f64>),
    integrators: PerThread<Integrator>,
}

/// Targets and noise variances of sites, with the predictions that they were matched to.
pub(super) struct SiteValues {
    targets: Vec<f64>,
    noise: Vec<f64>,
    others: (Vec<f64>, Vec<f64>),
}

/// A likelihood with observed data.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub likelihood: &'a dyn OneFunction,
    pub targets: Targets<'a>,
}

impl Sites {
    /// Creates the sites of Laplace's approximation at the f that explains each datum best; `prior`
    /// has the prior variances of f. These sites trust every row, and moment matching then finds
    /// the outliers. Sites matched to the prior would carry no information under heavy tails.
    pub fn new(observed: Observed<'_>, prior: &[f64], nodes: Option<usize>) -> Sites {
        let Observed { likelihood, targets } = observed;
        let believed = |(i, v): (usize, &f64)| {
            let target = likelihood.working_response(targets.at(i));
            let precision = -likelihood.curvature(targets.at(i), target);
            (target, 1.0 / precision.clamp(KNOWN.0 / v, KNOWN.1 / v))
        };
        let (targets, noise): (Vec<f64>, Vec<f64>) = prior.par_iter().enumerate().map(believed).unzip();
        let others = (targets.clone(), prior.to_vec());
        let integrators = PerThread::new(move || Integrator::new(nodes));
        Sites { targets, noise, others, integrators }
    }

    /// Returns the values of all sites.
    pub fn values(&self) -> SiteValues {
        let (targets, noise) = (self.targets.clone(), self.noise.clone());
        SiteValues { targets, noise, others: self.others.clone() }
    }

    /// Restores earlier values of all sites.
    pub fn restore(&mut self, values: SiteValues) {
        (self.targets, self.noise, self.others) = (values.targets, values.noise, values.others);
    }

    /// Moves the sites, in natural parameters, the fraction `step` of the way to those matched to
    /// the leave-one-out predictions. Returns the root mean square change of the predicted means
    /// since the last update, in standard deviations.
    pub fn update(&mut self, observed: Observed<'_>, means: Vec<f64>, variances: Vec<f64>, step: f64) -> f64 {
        let sites = self.targets.par_iter_mut().zip(&mut self.noise).enumerate();
        sites.for_each(|(i, (target, noise))| {
            let matched = self.integrators.with(|integrator| {
                matched(observed, i, LatentMarginal::new(means[i], variances[i]), integrator)
            });
            // The site of a datum is kept if the matched one is not finite.
            if let Some((precision, shift)) = matched {
                let (old, kept) = (1.0 / *noise, 1.0 - step);
                let new = kept * old + step * precision;
                *target = (kept * old * *target + step * shift) / new;
                *noise = 1.0 / new;
            }
        });
        let moves = means.iter().zip(&self.others.0).zip(&variances);
        let squares: f64 = moves.map(|((new, old), v)| (new - old).powi(2) / v).sum();
        let square = squares / means.len().max(1) as f64;
        self.others = (means, variances);
        square.sqrt()
    }

    /// Returns `Σ log N(λ/Λ; μ, v + 1/Λ) − log Z` over these rows: the difference between the negative log evidence of the sites and that
    /// of the data. Adds its derivatives in the likelihood's parameters to `own`.
    pub(crate) fn correction(&self, observed: Observed<'_>, rows: &[u32], own: &mut [f64]) -> f64 {
        let term = |&row: &u32| {
            let i = row as usize;
            let (mean, v, mut own) = (self.others.0[i], self.others.1[i], vec![0.0; own.len()]);
            let row = Row::new(observed.targets.at(i), LatentMarginal::new(mean, v));
            let log_z = self.integrators.with(|integrator| {
                observed.likelihood.expectation(Expectation::LogPredictive, row, &mut own, integrator).value
            });
            let spread = v + self.noise[i];
            let of_site = -0.5 * ((TAU * spread).ln() + (self.targets[i] - mean).powi(2) / spread);
            (of_site - log_z, own)
        };
        // Collected before they are summed, so that the sum does not depend on the threads.
        let terms: Vec<(f64, Vec<f64>)> = rows.par_iter().map(term).collect();
        terms.iter().fold(0.0, |sum, (value, of_row)| {
            own.iter_mut().zip(of_row).for_each(|(own, of_row)| *own -= of_row);
            sum + value
        })
    }
}

/// Returns precision Λ and shift λ of the site of row `i`, for which the other rows predict
/// `N(f; mean, v)`; `None` if they are not finite.
fn matched(
    observed: Observed<'_>,
    i: usize,
    latent: LatentMarginal,
    integrator: &mut Integrator,
) -> Option<(f64, f64)> {
    let LatentMarginal { mean, variance: v } = latent;
    let (likelihood, at) = (observed.likelihood, observed.targets.at(i));
    let row = Row::new(at, latent);
    let log_z = likelihood.expectation(Expectation::LogPredictive, row, &mut [], integrator);
    let slope = log_z.mean;
    let curvature = 2.0 * log_z.variance - slope * slope;
    let matched = mean + v * slope;
    let precision = -curvature / (1.0 + v * curvature).max(f64::EPSILON);
    let best = likelihood.working_response(at);
    let secant = (slope / (best - matched)).min(-likelihood.curvature(at, best));
    let least = (SECANT * secant).max(KNOWN.0 / v);
    let precision = precision.max(least).min(KNOWN.1 / v);
    let shift = slope + precision * matched;
    (precision.is_finite() && shift.is_finite()).then_some((precision, shift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::BernoulliProbit;

    #[test]
    fn a_class_that_is_predicted_well_does_not_become_exact() {
        let targets = Targets { y: &[1.0], exposure: &[], weights: &[], outputs: &[] };
        let observed = Observed { likelihood: &BernoulliProbit, targets };
        let mut integrator = Integrator::new(None);
        // Means around 2, the working response of class 1, and variances down to those that
        // repeated rows give each other.
        for mean in [1.9, 1.999, 2.0 - 1e-9, 2.0, 2.1] {
            for v in [1.0, 1e-2, 1e-6] {
                let (precision, _) =
                    matched(observed, 0, LatentMarginal::new(mean, v), &mut integrator).expect("a site");
                assert!(
                    precision > 0.0 && precision < 0.5f64.max(2.0 * KNOWN.0 / v),
                    "{mean} {v}: {precision}"
                );
            }
        }
    }
}
