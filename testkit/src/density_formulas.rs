//! Formulas of likelihoods that are also built in, and a wrong one.

use sparsegp::functions::ln_gamma;
use sparsegp::kernels::real::Derivatives;
use sparsegp::kernels::{Parameter, Real, Transform};
use sparsegp::likelihood::{self, DensityFormula, Observation, TargetKind};
use std::f64::consts::PI;

/// Class 1 with probability 1/(1 + e^{−f}).
#[derive(Clone, Debug, Default)]
pub struct Logit;

impl DensityFormula for Logit {
    const NAME: &'static str = "own-logit";
    const TARGET: TargetKind = TargetKind::Binary;

    fn log_density<D: Derivatives>(&self, _: &[Real<D>], at: Observation, f: Real<D>) -> Real<D> {
        -((1.0 - 2.0 * at.y) * f).softplus()
    }
}

/// A count with rate e^f.
#[derive(Clone, Debug, Default)]
pub struct Poisson;

impl DensityFormula for Poisson {
    const NAME: &'static str = "own-poisson";
    const TARGET: TargetKind = TargetKind::Count;

    fn log_density<D: Derivatives>(&self, _: &[Real<D>], at: Observation, f: Real<D>) -> Real<D> {
        let log_rate = f + at.exposure.ln();
        at.y * log_rate - log_rate.exp() - ln_gamma(at.y + 1.0)
    }
}

/// Student's t, with closed forms for mean and variance if `has_moments`.
#[derive(Clone, Debug)]
pub struct StudentT {
    pub scale: f64,
    pub df: f64,
    pub has_moments: bool,
}

impl DensityFormula for StudentT {
    const NAME: &'static str = "own-student-t";
    const TARGET: TargetKind = TargetKind::Real;

    fn parameters(&self) -> Vec<Parameter> {
        let (lower, upper) = likelihood::StudentT::DF_RANGE;
        let floor = Transform::Positive { lower: likelihood::StudentT::SCALE_FLOOR };
        vec![
            Parameter::new("scale", vec![self.scale], floor),
            Parameter::new("df", vec![self.df], Transform::Bounded { lower, upper }),
        ]
    }

    fn log_density<D: Derivatives>(&self, p: &[Real<D>], at: Observation, f: Real<D>) -> Real<D> {
        let (scale, df) = (p[0], p[1]);
        let half = 0.5 * (df + 1.0);
        let constant = ln_gamma(half) - ln_gamma(0.5 * df) - 0.5 * (PI * df).ln() - scale.ln();
        constant - half * (((at.y - f) / scale).powi(2) / df).ln_1p()
    }

    fn mean_and_variance(&self, p: &[f64], _: Observation, f: f64) -> Option<(f64, f64)> {
        self.has_moments.then_some((f, p[0] * p[0] * p[1] / (p[1] - 2.0)))
    }
}

/// Normal noise; the density lacks a factor, has a kink or is undefined for some targets if these are set.
#[derive(Clone, Debug, Default)]
pub struct Normal {
    pub lacks_scale: bool,
    pub has_kink: bool,
    pub undefined_above: Option<f64>,
}

impl DensityFormula for Normal {
    const NAME: &'static str = "own-normal";
    const TARGET: TargetKind = TargetKind::Real;

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::positive("noise_variance", vec![0.3])]
    }

    fn log_density<D: Derivatives>(&self, p: &[Real<D>], at: Observation, f: Real<D>) -> Real<D> {
        let residual = at.y - f;
        if self.has_kink {
            return -residual.abs() / p[0] - (2.0 * p[0]).ln();
        }
        let shape = if self.lacks_scale { Real::from(0.0) } else { 0.5 * (2.0 * PI * p[0]).ln() };
        let room = self.undefined_above.map_or(1.0, |end| end - at.y);
        -0.5 * residual * residual / p[0] - shape + 0.0 * room.ln()
    }
}
