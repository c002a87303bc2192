//! Sums and products of kernels by `+` and `*`.

use crate::additive::Additive;
use crate::arc_cosine::ArcCosine;
use crate::changepoint::Changepoint;
use crate::compose::{Combination, Operation, Scale};
use crate::dot_product::{Constant, Polynomial};
use crate::index::Coregion;
use crate::kernel::Kernel;
use crate::mapped::{InputMap, Mapped};
use crate::periodic::{Cosine, Periodic};
use crate::spectral_mixture::SpectralMixture;
use crate::stationary::Stationary;
use std::ops::{Add, Mul};

macro_rules! operators {
    ($([$($of:tt)*] $kernel:ty;)*) => {$(
        impl<K: Into<Box<dyn Kernel>>, $($of)*> Add<K> for $kernel {
            type Output = Combination;

            fn add(self, other: K) -> Combination {
                Combination::of(Operation::Sum, self.into(), other.into())
            }
        }

        impl<K: Into<Box<dyn Kernel>>, $($of)*> Mul<K> for $kernel {
            type Output = Combination;

            fn mul(self, other: K) -> Combination {
                Combination::of(Operation::Product, self.into(), other.into())
            }
        }
    )*};
}

operators! {
    [] Additive;
    [] ArcCosine;
    [] Box<dyn Kernel>;
    [] Changepoint;
    [] Combination;
    [] Constant;
    [] Coregion;
    [] Cosine;
    [M: InputMap + 'static] Mapped<M>;
    [] Periodic;
    [] Polynomial;
    [] Scale;
    [] SpectralMixture;
    [] Stationary;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_as_the_expression() {
        let rough = || Stationary::matern32(1.0, &[1.0]);
        let sum = rough() + Periodic::new(1.0, &[1.0], &[1.0]) * Constant::new(2.0) + Constant::new(1.0);
        assert_eq!(sum.expression(), "matern32 + periodic * constant + constant");
        let boxed: Box<dyn Kernel> = rough().into();
        assert_eq!((boxed * (rough() + rough())).expression(), "matern32 * (matern32 + matern32)");
        assert_eq!((rough() + (rough() + rough())).expression(), "matern32 + matern32 + matern32");
    }
}
