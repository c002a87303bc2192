//! Element-wise functions over slices that compile to the widest vector instructions found at run
//! time.
//!
//! Covariance functions spend their time in `exp`, and no maintained crate offers one that picks AVX-512, AVX2 or
//! NEON at run time. The bodies here are branch-free; `dispatch` compiles each of them once per instruction set,
//! so no `unsafe` and no compiler flag is needed.

use pulp::{Arch, Simd, WithSimd};

/// A loop to be compiled once per instruction set. `run` must be `#[inline(always)]`.
pub trait Pass {
    /// The result of the loop.
    type Output;
    /// Runs the loop. Element-wise formulae are plain loops that the compiler vectorises;
    /// reductions and loops over several arrays use the vectors of `simd`, because the compiler
    /// would not vectorise them.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

struct Vectorised<P>(P);

impl<P: Pass> WithSimd for Vectorised<P> {
    type Output = P::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> P::Output {
        self.0.run(simd)
    }
}

/// Runs `pass` with the best instruction set of this machine.
#[inline]
pub fn dispatch<P: Pass>(pass: P) -> P::Output {
    Arch::new().dispatch(Vectorised(pass))
}

/// `a·b + c`, fused if that is one instruction (WebAssembly has vectors, but would call a library
/// function for the fused form).
#[inline(always)]
pub fn mul_add<S: Simd>(a: f64, b: f64, c: f64) -> f64 {
    if S::IS_SCALAR || cfg!(target_family = "wasm") { a * b + c } else { a.mul_add(b, c) }
}

/// Adding this to `|t| < 2^51` rounds `t` to the nearest integer and leaves it in the low mantissa bits.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// `ln 2` cut after 26 bits, so that its product with an integer below 2^27 is exact.
const LN2_HIGH: f64 = 0.693_147_167_563_438_4;
const LN2_LOW: f64 = 1.299_650_689_388_988_9e-8;
/// `(eʳ − 1 − r) / r²` interpolated at the ten Chebyshev nodes of `|r| ≤ ½ ln 2`; the error in `eʳ` is 1.6e-17.
const EXP_TAIL: [f64; 10] = [
    0.500_000_000_000_000_1,
    0.166_666_666_666_666_69,
    0.041_666_666_666_624_13,
    0.008_333_333_333_330_062,
    0.001_388_888_891_721_371_7,
    0.000_198_412_698_630_536_18,
    2.480_152_129_595_437_6e-5,
    2.755_726_845_999_706_4e-6,
    2.762_008_844_540_974_6e-7,
    2.510_038_549_551_032e-8,
];

/// `eˣ` to 2 units in the last place, gradual underflow and overflow included; NaN stays NaN.
#[inline(always)]
pub fn exp<S: Simd>(x: f64) -> f64 {
    // Beyond these the result is 0 or ∞; comparisons written so that NaN passes through.
    let x = if x < -746.0 { -746.0 } else { x };
    let x = if x > 710.0 { 710.0 } else { x };
    let n = mul_add::<S>(x, std::f64::consts::LOG2_E, ROUNDER) - ROUNDER;
    let r = mul_add::<S>(n, -LN2_HIGH, x);
    let r = mul_add::<S>(n, -LN2_LOW, r);
    let mut tail = EXP_TAIL[9];
    for &coefficient in EXP_TAIL[..9].iter().rev() {
        tail = mul_add::<S>(tail, r, coefficient);
    }
    let mantissa = 1.0 + mul_add::<S>(r * r, tail, r);
    // 2ⁿ in two factors, both normal numbers: n = 1024 and denormal results need that.
    let tiny = n < -1000.0;
    let (shifted, rest) = if tiny { (n + 999.0, TWO_POW_MINUS_999) } else { (n - 1.0, 2.0) };
    let power = f64::from_bits((shifted + (ROUNDER + 1023.0)).to_bits() << 52);
    mantissa * power * rest
}

/// `2^−999`.
const TWO_POW_MINUS_999: f64 = f64::from_bits((1023 - 999) << 52);

/// `ln(1 + u)` for `u ≥ 0` to a few units in the last place; NaN stays NaN.
#[inline(always)]
pub fn ln_1p<S: Simd>(u: f64) -> f64 {
    const EXPONENT_OFFSET: f64 = 4_503_599_627_370_496.0 + 1023.0;
    const MANTISSA: u64 = (1 << 52) - 1;
    let u = if u > f64::MAX { f64::MAX } else { u };
    let y = 1.0 + u;
    // The rounding error of 1 + u, as a first-order correction of the logarithm.
    let correction = (u - (y - 1.0)) / y;
    // y = 2ᵉ·m; the exponent becomes a float by planting it in the mantissa of 2^52.
    let exponent = f64::from_bits((y.to_bits() >> 52) | 0x4330_0000_0000_0000) - EXPONENT_OFFSET;
    let m = f64::from_bits((y.to_bits() & MANTISSA) | 0x3ff0_0000_0000_0000);
    let high = m > std::f64::consts::SQRT_2;
    let m = if high { 0.5 * m } else { m };
    let exponent = if high { exponent + 1.0 } else { exponent };
    // ln m = 2 artanh s with |s| ≤ 0.1716: the first term left out is 5e-18 of the sum.
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let mut series = 2.0 / 21.0;
    for odd in [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        series = mul_add::<S>(series, s2, 2.0 / odd);
    }
    let low = mul_add::<S>(exponent, LN2_LOW, correction);
    let log_m = mul_add::<S>(s * s2, series, low) + 2.0 * s;
    let result = mul_add::<S>(exponent, LN2_HIGH, log_m);
    // The bit operations above lose a NaN; this comparison restores it.
    if u >= 0.0 { result } else { f64::NAN }
}

/// Beyond this many cycles a phase has no digits worth using; the phase then counts as a whole
/// number of cycles.
const MOST_CYCLES: f64 = 1e14;

/// `(sin 2πt, cos 2πt)` to a few `ε`; NaN stays NaN, and beyond 1e14 cycles, where `t` has hardly a digit left, the phase is 0.
///
/// The period is 1, so the reduction to `|g| ≤ 1/8` of a cycle is exact; there the Taylor series in the angle are cut below `ε/2`.
#[inline(always)]
pub fn sin_cos_cycles<S: Simd>(t: f64) -> (f64, f64) {
    let t = if t.abs() > MOST_CYCLES { 0.0 } else { t };
    let shifted = mul_add::<S>(t, 4.0, ROUNDER);
    let quarter = shifted.to_bits();
    let a = mul_add::<S>(shifted - ROUNDER, -0.25, t) * std::f64::consts::TAU;
    let a2 = a * a;
    // 1/(n (n − 1)) factors of sin a = a (1 − a²/6 (1 − a²/20 (…))) and cos a = 1 − a²/2 (1 − a²/12 (…)).
    let (mut sine, mut cosine) = (1.0, 1.0);
    for n in [17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        sine = mul_add::<S>(sine * a2, -1.0 / (n * (n - 1.0)), 1.0);
    }
    for n in [18.0, 16.0, 14.0, 12.0, 10.0, 8.0, 6.0, 4.0, 2.0] {
        cosine = mul_add::<S>(cosine * a2, -1.0 / (n * (n - 1.0)), 1.0);
    }
    let sine = sine * a;
    let (first, second) = if quarter & 1 == 0 { (sine, cosine) } else { (cosine, sine) };
    (negated_in(quarter, first), negated_in(quarter.wrapping_add(1), second))
}

/// Negates a number in the second half of a cycle. A closure would not be compiled for vectors.
#[inline(always)]
fn negated_in(quarter: u64, value: f64) -> f64 {
    f64::from_bits(value.to_bits() ^ ((quarter & 2) << 62))
}

/// The number of `f64` values in the widest vector.
const WIDEST: usize = 8;

/// Replaces every value by the result of `one`. A remainder that does not fill a vector is padded
/// to one: in columns of 100, computing the exponentials of the last four one by one took an eighth
/// of the time.
#[inline(always)]
pub(crate) fn map_in_place(values: &mut [f64], one: impl Fn(f64) -> f64) {
    let (whole, rest) = values.split_at_mut(values.len() / WIDEST * WIDEST);
    let mut vector = [0.0; WIDEST];
    vector[..rest.len()].copy_from_slice(rest);
    let last = if rest.is_empty() { 0 } else { WIDEST };
    // One loop for both parts: the compiler would unroll a loop of known length into scalar code.
    for part in [whole, &mut vector[..last]] {
        for value in part {
            *value = one(*value);
        }
    }
    rest.copy_from_slice(&vector[..rest.len()]);
}

struct ExpInPlace<'a>(&'a mut [f64]);

impl Pass for ExpInPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        map_in_place(self.0, exp::<S>);
    }
}

/// Replaces every value by its exponential, to 2 units in the last place.
pub fn exp_in_place(values: &mut [f64]) {
    dispatch(ExpInPlace(values));
}

struct Dot<'a>(&'a [f64], &'a [f64]);

impl Pass for Dot<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f64 {
        let (a, a_rest) = S::as_simd_f64s(self.0);
        let (b, b_rest) = S::as_simd_f64s(self.1);
        let mut sum = simd.splat_f64s(0.0);
        for (&a, &b) in a.iter().zip(b) {
            sum = simd.mul_add_e_f64s(a, b, sum);
        }
        let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
        simd.reduce_sum_f64s(sum) + rest
    }
}

/// `Σ a_i b_i` over two slices of equal length.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    dispatch(Dot(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::Scalar;

    struct Log1pInPlace<'a>(&'a mut [f64]);

    impl Pass for Log1pInPlace<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, _simd: S) {
            for value in self.0 {
                *value = ln_1p::<S>(*value);
            }
        }
    }

    /// Distance in representable numbers between two finite non-negative values.
    fn ulps(a: f64, b: f64) -> u64 {
        a.to_bits().abs_diff(b.to_bits())
    }

    #[test]
    fn exp_is_within_two_ulps_over_the_whole_range() {
        let xs: Vec<f64> = (0..1_000_003).map(|i| -746.0 + 1456.0 * i as f64 / 1_000_002.0).collect();
        let mut got = xs.clone();
        exp_in_place(&mut got);
        let scalar = xs.iter().map(|&x| exp::<Scalar>(x));
        for ((&x, &vector), scalar) in xs.iter().zip(&got).zip(scalar) {
            let want = x.exp();
            assert!(ulps(vector, want) <= 2, "exp({x}) = {vector:e}, want {want:e}");
            assert!(ulps(scalar, want) <= 2, "exp({x}) = {scalar:e} without FMA, want {want:e}");
        }
    }

    #[test]
    fn exp_at_the_edges() {
        let mut values =
            [f64::NEG_INFINITY, -1e300, -745.2, 0.0, -0.0, 709.8, f64::INFINITY, 1e300, f64::NAN];
        exp_in_place(&mut values);
        assert_eq!(values[..8], [0.0, 0.0, 0.0, 1.0, 1.0, f64::INFINITY, f64::INFINITY, f64::INFINITY]);
        assert!(values[8].is_nan());
        assert_eq!(exp::<Scalar>(-745.0), (-745.0_f64).exp(), "the smallest denormal");
    }

    #[test]
    fn ln_1p_is_accurate_from_denormals_to_the_largest_number() {
        let mut xs: Vec<f64> = (0..40_000).map(|i| 10f64.powf(-320.0 + i as f64 * 0.0157)).collect();
        xs.extend([0.0, f64::MAX, 0.5, 1.0, 0.414_213, 0.414_214]);
        let mut got = xs.clone();
        dispatch(Log1pInPlace(&mut got));
        for (&x, &got) in xs.iter().zip(&got) {
            assert!(ulps(got, x.ln_1p()) <= 4, "ln_1p({x:e}) = {got:e}, want {:e}", x.ln_1p());
            assert!(ulps(ln_1p::<Scalar>(x), x.ln_1p()) <= 4, "ln_1p({x:e}) without FMA");
        }
        assert!(ln_1p::<Scalar>(f64::NAN).is_nan());
        assert!(ln_1p::<Scalar>(f64::INFINITY) > 709.0);
    }

    #[test]
    fn sines_and_cosines_of_cycles_are_accurate_in_every_quarter() {
        for i in -40_000..40_000 {
            let t = f64::from(i) / 16_384.0;
            let (sine, cosine) = sin_cos_cycles::<Scalar>(t);
            let (want_sine, want_cosine) = (std::f64::consts::TAU * (t - t.round())).sin_cos();
            assert!((sine - want_sine).abs() < 5e-16, "sin 2π{t}: {sine}, want {want_sine}");
            assert!((cosine - want_cosine).abs() < 5e-16, "cos 2π{t}: {cosine}, want {want_cosine}");
        }
        assert!(
            sin_cos_cycles::<Scalar>(f64::NAN).0.is_nan() && sin_cos_cycles::<Scalar>(f64::NAN).1.is_nan()
        );
        assert_eq!(sin_cos_cycles::<Scalar>(1e300), (0.0, 1.0));
        assert_eq!(sin_cos_cycles::<Scalar>(9e13 + 0.25).0, 1.0);
    }

    #[test]
    fn dot_handles_every_remainder() {
        for n in 0..40 {
            let a: Vec<f64> = (0..n).map(|i| i as f64).collect();
            let want: f64 = a.iter().map(|v| v * (v + 1.0)).sum();
            let b: Vec<f64> = a.iter().map(|v| v + 1.0).collect();
            assert_eq!(dot(&a, &b), want);
        }
    }
}
