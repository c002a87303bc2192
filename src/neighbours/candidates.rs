//! The search for the nearest points of a query: the cells that it may look into, nearest first by the distance of the query from their
//! boxes, and the nearest points so far.

use super::cells::{Group, Parts};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// A distance with a total order; it is never NaN.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Ordered(pub f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The groups of points that are still to be visited, ordered by their distance from the middle of
/// the queries. Only groups that contain near cells are divided, so the cost of a search hardly
/// depends on the number of cells.
#[derive(Default)]
pub(super) struct Frontier {
    ahead: BinaryHeap<Reverse<(Ordered, usize)>>,
}

impl Frontier {
    /// Starts again at the root of `groups`, for the queries of the cell `queries`.
    pub(crate) fn reset(&mut self, groups: &[Group], queries: &Group) {
        self.ahead.clear();
        if !groups.is_empty() {
            self.push(groups, queries, 0);
        }
    }

    fn push(&mut self, groups: &[Group], queries: &Group, at: usize) {
        self.ahead.push(Reverse((Ordered(groups[at].squared_distance_to_middle(queries)), at)));
    }

    /// Returns the next cell, as an index into `groups`, among the cells nearer than `farthest` (a
    /// squared distance) to the box of the queries.
    pub(crate) fn next_cell(&mut self, groups: &[Group], queries: &Group, farthest: f64) -> Option<usize> {
        while let Some(Reverse((_, at))) = self.ahead.pop() {
            if groups[at].squared_distance(queries) >= farthest {
                continue;
            }
            match groups[at].parts {
                Parts::Cell(_) => return Some(at),
                Parts::Halves(second) => {
                    [at + 1, second].into_iter().for_each(|at| self.push(groups, queries, at))
                }
            }
        }
        None
    }
}

/// The maximum initial capacity of a list, because a caller may request more points than there are.
const LONGEST: usize = 1024;

/// At most `most` points with their squared distances, nearest first; equally near points are in
/// the order of their indices.
pub(super) struct Nearest {
    most: usize,
    found: Vec<(f64, u32)>,
}

impl Nearest {
    pub fn new(most: usize) -> Self {
        Nearest { most, found: Vec::with_capacity(most.min(LONGEST)) }
    }

    /// Returns the squared distance below which a point is added.
    #[inline(always)]
    pub(crate) fn farthest(&self) -> f64 {
        match self.found.last() {
            Some(&(distance, _)) if self.found.len() == self.most => distance,
            _ if self.most == 0 => f64::NEG_INFINITY,
            _ => f64::INFINITY,
        }
    }

    /// Adds a point nearer than the farthest, and replaces that one if the list is full.
    #[inline]
    pub fn take(&mut self, distance: f64, point: u32) {
        if self.found.len() == self.most {
            self.found.pop();
        }
        let farther =
            |&&(other, index): &&(f64, u32)| other > distance || (other == distance && index > point);
        let at = self.found.len() - self.found.iter().rev().take_while(farther).count();
        self.found.insert(at, (distance, point));
    }

    /// Returns the points, nearest first.
    pub fn points(&self) -> Vec<u32> {
        self.found.iter().map(|&(_, point)| point).collect()
    }
}

/// The number of points or boxes whose distances are computed together, small enough that the sums
/// stay in registers.
pub(super) const LANES: usize = 32;

/// The squared distances to `LANES` points or boxes.
pub(super) type Distances = [f64; LANES];

/// Returns the squared distances to the points of a block, which has `D` runs of `LANES`
/// coordinates.
#[inline(always)]
pub(super) fn to_points(point: &[f64], block: &[f64]) -> Distances {
    let mut sums = [0.0; LANES];
    for (value, coordinates) in point.iter().zip(block.as_chunks::<LANES>().0) {
        for (sum, other) in sums.iter_mut().zip(coordinates) {
            let difference = value - other;
            *sum += difference * difference;
        }
    }
    sums
}

/// Returns the squared distances to the boxes of a block, which has a run of least values and a run
/// of largest values for each coordinate.
#[inline(always)]
pub(super) fn to_boxes(point: &[f64], block: &[f64]) -> Distances {
    let mut sums = [0.0; LANES];
    for (value, bounds) in point.iter().zip(block.as_chunks::<LANES>().0.as_chunks::<2>().0) {
        for ((sum, low), high) in sums.iter_mut().zip(&bounds[0]).zip(&bounds[1]) {
            let (below, above) = (low - value, value - high);
            let gap = if below > above { below } else { above };
            let gap = if gap > 0.0 { gap } else { 0.0 };
            *sum += gap * gap;
        }
    }
    sums
}

/// Calls `take` with the lane of every distance below `bound`, in order.
#[inline(always)]
pub(super) fn for_each_below(distances: &Distances, bound: f64, mut take: impl FnMut(usize)) {
    let below: [u8; LANES] = std::array::from_fn(|lane| u8::from(distances[lane] < bound));
    for (part, bytes) in below.as_chunks::<8>().0.iter().enumerate() {
        // Few distances are below the bound, so eight comparisons at a time are skipped.
        let mut bits = u64::from_le_bytes(*bytes);
        while bits != 0 {
            take(part * 8 + bits.trailing_zeros() as usize / 8);
            bits &= bits - 1;
        }
    }
}
