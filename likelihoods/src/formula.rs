//! Likelihoods from a formula: log p(y | f) written once, with derivatives by forward differentiation and everything else by quadrature.

use crate::distribution::Distribution;
use crate::one_function::climb;
use crate::quadrature::{Integrator, Point, Resolution};
use crate::{
    Expectation, LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction, Row, TargetKind,
    crps, quantile,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::real::{Derivatives, Real, Second};
use sparsegp_kernels::{Parameter, Role};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// A formula for log p(y | f), which [`FormulaLikelihood`] turns into a likelihood.
///
/// ```
/// use sparsegp_kernels::{Parameter, Real, real::Derivatives};
/// use sparsegp_likelihoods::{DensityFormula, FormulaLikelihood, Observation, TargetKind, testkit::check_density};
///
/// /// y = f + s·ε with ε from the logistic distribution: `log p = −r − 2 log(1 + e^{−r}) − log s`, `r = (y − f)/s`.
/// #[derive(Clone, Debug, Default)]
/// struct LogisticNoise;
///
/// impl DensityFormula for LogisticNoise {
///     const NAME: &'static str = "logistic-noise";
///     const TARGET: TargetKind = TargetKind::Real;
///
///     fn parameters(&self) -> Vec<Parameter> {
///         vec![Parameter::positive("scale", vec![0.7])]
///     }
///
///     fn log_density<D: Derivatives>(&self, p: &[Real<D>], at: Observation, f: Real<D>) -> Real<D> {
///         let r = (at.y - f) / p[0];
///         -r - 2.0 * (-r).softplus() - p[0].ln()
///     }
/// }
///
/// // `check_likelihood` checks expectations and predictions too.
/// check_density(&FormulaLikelihood::new(LogisticNoise), Observation::of(0.4), &[-0.7])?;
/// # Ok::<(), String>(())
/// ```
///
/// Functions that [`Real`] lacks enter by [`Real::apply`] with their derivatives. Constants in y, such as log y!, are plain numbers.
pub trait DensityFormula: Clone + Debug + Send + Sync + 'static {
    /// The name of the likelihood in options, reports and model files: letters, digits, `-` and `_`.
    const NAME: &'static str;

    /// The targets that the density is defined on: real or positive numbers, numbers between 0 and 1, counts, or the classes 0 and 1. A fit
    /// standardises real targets, so f and the parameters have to absorb their location and scale.
    const TARGET: TargetKind;

    /// The name of a further number of every row that the density depends on, `at.exposure`, if there is one. A fit takes it as the
    /// exposure of the row, and does not scale it; a row without one has 1.
    const COVARIATE: Option<&'static str> = None;

    /// Returns the parameters at their starting values; none by default. Unless its value is [given](Parameter::given), a parameter called
    /// `noise_variance`, `scale` or `sd` starts from the spread of real targets.
    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    /// Returns log p(y | f) for the parameter values `p`, in the order of [`parameters`](Self::parameters), and the target `at.y`. The rate of
    /// a count has the factor `at.exposure`. The density has to integrate to 1 over y, and to be smooth in f with a single peak.
    fn log_density<D: Derivatives>(&self, p: &[Real<D>], at: Observation, f: Real<D>) -> Real<D>;

    /// Returns mean and variance of y given f, if there is a formula. It makes predictions much quicker.
    fn mean_and_variance(&self, p: &[f64], at: Observation, f: f64) -> Option<(f64, f64)> {
        let _ = (p, at, f);
        None
    }

    /// Returns `P(Y ≤ at.y | f)`, if there is a formula. It makes quantiles, scores and draws much quicker.
    fn cdf(&self, p: &[f64], at: Observation, f: f64) -> Option<f64> {
        let _ = (p, at, f);
        None
    }
}

/// The likelihood of a [`DensityFormula`].
///
/// Expectations over f are trapezoidal sums that are refined until they settle, so no resolution has to be given. Distributions of y come
/// from integrals of the density over y, unless the formula has closed forms.
///
/// [`OneFunction::check`] refuses a formula that is not finite, does not integrate to 1, or varies too quickly in f for quadrature.
#[derive(Clone, Debug)]
pub struct FormulaLikelihood<F> {
    /// A number that only copies share.
    identity: u64,
    formula: F,
    parameters: Vec<Parameter>,
}

/// The number of parameters in which one evaluation of a formula computes derivatives.
const LANES: usize = 4;

/// Nodes of an average over f for many y are within this many standard deviations, first one standard deviation apart.
const NODES: i32 = 7;

/// The maximum number of halvings of that distance, and the change of the distribution function below which they end; the error is about the
/// square of the change.
const HALVINGS: u32 = 6;
const SETTLED: f64 = 1e-6;

/// The standardised f at whose medians of y the distribution function is compared.
const PROBES: [f64; 6] = [-3.0, -1.6, -0.2, 0.4, 1.5, 3.1];

/// The precision of a wide normal density around 0, which keeps the best f finite.
const WIDE: f64 = 0.1;

/// The number of targets from which the start is found.
const STARTED: usize = 500;

/// The largest accepted deviation of the integral of a density over y from 1.
const TOLERANCE: f64 = 1e-6;

/// The number of nodes of an expectation above which a density counts as not smooth.
const MOST_NODES: usize = 2000;

impl<F: DensityFormula> FormulaLikelihood<F> {
    /// Creates the likelihood.
    pub fn new(formula: F) -> Self {
        static CREATED: AtomicU64 = AtomicU64::new(1);
        let identity = CREATED.fetch_add(1, Ordering::Relaxed);
        FormulaLikelihood { identity, parameters: formula.parameters(), formula }
    }

    fn values(&self) -> Vec<f64> {
        self.parameters.iter().flat_map(|parameter| &parameter.values).copied().collect()
    }

    /// Returns the parameter values as numbers with derivatives of 0.
    fn constants<D: Derivatives>(&self) -> Vec<Real<D>> {
        self.parameters.iter().flat_map(|parameter| &parameter.values).map(|&value| value.into()).collect()
    }

    /// Returns value, slope and curvature in f.
    fn curve(&self, p: &[Real<Second>], at: Observation, f: f64) -> Real<Second> {
        self.formula.log_density(p, at, Real { value: f, derivatives: Second { first: 1.0, second: 0.0 } })
    }

    /// Returns the distribution of y given f by integrals of the density over y.
    fn integrate(&self, at: Observation, f: f64) -> Distribution {
        let p = self.constants::<()>();
        let mut log_density = |y| self.formula.log_density(&p, at.with(y), f.into()).value;
        Distribution::new(F::TARGET, f, &mut log_density)
    }

    /// Returns the width in f of the peak of the density, at most 1.
    fn width(&self, at: Observation) -> f64 {
        let curve = self.curve(&self.constants(), at, self.working_response(at));
        let width = (-curve.derivatives.second).sqrt().recip();
        if width.is_finite() { width.min(1.0) } else { 1.0 }
    }

    /// Returns mean and variance of y under `N(f; μ, v)` by averages of those given f.
    fn averaged(&self, row: LatentRow<'_>, integrator: &mut Integrator) -> (f64, f64) {
        let Row { at, marginal } = row;
        let mut average = |g: &dyn Fn(f64, f64) -> f64| {
            let mut point = |f: f64| {
                let (mean, variance) = self.conditional_moments(at, f);
                Point { value: g(mean, variance), ..Point::default() }
            };
            integrator.careful_expectation(Expectation::ExpectedLog, marginal, &mut point).value
        };
        let mean = average(&|mean, _| mean);
        (mean, average(&|m, variance| variance + (m - mean) * (m - mean)))
    }
}

/// The distribution of y under `N(f; μ, v)`, prepared for many y: an average over nodes of f.
#[derive(Debug, Default)]
struct Mixture {
    /// The likelihood, its parameters and the marginal.
    key: (u64, Vec<f64>),
    nodes: Vec<Given>,
}

/// The distribution of y given a node of f.
#[derive(Debug)]
struct Given {
    weight: f64,
    f: f64,
    /// The integrated density, unless the formula has a closed form.
    integrated: Option<Distribution>,
}

impl<F: DensityFormula> FormulaLikelihood<F> {
    fn given(&self, at: Observation, f: f64, weight: f64) -> Given {
        let closed = self.formula.cdf(&self.values(), at, f).is_some();
        Given { weight, f, integrated: (!closed).then(|| self.integrate(at, f)) }
    }

    /// `P(Y ≤ at.y | f)`.
    fn cdf_given(&self, at: Observation, given: &Given) -> f64 {
        match &given.integrated {
            Some(integrated) => {
                let p = self.constants::<()>();
                integrated.cdf(at.y, &mut |y| self.formula.log_density(&p, at.with(y), given.f.into()).value)
            }
            None => self.formula.cdf(&self.values(), at, given.f).unwrap_or(f64::NAN),
        }
    }

    /// `P(Y ≤ at.y)`.
    fn cdf_of(&self, at: Observation, nodes: &[Given]) -> f64 {
        let total: f64 = nodes.iter().map(|given| given.weight).sum();
        nodes.iter().map(|given| given.weight * self.cdf_given(at, given)).sum::<f64>() / total
    }

    fn quantile_of(&self, p: f64, at: Observation, nodes: &[Given]) -> f64 {
        quantile::search(F::TARGET, p, 2, &mut |y| self.cdf_of(at.with(y), nodes))
    }

    /// Calls `with` with the distribution of a row, which the integrator keeps for other targets of the row.
    fn with_mixture<T>(
        &self,
        row: LatentRow,
        integrator: &mut Integrator,
        with: impl FnOnce(&[Given]) -> T,
    ) -> T {
        let LatentMarginal { mean, variance } = row.marginal;
        let mut mixture = integrator.kept::<Mixture>();
        let numbers = self.values().into_iter().chain([row.at.exposure, mean, variance]).collect();
        let key = (self.identity, numbers);
        if mixture.nodes.is_empty() || mixture.key != key {
            *mixture = Mixture { key, nodes: self.nodes(row) };
        }
        let found = with(&mixture.nodes);
        integrator.keep(mixture);
        found
    }

    /// Returns the nodes of a row: evenly spaced, and finer until the distribution function settles.
    fn nodes(&self, row: LatentRow) -> Vec<Given> {
        let Row { at, marginal: LatentMarginal { mean, variance } } = row;
        let sd = variance.max(0.0).sqrt();
        let node = |z: f64| self.given(at, mean + sd * z, (-0.5 * z * z).exp());
        if sd <= 1e-9 * (1.0 + mean.abs()) {
            return vec![node(0.0)];
        }
        // The medians given f over its range, where the distribution function given f rises.
        let probes = PROBES.map(|z| at.with(self.quantile_of(0.5, at, &[node(z)])));
        let mut nodes: Vec<Given> = (-NODES..=NODES).map(|k| node(f64::from(k))).collect();
        let mut step = 1.0;
        for _ in 0..HALVINGS {
            let before = probes.map(|at| self.cdf_of(at, &nodes));
            let count = (f64::from(2 * NODES) / step).round() as i32;
            nodes.extend((0..count).map(|k| node((f64::from(k) + 0.5) * step - f64::from(NODES))));
            step *= 0.5;
            let settled = probes
                .iter()
                .zip(before)
                .all(|(&at, before)| (self.cdf_of(at, &nodes) - before).abs() <= SETTLED);
            if settled {
                break;
            }
        }
        nodes
    }
}

impl<F: DensityFormula> OneFunction for FormulaLikelihood<F> {
    fn kind(&self) -> LikelihoodKind {
        let kind = LikelihoodKind::new(F::NAME, F::TARGET);
        F::COVARIATE.map_or(kind, |name| kind.with_covariate(name))
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let p = self.constants();
        for ((&f, value), first) in f.iter().zip(value).zip(first) {
            let log = self.formula.log_density(&p, at, Real { value: f, derivatives: [1.0] });
            (*value, *first) = (log.value, log.derivatives[0]);
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        self.curve(&self.constants(), at, f).derivatives.second
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        for (chunk, own) in own.chunks_mut(LANES).enumerate() {
            let mut p = self.constants::<[f64; LANES]>();
            for lane in 0..own.len() {
                p[chunk * LANES + lane].derivatives[lane] = 1.0;
            }
            for (&f, weight) in f.iter().zip(weights) {
                let slopes = self.formula.log_density(&p, at, f.into()).derivatives;
                own.iter_mut().zip(slopes).for_each(|(own, slope)| *own += weight * slope);
            }
        }
    }

    /// Estimates the resolution from the width of the peak. The expectations of formulas refine their nodes themselves.
    fn resolution(&self, at: Observation) -> Resolution {
        let width = self.width(at);
        Resolution { strip: width, step: 0.25 * width, concave: false, pole: None }
    }

    fn expectation(
        &self,
        of: Expectation,
        row: LatentRow,
        own: &mut [f64],
        integrator: &mut Integrator,
    ) -> Local {
        let p = self.constants();
        integrator.careful(of, self, row, own, &mut |f| {
            let log = self.formula.log_density(&p, row.at, Real { value: f, derivatives: [1.0] });
            (log.value, log.derivatives[0])
        })
    }

    fn expected_log(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        self.expectation(Expectation::ExpectedLog, row, own, integrator)
    }

    fn log_predictive(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        self.expectation(Expectation::LogPredictive, row, own, integrator)
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        self.formula.mean_and_variance(&self.values(), at, f).unwrap_or_else(|| {
            let Distribution { mean, variance, .. } = self.integrate(at, f);
            (mean, variance)
        })
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        self.cdf_given(at, &self.given(at, f, 1.0))
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let given = self.given(at, f, 1.0);
        // Neither 0 nor 1, whose quantiles may be infinite.
        let p = random.random::<f64>().clamp(1e-16, 1.0 - 1e-16);
        quantile::search(F::TARGET, p, 2, &mut |y| self.cdf_given(at.with(y), &given))
    }

    fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
        match row.marginal {
            LatentMarginal { mean, variance } if variance <= 0.0 => self.conditional_moments(row.at, mean),
            _ => self.averaged(row, integrator),
        }
    }

    fn predictive_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        self.with_mixture(row, integrator, |nodes| self.cdf_of(row.at, nodes))
    }

    fn predictive_quantile(&self, p: f64, row: LatentRow, integrator: &mut Integrator) -> f64 {
        self.with_mixture(row, integrator, |nodes| self.quantile_of(p, row.at, nodes))
    }

    fn crps(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let LatentMarginal { mean, variance } = row.marginal;
        if ![row.at.y, mean, variance].iter().all(|value| value.is_finite()) {
            return f64::NAN;
        }
        let y = row.at.y;
        if F::TARGET == TargetKind::Binary {
            return (self.predictive_moments(row, integrator).0 - y).powi(2);
        }
        self.with_mixture(row, integrator, |nodes| {
            let mut cdf = |y: f64| self.cdf_of(row.at.with(y), nodes);
            match F::TARGET {
                TargetKind::Count => crps::counts(y, &mut |k| crps::between(k, &mut cdf)),
                kind => crps::continuous(kind, y, &mut cdf),
            }
        })
    }

    /// Returns the peak in f. A density without a peak is multiplied by a wide normal density first.
    fn working_response(&self, at: Observation) -> f64 {
        let p = self.constants();
        let peak = climb(&mut |f| self.curve(&p, at, f).derivatives.first);
        if self.curve(&p, at, peak).derivatives.second * (1.0 + peak * peak) < -1e-3 {
            return peak;
        }
        climb(&mut |f| self.curve(&p, at, f).derivatives.first - WIDE * f)
    }

    fn check(&self, rows: &[Observation]) -> Result<(), String> {
        rows.iter().try_for_each(|&at| self.check_row(at))
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        let count = y.len().max(1) as f64;
        let mean = y.iter().sum::<f64>() / count;
        let variance = y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / count;
        if F::TARGET == TargetKind::Real {
            for parameter in &mut self.parameters {
                match parameter.role() {
                    Role::Noise => parameter.start(|_| 0.1 * variance),
                    Role::Scale => parameter.start(|_| (0.1 * variance).sqrt()),
                    _ => {}
                }
            }
        }
        let (p, some) = (self.constants(), y.len().div_ceil(STARTED).max(1));
        let row = |i: usize| Observation::exposed(y[i], exposure.get(i).copied().unwrap_or(1.0));
        climb(&mut |f| {
            let slopes = (0..y.len()).step_by(some).map(|i| self.curve(&p, row(i), f).derivatives.first);
            // The mean slope, so that the wide density matters only where the rows leave f open.
            slopes.sum::<f64>() * some as f64 / count - WIDE / count * f
        })
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.parameters.iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.parameters.iter_mut().for_each(visit);
    }
}

impl<F: DensityFormula> FormulaLikelihood<F> {
    /// Checks the formula around the best f of an observation.
    fn check_row(&self, at: Observation) -> Result<(), String> {
        let name = F::NAME;
        if matches!(F::TARGET, TargetKind::Ordinal | TargetKind::Class) {
            return Err(format!(
                "the formula of {name} is for {} targets, expected real, positive, unit interval, count or binary ones",
                F::TARGET
            ));
        }
        let f = self.working_response(at);
        let Real { value, derivatives: Second { first, second } } = self.curve(&self.constants(), at, f);
        let mut own = vec![0.0; self.values().len()];
        self.own_gradient(at, &[f], &[1.0], &mut own);
        let parts = [("value", value), ("slope", first), ("curvature", second)].into_iter();
        let names =
            self.parameters.iter().flat_map(|parameter| parameter.values.iter().map(|_| &*parameter.name));
        if let Some((part, number)) = parts.chain(names.zip(own)).find(|(_, number)| !number.is_finite()) {
            let part = if self.parameters.iter().any(|parameter| parameter.name == part) {
                format!("derivative in {part}")
            } else {
                part.to_owned()
            };
            return Err(format!(
                "the log density of {name} has the {part} {number} at y = {:.4} and f = {f:.4}, expected a finite number",
                at.y
            ));
        }
        let given = self.integrate(at, f);
        if (given.mass - 1.0).abs() > TOLERANCE {
            return Err(format!(
                "the density of {name} has the total {:.6} over all targets at f = {f:.4}, expected 1",
                given.mass
            ));
        }
        self.check_smooth(at, f)
    }

    /// Checks that expectations settle, and that the slope of `E log p` in v is half the expected curvature, which fails at kinks.
    fn check_smooth(&self, at: Observation, f: f64) -> Result<(), String> {
        let width = self.width(at);
        let mut integrator = Integrator::default();
        let row = Row::new(at, LatentMarginal::new(f + 0.3 * width, width * width));
        let local = self.expectation(Expectation::ExpectedLog, row, &mut [], &mut integrator);
        let (nodes, weights) = integrator.nested_nodes(row.marginal);
        let p = self.constants();
        let curvatures = nodes.iter().map(|&f| self.curve(&p, at, f).derivatives.second);
        let [mut bend, mut size] = [0.0; 2];
        for (curvature, weight) in curvatures.zip(&weights) {
            bend += 0.5 * weight * curvature;
            size += 0.5 * weight * curvature.abs();
        }
        let smooth = (local.variance - bend).abs() <= 1e-4 * (size + local.variance.abs());
        if smooth && nodes.len() <= MOST_NODES {
            return Ok(());
        }
        Err(format!(
            "the log density of {} has a kink in f or varies too quickly for quadrature near f = {f:.4} at y = {:.4}, expected a smooth function; write the likelihood with closed forms as a OneFunction",
            F::NAME,
            at.y
        ))
    }
}
