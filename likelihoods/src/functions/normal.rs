//! The normal distribution function, its logarithm and hazard over slices, accurate in both tails.

use pulp::Simd;
use sparsegp_kernels::vector_math::{Pass, dispatch, exp, ln_1p, mul_add};
use statrs::distribution::{ContinuousCDF, Normal};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Half the width of a central 95 % interval of the standard normal distribution: its 97.5 % quantile.
pub const HALF_95: f64 = 1.959_963_984_540_054;

/// Chebyshev coefficients of `(1 + 2t) e^{t²} erfc(t)` in `s = (t − K)/(t + K)`, `t ≥ 0`, after
/// Shepherd & Laframboise 1981, computed here with 60 digits; the first omitted coefficient is
/// 4e-18.
const SCALED_ERFC: [f64; 26] = [
    1.177_578_934_567_401_7,
    -0.004_590_054_580_646_478,
    -0.084_249_133_366_517_92,
    0.059_209_939_998_191_89,
    -0.026_658_668_435_305_753,
    0.009_074_997_670_705_265,
    -0.002_413_163_540_417_608,
    0.000_490_775_836_525_808_6,
    -6.916_973_302_501_207e-05,
    4.139_027_986_073_01e-06,
    7.740_383_066_198_49e-07,
    -2.188_640_104_923_439_7e-07,
    1.076_499_946_567_091e-08,
    4.521_959_811_218_287e-09,
    -7.754_400_208_831_351e-10,
    -6.318_088_340_886_684e-11,
    2.868_795_010_930_67e-11,
    1.945_586_854_577_734_7e-13,
    -9.654_696_748_433_44e-13,
    3.252_548_148_148_74e-14,
    3.347_811_948_286_805_6e-14,
    -1.864_562_880_419_313e-15,
    -1.250_795_053_068_864_8e-15,
    7.418_235_256_624_044e-17,
    5.068_148_904_796_111e-17,
    -2.237_056_659_435_999_5e-18,
];
/// The `K` of the map from `[0, ∞)` to `[−1, 1)`.
const MAP_CENTRE: f64 = 3.75;
/// `√(2/π)` and `1/√(2π)`.
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
const INV_SQRT_2PI: f64 = 0.398_942_280_401_432_7;

/// `e^{t²} erfc(t)` for `t ≥ 0`.
#[inline(always)]
fn scaled_erfc<S: Simd>(t: f64) -> f64 {
    let s = (t - MAP_CENTRE) / (t + MAP_CENTRE);
    let (mut b, mut before) = (0.0, 0.0);
    for &c in SCALED_ERFC[1..].iter().rev() {
        let next = mul_add::<S>(2.0 * s, b, c - before);
        before = b;
        b = next;
    }
    mul_add::<S>(s, b, SCALED_ERFC[0] - before) / mul_add::<S>(2.0, t, 1.0)
}

/// `log Φ(x)` and `φ(x)/Φ(x)`; `x` beyond ±1e150 counts as ±1e150, where squares are still finite.
#[inline(always)]
pub(crate) fn log_cdf_and_hazard<S: Simd>(x: f64) -> (f64, f64) {
    let x = if x < -1e150 { -1e150 } else { x };
    let x = if x > 1e150 { 1e150 } else { x };
    let t = x.abs() * FRAC_1_SQRT_2;
    let square = 0.5 * x * x;
    let scaled = scaled_erfc::<S>(t);
    let gauss = exp::<S>(-square);
    let tail = 0.5 * scaled * gauss;
    // log u for u in (0, ½] and log(1 − p) for p in [0, ½], both computed as log(1 + u) with u ≥ 0.
    let below = x < 0.0;
    let log = -ln_1p::<S>(if below { 2.0 / scaled - 1.0 } else { tail / (1.0 - tail) });
    let value = if below { log - square } else { log };
    let hazard = if below { SQRT_2_OVER_PI / scaled } else { INV_SQRT_2PI * gauss / (1.0 - tail) };
    (value, hazard)
}

struct LogCdfInPlace<'a> {
    x: &'a mut [f64],
    value: &'a mut [f64],
}

impl Pass for LogCdfInPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        for (x, value) in self.x.iter_mut().zip(self.value) {
            (*value, *x) = log_cdf_and_hazard::<S>(*x);
        }
    }
}

/// Writes `log Φ(x_k)` and replaces `x_k` by its hazard.
pub(crate) fn log_cdf_in_place(x: &mut [f64], value: &mut [f64]) {
    dispatch(LogCdfInPlace { x, value });
}

struct UpperTails<'a> {
    z: &'a mut [f64],
    density: &'a mut [f64],
}

impl Pass for UpperTails<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        for (z, density) in self.z.iter_mut().zip(self.density) {
            let gauss = exp::<S>(-0.5 * *z * *z);
            *density = INV_SQRT_2PI * gauss;
            *z = 0.5 * scaled_erfc::<S>(*z * FRAC_1_SQRT_2) * gauss;
        }
    }
}

/// Replaces `z_k ≥ 0` by `Φ(−z_k)`, to full relative accuracy, and writes `φ(z_k)`.
pub fn upper_tails_in_place(z: &mut [f64], density: &mut [f64]) {
    dispatch(UpperTails { z, density });
}

/// Writes `log Φ(s x_k)` and its derivative in `x_k` for a sign s.
pub(crate) fn log_cdf(sign: f64, x: &[f64], value: &mut [f64], derivative: &mut [f64]) {
    derivative.iter_mut().zip(x).for_each(|(s, x)| *s = sign * x);
    log_cdf_in_place(derivative, value);
    derivative.iter_mut().for_each(|hazard| *hazard *= sign);
}

/// `log Φ(x)` and `φ(x)/Φ(x)`.
pub fn log_cdf_at(x: f64) -> (f64, f64) {
    log_cdf_and_hazard::<pulp::Scalar>(x)
}

/// `Φ(x)`, to full relative accuracy in the lower tail.
pub fn cdf(x: f64) -> f64 {
    log_cdf_at(x).0.exp()
}

/// The x with `Φ(x) = p`: infinite if p is outside (0, 1).
pub fn quantile(p: f64) -> f64 {
    if p > 0.5 { -lower_quantile(1.0 - p) } else { lower_quantile(p) }
}

/// Computes a quantile for p ≤ ½: that of a library, with an error of about 1e-11, and a step of
/// Newton's method on `log Φ`.
fn lower_quantile(p: f64) -> f64 {
    if p.is_nan() || p <= 0.0 {
        return if p <= 0.0 { f64::NEG_INFINITY } else { f64::NAN };
    }
    let x = Normal::standard().inverse_cdf(p);
    let (log, hazard) = log_cdf_at(x);
    x - (log - p.ln()) / hazard
}

/// The continuous ranked probability score of z under N(0, 1), `z (2Φ(z) − 1) + 2φ(z) − 1/√π` (Gneiting & Raftery 2007, eq. 21).
pub(crate) fn crps(z: f64) -> f64 {
    let size = z.abs();
    size * (1.0 - 2.0 * cdf(-size)) + 2.0 * log_density(size, 0.0, 1.0).exp() - PI.sqrt().recip()
}

/// `log N(y; mean, variance)`.
pub fn log_density(y: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((2.0 * PI * variance).ln() + (y - mean).powi(2) / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_cdf_agrees_with_high_precision() {
        // (x, log Φ(x), φ(x)/Φ(x)) by mpmath with 50 digits.
        let want = [
            (-300.5, -45156.74939736104, 300.5033277133208),
            (-38.25, -736.0950144272731, 38.27610817392461),
            (-12.5, -81.57596787074388, 12.579007304406977),
            (-5.125, -15.720871921995858, 5.307499863044804),
            (-1.75, -3.217397995800274, 2.1537477466092247),
            (-0.5, -1.1759117615936185, 1.1410777703680646),
            (-0.0078125, -0.6994000990932064, 0.8028647969001829),
            (0.25, -0.5129840754094305, 0.6458393710168173),
            (1.5, -0.06914345561223398, 0.13878975045885075),
            (3.75, -8.842119423938442e-05, 0.00035262686067715534),
            (8.5, -9.479534822203318e-18, 8.16623563166955e-17),
            (20.25, -1.77619986494957e-91, 3.6055338157275847e-90),
        ];
        for (x, log, hazard) in want {
            let (got_log, got_hazard) = log_cdf_at(x);
            assert!((got_log / log - 1.0).abs() < 4e-15, "log Φ({x}) = {got_log:e}, want {log:e}");
            assert!(
                (got_hazard / hazard - 1.0).abs() < 4e-15,
                "hazard({x}) = {got_hazard:e}, want {hazard:e}"
            );
        }
        assert!((log_cdf_at(f64::NEG_INFINITY).0 / -0.5e300 - 1.0).abs() < 1e-15);
        assert_eq!(log_cdf_at(f64::INFINITY), (-0.0, 0.0));
        assert!(log_cdf_at(f64::NAN).0.is_nan());
    }

    #[test]
    fn upper_tails_agree_with_the_distribution_function() {
        let x = [0.0, 0.25, 1.5, 3.75, 8.5, 37.0];
        let (mut tail, mut density) = (x, [0.0; 6]);
        upper_tails_in_place(&mut tail, &mut density);
        for ((x, tail), density) in x.iter().zip(tail).zip(density) {
            assert!((tail / cdf(-x) - 1.0).abs() < 1e-12, "Φ(−{x}) = {tail:e}");
            assert!((density / log_density(*x, 0.0, 1.0).exp() - 1.0).abs() < 1e-12, "φ({x}) = {density:e}");
        }
    }

    #[test]
    fn quantiles_invert_the_distribution_function() {
        for p in [1e-300, 1e-20, 1e-3, 0.3, 0.5, 0.9, 0.999_999] {
            assert!((cdf(quantile(p)) / p - 1.0).abs() < 1e-13, "quantile of {p}");
        }
        assert_eq!((quantile(0.0), quantile(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(quantile(f64::NAN).is_nan());
    }
}
