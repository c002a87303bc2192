//! Every update rule for diagonal covariances, coordinate by coordinate.
//!
//! With `S = diag(c²)`, the data's `2B = diag(2b)` and `H_j = 2b_j + β`, the rules for full
//! covariances become (without the index j)
//!
//! ```text
//! ngd                 1/s₊ = (1 − ρ)/s + (ρ/β) H,                m₊ = m − (ρ/β) s₊ ĝ
//! sr-vn               c₊ = c (1 − (ρ/2β) (c²H − β)),             m₊ = m − (ρ/β) c² ĝ
//! bw-gd               c₊ = |1 − γ (H − β/c²)| c,                 m₊ = m − γ ĝ
//! prox-sgd            c′ = c − γ H c,  c₊ = ½ (c′ + √(c′² + 4γβ)),    m₊ = m − γ ĝ
//! sgd                 c₊ = max(c − γ (H c − β/c), 1e-10),        m₊ = m − γ ĝ
//! proj-sgd            c₊ = max(c − γ (H c − β/c), √(β/𝓜)),       m₊ = m − γ ĝ
//! projected-ngvi      ngd, then s clipped to its bounds and m to its lower ones
//! adam                on (m, log c), with ∂F/∂log c = c² H − β
//! ```
//!
//! Symbols are those of [`variational`](crate::variational). For gradients by samples,
//! `G = ∂F/∂c` of the data part replaces `2b c`. The sources are the papers
//! of the rules for full covariances. The source of projected-ngvi with `m ≥ lower` is Guilmeau,
//! Hendrikx & Forbes 2026.

use super::limits::{PRECISION_RANGE, TRUST_RADIUS, clip, needs_trust, usable};
use super::research::smoothness::Smoothness;
use super::{
    DataGradient, Factor, Guard, Matrix, MatrixRef, Normal, Rule, RuleOptions, StepInfo, UpdateRule, halved,
    is_sane,
};
use crate::hyper::AdamMoments;

/// The standard deviation of a coordinate of q, with the derivatives in this coordinate.
#[derive(Clone, Copy, Default)]
pub(super) struct Coordinate {
    pub mean: f64,
    /// The standard deviation c.
    pub deviation: f64,
    /// `ĝ`, including the contribution of the prior.
    pub gradient: f64,
    /// `H = 2b + β`.
    pub hessian: f64,
}

impl Coordinate {
    fn precision(&self) -> f64 {
        1.0 / (self.deviation * self.deviation)
    }

    /// Returns the new precision of a natural-gradient step, which may be negative.
    fn mixed(&self, rho: f64, beta: f64) -> f64 {
        (1.0 - rho) * self.precision() + rho / beta * self.hessian
    }

    /// Like [`Coordinate::mixed`], with the second-order term of the retraction; the result is
    /// positive.
    fn second_order(&self, rho: f64, beta: f64) -> f64 {
        let (plain, precision) = (self.mixed(rho, beta), self.precision());
        let change = plain - precision;
        plain + 0.5 * change * change / precision
    }

    /// Returns `c²H − β`, the derivative in log c.
    fn log_gradient(&self, beta: f64) -> f64 {
        self.deviation * self.deviation * self.hessian - beta
    }
}

/// The rule, with the standard deviations it carries and its buffers.
pub(crate) struct DiagonalRule {
    rule: &'static Rule,
    guard: Guard,
    bounds: (f64, f64),
    lower: Vec<f64>,
    smoothness: Smoothness,
    deviations: Vec<f64>,
    coordinates: Vec<Coordinate>,
    /// The result of a step before it is accepted: means and standard deviations.
    candidate: Vec<(f64, f64)>,
    /// The Hessian in m over β, if it differs from the precision (ngd, predictive log loss).
    mean_precision: Vec<f64>,
    moments: AdamMoments,
    /// `(m, log c)` and the gradient in it (adam).
    position: Vec<f64>,
    slope: Vec<f64>,
}

impl DiagonalRule {
    /// The range of standard deviations whose squares and inverse squares are safely finite.
    const DEVIATIONS: (f64, f64) = (1e-75, 1e75);

    /// Creates the rule of `options` for a diagonal `q` of dimension M.
    pub fn new(q: &Normal, options: &RuleOptions) -> Self {
        let m = q.dim();
        let flat = if options.rule.keeps_moments { 2 * m } else { 0 };
        let mut rule = DiagonalRule {
            rule: options.rule,
            guard: options.guard,
            bounds: usable(options.bounds.0, options.bounds.1),
            lower: options.lower.clone(),
            smoothness: Smoothness::new(options.smoothness, options.relative, 0),
            deviations: vec![1.0; m],
            coordinates: vec![Coordinate::default(); m],
            candidate: vec![(0.0, 1.0); m],
            mean_precision: Vec::new(),
            moments: AdamMoments::new(flat),
            position: vec![0.0; flat],
            slope: vec![0.0; flat],
        };
        rule.restart(q);
        rule
    }

    /// Gathers the coordinates; returns false if the gradient is not finite.
    fn gather(&mut self, q: &Normal, gradient: &DataGradient<'_>, beta: f64) -> bool {
        let data = gradient.path.unwrap_or(gradient.cov).diagonal();
        for (j, x) in self.coordinates.iter_mut().enumerate() {
            let (mean, c) = (q.mean[j], self.deviations[j]);
            let curvature = if gradient.path.is_some() { data[j] / c } else { 2.0 * data[j] };
            *x = Coordinate {
                mean,
                deviation: c,
                gradient: gradient.mean[j] + beta * mean,
                hessian: curvature + beta,
            };
        }
        let curvature = gradient.curvature.map_or(&[][..], MatrixRef::diagonal);
        self.coordinates.iter().all(|x| is_sane(&[x.gradient, x.hessian])) && is_sane(curvature)
    }

    /// Fills the candidate by `formula`; returns false if it is not valid.
    fn lands(&mut self, formula: impl Fn(&Coordinate) -> (f64, f64)) -> bool {
        self.candidate.iter_mut().zip(&self.coordinates).for_each(|(new, x)| *new = formula(x));
        self.is_valid()
    }

    fn is_valid(&self) -> bool {
        let (least, largest) = Self::DEVIATIONS;
        self.candidate.iter().all(|(mean, c)| is_sane(&[*mean]) && *c > least && *c < largest)
    }

    /// Fills the candidate by `formula`, a function of the coordinate and the step. The step is
    /// halved until the candidate is valid.
    pub(super) fn advance(
        &mut self,
        step: f64,
        formula: impl Fn(&Coordinate, f64) -> (f64, f64),
    ) -> StepInfo {
        halved(step, |step| self.lands(|x| formula(x, step)))
    }

    pub(super) fn natural(&mut self, gradient: &DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        let guard = self.guard;
        let trust = guard == Guard::Trust && needs_trust(gradient);
        let repairs = matches!(guard, Guard::Retraction | Guard::Projection)
            && self.coordinates.iter().any(|x| x.mixed(step, beta) <= 0.0);
        let noisy = trust && gradient.path.is_some();
        let mut info = self.advance(step, |x, rho| {
            let share = if trust { trusted(x, rho, beta) } else { rho };
            let precision = if noisy { x.second_order(share, beta) } else { guarded(x, share, beta, guard) };
            let moved = if noisy { share } else { rho };
            (x.mean - moved / beta * x.gradient / precision, precision.sqrt().recip())
        });
        info.rollbacks += usize::from(repairs);
        self.newton_means(gradient, beta, step, info)
    }

    /// Replaces the candidate's means by those of Newton's step, if the loss has a separate Hessian in m (positive semi-definite), which is
    /// averaged over the steps.
    fn newton_means(
        &mut self,
        gradient: &DataGradient<'_>,
        beta: f64,
        rho: f64,
        mut info: StepInfo,
    ) -> StepInfo {
        let Some(curvature) = gradient.curvature.map(MatrixRef::diagonal) else { return info };
        if info.step == 0.0 {
            return info;
        }
        if self.mean_precision.is_empty() {
            // The average starts with the curvature of this batch, because 1/s may be far smaller.
            self.mean_precision.extend(curvature.iter().map(|k| k.max(0.0) / beta + 1.0));
        }
        let precisions = self.mean_precision.iter_mut().zip(curvature);
        for ((new, x), (p, k)) in self.candidate.iter_mut().zip(&self.coordinates).zip(precisions) {
            *p = (1.0 - rho) * *p + rho / beta * k.max(0.0) + rho;
            new.0 = x.mean - rho / beta * x.gradient / *p;
        }
        info.step = rho;
        info
    }

    pub(super) fn square_root(&mut self, gradient: &DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        // As for full covariances, no standard deviation falls below half. If m takes Newton's
        // step, every coordinate has a separate limit.
        let scale = 0.5 * step / beta;
        let cut = |x: &Coordinate| match self.guard {
            Guard::None => 1.0,
            _ => (0.5 / (scale * x.log_gradient(beta).abs())).min(1.0),
        };
        let share = self.coordinates.iter().map(cut).fold(1.0, f64::min);
        let alone = gradient.curvature.is_some() && self.guard != Guard::None;
        let first = if alone { step } else { share * step };
        let mut info = self.advance(first, |x, rho| {
            let (c, scale) = (x.deviation, rho / beta);
            let change = 0.5 * scale * x.log_gradient(beta);
            let change = if alone { change.clamp(-CALM, CALM) } else { change };
            (x.mean - scale * c * c * x.gradient, (c * (1.0 - change)).abs())
        });
        info.rollbacks += usize::from(share < 1.0);
        self.newton_means(gradient, beta, step, info)
    }

    /// Takes a step of a rule whose steps are absolute, or in units of 1/𝓜. `deviation` computes
    /// the new standard deviation from the coordinate, the step γ and `√(β/𝓜)`.
    pub(super) fn descend(
        &mut self,
        gradient: &DataGradient<'_>,
        beta: f64,
        step: f64,
        deviation: impl Fn(&Coordinate, f64, f64) -> f64,
    ) -> StepInfo {
        if !self.smoothness.is_given() {
            self.smoothness.observe_diagonal(self.coordinates.iter().map(|x| x.hessian));
            let curvature = gradient.curvature.map_or(&[][..], MatrixRef::diagonal);
            self.smoothness.observe_diagonal(curvature.iter().map(|k| k + beta));
        }
        let floor = (beta / self.smoothness.value(beta)).sqrt();
        let unit = self.smoothness.gamma(1.0, beta);
        self.advance(step, |x, step| {
            let gamma = unit * step;
            (x.mean - gamma * x.gradient, deviation(x, gamma, floor))
        })
    }

    pub(super) fn projected_natural(
        &mut self,
        gradient: &DataGradient<'_>,
        beta: f64,
        step: f64,
    ) -> StepInfo {
        let (low, high) = self.bounds;
        let noisy = self.guard == Guard::Trust && gradient.path.is_some();
        let trust = noisy || gradient.curvature.is_some();
        let share = |x: &Coordinate| if trust { trusted(x, step, beta) } else { step };
        let precision = |x: &Coordinate| match noisy {
            true => x.second_order(share(x), beta),
            false => x.mixed(share(x), beta),
        };
        let valid = self.lands(|x| {
            let precision = precision(x);
            let variance = if precision > 0.0 { clip(1.0 / precision, low, high) } else { high };
            (x.mean, variance.sqrt())
        });
        // If every new precision is positive, the step in m uses the variances before the
        // projection.
        let definite = self.coordinates.iter().all(|x| precision(x) > 0.0);
        for (new, x) in self.candidate.iter_mut().zip(&self.coordinates) {
            let variance = if definite { 1.0 / precision(x) } else { new.1 * new.1 };
            let rho = if noisy { share(x) } else { step };
            new.0 = x.mean - rho / beta * variance * x.gradient;
        }
        let info =
            self.newton_means(gradient, beta, step, StepInfo { step, rollbacks: usize::from(!definite) });
        for (new, least) in self.candidate.iter_mut().zip(&self.lower) {
            new.0 = new.0.max(*least);
        }
        if !valid || self.candidate.iter().any(|(mean, _)| !is_sane(&[*mean])) {
            return StepInfo::REJECTED;
        }
        info
    }

    pub(super) fn adam(&mut self, _: &DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        let m = self.coordinates.len();
        for (j, x) in self.coordinates.iter().enumerate() {
            (self.position[j], self.position[m + j]) = (x.mean, x.deviation.ln());
            (self.slope[j], self.slope[m + j]) = (x.gradient, x.log_gradient(beta));
        }
        if !is_sane(&self.slope) {
            return StepInfo::REJECTED;
        }
        self.moments.step(&mut self.position, &self.slope, step);
        for (j, new) in self.candidate.iter_mut().enumerate() {
            *new = (self.position[j], self.position[m + j].exp());
        }
        if self.is_valid() {
            return StepInfo { step, rollbacks: 0 };
        }
        self.moments.reset();
        StepInfo::REJECTED
    }

    fn commit(&mut self, q: &mut Normal) {
        let Matrix::Diagonal(variances) = &mut q.cov else { return };
        q.log_det = 0.0;
        for (j, (mean, c)) in self.candidate.iter().enumerate() {
            (q.mean[j], self.deviations[j], variances[j]) = (*mean, *c, c * c);
            q.log_det += 2.0 * c.ln();
        }
    }
}

/// The largest relative change of a standard deviation in a step of SR-VN on the predictive log
/// loss. That loss is not convex in variances, and simultaneous steps in all coordinates overshoot:
/// with relative changes of up to a half they cycle around the optimum.
const CALM: f64 = 0.1;

/// Returns the largest share of ρ with which the precision changes by at most the trust radius.
fn trusted(x: &Coordinate, rho: f64, beta: f64) -> f64 {
    let change = (x.mixed(rho, beta) / x.precision() - 1.0).abs();
    if change > TRUST_RADIUS { rho * TRUST_RADIUS / change } else { rho }
}

/// Returns the new precision under a guard; it is not positive if the step has to be halved.
fn guarded(x: &Coordinate, rho: f64, beta: f64, guard: Guard) -> f64 {
    let plain = x.mixed(rho, beta);
    if plain > 0.0 {
        return plain;
    }
    match guard {
        Guard::Trust | Guard::Backtrack | Guard::None => plain,
        Guard::Retraction => x.second_order(rho, beta),
        Guard::Projection => PRECISION_RANGE.0,
    }
}

impl UpdateRule for DiagonalRule {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        if !self.gather(q, &gradient, beta) {
            return StepInfo::REJECTED;
        }
        let info = (self.rule.diagonal)(self, &gradient, beta, step);
        if info.step > 0.0 {
            self.commit(q);
        }
        info
    }

    fn restart(&mut self, q: &Normal) {
        self.deviations.iter_mut().zip(q.cov().diagonal()).for_each(|(c, s)| *c = s.sqrt());
        self.mean_precision.clear();
        self.moments.reset();
        self.smoothness.reset();
    }

    carries!(deviations, mean_precision, position, moments, smoothness);

    fn factor(&self) -> Option<Factor<'_>> {
        Some(Factor::Diagonal(&self.deviations))
    }
}
