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

use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{Marginal, ObservationModel, Row, Slopes};
use crate::objective::Targets;
use crate::parallel::*;
use crate::threads::PerThread;
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
    pub values: SiteValues,
    rooms: PerThread<Room>,
}

/// The values of all sites: n for each function, one function after the other.
#[derive(Clone)]
pub(super) struct SiteValues {
    /// λ/Λ.
    pub targets: Vec<f64>,
    /// 1/Λ.
    pub noise: Vec<f64>,
    /// The leave-one-out predictions that the sites were matched to: means and variances.
    others: (Vec<f64>, Vec<f64>),
}

/// A likelihood with observed data.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub likelihood: &'a ObservationModel,
    pub targets: Targets<'a>,
}

/// The buffers of a row, with a number for each function.
struct Room {
    integrator: Integrator,
    mean: Vec<f64>,
    variance: Vec<f64>,
    by_mean: Vec<f64>,
    by_variance: Vec<f64>,
}

impl Room {
    fn new(nodes: Option<usize>) -> Room {
        let none = Vec::new;
        let integrator = Integrator::new(nodes);
        Room { integrator, mean: none(), variance: none(), by_mean: none(), by_variance: none() }
    }

    /// Returns log Z of row `i` under predictions of all rows by the others, and leaves its derivatives in the room; adds those in the
    /// likelihood's parameters to `own`, unless it is empty.
    fn log_z(
        &mut self,
        Observed { likelihood, targets }: Observed<'_>,
        i: usize,
        (means, variances): (&[f64], &[f64]),
        own: &mut [f64],
    ) -> f64 {
        let Room { integrator, mean, variance, by_mean, by_variance } = self;
        let n = means.len() / likelihood.functions();
        for (of_row, all) in [(&mut *mean, means), (&mut *variance, variances)] {
            of_row.clear();
            of_row.extend(all.chunks_exact(n).map(|of_function| of_function[i]));
        }
        mean.iter_mut().zip(0..).for_each(|(mean, function)| *mean += targets.offset(i, function));
        [&mut *by_mean, &mut *by_variance].into_iter().for_each(|slopes| slopes.resize(mean.len(), 0.0));
        let row = Row::new(targets.at(i), Marginal { mean, variance });
        let slopes = Slopes { mean: by_mean, variance: by_variance, own };
        likelihood.log_evidence(row, slopes, integrator)
    }

    /// Writes precision Λ and shift λ of the sites of row `i`, one for each function, given predictions of all rows by the others; NaN if
    /// they are not finite.
    fn matched(
        &mut self,
        observed: Observed<'_>,
        i: usize,
        others: (&[f64], &[f64]),
        out: &mut [(f64, f64)],
    ) {
        self.log_z(observed, i, others, &mut []);
        for (function, out) in out.iter_mut().enumerate() {
            let (mean, v, slope) = (self.mean[function], self.variance[function], self.by_mean[function]);
            let curvature = 2.0 * self.by_variance[function] - slope * slope;
            let matched = mean + v * slope;
            let precision = -curvature / (1.0 + v * curvature).max(f64::EPSILON);
            let least = observed.least_precision(i, slope, matched).max(KNOWN.0 / v);
            let precision = precision.max(least).min(KNOWN.1 / v);
            // The site is for f without its offset.
            let shift = slope + precision * (matched - observed.targets.offset(i, function));
            let finite = precision.is_finite() && shift.is_finite();
            *out = if finite { (precision, shift) } else { (f64::NAN, f64::NAN) };
        }
    }
}

impl Observed<'_> {
    /// Returns the least precision of the site of row `i` from its secant, given the slope of log Z and the matched mean; 0 if the likelihood
    /// has several functions.
    fn least_precision(self, i: usize, slope: f64, matched: f64) -> f64 {
        let (Some(likelihood), at) = (self.likelihood.one(), self.targets.at(i)) else { return 0.0 };
        let best = likelihood.working_response(at);
        SECANT * (slope / (best - matched)).min(-likelihood.curvature(at, best))
    }
}

impl Sites {
    /// Creates the sites of Laplace's approximation at the f that explains each datum best; `prior`
    /// has the prior variances of f, n for each function. These sites trust every row, and moment matching then finds
    /// the outliers. Sites matched to the prior would carry no information under heavy tails.
    pub fn new(observed: Observed<'_>, prior: &[f64], nodes: Option<usize>) -> Sites {
        let Observed { likelihood, targets: data } = observed;
        let functions = likelihood.functions();
        let n = prior.len() / functions;
        let (mut targets, mut noise) = (vec![0.0; prior.len()], vec![0.0; prior.len()]);
        let (mut best, mut curvature) = (vec![0.0; functions], vec![0.0; functions]);
        for i in 0..n {
            likelihood.working_response(data.at(i), &mut best);
            likelihood.curvature(data.at(i), &best, &mut curvature);
            for (function, (best, curvature)) in best.iter().zip(&curvature).enumerate() {
                let (at, v) = (function * n + i, prior[function * n + i]);
                targets[at] = *best - data.offset(i, function);
                noise[at] = 1.0 / (-curvature).clamp(KNOWN.0 / v, KNOWN.1 / v);
            }
        }
        let others = (targets.clone(), prior.to_vec());
        let rooms = PerThread::new(move || Room::new(nodes));
        Sites { values: SiteValues { targets, noise, others }, rooms }
    }

    /// Moves the sites, in natural parameters, the fraction `step` of the way to those matched to
    /// the leave-one-out predictions. Returns the root mean square change of the predicted means
    /// since the last update, in standard deviations.
    pub fn update(&mut self, observed: Observed<'_>, means: Vec<f64>, variances: Vec<f64>, step: f64) -> f64 {
        let functions = observed.likelihood.functions();
        let n = means.len() / functions;
        let mut matched = vec![(0.0, 0.0); means.len()];
        matched.par_chunks_exact_mut(functions).enumerate().for_each(|(i, out)| {
            self.rooms.with(|room| room.matched(observed, i, (&means, &variances), out));
        });
        let SiteValues { targets, noise, others } = &mut self.values;
        let sites = targets.iter_mut().zip(noise).enumerate();
        for (at, (target, noise)) in sites {
            let (precision, shift) = matched[at % n * functions + at / n];
            // The site of a datum is kept if the matched one is not finite.
            if !precision.is_nan() {
                let (old, kept) = (1.0 / *noise, 1.0 - step);
                let new = kept * old + step * precision;
                *target = (kept * old * *target + step * shift) / new;
                *noise = 1.0 / new;
            }
        }
        let moves = means.iter().zip(&others.0).zip(&variances);
        let squares: f64 = moves.map(|((new, old), v)| (new - old).powi(2) / v).sum();
        let square = squares / means.len().max(1) as f64;
        *others = (means, variances);
        square.sqrt()
    }

    /// Returns `Σ log N(λ/Λ; μ, v + 1/Λ) − log Z` over these rows and all functions: the difference between the negative log evidence of the
    /// sites and that of the data. Adds its derivatives in the likelihood's parameters to `own`.
    pub(crate) fn correction(&self, observed: Observed<'_>, rows: &[u32], own: &mut [f64]) -> f64 {
        let SiteValues { targets, noise, others: (means, variances) } = &self.values;
        let functions = observed.likelihood.functions();
        let n = means.len() / functions;
        let term = |&row: &u32| {
            let (row, mut own) = (row as usize, vec![0.0; own.len()]);
            let log_z = self.rooms.with(|room| room.log_z(observed, row, (means, variances), &mut own));
            let of_site = |at: usize| {
                let spread = variances[at] + noise[at];
                -0.5 * ((TAU * spread).ln() + (targets[at] - means[at]).powi(2) / spread)
            };
            let of_sites: f64 = (0..functions).map(|function| of_site(function * n + row)).sum();
            (of_sites - log_z, own)
        };
        // Collected before they are summed, so that the sum does not depend on the threads.
        let terms: Vec<(f64, Vec<f64>)> = rows.par_iter().map(term).collect();
        terms.iter().fold(0.0, |sum, (value, of_row)| {
            own.iter_mut().zip(of_row).for_each(|(own, of_row)| *own -= of_row);
            sum + value
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::Bernoulli;

    #[test]
    fn a_class_that_is_predicted_well_does_not_become_exact() {
        let targets = Targets::of(&[1.0]);
        let likelihood = ObservationModel::from(Bernoulli::Probit);
        let observed = Observed { likelihood: &likelihood, targets };
        let (mut room, mut found) = (Room::new(None), [(0.0, 0.0)]);
        // Means around 2, the working response of class 1, and variances down to those that
        // repeated rows give each other.
        for mean in [1.9, 1.999, 2.0 - 1e-9, 2.0, 2.1] {
            for v in [1.0, 1e-2, 1e-6] {
                room.matched(observed, 0, (&[mean], &[v]), &mut found);
                let precision = found[0].0;
                assert!(
                    precision > 0.0 && precision < 0.5f64.max(2.0 * KNOWN.0 / v),
                    "{mean} {v}: {precision}"
                );
            }
        }
    }
}
