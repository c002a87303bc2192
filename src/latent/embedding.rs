//! Coordinates in which points with categories are compared by Euclidean distances. Numbers stay
//! unchanged.

use faer::{Mat, MatRef};
use sparsegp_kernels::Dimension;

/// The maximum number of coordinates of a category. With at most this number of levels, each level has its own coordinate; more levels
/// share the coordinates, with random signs for each level.
const MOST_AXES: usize = 32;

/// The map from the columns of points to coordinates. The levels of a category have equal distances if every level has its own axis.
/// Otherwise the distances differ by about a fifth, because levels are random vectors of 32 signs.
pub(crate) struct Embedding {
    columns: Vec<Axes>,
}

/// The coordinates of one column.
#[derive(Clone, Copy)]
enum Axes {
    /// The number itself.
    Number,
    /// One for every level.
    Levels(usize),
    /// Random signs.
    Signs,
}

impl Axes {
    fn count(self) -> usize {
        match self {
            Axes::Number => 1,
            Axes::Levels(levels) => levels,
            Axes::Signs => MOST_AXES,
        }
    }

    /// Returns coordinate `axis` of a value; two different levels have distance 1.
    fn coordinate(self, axis: usize, value: f64) -> f64 {
        match self {
            Axes::Number => value,
            Axes::Levels(_) if value == axis as f64 => std::f64::consts::FRAC_1_SQRT_2,
            Axes::Levels(_) => 0.0,
            // Two vectors of n signs differ in about n/2 entries, by 2 in each.
            Axes::Signs => sign(value as u64, axis) / (2.0 * MOST_AXES as f64).sqrt(),
        }
    }
}

/// Returns a random sign for every code and axis (the finaliser of SplitMix64; Steele, Lea & Flood
/// 2014).
fn sign(code: u64, axis: usize) -> f64 {
    let mut bits = code.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    if bits >> axis & 1 == 0 { -1.0 } else { 1.0 }
}

impl Embedding {
    /// Creates an embedding of points with `dims` columns; `dimensions` gives their kinds (all
    /// numbers if it is empty).
    pub fn new(dimensions: &[Dimension], dims: usize) -> Embedding {
        let axes = |d: usize| match dimensions.get(d) {
            Some(&Dimension::Category { levels }) if levels <= MOST_AXES => Axes::Levels(levels),
            Some(Dimension::Category { .. }) => Axes::Signs,
            Some(Dimension::Number | Dimension::Coordinate { .. }) | None => Axes::Number,
        };
        Embedding { columns: (0..dims).map(axes).collect() }
    }

    /// Returns true if the coordinates of a point are the point itself.
    pub(crate) fn is_identity(&self) -> bool {
        self.columns.iter().all(|axes| matches!(axes, Axes::Number))
    }

    /// True if a column holds codes.
    pub fn is_category(&self, d: usize) -> bool {
        !matches!(self.columns[d], Axes::Number)
    }

    /// Returns the coordinates of the rows of `x` (`n × D`): numbers divided by `units`; different
    /// levels of a category have the distance 1/unit.
    pub(crate) fn coordinates(&self, x: MatRef<'_, f64>, units: &[f64]) -> Mat<f64> {
        let axes: Vec<(usize, Axes, usize)> = (0..self.columns.len())
            .flat_map(|d| (0..self.columns[d].count()).map(move |axis| (d, axis)))
            .map(|(d, axis)| (d, self.columns[d], axis))
            .collect();
        Mat::from_fn(x.nrows(), axes.len(), |i, c| {
            let (d, of, axis) = axes[c];
            of.coordinate(axis, x[(i, d)]) / units[d]
        })
    }

    /// Returns points (`n × D`) with the numbers in the coordinates and the codes in the rows
    /// `codes` of `x`.
    pub fn points(&self, coordinates: &Mat<f64>, x: MatRef<'_, f64>, codes: &[usize]) -> Mat<f64> {
        let firsts: Vec<usize> = self
            .columns
            .iter()
            .scan(0, |next, axes| {
                let first = *next;
                *next += axes.count();
                Some(first)
            })
            .collect();
        Mat::from_fn(coordinates.nrows(), self.columns.len(), |i, d| match self.columns[d] {
            Axes::Number => coordinates[(i, firsts[d])],
            _ => x[(codes[i], d)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_equally_far_apart_and_numbers_stay_unchanged() {
        for levels in [2, 5, 32, 670] {
            let embedding =
                Embedding::new(&[Dimension::Number, Dimension::Category { levels }, Dimension::Number], 3);
            let x = Mat::from_fn(40, 3, |i, d| if d == 1 { (i % levels) as f64 } else { i as f64 });
            let found = embedding.coordinates(x.as_ref(), &[2.0, 0.25, f64::INFINITY]);
            let distance = |i: usize, j: usize| {
                let squares = (1..found.ncols() - 1).map(|c| (found[(i, c)] - found[(j, c)]).powi(2));
                squares.sum::<f64>().sqrt()
            };
            assert_eq!((found[(3, 0)], found[(3, found.ncols() - 1)]), (1.5, 0.0));
            let apart: Vec<f64> = (0..levels.min(40))
                .flat_map(|i| (0..i).map(move |j| (i, j)))
                .map(|(i, j)| distance(i, j))
                .collect();
            let mean = apart.iter().sum::<f64>() / apart.len() as f64;
            let tolerance = if levels <= MOST_AXES { 1e-12 } else { 2.0 };
            assert!(apart.iter().all(|apart| (apart - 4.0).abs() < tolerance) && (mean - 4.0).abs() < 0.2);
        }
    }
}
