//! Columns of codes: the contract, one-hot codes with tied lengthscales, permuted codes, kernels
//! that refuse codes.

use super::evaluation::*;

/// Numbers in columns 0 and 2, codes of 4 levels in column 1 and of 3 in column 3.
fn points(n: usize, offset: usize) -> Mat<f64> {
    Mat::from_fn(n, 4, |i, d| match d {
        1 => ((7 * i + offset) % 4) as f64,
        3 => ((5 * i + offset) % 3) as f64,
        _ => ((i * (d + 3) + 5 * offset) as f64 * 0.618_034).fract() * 3.0 - 1.5,
    })
}

const DIMENSIONS: [Dimension; 4] = [
    Dimension::Number,
    Dimension::Category { levels: 4 },
    Dimension::Number,
    Dimension::Category { levels: 3 },
];

/// A kernel for these points, with parameters away from round numbers.
fn kernel(text: &str) -> Box<dyn Kernel> {
    let mut kernel = parse(text, 4).expect(text);
    kernel.set_dimensions(&DIMENSIONS).expect(text);
    perturb(kernel.as_mut());
    kernel
}

const STATIONARY: [&str; 5] = ["rbf", "matern12", "matern32", "matern52", "rational_quadratic"];

#[test]
fn every_kernel_with_a_meaning_for_categories_keeps_the_contract() {
    let stationary = STATIONARY.iter().chain(&["linear", "polynomial", "hamming"]);
    let texts = stationary.flat_map(|name| [(*name).to_owned(), format!("{name}(ard)")]).chain(
        [
            "additive(order=2)",
            // Different levels are still within the support.
            "wendland(lengthscales=3)",
            "wendland(ard, smoothness=2, lengthscales=3)",
            "matern32(ard) + linear(ard)[1, 0] * white",
            "scale(warp(rbf(ard))) + linear[3]",
            "periodic[0] * hamming[1, 3] + changepoint(rbf, linear)",
            "rbf[3, 1]",
        ]
        .map(str::to_owned),
    );
    for text in texts {
        let (left, right) = (points(11, 0), points(14, 2));
        assert_contract(kernel(&text).as_ref(), &left, &right, &text);
    }
}

#[test]
fn columns_may_all_be_categories_for_any_number_of_points() {
    // More points than a block of rows of distances. Codes repeat after 12 points.
    let (kernel, x, few) = (kernel("rbf(ard)[1, 3]"), points(300, 0), points(12, 0));
    let [all, part] = [&x, &few].map(|x| evaluate(kernel.as_ref(), Inputs::Gram(x.as_ref())).k);
    for (i, j) in (0..300).flat_map(|j| (0..300).map(move |i| (i, j))) {
        assert_eq!(all[(i, j)], part[(i % 12, j % 12)], "{i} {j}");
    }
}

/// Replaces each column of codes by one column per level.
fn one_hot(x: &Mat<f64>) -> Mat<f64> {
    Mat::from_fn(x.nrows(), 9, |i, c| match c {
        0 => x[(i, 0)],
        1..=4 => f64::from(x[(i, 1)] == (c - 1) as f64),
        5 => x[(i, 2)],
        _ => f64::from(x[(i, 3)] == (c - 6) as f64),
    })
}

#[test]
fn a_code_is_one_hot_columns_with_tied_lengthscales() {
    /// For each column of the one-hot points, the column of the coded points it comes from.
    const OF: [usize; 9] = [0, 1, 1, 1, 1, 2, 3, 3, 3];
    // Enough points for several panels and row blocks, in both ways to compute distances.
    let (left, right) = (points(300, 1), points(150, 2));
    for name in STATIONARY.iter().chain(&["linear", "polynomial"]) {
        let coded = kernel(&format!("{name}(ard)"));
        let mut spread = parse(&format!("{name}(ard)"), 9).expect("a kernel");
        let mut own = Vec::new();
        coded.for_each_parameter(&mut |parameter| own.push(parameter.clone()));
        // Two one-hot columns differ where one code does; their products are those of equal codes.
        let factor = |d: usize, name: &str| {
            if DIMENSIONS[d].is_category() && name == "lengthscales" { 2f64.sqrt() } else { 1.0 }
        };
        let mut found = own.iter();
        spread.for_each_parameter_mut(&mut |parameter| {
            let Some(own) = found.next() else { return };
            for (c, value) in parameter.values.iter_mut().enumerate() {
                *value = if own.values.len() == 4 {
                    own.values[OF[c]] * factor(OF[c], &own.name)
                } else {
                    own.values[0]
                };
            }
        });
        for right in [None, Some(&right)] {
            let (expanded, other) = (one_hot(&left), right.map(one_hot));
            let own_inputs = right.map_or(Inputs::Gram(left.as_ref()), |right| cross(&left, right));
            let spread_inputs =
                other.as_ref().map_or(Inputs::Gram(expanded.as_ref()), |other| cross(&expanded, other));
            let (found, apart) =
                (evaluate(coded.as_ref(), own_inputs), evaluate(spread.as_ref(), spread_inputs));
            assert!((&found.k - &apart.k).norm_max() < 1e-10, "{name}");
            let mut tied = Vec::new();
            let mut rest = &apart.parameters[..];
            for parameter in &own {
                let (columns, later) = rest.split_at(if parameter.values.len() == 4 { 9 } else { 1 });
                rest = later;
                let mut sums = vec![0.0; parameter.values.len()];
                for (c, value) in columns.iter().enumerate() {
                    let d = if sums.len() == 4 { OF[c] } else { 0 };
                    sums[d] += value * if sums.len() == 4 { factor(d, &parameter.name) } else { 1.0 };
                }
                tied.extend(sums);
            }
            for (own, tied) in found.parameters.iter().zip(&tied) {
                assert!((own - tied).abs() < 1e-9 * (1.0 + tied.abs()), "{name}: {own} and {tied}");
            }
        }
    }
}

#[test]
fn which_level_has_which_code_does_not_matter() {
    let (left, right) = (points(40, 0), points(30, 1));
    // Unseen levels have any other code.
    let permuted = |x: &Mat<f64>| {
        Mat::from_fn(x.nrows(), 4, |i, d| match d {
            1 => [3.0, 17.0, 0.0, 1.0][x[(i, 1)] as usize],
            3 => [1.0, 2.0, 0.0][x[(i, 3)] as usize],
            _ => x[(i, d)],
        })
    };
    let (other_left, other_right) = (permuted(&left), permuted(&right));
    for text in ["matern32(ard) + linear(ard)", "additive(order=3)", "hamming * polynomial"] {
        let kernel = kernel(text);
        let before = evaluate(kernel.as_ref(), cross(&left, &right));
        assert!(before == evaluate(kernel.as_ref(), cross(&other_left, &other_right)), "{text}");
    }
}

#[test]
fn numbers_alone_change_nothing() {
    let (left, right) = (points(60, 0), points(30, 1));
    for text in ["matern52(ard)", "rbf + linear", "warp(additive(order=2))", "polynomial(ard)", "coregion"] {
        let plain = parse(text, 4).expect(text);
        let mut told = plain.clone();
        told.set_dimensions(&[Dimension::Number; 4]).expect(text);
        let of = |kernel: &dyn Kernel| evaluate(kernel, cross(&left, &right));
        assert!(of(plain.as_ref()) == of(told.as_ref()), "{text}");
    }
}

#[test]
fn coregion_takes_the_levels_of_a_code() {
    let levels = Dimension::Category { levels: 3 };
    let mut coded = parse("coregion(rank=2)", 1).expect("a kernel");
    coded.set_dimensions(&[levels]).expect("one column of codes");
    let spread = parse("coregion(rank=2)", 3).expect("a kernel");
    assert_eq!(value_names(coded.as_ref()), value_names(spread.as_ref()));
    // The last code is of a level that was never seen.
    let codes = faer::mat![[0.0], [2.0], [1.0], [0.0], [3.0]];
    let columns = Mat::from_fn(5, 3, |i, c| f64::from(codes[(i, 0)] == c as f64));
    let own = evaluate(coded.as_ref(), Inputs::Gram(codes.as_ref()));
    let apart = evaluate(spread.as_ref(), Inputs::Gram(columns.as_ref()));
    assert_eq!((own.k, own.parameters), (apart.k, apart.parameters));
    let refused = parse("coregion", 2).expect("a kernel").set_dimensions(&[levels; 2]);
    assert!(refused.is_err_and(|error| error.to_string().contains("coregion of several columns")));
}
