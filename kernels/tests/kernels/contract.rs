//! Runs every kernel and several compositions through the public contract, in few and in many dimensions.

use super::evaluation::*;

fn points(n: usize, dims: usize, seed: u64) -> Mat<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Mat::from_fn(n, dims, |_, _| rng.random_range(-1.5..1.5))
}

fn check(text: &str, dims: usize) {
    let mut kernel = parse(text, dims).unwrap_or_else(|error| panic!("{text}: {error}"));
    kernel.initialise(&vec![0.9; dims], 1.5);
    perturb(kernel.as_mut());
    // Numbers of points that are not multiples of a vector's length; more on the right than on the left.
    let (left, right) = (points(11, dims, 1), points(14, dims, 2));
    assert_contract(kernel.as_ref(), &left, &right, &format!("{text} in {dims} dimensions"));
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
    // 300 rows span three row blocks, 150 columns several panels, in both ways to compute distances.
    for dims in [2, 7] {
        let (left, right) = (points(300, dims, 3), points(150, dims, 4));
        let (kernel, kbar) = (parse("matern52(ard)", dims).unwrap(), points(300, 150, 5));
        let whole = evaluate_weighted(kernel.as_ref(), cross(&left, &right), &kbar);
        let (mut parameters, mut by_left) = (vec![0.0; dims + 1], Mat::<f64>::zeros(300, dims));
        for j in 0..150 {
            let (point, weights) = (right.subrows(j, 1).to_owned(), kbar.subcols(j, 1).to_owned());
            let column = evaluate_weighted(kernel.as_ref(), cross(&left, &point), &weights);
            // The product form rounds at ε‖x‖².
            assert!((&column.k - whole.k.subcols(j, 1)).norm_max() < 1e-13);
            assert!((&column.right - whole.right.subrows(j, 1)).norm_max() < 1e-9);
            parameters.iter_mut().zip(&column.parameters).for_each(|(sum, part)| *sum += part);
            by_left += column.left;
        }
        // Sums of up to 45 000 terms of order 1.
        assert!(whole.parameters.iter().zip(&parameters).all(|(a, b)| (a - b).abs() < 1e-9));
        assert!((&whole.left - &by_left).norm_max() < 1e-9);
    }
}

#[test]
fn large_gram_adjoints_equal_the_cross_adjoint_of_both_sides() {
    let (dims, n) = (5, 260);
    let (x, kbar) = (points(n, dims, 6), points(n, n, 7));
    let kernel = parse("matern32(ard)", dims).unwrap();
    let [gram, cross] = [Inputs::Gram(x.as_ref()), cross(&x, &x)]
        .map(|inputs| evaluate_weighted(kernel.as_ref(), inputs, &kbar));
    // Matérn-3/2 has no kink in its value, and the product form's noise at coincident points is of order ε.
    assert!((&gram.k - &cross.k).norm_max() < 1e-12);
    assert!(gram.parameters.iter().zip(&cross.parameters).all(|(a, b)| (a - b).abs() < 1e-8));
    assert!((&gram.left - (&cross.left + &cross.right)).norm_max() < 1e-8);
}
