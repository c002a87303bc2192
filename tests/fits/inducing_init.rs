//! Initial inducing inputs: their number, distinct, reproducible and well placed for each method.

use faer::{Mat, MatRef};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp::ErrorKind;
use sparsegp::kernels::Stationary;
use sparsegp::latent::init::{InducingInit, choose_inducing};
use sparsegp_testkit::dense::conditional_variances;

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
fn names_parse_and_serialise_alike() {
    for init in InducingInit::ALL {
        assert_eq!(init.to_string().parse::<InducingInit>().unwrap(), init);
        assert_eq!(serde_json::to_string(&init).unwrap(), format!("\"{}\"", init.word()));
    }
    assert_eq!(InducingInit::ALL.map(InducingInit::word), InducingInit::WORDS);
    let error = "k-means".parse::<InducingInit>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(["k-means", "kmeans"].iter().all(|word| error.to_string().contains(word)));
}

#[test]
fn invalid_arguments_are_errors() {
    let x = uniform(2, 5, 0);
    let mut holed = x.clone();
    holed[(1, 3)] = f64::NAN;
    for init in InducingInit::ALL {
        let kind = |x: MatRef<'_, f64>, m| choose_inducing(x, m, init, &kernel(1.0), 0).unwrap_err().kind();
        assert_eq!(kind(x.transpose(), 0), ErrorKind::Usage);
        assert_eq!(kind(Mat::zeros(0, 2).as_ref(), 3), ErrorKind::Data);
        assert_eq!(kind(Mat::zeros(5, 0).as_ref(), 3), ErrorKind::Data);
        let error = choose_inducing(holed.transpose(), 3, init, &kernel(1.0), 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data);
        assert!(error.to_string().contains("input 2 of data row 4"), "{error}");
    }
    // A kernel whose value is NaN is reported before values are compared.
    let error = choose_inducing(x.transpose(), 3, InducingInit::Greedy, &kernel(f64::NAN), 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fit);
}

#[test]
fn all_distinct_points_come_back_when_they_fit() {
    // Ten points in general position, each four times: exactly equal, and with differences at
    // rounding level.
    let distinct = uniform(3, 10, 1);
    let x = Mat::from_fn(3, 40, |d, j| distinct[(d, j % 10)] * (1.0 + 1e-14 * (j / 10) as f64));
    for init in InducingInit::ALL {
        let z = choose(&x, 25, init, 7);
        assert_eq!((z.nrows(), z.ncols()), (10, 3), "{init}");
        for (found, expected) in sorted(&z).iter().zip(sorted(&distinct.transpose().to_owned())) {
            assert!(squared_distance(found, &expected) < 1e-24, "{init}: {found:?} {expected:?}");
        }
        assert_eq!(choose(&x, 6, init, 7).nrows(), 6, "{init}");
    }
    let single = uniform(3, 1, 2);
    for init in InducingInit::ALL {
        assert_eq!(choose(&single, 4, init, 0), single.transpose().to_owned());
    }
}

#[test]
fn rare_points_are_found_among_many_copies() {
    // Thirteen distinct points; all except one occur once in 30 000, so a sample alone would miss most.
    let distinct = uniform(2, 13, 3);
    let place = |j: usize| if j.is_multiple_of(2500) { 1 + j / 2500 } else { 0 };
    let x = Mat::from_fn(2, 30_000, |d, j| distinct[(d, place(j))]);
    for init in InducingInit::ALL {
        let z = choose(&x, 13, init, 4);
        assert_eq!(sorted(&z), sorted(&distinct.transpose().to_owned()), "{init}");
    }
}

#[test]
fn constant_columns_and_large_offsets_do_no_harm() {
    let free = uniform(2, 400, 5);
    // The columns: a constant one, one that is constant up to rounding, one with a large offset,
    // and a tiny one.
    let x = Mat::from_fn(4, 400, |d, j| match d {
        0 => 3.7,
        1 => 1e9 * (1.0 + f64::EPSILON * (j % 2) as f64),
        2 => 1e8 + free[(0, j)],
        _ => 1e-30 * free[(1, j)],
    });
    for init in InducingInit::ALL {
        let z = choose(&x, 30, init, 6);
        assert!((0..z.nrows()).all(|i| z[(i, 0)] == 3.7), "{init}");
        assert!((0..z.nrows()).all(|i| (z[(i, 1)] - 1e9).abs() < 1e-6), "{init}");
    }
    // K-means must use both inputs that vary, in any units: the result is nearly as good as with those inputs alone.
    let z = choose(&x, 30, InducingInit::KMeans, 6);
    assert_eq!(z.nrows(), 30);
    let back = Mat::from_fn(30, 2, |i, d| if d == 0 { z[(i, 2)] - 1e8 } else { z[(i, 3)] * 1e30 });
    let plain = choose(&free, 30, InducingInit::KMeans, 6);
    assert!(loss(&free, &back) < 1.1 * loss(&free, &plain));
}

#[test]
fn extreme_magnitudes_do_not_overflow() {
    let x = Mat::from_fn(1, 50, |_, j| if j % 2 == 0 { 1e308 } else { -1e308 } * (1.0 + j as f64 / 100.0));
    let z = choose(&x, 5, InducingInit::KMeans, 0);
    assert!(z.nrows() == 5 && (0..5).all(|i| z[(i, 0)].is_finite()));
}

#[test]
fn k_means_finds_separated_clusters() {
    // Twelve corners of a cube-like lattice, noise a fiftieth of the spacing.
    let (noise, clusters) = (uniform(3, 1200, 8), 12);
    let corner = |c: usize| [(c % 3) as f64, (c / 3 % 2) as f64, (c / 6) as f64];
    let x = Mat::from_fn(3, 1200, |d, j| corner(j % clusters)[d] + 0.02 * noise[(d, j)]);
    let z = choose(&x, clusters, InducingInit::KMeans, 9);
    for c in 0..clusters {
        let near =
            (0..clusters).filter(|&i| squared_distance(&row(&z, i), &corner(c)) < 0.01f64.powi(2)).count();
        assert_eq!(near, 1, "cluster {c}");
    }
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
    for i in 1..25 {
        let variances = conditional_variances(&kernel(1.0), x.transpose(), z.subrows(0, i), |_| 0.0);
        let largest = variances.iter().copied().fold(0.0, f64::max);
        let at = (0..1300).find(|&j| x.col_as_slice(j) == row(&z, i)).expect("a row of the data");
        assert!((variances[at] - largest).abs() < 1e-9, "step {i}: {} {largest}", variances[at]);
    }
    let left = |init| {
        let z = choose(&x, 25, init, 12);
        conditional_variances(&kernel(1.0), x.transpose(), z.as_ref(), |_| 0.0).iter().sum::<f64>()
    };
    assert!(left(InducingInit::Greedy) < left(InducingInit::Random));
}

#[test]
fn greedy_stops_when_no_variance_is_left() {
    // On an interval of two lengthscales the spectrum falls so fast that few points explain all but rounding.
    let x = uniform(1, 500, 13);
    let z = choose(&x, 100, InducingInit::Greedy, 14);
    assert!((6..25).contains(&z.nrows()), "{}", z.nrows());
    let short = choose_inducing(x.transpose(), 100, InducingInit::Greedy, &kernel(1e-3), 14);
    assert_eq!(short.unwrap().nrows(), 100);
}

#[test]
fn results_depend_on_the_seed_and_not_on_threads() {
    // There are more rows than in a sample, and many blocks, in eight dimensions.
    let x = uniform(8, 12_000, 15);
    for init in InducingInit::ALL {
        let with = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| choose(&x, 70, init, seed))
        };
        let one = with(1, 16);
        assert_eq!(one.nrows(), 70);
        assert_eq!(one, with(4, 16), "{init}");
        assert_ne!(one, with(1, 17), "{init}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Small integers give every pattern of ties, constant inputs, and fewer distinct points than
    /// requested.
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
