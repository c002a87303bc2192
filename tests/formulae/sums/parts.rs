//! Rows of data divided into parts, for the tests of merged sums.

use crate::prelude::*;

pub struct Rows {
    pub x: Mat<f64>,
    pub y: Vec<f64>,
    pub exposure: Vec<f64>,
    pub weights: Vec<f64>,
}

impl Rows {
    pub fn new(seed: u64, n: usize, counts: bool) -> Rows {
        let (x, mut y) = data(seed, 2, n);
        let mut normals = Normals::new(seed ^ 0xabc);
        let mut positive = |wanted| (0..if wanted { n } else { 0 }).map(|_| normals.next().exp()).collect();
        let (exposure, weights) = (positive(counts), positive(seed.is_multiple_of(2)));
        if counts {
            y.iter_mut().for_each(|y| *y = (2.0 * y.abs()).floor());
        }
        Rows { x, y, exposure, weights }
    }

    pub fn take(&self, rows: &[usize]) -> Rows {
        let some = |all: &[f64]| if all.is_empty() { vec![] } else { rows.iter().map(|&i| all[i]).collect() };
        Rows {
            x: Mat::from_fn(2, rows.len(), |i, j| self.x[(i, rows[j])]),
            y: some(&self.y),
            exposure: some(&self.exposure),
            weights: some(&self.weights),
        }
    }

    pub fn len(&self) -> usize {
        self.y.len()
    }

    pub fn each(&self) -> Vec<Rows> {
        (0..self.len()).map(|row| self.take(&[row])).collect()
    }

    pub fn targets(&self) -> Targets<'_> {
        Targets { y: &self.y, exposure: &self.exposure, weights: &self.weights, outputs: &[] }
    }

    pub fn batch(&self) -> Batch<'_> {
        Batch { x: self.x.transpose(), targets: self.targets(), scale: 2.5 }
    }
}

/// The index of the part, out of up to 7, that contains each row, and the order in which parts are merged.
#[derive(Clone, Debug)]
pub struct Partition {
    pub part_of: Vec<usize>,
    pub order: Vec<usize>,
}

pub fn partition() -> impl Strategy<Value = Partition> {
    (1usize..=7).prop_flat_map(|parts| {
        let part_of = prop::collection::vec(0..parts, 1..40);
        let order = Just((0..parts).collect::<Vec<usize>>()).prop_shuffle();
        (part_of, order).prop_map(|(part_of, order)| Partition { part_of, order })
    })
}

impl Partition {
    /// Returns the parts in the order of merging, with their numbers.
    pub fn parts(&self, rows: &Rows) -> Vec<(u64, Rows)> {
        let of = |part: usize| -> Vec<usize> {
            (0..rows.len()).filter(|&row| self.part_of[row] == part).collect()
        };
        self.order.iter().map(|&part| (part as u64, rows.take(&of(part)))).collect()
    }
}
