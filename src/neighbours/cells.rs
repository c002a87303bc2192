//! Cells: points cut at medians into groups of neighbours of nearly one size, with the box around each; no distances between points.

use faer::MatRef;

/// Points of a cell, at most. Distances from one point to all of a cell are found in one go.
pub(super) const CELL: usize = 64;

/// A group of points that lie near each other.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// Which points, into the list that was cut.
    pub members: std::ops::Range<usize>,
    /// The least and the largest value of each coordinate.
    bounds: Vec<(f64, f64)>,
}

impl Cell {
    /// The squared distance between the boxes of two cells, 0 where they meet.
    pub fn squared_distance(&self, other: &Cell) -> f64 {
        let gap = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 - b.1).max(b.0 - a.1).max(0.0);
        self.bounds.iter().zip(&other.bounds).map(|pair| gap(pair).powi(2)).sum()
    }

    /// The squared distance of a point to the box, 0 within.
    #[inline(always)]
    pub fn squared_distance_to(&self, point: &[f64]) -> f64 {
        let gap = |(bound, x): (&(f64, f64), &f64)| (bound.0 - x).max(x - bound.1).max(0.0);
        self.bounds.iter().zip(point).map(|pair| gap(pair).powi(2)).sum()
    }
}

/// Cuts the points `points` (rows of `x`, `N × D`) into cells, and brings the list into their order. Ties are broken by the index of
/// the point, so that the order of the list that comes in does not matter.
pub(super) fn cut(x: MatRef<'_, f64>, points: &mut [u32]) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(points.len() / (CELL / 2) + 1);
    cut_from(x, points, 0, &mut cells);
    cells
}

fn cut_from(x: MatRef<'_, f64>, points: &mut [u32], first: usize, cells: &mut Vec<Cell>) {
    let bounds = bounds(x, points);
    if points.len() <= CELL {
        points.sort_unstable();
        if !points.is_empty() {
            cells.push(Cell { members: first..first + points.len(), bounds });
        }
        return;
    }
    let widest = (0..bounds.len()).max_by(|&a, &b| {
        let width = |d: usize| bounds[d].1 - bounds[d].0;
        width(a).total_cmp(&width(b)).then(b.cmp(&a))
    });
    let d = widest.unwrap_or(0);
    // Halves that are whole numbers of cells leave no cell nearly empty.
    let middle = points.len().div_ceil(2 * CELL) * CELL;
    let middle = if middle < points.len() { middle } else { points.len() / 2 };
    let value = |point: &u32| x.get(*point as usize, d);
    points.select_nth_unstable_by(middle, |a, b| value(a).total_cmp(value(b)).then(a.cmp(b)));
    let (low, high) = points.split_at_mut(middle);
    cut_from(x, low, first, cells);
    cut_from(x, high, first + middle, cells);
}

fn bounds(x: MatRef<'_, f64>, points: &[u32]) -> Vec<(f64, f64)> {
    let mut bounds = vec![(f64::INFINITY, f64::NEG_INFINITY); x.ncols()];
    for &point in points {
        for (bound, value) in bounds.iter_mut().zip(x.row(point as usize).iter()) {
            *bound = (bound.0.min(*value), bound.1.max(*value));
        }
    }
    bounds
}
