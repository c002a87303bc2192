//! The k nearest points of every point, among all others or among those before it in an order; distances alone, no covariances.
//!
//! A k-d tree that is searched for a whole cell at a time: the points of a cell share the cells that they are compared with, from the
//! nearest on, and the search ends where the next box is farther than the farthest of everybody's k nearest. In many dimensions no box is
//! that far; a budget of comparisons then makes the search approximate. The result depends on neither threads nor the order of the rows.

use super::cells::{CELL, Cell, cut};
use faer::{Mat, MatRef};
use pulp::Arch;
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Points that every point is compared with at most, by default: all that matter in up to some ten dimensions.
pub const COMPARISONS: usize = 1 << 15;

/// Neighbours of rows: a list of row numbers for each, nearest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    ends: Vec<usize>,
    rows: Vec<u32>,
}

impl Lists {
    /// Of these lists.
    pub fn of<'a>(lists: impl IntoIterator<Item = &'a [u32]>) -> Lists {
        let mut all = Lists::default();
        lists.into_iter().for_each(|list| all.push(list));
        all
    }

    fn push(&mut self, list: &[u32]) {
        self.rows.extend_from_slice(list);
        self.ends.push(self.rows.len());
    }

    /// The neighbours of row `row`.
    pub fn get(&self, row: usize) -> &[u32] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.rows[start..self.ends[row]]
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The longest list.
    pub fn longest(&self) -> usize {
        (0..self.len()).map(|row| self.get(row).len()).max().unwrap_or(0)
    }
}

/// Points to look among, cut into cells.
pub struct Index {
    /// The points' indices, in the order of the cells.
    members: Vec<u32>,
    cells: Vec<Cell>,
    /// Coordinates of the members: `D × CELL` numbers a cell, of a coordinate one after the other, infinite where a cell has fewer.
    coordinates: Vec<f64>,
    dims: usize,
    budget: usize,
}

/// Which of the points a query may be given.
#[derive(Clone, Copy)]
enum Allowed<'a> {
    /// All but the query itself, which is one of them.
    Others,
    /// Those of a lower rank than the query's.
    Before(&'a [u32]),
    /// All: queries are other points.
    All,
}

impl Index {
    /// An index of the points `points`, rows of `x` (`N × D`), each compared with at most `comparisons` others (rounded up to
    /// whole cells).
    pub fn new(x: MatRef<'_, f64>, mut points: Vec<u32>, comparisons: usize) -> Index {
        let cells = cut(x, &mut points);
        let dims = x.ncols();
        let mut coordinates = vec![f64::INFINITY; cells.len() * dims * CELL];
        for (cell, block) in cells.iter().zip(coordinates.chunks_exact_mut((dims * CELL).max(1))) {
            for (at, &point) in points[cell.members.clone()].iter().enumerate() {
                x.row(point as usize).iter().enumerate().for_each(|(d, value)| block[d * CELL + at] = *value);
            }
        }
        Index { members: points, cells, coordinates, dims, budget: comparisons.div_ceil(CELL).max(1) }
    }

    /// The `k` nearest indexed points of every row of `queries` (`Q × D`), with an order of the queries in which near ones follow each
    /// other.
    pub fn nearest(&self, queries: MatRef<'_, f64>, k: usize) -> (Vec<u32>, Lists) {
        let mut order: Vec<u32> = (0..queries.nrows() as u32).collect();
        let cells = cut(queries, &mut order);
        let found = self.search(queries, (&order, &cells), k, Allowed::All);
        (order, in_order(queries.nrows(), found))
    }

    /// The `k` nearest points of every cell of queries.
    fn search(
        &self,
        x: MatRef<'_, f64>,
        (order, cells): (&[u32], &[Cell]),
        k: usize,
        allowed: Allowed<'_>,
    ) -> Vec<(u32, Vec<u32>)> {
        let of_cell = |cell: &Cell| self.search_cell(x, (&order[cell.members.clone()], cell), k, allowed);
        cells.par_iter().flat_map_iter(of_cell).collect()
    }

    fn search_cell(
        &self,
        x: MatRef<'_, f64>,
        (queries, cell): (&[u32], &Cell),
        k: usize,
        allowed: Allowed<'_>,
    ) -> Vec<(u32, Vec<u32>)> {
        let mut nearest: Vec<Nearest> = queries.iter().map(|_| Nearest::new(k)).collect();
        let ordered = |(at, other): (usize, &Cell)| Reverse((Ordered(cell.squared_distance(other)), at));
        let mut candidates: BinaryHeap<_> = self.cells.iter().enumerate().map(ordered).collect();
        let points = Mat::from_fn(x.ncols(), queries.len(), |d, i| x[(queries[i] as usize, d)]);
        let (mut seen, mut farthest) = (0, f64::INFINITY);
        while let Some(Reverse((Ordered(gap), at))) = candidates.pop() {
            if k == 0 || gap > farthest || (seen >= self.budget && farthest.is_finite()) {
                break;
            }
            seen += 1;
            Arch::new().dispatch(
                #[inline(always)]
                || self.compare(at, (queries, points.as_ref()), allowed, &mut nearest),
            );
            farthest = nearest.iter().map(Nearest::farthest).fold(0.0, f64::max);
        }
        queries.iter().copied().zip(nearest.into_iter().map(Nearest::into_points)).collect()
    }
}

impl Index {
    /// Compares queries (`points`, `D × q`) with the members of cell `at`.
    #[inline(always)]
    fn compare(
        &self,
        at: usize,
        (queries, points): (&[u32], MatRef<'_, f64>),
        allowed: Allowed<'_>,
        nearest: &mut [Nearest],
    ) {
        let block = &self.coordinates[at * self.dims * CELL..(at + 1) * self.dims * CELL];
        let members = &self.members[self.cells[at].members.clone()];
        for (i, (&query, nearest)) in queries.iter().zip(nearest).enumerate() {
            let point = points.col(i).try_as_col_major().map_or(&[][..], |point| point.as_slice());
            let farthest = nearest.farthest();
            if self.cells[at].squared_distance_to(point) > farthest {
                continue;
            }
            let distances = distances(point, block);
            // Most cells hold no point that is near enough: that is seen in vectors.
            if !distances.iter().fold(false, |any, distance| any | (*distance < farthest)) {
                continue;
            }
            for (&point, &distance) in members.iter().zip(&distances) {
                if distance < nearest.farthest() && allowed.admits(query, point) {
                    nearest.take(distance, point);
                }
            }
        }
    }
}

impl Allowed<'_> {
    fn admits(self, query: u32, point: u32) -> bool {
        match self {
            Allowed::Others => query != point,
            Allowed::Before(rank) => rank[point as usize] < rank[query as usize],
            Allowed::All => true,
        }
    }
}

/// The `k` nearest others of every row of `x` (`N × D`).
pub fn nearest_others(x: MatRef<'_, f64>, k: usize, comparisons: usize) -> Lists {
    let index = Index::new(x, (0..x.nrows() as u32).collect(), comparisons);
    let found = index.search(x, (&index.members, &index.cells), k, Allowed::Others);
    in_order(x.nrows(), found)
}

/// For every row of `x` (`N × D`) the `k` nearest of those that come before it in `order`, a permutation of the rows; fewer at its
/// beginning.
pub fn nearest_before(x: MatRef<'_, f64>, order: &[u32], k: usize, comparisons: usize) -> Lists {
    let mut rank = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&point, at)| rank[point as usize] = at);
    let mut found = Vec::with_capacity(order.len());
    // Points of one half of an order look among those of twice as many: half of them come before.
    let (mut from, mut to) = (0, CELL.min(order.len()));
    while from < to {
        let index = Index::new(x, order[..to].to_vec(), comparisons);
        let mut queries = order[from..to].to_vec();
        let cells = cut(x, &mut queries);
        found.extend(index.search(x, (&queries, &cells), k, Allowed::Before(&rank)));
        (from, to) = (to, (2 * to).min(order.len()));
    }
    in_order(order.len(), found)
}

/// Lists by the index of their query.
fn in_order(n: usize, found: Vec<(u32, Vec<u32>)>) -> Lists {
    let mut by_query = vec![Vec::new(); n];
    found.into_iter().for_each(|(query, points)| by_query[query as usize] = points);
    Lists::of(by_query.iter().map(Vec::as_slice))
}

/// The squared distances of a point to the points of a cell.
#[inline(always)]
fn distances(point: &[f64], block: &[f64]) -> [f64; CELL] {
    let mut sums = [0.0; CELL];
    for (value, coordinates) in point.iter().zip(block.chunks_exact(CELL)) {
        for (sum, other) in sums.iter_mut().zip(coordinates) {
            let difference = value - other;
            *sum += difference * difference;
        }
    }
    sums
}

/// A distance that has an order; none is NaN.
#[derive(Clone, Copy, PartialEq)]
struct Ordered(f64);

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

/// The nearest points of one query so far: a heap with the farthest of them on top.
struct Nearest {
    most: usize,
    heap: BinaryHeap<(Ordered, u32)>,
}

impl Nearest {
    fn new(k: usize) -> Self {
        Nearest { most: k, heap: BinaryHeap::with_capacity(k + 1) }
    }

    /// The distance that a point has to be nearer than.
    fn farthest(&self) -> f64 {
        match self.heap.peek() {
            Some((Ordered(distance), _)) if self.heap.len() == self.most => *distance,
            _ => f64::INFINITY,
        }
    }

    fn take(&mut self, distance: f64, point: u32) {
        if self.heap.len() == self.most {
            self.heap.pop();
        }
        self.heap.push((Ordered(distance), point));
    }

    fn into_points(self) -> Vec<u32> {
        self.heap.into_sorted_vec().into_iter().map(|(_, point)| point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::seq::SliceRandom;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn points(n: usize, d: usize, seed: u64) -> Mat<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        Mat::from_fn(n, d, |_, _| random.random::<f64>())
    }

    /// Brute force, which tests hold the search against.
    fn slowly(x: MatRef<'_, f64>, query: usize, allowed: impl Fn(usize) -> bool, k: usize) -> Vec<u32> {
        let distance = |other: usize| -> f64 {
            x.row(query).iter().zip(x.row(other).iter()).map(|(a, b)| (a - b).powi(2)).sum()
        };
        let mut all: Vec<(Ordered, u32)> = (0..x.nrows())
            .filter(|&other| allowed(other))
            .map(|other| (Ordered(distance(other)), other as u32))
            .collect();
        all.sort_unstable();
        all.into_iter().take(k).map(|(_, point)| point).collect()
    }

    #[test]
    fn the_search_finds_what_brute_force_finds() {
        for (n, d, k) in [(1, 1, 3), (2, 3, 5), (63, 2, 4), (65, 1, 70), (1000, 3, 7), (700, 8, 30)] {
            let x = points(n, d, 1);
            let mut order: Vec<u32> = (0..n as u32).collect();
            order.shuffle(&mut ChaCha8Rng::seed_from_u64(2));
            let mut rank = vec![0; n];
            order.iter().enumerate().for_each(|(at, &point)| rank[point as usize] = at);
            let (others, before) =
                (nearest_others(x.as_ref(), k, n), nearest_before(x.as_ref(), &order, k, n));
            let fresh = points(90, d, 3);
            let index = Index::new(x.as_ref(), (0..n as u32).collect(), n);
            let among = index.nearest(fresh.as_ref(), k).1;
            assert_eq!((others.len(), before.len(), among.len()), (n, n, 90));
            for row in 0..n {
                assert_eq!(others.get(row), slowly(x.as_ref(), row, |other| other != row, k));
                assert_eq!(before.get(row), slowly(x.as_ref(), row, |other| rank[other] < rank[row], k));
            }
            let both = Mat::from_fn(n + 90, d, |i, j| if i < n { x[(i, j)] } else { fresh[(i - n, j)] });
            for row in 0..90 {
                assert_eq!(among.get(row), slowly(both.as_ref(), n + row, |other| other < n, k));
            }
        }
    }

    #[test]
    fn repeated_points_and_no_neighbours_are_fine() {
        let x = Mat::from_fn(300, 2, |i, j| ((i / 50) * (j + 1)) as f64);
        let lists = nearest_others(x.as_ref(), 49, 300);
        for row in 0..300 {
            assert!(lists.get(row).iter().all(|&other| other as usize / 50 == row / 50), "{row}");
        }
        assert_eq!(nearest_others(x.as_ref(), 0, 300).longest(), 0);
        assert!(nearest_others(Mat::zeros(0, 3).as_ref(), 4, 10).is_empty());
    }

    #[test]
    fn a_budget_loses_few_neighbours_where_inputs_depend_on_each_other() {
        let (n, d, k) = (6000, 20, 30);
        let (source, noise) = (points(n, 5, 4), points(n, d, 5));
        let x = Mat::from_fn(n, d, |i, j| {
            let wave: f64 = (0..5).map(|l| source[(i, l)] * ((j * (l + 2)) as f64 * 0.7).sin()).sum();
            wave + 0.02 * noise[(i, j)]
        });
        let lists = nearest_others(x.as_ref(), k, n / 4);
        let found = |row: usize| {
            let all = slowly(x.as_ref(), row, |other| other != row, k);
            lists.get(row).iter().filter(|point| all.contains(point)).count()
        };
        let recall = (0..n).step_by(40).map(found).sum::<usize>() as f64 / (n / 40 * k) as f64;
        assert!(recall > 0.98, "{recall}");
    }

    #[test]
    fn ties_and_threads_do_not_change_the_lists() {
        let x = Mat::from_fn(500, 1, |i, _| (i % 10) as f64);
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| nearest_others(x.as_ref(), 20, 500))
        };
        assert_eq!(run(1), run(3));
    }
}
