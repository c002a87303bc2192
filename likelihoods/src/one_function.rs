//! Likelihoods with one latent function, and what makes them likelihoods with any number of functions.

use super::{
    DensityBounds, Expectation, LatentMarginal, LatentRow, Likelihood, LikelihoodKind, Local, Marginal,
    Observation, Row, RowNodes, Slopes, TargetKind, crps, quantile,
};
use crate::quadrature::{Integrator, Resolution};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;
use std::fmt::Debug;

/// A likelihood with one latent function; every one that is [`Clone`] is a [`Likelihood`].
///
/// A family defines its log density in f. Expectations follow by quadrature unless it overrides them with closed forms, and predictions by
/// averages of its functions of y given f. [`check_likelihood`](crate::testkit::check_likelihood) compares them.
///
/// f is on the scale the model sees: that of the [standardised](OneFunction::scales_target) target for real targets. `own` slices follow
/// the order of [`OneFunction::for_each_parameter`], are in natural units, accumulate, and are empty if they are not requested. No input
/// may cause a panic; numerical trouble gives NaN or infinity.
pub trait OneFunction: OneFunctionBox + Send + Sync + Debug {
    /// Returns the kind: the unique name in options, reports and model files, such as `gaussian`, and the targets it is defined on.
    fn kind(&self) -> LikelihoodKind;

    /// Returns the name.
    fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Returns the targets it is defined on.
    fn target_kind(&self) -> TargetKind {
        self.kind().target_kind()
    }

    /// Returns true if fits standardise the target, which is valid if f and the own parameters absorb its location and scale.
    fn scales_target(&self) -> bool {
        self.target_kind().is_standardised()
    }

    /// Returns σ² if `p(y|f) = N(y; f, σ²)` and σ² is the only own parameter. The best q, and
    /// bounds without a q, then have closed forms, which fits use. `None` for all other
    /// likelihoods.
    fn gaussian_noise(&self) -> Option<f64> {
        None
    }

    /// Returns the variance of an observation on the scale of f, given the mean of the targets: the variance of the noise, or the
    /// distribution-specific variance of Nakagawa & Schielzeth (2010). Intraclass correlations are shares in a sum with it. `None` if the
    /// family has no such variance.
    fn observation_variance(&self, mean: f64) -> Option<f64> {
        let _ = mean;
        self.gaussian_noise()
    }

    /// `log p(y|f_k)` and `∂_f log p(y|f_k)` at every `f_k`.
    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]);

    /// `log p(y|f)` and `∂_f log p(y|f)` at one f.
    fn value_and_slope(&self, at: Observation, f: f64) -> (f64, f64) {
        let (mut value, mut first) = ([0.0], [0.0]);
        self.log_density(at, &[f], &mut value, &mut first);
        (value[0], first[0])
    }

    /// `∂²_f log p(y|f)`, which must be exact: steps towards modes and estimators of gradients use
    /// it.
    fn curvature(&self, at: Observation, f: f64) -> f64;

    /// Returns bounds on p(y|f) and its first two derivatives over all f, or `None` if they are unknown or infinite.
    fn density_bounds(&self, at: Observation) -> Option<DensityBounds> {
        let _ = at;
        None
    }

    /// Returns θ_min and θ_max: the smallest and the largest `−∂²_f log p(y|f)` over all f and
    /// targets of the kind, or `None` if they are unknown or unbounded.
    fn loss_curvature(&self) -> Option<(f64, f64)> {
        None
    }

    /// Adds `Σ_k w_k ∂_ψ log p(y|f_k)` to `own` for the likelihood's own parameters ψ, natural units; nothing without any.
    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let _ = (at, f, weights, own);
    }

    /// Returns true if one call for the nodes of many rows is much quicker than a call per row, for example because every call is slow to begin.
    /// Losses then call [`log_densities`](Self::log_densities), [`own_gradients`](Self::own_gradients) and [`peaks`](Self::peaks), and
    /// integrate by quadrature even if closed forms exist.
    fn prefers_many_rows(&self) -> bool {
        false
    }

    /// Like [`log_density`](Self::log_density), at the nodes of many rows.
    fn log_densities(&self, nodes: RowNodes<'_>, value: &mut [f64], first: &mut [f64]) {
        for (row, at) in nodes.iter() {
            self.log_density(*row, &nodes.f[at.clone()], &mut value[at.clone()], &mut first[at]);
        }
    }

    /// Like [`own_gradient`](Self::own_gradient), at the nodes of many rows.
    fn own_gradients(&self, nodes: RowNodes<'_>, weights: &[f64], own: &mut [f64]) {
        for (row, at) in nodes.iter() {
            self.own_gradient(*row, &nodes.f[at.clone()], &weights[at], own);
        }
    }

    /// Like [`peak`](Self::peak), for many rows.
    fn peaks(&self, rows: &[Observation<'_>], out: &mut [f64]) {
        rows.iter().zip(out).for_each(|(row, out)| *out = self.peak(*row));
    }

    /// Returns the resolution that quadrature needs for this likelihood.
    fn resolution(&self, at: Observation) -> Resolution;

    /// Returns the f that maximises `p(y|f)`, which has a single peak, or a finite f near the
    /// supremum if that is at infinity. By default it is found by bisection of the slope; a formula
    /// is much quicker.
    fn peak(&self, at: Observation) -> f64 {
        climb(&mut |f| self.value_and_slope(at, f).1)
    }

    /// Returns `E log p(y|f)` under `N(f; μ, v)` with its derivatives. Adds the derivatives in ψ to `own` unless `own` is empty. By default
    /// it is computed by quadrature; a closed form replaces it.
    fn expected_log(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        integrator.expectation(Expectation::ExpectedLog, self, row, own)
    }

    /// Like [`expected_log`](Self::expected_log), for `log E p(y|f)`.
    fn log_predictive(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        integrator.expectation(Expectation::LogPredictive, self, row, own)
    }

    /// Returns [`expected_log`](Self::expected_log) or [`log_predictive`](Self::log_predictive).
    fn expectation(
        &self,
        of: Expectation,
        row: LatentRow,
        own: &mut [f64],
        integrator: &mut Integrator,
    ) -> Local {
        match of {
            Expectation::ExpectedLog => self.expected_log(row, own, integrator),
            Expectation::LogPredictive => self.log_predictive(row, own, integrator),
        }
    }

    /// Returns mean and variance of y given f, for a row like `at` of unknown y; infinite or NaN if they do not exist.
    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64);

    /// Returns the unit deviance of a count y from a mean: twice the log ratio of the density of y under the best mean to that under this
    /// mean. NaN for other families.
    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        let _ = (y, mean);
        f64::NAN
    }

    /// `P(Y ≤ at.y | f)`.
    fn conditional_cdf(&self, at: Observation, f: f64) -> f64;

    /// A draw of y given f, for a row like `at` of unknown y.
    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64;

    /// Mean and variance of y under the predictive distribution, for a row of unknown y.
    fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
        averaged_moments(self, row, integrator)
    }

    /// `P(Y ≤ y)` under the predictive distribution, where y is the target of the row.
    fn predictive_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = row;
        integrator.average(mu, v, self.cdf_strip(at), &mut |f| self.conditional_cdf(at, f)).clamp(0.0, 1.0)
    }

    /// Returns the half-width of the strip in which `P(Y ≤ at.y | f)` is analytic in f, or practically
    /// so.
    fn cdf_strip(&self, at: Observation) -> f64 {
        self.resolution(at).strip
    }

    /// The smallest y with `P(Y ≤ y) ≥ p`, for p in (0, 1) and a row of unknown y.
    fn predictive_quantile(&self, p: f64, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let mut cdf = |y| self.predictive_cdf(row.with(y), integrator);
        quantile::search(self.target_kind(), p, self.levels(), &mut cdf)
    }

    /// Returns the continuous ranked probability score of a row under the predictive
    /// distribution, `∫ (F(t) − 1{y ≤ t})² dt` (Gneiting & Raftery 2007, eq. 20), in units of the
    /// target as the model sees it. For counts and levels it is the sum over them (Epstein 1969),
    /// for classes `(P(y = 1) − y)²`. By default it is computed by quadrature of the predictive
    /// distribution function; NaN if that function is NaN.
    fn crps(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let LatentMarginal { mean, variance } = row.marginal;
        let marginal = Marginal { mean: &[mean], variance: &[variance] };
        crps::of(self.as_likelihood(), Row::new(row.at, marginal), integrator)
    }

    /// `P(Y ≤ y)` of counts under the predictive distribution as a function of a real number, which must be smooth from 31 on.
    fn smooth_count_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        crps::between(row.at.y, &mut |y| self.predictive_cdf(row.with(y), integrator))
    }

    /// The number of ordered levels, for likelihoods that have them; 2 for classes.
    fn levels(&self) -> usize {
        2
    }

    /// Returns a value of f that explains the observation well; regressions for a start use it.
    fn working_response(&self, at: Observation) -> f64 {
        self.peak(at)
    }

    /// Returns the names of the values in a prediction other than the moments of y, such as `probability`.
    fn details(&self) -> &'static [&'static str] {
        &[]
    }

    /// The values of the [`details`](Self::details), for a row of unknown y.
    fn detail(&self, which: usize, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let _ = (which, row, integrator);
        f64::NAN
    }

    /// Checks the likelihood at some rows of the data before a fit; by default it is not checked.
    ///
    /// # Errors
    /// What is wrong and expected, in words.
    fn check(&self, rows: &[Observation]) -> Result<(), String> {
        let _ = rows;
        Ok(())
    }

    /// Chooses starting values of own parameters, other than fixed or given ones, from the targets (and exposures, none for all
    /// 1); returns the latent mean that fits them best.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64;

    /// Visits the likelihood's own parameters in the fixed order that flat gradients use; by default there are no parameters.
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        let _ = visit;
    }

    /// Visits the own parameters mutably, in the same order.
    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        let _ = visit;
    }
}

/// The search for a supremum at infinity ends at this distance.
const FARTHEST: f64 = 1e8;

/// Returns the point at which `slope` turns from positive to negative, to nearly the last digit; a
/// finite point far out if it never does. A slope that has underflowed to zero counts as past the
/// peak.
pub(super) fn climb(slope: &mut dyn FnMut(f64) -> f64) -> f64 {
    let at_zero = slope(0.0);
    if at_zero == 0.0 || at_zero.is_nan() {
        return 0.0;
    }
    let sign = at_zero.signum();
    let mut rises = |x: f64| slope(sign * x) * sign > 0.0;
    let (mut low, mut high) = (0.0, 1.0);
    while rises(high) {
        if high > FARTHEST {
            return sign * high;
        }
        (low, high) = (high, 2.0 * high);
    }
    while high - low > 1e-14 * high.max(1e-3) {
        let middle = 0.5 * (low + high);
        if rises(middle) { low = middle } else { high = middle }
    }
    sign * low
}

/// Returns mean and variance of y by averages over f.
pub(super) fn averaged_moments<L: OneFunction + ?Sized>(
    likelihood: &L,
    row: LatentRow,
    integrator: &mut Integrator,
) -> (f64, f64) {
    let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = row;
    let strip = likelihood.resolution(at.with(1.0)).strip;
    let mut average = |g: &mut dyn FnMut(f64) -> f64| integrator.average(mu, v, strip, g);
    let mean = average(&mut |f| likelihood.conditional_moments(at, f).0);
    let variance = average(&mut |f| {
        let (m, v) = likelihood.conditional_moments(at, f);
        v + (m - mean) * (m - mean)
    });
    (mean, variance)
}

/// Copies of likelihoods with one function behind a box, which all that are [`Clone`] have.
pub trait OneFunctionBox {
    /// A copy behind a new box.
    fn boxed_clone(&self) -> Box<dyn OneFunction>;

    /// Returns the likelihood as one with any number of functions.
    fn as_likelihood(&self) -> &dyn Likelihood;
}

impl<L: OneFunction + Clone + 'static> OneFunctionBox for L {
    fn boxed_clone(&self) -> Box<dyn OneFunction> {
        Box::new(self.clone())
    }

    fn as_likelihood(&self) -> &dyn Likelihood {
        self
    }
}

impl Clone for Box<dyn OneFunction> {
    fn clone(&self) -> Self {
        self.as_ref().boxed_clone()
    }
}

impl dyn OneFunction + '_ {
    /// The number of own parameter values.
    pub(crate) fn own_len(&self) -> usize {
        self.as_likelihood().own_len()
    }
}

impl<L: OneFunction + Clone + 'static> Likelihood for L {
    fn kind(&self) -> LikelihoodKind {
        OneFunction::kind(self)
    }

    fn one(&self) -> Option<&dyn OneFunction> {
        Some(self)
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], slope: &mut [f64]) {
        OneFunction::log_density(self, at, f, value, slope);
    }

    fn curvature(&self, at: Observation, f: &[f64], out: &mut [f64]) {
        f.iter().zip(out).for_each(|(f, out)| *out = OneFunction::curvature(self, at, *f));
    }

    fn expectation(&self, of: Expectation, row: Row, mut slopes: Slopes, integrator: &mut Integrator) -> f64 {
        let local = OneFunction::expectation(self, of, row.of(0), slopes.own, integrator);
        slopes.set([(local.mean, local.variance)]);
        local.value
    }

    fn details(&self) -> &'static [&'static str] {
        OneFunction::details(self)
    }

    fn detail(&self, which: usize, row: Row, integrator: &mut Integrator) -> f64 {
        OneFunction::detail(self, which, row.of(0), integrator)
    }

    fn sample(&self, at: Observation, f: &[f64], random: &mut ChaCha8Rng) -> f64 {
        OneFunction::sample(self, at, f[0], random)
    }

    fn check(&self, rows: &[Observation]) -> Result<(), String> {
        OneFunction::check(self, rows)
    }

    fn working_response(&self, at: Observation, out: &mut [f64]) {
        out[0] = OneFunction::working_response(self, at);
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> Vec<f64> {
        vec![OneFunction::initialise(self, y, exposure)]
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        OneFunction::for_each_parameter(self, visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        OneFunction::for_each_parameter_mut(self, visit);
    }
}

#[cfg(test)]
mod tests {
    use super::climb;

    #[test]
    fn peaks_near_far_at_kinks_and_at_infinity_are_found() {
        for peak in [0.0, 1e-3, -0.7, 40.0, -3e6] {
            assert!((climb(&mut |x| peak - x) - peak).abs() <= 1e-13 * (1.0 + peak.abs()), "{peak}");
            assert!(
                (climb(&mut |x: f64| (peak - x).signum()) - peak).abs() <= 1e-13 * (1.0 + peak.abs()),
                "{peak}"
            );
        }
        let saturating = climb(&mut |x: f64| (-x).exp());
        assert!((700.0..800.0).contains(&saturating), "{saturating}");
        assert!(climb(&mut |x: f64| 1.0 / (2.0 + x.abs())).is_finite());
        assert_eq!(climb(&mut |_| f64::NAN), 0.0);
    }
}
