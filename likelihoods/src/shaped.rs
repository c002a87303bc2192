//! Positive targets, proportions and counts whose second function is the logarithm of a shape, a precision or a dispersion.

use super::bernoulli::logistic;
use super::dispersed::{Density, Dispersed, Driven};
use super::poisson::{log_ratio, poisson_deviance};
use super::sums::log_normal;
use super::threshold::Threshold;
use super::{
    BetaLogit, Expectation, Gamma, LatentMarginal, LatentRow, LikelihoodKind, Marginal, NegativeBinomial,
    Observation, OneFunction, Row,
};
use crate::functions::gamma::{ln_gamma_1p, ln_rising, rising_curvature, stirling_excess, trigamma_1p};
use crate::functions::normal;
use crate::quadrature::{Integrator, Point};
use pulp::Scalar;
use statrs::function::gamma::ln_gamma;

/// Counts with a varying dispersion.
#[derive(Clone, Copy, Debug)]
pub struct Dispersion;

/// Counts of mean `m = e·e^{f_1}`, e the exposure, and variance `m + α m²` with `α = e^{f_2}`: with r = 1/α,
/// `log p = log Γ(y + r) − log Γ(r) − log y! − r log(1 + αm) + y log(αm/(1 + αm))`.
///
/// The detail `dispersion` is E α: the predictive variance is `E m + E α E m² + Var m`.
pub type NegativeBinomialDispersed = Dispersed<Dispersion>;

impl Driven for Dispersion {
    const KIND: LikelihoodKind = LikelihoodKind::NegativeBinomialDispersed;
    const FUNCTIONS: [&'static str; 2] = ["rate", "dispersion"];
    const DETAIL: &'static str = "dispersion";
    const SHIFT: f64 = 0.0;
    /// Below the range counts are practically Poisson distributed, and the distribution function of
    /// a beta variable would take about as many terms as the root of its shapes.
    const RANGE: (f64, f64) = (-20.0, 230.0);
    const POWER: f64 = 1.0;

    fn family() -> Box<dyn OneFunction> {
        Box::new(NegativeBinomial::new(0.5))
    }

    fn density(at: Observation, [f1, f2]: [f64; 2], _: f64) -> Density {
        let Observation { y, exposure, .. } = at;
        let f2 = f2.clamp(Self::RANGE.0, Self::RANGE.1);
        let (alpha, r) = (f2.exp(), (-f2).exp());
        let log_mean = f1 + exposure.ln();
        let x = log_mean + f2;
        let (t, rest) = (logistic(x), logistic(-x));
        let softplus = x.max(0.0) + (-x.abs()).exp().ln_1p();
        let (rising, rising_slope) = ln_rising(y, alpha);
        let excess = r * (softplus - t);
        Density {
            value: rising + y * log_mean - (y + r) * softplus - ln_gamma(y + 1.0),
            first: [y - (y + r) * t, alpha * rising_slope + excess - y * t],
            second: [-(y + r) * t * rest, rising_curvature(y, alpha) - excess + r * t * t - y * t * rest],
            own: 0.0,
        }
    }

    fn moments(row: Row, _: f64, _: &mut Integrator) -> (f64, f64) {
        let Row { at: Observation { exposure, .. }, marginal } = row;
        let (mean, _, variance) = log_normal(marginal.of(0));
        let LatentMarginal { mean: mu, variance: v } = marginal.of(0);
        let LatentMarginal { mean: log_alpha, variance: spread } = marginal.of(1);
        // E α E m² as one exponential: one factor may underflow to 0 while the other overflows.
        let excess = (2.0 * (mu + v) + log_alpha + 0.5 * spread).exp();
        (exposure * mean, exposure * mean + exposure * exposure * (excess + variance))
    }

    fn cdf_given(family: &dyn OneFunction, f: LatentRow, alpha: f64, integrator: &mut Integrator) -> f64 {
        let Observation { y, exposure, .. } = f.at;
        if y < 0.0 {
            return 0.0;
        }
        // `Y ≤ k` if αm is at most the odds of a beta variable of shapes k + 1 and 1/α.
        let offset = exposure.ln() + alpha.ln();
        let threshold = Threshold::LogOdds(y.floor() + 1.0, 1.0 / alpha);
        let quick = threshold.average(|u| u - offset, |_| 1.0, f.marginal, integrator);
        quick.unwrap_or_else(|| family.predictive_cdf(f, integrator))
    }

    fn detail(marginal: Marginal<'_>, _: f64) -> f64 {
        log_normal(marginal.of(1)).0
    }

    /// The density is highest for a Poisson distribution of mean y.
    fn peak(at: Observation) -> Option<f64> {
        Some(log_ratio(at.y, 1.0) - at.y - ln_gamma(at.y + 1.0))
    }

    /// The deviance of Poisson counts, because the dispersion varies.
    fn unit_deviance(y: f64, mean: f64) -> f64 {
        poisson_deviance(y, mean)
    }
}

/// Positive targets with a varying shape.
#[derive(Clone, Copy, Debug)]
pub struct Shape;

/// `y ~ Gamma(shape k = e^{f_2}, mean e^{f_1})`: `log p = k log(k/m) + (k − 1) log y − k y/m − log Γ(k)`, variance m²/k.
///
/// The detail `shape` is `1/E(1/k)`: the predictive variance is `E m²/shape + Var m`.
pub type GammaShaped = Dispersed<Shape>;

impl Driven for Shape {
    const KIND: LikelihoodKind = LikelihoodKind::GammaShaped;
    const FUNCTIONS: [&'static str; 2] = ["mean", "shape"];
    const DETAIL: &'static str = "shape";
    /// The family with one function has scale e^f, which is m/k.
    const SHIFT: f64 = -1.0;
    const RANGE: (f64, f64) = (-300.0, 300.0);
    const HIGHEST: f64 = 25.0;
    const POWER: f64 = 1.0;

    fn family() -> Box<dyn OneFunction> {
        Box::new(Gamma::new(1.0))
    }

    fn density(at: Observation, [f1, f2]: [f64; 2], _: f64) -> Density {
        let k = f2.exp();
        let log_y = at.y.ln();
        let u = log_y - f1;
        let beyond = u.exp_m1();
        let (excess, excess_slope) = stirling_excess(k);
        let linear = k * (u - beyond);
        Density {
            value: linear + excess - log_y,
            first: [k * beyond, linear + excess_slope],
            // k² ψ′(k) = k² ψ′(1 + k) + 1.
            second: [-k * u.exp(), linear + excess_slope + k * (1.0 - k * trigamma_1p(k)) - 1.0],
            own: 0.0,
        }
    }

    /// With u = log y − f_1, `log p = k (u + 1 − e^u) + (k log k − k − log Γ(k)) − log y`. It is linear in k, except for the bracket,
    /// which grows like log k.
    fn expected(row: Row, integrator: &mut Integrator) -> Option<(f64, [f64; 2], [f64; 2])> {
        let Row { at, marginal } = row;
        let LatentMarginal { mean: mu, variance: v } = marginal.of(0);
        let LatentMarginal { mean: log_shape, variance: spread } = marginal.of(1);
        let log_y = at.y.ln();
        let shape = (log_shape + 0.5 * spread).exp();
        let u = log_y - mu;
        let ratio = (u + 0.5 * v).exp();
        // The product E k · … may be finite even if one of its factors overflows.
        let product = (log_shape + 0.5 * spread + u + 0.5 * v).exp();
        let (linear, slope) = if ratio.is_finite() {
            (shape * (u - (u + 0.5 * v).exp_m1()), shape * (u + 0.5 * v).exp_m1())
        } else {
            (-product, product)
        };
        let bracket = integrator.nested_expectation(Expectation::ExpectedLog, marginal.of(1), &mut |f, _| {
            let (value, first) = stirling_excess(f.clamp(Self::RANGE.0, Self::RANGE.1).exp());
            Point { value, first, ..Point::default() }
        });
        Some((
            linear + bracket.value - log_y,
            [slope, linear + bracket.mean],
            [-0.5 * product, 0.5 * linear + bracket.variance],
        ))
    }

    fn moments(Row { marginal, .. }: Row, _: f64, _: &mut Integrator) -> (f64, f64) {
        let (mean, _, variance) = log_normal(marginal.of(0));
        let LatentMarginal { mean: mu, variance: v } = marginal.of(0);
        let LatentMarginal { mean: log_shape, variance: spread } = marginal.of(1);
        (mean, (2.0 * (mu + v) - log_shape + 0.5 * spread).exp() + variance)
    }

    /// `Y ≤ y` if f is at most log y minus the logarithm of a gamma variable.
    fn cdf_given(family: &dyn OneFunction, f: LatentRow, shape: f64, integrator: &mut Integrator) -> f64 {
        if f.at.y <= 0.0 {
            return 0.0;
        }
        let log_y = f.at.y.ln();
        let quick = Threshold::LogGamma(shape).average(|u| log_y - u, |_| 1.0, f.marginal, integrator);
        quick.unwrap_or_else(|| family.predictive_cdf(f, integrator))
    }

    fn detail(marginal: Marginal<'_>, _: f64) -> f64 {
        let LatentMarginal { mean: mu, variance: v } = marginal.of(1);
        (mu - 0.5 * v).exp()
    }
}

/// Proportions with a varying precision.
#[derive(Clone, Copy, Debug)]
pub struct Precision;

/// A beta distribution of mean `m = 1/(1 + e^{−f_1})` and shapes `a = s m`, `b = s (1 − m)`, `s = e^{f_2}`:
/// `log p = log Γ(s) − log Γ(a) − log Γ(b) + (a − 1) log y + (b − 1) log(1 − y)`, variance `m (1 − m)/(s + 1)`.
///
/// The detail `precision` is `1/E(1/(s + 1)) − 1`: the predictive variance is `E m (1 − m)/(precision + 1) + Var m`.
pub type BetaPrecise = Dispersed<Precision>;

impl Precision {
    /// `E 1/(1 + s)`.
    fn shrinkage(latent: LatentMarginal, integrator: &mut Integrator) -> f64 {
        expectation(LatentMarginal { mean: -latent.mean, ..latent }, integrator, logistic)
    }
}

/// `E g(f)`.
fn expectation(marginal: LatentMarginal, integrator: &mut Integrator, g: impl Fn(f64) -> f64) -> f64 {
    integrator.nested_average(marginal, &mut |f, _| g(f))
}

impl Driven for Precision {
    const KIND: LikelihoodKind = LikelihoodKind::BetaPrecise;
    const FUNCTIONS: [&'static str; 2] = ["mean", "precision"];
    const DETAIL: &'static str = "precision";
    const SHIFT: f64 = 0.0;
    const RANGE: (f64, f64) = (-200.0, 60.0);
    const HIGHEST: f64 = 23.0;
    const POWER: f64 = 1.0;

    fn family() -> Box<dyn OneFunction> {
        Box::new(BetaLogit::new(4.0))
    }

    fn density(at: Observation, [f1, f2]: [f64; 2], _: f64) -> Density {
        let s = f2.clamp(Self::RANGE.0, Self::RANGE.1).exp();
        let (log_y, log_rest_y) = (at.y.ln(), (-at.y).ln_1p());
        let (m, rest) = (logistic(f1), logistic(-f1));
        let bend = (-f1.abs()).exp().ln_1p();
        let (log_m, log_rest) = (f1.min(0.0) - bend, (-f1).min(0.0) - bend);
        let (a, b) = (s * m, s * rest);
        let ((gamma_a, psi_a), (gamma_b, psi_b)) = (ln_gamma_1p::<Scalar>(a), ln_gamma_1p::<Scalar>(b));
        let (gamma_s, psi_s) = ln_gamma_1p::<Scalar>(s);
        // log Γ(x) = log Γ(1 + x) − log x, and so on for its derivatives.
        let value = gamma_s + s.ln() - gamma_a - gamma_b
            + log_m
            + log_rest
            + (a - 1.0) * log_y
            + (b - 1.0) * log_rest_y;
        let slope = a * rest;
        let score = log_y - log_rest_y - psi_a + psi_b;
        let first = slope * score + rest - m;
        let in_s = s * psi_s - a * psi_a - b * psi_b + 1.0 + a * log_y + b * log_rest_y;
        let (tri_a, tri_b, tri_s) = (trigamma_1p(a), trigamma_1p(b), trigamma_1p(s));
        Density {
            value,
            first: [first, in_s],
            second: [
                (rest - m) * first - slope * slope * (tri_a + tri_b) - rest * rest - m * m,
                in_s - 1.0 + s * s * tri_s - a * a * tri_a - b * b * tri_b,
            ],
            own: 0.0,
        }
    }

    fn moments(Row { marginal, .. }: Row, _: f64, integrator: &mut Integrator) -> (f64, f64) {
        let f = marginal.of(0);
        let mean = expectation(f, integrator, logistic).clamp(0.0, 1.0);
        let spread = expectation(f, integrator, |f| (logistic(f) - mean).powi(2));
        let inner = expectation(f, integrator, |f| logistic(f) * logistic(-f));
        (mean, spread + inner * Self::shrinkage(marginal.of(1), integrator))
    }

    /// A beta variable of large shapes is a normal one in its log odds, with a variance of 1/(s y (1 − y)).
    fn cdf_given(family: &dyn OneFunction, f: LatentRow, s: f64, integrator: &mut Integrator) -> f64 {
        let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = f;
        let weight = s * at.y * (1.0 - at.y);
        if weight > 1e9 {
            let log_odds = at.y.ln() - (-at.y).ln_1p();
            return normal::cdf((log_odds - mu) / (v + 1.0 / weight).sqrt());
        }
        family.predictive_cdf(f, integrator)
    }

    fn detail(marginal: Marginal<'_>, _: f64) -> f64 {
        1.0 / Self::shrinkage(marginal.of(1), &mut Integrator::default()) - 1.0
    }
}
