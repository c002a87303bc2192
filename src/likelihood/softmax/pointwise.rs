//! `φ(a; v) = E exp(−exp(a + √v ε))` and its derivatives at any a, by the trapezoidal rule around
//! the integrand's mode.
//!
//! With `u = a + √v ε` the logarithm of the integrand is `−(u − a)²/2v − e^u`, whose mode
//! `u = a − w`, `w e^w = v e^a`, and whose curvature there, `−(1/v + r)`, `r = e^u`, place the
//! nodes. All terms are positive, so tiny results keep their digits. Nodes at distances of h have
//! the relative error `e^{−2π²/h²(1/v + r)}` or, as `exp(−e^u)` is bounded for |Im u| ≤ π/2 only,
//! `e^{−π²/h}`.

use pulp::Simd;
use sparsegp_kernels::vector_math::{Pass, dispatch, exp};
use std::f64::consts::TAU;

/// The maximum distance of nodes.
const FARTHEST_APART: f64 = 0.17;

/// The number of nodes per width of the mode.
const RESOLVED: f64 = 1.35;

/// The number of widths of the mode beyond which the integrand is negligible: `e^{−45}`.
const REACH: f64 = 9.5;

/// The number of nodes that are summed together.
const LANES: usize = 16;

/// `log φ`, `φ′/φ` and `φ″/φ` for v ≥ 0.
pub(super) fn curve(a: f64, v: f64) -> [f64; 3] {
    if v == 0.0 {
        let rate = a.exp();
        return [-rate, -rate, rate * (rate - 1.0)];
    }
    let w = product_log(v.ln() + a);
    let (sd, rate) = (v.sqrt(), w / v);
    let width = (1.0 / v + rate).recip().sqrt();
    // The fall is Δ²/2v + r (e^{±Δ} − 1 ∓ Δ): to the left, the linear term finally exceeds the exponential.
    let line = if rate > 200.0 { 13.0 / rate.sqrt() } else { 1.0 + 46.0 / rate };
    let (left, right) = ((REACH * sd).min(line), (REACH * width).min(1.0 + (60.0 / rate).ln_1p()));
    let h = FARTHEST_APART.min(width / RESOLVED);
    let (from, to) = ((left / h).ceil(), (right / h).ceil());
    let [sum, first, second] = dispatch(Sums { sd, rate, h, from: -from, count: from + to });
    let log = (sum * h / (sd * TAU.sqrt())).ln() - 0.5 * (w / sd).powi(2) - rate;
    [log, -first / sum, second / sum]
}

/// Returns the w with `w + log w = x`.
fn product_log(x: f64) -> f64 {
    let mut w = if x > 1.0 { x - x.ln() } else { x.exp() };
    // Newton's steps.
    for _ in 0..6 {
        if w > 0.0 {
            w *= (1.0 + x - w.ln()) / (1.0 + w);
        }
    }
    w
}

/// Sums over `u = mode + kh`, k = `from`, …, of the integrand relative to the mode, times 1, `e^u` and `e^{2u} − e^u`.
struct Sums {
    sd: f64,
    /// `e^u` at the mode.
    rate: f64,
    h: f64,
    from: f64,
    count: f64,
}

impl Pass for Sums {
    type Output = [f64; 3];

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> [f64; 3] {
        let Sums { sd, rate, h, from, count } = self;
        let [mut terms, mut firsts, mut seconds] = [[0.0; LANES]; 3];
        for block in 0..(count as usize).div_ceil(LANES) {
            let sums = terms.iter_mut().zip(&mut firsts).zip(&mut seconds);
            for (l, ((sum, first), second)) in sums.enumerate() {
                let distance = (from + (block * LANES + l) as f64) * h;
                let growth = exp::<S>(if distance < 700.0 { distance } else { 700.0 });
                let z = distance / sd;
                let r = rate * growth;
                // e^Δ − 1 − Δ, without the loss of digits for small Δ.
                let d = distance;
                let near =
                    d * d * (1.0 / 2.0 + d * (1.0 / 6.0 + d * (1.0 / 24.0 + d * (1.0 / 120.0 + d / 720.0))));
                let fall = 0.5 * z * z + rate * if d.abs() < 0.01 { near } else { growth - 1.0 - d };
                let term = exp::<S>(if fall > 700.0 { -700.0 } else { -fall });
                *sum += term;
                *first += r * term;
                *second += r * (r - 1.0) * term;
            }
        }
        [terms, firsts, seconds].map(|lanes| lanes.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::{Expectation, LatentMarginal, Observation, OneFunction, PoissonExp, Row};
    use crate::quadrature::Integrator;

    #[test]
    fn curves_are_those_of_quadrature() {
        let mut integrator = Integrator::default();
        for a in [-300.0, -1.0, 20.0] {
            let rate = f64::exp(a);
            assert_eq!(curve(a, 0.0), [-rate, -rate, rate * (rate - 1.0)]);
        }
        // To leading orders in 1/w: −(w²/2 + w)/v − log(1 + w)/2.
        assert!((curve(400.0, 1e-9)[0] / -7.007003599151857e13 - 1.0).abs() < 1e-14);
        for v in [1e-5, 0.01, 0.3, 1.0, 7.0, 60.0, 399.0, 3e3] {
            for a in [-300.0, -60.0, -20.0, -5.0, -1.0, 0.0, 0.7, 3.0, 6.0, 20.0, 90.0, 400.0] {
                let [log, first, second] = curve(a, v);
                let row = Row::new(Observation::of(0.0), LatentMarginal::new(a, v));
                let of = Expectation::LogPredictive;
                let local = PoissonExp.expectation(of, row, &mut [], &mut integrator);
                let close = |got: f64, want: f64, scale: f64| {
                    assert!(
                        (got - want).abs() <= 1e-9 * scale + 1e-12 || (got == want),
                        "v {v} a {a}: {got:e}, want {want:e}"
                    );
                };
                close(log, local.value, local.value.abs());
                close(first, local.mean, local.mean.abs());
                // The derivative by quadrature divides by the root of the variance.
                if v > 1e-6 {
                    close(second, 2.0 * local.variance, local.mean.abs() * (1.0 + local.mean.abs()));
                }
            }
        }
    }
}
