//! Amounts that may be exactly 0: a Tweedie distribution of mean μ = e^f and variance φ μ^p with 1 < p < 2, the sum of a Poisson number of
//! gamma distributed amounts (Dunn & Smyth 2005, <https://doi.org/10.1007/s11222-005-4070-y>).
//!
//! The number of amounts has the rate `λ = μ^{2−p}/(φ (2 − p))`; each has the shape `q = (2 − p)/(p − 1)` and the scale `φ (p − 1) μ^{p−1}`.
//! With `r = f − log y` and `z = y^{2−p}/φ`, the log density of a positive y is
//! `C − z ((e^{(2−p) r} − 1)/(2 − p) + (e^{−(p−1) r} − 1)/(p − 1))`, where C does not depend on f, and that of 0 is `−λ`.

use super::poisson::{poisson_draw, strip_of_width};
use super::sums::{LogRate, log_normal};
use super::{
    Expectation, LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction, own_parameters,
};
use crate::functions::gamma::{HALF_LN_2PI, gamma_cdf};
use crate::functions::normal;
use crate::quadrature::{Integrator, Resolution};
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use sparsegp_kernels::{Parameter, Transform};
use statrs::function::gamma::{digamma, ln_gamma};

/// The range of the power p. Next to 1 the density has a peak at every multiple of one amount, and next to 2 it has a pole at 0.
const POWERS: (f64, f64) = (1.01, 1.99);

/// The z above which C follows from the saddlepoint instead of a series: the error of the last term is below 1e-9.
const SADDLEPOINT: f64 = 300.0;

/// Terms of a series are left out if they are below `e^{−DROP}` times the largest term.
const DROP: f64 = 37.0;

/// The largest `μ^{2−p}/φ` for which `P(Y ≤ y)` is a sum over numbers of amounts.
const MOST_SUMMED: f64 = 500.0;

/// A Tweedie distribution of mean `e^f`; the own parameters are the power p, from 1.01 to 1.99, and the dispersion φ.
///
/// The detail `probability_of_zero` is `E e^{−λ}`.
#[derive(Clone, Debug)]
pub struct Tweedie {
    power: Parameter,
    dispersion: Parameter,
    /// True if the log density leaves C out, which takes most of the work.
    relative: bool,
}

impl Tweedie {
    /// Creates the likelihood with the power p, between 1.01 and 1.99, and the dispersion φ, which must be positive.
    pub fn new(power: f64, dispersion: f64) -> Self {
        let (lower, upper) = POWERS;
        let power = Parameter::new("power", vec![power], Transform::Bounded { lower, upper });
        let dispersion = Parameter::positive("dispersion", vec![dispersion]);
        Tweedie { power: power.as_given(), dispersion: dispersion.as_given(), relative: false }
    }

    fn amounts(&self) -> Compound {
        Compound { p: self.power.values[0], phi: self.dispersion.values[0] }
    }

    /// Returns the terms of a row; the derivatives of C only if `wanted`.
    fn terms(&self, at: Observation, wanted: bool) -> TweedieTerms {
        let compound = self.amounts();
        let constant = if self.relative { Constant::default() } else { compound.constant(at.y, wanted) };
        let positive = at.y > 0.0;
        let log_y = if positive { at.y.ln() } else { 0.0 };
        let z = ((2.0 - compound.p) * log_y).exp() / compound.phi;
        TweedieTerms { compound, constant, log_y, z, positive: f64::from(u8::from(positive)) }
    }
}

/// The power and the dispersion.
#[derive(Clone, Copy)]
struct Compound {
    p: f64,
    phi: f64,
}

/// C with its derivatives.
#[derive(Clone, Copy, Default)]
struct Constant {
    value: f64,
    power: f64,
    dispersion: f64,
}

impl Compound {
    /// The shape of one amount.
    fn shape(self) -> f64 {
        (2.0 - self.p) / (self.p - 1.0)
    }

    /// `log λ`.
    fn log_rate(self, f: f64) -> f64 {
        (2.0 - self.p) * f - self.phi.ln() - (2.0 - self.p).ln()
    }

    /// The logarithm of the scale of one amount.
    fn log_scale(self, f: f64) -> f64 {
        (self.p - 1.0) * f + self.phi.ln() + (self.p - 1.0).ln()
    }

    fn constant(self, y: f64, wanted: bool) -> Constant {
        let Compound { p, phi } = self;
        if y <= 0.0 {
            // −λ = −(1/φ) (e^{(2−p) f} − 1)/(2 − p) + C.
            let value = -1.0 / (phi * (2.0 - p));
            return Constant { value, power: value / (2.0 - p), dispersion: -value / phi };
        }
        let log_y = y.ln();
        let z = ((2.0 - p) * log_y).exp() / phi;
        if z > SADDLEPOINT { self.saddlepoint(log_y, z) } else { self.series(log_y, z, wanted) }
    }

    /// `−½ log(2π φ y^p) + c_1/z + c_2/z²`, with the skewness and the kurtosis in `c_1 = p (p − 3)/24`, and
    /// `c_2 = −u (2 + u)/48` for `u = (p − 1)(2 − p)`.
    fn saddlepoint(self, log_y: f64, z: f64) -> Constant {
        let Compound { p, phi } = self;
        let (u, u_slope) = ((p - 1.0) * (2.0 - p), 3.0 - 2.0 * p);
        let (first, second) = (p * (p - 3.0) / 24.0 / z, -u * (2.0 + u) / 48.0 / (z * z));
        let slopes = (-u_slope / 24.0) / z - (1.0 + u) * u_slope / 24.0 / (z * z);
        Constant {
            value: -HALF_LN_2PI - 0.5 * (phi.ln() + p * log_y) + first + second,
            power: -0.5 * log_y + slopes + log_y * (first + 2.0 * second),
            dispersion: (-0.5 + first + 2.0 * second) / phi,
        }
    }

    /// `log(Σ_j W_j/y) − z/u` with `log W_j = j b − log j! − log Γ(j q)`, over the j around the largest term.
    fn series(self, log_y: f64, z: f64, wanted: bool) -> Constant {
        let Compound { p, phi } = self;
        let (q, u, u_slope) = (self.shape(), (p - 1.0) * (2.0 - p), 3.0 - 2.0 * p);
        let log_unit = log_y - (p - 1.0).ln() - phi.ln();
        let base = q * log_unit - phi.ln() - (2.0 - p).ln();
        let log_term = |j: f64| j * base - ln_gamma(j + 1.0) - ln_gamma(j * q);
        let middle = (z / (2.0 - p)).round().max(1.0);
        let top = log_term(middle);
        // The sum of the terms relative to the one in the middle, and of their products with j and with j ψ(j q).
        let mut sums = [0.0; 3];
        let mut add = |j: f64| {
            let log = log_term(j) - top;
            let term = log.exp();
            sums[0] += term;
            sums[1] += term * j;
            sums[2] += if wanted { term * j * digamma(j * q) } else { 0.0 };
            log > -DROP
        };
        let mut j = middle;
        while add(j) {
            j += 1.0;
        }
        j = middle - 1.0;
        while j >= 1.0 && add(j) {
            j -= 1.0;
        }
        let (count, logs) = (sums[1] / sums[0], sums[2] / sums[0]);
        let q_slope = -1.0 / (p - 1.0).powi(2);
        let power = q_slope * (count * log_unit - logs) + count * (1.0 / (2.0 - p) - q / (p - 1.0));
        Constant {
            value: top + sums[0].ln() - log_y - z / u,
            power: power + z / u * (log_y + u_slope / u),
            dispersion: (z / u - (1.0 + q) * count) / phi,
        }
    }

    /// `P(Y ≤ y | f)`.
    fn cdf(self, y: f64, f: f64) -> f64 {
        if y.is_nan() || f.is_nan() {
            return f64::NAN;
        }
        let rate = self.log_rate(f).exp();
        match y {
            y if y < 0.0 => 0.0,
            0.0 => (-rate).exp(),
            // The rate has underflowed.
            _ if rate == 0.0 => 1.0,
            y if rate * (2.0 - self.p) > MOST_SUMMED => self.saddlepoint_cdf(y.ln(), f),
            y => self.summed_cdf(rate, (y.ln() - self.log_scale(f)).exp()),
        }
    }

    /// The sum over the numbers of amounts, given λ and y in units of their scale.
    fn summed_cdf(self, rate: f64, x: f64) -> f64 {
        let q = self.shape();
        let farthest = x + 10.0 * x.sqrt() + 40.0;
        let (log_rate, middle) = (rate.ln(), rate.floor());
        let weight = |j: f64| (j * log_rate - rate - ln_gamma(j + 1.0)).exp();
        let below = |j: f64| if j == 0.0 { 1.0 } else { gamma_cdf(j * q, x) };
        let mut total = 0.0;
        let (mut j, mut w) = (middle, weight(middle));
        while w > 1e-16 && j * q < farthest {
            total += w * below(j);
            j += 1.0;
            w *= rate / j;
        }
        (j, w) = (middle, weight(middle));
        while j > 0.0 && w > 1e-17 {
            w *= j / rate;
            j -= 1.0;
            total += if j * q < farthest { w * below(j) } else { 0.0 };
        }
        total.clamp(0.0, 1.0)
    }

    /// `Φ(r + log(u/r)/r)` with the root r of the deviance and the Wald statistic u (Barndorff-Nielsen 1990), whose error falls like
    /// `z^{−3/2}`: it is below 1e-6.
    fn saddlepoint_cdf(self, log_y: f64, f: f64) -> f64 {
        let Compound { p, phi } = self;
        let (r, z) = (f - log_y, ((2.0 - p) * log_y).exp() / phi);
        let half = ((2.0 - p) * r).exp_m1() / (2.0 - p) + (-(p - 1.0) * r).exp_m1() / (p - 1.0);
        let root = (2.0 * z * half.max(0.0)).sqrt().copysign(-r);
        let wald = z.sqrt() * (-(p - 1.0) * r).exp_m1() / (p - 1.0);
        if !(root.is_finite() && wald.is_finite()) || root.abs() > 40.0 {
            return if r > 0.0 { 0.0 } else { 1.0 };
        }
        // Near the mean the ratio is a difference of nearly equal numbers; its limit is a sixth of the skewness.
        let shift = if root.abs() < 1e-3 { p / (6.0 * z.sqrt()) } else { (wald / root).ln() / root };
        normal::cdf(root + shift)
    }
}

/// The log density of a row, `C − z (E_2 + E_1)`, with `E_2 = (e^{(2−p) r} − 1)/(2 − p)` and, unless y = 0, `E_1 = (e^{−(p−1) r} − 1)/(p − 1)`.
#[derive(Clone, Copy)]
struct TweedieTerms {
    compound: Compound,
    constant: Constant,
    /// log y, or 0 for y = 0.
    log_y: f64,
    z: f64,
    /// 1, or 0 for y = 0.
    positive: f64,
}

/// The averages of `e^{c r}`, minus 1, and of `r e^{c r}`.
#[derive(Clone, Copy)]
struct Growth {
    less_1: f64,
    first: f64,
}

impl TweedieTerms {
    /// The averages for the two exponents under `N(f; μ, v)`; v = 0 gives the values at μ.
    fn growths(&self, LatentMarginal { mean, variance: v }: LatentMarginal) -> [Growth; 2] {
        let r = mean - self.log_y;
        let p = self.compound.p;
        [2.0 - p, 1.0 - p].map(|c| {
            let log = c * r + 0.5 * c * c * v;
            Growth { less_1: log.exp_m1(), first: (r + c * v) * log.exp() }
        })
    }

    /// Returns `z E_2` and `z E_1`.
    fn parts(&self, [up, down]: [Growth; 2]) -> [f64; 2] {
        let p = self.compound.p;
        let lower = if self.positive == 0.0 { 0.0 } else { self.z * down.less_1 / (p - 1.0) };
        [self.z * up.less_1 / (2.0 - p), lower]
    }

    /// The value with its derivatives in the mean, and in the variance (half the curvature).
    fn local(&self, growths: [Growth; 2]) -> Local {
        let p = self.compound.p;
        let [up, down] = self.parts(growths);
        let [high, low] = growths.map(|growth| self.z * (growth.less_1 + 1.0));
        let low = if self.positive == 0.0 { 0.0 } else { low };
        Local {
            value: self.constant.value - up - down,
            // Both may have overflowed.
            mean: if low == high { 0.0 } else { low - high },
            variance: -0.5 * ((2.0 - p) * high + (p - 1.0) * low),
        }
    }

    /// Adds the derivatives in the power and the dispersion.
    fn add_own(&self, growths: [Growth; 2], weight: f64, own: &mut [f64]) {
        let [power, dispersion] = own else { return };
        let Compound { p, phi } = self.compound;
        let [up, down] = self.parts(growths);
        let mut slope = self.constant.power + self.log_y * (up + down);
        slope -= (up - self.z * growths[0].first) / (2.0 - p);
        if self.positive != 0.0 {
            slope += (down + self.z * growths[1].first) / (p - 1.0);
        }
        *power += weight * slope;
        *dispersion += weight * (self.constant.dispersion + (up + down) / phi);
    }
}

impl OneFunction for Tweedie {
    own_parameters!(power, dispersion);

    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::Tweedie
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let terms = self.terms(at, false);
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            let local = terms.local(terms.growths(LatentMarginal::new(*f, 0.0)));
            (*value, *first) = (local.value, local.mean);
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        let relative = Tweedie { relative: true, ..self.clone() };
        let terms = relative.terms(at, false);
        2.0 * terms.local(terms.growths(LatentMarginal::new(f, 0.0))).variance
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let terms = self.terms(at, true);
        for (f, weight) in f.iter().zip(weights) {
            terms.add_own(terms.growths(LatentMarginal::new(*f, 0.0)), *weight, own);
        }
    }

    /// Both exponentials grow more slowly than e^f.
    fn resolution(&self, _: Observation) -> Resolution {
        LogRate::RESOLUTION
    }

    /// Returns log y, and for 0 a point where λ is negligible.
    fn peak(&self, at: Observation) -> f64 {
        let Compound { p, phi } = self.amounts();
        if at.y > 0.0 { at.y.ln() } else { (phi.ln() - 40.0) / (2.0 - p) }
    }

    /// Returns log y, but not less than the f of 0, for which λ is ½.
    fn working_response(&self, at: Observation) -> f64 {
        let Compound { p, phi } = self.amounts();
        at.y.ln().max((0.5 * phi * (2.0 - p)).ln() / (2.0 - p))
    }

    fn expected_log(&self, row: LatentRow, own: &mut [f64], _: &mut Integrator) -> Local {
        let terms = self.terms(row.at, !own.is_empty());
        let growths = terms.growths(row.marginal);
        terms.add_own(growths, 1.0, own);
        terms.local(growths)
    }

    /// C is added once, instead of at every point of the search for the peak.
    fn log_predictive(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        let constant = self.terms(row.at, !own.is_empty()).constant;
        let relative = Tweedie { relative: true, ..self.clone() };
        let local = integrator.expectation(Expectation::LogPredictive, &relative, row, own);
        if let [power, dispersion] = own {
            *power += constant.power;
            *dispersion += constant.dispersion;
        }
        Local { value: local.value + constant.value, ..local }
    }

    fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
        let Compound { p, phi } = self.amounts();
        (f.exp(), phi * (p * f).exp())
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        self.amounts().cdf(at.y, f)
    }

    /// The standard deviation of log y is about `z^{−½}`.
    fn cdf_strip(&self, at: Observation) -> f64 {
        let Compound { p, phi } = self.amounts();
        strip_of_width((phi * (at.y.max(0.0)).powf(p - 2.0)).sqrt())
    }

    fn sample(&self, _: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let compound = self.amounts();
        let number = poisson_draw(compound.log_rate(f).exp(), random);
        if number == 0.0 || number.is_nan() {
            return number;
        }
        let unit = rand_distr::Gamma::new(number * compound.shape(), 1.0);
        let unit = unit.map_or(f64::INFINITY, |d| d.sample(random));
        (unit.ln() + compound.log_scale(f)).exp().max(f64::MIN_POSITIVE)
    }

    /// `Var y = φ E μ^p + Var μ`.
    fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
        let Compound { p, phi } = self.amounts();
        let LatentMarginal { mean: mu, variance: v } = row.marginal;
        let (mean, _, variance) = log_normal(row.marginal);
        (mean, phi * (p * (mu + 0.5 * p * v)).exp() + variance)
    }

    fn details(&self) -> &'static [&'static str] {
        &["probability_of_zero"]
    }

    fn detail(&self, _: usize, row: LatentRow, integrator: &mut Integrator) -> f64 {
        self.predictive_cdf(row.with(0.0), integrator)
    }

    /// Chooses φ such that half of the variance of the targets is left to f.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let n = y.len() as f64;
        let mean = y.iter().sum::<f64>() / n;
        let mean = if mean.is_finite() && mean > 0.0 { mean } else { 1.0 };
        let variance = y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n;
        let dispersion = 0.5 * variance / mean.powf(self.power.values[0]);
        self.dispersion.start(|_| if dispersion > 0.0 { dispersion } else { 1.0 });
        mean.ln()
    }
}
