//! Numbers that carry derivatives, so that a formula written once gives values and exact derivatives (forward differentiation).

use std::cmp::Ordering;
use std::fmt::Debug;
use std::iter::{Product, Sum};
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A number in a formula, with the derivatives `D`.
///
/// Formulas use it as they use `f64`: `1.0 / (1.0 + (x / length).powi(2))`. Comparisons look at the value only.
///
/// A derivative that does not exist at a single point is the mean of those on both sides: 0 for [`abs`](Self::abs) at 0. A function that is
/// infinitely steep at a point, such as [`sqrt`](Self::sqrt) at 0, passes on derivatives of 0 as 0. So a distance `√Σ(x − z)²` has the
/// derivative 0 at x = z. Other derivatives become infinite there, which fits and test kits report.
///
/// ```
/// use sparsegp_kernels::Real;
///
/// // The derivatives of sin(ab) in a and b.
/// let (a, b) = (Real { value: 0.5, derivatives: [1.0, 0.0] }, Real { value: 3.0, derivatives: [0.0, 1.0] });
/// let product = (a * b).sin();
/// assert_eq!(product.value, 1.5f64.sin());
/// assert_eq!(product.derivatives, [3.0 * 1.5f64.cos(), 0.5 * 1.5f64.cos()]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Real<D = ()> {
    /// The value.
    pub value: f64,
    /// Its derivatives.
    pub derivatives: D,
}

/// The derivatives that a [`Real`] carries: none (`()`), first derivatives in N directions (`[f64; N]`), or the first two in one direction
/// ([`Second`]). No other type implements it.
pub trait Derivatives: Copy + Debug + sealed::Sealed {
    /// The derivatives of a constant.
    const NONE: Self;

    /// Returns true if all derivatives are 0.
    fn is_none(self) -> bool;

    /// Returns the derivatives of g(a) for a with these derivatives, given g′(a) and g″(a).
    fn chain(self, first: f64, second: f64) -> Self;

    /// Returns the derivatives of g(a) where g is infinitely steep: derivatives of 0 stay 0.
    fn chain_steep(self, first: f64, second: f64) -> Self;

    /// Returns the derivatives of g(a, b), given ∂g/∂a, ∂g/∂b and ∂²g/∂a∂b, for g that is linear in a and in b.
    fn combine(self, by_a: f64, b: Self, by_b: f64, cross: f64) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl<const N: usize> Sealed for [f64; N] {}
    impl Sealed for super::Second {}
}

/// The first and the second derivative in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// The first derivative.
    pub first: f64,
    /// The second derivative.
    pub second: f64,
}

impl Derivatives for () {
    const NONE: Self = ();

    #[inline(always)]
    fn is_none(self) -> bool {
        true
    }

    #[inline(always)]
    fn chain(self, _: f64, _: f64) {}

    #[inline(always)]
    fn chain_steep(self, _: f64, _: f64) {}

    #[inline(always)]
    fn combine(self, _: f64, (): (), _: f64, _: f64) {}
}

impl<const N: usize> Derivatives for [f64; N] {
    const NONE: Self = [0.0; N];

    #[inline(always)]
    fn is_none(self) -> bool {
        self == [0.0; N]
    }

    #[inline(always)]
    fn chain(mut self, first: f64, _: f64) -> Self {
        self.iter_mut().for_each(|slope| *slope *= first);
        self
    }

    fn chain_steep(self, first: f64, _: f64) -> Self {
        self.map(|slope| if slope == 0.0 { 0.0 } else { slope * first })
    }

    #[inline(always)]
    fn combine(mut self, by_a: f64, b: Self, by_b: f64, _: f64) -> Self {
        self.iter_mut().zip(b).for_each(|(a, b)| *a = by_a * *a + by_b * b);
        self
    }
}

impl Derivatives for Second {
    const NONE: Self = Second { first: 0.0, second: 0.0 };

    #[inline(always)]
    fn is_none(self) -> bool {
        self == Second::NONE
    }

    #[inline(always)]
    fn chain(self, first: f64, second: f64) -> Self {
        Second { first: first * self.first, second: first * self.second + second * self.first * self.first }
    }

    fn chain_steep(self, first: f64, second: f64) -> Self {
        if self.first == 0.0 { Second::NONE } else { self.chain(first, second) }
    }

    #[inline(always)]
    fn combine(self, by_a: f64, b: Self, by_b: f64, cross: f64) -> Self {
        Second {
            first: by_a * self.first + by_b * b.first,
            second: by_a * self.second + by_b * b.second + 2.0 * cross * self.first * b.first,
        }
    }
}

impl<D: Derivatives> Real<D> {
    /// Returns a constant.
    #[inline(always)]
    pub fn constant(value: f64) -> Self {
        Real { value, derivatives: D::NONE }
    }

    /// Returns true if all derivatives are 0, so that a function need not compute its own for [`apply`](Self::apply).
    #[inline(always)]
    pub fn is_constant(self) -> bool {
        self.derivatives.is_none()
    }

    /// Returns g(self) for a function that is not listed here, given g, g′ and g″ at [`value`](Self::value).
    ///
    /// ```
    /// use sparsegp_kernels::{Real, real::Derivatives};
    ///
    /// fn softplus<D: Derivatives>(x: Real<D>) -> Real<D> {
    ///     let p = 1.0 / (1.0 + (-x.value).exp());
    ///     x.apply(x.value.exp().ln_1p(), p, p * (1.0 - p))
    /// }
    /// assert_eq!(softplus(Real { value: 0.0, derivatives: [2.0] }).derivatives, [1.0]);
    /// ```
    #[inline(always)]
    pub fn apply(self, value: f64, first: f64, second: f64) -> Self {
        Real { value, derivatives: self.derivatives.chain(first, second) }
    }

    /// Like [`apply`](Self::apply) for a function that may be infinitely steep.
    #[inline(always)]
    fn apply_steep(self, value: f64, first: f64, second: f64) -> Self {
        if first.is_infinite() {
            return Real { value, derivatives: self.derivatives.chain_steep(first, second) };
        }
        self.apply(value, first, second)
    }

    /// `1/x`.
    #[inline]
    pub fn recip(self) -> Self {
        1.0 / self
    }

    /// `√x`.
    #[inline]
    pub fn sqrt(self) -> Self {
        let root = self.value.sqrt();
        self.apply_steep(root, 0.5 / root, -0.25 / (root * self.value))
    }

    /// `x^n`.
    #[inline]
    pub fn powi(self, n: i32) -> Self {
        let (x, exponent) = (self.value, f64::from(n));
        let first = if n == 0 { 0.0 } else { exponent * x.powi(n - 1) };
        let second = if n == 0 || n == 1 { 0.0 } else { exponent * (exponent - 1.0) * x.powi(n - 2) };
        self.apply_steep(x.powi(n), first, second)
    }

    /// `x^n`.
    #[inline]
    pub fn powf(self, n: f64) -> Self {
        let x = self.value;
        let first = if n == 0.0 { 0.0 } else { n * x.powf(n - 1.0) };
        let second = if n == 0.0 || n == 1.0 { 0.0 } else { n * (n - 1.0) * x.powf(n - 2.0) };
        self.apply_steep(x.powf(n), first, second)
    }

    /// `x^y` for x > 0, both with derivatives.
    #[inline]
    pub fn pow(self, y: Self) -> Self {
        (self.ln() * y).exp()
    }

    /// `e^x`.
    #[inline]
    pub fn exp(self) -> Self {
        let e = self.value.exp();
        self.apply(e, e, e)
    }

    /// `e^x − 1`, accurate for small x.
    #[inline]
    pub fn exp_m1(self) -> Self {
        let e = self.value.exp();
        self.apply(self.value.exp_m1(), e, e)
    }

    /// `log x`.
    #[inline]
    pub fn ln(self) -> Self {
        let slope = 1.0 / self.value;
        self.apply_steep(self.value.ln(), slope, -slope * slope)
    }

    /// `log(1 + x)`, accurate for small x.
    #[inline]
    pub fn ln_1p(self) -> Self {
        let slope = 1.0 / (1.0 + self.value);
        self.apply_steep(self.value.ln_1p(), slope, -slope * slope)
    }

    /// `log(1 + e^x)`, which is `x` for large x.
    #[inline]
    pub fn softplus(self) -> Self {
        let e = (-self.value.abs()).exp();
        let (small, large) = (e / (1.0 + e), 1.0 / (1.0 + e));
        let slope = if self.value > 0.0 { large } else { small };
        self.apply(self.value.max(0.0) + e.ln_1p(), slope, small * large)
    }

    /// The sine.
    #[inline]
    pub fn sin(self) -> Self {
        let (sin, cos) = self.value.sin_cos();
        self.apply(sin, cos, -sin)
    }

    /// The cosine.
    #[inline]
    pub fn cos(self) -> Self {
        let (sin, cos) = self.value.sin_cos();
        self.apply(cos, -sin, -cos)
    }

    /// The inverse tangent.
    #[inline]
    pub fn atan(self) -> Self {
        let slope = 1.0 / (1.0 + self.value * self.value);
        self.apply(self.value.atan(), slope, -2.0 * self.value * slope * slope)
    }

    /// The inverse sine.
    #[inline]
    pub fn asin(self) -> Self {
        let slope = 1.0 / ((1.0 - self.value) * (1.0 + self.value)).sqrt();
        self.apply_steep(self.value.asin(), slope, self.value * slope.powi(3))
    }

    /// The inverse cosine.
    #[inline]
    pub fn acos(self) -> Self {
        let slope = -1.0 / ((1.0 - self.value) * (1.0 + self.value)).sqrt();
        self.apply_steep(self.value.acos(), slope, self.value * slope.powi(3))
    }

    /// The hyperbolic tangent.
    #[inline]
    pub fn tanh(self) -> Self {
        let tanh = self.value.tanh();
        let slope = (1.0 - tanh) * (1.0 + tanh);
        self.apply(tanh, slope, -2.0 * tanh * slope)
    }

    /// The hyperbolic cosine.
    #[inline]
    pub fn cosh(self) -> Self {
        let cosh = self.value.cosh();
        self.apply(cosh, self.value.sinh(), cosh)
    }

    /// `|x|`, whose derivative at 0 is 0.
    #[inline]
    pub fn abs(self) -> Self {
        let slope = if self.value == 0.0 { 0.0 } else { self.value.signum() };
        self.apply(self.value.abs(), slope, 0.0)
    }

    /// The larger number; of equal ones the mean, which has the mean of their derivatives.
    #[inline]
    pub fn max(self, other: Self) -> Self {
        match self.value.partial_cmp(&other.value) {
            Some(Ordering::Greater) => self,
            Some(Ordering::Less) => other,
            _ => 0.5 * (self + other),
        }
    }

    /// The smaller number; of equal ones the mean, which has the mean of their derivatives.
    #[inline]
    pub fn min(self, other: Self) -> Self {
        -(-self).max(-other)
    }
}

impl<D: Derivatives> From<f64> for Real<D> {
    #[inline(always)]
    fn from(value: f64) -> Self {
        Real::constant(value)
    }
}

impl<D> PartialEq for Real<D> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<D> PartialOrd for Real<D> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl<D> PartialEq<f64> for Real<D> {
    fn eq(&self, other: &f64) -> bool {
        self.value == *other
    }
}

impl<D> PartialOrd<f64> for Real<D> {
    fn partial_cmp(&self, other: &f64) -> Option<Ordering> {
        self.value.partial_cmp(other)
    }
}

impl<D: Derivatives> Neg for Real<D> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        self.apply(-self.value, -1.0, 0.0)
    }
}

/// Implements an operator for two numbers with derivatives, and for one and a constant on either side. The formulas give the derivatives.
macro_rules! operator {
    ($trait:ident $method:ident $assign_trait:ident $assign:ident $op:tt,
     |$a:ident, $b:ident| $both:expr, |$left:ident, $c:ident| $constant_right:expr, |$d:ident, $right:ident| $constant_left:expr) => {
        impl<D: Derivatives> $trait for Real<D> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                Real { value: $a.value $op $b.value, derivatives: $both }
            }
        }

        impl<D: Derivatives> $trait<f64> for Real<D> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, $c: f64) -> Self {
                let $left = self;
                Real { value: $left.value $op $c, derivatives: $constant_right }
            }
        }

        impl<D: Derivatives> $trait<Real<D>> for f64 {
            type Output = Real<D>;

            #[inline(always)]
            fn $method(self, $right: Real<D>) -> Real<D> {
                let $d = self;
                Real { value: $d $op $right.value, derivatives: $constant_left }
            }
        }

        impl<D: Derivatives> $assign_trait for Real<D> {
            #[inline(always)]
            fn $assign(&mut self, other: Self) {
                *self = *self $op other;
            }
        }

        impl<D: Derivatives> $assign_trait<f64> for Real<D> {
            #[inline(always)]
            fn $assign(&mut self, other: f64) {
                *self = *self $op other;
            }
        }
    };
}

operator!(Add add AddAssign add_assign +,
    |a, b| a.derivatives.combine(1.0, b.derivatives, 1.0, 0.0), |a, _c| a.derivatives, |_c, b| b.derivatives);
operator!(Sub sub SubAssign sub_assign -,
    |a, b| a.derivatives.combine(1.0, b.derivatives, -1.0, 0.0), |a, _c| a.derivatives,
    |_c, b| b.derivatives.chain(-1.0, 0.0));
operator!(Mul mul MulAssign mul_assign *,
    |a, b| a.derivatives.combine(b.value, b.derivatives, a.value, 1.0),
    |a, c| a.derivatives.chain(c, 0.0), |c, b| b.derivatives.chain(c, 0.0));
operator!(Div div DivAssign div_assign /,
|a, b| {
    let inverse = 1.0 / b.value;
    let of_inverse = b.derivatives.chain(-inverse * inverse, 2.0 * inverse * inverse * inverse);
    a.derivatives.combine(inverse, of_inverse, a.value, 1.0)
},
|a, c| a.derivatives.chain(1.0 / c, 0.0),
|c, b| {
    let inverse = 1.0 / b.value;
    b.derivatives.chain(-c * inverse * inverse, 2.0 * c * inverse * inverse * inverse)
});

impl<D: Derivatives> Sum for Real<D> {
    #[inline]
    fn sum<I: Iterator<Item = Self>>(numbers: I) -> Self {
        numbers.fold(Real::constant(0.0), |sum, number| sum + number)
    }
}

impl<D: Derivatives> Product for Real<D> {
    #[inline]
    fn product<I: Iterator<Item = Self>>(numbers: I) -> Self {
        numbers.fold(Real::constant(1.0), |product, number| product * number)
    }
}
