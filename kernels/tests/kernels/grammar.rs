//! The text form: structure, names, identifiability, round trips of random expressions, and errors with positions.

use super::evaluation::*;
use proptest::prelude::*;

fn parameters(kernel: &dyn Kernel) -> Vec<Parameter> {
    let mut found = Vec::new();
    kernel.for_each_parameter(&mut |parameter| found.push(parameter.clone()));
    found
}

fn free_names(text: &str, dims: usize) -> Vec<String> {
    let kernel = parse(text, dims).unwrap();
    let names = kernel.parameter_names().into_iter().zip(parameters(kernel.as_ref()));
    names.filter(|(_, parameter)| !parameter.fixed).map(|(name, _)| name).collect()
}

#[test]
fn names_are_bare_alone_and_labelled_in_company() {
    let names = |text: &str| value_names(parse(text, 2).unwrap().as_ref());
    assert_eq!(names("rbf"), ["variance", "lengthscales"]);
    assert_eq!(names("rbf(ard)"), ["variance", "lengthscales.0", "lengthscales.1"]);
    assert_eq!(names("rq[1]"), ["variance", "lengthscales", "alpha"]);
    assert_eq!(
        names("rbf(ard) + periodic * rbf[0] + scale(rbf)"),
        [
            "rbf.variance",
            "rbf.lengthscales.0",
            "rbf.lengthscales.1",
            "periodic.variance",
            "periodic.lengthscales",
            "periodic.period",
            "rbf_2.variance",
            "rbf_2.lengthscales",
            "scale.variance",
            "rbf_3.variance",
            "rbf_3.lengthscales",
        ]
    );
}

#[test]
fn only_one_factor_carries_the_scale() {
    assert_eq!(free_names("rbf * constant * white", 1), ["rbf.variance", "rbf.lengthscales"]);
    assert_eq!(
        free_names("rbf * (matern12 + linear)", 1),
        ["rbf.variance", "rbf.lengthscales", "matern12.lengthscales", "linear.variance"]
    );
    assert_eq!(
        free_names("scale(rbf + constant)", 1),
        ["scale.variance", "rbf.lengthscales", "constant.variance"]
    );
    assert_eq!(free_names("constant * scale(white)", 1), ["constant.variance"]);
    // These have no overall scale that could be fixed.
    assert_eq!(
        free_names("constant * polynomial * linear(ard)", 2),
        ["constant.variance", "polynomial.variance", "polynomial.offset", "linear.variance"]
    );
}

#[test]
fn given_values_are_set_and_kept() {
    let mut kernel = parse("rbf(ard, lengthscales=[0.5, 2e1], variance=3)", 2).unwrap();
    kernel.initialise(&[1.0, 1.0], 7.0);
    let found = parameters(kernel.as_ref());
    assert_eq!(found[0].values, [3.0]);
    assert_eq!(found[1].values, [0.5, 20.0]);
    let found = parameters(parse("periodic( period = 7 )", 1).unwrap().as_ref());
    assert_eq!(found[2].values, [7.0]);
    // A list alone makes a parameter one per dimension; one value serves all dimensions.
    assert_eq!(parse("rbf(lengthscales=[1, 2])", 2).unwrap().expression(), "rbf(ard)");
    let found = parameters(parse("linear(ard, variance=4)", 3).unwrap().as_ref());
    assert_eq!(found[0].values, [4.0; 3]);
    let found = parameters(parse("scale(rbf(variance=3), variance=2)", 1).unwrap().as_ref());
    assert_eq!((&found[0].values[..], &found[1].values[..]), (&[2.0][..], &[3.0][..]));
}

#[test]
fn starting_values_follow_the_documented_rules() {
    let start = |text: &str, spread: &[f64], target: f64| {
        let mut kernel = parse(text, spread.len()).unwrap();
        kernel.initialise(spread, target);
        parameters(kernel.as_ref()).into_iter().flat_map(|parameter| parameter.values).collect::<Vec<f64>>()
    };
    assert_eq!(start("rbf", &[3.0], 2.0), [2.0, 3.0]);
    assert_eq!(start("matern32(ard)", &[1.0, 2.0, 0.0, 0.5], 1.0), [1.0, 2.0, 4.0, 2.0, 1.0]);
    assert_eq!(start("wendland(smoothness=0)", &[1.0, 1.0, 1.0, 1.0], 1.0), [1.0, 2.0 * 3.0]);
    let mixture = start("spectral_mixture", &[2.0], 3.0);
    assert_eq!(mixture[..4], [1.5, 1.5, 0.0625, 0.1875]);
    assert_eq!(start("additive(order=2)", &[2.0, 3.0, 4.0], 6.0), [1.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(start("rbf[1]", &[9.0, 2.0], 1.0), [1.0, 2.0]);
    // A shared lengthscale: √2 times the root mean square of 1 and 7.
    let shared = start("rbf", &[1.0, 7.0], 1.0);
    assert!((shared[1] - 50f64.sqrt()).abs() < 1e-14, "{shared:?}");
    assert_eq!(start("constant + white + constant + constant", &[1.0], 2.0), [0.5; 4]);
    assert_eq!(start("constant * white", &[1.0], 2.0), [2.0, 1.0]);
    assert_eq!(start("scale(constant)", &[1.0], 2.0), [2.0, 1.0]);
    assert_eq!(start("linear(ard)", &[1.0, 2.0], 4.0), [2.0, 0.5]);
}

#[test]
fn the_prior_variance_starts_at_the_target() {
    // One point that is one spread away from the centre in every dimension.
    let x = faer::mat![[0.7, 2.0, 0.1]];
    for text in [
        "rbf",
        "matern12(ard) + periodic + cosine",
        "wendland(smoothness=2)",
        "spectral_mixture(components=3)",
        "additive(order=2)",
        "linear",
        "linear(ard)",
        "polynomial(degree=3)",
        "polynomial(ard)",
        "arccosine(order=0)",
        "arccosine(order=1)",
        "arccosine(ard, order=2)",
        "scale(rbf + white) * (rbf * constant)",
    ] {
        let mut kernel = parse(text, 3).unwrap();
        kernel.initialise(&[0.7, 2.0, 0.1], 5.0);
        let mut diag = [0.0];
        kernel.diag(x.as_ref(), &mut diag, &mut Scratch::new());
        // `scale` puts its target on the scale; the terms of the sum inside it start at 1 in total,
        // with one term fixed at 1.
        let want = if text.starts_with("scale") { 5.0 * 1.5 } else { 5.0 };
        assert!((diag[0] - want).abs() < 1e-12 * want, "{text}: {}", diag[0]);
    }
}

#[test]
fn errors_name_the_column_and_what_was_expected() {
    for (text, column, part) in [
        ("", 1, "expected a kernel"),
        ("rbf +", 6, "expected a kernel"),
        ("rbf rbf", 5, "expected '+'"),
        ("(rbf", 5, "expected ')'"),
        ("gauss", 1, "'gauss' is not known"),
        ("rbf(arrd)", 5, "has no option 'arrd'"),
        ("rbf(variance=-1)", 5, "must be positive"),
        ("rbf(variance=1e999)", 14, "not a finite number"),
        ("rbf(variance=1, variance=2)", 17, "given twice"),
        ("rbf(lengthscales=[1, 2, 3])", 5, "3 values for 2"),
        ("rbf[2]", 5, "no column 2"),
        ("rbf[0:99999999999999999999]", 7, "no column"),
        ("rbf[0, 0]", 8, "selected twice"),
        ("rbf[1][0]", 5, "no column 1, only 1"),
        ("polynomial(degree=0)", 12, "whole number from 1"),
        ("wendland(smoothness=3)", 10, "from 0 to 2"),
        ("scale(rbf, rbf)", 1, "takes one kernel"),
        ("warp(rbf, left_slopes=60)", 11, "between 0.02 and 50"),
        ("changepoint(rbf)", 1, "takes two kernels or more"),
        ("rbf + changepoint(rbf, linear, sharp=2)", 32, "expected one of locations, steepness"),
        ("rbf × rbf", 5, "found '×'"),
    ] {
        let error = parse(text, 2).expect_err(text);
        assert!(error.message.contains(part), "{text}: {error}");
        assert_eq!(error.column, column, "{text}: {error}");
    }
    assert!(parse("rbf +", 1).unwrap_err().to_string().starts_with("column 6: expected a kernel"));
}

#[test]
fn nesting_and_length_are_limited() {
    for (open, close) in [("(", ")"), ("scale(", ")"), ("", "[0]")] {
        let nest = |depth: usize| format!("{}rbf{}", open.repeat(depth), close.repeat(depth));
        assert!(parse(&nest(50), 1).is_ok(), "{}", nest(50));
        assert!(parse(&nest(100_000), 1).is_err());
    }
    assert!(parse(&vec!["white"; 900].join(" + "), 1).is_ok());
    assert!(parse(&vec!["white"; 1100].join(" + "), 1).is_err());
}

/// Expressions in the form the crate writes them, for points with `dims` columns.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "rbf",
        "rbf(ard)",
        "matern12",
        "matern32(ard)",
        "matern52",
        "rational_quadratic(ard)",
        "wendland(ard, smoothness=2)",
        "periodic",
        "periodic(ard)",
        "periodic(ard, ard_period)",
        "cosine(ard)",
        "spectral_mixture(components=3)",
        "additive(order=2)",
        "linear(ard)",
        "polynomial(degree=3)",
        "polynomial(ard, degree=1)",
        "arccosine(order=0)",
        "arccosine(ard, order=2)",
        "constant",
        "white",
        "hamming",
        "hamming(ard)",
        "warp(matern32(ard))",
        "changepoint(rbf, linear + white)",
        "changepoint(rbf, (constant * white)[1:3], rbf)",
        "rbf[0:2]",
        "linear[2]",
        "matern52(ard)[2, 0]",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let children = prop::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            children.clone().prop_map(|children| children.join(" + ")),
            children.prop_map(|children| format!("({})", children.join(") * ("))),
            inner.clone().prop_map(|inner| format!("scale({inner})")),
            inner.prop_map(|inner| format!("({inner})[0:3]")),
        ]
    })
}

proptest! {
    #[test]
    fn expressions_come_back_equal(text in expressions()) {
        let kernel = parse(&text, 3).unwrap();
        let again = parse(&kernel.expression(), 3).unwrap();
        prop_assert_eq!(again.expression(), kernel.expression());
        prop_assert_eq!(again.parameter_names(), kernel.parameter_names());
        prop_assert_eq!(parameters(again.as_ref()), parameters(kernel.as_ref()));
        prop_assert_eq!(format!("{again:?}"), format!("{kernel:?}"));
    }

    #[test]
    fn no_text_panics(text in "[a-z0-9()\\[\\]+*:,=. e-]{0,40}", dims in 0usize..4) {
        let length = text.chars().count();
        if let Err(error) = parse(&text, dims) {
            prop_assert!((1..=length + 1).contains(&error.column));
        }
    }

    #[test]
    fn no_mutilated_expression_panics(text in expressions(), cut in 0usize..60, dims in 0usize..4) {
        let cut: String = text.chars().take(cut).collect();
        if let Ok(kernel) = parse(&cut, dims) {
            prop_assert!(kernel.min_dims() <= dims.max(1));
        }
    }
}

#[test]
fn terms_add_up_and_columns_are_those_that_values_depend_on() {
    let points = |shift: f64| Mat::from_fn(5, 3, |i, d| (i as f64 + shift) * 0.3 + d as f64 * 0.2 * i as f64);
    let (left, right) = (points(0.0), points(0.7));
    let eval = |kernel: &dyn Kernel| evaluate(kernel, cross(&left, &right)).k;
    let cases: &[(&str, &[Option<&[usize]>])] = &[
        ("rbf[0] + matern32[2] * linear[1] + constant", &[Some(&[0]), Some(&[1, 2]), Some(&[])]),
        ("rbf[1] + rbf", &[Some(&[1]), None]),
        ("additive(order=1)", &[Some(&[0]), Some(&[1]), Some(&[2])]),
        ("additive(order=2)", &[]),
        ("rbf[0] * rbf[1]", &[]),
        ("rbf", &[]),
    ];
    for (text, columns) in cases {
        let kernel = parse(text, 3).unwrap();
        let terms = kernel.terms();
        let found: Vec<Option<Vec<usize>>> = terms.iter().map(|term| term.columns()).collect();
        let expected: Vec<Option<Vec<usize>>> =
            columns.iter().map(|columns| columns.map(<[usize]>::to_vec)).collect();
        assert_eq!(found, expected, "{text}");
        if terms.is_empty() {
            continue;
        }
        let mut sum = Mat::zeros(5, 5);
        terms.iter().for_each(|term| sum += eval(term.as_ref()));
        assert!((sum - eval(kernel.as_ref())).norm_max() < 1e-12, "{text}");
    }
}
