//! The geometry of inducing inputs and data under a kernel: distances in lengthscales, inputs
//! without influence.

use crate::collapsed::Dataset;
use faer::{Mat, MatRef};
use sparsegp_kernels::{Inputs, Kernel, Scratch};

/// The maximum number of points that are compared with each other.
const MOST_POINTS: usize = 2000;

/// Returns `k(a_i, b_j)`; points are rows.
fn cross(kernel: &dyn Kernel, a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut k = Mat::zeros(a.nrows(), b.nrows());
    kernel.eval(Inputs::Cross { left: a, right: b }, k.as_mut(), &mut Scratch::new());
    k
}

/// Returns the distance, in lengthscales of a squared-exponential kernel, at which values have the correlation `rho`.
fn lengthscales_apart(rho: f64) -> f64 {
    if rho >= 1.0 {
        0.0
    } else if rho > 0.0 {
        (-2.0 * rho.ln()).sqrt()
    } else {
        f64::INFINITY
    }
}

/// The closeness of inducing inputs.
pub(super) struct Crowding {
    /// The number of pairs closer than [`Crowding::CLOSE`].
    pub close_pairs: usize,
    /// The number of inducing inputs with an earlier one closer than [`Crowding::SAME`].
    pub duplicates: usize,
    /// The distance of the closest pair, in lengthscales.
    pub closest: f64,
}

impl Crowding {
    /// A distance that counts as close.
    const CLOSE: f64 = 0.1;

    /// A distance at which the second point adds less information about f than the default jitter hides.
    const SAME: f64 = 1e-3;

    /// Measures the points `z`, one per row. Distances come from correlations, so they have a meaning for every kernel.
    pub fn of(kernel: &dyn Kernel, z: MatRef<'_, f64>) -> Crowding {
        let z = z.subrows(0, z.nrows().min(MOST_POINTS));
        let k = cross(kernel, z, z);
        let mut crowding = Crowding { close_pairs: 0, duplicates: 0, closest: f64::INFINITY };
        for j in 0..z.nrows() {
            let mut nearest = f64::INFINITY;
            for i in 0..j {
                let apart = lengthscales_apart(k[(i, j)] / (k[(i, i)] * k[(j, j)]).sqrt());
                crowding.close_pairs += usize::from(apart < Self::CLOSE);
                nearest = nearest.min(apart);
            }
            crowding.duplicates += usize::from(nearest < Self::SAME);
            crowding.closest = crowding.closest.min(nearest);
        }
        crowding
    }
}

/// Returns at most `most` rows of the data as points, evenly spaced.
pub(super) fn sample(data: Dataset<'_>, most: usize) -> Mat<f64> {
    let rows = spread(data.len(), most);
    Mat::from_fn(rows.len(), data.x.ncols(), |i, j| data.x[(rows[i], j)])
}

/// Returns at most `most` of `n` indices, evenly spaced.
pub(super) fn spread(n: usize, most: usize) -> Vec<usize> {
    let count = n.min(most);
    (0..count).map(|i| i * n / count).collect()
}

/// The maximum number of groups of inputs that are moved. Fewer inputs are moved one by one, more by bisection of groups, at a cost linear
/// in the inputs.
const MOST_GROUPS: usize = 256;

/// Returns the inputs that vary without influence: across their whole range, the prior variance of the change of f, averaged over rows, is
/// below `least`. Many inputs are moved in groups, and groups with influence are halved; inputs that stay undecided are not listed.
pub(super) fn irrelevant(kernel: &dyn Kernel, data: Dataset<'_>, least: f64) -> Vec<usize> {
    let all = sample(data, MOST_POINTS);
    let ranges: Vec<_> = (0..all.ncols()).map(|input| range(all.col(input).iter().copied())).collect();
    let varying: Vec<usize> = (0..ranges.len()).filter(|&input| ranges[input].is_some()).collect();
    let across = Across { kernel, base: sample(data, 16), ranges };
    let mut groups = match varying.len() <= MOST_GROUPS {
        true => varying.chunks(1).collect(),
        false => vec![varying.as_slice()],
    };
    let (mut found, mut left) = (Vec::new(), MOST_GROUPS);
    while let Some(group) = groups.pop().filter(|_| left > 0) {
        left -= 1;
        if across.influence(group) < least {
            found.extend_from_slice(group);
        } else if group.len() > 1 {
            let (a, b) = group.split_at(group.len() / 2);
            groups.extend([a, b]);
        }
    }
    found.sort_unstable();
    found
}

/// The data that moving inputs across their ranges needs.
struct Across<'a> {
    kernel: &'a dyn Kernel,
    base: Mat<f64>,
    ranges: Vec<Option<(f64, f64)>>,
}

impl Across<'_> {
    /// Returns the prior variance of the change of f if these inputs cross their ranges together, averaged over rows.
    fn influence(&self, inputs: &[usize]) -> f64 {
        let rows = (0..self.base.nrows()).map(|row| {
            let (mut a, mut b) = (self.base.subrows(row, 1).to_owned(), self.base.subrows(row, 1).to_owned());
            for &input in inputs {
                if let Some((low, high)) = self.ranges[input] {
                    (a[(0, input)], b[(0, input)]) = (low, high);
                }
            }
            let k = |a: &Mat<f64>, b: &Mat<f64>| cross(self.kernel, a.as_ref(), b.as_ref())[(0, 0)];
            (k(&a, &a) + k(&b, &b) - 2.0 * k(&a, &b)).max(0.0)
        });
        rows.sum::<f64>() / self.base.nrows() as f64
    }
}

/// Returns the smallest and largest value; `None` if all are equal.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let ends = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    (ends.0 < ends.1).then_some(ends)
}

/// The correlation of f at a row with f at its nearest neighbour.
pub(super) struct Neighbours {
    /// The median correlation.
    pub correlation: f64,
    /// The input that separates neighbours most.
    pub input: usize,
}

impl Neighbours {
    /// Measures a sample of the rows; `None` if there are too few rows, or too many inputs.
    pub fn of(kernel: &dyn Kernel, data: Dataset<'_>) -> Option<Neighbours> {
        const ROWS: usize = 64;
        let n = data.len();
        if !(3..=5 * MOST_POINTS).contains(&n) {
            return None;
        }
        let points = data.x;
        let own = |i: usize| points.subrows(i, 1);
        let mut scale = vec![0.0; n];
        for (i, k) in scale.iter_mut().enumerate() {
            *k = cross(kernel, own(i), own(i))[(0, 0)];
        }
        let mut correlations = Vec::new();
        let mut separation = vec![0.0; points.ncols()];
        for row in spread(n, ROWS) {
            let k = cross(kernel, own(row), points);
            let rho = |j: usize| k[(0, j)] / (scale[row] * scale[j]).sqrt();
            let nearest = (0..n).filter(|&j| j != row).max_by(|&a, &b| rho(a).total_cmp(&rho(b)))?;
            correlations.push(rho(nearest));
            let apart = |inputs: std::ops::Range<usize>| {
                let mut moved = own(row).to_owned();
                inputs.for_each(|input| moved[(0, input)] = points[(nearest, input)]);
                let k = |a, b| cross(kernel, a, b)[(0, 0)];
                let along =
                    k(own(row), moved.as_ref()) / (scale[row] * k(moved.as_ref(), moved.as_ref())).sqrt();
                lengthscales_apart(along).min(10.0)
            };
            if separation.len() <= MOST_GROUPS {
                separation.iter_mut().enumerate().for_each(|(input, sum)| *sum += apart(input..input + 1));
                continue;
            }
            // Bisects the inputs by keeping the half that separates more, in log₂ D steps.
            let mut inputs = 0..separation.len();
            while inputs.len() > 1 {
                let middle = inputs.start + inputs.len() / 2;
                let (low, high) = (inputs.start..middle, middle..inputs.end);
                inputs = if apart(low.clone()) >= apart(high.clone()) { low } else { high };
            }
            let input = inputs.start;
            separation[input] += apart(inputs);
        }
        correlations.sort_by(f64::total_cmp);
        let input = (0..separation.len()).max_by(|&a, &b| separation[a].total_cmp(&separation[b]))?;
        Some(Neighbours { correlation: correlations[correlations.len() / 2], input })
    }
}
