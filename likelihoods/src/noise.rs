//! Real targets with a location f_1 and a scale e^{f_2}: heteroskedastic normal and Student-t noise.

use super::dispersed::{Density, Dispersed, Driven};
use super::{
    Gaussian, LatentMarginal, LatentRow, LikelihoodKind, Local, Marginal, Observation, OneFunction, Row,
    StudentT,
};
use crate::functions::gamma::HALF_LN_2PI;
use crate::functions::normal;
use crate::quadrature::Integrator;
use statrs::function::gamma::{digamma, ln_gamma};
use std::f64::consts::PI;

/// Normal noise with a varying variance.
#[derive(Clone, Copy, Debug)]
pub struct NormalNoise;

/// `y = f_1 + e^{f_2} ε`, ε ~ N(0, 1): `log p = −½ log 2π − f_2 − ½ (y − f_1)² e^{−2f_2}`.
///
/// `E log p = −½ log 2π − μ_2 − ½ ((y − μ_1)² + v_1) e^{−2μ_2 + 2v_2}`; `E p = E N(y; μ_1, v_1 + e^{2f_2})` over f_2 alone. The detail
/// `noise_sd` is `e^{μ_2 + v_2}`, the root of the expected noise variance: with v_1 its square is the predictive variance.
pub type GaussianHeteroskedastic = Dispersed<NormalNoise>;

impl Driven for NormalNoise {
    const KIND: LikelihoodKind = LikelihoodKind::GaussianHeteroskedastic;
    const FUNCTIONS: [&'static str; 2] = ["location", "scale"];
    const DETAIL: &'static str = "noise_sd";
    const SHIFT: f64 = 0.0;
    const RANGE: (f64, f64) = (-340.0, 340.0);
    const POWER: f64 = 2.0;

    fn family() -> Box<dyn OneFunction> {
        Box::new(Gaussian::new(0.1))
    }

    fn density(at: Observation, [f1, f2]: [f64; 2], _: f64) -> Density {
        let precision = (-f2).exp();
        let u = (at.y - f1) * precision;
        Density {
            value: -HALF_LN_2PI - f2 - 0.5 * u * u,
            first: [u * precision, u * u - 1.0],
            second: [-precision * precision, -2.0 * u * u],
            own: 0.0,
        }
    }

    fn expected(row: Row, _: &mut Integrator) -> Option<(f64, [f64; 2], [f64; 2])> {
        let Row { at, marginal } = row;
        let LatentMarginal { mean: mu, variance: v } = marginal.of(0);
        let LatentMarginal { mean: log_scale, variance: spread } = marginal.of(1);
        let residual = at.y - mu;
        let precision = (2.0 * (spread - log_scale)).exp();
        let square = (residual * residual + v) * precision;
        let value = -HALF_LN_2PI - log_scale - 0.5 * square;
        Some((value, [residual * precision, square - 1.0], [-0.5 * precision, -square]))
    }

    fn predictive_given(f1: LatentRow, f2: f64) -> Option<(Local, f64)> {
        let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = f1;
        let residual = at.y - mu;
        // The logarithm of v + e^{2f}, and the share of the noise; v and e^{2f} may both underflow
        // or overflow.
        let (log_v, log_noise) = (v.max(0.0).ln(), 2.0 * f2);
        let (more, less) = (log_v.max(log_noise), log_v.min(log_noise));
        let log_total = more + (less - more).exp().ln_1p();
        let precision = (-log_total).exp();
        let square = residual * residual * precision;
        let slope = 0.5 * (square - 1.0);
        let value = -HALF_LN_2PI - 0.5 * (log_total + square);
        let local = Local { value, mean: residual * precision, variance: slope * precision };
        Some((local, 2.0 * slope * (log_noise - log_total).exp()))
    }

    fn moments(row: Row, _: f64, _: &mut Integrator) -> (f64, f64) {
        let LatentMarginal { mean: mu, variance: v } = row.marginal.of(0);
        let LatentMarginal { mean: log_scale, variance: spread } = row.marginal.of(1);
        (mu, v + (2.0 * (log_scale + spread)).exp())
    }

    fn cdf_given(_: &dyn OneFunction, f: LatentRow, noise: f64, _: &mut Integrator) -> f64 {
        let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = f;
        normal::cdf((at.y - mu) / (v + noise).sqrt())
    }

    fn detail(marginal: Marginal<'_>, _: f64) -> f64 {
        let LatentMarginal { mean: log_scale, variance: spread } = marginal.of(1);
        (log_scale + spread).exp()
    }
}

/// Student-t noise with a varying scale.
#[derive(Clone, Copy, Debug)]
pub struct StudentNoise;

/// `y = f_1 + e^{f_2} t`, t Student-t distributed with `df` degrees of freedom, the own parameter ν: up to a constant
/// `log p = −f_2 − ½ (ν + 1) log(1 + (y − f_1)² e^{−2f_2}/ν)`.
///
/// The detail `noise_sd` is `√(ν/(ν − 2)) e^{μ_2 + v_2}`, the root of the expected noise variance, infinite for ν ≤ 2.
pub type StudentTHeteroskedastic = Dispersed<StudentNoise>;

impl Driven for StudentNoise {
    const KIND: LikelihoodKind = LikelihoodKind::StudentTHeteroskedastic;
    const FUNCTIONS: [&'static str; 2] = ["location", "scale"];
    const DETAIL: &'static str = "noise_sd";
    const SHIFT: f64 = 0.0;
    const RANGE: (f64, f64) = (-150.0, 150.0);
    const POWER: f64 = 1.0;

    fn family() -> Box<dyn OneFunction> {
        Box::new(StudentT::new(0.3, 4.0))
    }

    fn density(at: Observation, [f1, f2]: [f64; 2], df: f64) -> Density {
        let precision = (-f2).exp();
        let r = (at.y - f1) * precision;
        let square = r * r / df;
        // Squares may overflow.
        let share = if square < 1.0 { square / (1.0 + square) } else { 1.0 / (1.0 + 1.0 / square) };
        let rest = 1.0 / (1.0 + square);
        let constant = ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df) - 0.5 * (df * PI).ln();
        let in_df = digamma(0.5 * (df + 1.0)) - digamma(0.5 * df) - 1.0 / df;
        Density {
            value: constant - f2 - 0.5 * (df + 1.0) * square.ln_1p(),
            first: [(df + 1.0) / df * r * rest * precision, (df + 1.0) * share - 1.0],
            second: [
                (df + 1.0) / df * (share - rest) * rest * precision * precision,
                -2.0 * (df + 1.0) * share * rest,
            ],
            own: 0.5 * (in_df - square.ln_1p() + (df + 1.0) * share / df),
        }
    }

    fn moments(row: Row, df: f64, _: &mut Integrator) -> (f64, f64) {
        let LatentMarginal { mean: mu, variance: v } = row.marginal.of(0);
        let sd = Self::detail(row.marginal, df);
        (if df > 1.0 { mu } else { f64::NAN }, v + sd * sd)
    }

    fn detail(marginal: Marginal<'_>, df: f64) -> f64 {
        let LatentMarginal { mean: log_scale, variance: spread } = marginal.of(1);
        let unit = if df > 2.0 { (df / (df - 2.0)).sqrt() } else { f64::INFINITY };
        unit * (log_scale + spread).exp()
    }
}
