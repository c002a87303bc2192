//! The cells that a query may look into, nearest first by the distance of the query from their
//! boxes.

use super::cells::Group;
use super::distances::{LANES, to_boxes};

/// The number of intervals of distance by which cells are sorted; a more exact order is not needed.
const INTERVALS: usize = 64;

/// Cells with their boxes, stored for computing the distances from one query to many boxes.
#[derive(Default)]
pub(super) struct Candidates {
    /// Indices of the cells among the groups of the index.
    cells: Vec<u32>,
    /// Blocks of `2D × LANES` numbers for `LANES` boxes: for each coordinate the least values, then
    /// the largest.
    boxes: Vec<f64>,
}

/// Cells with their squared distances from a query.
#[derive(Default)]
pub(super) struct Near {
    unsorted: Vec<(f64, u32)>,
    sorted: Vec<(f64, u32)>,
}

impl Candidates {
    pub fn clear(&mut self) {
        self.cells.clear();
        self.boxes.clear();
    }

    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Adds `cell`, which is group `at` of the index.
    pub fn push(&mut self, cell: &Group, at: usize) {
        let (lane, size) = (self.len() % LANES, 2 * LANES * cell.bounds.len());
        if lane == 0 {
            self.boxes.resize(self.boxes.len() + size, f64::INFINITY);
        }
        let start = self.boxes.len() - size;
        for (runs, (low, high)) in self.boxes[start..].chunks_exact_mut(2 * LANES).zip(&cell.bounds) {
            (runs[lane], runs[LANES + lane]) = (*low, *high);
        }
        self.cells.push(at as u32);
    }

    /// Returns the cells nearer to `point` than `farthest` (squared distances).
    #[inline(always)]
    pub fn near<'a>(&self, point: &[f64], farthest: f64, near: &'a mut Near) -> &'a [(f64, u32)] {
        near.unsorted.resize(self.len(), (0.0, 0));
        let (size, mut found) = (2 * LANES * point.len(), 0);
        for (block, cells) in self.cells.chunks(LANES).enumerate() {
            let gaps = to_boxes(point, &self.boxes[block * size..(block + 1) * size]);
            for (&cell, &gap) in cells.iter().zip(&gaps) {
                // A branch would be hard to predict, so every cell is written, and `found` advances
                // only if the cell is near.
                near.unsorted[found] = (gap, cell);
                found += usize::from(gap < farthest);
            }
        }
        near.unsorted.truncate(found);
        near.sort(farthest)
    }
}

impl Near {
    /// Sorts by intervals of `[0, farthest)`, stably within an interval. If `farthest` is infinite,
    /// all cells are in one interval.
    #[inline(always)]
    fn sort(&mut self, farthest: f64) -> &[(f64, u32)] {
        let scale = INTERVALS as f64 / farthest;
        let interval = |gap: f64| ((gap * scale) as usize).min(INTERVALS - 1);
        let mut places = [0; INTERVALS + 1];
        self.unsorted.iter().for_each(|&(gap, _)| places[interval(gap) + 1] += 1);
        (0..INTERVALS).for_each(|i| places[i + 1] += places[i]);
        self.sorted.resize(self.unsorted.len(), (0.0, 0));
        for &(gap, cell) in &self.unsorted {
            let place: &mut usize = &mut places[interval(gap)];
            self.sorted[*place] = (gap, cell);
            *place += 1;
        }
        &self.sorted
    }
}
