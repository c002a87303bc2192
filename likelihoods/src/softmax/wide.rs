//! `φ(a; v) = E exp(−exp(a + √v ε))` and its derivatives for large v, by a series in `1/√v`.
//!
//! With E exponentially distributed, `exp(−e^u) = P(log E > u)`, so −φ′ is the density of `log E − √v ε` at a. The moments of log E come
//! from `Γ(1 + z) = E e^{z log E} = Σ_k γ_k z^k`, and the Taylor series of the normal density gives, with `x = a/√v` and Hermite
//! polynomials,
//!
//! ```text
//! −φ′ = N(a; 0, v) Σ_k γ_k h_k,   h_k = He_k(x)/v^{k/2},   h_{k+1} = (x/√v) h_k − (k/v) h_{k−1}
//! φ = Φ(−x) + N Σ_{k≥1} γ_k h_{k−1},   φ″ = N Σ_k γ_k h_{k+1}
//! ```
//!
//! γ_k tends to ±1, so the terms fall like powers of `|x|/√v`.

use crate::functions::normal;
use std::f64::consts::PI;
use std::sync::LazyLock;

/// The number of terms of the series.
const TERMS: usize = 80;

/// With `|x|/√v` at most this and v at least [`LEAST`] the last term is below 1e-17 of the sum.
const RATIO: f64 = 0.6;

/// The sum ends before the first term below this.
const NEGLIGIBLE: f64 = 1e-18;

/// The maximum |x|, so that densities do not underflow.
const FARTHEST: f64 = 36.0;

/// See [`RATIO`].
const LEAST: f64 = 400.0;

/// `γ_k`, from `log Γ(1 + z) = −γz + Σ_{k≥2} ζ(k)(−z)^k/k` and `n γ_n = Σ_j j c_j γ_{n−j}` for the exponential of `Σ_j c_j z^j`.
static COEFFICIENTS: LazyLock<[f64; TERMS]> = LazyLock::new(|| {
    const EULER: f64 = 0.577_215_664_901_532_9;
    let log = |j: usize| match j {
        1 => -EULER,
        j if j.is_multiple_of(2) => zeta(j) / j as f64,
        j => -zeta(j) / j as f64,
    };
    let mut all = [1.0; TERMS];
    for n in 1..TERMS {
        all[n] = (1..=n).map(|j| j as f64 * log(j) * all[n - j]).sum::<f64>() / n as f64;
    }
    all
});

/// Returns `ζ(k)` for k ≥ 2: a sum, and Euler–Maclaurin terms for the rest.
fn zeta(k: usize) -> f64 {
    const N: i32 = 20;
    let (k, n) = (k as i32, f64::from(N));
    let sum: f64 = (1..N).rev().map(|j| f64::from(j).powi(-k)).sum();
    let s = f64::from(k);
    let last = n.powi(-k);
    let (first, third) = (s / 12.0, s * (s + 1.0) * (s + 2.0) / 720.0);
    let fifth = third * (s + 3.0) * (s + 4.0) / 42.0;
    let seventh = fifth * (s + 5.0) * (s + 6.0) / 40.0;
    let bernoulli = first / n - third / n.powi(3) + fifth / n.powi(5) - seventh / n.powi(7);
    sum + last * (n / (s - 1.0) + 0.5 + bernoulli)
}

/// Returns φ, φ′ and φ″ at a, if the series has all digits there.
pub(super) fn curve(a: f64, v: f64) -> Option<[f64; 3]> {
    let sd = v.sqrt();
    let x = a / sd;
    let ratio = x / sd;
    if !(v >= LEAST && ratio.abs() <= RATIO && x.abs() <= FARTHEST) {
        return None;
    }
    let density = (-0.5 * x * x).exp() / (sd * (2.0 * PI).sqrt());
    let gamma = &*COEFFICIENTS;
    // h_{k−1}, h_k and h_{k+1}.
    let (mut before, mut now) = (0.0, 1.0);
    let mut sums = [0.0; 3];
    for (k, gamma) in gamma.iter().enumerate() {
        let next = ratio * now - k as f64 / v * before;
        sums[0] += gamma * before;
        sums[1] -= gamma * now;
        sums[2] += gamma * next;
        if now.abs().max(next.abs()) < NEGLIGIBLE {
            break;
        }
        (before, now) = (now, next);
    }
    Some([normal::cdf(-x) + density * sums[0], density * sums[1], density * sums[2]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quadrature::Integrator;
    use crate::{Expectation, LatentMarginal, Observation, OneFunction, Poisson, Row};

    #[test]
    fn the_coefficients_are_those_of_the_gamma_function() {
        assert!((zeta(2) - PI * PI / 6.0).abs() < 1e-15 && (zeta(4) - PI.powi(4) / 90.0).abs() < 1e-15);
        let at = |z: f64| COEFFICIENTS.iter().rev().fold(0.0, |sum, c| sum * z + c);
        // Γ(3/2) and Γ(5/4).
        assert!((at(0.5) - 0.886_226_925_452_758).abs() < 1e-12);
        assert!((at(0.25) - 0.906_402_477_055_477).abs() < 1e-15);
    }

    #[test]
    fn curves_are_those_of_quadrature() {
        let mut integrator = Integrator::default();
        for v in [400.0, 2e3, 1e5] {
            for x in [-7.0, -4.0, -1.0, 0.0, 0.3, 2.0, 5.0, 6.7] {
                let a = x * f64::sqrt(v);
                let Some([value, first, second]) = curve(a, v) else { continue };
                let row = Row::new(Observation::of(0.0), LatentMarginal::new(a, v));
                let of = Expectation::LogPredictive;
                let local = Poisson::Exp.expectation(of, row, &mut [], &mut integrator);
                let close = |got: f64, want: f64, scale: f64| {
                    assert!((got - want).abs() < 2e-10 * scale, "v {v} x {x}: {got}, want {want}");
                };
                close(value.ln(), local.value, 1.0);
                let slope = (first / value).abs();
                close(first / value, local.mean, slope);
                close(second / value, 2.0 * local.variance, slope);
            }
        }
        assert!(curve(0.0, 399.0).is_none() && curve(1e3, 1e3).is_none() && curve(5e7, 1e8).is_none());
    }
}
