//! Shapes of stationary kernels: values and derivatives in the squared scaled distance, over runs
//! of pairs.

use crate::distance::{Measure, ScaledPair};
use crate::kernel::{Evaluated, Gradient, Inputs, Scratch};
use crate::vector_math::{Pass, dispatch, exp, ln_1p, map_in_place, mul_add};
use faer::MatMut;
use pulp::Simd;
use std::marker::PhantomData;

/// The shape of a stationary kernel as a function of `r² = Σ_d ((x_d − x'_d)/ℓ_d)²`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// `exp(−r²/2)`.
    SquaredExponential,
    /// `exp(−r)`; it has a kink at `r = 0`, where the derivative counts as 0.
    Matern12,
    /// `(1 + √3 r) exp(−√3 r)`.
    Matern32,
    /// `(1 + √5 r + 5r²/3) exp(−√5 r)`.
    Matern52,
    /// `(1 + r²/(2α))^(−α)`.
    RationalQuadratic,
    /// `(1 − r)₊^e`, `e = ⌊D/2⌋ + 1`, in `D` dimensions: like the other Wendland kernels a piecewise polynomial that is 0 beyond
    /// one lengthscale (Rasmussen and Williams, 2006, eq. 4.21). At the kinks the derivative is taken as 0: at `r = 0`, and
    /// for `D = 1` at `r = 1`.
    Wendland0,
    /// `(1 − r)₊^e (e r + 1)`, `e = ⌊D/2⌋ + 3`; paths are once differentiable.
    Wendland1,
    /// `(1 − r)₊^e ((e² − 1) r² + 3 e r + 3)/3`, `e = ⌊D/2⌋ + 5`; paths are twice differentiable.
    Wendland2,
}

impl Profile {
    /// The name in the text grammar.
    pub fn name(self) -> &'static str {
        match self {
            Profile::SquaredExponential => "rbf",
            Profile::Matern12 => "matern12",
            Profile::Matern32 => "matern32",
            Profile::Matern52 => "matern52",
            Profile::RationalQuadratic => "rational_quadratic",
            Profile::Wendland0 | Profile::Wendland1 | Profile::Wendland2 => "wendland",
        }
    }

    /// Returns the smoothness of a Wendland kernel, which is the number of derivatives of its
    /// paths; `None` for other profiles.
    pub(crate) fn smoothness(self) -> Option<usize> {
        match self {
            Profile::Wendland0 => Some(0),
            Profile::Wendland1 => Some(1),
            Profile::Wendland2 => Some(2),
            _ => None,
        }
    }

    /// The exponent of a Wendland kernel in `dims` dimensions, `⌊D/2⌋ + 2q + 1`.
    pub(crate) fn exponent(self, dims: usize) -> Option<f64> {
        self.smoothness().map(|smoothness| (dims / 2 + 2 * smoothness + 1) as f64)
    }

    /// Returns the lengthscale with which the profile agrees to leading order in `r` with `exp(−r²/2)` of lengthscale 1, or with `exp(−r)`
    /// if it has a kink. Typical points are then within the support.
    pub(crate) fn reach(self, dims: f64) -> f64 {
        let e = self.exponent(dims as usize).unwrap_or(1.0);
        match self {
            Profile::Wendland0 => e,
            Profile::Wendland1 => (e * (e + 1.0)).sqrt(),
            Profile::Wendland2 => ((e + 1.0) * (e + 2.0) / 3.0).sqrt(),
            _ => 1.0,
        }
    }

    fn has_kink(self) -> bool {
        matches!(self, Profile::Matern12 | Profile::Wendland0)
    }

    fn passes(self) -> Passes {
        match self {
            Profile::SquaredExponential => Passes::of::<SquaredExponential>(),
            Profile::Matern12 => Passes::of::<Matern12>(),
            Profile::Matern32 => Passes::of::<Matern32>(),
            Profile::Matern52 => Passes::of::<Matern52>(),
            Profile::RationalQuadratic => Passes::of::<RationalQuadratic>(),
            Profile::Wendland0 => Passes::of::<Wendland<0>>(),
            Profile::Wendland1 => Passes::of::<Wendland<1>>(),
            Profile::Wendland2 => Passes::of::<Wendland<2>>(),
        }
    }
}

/// The numbers a profile needs besides `r²`.
#[derive(Clone, Copy)]
pub(crate) struct Coefficients {
    pub variance: f64,
    /// `α` of the rational quadratic, the exponent `e` of a Wendland kernel.
    pub alpha: f64,
}

/// `Σ kbar·k` and `Σ kbar·∂k/∂α`.
#[derive(Clone, Copy, Default)]
pub(crate) struct WeightedSums {
    pub value: f64,
    pub alpha: f64,
}

/// One profile: its value, and its derivatives written in `r²` and the value so that no exponential is needed twice.
trait Form {
    const NEEDS_DISTANCE: bool = true;
    const HAS_ALPHA: bool = false;
    fn value<S: Simd>(r2: f64, c: Coefficients) -> f64;
    /// `∂k/∂r²`.
    fn slope<S: Simd>(r2: f64, k: f64, c: Coefficients) -> f64;
    /// `∂k/∂α`.
    #[inline(always)]
    fn alpha_slope<S: Simd>(_r2: f64, _k: f64, _c: Coefficients) -> f64 {
        0.0
    }
}

/// Caps `s` where `exp(−s)` times any polynomial is 0, to avoid `∞·0`.
#[inline(always)]
fn capped(s: f64) -> f64 {
    if s > 1e4 { 1e4 } else { s }
}

struct SquaredExponential;
struct Matern12;
struct Matern32;
struct Matern52;
struct RationalQuadratic;
struct Wendland<const SMOOTHNESS: usize>;

impl Form for SquaredExponential {
    const NEEDS_DISTANCE: bool = false;

    #[inline(always)]
    fn value<S: Simd>(r2: f64, c: Coefficients) -> f64 {
        c.variance * exp::<S>(-0.5 * r2)
    }

    #[inline(always)]
    fn slope<S: Simd>(_r2: f64, k: f64, _c: Coefficients) -> f64 {
        -0.5 * k
    }
}

impl Form for Matern12 {
    #[inline(always)]
    fn value<S: Simd>(r2: f64, c: Coefficients) -> f64 {
        c.variance * exp::<S>(-r2.sqrt())
    }

    #[inline(always)]
    fn slope<S: Simd>(r2: f64, k: f64, _c: Coefficients) -> f64 {
        let slope = -0.5 * k / r2.sqrt();
        if r2 == 0.0 { 0.0 } else { slope }
    }
}

const SQRT_3: f64 = 1.732_050_807_568_877_2;
const SQRT_5: f64 = 2.236_067_977_499_79;

impl Form for Matern32 {
    #[inline(always)]
    fn value<S: Simd>(r2: f64, c: Coefficients) -> f64 {
        let s = capped(SQRT_3 * r2.sqrt());
        c.variance * (1.0 + s) * exp::<S>(-s)
    }

    #[inline(always)]
    fn slope<S: Simd>(r2: f64, k: f64, _c: Coefficients) -> f64 {
        let s = capped(SQRT_3 * r2.sqrt());
        -1.5 * k / (1.0 + s)
    }
}

impl Form for Matern52 {
    #[inline(always)]
    fn value<S: Simd>(r2: f64, c: Coefficients) -> f64 {
        let s = capped(SQRT_5 * r2.sqrt());
        c.variance * mul_add::<S>(s, mul_add::<S>(s, 1.0 / 3.0, 1.0), 1.0) * exp::<S>(-s)
    }

    #[inline(always)]
    fn slope<S: Simd>(r2: f64, k: f64, _c: Coefficients) -> f64 {
        let s = capped(SQRT_5 * r2.sqrt());
        (-5.0 / 6.0) * k * (1.0 + s) / mul_add::<S>(s, mul_add::<S>(s, 1.0 / 3.0, 1.0), 1.0)
    }
}

impl RationalQuadratic {
    /// `r²/(2α)`, kept finite so that no quotient below becomes `∞/∞`.
    #[inline(always)]
    fn ratio(r2: f64, c: Coefficients) -> f64 {
        let u = r2 / (2.0 * c.alpha);
        if u > 1e300 { 1e300 } else { u }
    }
}

impl Form for RationalQuadratic {
    const HAS_ALPHA: bool = true;

    #[inline(always)]
    fn value<S: Simd>(r2: f64, c: Coefficients) -> f64 {
        c.variance * exp::<S>(-c.alpha * ln_1p::<S>(Self::ratio(r2, c)))
    }

    #[inline(always)]
    fn slope<S: Simd>(r2: f64, k: f64, c: Coefficients) -> f64 {
        -0.5 * k / (1.0 + Self::ratio(r2, c))
    }

    #[inline(always)]
    fn alpha_slope<S: Simd>(r2: f64, k: f64, c: Coefficients) -> f64 {
        let u = Self::ratio(r2, c);
        k * (u / (1.0 + u) - ln_1p::<S>(u))
    }
}

impl<const SMOOTHNESS: usize> Wendland<SMOOTHNESS> {
    /// Returns `r`, or 1 wherever the kernel is 0.
    #[inline(always)]
    fn radius(r2: f64) -> f64 {
        let r = r2.sqrt();
        if r > 1.0 { 1.0 } else { r }
    }

    /// Returns the factor of `(1 − r)^e`.
    #[inline(always)]
    fn factor<S: Simd>(r: f64, e: f64) -> f64 {
        match SMOOTHNESS {
            0 => 1.0,
            1 => mul_add::<S>(e, r, 1.0),
            _ => mul_add::<S>(r, mul_add::<S>((e * e - 1.0) / 3.0, r, e), 1.0),
        }
    }
}

impl<const SMOOTHNESS: usize> Form for Wendland<SMOOTHNESS> {
    #[inline(always)]
    fn value<S: Simd>(r2: f64, c: Coefficients) -> f64 {
        let r = Self::radius(r2);
        let t = 1.0 - r;
        // ln(1 − r) = −ln(1 + r/(1 − r)): a power without branches, for any exponent.
        let power = exp::<S>(-c.alpha * ln_1p::<S>(r / t));
        let k = c.variance * power * Self::factor::<S>(r, c.alpha);
        if t == 0.0 { 0.0 } else { k }
    }

    #[inline(always)]
    fn slope<S: Simd>(r2: f64, k: f64, c: Coefficients) -> f64 {
        let (r, e) = (Self::radius(r2), c.alpha);
        let t = 1.0 - r;
        // For smoothness 1 and 2 the derivative in r has the factor r, which cancels.
        let ratio = match SMOOTHNESS {
            0 => e / r,
            1 => e * (e + 1.0) / Self::factor::<S>(r, e),
            _ => (e + 1.0) * (e + 2.0) / 3.0 * mul_add::<S>(e - 1.0, r, 1.0) / Self::factor::<S>(r, e),
        };
        let slope = -0.5 * k / t * ratio;
        if t == 0.0 || (SMOOTHNESS == 0 && r == 0.0) { 0.0 } else { slope }
    }
}

/// `r² → k`, in place.
struct Value<'a, F> {
    run: &'a mut [f64],
    c: Coefficients,
    form: PhantomData<F>,
}

impl<F: Form> Pass for Value<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        map_in_place(self.run, |r2| F::value::<S>(r2, self.c));
    }
}

/// The number of independent partial sums; a single sum would serialise the loop.
const LANES: usize = 8;

/// `r² → ∂F/∂r²`, in place.
struct Weigh<'a, F> {
    run: &'a mut [f64],
    k: &'a [f64],
    kbar: &'a [f64],
    c: Coefficients,
    form: PhantomData<F>,
}

impl<F: Form> Weigh<'_, F> {
    #[inline(always)]
    fn chunk<S: Simd, const N: usize>(
        run: &mut [f64; N],
        k: &[f64; N],
        kbar: &[f64; N],
        c: Coefficients,
        value: &mut [f64; N],
        alpha: &mut [f64; N],
    ) {
        for lane in 0..N {
            value[lane] = mul_add::<S>(kbar[lane], k[lane], value[lane]);
            if F::HAS_ALPHA {
                let slope = F::alpha_slope::<S>(run[lane], k[lane], c);
                alpha[lane] = mul_add::<S>(kbar[lane], slope, alpha[lane]);
            }
            run[lane] = kbar[lane] * F::slope::<S>(run[lane], k[lane], c);
        }
    }
}

impl<F: Form> Pass for Weigh<'_, F> {
    type Output = WeightedSums;

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> WeightedSums {
        let (run, run_rest) = self.run.as_chunks_mut::<LANES>();
        let (k, k_rest) = self.k.as_chunks::<LANES>();
        let (kbar, kbar_rest) = self.kbar.as_chunks::<LANES>();
        let (mut value, mut alpha) = ([0.0; LANES], [0.0; LANES]);
        for ((run, k), kbar) in run.iter_mut().zip(k).zip(kbar) {
            Self::chunk::<S, LANES>(run, k, kbar, self.c, &mut value, &mut alpha);
        }
        let (mut value_rest, mut alpha_rest) = ([0.0], [0.0]);
        for ((run, &k), &kbar) in run_rest.iter_mut().zip(k_rest).zip(kbar_rest) {
            let run = std::array::from_mut(run);
            Self::chunk::<S, 1>(run, &[k], &[kbar], self.c, &mut value_rest, &mut alpha_rest);
        }
        WeightedSums {
            value: value.iter().sum::<f64>() + value_rest[0],
            alpha: alpha.iter().sum::<f64>() + alpha_rest[0],
        }
    }
}

/// The compiled loops of one profile.
struct Passes {
    needs_distance: bool,
    value: fn(&mut [f64], Coefficients),
    weigh: fn(&mut [f64], &[f64], &[f64], Coefficients) -> WeightedSums,
}

impl Passes {
    fn of<F: Form>() -> Passes {
        Passes {
            needs_distance: F::NEEDS_DISTANCE,
            value: |run, c| dispatch(Value::<F> { run, c, form: PhantomData }),
            weigh: |run, k, kbar, c| dispatch(Weigh::<F> { run, k, kbar, c, form: PhantomData }),
        }
    }
}

/// A profile of a distance with one scale (inverse lengthscale) per column of the points.
pub(crate) struct Scaled<'a> {
    pub profile: Profile,
    pub c: Coefficients,
    pub measure: Measure<'a>,
}

impl Scaled<'_> {
    /// Writes the covariance matrix.
    pub fn evaluate(&self, inputs: Inputs<'_>, out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let pair = ScaledPair::new(inputs, self.measure, self.profile.has_kink(), scratch);
        let passes = self.profile.passes();
        pair.evaluate(out, self.c.variance, &|run| (passes.value)(run, self.c));
        pair.release(scratch);
    }

    /// Adds the gradient in points and in the logarithms of scales, which take the place of parameters; returns the sums that give the
    /// gradients of the coefficients.
    pub fn adjoint(&self, at: Evaluated<'_>, gradient: Gradient<'_>, scratch: &mut Scratch) -> WeightedSums {
        let pair = ScaledPair::new(at.inputs, self.measure, self.profile.has_kink(), scratch);
        let passes = self.profile.passes();
        let mut sums = WeightedSums::default();
        let mut weigh = |run: &mut [f64], k: &[f64], kbar: &[f64]| {
            let part = (passes.weigh)(run, k, kbar, self.c);
            sums.value += part.value;
            sums.alpha += part.alpha;
        };
        pair.adjoint(at, passes.needs_distance, &mut weigh, gradient, scratch);
        pair.release(scratch);
        if let Inputs::Gram(x) = at.inputs {
            sums.value += self.c.variance * (0..x.nrows()).map(|i| at.kbar[(i, i)]).sum::<f64>();
        }
        sums
    }
}
