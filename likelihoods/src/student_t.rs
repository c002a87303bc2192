//! Heavy-tailed noise: Student-t around f, averaged over N(f; μ, v) as a mixture of normals.

use super::censored::Tails;
use super::sums::{Terms, fill};
use super::{DensityBounds, LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction, Row};
use crate::functions::gamma::{Tail, ln_beta_tail};
use crate::functions::normal;
use crate::quadrature::{Integrator, Resolution};
use pulp::Simd;
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use sparsegp_kernels::vector_math::{Pass, dispatch, exp, exp_in_place, ln_1p};
use sparsegp_kernels::{Parameter, Transform};
use statrs::function::gamma::{digamma, ln_gamma};
use std::f64::consts::PI;

/// `y = f + scale·t`, t Student-t distributed with `df` degrees of freedom. With [known noise](Self::with_known_noise) it is
/// `f + √(scale² + s²)·t`, where s is the standard error of the row, and with [known noise alone](Self::known_noise_only) `f + s·t`.
#[derive(Clone, Debug)]
pub struct StudentT {
    /// 0 without it.
    scale: Option<Parameter>,
    df: Parameter,
    /// True if rows have a known standard error each, which [`Observation::exposure`] contains.
    has_known: bool,
}

impl StudentT {
    /// The range of the degrees of freedom in training. Up to 2 the variance is infinite, and just
    /// above 2 it says little about typical errors: at 2.1 it is 21 times the squared scale. Above
    /// 100 the distribution is nearly normal. ⟨fix likelihood.df=VALUE⟩ allows values outside the
    /// range.
    pub const DF_RANGE: (f64, f64) = (2.1, 100.0);

    /// The floor under the scale during training, in units of the (standardised) target's standard
    /// deviation. Without it the density could grow without bound if many targets are equal.
    pub const SCALE_FLOOR: f64 = 1e-3;

    /// Creates the likelihood with a scale and degrees of freedom, both positive. Training keeps
    /// them above [`StudentT::SCALE_FLOOR`] and within [`StudentT::DF_RANGE`] if they start there.
    pub fn new(scale: f64, df: f64) -> Self {
        let floor = if scale > Self::SCALE_FLOOR { Self::SCALE_FLOOR } else { 0.0 };
        let (lower, upper) = Self::DF_RANGE;
        let bounded = Transform::Bounded { lower, upper };
        let transform = if bounded.admits(df) { bounded } else { Transform::POSITIVE };
        let scale = Parameter::new("scale", vec![scale], Transform::Positive { lower: floor });
        let df = Parameter::new("df", vec![df], transform);
        StudentT { scale: Some(scale.as_given()), df: df.as_given(), has_known: false }
    }

    /// Creates the likelihood of rows whose scale is the known standard error s, with the degrees of freedom alone to train. The scale is at
    /// least [`Self::LEAST_KNOWN`]. [`Observation::exposure`] contains s.
    pub fn known_noise_only(df: f64) -> Self {
        StudentT { scale: None, has_known: true, ..StudentT::new(1.0, df) }
    }

    /// The smallest scale of rows whose only noise is known, in standard deviations of the target.
    pub const LEAST_KNOWN: f64 = 1e-5;

    /// Adds the known standard error s of every row to the scale, which is `√(scale² + s²)` then. [`Observation::exposure`] contains s, on
    /// the scale of f.
    #[must_use]
    pub fn with_known_noise(self) -> Self {
        StudentT { has_known: true, ..self }
    }

    fn values(&self) -> (f64, f64) {
        (self.scale.as_ref().map_or(0.0, |scale| scale.values[0]), self.df.values[0])
    }

    /// The scale of a row, and the degrees of freedom.
    fn values_at(&self, at: Observation) -> (f64, f64) {
        let (scale, df) = self.values();
        let floor = if self.scale.is_none() { Self::LEAST_KNOWN } else { 0.0 };
        (if self.has_known { scale.hypot(at.exposure).max(floor) } else { scale }, df)
    }

    /// Adds derivatives in the scale of a row, and in the degrees of freedom.
    fn add_own(&self, at: Observation, own: &mut [f64], by_scale: f64, by_df: f64) {
        if let Some((df, scale)) = own.split_last_mut() {
            *df += by_df;
            // ∂ √(scale² + s²)/∂ scale.
            let share = self.values().0 / self.values_at(at).0;
            scale.iter_mut().for_each(|scale| *scale += by_scale * share);
        }
    }

    /// Fills these buffers with the mixture over w of `N(residual; 0, v + scale²/w)`, weighted by the densities if that is requested.
    fn mixture(
        (scale, df): (f64, f64),
        residual: f64,
        v: f64,
        with_densities: bool,
        [mut u, mut variance, mut log_weight]: [Vec<f64>; 3],
    ) -> Mixture {
        // For v = 0 the integrand is exp of (df + 1)/2 u − (df + (residual/scale)²)/2 e^u, whose
        // peak is then farthest to the left. Both sides fall by e^{−40} from the peak, as e^u − 1 −
        // u ≥ max(−1 − u, u²/3, …).
        let peak = ((df + 1.0) / (df + (residual / scale).powi(2))).ln().clamp(-600.0, 0.0);
        let drop = 80.0 / df;
        let left = if drop < 1.0 / 3.0 { (3.0 * drop).sqrt() } else { 1.0 + drop };
        let right = (2.0 * drop).sqrt().min(drop.ln_1p() + 1.0);
        // The rule's error is |Γ(k + 2πi/step)|/Γ(k), k = (df + 1)/2: 1e-14 for small k with the
        // first step, and for large k with the second, which is in standard deviations of u.
        let span = right + left - peak;
        let step = (0.6 * (2.0 / (df + 1.0)).sqrt()).min(0.25).max(span / 4000.0);
        u.clear();
        u.extend((0..=(span / step).ceil() as usize).map(|k| peak - left + k as f64 * step));
        variance.resize(u.len(), 0.0);
        log_weight.resize(u.len(), 0.0);
        let mut mixture = Mixture { score: u, variance, log_weight };
        let constant = 0.5 * df * (0.5 * df).ln() - ln_gamma(0.5 * df) + step.ln();
        let (residual, square, v) = (with_densities.then_some(residual), scale * scale, v.max(0.0));
        dispatch(Components { df, square, v, constant, residual, mixture: &mut mixture });
        mixture
    }
}

/// `log p(y|f)` is `log E N(y; f, scale²/w)` for `w ~ Gamma(df/2, rate df/2)`: components at evenly spaced u = log w.
struct Mixture {
    /// `u − e^u`: the derivative of the log density of u in df/2, up to a constant. Before it is
    /// computed, the field holds u.
    score: Vec<f64>,
    /// `v + scale²/w`.
    variance: Vec<f64>,
    /// The logarithm of w's density times the step.
    log_weight: Vec<f64>,
}

struct Components<'a> {
    df: f64,
    square: f64,
    v: f64,
    constant: f64,
    /// If it is given, `log N(residual; 0, variance)` is added to the logarithms of the weights.
    residual: Option<f64>,
    mixture: &'a mut Mixture,
}

impl Pass for Components<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let Components { df, square, v, constant, residual, mixture } = self;
        let Mixture { score, variance, log_weight } = &mut *mixture;
        for ((score, variance), log_weight) in score.iter_mut().zip(variance).zip(log_weight) {
            let u = *score;
            *variance = v + square * exp::<S>(-u);
            *score = u - exp::<S>(u);
            *log_weight = 0.5 * df * *score + constant;
        }
        let Some(residual) = residual else { return };
        let Mixture { variance, log_weight, .. } = mixture;
        // The variances fall with u, so relative to the last one the logarithms are log(1 + x) with x ≥ 0.
        let least = variance.last().copied().unwrap_or(1.0);
        let constant = -0.5 * (2.0 * PI * least).ln();
        let square = residual * residual;
        for (variance, log_weight) in variance.iter().zip(log_weight) {
            let beyond = *variance / least - 1.0;
            let log = ln_1p::<S>(if beyond > 0.0 { beyond } else { 0.0 });
            *log_weight += constant - 0.5 * (log + square / *variance);
        }
    }
}

impl Tails for StudentT {
    /// With `r = (y − f)/scale`, `P(|t| > |r|)` is the lower tail at `df/(df + r²)` of a beta distribution of shapes df/2 and ½, whose density
    /// of the log odds is |y − f| times the density of y.
    fn tail(&self, at: Observation, f: f64, log_slope: f64) -> Tail {
        let (scale, df) = self.values_at(at);
        let (distance, square) = ((at.y - f).abs(), ((at.y - f) / scale).powi(2));
        let ratio = match ln_beta_tail(0.5 * df, 0.5, 1.0 / (1.0 + square / df), 1.0 / (1.0 + df / square)) {
            Tail::Below(ratio) => (0.5 * distance).ln() + ratio,
            Tail::Above(ratio) => 0.5f64.ln() + (-distance * (log_slope + ratio).exp()).ln_1p() - log_slope,
        };
        if at.y > f { Tail::Above(ratio) } else { Tail::Below(ratio) }
    }
}

impl OneFunction for StudentT {
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.scale.iter().chain([&self.df]).for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.scale.iter_mut().chain([&mut self.df]).for_each(visit);
    }

    fn kind(&self) -> LikelihoodKind {
        match (&self.scale, self.has_known) {
            (None, _) => LikelihoodKind::StudentTKnownNoiseOnly,
            (_, true) => LikelihoodKind::StudentTKnownNoise,
            _ => LikelihoodKind::StudentT,
        }
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let (scale, df) = self.values_at(at);
        let constant = ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df) - 0.5 * (df * PI).ln() - scale.ln();
        fill(LogStudent { y: at.y, scale, df, constant }, f, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        let (scale, df) = self.values_at(at);
        let square = ((at.y - f) / scale).powi(2);
        (df + 1.0) * ((square - df) / (df + square)) / (df + square) / (scale * scale)
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let (scale, df) = self.values_at(at);
        let constant = digamma(0.5 * (df + 1.0)) - digamma(0.5 * df) - 1.0 / df;
        for (f, w) in f.iter().zip(weights) {
            let square = ((at.y - f) / scale).powi(2) / df;
            let share =
                (df + 1.0) * if square < 1.0 { square / (1.0 + square) } else { 1.0 / (1.0 + 1.0 / square) };
            self.add_own(
                at,
                own,
                w * (share - 1.0) / scale,
                w * 0.5 * (constant - square.ln_1p() + share / df),
            );
        }
    }

    /// `(ν + 1)(νs² − r²)/(νs² + r²)²` is largest at r = 0, and smallest at r² = 3νs².
    fn loss_curvature(&self) -> Option<(f64, f64)> {
        let (scale, df) = self.values_at(Observation::exposed(0.0, 0.0));
        let most = (df + 1.0) / (df * scale * scale);
        // Known noise widens the scale, which only lowers both.
        Some((-0.125 * most, most))
    }

    fn density_bounds(&self, at: Observation) -> Option<DensityBounds> {
        let (scale, df) = self.values_at(at);
        let peak = (ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df)).exp() / ((PI * df).sqrt() * scale);
        let grade = (df + 1.0) / df;
        let fall = ((df + 3.0) / (df + 2.0)).powf(-0.5 * (df + 3.0));
        let slope = peak / scale * grade * (df / (df + 2.0)).sqrt() * fall;
        let bend = peak / (scale * scale) * grade;
        let rise = ((df + 2.0) / (df + 5.0)).powf(0.5 * (df + 5.0));
        Some(DensityBounds { density: peak, slope: (-slope, slope), curvature: (-bend, 2.0 * bend * rise) })
    }

    /// The argument `1 + (y − f)²/(df·scale²)` of the logarithm is 0 at `y ± i√df·scale`.
    fn resolution(&self, at: Observation) -> Resolution {
        let (scale, df) = self.values_at(at);
        Resolution { strip: df.sqrt() * scale, step: 0.33 * scale, concave: false, pole: Some(at.y) }
    }

    fn peak(&self, at: Observation) -> f64 {
        at.y
    }

    /// Averages densities over the mixture, in which everything is smooth on the scale of log w for all y and
    /// v.
    fn log_predictive(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = row;
        let values = self.values_at(at);
        let ((scale, df), residual) = (values, at.y - mu);
        let Mixture { score, variance, log_weight: mut weight } =
            Self::mixture(values, residual, v, true, integrator.take());
        let top = weight.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !top.is_finite() {
            integrator.give([score, variance, weight]);
            return Local { value: top, mean: f64::NAN, variance: f64::NAN };
        }
        weight.iter_mut().for_each(|w| *w -= top);
        exp_in_place(&mut weight);
        let total: f64 = weight.iter().sum();
        let mut local = Local { value: top + total.ln(), ..Local::default() };
        let (mut scale_bar, mut df_bar) = (0.0, 0.0);
        for ((w, in_df), variance) in weight.iter().zip(&score).zip(&variance) {
            let share = w / total;
            let score = residual / variance;
            let slope = 0.5 * share * (score * score - 1.0 / variance);
            local.mean += share * score;
            local.variance += slope;
            if !own.is_empty() {
                scale_bar += 2.0 * slope * (variance - v.max(0.0)) / scale;
                df_bar += 0.5 * share * in_df;
            }
        }
        self.add_own(at, own, scale_bar, df_bar + 0.5 * ((0.5 * df).ln() + 1.0 - digamma(0.5 * df)));
        integrator.give([score, variance, weight]);
        local
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        self.moments(Row::new(at, LatentMarginal { mean: f, variance: 0.0 }))
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        self.cdf(Row::new(at, LatentMarginal { mean: f, variance: 0.0 }), &mut Integrator::default())
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let (scale, df) = self.values_at(at);
        rand_distr::StudentT::new(df).map_or(f64::NAN, |d| f + scale * d.sample(random))
    }

    fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
        self.moments(row)
    }

    fn predictive_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        self.cdf(row, integrator)
    }

    /// Starts with a tenth of the variance of the targets as noise, as for Gaussian noise,
    /// estimated robustly with medians.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let centre = median(y.to_vec());
        let spread = 1.4826 * median(y.iter().map(|y| (y - centre).abs()).collect());
        let start = 0.1f64.sqrt() * if spread > 0.0 { spread } else { 1.0 };
        self.scale.iter_mut().for_each(|scale| scale.start(|_| start));
        self.df.start(|_| 4.0);
        centre
    }
}

impl StudentT {
    /// Returns the moments of a Student-t variable plus independent normal noise; the variance is infinite up to two degrees of freedom.
    fn moments(&self, row: LatentRow) -> (f64, f64) {
        let LatentMarginal { mean, variance: v } = row.marginal;
        let (scale, df) = self.values_at(row.at);
        let noise = if df > 2.0 { scale * scale * df / (df - 2.0) } else { f64::INFINITY };
        (if df > 1.0 { mean } else { f64::NAN }, v + noise)
    }

    /// `E_w Φ(residual/√(v + scale²/w))`.
    fn cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let (residual, v) = (row.at.y - row.marginal.mean, row.marginal.variance);
        let Mixture { mut score, mut variance, log_weight: mut weight } =
            Self::mixture(self.values_at(row.at), residual, v, false, integrator.take());
        exp_in_place(&mut weight);
        variance.iter_mut().for_each(|x| *x = residual / x.sqrt());
        normal::log_cdf_in_place(&mut variance, &mut score);
        exp_in_place(&mut score);
        let below: f64 = score.iter().zip(&weight).map(|(p, w)| p * w).sum();
        integrator.give([score, variance, weight]);
        below.clamp(0.0, 1.0)
    }
}

/// Returns the median, or 0 without values.
fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() { 0.0 } else { *values.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

#[derive(Clone, Copy)]
struct LogStudent {
    y: f64,
    scale: f64,
    df: f64,
    constant: f64,
}

impl Terms<2> for LogStudent {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let LogStudent { y, scale, df, constant } = *self;
        let r = (y - f) / scale;
        let value = constant - 0.5 * (df + 1.0) * ln_1p::<S>(r * r / df);
        [value, (df + 1.0) * r / (df + r * r) / scale]
    }
}
