//! The k nearest points of every point by Euclidean distance, among all others or among those before it in an order.
//!
//! A k-d tree is walked for a whole cell of queries at a time (J. L. Bentley 1975; J. H. Friedman,
//! J. L. Bentley & R. A. Finkel 1977). The queries share the cells that the walk visits. Each query
//! looks into the cells whose boxes are nearer than the farthest of its k nearest points so far,
//! nearest first. In many dimensions few cells can be skipped; a limit on the number of comparisons
//! then makes the search approximate. The result does not depend on the threads, the processor or the order of the
//! rows.

use super::blocks::Lists;
use super::candidates::{Candidates, Frontier, LANES, Near, Nearest, for_each_below, to_points};
use super::cells::{CELL, Group, Parts, cells, cut};
use crate::parallel::*;
use faer::MatRef;
use pulp::Simd;
use sparsegp_kernels::vector_math::{Pass, dispatch};

/// The default maximum number of points that a query is compared with. In up to about ten
/// dimensions the search is then exact; of the nearest 30 among 36,000 points that fill a cube in
/// twenty dimensions it finds more than 98 %.
pub const COMPARISONS: usize = 1 << 14;

/// The number of cells that a walk begins with. They limit the distance of the k nearest points
/// before more cells are gathered.
const FIRST: usize = 16;

/// The number of cells that a walk gathers for each cell that a query may look into.
const CONSIDERED: usize = 8;

/// The points that are searched, cut into cells.
pub struct Index {
    /// The points' indices, in the order of the cells.
    members: Vec<u32>,
    groups: Vec<Group>,
    /// Coordinates of the members: per cell, `CELL / LANES` blocks of `D × LANES` numbers, infinite
    /// for missing points.
    coordinates: Vec<f64>,
    dims: usize,
    /// The maximum number of cells that a query looks into.
    budget: usize,
}

/// The points that a query may find.
#[derive(Clone, Copy)]
enum Allowed<'a> {
    /// All points except the query, which is one of the points.
    Others,
    /// Points of a lower rank than the query.
    Before(&'a [u32]),
    /// All points; queries do not belong to the points.
    All,
}

impl Index {
    /// Creates an index of the points `points`, rows of `x` (`N × D`). Every query is compared with
    /// at most `comparisons` points (rounded up to whole cells).
    pub fn new(x: MatRef<'_, f64>, mut points: Vec<u32>, comparisons: usize) -> Index {
        let (groups, dims) = (cut(x, &mut points), x.ncols());
        let mut coordinates = vec![f64::INFINITY; cells(&groups).count() * dims * CELL];
        for (cell, blocks) in cells(&groups).zip(coordinates.chunks_exact_mut((dims * CELL).max(1))) {
            let members = points[cell.members.clone()].chunks(LANES);
            for (members, block) in members.zip(blocks.chunks_exact_mut(dims * LANES)) {
                for (d, run) in block.chunks_exact_mut(LANES).enumerate() {
                    run.iter_mut().zip(members).for_each(|(to, &point)| *to = x[(point as usize, d)]);
                }
            }
        }
        Index { members: points, groups, coordinates, dims, budget: comparisons.div_ceil(CELL).max(1) }
    }

    /// Returns the `k` nearest indexed points of every row of `queries` (`Q × D`), with an order of
    /// the queries in which near queries follow each other.
    pub(crate) fn nearest(&self, queries: MatRef<'_, f64>, k: usize) -> (Vec<u32>, Lists) {
        let mut order: Vec<u32> = (0..queries.nrows() as u32).collect();
        let groups = cut(queries, &mut order);
        let found = self.search(queries, &order, &groups, k, Allowed::All);
        (order, Lists::by_query(queries.nrows(), found))
    }

    /// Returns the `k` nearest points of every cell of queries.
    fn search(
        &self,
        x: MatRef<'_, f64>,
        order: &[u32],
        groups: &[Group],
        k: usize,
        allowed: Allowed<'_>,
    ) -> Vec<(u32, Vec<u32>)> {
        let of_cell = |scratch: &mut Scratch, cell: &Group| {
            let queries =
                order[cell.members.clone()].iter().map(|&row| Query::new(x, row, k, allowed)).collect();
            self.search_cell(queries, cell, scratch)
        };
        let cells: Vec<&Group> = cells(groups).collect();
        let found: Vec<_> = cells.into_par_iter().map_init(Scratch::default, of_cell).collect();
        found.into_iter().flatten().collect()
    }

    fn search_cell(
        &self,
        mut queries: Vec<Query<'_>>,
        cell: &Group,
        scratch: &mut Scratch,
    ) -> Vec<(u32, Vec<u32>)> {
        let Scratch { frontier, candidates, near } = scratch;
        frontier.reset(&self.groups, cell);
        let mut farthest = f64::INFINITY;
        for most in [1, FIRST, CONSIDERED * self.budget] {
            // A round is repeated until all queries have k points, or no cells are left.
            loop {
                candidates.clear();
                while candidates.len() < most
                    && let Some(at) = frontier.next_cell(&self.groups, cell, farthest)
                {
                    candidates.push(&self.groups[at], at);
                }
                queries.iter_mut().for_each(|query| dispatch(Look { index: self, candidates, near, query }));
                farthest =
                    queries.iter().map(|query| query.nearest.farthest()).fold(f64::NEG_INFINITY, f64::max);
                if farthest < f64::INFINITY || candidates.len() == 0 {
                    break;
                }
            }
        }
        queries.iter().map(|query| (query.row, query.nearest.points())).collect()
    }

    /// Compares a query with the points of the cell `self.groups[at]`.
    #[inline(always)]
    fn compare(&self, query: &mut Query<'_>, at: usize) {
        let Group { members, parts: Parts::Cell(number), .. } = &self.groups[at] else { return };
        let (start, size) = (number * self.dims * CELL, self.dims * LANES);
        for (block, members) in self.members[members.clone()].chunks(LANES).enumerate() {
            let distances = to_points(&query.point, &self.coordinates[start + block * size..][..size]);
            for_each_below(&distances, query.nearest.farthest(), |lane| {
                if distances[lane] < query.nearest.farthest()
                    && query.allowed.admits(query.row, members[lane])
                {
                    query.nearest.take(distances[lane], members[lane]);
                }
            });
        }
    }
}

impl Allowed<'_> {
    #[inline(always)]
    fn admits(self, query: u32, point: u32) -> bool {
        match self {
            Allowed::Others => query != point,
            Allowed::Before(rank) => rank[point as usize] < rank[query as usize],
            Allowed::All => true,
        }
    }
}

/// A row that looks for its nearest points.
struct Query<'a> {
    row: u32,
    point: Vec<f64>,
    allowed: Allowed<'a>,
    nearest: Nearest,
    /// The number of cells that it has looked into.
    seen: usize,
}

impl<'a> Query<'a> {
    fn new(x: MatRef<'_, f64>, row: u32, k: usize, allowed: Allowed<'a>) -> Self {
        let point = x.row(row as usize).iter().copied().collect();
        Query { row, point, allowed, nearest: Nearest::new(k), seen: 0 }
    }
}

/// Buffers of a thread, used for one cell of queries after the other.
#[derive(Default)]
struct Scratch {
    frontier: Frontier,
    candidates: Candidates,
    near: Near,
}

/// The pass in which a query looks into the candidates that may contain nearer points.
struct Look<'a, 'q> {
    index: &'a Index,
    candidates: &'a Candidates,
    near: &'a mut Near,
    query: &'a mut Query<'q>,
}

impl Pass for Look<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Look { index, query, .. } = self;
        for &(gap, at) in self.candidates.near(&query.point, query.nearest.farthest(), self.near) {
            let farthest = query.nearest.farthest();
            if gap < farthest && (query.seen < index.budget || farthest == f64::INFINITY) {
                index.compare(query, at as usize);
                query.seen += 1;
            }
        }
    }
}

/// Returns the `k` nearest other rows of `x` (`N × D`) for each of `rows`, with an order of `rows`
/// in which near rows follow each other. The lists of all other rows are empty.
pub fn nearest_others(x: MatRef<'_, f64>, rows: &[u32], k: usize, comparisons: usize) -> (Vec<u32>, Lists) {
    let index = Index::new(x, (0..x.nrows() as u32).collect(), comparisons);
    let mut order = rows.to_vec();
    let groups = cut(x, &mut order);
    let found = index.search(x, &order, &groups, k, Allowed::Others);
    (order, Lists::by_query(x.nrows(), found))
}

/// Returns, for each of `rows`, the `k` nearest rows of `x` (`N × D`) that come before it in
/// `order`, a permutation of all rows; the first rows have fewer. `rows` must be in this order too.
/// The lists of all other rows are empty.
pub fn nearest_before(
    x: MatRef<'_, f64>,
    order: &[u32],
    rows: &[u32],
    k: usize,
    comparisons: usize,
) -> Lists {
    let mut rank = vec![0_u32; order.len()];
    order.iter().zip(0..).for_each(|(&point, at)| rank[point as usize] = at);
    let (mut found, mut rest) = (Vec::with_capacity(rows.len()), rows);
    // The search proceeds by prefixes of the order, each twice as long as the one before. The points
    // in the second half of a prefix search the whole prefix, so at least half of the searched points
    // come before them.
    let mut to = CELL.min(order.len());
    while !rest.is_empty() {
        let (own, later) = rest.split_at(rest.partition_point(|&row| (rank[row as usize] as usize) < to));
        if !own.is_empty() {
            let index = Index::new(x, order[..to].to_vec(), comparisons);
            let mut queries = own.to_vec();
            let groups = cut(x, &mut queries);
            found.extend(index.search(x, &queries, &groups, k, Allowed::Before(&rank)));
        }
        (rest, to) = (later, (2 * to).min(order.len()));
    }
    Lists::by_query(order.len(), found)
}

#[cfg(test)]
mod tests {
    use super::super::candidates::Ordered;
    use super::*;
    use faer::Mat;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::collections::HashSet;

    fn points(n: usize, d: usize, seed: u64) -> Mat<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        Mat::from_fn(n, d, |_, _| random.random::<f64>())
    }

    fn squared_distance(x: MatRef<'_, f64>, a: usize, b: usize) -> f64 {
        x.row(a).iter().zip(x.row(b).iter()).map(|(a, b)| (a - b).powi(2)).sum()
    }

    fn everyone(x: MatRef<'_, f64>, k: usize, comparisons: usize) -> Lists {
        let rows: Vec<u32> = (0..x.nrows() as u32).collect();
        nearest_others(x, &rows, k, comparisons).1
    }

    /// Finds the nearest points by brute force, as a reference for the search.
    fn slowly(x: MatRef<'_, f64>, query: usize, allowed: impl Fn(usize) -> bool, k: usize) -> Vec<u32> {
        let mut all: Vec<(Ordered, u32)> = (0..x.nrows())
            .filter(|&other| allowed(other))
            .map(|other| (Ordered(squared_distance(x, query, other)), other as u32))
            .collect();
        all.sort_unstable();
        all.into_iter().take(k).map(|(_, point)| point).collect()
    }

    proptest! {
        /// Points on a grid repeat and are equally near, so only the distances of the points are
        /// compared with brute force.
        #[test]
        fn lists_are_as_near_as_those_of_brute_force(
            (n, d, k) in (1usize..400, 1usize..12, 0usize..60), values in 1u32..5, seed in 0u64..1000,
        ) {
            let x = points(n, d, seed);
            let x = Mat::from_fn(n, d, |i, j| (x[(i, j)] * f64::from(values)).floor());
            let lists = everyone(x.as_ref(), k, n);
            for row in 0..n {
                let apart = |&other: &u32| squared_distance(x.as_ref(), row, other as usize);
                let found: Vec<f64> = lists.get(row).iter().map(apart).collect();
                let wanted = slowly(x.as_ref(), row, |other| other != row, k);
                let distinct: HashSet<&u32> = lists.get(row).iter().collect();
                prop_assert_eq!(distinct.len(), wanted.len());
                prop_assert!(!distinct.contains(&(row as u32)));
                prop_assert_eq!(found, wanted.iter().map(apart).collect::<Vec<f64>>());
            }
        }
    }

    #[test]
    fn a_budget_loses_few_neighbours_where_inputs_depend_on_each_other() {
        let (n, d, k) = (6000, 20, 30);
        let (source, noise) = (points(n, 5, 4), points(n, d, 5));
        let x = Mat::from_fn(n, d, |i, j| {
            let wave: f64 = (0..5).map(|l| source[(i, l)] * ((j * (l + 2)) as f64 * 0.7).sin()).sum();
            wave + 0.02 * noise[(i, j)]
        });
        let lists = everyone(x.as_ref(), k, n / 4);
        let found = |row: usize| {
            let all = slowly(x.as_ref(), row, |other| other != row, k);
            lists.get(row).iter().filter(|point| all.contains(point)).count()
        };
        let recall = (0..n).step_by(40).map(found).sum::<usize>() as f64 / (n / 40 * k) as f64;
        assert!(recall > 0.98, "{recall}");
    }

    #[test]
    fn ties_and_threads_do_not_change_the_lists() {
        assert_eq!(everyone(Mat::zeros(0, 3).as_ref(), 4, 10).len(), 0);
        // The second case exhausts its budget.
        for (x, budget) in [(Mat::from_fn(500, 1, |i, _| (i % 10) as f64), 500), (points(2000, 12, 6), 200)] {
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                pool.install(|| everyone(x.as_ref(), 20, budget))
            };
            assert_eq!(run(1), run(3));
        }
    }
}
