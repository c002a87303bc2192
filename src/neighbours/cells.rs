//! Cells: points divided at medians into groups of near points of nearly equal size, with their
//! bounding boxes.

use faer::MatRef;

/// The maximum number of points in a cell. The distances from one point to all points of a cell are
/// computed together.
pub(super) const CELL: usize = 64;

/// A group of points that lie near each other.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The range of its points in the list that was cut.
    pub members: std::ops::Range<usize>,
    pub parts: Parts,
    /// The least and the largest value of each coordinate.
    pub bounds: Vec<(f64, f64)>,
}

/// The members of a group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parts {
    /// Points: the group is the cell with this number.
    Cell(usize),
    /// Two groups: the next one in the list of groups and the one with this index.
    Halves(usize),
}

impl Group {
    /// Returns the squared distance between the boxes of two groups, 0 if they meet.
    pub(crate) fn squared_distance(&self, other: &Group) -> f64 {
        let gap = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 - b.1).max(b.0 - a.1).max(0.0);
        self.bounds.iter().zip(&other.bounds).map(|pair| gap(pair).powi(2)).sum()
    }

    /// Returns the squared distance from the middle of the box of another group to the box of this
    /// group.
    pub(crate) fn squared_distance_to_middle(&self, other: &Group) -> f64 {
        let gap = |(a, b): (&(f64, f64), &(f64, f64))| {
            let middle = 0.5 * b.0 + 0.5 * b.1;
            (a.0 - middle).max(middle - a.1).max(0.0)
        };
        self.bounds.iter().zip(&other.bounds).map(|pair| gap(pair).powi(2)).sum()
    }
}

/// Cuts the points `points` (rows of `x`, `N × D`) into cells, and sorts the list by cells. Returns
/// the tree of groups, each group before its halves. Ties are broken by the index of the point, so
/// the result does not depend on the initial order of the list.
pub(super) fn cut(x: MatRef<'_, f64>, points: &mut [u32]) -> Vec<Group> {
    let mut tree = Tree { x, groups: Vec::with_capacity(4 * points.len() / CELL + 1), cells: 0 };
    if !points.is_empty() {
        tree.cut(points, 0);
    }
    tree.groups
}

/// Returns the cells among groups, in the order of their numbers.
pub(super) fn cells(groups: &[Group]) -> impl Iterator<Item = &Group> {
    groups.iter().filter(|group| matches!(group.parts, Parts::Cell(_)))
}

/// A tree of groups under construction.
struct Tree<'a> {
    x: MatRef<'a, f64>,
    groups: Vec<Group>,
    cells: usize,
}

impl Tree<'_> {
    /// Adds the group of `points`, which start at `first` in the whole list, and all groups below
    /// it.
    fn cut(&mut self, points: &mut [u32], first: usize) {
        let (x, at) = (self.x, self.groups.len());
        let bounds = bounds(x, points);
        let d = widest(&bounds);
        let members = first..first + points.len();
        self.groups.push(Group { members, parts: Parts::Cell(self.cells), bounds });
        if points.len() <= CELL {
            points.sort_unstable();
            self.cells += 1;
            return;
        }
        // If halves contain whole numbers of cells, no cell is nearly empty.
        let middle = points.len().div_ceil(2 * CELL) * CELL;
        let middle = if middle < points.len() { middle } else { points.len() / 2 };
        let value = |point: &u32| x.get(*point as usize, d);
        points.select_nth_unstable_by(middle, |a, b| value(a).total_cmp(value(b)).then(a.cmp(b)));
        let (low, high) = points.split_at_mut(middle);
        self.cut(low, first);
        self.groups[at].parts = Parts::Halves(self.groups.len());
        self.cut(high, first + middle);
    }
}

/// Returns the first of the coordinates that vary most; 0 without coordinates.
fn widest(bounds: &[(f64, f64)]) -> usize {
    let width = |d: usize| bounds[d].1 - bounds[d].0;
    (0..bounds.len()).max_by(|&a, &b| width(a).total_cmp(&width(b)).then(b.cmp(&a))).unwrap_or(0)
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
