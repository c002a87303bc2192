//! The choice of the initial inducing inputs: k-means, greedy conditional variance or random rows.
//!
//! All functions here are pure functions of the data, the options and the seed. Parallel loops run
//! over blocks of a fixed size and every reduction is made in block order, so the number of threads
//! never changes a result.

use super::pivots::{Pivoting, RESIDUAL_FLOOR};
use super::{Embedding, InducingLayer};
use crate::error::{Error, Result};
use crate::parallel::*;
use crate::words::word_option;
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatRef, Par};
use rand::RngExt;
use rand::SeedableRng;
use rand::seq::{SliceRandom, index};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::{Dimension, Kernel};

/// The maximum number of rows for k-means and random rows, unless [`ROWS_PER_CENTRE`] rows for each
/// inducing input are more.
const KMEANS_ROWS: usize = 10_000;
const ROWS_PER_CENTRE: usize = 20;

/// The maximum number of rows for the greedy choice, unless [`ROWS_PER_PIVOT`] rows for each
/// inducing input are more.
const GREEDY_ROWS: usize = 10_000;
const ROWS_PER_PIVOT: usize = 5;

/// The maximum number of rows for the greedy choice of additional inducing inputs, unless
/// [`ROWS_PER_PIVOT`] rows for each of them are more.
const GROWTH_ROWS: usize = 5000;

/// An inducing input that explains less variance than this many jitters adds little but a bad condition number.
const JITTERS: f64 = 10.0;

/// The number of rows in one unit of parallel work; fixed, so that rounding does not depend on the
/// number of threads.
const BLOCK: usize = 512;

/// The maximum number of Lloyd's iterations. The result is only a start, and the first few
/// iterations bring most of the gain.
const LLOYD_ITERATIONS: usize = 10;

/// Lloyd's iterations end when the sum of squared distances falls by less than this fraction.
const LLOYD_GAIN: f64 = 1e-3;

/// Two rows closer than this many standard deviations count as one: a squared-exponential
/// covariance of unit lengthscale, `1 − r²/2`, rounds to 1 there, so a second inducing input could
/// add nothing but a singular matrix.
const SAME: f64 = 1.5e-8;

word_option! {
    /// The method that chooses the initial inducing inputs.
    #[derive(Default)]
    #[non_exhaustive]
    InducingInit, "choice of inducing inputs" {
        /// Centres of k-means, seeded by k-means++ (Arthur and Vassilvitskii 2007), on a random part of the rows.
        #[default]
        KMeans = "kmeans",
        /// Rows picked one by one, each where the prior variance given the earlier ones is largest:
        /// a pivoted Cholesky factorisation of the kernel matrix (Burt, Rasmussen and van der Wilk
        /// 2020), on a random part of the rows.
        Greedy = "greedy",
        /// Distinct rows, uniformly.
        Random = "random",
    }
}

impl InducingInit {
    /// Every choice, in the order help texts list them.
    #[doc(hidden)]
    pub const ALL: [InducingInit; 3] = [InducingInit::KMeans, InducingInit::Greedy, InducingInit::Random];
}

/// Returns initial inducing inputs `Z` (`M' × D`, rows are points) for the data `x` (`n × D`, rows
/// are points too).
///
/// `M' = min(m, number of distinct points)`. The greedy choice may return fewer points, when no
/// variance is left to explain under the kernel with its current parameters. Points within rounding
/// of each other (about 1.5e-8 standard deviations of the columns) count as one, and no two rows of
/// `Z` are that close.
///
/// In columns that the kernel treats as categories a centre has the codes of the nearest row of
/// `x`, and two different levels are as far apart as two typical numbers. Distances are computed
/// after each input is divided by its standard deviation, so the units of the data do not affect
/// `KMeans`. `kernel` affects only `Greedy`. When all distinct points fit into `m`, `KMeans` and
/// `Random` return exactly these points.
///
/// Work and memory are bounded for large n. At most `max(20 m, 10 000)` random rows enter `KMeans` and `Random`, and at most `max(5 m, 10
/// 000)` enter `Greedy`, which takes `O(rows · M'²)` time and `O(rows · M')` memory. All data is searched only when these rows hold fewer
/// than `m` distinct points.
///
/// The result depends only on the arguments, not on the number of threads.
///
/// # Errors
/// A usage error for `m = 0` or a kernel that needs more inputs than there are, a data error for no rows, no columns
/// or a value that is not finite, a fit error when the kernel gives a value that is not finite.
#[doc(hidden)]
pub fn choose_inducing(
    x: MatRef<'_, f64>,
    m: usize,
    init: InducingInit,
    kernel: &dyn Kernel,
    seed: u64,
) -> Result<Mat<f64>> {
    if m == 0 {
        return Err(Error::usage("the number of inducing inputs must be at least 1"));
    }
    let x = x.transpose();
    let frame = Frame::of(x)?.with_codes(kernel.dimensions());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let limit = match init {
        InducingInit::KMeans | InducingInit::Random => m.saturating_mul(ROWS_PER_CENTRE).max(KMEANS_ROWS),
        InducingInit::Greedy => m.saturating_mul(ROWS_PER_PIVOT).max(GREEDY_ROWS),
    };
    let mut candidates = Candidates::draw(x, &frame, m, limit, &mut rng);
    match init {
        InducingInit::KMeans if candidates.rows.len() > m => {
            let embedding = Embedding::new(kernel.dimensions(), x.nrows());
            let points = candidates.scaled(x, &frame);
            Ok(frame.unscale(k_means(&points, &embedding, &candidates.counts, m, &mut rng)))
        }
        InducingInit::KMeans => Ok(gather(x, &candidates.rows)),
        InducingInit::Greedy => {
            if kernel.min_dims() > x.nrows() {
                return Err(Error::usage(format!(
                    "the kernel {} needs {} inputs, but the data have {}",
                    kernel.expression(),
                    kernel.min_dims(),
                    x.nrows()
                )));
            }
            // A stationary kernel starts with equal variances everywhere: the order of the rows
            // decides which one comes first.
            candidates.rows.shuffle(&mut rng);
            let points = gather(x, &candidates.rows);
            let pivots = Pivoting::new(points.as_ref(), kernel).choose(m, RESIDUAL_FLOOR)?;
            Ok(rows_of(&points, &pivots))
        }
        InducingInit::Random => {
            let keep = m.min(candidates.rows.len());
            let (chosen, _) = candidates.rows.partial_shuffle(&mut rng, keep);
            Ok(gather(x, chosen))
        }
    }
}

/// Returns at most `m` more inducing inputs (rows) for a layer that already has some. They are rows
/// of `x` (`n × D`), each picked where the prior variance given the layer's inputs and the earlier
/// picks is largest, at the layer's current parameters.
///
/// At most `max(5 m, 5000)` random rows are examined, in O(rows · (M + m)²) time. The result has
/// fewer than `m` rows, or none, if the remaining variance is within the layer's jitter. It depends
/// only on the arguments, not on the number of threads.
///
/// # Errors
/// A data error for values that are not finite, a fit error if the kernel returns such a value.
#[doc(hidden)]
pub fn more_inducing(x: MatRef<'_, f64>, layer: &InducingLayer, m: usize, seed: u64) -> Result<Mat<f64>> {
    let x = x.transpose();
    let frame = Frame::of(x)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let limit = m.saturating_mul(ROWS_PER_PIVOT).max(GROWTH_ROWS);
    let mut candidates = Candidates::draw(x, &frame, m, limit, &mut rng);
    candidates.rows.shuffle(&mut rng);
    let points = gather(x, &candidates.rows);
    let floor = RESIDUAL_FLOOR.max(JITTERS * layer.relative_jitter());
    let pivots = Pivoting::given(points.as_ref(), layer).choose(m, floor)?;
    Ok(rows_of(&points, &pivots))
}

fn rows_of(points: &Mat<f64>, rows: &[usize]) -> Mat<f64> {
    Mat::from_fn(rows.len(), points.ncols(), |i, d| points[(rows[i], d)])
}

/// The rows `rows` of the data (`D × n`) as a matrix whose rows are points.
fn gather(x: MatRef<'_, f64>, rows: &[usize]) -> Mat<f64> {
    Mat::from_fn(rows.len(), x.nrows(), |i, d| x[(d, rows[i])])
}

/// Centre and scale of every input, so that distances do not depend on units, and large offsets are
/// subtracted first.
struct Frame {
    centre: Vec<f64>,
    scale: Vec<f64>,
}

impl Frame {
    /// The middle of the range and the standard deviation of each row of `x` (`D × n`).
    fn of(x: MatRef<'_, f64>) -> Result<Frame> {
        let (dims, n) = (x.nrows(), x.ncols());
        if n == 0 || dims == 0 {
            return Err(Error::data(format!(
                "no inducing inputs can be chosen from {n} rows of {dims} inputs, expected at least one of each"
            )));
        }
        let (mut low, mut high) = (vec![f64::INFINITY; dims], vec![f64::NEG_INFINITY; dims]);
        for j in 0..n {
            for (d, &value) in x.col(j).iter().enumerate() {
                if !value.is_finite() {
                    return Err(Error::data(format!(
                        "input {} of data row {} is {value}, expected a finite number",
                        d + 1,
                        j + 1
                    )));
                }
                low[d] = low[d].min(value);
                high[d] = high[d].max(value);
            }
        }
        // Halved before they are combined, so that numbers near the largest double do not overflow.
        let centre: Vec<f64> = low.iter().zip(&high).map(|(&l, &h)| l / 2.0 + h / 2.0).collect();
        let half: Vec<f64> = low.iter().zip(&high).map(|(&l, &h)| h / 2.0 - l / 2.0).collect();
        let (mut sum, mut squares) = (vec![0.0; dims], vec![0.0; dims]);
        for j in 0..n {
            for (d, &value) in x.col(j).iter().enumerate() {
                if half[d] > 0.0 {
                    let t = (value - centre[d]) / half[d];
                    sum[d] += t;
                    squares[d] += t * t;
                }
            }
        }
        let scale = (0..dims)
            .map(|d| {
                let mean = sum[d] / n as f64;
                let spread = half[d] * (squares[d] / n as f64 - mean * mean).max(0.0).sqrt();
                let magnitude = low[d].abs().max(high[d].abs());
                // An input that varies by rounding alone is constant: dividing by its spread would blow rounding up.
                let constant = spread <= 8.0 * f64::EPSILON * magnitude;
                if !constant {
                    spread
                } else if magnitude > 0.0 {
                    magnitude
                } else {
                    1.0
                }
            })
            .collect();
        Ok(Frame { centre, scale })
    }

    /// Returns this frame with codes left unchanged.
    fn with_codes(mut self, dimensions: &[Dimension]) -> Frame {
        for (d, _) in dimensions.iter().enumerate().filter(|(_, dimension)| dimension.is_category()) {
            (self.centre[d], self.scale[d]) = (0.0, 1.0);
        }
        self
    }

    fn scaled(&self, d: usize, value: f64) -> f64 {
        (value - self.centre[d]) / self.scale[d]
    }

    /// Converts scaled points (rows) to the units of the data.
    fn unscale(&self, mut points: Mat<f64>) -> Mat<f64> {
        for d in 0..points.ncols() {
            for value in points.col_mut(d).iter_mut() {
                *value = self.centre[d] + self.scale[d] * *value;
            }
        }
        points
    }
}

/// Data rows that are pairwise distinct, in increasing order, each with the number of sampled rows
/// that equal it.
struct Candidates {
    rows: Vec<usize>,
    counts: Vec<f64>,
}

impl Candidates {
    /// Draws at most `limit` rows with at least `min(m, distinct points of x)` distinct ones;
    /// `m ≤ limit`.
    fn draw(x: MatRef<'_, f64>, frame: &Frame, m: usize, limit: usize, rng: &mut ChaCha8Rng) -> Candidates {
        let n = x.ncols();
        if n <= limit {
            return Candidates::distinct(x, frame, (0..n).collect(), rng);
        }
        let sample = index::sample(rng, n, limit).into_vec();
        let drawn = Candidates::distinct(x, frame, sample, rng);
        if drawn.rows.len() >= m {
            return drawn;
        }
        // With few distinct points and many copies, a sample can miss rare points, so every row is
        // examined.
        let mut all = Candidates::distinct(x, frame, (0..n).collect(), rng);
        if all.rows.len() > limit {
            let mut keep = index::sample(rng, all.rows.len(), limit).into_vec();
            keep.sort_unstable();
            all.rows = keep.iter().map(|&i| all.rows[i]).collect();
            all.counts = keep.iter().map(|&i| all.counts[i]).collect();
        }
        all
    }

    /// Keeps one of every group of equal points.
    ///
    /// Points within [`SAME`] of each other are also within it along any direction. Along a random
    /// direction hardly any other points are, so after sorting by that coordinate each point is
    /// compared with only a few kept ones.
    fn distinct(x: MatRef<'_, f64>, frame: &Frame, rows: Vec<usize>, rng: &mut ChaCha8Rng) -> Candidates {
        let mut direction: Vec<f64> = (0..x.nrows()).map(|_| rng.random_range(0.5..1.0)).collect();
        let norm = direction.iter().map(|w| w * w).sum::<f64>().sqrt();
        direction.iter_mut().for_each(|w| *w /= norm);
        let coordinate = |row: usize| -> f64 {
            x.col(row).iter().enumerate().map(|(d, &value)| direction[d] * frame.scaled(d, value)).sum()
        };
        let mut order: Vec<(f64, usize)> = rows.into_iter().map(|row| (coordinate(row), row)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let same = |a: usize, b: usize| -> bool {
            let squares = (0..x.nrows()).map(|d| {
                let difference = (x[(d, a)] - x[(d, b)]) / frame.scale[d];
                difference * difference
            });
            squares.sum::<f64>() <= SAME * SAME
        };
        let mut kept: Vec<(f64, usize, f64)> = Vec::new();
        for (along, row) in order {
            // Twice the tolerance, as the coordinate itself is rounded.
            let first = kept.partition_point(|&(at, ..)| at < along - 2.0 * SAME);
            match kept[first..].iter_mut().rev().find(|&&mut (_, other, _)| same(row, other)) {
                Some((_, _, count)) => *count += 1.0,
                None => kept.push((along, row, 1.0)),
            }
        }
        kept.sort_unstable_by_key(|&(_, row, _)| row);
        Candidates {
            rows: kept.iter().map(|&(_, row, _)| row).collect(),
            counts: kept.iter().map(|&(_, _, count)| count).collect(),
        }
    }

    fn scaled(&self, x: MatRef<'_, f64>, frame: &Frame) -> Mat<f64> {
        Mat::from_fn(self.rows.len(), x.nrows(), |i, d| frame.scaled(d, x[(d, self.rows[i])]))
    }
}

/// `m` centres (rows) of weighted k-means over `points` (rows, pairwise distinct, more than `m`). In columns of codes, a centre has the
/// codes of the point that is nearest to it.
fn k_means(
    points: &Mat<f64>,
    embedding: &Embedding,
    weights: &[f64],
    m: usize,
    rng: &mut ChaCha8Rng,
) -> Mat<f64> {
    // Two numbers of variance 1 are typically √2 apart.
    let apart = [1.0, std::f64::consts::FRAC_1_SQRT_2];
    let units: Vec<f64> = (0..points.ncols()).map(|d| apart[usize::from(embedding.is_category(d))]).collect();
    let space = embedding.coordinates(points.as_ref(), &units);
    let seeds = plus_plus(&space, weights, m, rng);
    let centres = lloyd(&space, weights, rows_of(&space, &seeds));
    let nearest: Vec<usize> = match embedding.is_identity() {
        true => Vec::new(),
        false => assign(&centres, space.as_ref()).into_iter().map(|(row, _)| row).collect(),
    };
    let found = embedding.points(&centres, points.as_ref(), &nearest);
    // Seeds are distinct points of the data; means may coincide in rare cases.
    if all_distinct(found.as_ref(), rng) { found } else { rows_of(points, &seeds) }
}

/// True if no two rows of already scaled points are equal.
fn all_distinct(points: MatRef<'_, f64>, rng: &mut ChaCha8Rng) -> bool {
    let unit = Frame { centre: vec![0.0; points.ncols()], scale: vec![1.0; points.ncols()] };
    let n = points.nrows();
    Candidates::distinct(points.transpose(), &unit, (0..n).collect(), rng).rows.len() == n
}

/// Returns the seeds of k-means++: each next point is drawn with probability proportional to its
/// weighted squared distance to the nearest seed so far (Arthur and Vassilvitskii 2007).
fn plus_plus(points: &Mat<f64>, weights: &[f64], m: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut nearest = vec![f64::INFINITY; points.nrows()];
    let mut odds = weights.to_vec();
    let mut seeds = Vec::with_capacity(m);
    while seeds.len() < m {
        let seed = pick(&odds, rng);
        seeds.push(seed);
        let blocks = nearest.par_chunks_mut(BLOCK).zip(odds.par_chunks_mut(BLOCK)).enumerate();
        blocks.for_each(|(block, (nearest, odds))| {
            let rows = block * BLOCK..block * BLOCK + nearest.len();
            let mut distance = [0.0; BLOCK];
            for d in 0..points.ncols() {
                let column = &points.col_as_slice(d)[rows.clone()];
                let at = points[(seed, d)];
                for (total, &value) in distance.iter_mut().zip(column) {
                    *total += (value - at) * (value - at);
                }
            }
            for (i, row) in rows.enumerate() {
                nearest[i] = nearest[i].min(distance[i]);
                odds[i] = weights[row] * nearest[i];
            }
        });
    }
    seeds
}

/// Draws an index with probability proportional to its odds, which are not all 0; never an index
/// with odds 0.
fn pick(odds: &[f64], rng: &mut ChaCha8Rng) -> usize {
    let mut left = rng.random::<f64>() * odds.iter().sum::<f64>();
    let mut last = 0;
    for (i, &o) in odds.iter().enumerate() {
        if o > 0.0 {
            last = i;
            left -= o;
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

/// Makes a few of Lloyd's iterations from `centres`; a centre without points moves to the point
/// with the largest weighted squared distance to its centre.
fn lloyd(points: &Mat<f64>, weights: &[f64], mut centres: Mat<f64>) -> Mat<f64> {
    let mut before = f64::INFINITY;
    for _ in 0..LLOYD_ITERATIONS {
        let owners = assign(points, centres.as_ref());
        let loss: f64 = owners.iter().zip(weights).map(|(&(_, distance), &w)| w * distance).sum();
        if loss >= (1.0 - LLOYD_GAIN) * before {
            break;
        }
        before = loss;
        let mut mass = vec![0.0; centres.nrows()];
        for (&(owner, _), &w) in owners.iter().zip(weights) {
            mass[owner] += w;
        }
        for d in 0..points.ncols() {
            let mut sums = vec![0.0; centres.nrows()];
            for ((&value, &(owner, _)), &w) in points.col_as_slice(d).iter().zip(&owners).zip(weights) {
                sums[owner] += w * value;
            }
            for (c, &sum) in sums.iter().enumerate().filter(|&(c, _)| mass[c] > 0.0) {
                centres[(c, d)] = sum / mass[c];
            }
        }
        let empty: Vec<usize> = (0..centres.nrows()).filter(|&c| mass[c] == 0.0).collect();
        if !empty.is_empty() {
            let cost = |i: usize| weights[i] * owners[i].1;
            let mut worst: Vec<usize> = (0..points.nrows()).collect();
            worst.sort_unstable_by(|&a, &b| cost(b).total_cmp(&cost(a)).then(a.cmp(&b)));
            for (c, row) in empty.into_iter().zip(worst) {
                for d in 0..points.ncols() {
                    centres[(c, d)] = points[(row, d)];
                }
            }
        }
    }
    centres
}

/// Returns the nearest centre of every point and the squared distance to it; inner products are
/// computed as matrix products.
fn assign(points: &Mat<f64>, centres: MatRef<'_, f64>) -> Vec<(usize, f64)> {
    let squares = |row: faer::RowRef<'_, f64>| row.iter().map(|v| v * v).sum::<f64>();
    let half: Vec<f64> = centres.row_iter().map(|c| 0.5 * squares(c)).collect();
    let blocks = points.nrows().div_ceil(BLOCK);
    let nearest = (0..blocks).into_par_iter().flat_map_iter(|block| {
        let start = block * BLOCK;
        let rows = points.subrows(start, BLOCK.min(points.nrows() - start));
        let mut product = Mat::zeros(centres.nrows(), rows.nrows());
        matmul(product.as_mut(), Accum::Replace, centres, rows.transpose(), 1.0, Par::Seq);
        let found: Vec<(usize, f64)> = (0..rows.nrows())
            .map(|i| {
                let mut best = (0, f64::INFINITY);
                for (c, (&inner, &half)) in product.col_as_slice(i).iter().zip(&half).enumerate() {
                    if half - inner < best.1 {
                        best = (c, half - inner);
                    }
                }
                // The squared distance is twice this number plus the squared length of the point,
                // up to rounding.
                (best.0, (2.0 * best.1 + squares(rows.row(i))).max(0.0))
            })
            .collect();
        found
    });
    nearest.collect()
}
