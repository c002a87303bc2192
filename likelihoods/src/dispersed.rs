//! Families whose second function drives a parameter that is constant in the family with one function: `p(y|f_1, f_2) = p(y|f_1; ψ(f_2))`.
//!
//! Given f_2, the family with one function provides everything, so an expectation over both functions is an expectation over f_2 of its
//! results. A family here adds its density with derivatives in both functions, and closed forms.

use super::{
    Expectation, LatentMarginal, LatentRow, Likelihood, LikelihoodKind, Local, Marginal, Observation,
    OneFunction, Row, Slopes,
};
use crate::quadrature::{Average, Integrator, Point};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;
use std::fmt::Debug;
use std::marker::PhantomData;

/// `log p(y|f_1, f_2)` with its derivatives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Density {
    /// The logarithm.
    pub(crate) value: f64,
    /// `∂/∂f_c`.
    pub(crate) first: [f64; 2],
    /// `∂²/∂f_c²`.
    pub(crate) second: [f64; 2],
    /// The derivative in the first own parameter, if there is one.
    pub(crate) own: f64,
}

/// The effect of the second function on a family with one function.
pub trait Driven: Copy + Debug + Send + Sync + 'static {
    /// The name and the targets of the family.
    const KIND: LikelihoodKind;
    /// The names of its functions.
    const FUNCTIONS: [&'static str; 2];
    /// The name of [`detail`](Self::detail).
    const DETAIL: &'static str;
    /// The relation of f_1 to f_2 and the function f of the family with one function: `f_1 = f − SHIFT·f_2`.
    const SHIFT: f64;
    /// The range of f_2 beyond which ψ no longer changes, because the family has reached a limit or
    /// floats their range.
    const RANGE: (f64, f64);
    /// The upper end of f_2 for averaged densities. Beyond it their logarithms are differences of
    /// large numbers and lose all digits, while the density is negligible except at a single rate
    /// or location.
    const HIGHEST: f64 = Self::RANGE.1;
    /// The exponent with which ψ is a power of `e^{f_2}`.
    const POWER: f64;

    /// The family with one function; ψ is its first own parameter.
    fn family() -> Box<dyn OneFunction>;

    /// The density; `own` is the own parameter besides ψ, or 0.
    fn density(at: Observation, f: [f64; 2], own: f64) -> Density;

    /// Returns `E log p` as `(value, ∂/∂μ_c, ∂/∂v_c)`, if it needs less work than an expectation of expectations.
    fn expected(row: Row, integrator: &mut Integrator) -> Option<(f64, [f64; 2], [f64; 2])> {
        let _ = (row, integrator);
        None
    }

    /// Returns `log E_{f_1} p(y|f_1, f_2)` with its derivatives in μ_1, v_1 and f_2, if it has a closed form.
    fn predictive_given(f1: LatentRow, f2: f64) -> Option<(Local, f64)> {
        let _ = (f1, f2);
        None
    }

    /// Mean and variance of y under the predictive distribution.
    fn moments(row: Row, own: f64, integrator: &mut Integrator) -> (f64, f64);

    /// Returns `P(Y ≤ y)` given f_2. `family` is the family with one function, with ψ set.
    fn cdf_given(family: &dyn OneFunction, f: LatentRow, psi: f64, integrator: &mut Integrator) -> f64 {
        let _ = psi;
        family.predictive_cdf(f, integrator)
    }

    /// Returns the additional value of a prediction that is not a moment of y.
    fn detail(marginal: Marginal<'_>, own: f64) -> f64;

    /// The supremum of `log p`, if there is one.
    fn peak(at: Observation) -> Option<f64> {
        let _ = at;
        None
    }

    /// The unit deviance of a count.
    fn unit_deviance(y: f64, mean: f64) -> f64 {
        let _ = (y, mean);
        f64::NAN
    }
}

/// A family with one function, its first own parameter driven by a second: see [`Driven`].
#[derive(Clone, Debug)]
pub struct Dispersed<D> {
    /// The family with one function; its ψ determines starting values.
    family: Box<dyn OneFunction>,
    driven: PhantomData<D>,
}

impl<D: Driven> Default for Dispersed<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: Driven> Dispersed<D> {
    /// Creates the family, with default values of its own parameters.
    pub fn new() -> Self {
        Dispersed { family: D::family(), driven: PhantomData }
    }

    /// The own parameter values of the family with one function, ψ first.
    fn values(&self) -> [f64; 2] {
        let mut values = [0.0; 2];
        let mut slots = values.iter_mut();
        self.family.for_each_parameter(&mut |parameter| {
            if let Some(slot) = slots.next() {
                *slot = parameter.values[0];
            }
        });
        values
    }

    fn densities(&self, at: Observation, f: &[f64]) -> impl Iterator<Item = Density> {
        let own = self.values()[1];
        f.as_chunks().0.iter().map(move |&f| D::density(at, f, own))
    }

    /// ψ and dψ/df_2.
    fn psi(f2: f64) -> (f64, f64) {
        let (low, high) = D::RANGE;
        let psi = (D::POWER * f2.clamp(low, high)).exp();
        (psi, if f2 > low && f2 < high { D::POWER * psi } else { 0.0 })
    }

    /// Returns the constant f_2 that corresponds to ψ of the family with one function.
    fn usual(&self) -> f64 {
        self.values()[0].ln() / D::POWER
    }

    /// `E log p` over both functions, or `log E p`, by quadrature over f_2.
    fn integrate(&self, of: Expectation, row: Row, wanted: bool, integrator: &mut Integrator) -> Average {
        let predictive = of == Expectation::LogPredictive;
        let f1 = row.of(0);
        let mut kept = integrator.kept::<Option<Box<dyn OneFunction>>>();
        let family = lent(&mut kept, &*self.family);
        let own = self.values();
        let mut given = |f2: f64, integrator: &mut Integrator| {
            if predictive && let Some((local, first)) = D::predictive_given(f1, f2) {
                return Point { value: local.value, first, rest: [local.mean, local.variance, 0.0] };
            }
            let (psi, slope) = Self::psi(if predictive { f2.min(D::HIGHEST) } else { f2 });
            set(family, [psi, own[1]]);
            let mut bar = [0.0; 2];
            let slots = if wanted { &mut bar[..family.own_len()] } else { &mut [] };
            let local = family.expectation(of, shifted::<D>(f1, f2), slots, integrator);
            let fixed = slope == 0.0 || predictive && f2 > D::HIGHEST;
            let first = if fixed { 0.0 } else { bar[0] * slope };
            let rest = [local.mean, local.variance, bar[1]];
            Point { value: local.value, first: first + D::SHIFT * local.mean, rest }
        };
        let average = integrator.nested_expectation(of, row.marginal.of(1), &mut given);
        integrator.keep(kept);
        average
    }
}

/// Returns a copy of the family that can be changed; it reuses the copy in `slot` if that is of the
/// same family.
fn lent<'a>(slot: &'a mut Option<Box<dyn OneFunction>>, family: &dyn OneFunction) -> &'a mut dyn OneFunction {
    if slot.as_ref().is_none_or(|copy| copy.name() != family.name()) {
        *slot = None;
    }
    slot.get_or_insert_with(|| family.boxed_clone()).as_mut()
}

fn set(family: &mut dyn OneFunction, values: [f64; 2]) {
    let mut values = values.into_iter();
    family.for_each_parameter_mut(&mut |parameter| {
        if let Some(value) = values.next() {
            parameter.values[0] = value;
        }
    });
}

/// Returns the row of the family with one function, given f_2.
fn shifted<D: Driven>(f1: LatentRow<'_>, f2: f64) -> LatentRow<'_> {
    let LatentMarginal { mean, variance } = f1.marginal;
    Row::new(f1.at, LatentMarginal::new(mean + D::SHIFT * f2, variance))
}

impl<D: Driven> Likelihood for Dispersed<D> {
    fn kind(&self) -> LikelihoodKind {
        D::KIND
    }

    fn function_names(&self) -> Vec<String> {
        D::FUNCTIONS.map(str::to_owned).to_vec()
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], slope: &mut [f64]) {
        let slopes = slope.as_chunks_mut().0;
        for ((density, value), slope) in self.densities(at, f).zip(value).zip(slopes) {
            (*value, *slope) = (density.value, density.first);
        }
    }

    fn curvature(&self, at: Observation, f: &[f64], out: &mut [f64]) {
        let out = out.as_chunks_mut().0;
        self.densities(at, f).zip(out).for_each(|(density, out)| *out = density.second);
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        if let Some(own) = own.first_mut() {
            self.densities(at, f).zip(weights).for_each(|(density, weight)| *own += weight * density.own);
        }
    }

    fn highest(&self, at: Observation) -> Option<f64> {
        D::peak(at)
    }

    fn expectation(&self, of: Expectation, row: Row, mut slopes: Slopes, integrator: &mut Integrator) -> f64 {
        let closed = if of == Expectation::ExpectedLog { D::expected(row, integrator) } else { None };
        if let Some((value, mean, variance)) = closed {
            slopes.set([(mean[0], variance[0]), (mean[1], variance[1])]);
            return value;
        }
        let average = self.integrate(of, row, slopes.wanted(), integrator);
        let [mean, variance, own] = average.rest;
        slopes.set([(mean, variance), (average.mean, average.variance)]);
        if let Some(slot) = slopes.own.first_mut() {
            *slot += own;
        }
        average.value
    }

    fn predictive_moments(&self, row: Row, integrator: &mut Integrator) -> (f64, f64) {
        D::moments(row, self.values()[1], integrator)
    }

    fn predictive_cdf(&self, row: Row, integrator: &mut Integrator) -> f64 {
        let mut kept = integrator.kept::<Option<Box<dyn OneFunction>>>();
        let family = lent(&mut kept, &*self.family);
        let own = self.values();
        let mut given = |f2: f64, integrator: &mut Integrator| {
            let (psi, _) = Self::psi(f2.min(D::HIGHEST));
            set(family, [psi, own[1]]);
            D::cdf_given(family, shifted::<D>(row.of(0), f2), psi, integrator)
        };
        let below = integrator.nested_average(row.marginal.of(1), &mut given).clamp(0.0, 1.0);
        integrator.keep(kept);
        below
    }

    fn details(&self) -> &'static [&'static str] {
        const { &[D::DETAIL] }
    }

    fn detail(&self, _: usize, row: Row, _: &mut Integrator) -> f64 {
        D::detail(row.marginal, self.values()[1])
    }

    fn sample(&self, at: Observation, f: &[f64], random: &mut ChaCha8Rng) -> f64 {
        let mut family = self.family.boxed_clone();
        set(&mut *family, [Self::psi(f[1]).0, self.values()[1]]);
        family.sample(at, f[0] + D::SHIFT * f[1], random)
    }

    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        D::unit_deviance(y, mean)
    }

    /// Returns the response of the family with one function, and the f_2 of its ψ.
    fn working_response(&self, at: Observation, out: &mut [f64]) {
        let f2 = self.usual();
        let f = self.family.working_response(at);
        out.iter_mut().zip([f - D::SHIFT * f2, f2]).for_each(|(out, value)| *out = value);
    }

    /// Starts as the family with one function does, and returns its mean and the f_2 of its ψ.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> Vec<f64> {
        let f = self.family.initialise(y, exposure);
        let f2 = self.usual();
        vec![f - D::SHIFT * f2, f2]
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        let mut first = true;
        self.family.for_each_parameter(&mut |parameter| {
            if !std::mem::take(&mut first) {
                visit(parameter);
            }
        });
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        let mut first = true;
        self.family.for_each_parameter_mut(&mut |parameter| {
            if !std::mem::take(&mut first) {
                visit(parameter);
            }
        });
    }
}
