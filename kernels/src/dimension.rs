//! The contents of a column of the points: numbers, or codes of categories, which are equal or not.

use crate::vector_math::{Pass, dispatch};
use pulp::Simd;
use serde::{Deserialize, Serialize};

/// The contents of one column of the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// A number.
    Number,
    /// The code of a category, a whole number: codes are equal or not, and nothing else about them matters.
    Category {
        /// The number of known levels. They have the codes from 0; any other code is a level that never occurred.
        levels: usize,
    },
    /// A number that is one coordinate of a place. Stationary kernels with a lengthscale for each
    /// column have one lengthscale for all coordinates of a place, so that only the distance of two
    /// places matters.
    Coordinate {
        /// True for the first coordinate of a place; its other coordinates are in the next columns.
        first: bool,
    },
}

impl Dimension {
    /// Returns true if the column holds codes of categories.
    pub fn is_category(self) -> bool {
        matches!(self, Dimension::Category { .. })
    }

    /// Returns true if the column holds a coordinate of a place.
    pub fn is_coordinate(self) -> bool {
        matches!(self, Dimension::Coordinate { .. })
    }

    /// Returns the number of known levels; 0 for a number.
    pub fn levels(self) -> usize {
        match self {
            Dimension::Number | Dimension::Coordinate { .. } => 0,
            Dimension::Category { levels } => levels,
        }
    }
}

/// Returns true if column `d` holds codes; an empty list means that all columns are numbers.
pub(crate) fn is_category(dimensions: &[Dimension], d: usize) -> bool {
    dimensions.get(d).is_some_and(|dimension| dimension.is_category())
}

/// Returns true if column `d` holds numbers that have a meaning one by one: neither codes nor coordinates.
pub(crate) fn is_number(dimensions: &[Dimension], d: usize) -> bool {
    dimensions.get(d).is_none_or(|dimension| *dimension == Dimension::Number)
}

pub(crate) fn any_category(dimensions: &[Dimension]) -> bool {
    dimensions.iter().any(|dimension| dimension.is_category())
}

/// The reason why a kernel cannot be used with the contents of columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DimensionError {
    /// Codes of categories have no meaning for the kernel.
    #[error("the kernel {kernel} has no meaning for categories")]
    NoCategories {
        /// The expression of the kernel.
        kernel: String,
    },
    /// The kernel was given different lengthscales for the coordinates of a place.
    #[error("the coordinates of a place have one lengthscale, but {kernel} has several values for them")]
    SeparateLengthscales {
        /// The expression of the kernel.
        kernel: String,
    },
}

/// Adds a number to a run wherever the codes of the left points differ from the code of one right
/// point (or are equal to it).
pub(crate) struct AddWhere<'a> {
    /// True to count equal codes, false to count different ones.
    pub equal: bool,
    pub codes: &'a [f64],
    pub code: f64,
    pub value: f64,
    pub out: &'a mut [f64],
}

impl Pass for AddWhere<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let (if_equal, if_different) = if self.equal { (self.value, 0.0) } else { (0.0, self.value) };
        for (out, &code) in self.out.iter_mut().zip(self.codes) {
            *out += if code == self.code { if_equal } else { if_different };
        }
    }
}

/// The number of independent partial sums; a single sum would serialise the loop.
const LANES: usize = 8;

/// The sum of the weights of the left points whose codes differ from the code of one right point
/// (or are equal to it).
pub(crate) struct SumWhere<'a> {
    /// True to count equal codes, false to count different ones.
    pub equal: bool,
    pub codes: &'a [f64],
    pub code: f64,
    pub weights: &'a [f64],
}

impl Pass for SumWhere<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> f64 {
        let counted = |code: f64, weight: f64| if (code == self.code) == self.equal { weight } else { 0.0 };
        let (codes, codes_rest) = self.codes.as_chunks::<LANES>();
        let (weights, weights_rest) = self.weights.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for (codes, weights) in codes.iter().zip(weights) {
            for lane in 0..LANES {
                sums[lane] += counted(codes[lane], weights[lane]);
            }
        }
        let rest = codes_rest.iter().zip(weights_rest).map(|(&code, &weight)| counted(code, weight));
        sums.iter().sum::<f64>() + rest.sum::<f64>()
    }
}

pub(crate) fn add_where_equal(codes: &[f64], code: f64, value: f64, out: &mut [f64]) {
    dispatch(AddWhere { equal: true, codes, code, value, out });
}

pub(crate) fn sum_where_equal(codes: &[f64], code: f64, weights: &[f64]) -> f64 {
    dispatch(SumWhere { equal: true, codes, code, weights })
}
