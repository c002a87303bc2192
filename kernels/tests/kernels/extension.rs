//! A kernel of another crate: its adjoint by the test kit, its name in a grammar, its options, its
//! use in compositions.

use faer::Mat;
use sparsegp_kernels::testkit::{check_kernel, check_kernel_in};
use sparsegp_kernels::{Entry, Grammar, NameError, value_names};
use sparsegp_testkit::additive::Additive;

fn grammar() -> Grammar {
    Grammar::default().with(Additive::ENTRY).expect("a new name")
}

fn points(n: usize, shift: f64) -> Mat<f64> {
    Mat::from_fn(n, 3, |i, d| ((7 * i + 3 * d) as f64 * 0.61 + shift).sin())
}

#[test]
fn it_keeps_the_contract_alone_and_in_company() {
    let (left, right) = (points(11, 0.0), points(14, 0.3));
    for text in [
        "additive_imq(power=1)",
        "additive_imq(power=3)",
        "rbf(ard) * additive_imq(power=2) + additive_imq(power=1)[1:3]",
        "scale(additive_imq(power=2) + white)",
    ] {
        let mut kernel = grammar().parse(text, 3).unwrap_or_else(|error| panic!("{text}: {error}"));
        kernel.initialise(&[0.8; 3], 1.3);
        // The default grammar does not know its name, which is not a fault of the kernel.
        for verdict in [
            check_kernel(kernel.as_ref(), left.as_ref(), right.as_ref()),
            check_kernel_in(&grammar(), kernel.as_ref(), left.as_ref(), right.as_ref()),
        ] {
            verdict.unwrap_or_else(|violation| panic!("{text}: {violation}"));
        }
        let unknown = check_kernel_in(&Grammar::default(), kernel.as_ref(), left.as_ref(), right.as_ref());
        assert!(unknown.is_err_and(|violation| violation.contains("'additive_imq' is not known")));
    }
}

#[test]
fn its_options_and_scale_are_treated_like_any_others() {
    let free = |text: &str| {
        let kernel = grammar().parse(text, 3).expect(text);
        let mut fixed = Vec::new();
        kernel.for_each_parameter(&mut |parameter| fixed.push(parameter.fixed));
        let names = value_names(kernel.as_ref()).into_iter().zip(fixed);
        names.filter(|(_, fixed)| !fixed).map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(free("imq"), ["variance", "lengthscale"]);
    assert_eq!(free("linear * imq"), ["linear.variance", "additive_imq.lengthscale"]);
    let kernel = grammar().parse("additive_imq(power=2, lengthscale=3)", 1).expect("a kernel");
    assert_eq!(kernel.expression(), "additive_imq(power=2)");
    for (text, column, part) in [
        ("rbf + additive_imq(power=9)", 20, "'power' must be a whole number from 1 to 4"),
        ("additive_imq(ard)", 14, "has no option 'ard'; expected one of power, variance, lengthscale"),
        ("additive_imq(lengthscale=60)", 14, "'lengthscale' must be between 0 and 50, not 60"),
        ("additve", 1, "hamming, additive_imq, scale(...), warp(...), changepoint(...) or (...)"),
    ] {
        let error = grammar().parse(text, 2).expect_err(text);
        assert!(error.column == column && error.message.contains(part), "{text}: {error}");
    }
}

#[test]
fn names_are_words_and_given_once() {
    for (names, why) in [
        (&["additive_imq", "rq"][..], NameError::Taken("rq".to_owned())),
        (&["scale"], NameError::Taken("scale".to_owned())),
        (&["two words"], NameError::Malformed("two words".to_owned())),
        (&["2nd"], NameError::Malformed("2nd".to_owned())),
        (&[], NameError::Malformed(String::new())),
    ] {
        let refused = Grammar::default().with(Entry { names, ..Additive::ENTRY });
        assert_eq!(refused.err(), Some(why));
    }
}
