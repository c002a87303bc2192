//! Runs every kernel and several compositions through the public contract, in few and in many dimensions.

use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::{Kernel, parse, testkit::check_kernel};

fn points(n: usize, dims: usize, seed: u64) -> Mat<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Mat::from_fn(n, dims, |_, _| rng.random_range(-1.5..1.5))
}

/// Moves every value away from 1, so that a forgotten factor shows.
fn perturb(kernel: &mut dyn Kernel) {
    let mut count = 0;
    kernel.for_each_parameter_mut(&mut |parameter| {
        for value in &mut parameter.values {
            *value *= 0.8 + 0.13 * (count % 5) as f64;
            count += 1;
        }
    });
}

fn check(text: &str, dims: usize) {
    let mut kernel = parse(text, dims).unwrap_or_else(|error| panic!("{text}: {error}"));
    kernel.initialise(&vec![0.9; dims], 1.5);
    perturb(kernel.as_mut());
    // Numbers of points that are not multiples of a vector's length; more on the right than on the
    // left.
    let (left, right) = (points(11, dims, 1), points(14, dims, 2));
    if let Err(violation) = check_kernel(kernel.as_ref(), left.as_ref(), right.as_ref()) {
        panic!("{text} in {dims} dimensions: {violation}");
    }
}

#[test]
fn every_kernel_keeps_the_contract() {
    for name in ["rbf", "matern12", "matern32", "matern52", "rational_quadratic", "cosine", "linear"] {
        for dims in [1, 2, 5, 9] {
            check(name, dims);
            check(&format!("{name}(ard)"), dims);
        }
    }
    for smoothness in 0..=2 {
        for dims in [1, 2, 5, 9] {
            check(&format!("wendland(smoothness={smoothness})"), dims);
            // Many pairs are farther apart than the support.
            check(&format!("wendland(ard, smoothness={smoothness}, lengthscales=1.3)"), dims);
        }
    }
    for options in ["", "(ard)", "(ard_period)", "(ard, ard_period)"] {
        for dims in [1, 3, 6] {
            check(&format!("periodic{options}"), dims);
        }
    }
    for degree in 1..=4 {
        check(&format!("polynomial(degree={degree})"), 3);
        check(&format!("polynomial(ard, degree={degree})"), 6);
    }
    for order in 0..=2 {
        check(&format!("arccosine(order={order})"), 1);
        check(&format!("arccosine(ard, order={order})"), 2);
        check(&format!("arccosine(ard, order={order})"), 6);
    }
    for components in 1..=3 {
        for dims in [1, 2, 5] {
            check(&format!("spectral_mixture(components={components})"), dims);
        }
    }
    for (order, dims) in [(1, 1), (1, 3), (2, 2), (2, 5), (3, 5), (5, 5)] {
        check(&format!("additive(order={order})"), dims);
    }
    check("constant", 2);
    check("white", 2);
    for (rank, levels) in [(0, 2), (1, 1), (1, 3), (2, 5)] {
        check(&format!("coregion(rank={rank})"), levels);
    }
    check("index(rank=1)[0:3] * rbf(ard)[3,4]", 5);
    for dims in [1, 2, 5] {
        check("hamming", dims);
        check("hamming(ard)", dims);
        check("warp(matern52(ard))", dims);
        check("changepoint(rbf, linear)", dims);
        check("changepoint(matern32(ard) + constant, rbf * periodic, rbf)", dims);
    }
}

#[test]
fn compositions_keep_the_contract() {
    for text in [
        "rbf + rbf",
        "rbf(ard) * matern52 * linear",
        "matern52(ard) + periodic * rbf[0:2] + white",
        "scale(rbf[1] + constant) * (linear(ard) + matern32[2, 0])",
        "(rbf + (matern12 + constant)) * (periodic * cosine(ard))",
        "arccosine(ard, order=2)[1:4] + polynomial(degree=2)[0] * rational_quadratic",
        "((rbf * rbf)[0:3] + white)[3, 1, 2]",
        "scale(scale(periodic(ard)[0:3]))",
        "linear * additive(order=1)[1:3] + additive(order=3)[3, 0, 1] * white",
        "rbf * spectral_mixture(components=1)[2] + spectral_mixture[0, 3]",
        "warp(rbf(ard)[1:3] + periodic[0])",
        "warp(linear)[0] * hamming[1:3] + changepoint(warp(rbf), scale(rbf + white))[3, 1]",
        "changepoint(changepoint(rbf, linear), linear)[2]",
    ] {
        check(text, 4);
    }
}

#[test]
fn row_blocks_and_panels_agree_with_one_point_at_a_time() {
    use sparsegp_kernels::{Gradient, Inputs, Scratch};
    // 300 rows span three row blocks, 150 columns several panels, in both ways to compute distances.
    for dims in [2, 7] {
        let (left, right) = (points(300, dims, 3), points(150, dims, 4));
        let kernel = parse("matern52(ard)", dims).unwrap();
        let mut scratch = Scratch::new();
        let inputs = Inputs::Cross { left: left.as_ref(), right: right.as_ref() };
        let mut k = Mat::zeros(300, 150);
        kernel.eval(inputs, k.as_mut(), &mut scratch);
        let kbar = points(300, 150, 5);
        let mut whole = (vec![0.0; dims + 1], Mat::zeros(300, dims), Mat::zeros(150, dims));
        let gradient = Gradient {
            parameters: &mut whole.0,
            left: Some(whole.1.as_mut()),
            right: Some(whole.2.as_mut()),
        };
        kernel.adjoint(inputs, k.as_ref(), kbar.as_ref(), gradient, &mut scratch);
        let mut parts = (vec![0.0; dims + 1], Mat::<f64>::zeros(300, dims), Mat::<f64>::zeros(150, dims));
        for j in 0..150 {
            let inputs = Inputs::Cross { left: left.as_ref(), right: right.as_ref().subrows(j, 1) };
            let mut column = Mat::zeros(300, 1);
            kernel.eval(inputs, column.as_mut(), &mut scratch);
            for i in 0..300 {
                // The product form rounds at ε‖x‖².
                assert!((column[(i, 0)] - k[(i, j)]).abs() < 1e-13);
            }
            let gradient = Gradient {
                parameters: &mut parts.0,
                left: Some(parts.1.as_mut()),
                right: Some(parts.2.as_mut().subrows_mut(j, 1)),
            };
            kernel.adjoint(inputs, column.as_ref(), kbar.as_ref().subcols(j, 1), gradient, &mut scratch);
        }
        // Sums of up to 45 000 terms of order 1.
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(whole.0.iter().zip(&parts.0).all(|(&a, &b)| close(a, b)));
        assert!((&whole.1 - &parts.1).norm_max() < 1e-9);
        assert!((&whole.2 - &parts.2).norm_max() < 1e-9);
    }
}

#[test]
fn large_gram_adjoints_equal_the_cross_adjoint_of_both_sides() {
    use sparsegp_kernels::{Gradient, Inputs, Scratch};
    let dims = 5;
    let n = 260;
    let x = points(n, dims, 6);
    let kbar = points(n, n, 7);
    let kernel = parse("matern32(ard)", dims).unwrap();
    let mut scratch = Scratch::new();
    let mut both = Vec::new();
    for inputs in [Inputs::Gram(x.as_ref()), Inputs::Cross { left: x.as_ref(), right: x.as_ref() }] {
        let mut k = Mat::zeros(n, n);
        kernel.eval(inputs, k.as_mut(), &mut scratch);
        let (mut parameters, mut left, mut right) =
            (vec![0.0; dims + 1], Mat::zeros(n, dims), Mat::zeros(n, dims));
        let gradient =
            Gradient { parameters: &mut parameters, left: Some(left.as_mut()), right: Some(right.as_mut()) };
        kernel.adjoint(inputs, k.as_ref(), kbar.as_ref(), gradient, &mut scratch);
        both.push((k, parameters, &left + &right));
    }
    // Matérn-3/2 has no kink in its value, and the product form's noise at coincident points is of order ε.
    assert!((&both[0].0 - &both[1].0).norm_max() < 1e-12);
    assert!(both[0].1.iter().zip(&both[1].1).all(|(a, b)| (a - b).abs() < 1e-8));
    assert!((&both[0].2 - &both[1].2).norm_max() < 1e-8);
}
