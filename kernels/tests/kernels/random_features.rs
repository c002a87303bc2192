//! Random features against their kernels: products have the kernel as their mean, gradients equal finite differences.

use super::evaluation::*;
use rand_distr::{Distribution, StandardNormal};

const KERNELS: [&str; 14] = [
    "rbf(lengthscales=[0.7, 1.3, 2.0], variance=2.0)",
    "matern12(lengthscales=1.5)",
    "matern32(ard)",
    "matern52(lengthscales=0.8, variance=0.5)",
    "rational_quadratic(lengthscales=1.2, alpha=0.6)",
    "periodic(lengthscales=0.4, period=1.7, variance=1.3)",
    "cosine(lengthscales=2.5)",
    "constant(variance=3.0)",
    "linear(ard)",
    "polynomial(degree=2, offset=0.5)",
    "additive(order=2)",
    "rbf[0] * periodic(period=2.0)[1] + linear[2]",
    "scale(matern32(ard) + rbf, variance=0.3)",
    "warp(rbf)",
];

/// Points with a few repeated codes in their last column.
fn points() -> Mat<f64> {
    Mat::from_fn(6, 3, |i, j| match j {
        2 => [0.0, 1.0, 1.0, 2.0, 0.0, 2.0][i],
        _ => ((7 * i + 3 * j) % 11) as f64 / 4.0 - 1.0,
    })
}

fn check(kernel: &dyn Kernel, name: &str) {
    const COUNT: usize = 15_000;
    let x = points();
    let n = x.nrows();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut normal = || StandardNormal.sample(&mut random);
    let mut chance = Chance::new(&mut normal);
    let rows: Vec<Vec<f64>> = (0..n).map(|i| x.row(i).iter().copied().collect()).collect();
    let (mut sums, mut squares) = (Mat::<f64>::zeros(n, n), Mat::<f64>::zeros(n, n));
    for count in 0..COUNT {
        let feature = kernel.random_feature(3, &mut chance).unwrap_or_else(|| panic!("{name} has features"));
        let values: Vec<f64> = rows.iter().map(|row| feature.value(row)).collect();
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate() {
                sums[(i, j)] += a * b;
                squares[(i, j)] += (a * b).powi(2);
            }
        }
        if count >= 3 {
            continue;
        }
        let mut gradient = vec![0.0; 3];
        feature.add_gradient(&rows[1], 2.0, &mut gradient);
        for d in 0..2 {
            let at = |step: f64| {
                let mut row = rows[1].clone();
                row[d] += step;
                feature.value(&row)
            };
            let expected = (at(1e-5) - at(-1e-5)) / 1e-5;
            assert!((gradient[d] - expected).abs() < 1e-5 * (1.0 + expected.abs()), "{name}, column {d}");
        }
    }
    let mut k = Mat::zeros(n, n);
    kernel.eval(Inputs::Gram(x.as_ref()), k.as_mut(), &mut Scratch::new());
    for i in 0..n {
        for j in 0..n {
            let mean = sums[(i, j)] / COUNT as f64;
            let error = ((squares[(i, j)] / COUNT as f64 - mean * mean) / COUNT as f64).sqrt();
            let apart = (mean - k[(i, j)]).abs();
            assert!(apart < 5.0 * error + 1e-9, "{name}: {mean} at ({i}, {j}), expected {}", k[(i, j)]);
        }
    }
}

#[test]
fn products_of_features_have_the_kernel_as_their_mean() {
    for text in KERNELS {
        check(&*parse(text, 3).expect("a kernel"), text);
    }
}

#[test]
fn features_of_categories_are_those_of_their_kernels() {
    let dimensions = [Dimension::Number, Dimension::Number, Dimension::Category { levels: 3 }];
    for text in [
        "rbf(ard)",
        "matern32(lengthscales=0.6)",
        "linear",
        "additive(order=2)",
        "rbf[0] * coregion(rank=2)[2]",
    ] {
        let mut kernel = parse(text, 3).expect("a kernel");
        kernel.set_dimensions(&dimensions).expect("categories");
        check(&*kernel, text);
    }
}

#[test]
fn lengths_are_those_of_the_columns_that_a_kernel_sees() {
    let lengths = |text: &str| {
        parse(text, 3).expect("a kernel").units(3).into_iter().map(Unit::length).collect::<Vec<_>>()
    };
    let none = Vec::new;
    assert_eq!(lengths("rbf(ard)"), [none(), vec![0], vec![1], vec![2]]);
    assert_eq!(lengths("rbf"), [none(), vec![0, 1, 2]]);
    assert_eq!(lengths("constant * periodic[2] + linear").len(), 5);
    assert_eq!(lengths("periodic[2]"), [none(), none(), vec![2]]);
    assert_eq!(lengths("scale(matern32[1])"), [none(), none(), vec![1]]);
    assert!(lengths("warp(rbf(ard))").iter().all(Vec::is_empty));
}
