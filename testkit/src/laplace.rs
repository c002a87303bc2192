//! A likelihood as a user would write it, outside the crate.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sparsegp::functions::normal;
use sparsegp::kernels::Parameter;
use sparsegp::likelihood::{
    LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction, TargetKind,
};
use sparsegp::quadrature::{Integrator, Resolution};

/// `p(y|f) = e^{−|y − f|/b}/2b`. Because of the kink, quadrature would need thousands of
/// nodes; both expectations are therefore in closed form.
#[derive(Clone, Debug)]
pub struct Laplace {
    scale: Parameter,
}

impl Laplace {
    pub fn new(scale: f64) -> Self {
        Laplace { scale: Parameter::positive("scale", vec![scale]) }
    }

    fn b(&self) -> f64 {
        self.scale.values[0]
    }
}

/// Returns `log φ(u)` of the standard normal density.
fn log_phi(u: f64) -> f64 {
    normal::log_density(u, 0.0, 1.0)
}

/// Returns mean and standard deviation of y − f.
fn residual(row: LatentRow) -> [f64; 2] {
    let LatentMarginal { mean, variance } = row.marginal;
    [row.at.y - mean, variance.max(1e-12).sqrt()]
}

impl OneFunction for Laplace {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::new("laplace", TargetKind::Real)
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            *value = -(at.y - f).abs() / self.b() - (2.0 * self.b()).ln();
            *first = if at.y == *f { 0.0 } else { (at.y - f).signum() / self.b() };
        }
    }

    fn curvature(&self, _: Observation, _: f64) -> f64 {
        0.0
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let b = self.b();
        own[0] += f.iter().zip(weights).map(|(f, w)| w * ((at.y - f).abs() / b - 1.0) / b).sum::<f64>();
    }

    fn resolution(&self, _: Observation) -> Resolution {
        Resolution { strip: 0.0, step: 0.01 * self.b(), concave: true, pole: None }
    }

    fn peak(&self, at: Observation) -> f64 {
        at.y
    }

    /// By `E|r| = 2sφ(m/s) + m(2Φ(m/s) − 1)` for `r ~ N(m, s²)`.
    fn expected_log(&self, row: LatentRow, own: &mut [f64], _: &mut Integrator) -> Local {
        let (b, [m, s]) = (self.b(), residual(row));
        let (phi, balance) = (log_phi(m / s).exp(), normal::cdf(m / s) - normal::cdf(-m / s));
        let distance = 2.0 * s * phi + m * balance;
        if let Some(own) = own.first_mut() {
            *own += (distance / b - 1.0) / b;
        }
        let value = -distance / b - (2.0 * b).ln();
        Local { value, mean: balance / b, variance: -phi / (b * s) }
    }

    /// By `2b E p = A + B` with `A = e^{k²/2 − m/b} Φ(m/s − k)`, `B = e^{k²/2 + m/b} Φ(−m/s − k)`, `k = s/b`; `∂_v = ½ ∂²_μ`.
    fn log_predictive(&self, row: LatentRow, own: &mut [f64], _: &mut Integrator) -> Local {
        let (b, [m, s]) = (self.b(), residual(row));
        let k = s / b;
        let above = 0.5 * k * k - m / b + normal::log_cdf_at(m / s - k).0;
        let below = 0.5 * k * k + m / b + normal::log_cdf_at(-m / s - k).0;
        let top = above.max(below);
        let total = top + ((above - top).exp() + (below - top).exp()).ln();
        let (above, below) = ((above - total).exp(), (below - total).exp());
        let phi = (log_phi(m / s) - total).exp();
        if let Some(own) = own.first_mut() {
            *own += ((above - below) * m / b - k * k + 2.0 * k * phi - 1.0) / b;
        }
        Local {
            value: total - (2.0 * b).ln(),
            mean: (above - below) / b,
            variance: 0.5 / (b * b) - phi / (s * b),
        }
    }

    fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
        (f, 2.0 * self.b() * self.b())
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        let tail = 0.5 * (-(at.y - f).abs() / self.b()).exp();
        if at.y < f { tail } else { 1.0 - tail }
    }

    fn sample(&self, _: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let u = random.random::<f64>() - 0.5;
        f - self.b() * u.signum() * (1.0 - 2.0 * u.abs()).ln()
    }

    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let n = y.len().max(1) as f64;
        let mean = y.iter().sum::<f64>() / n;
        let spread = y.iter().map(|y| (y - mean).abs()).sum::<f64>() / n;
        self.scale.start(|_| 0.3 * spread);
        mean
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.scale);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.scale);
    }
}
