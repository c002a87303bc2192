//! An own likelihood: geometric counts of mean m = e·exp(f), e the exposure, with `p(y) = m^y / (1 + m)^(y + 1)`.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sparsegp::likelihood::{LikelihoodKind, Observation, OneFunction, TargetKind};
use sparsegp::quadrature::Resolution;

#[derive(Clone, Copy, Debug)]
pub struct Geometric;

/// The mean, the probability m/(1 + m) of one more, and log(1 + m).
fn terms(at: Observation, f: f64) -> (f64, f64, f64) {
    let u = f + at.exposure.ln();
    (u.exp(), 1.0 / (1.0 + (-u).exp()), u.max(0.0) + (-u.abs()).exp().ln_1p())
}

impl OneFunction for Geometric {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::new("geometric", TargetKind::Count)
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        for ((&f, value), first) in f.iter().zip(value).zip(first) {
            let (_, more, log) = terms(at, f);
            *value = at.y * (f + at.exposure.ln()) - (at.y + 1.0) * log;
            *first = at.y - (at.y + 1.0) * more;
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        let (mean, more, _) = terms(at, f);
        -(at.y + 1.0) * more / (1.0 + mean)
    }

    /// log(1 + m) is singular at f = ±iπ.
    fn resolution(&self, _: Observation) -> Resolution {
        Resolution { strip: 3.1, step: 0.28, concave: true, pole: None }
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        let (mean, ..) = terms(at, f);
        (mean, mean + mean * mean)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        let (_, more, log) = terms(at, f);
        let log_more = more.ln().min(f + at.exposure.ln() - log);
        -((at.y.floor() + 1.0).max(0.0) * log_more).exp_m1()
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let (_, more, _) = terms(at, f);
        let u: f64 = random.random();
        ((1.0 - u).ln() / more.ln()).floor()
    }

    /// The log mean of the counts, from which the mean of f starts.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        let exposed = if exposure.is_empty() { y.len().max(1) as f64 } else { exposure.iter().sum() };
        ((y.iter().sum::<f64>() + 0.5) / exposed).ln()
    }
}
