//! Numbers and times with a location f and a scale, each known exactly or only to lie in an interval: normal, and log-normal, Weibull and
//! log-logistic times until an event.
//!
//! With `g(y) = f + s ε` for a standard variable ε, where g is the logarithm for times, `e = (g(y) − f)/s`, the density p, the distribution
//! function F and the survival function S = 1 − F of ε:
//!
//! - known exactly: `log p(e) − log s + log g′(y)`;
//! - between a and b: `log (F(e_b) − F(e_a))`, with `F(−∞) = 0` and `F(∞) = 1`: censored on the right from a on (b = ∞), on the left up to b
//!   (a = −∞), or in an interval (Kalbfleisch & Prentice 2002, section 3.2).
//!
//! With times this is the accelerated failure time model: f multiplies time by e^f. For the Weibull distribution it is also the model of
//! proportional hazards, with log hazard ratios −f/s.

use super::{
    LatentMarginal, LatentRow, LikelihoodKind, Local, Moments, Observation, OneFunction, own_parameters,
};
use crate::functions::normal;
use crate::quadrature::{Expectation, Integrator, Resolution};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparsegp_kernels::{Parameter, Transform};
use statrs::function::gamma::gamma;
use std::f64::consts::PI;
use std::fmt::Debug;
use std::marker::PhantomData;

/// The distribution of ε, with the largest density at 0.
pub trait Standard: Copy + Debug + Send + Sync + 'static {
    /// The family with this distribution.
    const KIND: LikelihoodKind;
    /// True for times, of which g is the logarithm.
    const IS_TIME: bool;
    /// True if ε is normal, so that averages over f have closed forms.
    const IS_NORMAL: bool = false;
    /// True if the cumulative hazard `−log S(e)` is e^e, which an average over f by quadrature would miss.
    const IS_EXTREME: bool = false;
    /// Strip and step of the [`Resolution`], in units of s.
    const RESOLUTION: (f64, f64);
    /// The mean of ε.
    const MEAN: f64;

    /// `log p(e)` and its first and second derivative.
    fn log_density(e: f64) -> [f64; 3];

    /// `log F(e)` and `log S(e)`, each to full relative accuracy.
    fn log_tails(e: f64) -> (f64, f64);

    /// The hazard `λ = p/S` and its derivative.
    fn hazard(e: f64) -> [f64; 2];

    /// The reversed hazard `p/F` and its derivative.
    fn reversed_hazard(e: f64) -> [f64; 2];

    /// A draw of ε.
    fn draw(random: &mut ChaCha8Rng) -> f64;

    /// `E e^{tε}`, infinite if it does not exist; of times only.
    fn exponential_moment(t: f64) -> f64;
}

/// Normal noise around f.
#[derive(Clone, Copy, Debug)]
pub struct NormalNumber;

/// Log-normal times.
#[derive(Clone, Copy, Debug)]
pub struct NormalTime;

/// Defines a normal distribution of ε.
macro_rules! normal {
    ($name:ident, $kind:ident, $is_time:literal) => {
        impl Standard for $name {
            const KIND: LikelihoodKind = LikelihoodKind::$kind;
            const IS_TIME: bool = $is_time;
            const IS_NORMAL: bool = true;
            // The zeros of Φ and of its differences nearest to the real line are at ±2.7i.
            const RESOLUTION: (f64, f64) = (2.7, 0.65);
            const MEAN: f64 = 0.0;

            fn log_density(e: f64) -> [f64; 3] {
                [normal::log_density(e, 0.0, 1.0), -e, -1.0]
            }

            fn log_tails(e: f64) -> (f64, f64) {
                (normal::log_cdf_at(e).0, normal::log_cdf_at(-e).0)
            }

            fn hazard(e: f64) -> [f64; 2] {
                let rate = normal::log_cdf_at(-e).1;
                [rate, rate * (rate - e)]
            }

            fn reversed_hazard(e: f64) -> [f64; 2] {
                let [rate, bend] = Self::hazard(-e);
                [rate, -bend]
            }

            fn draw(random: &mut ChaCha8Rng) -> f64 {
                StandardNormal.sample(random)
            }

            fn exponential_moment(t: f64) -> f64 {
                (0.5 * t * t).exp()
            }
        }
    };
}
normal!(NormalNumber, GaussianCensored, false);
normal!(NormalTime, LogNormal, true);

/// Log-logistic times: `F(e) = 1/(1 + e^{−e})`.
#[derive(Clone, Copy, Debug)]
pub struct LogisticTime;

impl Standard for LogisticTime {
    const KIND: LikelihoodKind = LikelihoodKind::LogLogistic;
    const IS_TIME: bool = true;
    // Poles at ±iπ.
    const RESOLUTION: (f64, f64) = (2.8, 0.5);
    const MEAN: f64 = 0.0;

    fn log_density(e: f64) -> [f64; 3] {
        let (below, above) = Self::log_tails(e);
        [below + above, above.exp() - below.exp(), -2.0 * (below + above).exp()]
    }

    fn log_tails(e: f64) -> (f64, f64) {
        let log = (-e.abs()).exp().ln_1p();
        (e.min(0.0) - log, -e.max(0.0) - log)
    }

    fn hazard(e: f64) -> [f64; 2] {
        let (below, above) = Self::log_tails(e);
        [below.exp(), (below + above).exp()]
    }

    fn reversed_hazard(e: f64) -> [f64; 2] {
        let [rate, bend] = Self::hazard(-e);
        [rate, -bend]
    }

    fn draw(random: &mut ChaCha8Rng) -> f64 {
        let u: f64 = random.random();
        (u / (1.0 - u)).ln()
    }

    fn exponential_moment(t: f64) -> f64 {
        if t < 1.0 { PI * t / (PI * t).sin() } else { f64::INFINITY }
    }
}

/// Weibull times: `S(e) = e^{−e^e}`.
#[derive(Clone, Copy, Debug)]
pub struct ExtremeTime;

impl Standard for ExtremeTime {
    const KIND: LikelihoodKind = LikelihoodKind::Weibull;
    const IS_TIME: bool = true;
    const IS_EXTREME: bool = true;
    // The zeros of F and of its differences have imaginary parts of ±π/2.
    const RESOLUTION: (f64, f64) = (1.5, 0.28);
    // Minus Euler's constant.
    const MEAN: f64 = -0.577_215_664_901_532_9;

    fn log_density(e: f64) -> [f64; 3] {
        let hazard = e.exp();
        [e - hazard, 1.0 - hazard, -hazard]
    }

    fn log_tails(e: f64) -> (f64, f64) {
        let hazard = e.exp();
        // e^e underflows where F is e^e to the last digit.
        (if e < -40.0 { e } else { (-(-hazard).exp_m1()).ln() }, -hazard)
    }

    fn hazard(e: f64) -> [f64; 2] {
        [e.exp(); 2]
    }

    /// `r = h/(e^h − 1)` with `h = e^e`, and `r (1 − r − h)`.
    fn reversed_hazard(e: f64) -> [f64; 2] {
        let h = e.exp();
        let rate = if h < 1e-300 { 1.0 } else { h / h.exp_m1() };
        [rate, if rate == 0.0 { 0.0 } else { rate * (1.0 - rate - h) }]
    }

    fn draw(random: &mut ChaCha8Rng) -> f64 {
        let u: f64 = random.random();
        (-(-u).ln_1p()).ln()
    }

    fn exponential_moment(t: f64) -> f64 {
        gamma(1.0 + t)
    }
}

/// `g(y) = f + s ε` with the scale s as its only parameter, for targets that are known or [in an interval](Observation::other_end).
#[derive(Clone, Debug)]
pub struct LocationScale<D> {
    scale: Parameter,
    of: PhantomData<D>,
}

/// Normal noise around f, for numbers of which some are censored.
pub type CensoredGaussian = LocationScale<NormalNumber>;

/// Times whose logarithm is f plus normal noise.
pub type LogNormal = LocationScale<NormalTime>;

/// Times with survival function `1/(1 + (t/e^f)^{1/s})`.
pub type LogLogistic = LocationScale<LogisticTime>;

/// Times with survival function `exp(−(t/e^f)^{1/s})`: the shape is 1/s.
pub type Weibull = LocationScale<ExtremeTime>;

/// What is known of g(y).
#[derive(Clone, Copy, PartialEq)]
enum Known {
    Exactly(f64),
    Between(f64, f64),
}

/// `log p` of an observation with its derivatives: the first two in f, and the first in the scale.
#[derive(Clone, Copy)]
struct Terms {
    value: f64,
    first: f64,
    second: f64,
    by_scale: f64,
}

impl<D: Standard> LocationScale<D> {
    /// The floor under the scale during training. Without it the density could grow without bound if many targets are equal.
    pub const SCALE_FLOOR: f64 = 1e-3;

    /// Creates the likelihood with a scale, which must be positive. Training keeps it above [`Self::SCALE_FLOOR`] if it starts there.
    pub fn new(scale: f64) -> Self {
        let lower = if scale > Self::SCALE_FLOOR { Self::SCALE_FLOOR } else { 0.0 };
        let scale = Parameter::new("scale", vec![scale], Transform::Positive { lower });
        LocationScale { scale: scale.as_given(), of: PhantomData }
    }

    fn scale(&self) -> f64 {
        self.scale.values[0]
    }

    /// g(y).
    fn mapped(y: f64) -> f64 {
        match D::IS_TIME {
            true if y <= 0.0 => f64::NEG_INFINITY,
            true => y.ln(),
            false => y,
        }
    }

    /// The inverse of g.
    fn number(g: f64) -> f64 {
        if D::IS_TIME { g.exp() } else { g }
    }

    fn known(at: Observation) -> Known {
        let own = Self::mapped(at.y);
        if at.other_end.is_nan() || at.other_end == at.y {
            return Known::Exactly(own);
        }
        let other = Self::mapped(at.other_end);
        Known::Between(own.min(other), own.max(other))
    }

    /// The terms of an observation at f, for a scale that may be wider than that of the likelihood.
    fn terms(at: Observation, f: f64, scale: f64) -> Terms {
        match Self::known(at) {
            Known::Exactly(g) => {
                let e = (g - f) / scale;
                let [log, slope, curvature] = D::log_density(e);
                let unit = scale.ln() + if D::IS_TIME { g } else { 0.0 };
                Terms {
                    value: log - unit,
                    first: -slope / scale,
                    second: curvature / (scale * scale),
                    by_scale: -(slope * e + 1.0) / scale,
                }
            }
            Known::Between(low, high) => Self::terms_between((low - f) / scale, (high - f) / scale, scale),
        }
    }

    /// The terms of an interval of ε, from the side where its tails are small.
    fn terms_between(low: f64, high: f64, scale: f64) -> Terms {
        let [value, first, second, moment] = if low > 0.0 || high == f64::INFINITY {
            of_ends((low, high), |e| D::log_tails(e).1, D::hazard)
        } else {
            // The same for −ε.
            let hazard = |e: f64| {
                let [rate, bend] = D::reversed_hazard(-e);
                [rate, -bend]
            };
            let [value, first, second, moment] = of_ends((-high, -low), |e| D::log_tails(-e).0, hazard);
            [value, -first, second, moment]
        };
        Terms {
            value,
            first: -first / scale,
            second: second.min(0.0) / (scale * scale),
            by_scale: -moment / scale,
        }
    }

    /// `log E p` of a normal ε: f and ε together are normal with variance `v + s²`.
    fn widened(&self, row: LatentRow, own: &mut [f64]) -> Local {
        let LatentMarginal { mean, variance } = row.marginal;
        let spread = self.scale().hypot(variance.max(0.0).sqrt());
        let terms = Self::terms(row.at, mean, spread);
        if let Some(slot) = own.first_mut() {
            *slot += terms.by_scale * self.scale() / spread;
        }
        Local { value: terms.value, mean: terms.first, variance: 0.5 * terms.by_scale / spread }
    }
}

/// Returns `ℓ = log (S(a) − S(b))`, its first and second derivative as both ends move, and `Σ e ∂ℓ/∂e` over the ends. With
/// `d = log S(a) − log S(b)` and the hazard λ: `ℓ = log S(a) + log (1 − e^{−d})` and `ℓ′ = −λ(a) + d′/(e^d − 1)`.
fn of_ends(
    (low, high): (f64, f64),
    log_survival: impl Fn(f64) -> f64,
    hazard: impl Fn(f64) -> [f64; 2],
) -> [f64; 4] {
    if low == f64::NEG_INFINITY {
        // Everything.
        return [0.0; 4];
    }
    let (above, [rate, bend]) = (log_survival(low), hazard(low));
    let d = above - log_survival(high);
    // This is 0 where the hazard at the upper end may be infinite.
    let share = 1.0 / d.exp_m1();
    if share == 0.0 {
        return [above, -rate, -bend, -low * rate];
    }
    let [upper, upper_bend] = hazard(high);
    let (moved, change) = (upper - rate, (upper - rate) * share);
    let second = (upper_bend - bend) * share - change * (change + moved) - bend;
    [above + (-(-d).exp_m1()).ln(), change - rate, second, (high * upper - low * rate) * share - low * rate]
}

impl<D: Standard> OneFunction for LocationScale<D> {
    own_parameters!(scale);

    fn kind(&self) -> LikelihoodKind {
        D::KIND
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            let terms = Self::terms(at, *f, self.scale());
            (*value, *first) = (terms.value, terms.first);
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        Self::terms(at, f, self.scale()).second
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let term = |(f, w): (&f64, &f64)| w * Self::terms(at, *f, self.scale()).by_scale;
        own[0] += f.iter().zip(weights).map(term).sum::<f64>();
    }

    fn resolution(&self, _: Observation) -> Resolution {
        let (strip, step) = D::RESOLUTION;
        Resolution { strip: strip * self.scale(), step: step * self.scale(), concave: true, pole: None }
    }

    /// Returns g(y), or forty scales beyond a censored y. For an interval of a symmetric distribution it is the middle; for one of width w
    /// scales of the extreme value distribution the hazard at its lower end is `w/(e^w − 1)` there.
    fn peak(&self, at: Observation) -> f64 {
        match Self::known(at) {
            Known::Exactly(g) => g,
            Known::Between(low, f64::INFINITY) => low + 40.0 * self.scale(),
            Known::Between(f64::NEG_INFINITY, high) => high - 40.0 * self.scale(),
            Known::Between(low, high) if D::IS_EXTREME => {
                let width = (high - low) / self.scale();
                low - self.scale() * (width / width.exp_m1()).ln()
            }
            Known::Between(low, high) => 0.5 * (low + high),
        }
    }

    /// Returns the f whose mean of g(y) is known, or one scale beyond a censored y.
    fn working_response(&self, at: Observation) -> f64 {
        let of_mean = |g: f64| g - D::MEAN * self.scale();
        match Self::known(at) {
            Known::Exactly(g) => of_mean(g),
            Known::Between(low, f64::INFINITY) => low + self.scale(),
            Known::Between(f64::NEG_INFINITY, high) => high - self.scale(),
            Known::Between(low, high) => of_mean(0.5 * (low + high)),
        }
    }

    fn expected_log(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        let (known, scale) = (Self::known(row.at), self.scale());
        let by_scale;
        let local = match known {
            Known::Exactly(_) if D::IS_NORMAL => {
                let LatentMarginal { mean, variance } = row.marginal;
                let (terms, precision) = (Self::terms(row.at, mean, scale), 1.0 / (scale * scale));
                by_scale = terms.by_scale + variance * precision / scale;
                let value = terms.value - 0.5 * variance * precision;
                Local { value, mean: terms.first, variance: -0.5 * precision }
            }
            // log p = e − e^e − log s − log y.
            Known::Exactly(g) if D::IS_EXTREME => {
                let (hazard, hazard_by_scale) = expected_hazard(g, scale, row.marginal);
                let e = (g - row.marginal.mean) / scale;
                by_scale = -(e + 1.0) / scale - hazard_by_scale;
                let value = e - hazard.value - scale.ln() - g;
                Local { value, mean: -1.0 / scale - hazard.mean, variance: -hazard.variance }
            }
            // log p = −e^{e_a} + log (1 − e^{−(e^{e_b} − e^{e_a})}), whose second term is bounded by f.
            Known::Between(low, high) if D::IS_EXTREME && low.is_finite() => {
                let (hazard, hazard_by_scale) = expected_hazard(low, scale, row.marginal);
                let (rest, rest_by_scale) = expected_share((low, high), scale, row.marginal, integrator);
                by_scale = rest_by_scale - hazard_by_scale;
                Local {
                    value: rest.value - hazard.value,
                    mean: rest.mean - hazard.mean,
                    variance: rest.variance - hazard.variance,
                }
            }
            _ => return integrator.expectation(Expectation::ExpectedLog, self, row, own),
        };
        if let Some(slot) = own.first_mut() {
            *slot += by_scale;
        }
        local
    }

    fn log_predictive(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        match D::IS_NORMAL {
            true => self.widened(row, own),
            false => integrator.expectation(Expectation::LogPredictive, self, row, own),
        }
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        moments::<D>(self.scale(), LatentRow::new(at, LatentMarginal { mean: f, variance: 0.0 }))
    }

    fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
        moments::<D>(self.scale(), row)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        D::log_tails((Self::mapped(at.y) - f) / self.scale()).0.exp()
    }

    fn predictive_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let LatentMarginal { mean, variance } = row.marginal;
        if D::IS_NORMAL {
            let spread = self.scale().hypot(variance.max(0.0).sqrt());
            return normal::cdf((Self::mapped(row.at.y) - mean) / spread);
        }
        let mut given = |f: f64| self.conditional_cdf(row.at, f);
        integrator.average(mean, variance, self.cdf_strip(row.at), &mut given).clamp(0.0, 1.0)
    }

    fn predictive_quantile(&self, p: f64, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let LatentMarginal { mean, variance } = row.marginal;
        if D::IS_NORMAL {
            let spread = self.scale().hypot(variance.max(0.0).sqrt());
            return Self::number(mean + spread * normal::quantile(p));
        }
        let mut cdf = |y| self.predictive_cdf(row.with(y), integrator);
        crate::quantile::search(D::KIND.target_kind(), p, 2, &mut cdf)
    }

    fn sample(&self, _: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let y = Self::number(f + self.scale() * D::draw(random));
        // An underflowed time is the smallest positive number.
        if D::IS_TIME { y.max(f64::MIN_POSITIVE) } else { y }
    }

    /// Starts with a tenth of the variance of g(y), with censored targets as if they were known.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let moments = Moments::of(y.iter().map(|&y| Self::mapped(y)).filter(|g| g.is_finite()));
        let spread = moments.variance().unwrap_or(0.0).sqrt();
        self.scale.start(|_| 0.1f64.sqrt() * if spread > 0.0 { spread } else { 1.0 });
        moments.mean().unwrap_or(0.0) - D::MEAN * self.scale()
    }
}

/// `E e^e` for `e = (g − f)/s`, which is log-normal, with its derivatives; the last is that in s.
fn expected_hazard(g: f64, scale: f64, LatentMarginal { mean, variance }: LatentMarginal) -> (Local, f64) {
    let (e, spread) = ((g - mean) / scale, variance / (scale * scale));
    let value = (e + 0.5 * spread).exp();
    let local = Local { value, mean: -value / scale, variance: 0.5 * value / (scale * scale) };
    (local, -value * (e + spread) / scale)
}

/// `E log (1 − e^{−h})` for the hazard `h = e^{e_b} − e^{e_a}` of an interval, with its derivatives; the last is that in s. Without an upper
/// end it is 0.
fn expected_share(
    (low, high): (f64, f64),
    scale: f64,
    LatentMarginal { mean, variance }: LatentMarginal,
    integrator: &mut Integrator,
) -> (Local, f64) {
    if high == f64::INFINITY {
        return (Local::default(), 0.0);
    }
    let ends = |f: f64| ((low - f) / scale, (high - f) / scale);
    // h, and the derivative of log (1 − e^{−h}) in log h, which is between 0 and 1.
    let terms = |f: f64| {
        let (a, b) = ends(f);
        let h = b.exp() * -(a - b).exp_m1();
        let log = if h < 1e-300 { b + (-(a - b).exp_m1()).ln() } else { (-(-h).exp_m1()).ln() };
        (log, if h < 1e-300 { 1.0 } else { h / h.exp_m1() }, h)
    };
    let strip = ExtremeTime::RESOLUTION.0 * scale;
    let mut average = |g: &mut dyn FnMut(f64) -> f64| integrator.average(mean, variance, strip, g);
    let local = Local {
        value: average(&mut |f| terms(f).0),
        // ∂ log h/∂f = −1/s.
        mean: -average(&mut |f| terms(f).1) / scale,
        // ½ E ∂²/∂f²: with r = h/(e^h − 1), dr/d log h = r (1 − r − h).
        variance: 0.5 * average(&mut |f| slope_of_share(terms(f))) / (scale * scale),
    };
    // ∂ log h/∂s = −(b e^b − a e^a)/(s h) = −(b + (b − a)/(e^{b − a} − 1))/s.
    let by_scale = average(&mut |f| {
        let (a, b) = ends(f);
        -terms(f).1 * (b + (b - a) / (b - a).exp_m1()) / scale
    });
    (local, by_scale)
}

/// `d r/d log h` of `r = h/(e^h − 1)`.
fn slope_of_share((_, r, h): (f64, f64, f64)) -> f64 {
    if r == 0.0 { 0.0 } else { r * (1.0 - r - h) }
}

/// Mean and variance of y. For times, `E y^k = E e^{kf} E e^{ksε}`, e^f log-normal.
fn moments<D: Standard>(scale: f64, row: LatentRow) -> (f64, f64) {
    let LatentMarginal { mean, variance } = row.marginal;
    if !D::IS_TIME {
        return (mean, variance + scale * scale);
    }
    let (first, second) = (D::exponential_moment(scale), D::exponential_moment(2.0 * scale));
    let log_mean = mean + 0.5 * variance + first.ln();
    if second == f64::INFINITY {
        return (log_mean.exp(), second);
    }
    // Var y = (E y)² (e^r − 1), r = v + log (E e^{2sε}/(E e^{sε})²); both factors may overflow or underflow.
    let r = variance + second.ln() - 2.0 * first.ln();
    (log_mean.exp(), (2.0 * log_mean + r + (-(-r).exp_m1()).ln()).exp())
}
