//! Targets between 0 and 1: a beta distribution whose mean is Φ(f) or 1/(1 + e^{−f}).

use super::bernoulli::logistic;
use super::poisson::strip_of_width;
use super::sums::{Terms, fill, weighted_sums};
use super::{LatentMarginal, LatentRow, LikelihoodKind, Observation, OneFunction, Row, own_parameters};
use crate::functions::gamma::{beta_cdf, ln_gamma_1p, trigamma_1p};
use crate::functions::normal::{self, log_cdf_and_hazard};
use crate::quadrature::{Integrator, Resolution};
use pulp::{Scalar, Simd};
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use sparsegp_kernels::Parameter;
use sparsegp_kernels::vector_math::{exp, ln_1p};
use statrs::function::gamma::{digamma, ln_gamma};
use std::f64::consts::PI;
use std::fmt::Debug;
use std::marker::PhantomData;

/// The mean m of the target as a function of f.
pub trait Link: Copy + Debug + Send + Sync + 'static {
    /// The family with this link.
    const KIND: LikelihoodKind;

    /// `log m`, `log(1 − m)`, `m′/m` and `m′/(1 − m)`, each to full relative accuracy in both tails.
    fn terms<S: Simd>(f: f64) -> [f64; 4];

    /// `m″/m′`.
    fn bend(f: f64) -> f64;

    /// Returns the f whose mean is m, limited to ±30.
    fn inverse(m: f64) -> f64;

    /// The half-width of the strip in which `log Γ(s m)` and `log Γ(s (1 − m))` are analytic.
    fn strip(scale: f64) -> f64;

    /// `E m` under N(f; μ, v), if it has a closed form.
    fn mean(latent: LatentMarginal) -> Option<f64>;
}

/// `m = 1/(1 + e^{−f})`.
#[derive(Clone, Copy, Debug)]
pub struct Logit;

impl Link for Logit {
    const KIND: LikelihoodKind = LikelihoodKind::BetaLogit;

    #[inline(always)]
    fn terms<S: Simd>(f: f64) -> [f64; 4] {
        let e = exp::<S>(-f.abs());
        let log = ln_1p::<S>(e);
        let large = 1.0 / (1.0 + e);
        let small = e * large;
        let up = f > 0.0;
        let (m, rest) = if up { (large, small) } else { (small, large) };
        [if up { -log } else { f - log }, if up { -f - log } else { -log }, rest, m]
    }

    fn bend(f: f64) -> f64 {
        logistic(-f) - logistic(f)
    }

    fn inverse(m: f64) -> f64 {
        (m.ln() - (-m).ln_1p()).clamp(-30.0, 30.0)
    }

    /// `s m` is 0, −1, −2, … only on the lines ±iπ, which also contain the poles of m; log Γ is
    /// already large near them.
    fn strip(_: f64) -> f64 {
        0.9 * PI
    }

    fn mean(_: LatentMarginal) -> Option<f64> {
        None
    }
}

/// `m = Φ(f)`.
#[derive(Clone, Copy, Debug)]
pub struct Probit;

impl Link for Probit {
    const KIND: LikelihoodKind = LikelihoodKind::BetaProbit;

    #[inline(always)]
    fn terms<S: Simd>(f: f64) -> [f64; 4] {
        let (log, hazard) = log_cdf_and_hazard::<S>(f);
        let (log_rest, hazard_rest) = log_cdf_and_hazard::<S>(-f);
        [log, log_rest, hazard, hazard_rest]
    }

    fn bend(f: f64) -> f64 {
        -f
    }

    fn inverse(m: f64) -> f64 {
        normal::quantile(m).clamp(-30.0, 30.0)
    }

    /// The solution of `s Φ(f) = −1` nearest to the real line is −1.0 ± 2.1i for s = 1, −2.5 ± 1.1i
    /// for s = 100, and at a distance of about π/√(2 log s) for larger s.
    fn strip(scale: f64) -> f64 {
        2.1 / (1.0 + 0.2 * scale.max(1.0).ln())
    }

    fn mean(latent: LatentMarginal) -> Option<f64> {
        Some(normal::cdf(latent.mean / (1.0 + latent.variance).sqrt()))
    }
}

/// A beta distribution of mean m = link(f) and shapes s m and s (1 − m).
#[derive(Clone, Debug)]
pub struct Beta<L> {
    scale: Parameter,
    link: PhantomData<L>,
}

/// With `m = 1/(1 + e^{−f})`.
pub type BetaLogit = Beta<Logit>;
/// With `m = Φ(f)`.
pub type BetaProbit = Beta<Probit>;

impl<L: Link> Beta<L> {
    /// Creates the likelihood with the sum s of the shapes, which must be positive; the variance
    /// given f is `m (1 − m)/(s + 1)`.
    pub fn new(scale: f64) -> Self {
        Beta { scale: Parameter::positive("scale", vec![scale]).as_given(), link: PhantomData }
    }

    /// Creates the likelihood as a part of another one, which calls the sum of the shapes `precision`.
    pub(super) fn part(precision: f64) -> Self {
        let scale = Parameter::positive("precision", vec![precision]).as_given();
        Beta { scale, link: PhantomData }
    }

    fn scale(&self) -> f64 {
        self.scale.values[0]
    }

    fn shapes(&self, f: f64) -> (f64, f64) {
        let [log, log_rest, ..] = L::terms::<Scalar>(f);
        (self.scale() * log.exp(), self.scale() * log_rest.exp())
    }

    fn terms(&self, at: Observation) -> BetaTerms<L> {
        let (s, logs) = (self.scale(), (at.y.ln(), (-at.y).ln_1p()));
        let constant = ln_gamma(s) + 2.0 * s.ln() - logs.0 - logs.1;
        BetaTerms { s, logs, constant, link: PhantomData }
    }

    fn first_and_curvature(&self, at: Observation, f: f64) -> (f64, f64) {
        let s = self.scale();
        let [log, log_rest, hazard, hazard_rest] = L::terms::<Scalar>(f);
        let (a, b) = (s * log.exp(), s * log_rest.exp());
        let (slope, bend) = (a * hazard, L::bend(f));
        let score = log_odds(at.y) - ln_gamma_1p::<Scalar>(a).1 + ln_gamma_1p::<Scalar>(b).1;
        let first = slope * score + hazard - hazard_rest;
        let spread = slope * slope * (trigamma_1p(a) + trigamma_1p(b));
        (first, bend * first - spread - hazard * hazard - hazard_rest * hazard_rest)
    }
}

/// Returns the zero of a slope that is positive far below and negative far above, by Newton's method in a bracket; `terms` returns the slope
/// and its derivative.
pub(super) fn newton_peak(start: f64, terms: &mut dyn FnMut(f64) -> (f64, f64)) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    let mut f = if start.is_nan() { 0.0 } else { start };
    for _ in 0..60 {
        let (first, curvature) = terms(f);
        if first > 0.0 {
            low = f;
        } else {
            high = f;
        }
        let newton = f - first / curvature;
        let inside = curvature < 0.0 && newton > low && newton < high;
        let next = if inside { newton } else { 0.5 * (low + high) };
        let change = (next - f).abs();
        f = next;
        if change.is_nan() || change <= 1e-9 * (1.0 + f.abs()) {
            break;
        }
    }
    f
}

pub(super) fn log_odds(y: f64) -> f64 {
    y.ln() - (-y).ln_1p()
}

impl<L: Link> OneFunction for Beta<L> {
    own_parameters!(scale);

    fn kind(&self) -> LikelihoodKind {
        L::KIND
    }

    /// `log Γ(a) = log Γ(1 + a) − log a`: the only term that is singular in the tails is the
    /// logarithm of the link.
    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        fill(self.terms(at), f, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        self.first_and_curvature(at, f).1
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let s = self.scale();
        let [sum, ..] = weighted_sums(self.terms(at), f, weights);
        // m ψ(s m) = m ψ(1 + s m) − 1/s, for both shapes.
        own[0] += weights.iter().sum::<f64>() * (digamma(s) + 2.0 / s) + sum;
    }

    /// The density has a width of about `√(m (1 − m)/s)/m′` in f, at least 1.25/√s for both links.
    /// For small s it resembles that of a Poisson rate.
    fn resolution(&self, _: Observation) -> Resolution {
        let s = self.scale();
        Resolution { strip: L::strip(s), step: 0.33 / (1.0 + 0.25 * s).sqrt(), concave: false, pole: None }
    }

    fn peak(&self, at: Observation) -> f64 {
        newton_peak(L::inverse(at.y), &mut |f| self.first_and_curvature(at, f))
    }

    fn working_response(&self, at: Observation) -> f64 {
        L::inverse(at.y)
    }

    fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
        let s = self.scale();
        let (a, b) = self.shapes(f);
        (a / s, (a / s) * (b / s) / (s + 1.0))
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        let (a, b) = self.shapes(f);
        beta_cdf(a, b, at.y, 1.0 - at.y)
    }

    fn sample(&self, _: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let (a, b) = self.shapes(f);
        let draw = rand_distr::Beta::new(a, b).map_or(f64::NAN, |d| d.sample(random));
        // If a shape is too small for the sampler, all mass is next to one end.
        let draw = if draw.is_nan() { if a < b { 0.0 } else { 1.0 } } else { draw };
        draw.clamp(f64::MIN_POSITIVE, 1.0 - 0.5 * f64::EPSILON)
    }

    /// `Var y = E m (1 − m)/(s + 1) + Var m`.
    fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
        let Row { at, marginal: latent } = row;
        let LatentMarginal { mean: mu, variance: v } = latent;
        let s = self.scale();
        let strip = L::strip(1.0);
        let mean_of = |f: f64| self.conditional_moments(at, f).0;
        let mean = L::mean(latent).unwrap_or_else(|| integrator.average(mu, v, strip, &mut |f| mean_of(f)));
        // Rounding in quadrature may give a number slightly above 1.
        let mean = mean.clamp(0.0, 1.0);
        let spread = integrator.average(mu, v, strip, &mut |f| (mean_of(f) - mean).powi(2));
        (mean, (mean * (1.0 - mean) + s * spread) / (s + 1.0))
    }

    /// The standard deviation `√(y (1 − y)/(s + 1))` of the target as a change of f.
    fn cdf_strip(&self, at: Observation) -> f64 {
        let y = at.y.clamp(1e-12, 1.0 - 1e-12);
        let slope = y * L::terms::<Scalar>(L::inverse(y))[2];
        strip_of_width((y * (1.0 - y) / (self.scale() + 1.0)).sqrt() / slope)
    }

    /// Chooses s such that half of the variance of the targets is left to f.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let n = y.len() as f64;
        let mean = y.iter().sum::<f64>() / n;
        let variance = y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / n;
        let scale = 2.0 * mean * (1.0 - mean) / variance - 1.0;
        self.scale.start(|_| if scale.is_nan() { 1.0 } else { scale.clamp(0.5, 1000.0) });
        if mean > 0.0 && mean < 1.0 { L::inverse(mean) } else { 0.0 }
    }
}

/// The log density of a target, and its derivative in s without the terms that f does not change.
#[derive(Clone, Copy)]
struct BetaTerms<L> {
    s: f64,
    logs: (f64, f64),
    constant: f64,
    link: PhantomData<L>,
}

impl<L: Link> Terms<2> for BetaTerms<L> {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let (s, (log_y, log_rest_y)) = (self.s, self.logs);
        let [log, log_rest, hazard, hazard_rest] = L::terms::<S>(f);
        let (a, b) = (s * exp::<S>(log), s * exp::<S>(log_rest));
        let (gamma_a, psi_a) = ln_gamma_1p::<S>(a);
        let (gamma_b, psi_b) = ln_gamma_1p::<S>(b);
        let value = self.constant + a * log_y + b * log_rest_y - gamma_a - gamma_b + log + log_rest;
        [value, a * hazard * (log_y - log_rest_y - psi_a + psi_b) + hazard - hazard_rest]
    }
}

impl<L: Link> Terms<3> for BetaTerms<L> {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 3] {
        let [log, log_rest, ..] = L::terms::<S>(f);
        let (m, rest) = (exp::<S>(log), exp::<S>(log_rest));
        let psi = (ln_gamma_1p::<S>(self.s * m).1, ln_gamma_1p::<S>(self.s * rest).1);
        [m * (self.logs.0 - psi.0) + rest * (self.logs.1 - psi.1), 0.0, 0.0]
    }
}
