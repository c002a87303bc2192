//! Initial inducing inputs: their number, distinct, reproducible and well placed for each method.

use super::common::*;
use rand::RngExt;
use sparsegp::latent::init::{InducingInit, choose_inducing};

/// Returns the squared exponential kernel with one lengthscale and unit variance.
fn kernel(lengthscale: f64) -> Stationary {
    Stationary::rbf(1.0, &[lengthscale])
}

/// Returns a `D × N` matrix with independent entries uniform on [-1, 1).
fn uniform(dims: usize, n: usize, seed: u64) -> Mat<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Mat::from_fn(dims, n, |_, _| rng.random_range(-1.0..1.0))
}

fn choose(x: &Mat<f64>, m: usize, init: InducingInit, seed: u64) -> Mat<f64> {
    choose_inducing(x.transpose(), m, init, &kernel(1.0), seed).unwrap()
}

fn row(z: &Mat<f64>, i: usize) -> Vec<f64> {
    z.row(i).iter().copied().collect()
}

/// Returns the rows of `z` as a sorted list, to compare sets of points.
fn sorted(z: &Mat<f64>) -> Vec<Vec<f64>> {
    let mut rows: Vec<_> = (0..z.nrows()).map(|i| row(z, i)).collect();
    rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
    rows
}

fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

/// Returns the sum over the data of the squared distance to the nearest inducing input.
fn loss(x: &Mat<f64>, z: &Mat<f64>) -> f64 {
    let z: Vec<_> = (0..z.nrows()).map(|i| row(z, i)).collect();
    let nearest = |point: &[f64]| z.iter().map(|c| squared_distance(point, c)).fold(f64::INFINITY, f64::min);
    (0..x.ncols()).map(|j| nearest(x.col_as_slice(j))).sum()
}

#[test]
fn k_means_covers_better_than_chance() {
    let x = uniform(2, 3000, 10);
    let k_means = loss(&x, &choose(&x, 60, InducingInit::KMeans, 0));
    let random = loss(&x, &choose(&x, 60, InducingInit::Random, 0));
    assert!(k_means < 0.6 * random, "{k_means} {random}");
    // The best lattice of 60 cells on this square has hexagons: 5/(18 sqrt 3) of the cell area for each point.
    let best = 3000.0 * 5.0 / (18.0 * 3f64.sqrt()) * 4.0 / 60.0;
    assert!(k_means < 1.25 * best, "{k_means} {best}");
}

#[test]
fn greedy_takes_the_largest_conditional_variance_every_time() {
    // There is more than one block of rows, so pivots come from several blocks.
    let x = uniform(3, 1300, 11);
    let z = choose(&x, 25, InducingInit::Greedy, 12);
    assert_eq!(z.nrows(), 25);
    assert_pivots(&kernel(1.0), &x, z.as_ref(), 1, |_| 0.0);
    let left = |init| {
        let z = choose(&x, 25, init, 12);
        conditional_variances(&kernel(1.0), x.transpose(), z.as_ref(), |_| 0.0).iter().sum::<f64>()
    };
    assert!(left(InducingInit::Greedy) < left(InducingInit::Random));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Small integers give every pattern of ties, constant inputs, and fewer distinct points than requested.
    #[test]
    fn inducing_inputs_are_not_too_many_and_distinct(
        dims in 1usize..4,
        values in prop::collection::vec(-2i32..3, 3..90),
        m in 1usize..20,
        seed in 0u64..1000,
    ) {
        let n = values.len() / dims;
        let x = Mat::from_fn(dims, n, |d, j| f64::from(values[j * dims + d]));
        let mut distinct = sorted(&x.transpose().to_owned());
        distinct.dedup();
        for init in InducingInit::ALL {
            // The lengthscale is short, so that the greedy choice does not stop early.
            let z = choose_inducing(x.transpose(), m, init, &kernel(0.3), seed).unwrap();
            prop_assert_eq!(z.nrows(), m.min(distinct.len()), "{}", init);
            let rows = sorted(&z);
            for pair in rows.windows(2) {
                prop_assert!(squared_distance(&pair[0], &pair[1]) > 1e-14, "{}: {:?}", init, pair);
            }
            if init != InducingInit::KMeans || m >= distinct.len() {
                prop_assert!(rows.iter().all(|r| distinct.contains(r)), "{}", init);
            }
        }
    }
}
