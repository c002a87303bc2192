//! Kernels from formulas: values, adjoints and starts against the built-in kernels, the contract, and formulas that fail.

use super::evaluation::*;
use sparsegp_kernels::{Dimension, DimensionError};
use sparsegp_testkit::kernel_formulas::{Linear, Matern, Periodic, Rbf, Stretched};

/// Returns points, the first two equal.
fn points(n: usize, dims: usize, shift: f64) -> Mat<f64> {
    Mat::from_fn(n, dims, |i, d| 1.5 * ((i.max(1) * (d + 2)) as f64 * 0.7 + shift).sin())
}

fn values(kernel: &dyn Kernel) -> Vec<f64> {
    kernel.parameters().into_iter().flat_map(|parameter| parameter.values.clone()).collect()
}

fn close(got: &[f64], want: &[f64]) -> bool {
    got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-12 * (1.0 + b.abs()))
}

/// Compares covariances and all of their gradients with those of a built-in kernel.
fn agree(own: &dyn Kernel, built_in: &dyn Kernel, inputs: Inputs<'_>, text: &str) {
    let (got, want) = (evaluate(own, inputs), evaluate(built_in, inputs));
    let Evaluation { k, parameters, left, right } = &want;
    assert!((&got.k - k).norm_max() < 1e-12, "{text}");
    assert!(close(&got.parameters, parameters), "{text}: {:?} {parameters:?}", got.parameters);
    // The built-in kernels differentiate Gram matrices of 1e-11 accuracy.
    assert!((&got.left - left).norm_max() < 1e-11, "{text}: {:?} {left:?}", got.left);
    assert!((&got.right - right).norm_max() < 1e-11, "{text}");
}

/// Compares the starts of a kernel with the starts of a built-in one, and its covariances, diagonals and gradients.
fn compare(mut own: Box<dyn Kernel>, text: &str, dims: usize) {
    let mut built_in = parse(text, dims).unwrap();
    let spread = [0.4, 1.7, 0.9];
    own.initialise(&spread[..dims], 1.3);
    built_in.initialise(&spread[..dims], 1.3);
    assert!(close(&values(own.as_ref()), &values(built_in.as_ref())), "{text}: {own:?} {built_in:?}");
    assert_eq!(own.units(dims), built_in.units(dims), "{text}");
    perturb(own.as_mut());
    perturb(built_in.as_mut());
    let (left, right) = (points(7, dims, 0.1), points(5, dims, 0.4));
    for inputs in [cross(&left, &right), Inputs::Gram(left.as_ref())] {
        agree(own.as_ref(), built_in.as_ref(), inputs, text);
    }
    let ([mut a, mut b], weights) = ([0; 2].map(|_| vec![0.0; 7]), [0.3, -1.0, 2.0, 0.7, 0.1, -0.4, 1.1]);
    own.diag(left.as_ref(), &mut a, &mut Scratch::new());
    built_in.diag(left.as_ref(), &mut b, &mut Scratch::new());
    assert!(close(&a, &b), "{text}: {a:?} {b:?}");
    let diagonal = |kernel: &dyn Kernel| {
        let (mut parameters, mut points) = (vec![0.0; values(kernel).len()], Mat::zeros(7, dims));
        let grad = Gradient { parameters: &mut parameters, left: Some(points.as_mut()), right: None };
        kernel.diag_adjoint(left.as_ref(), &weights, grad, &mut Scratch::new());
        parameters.extend(points.col_iter().flat_map(|column| column.iter().copied()));
        parameters
    };
    assert!(close(&diagonal(own.as_ref()), &diagonal(built_in.as_ref())), "{text}");
}

#[test]
fn formulas_equal_the_built_in_kernels() {
    for dims in 1..=3 {
        compare(FormulaKernel::new(Rbf { columns: dims }).into(), "rbf(ard)", dims);
        compare(FormulaKernel::new(Linear).into(), "linear", dims);
    }
}

#[test]
fn periodic_formulas_equal_the_built_in_kernel_at_the_same_values() {
    let mut own = FormulaKernel::new(Periodic);
    let mut built_in = parse("periodic", 2).unwrap();
    perturb(&mut own);
    perturb(built_in.as_mut());
    let (left, right) = (points(7, 2, 0.1), points(5, 2, 0.4));
    for inputs in [cross(&left, &right), Inputs::Gram(left.as_ref())] {
        agree(&own, built_in.as_ref(), inputs, "periodic");
    }
}

#[test]
fn distances_of_equal_points_have_no_slope() {
    for (is_smooth, text) in [(false, "matern12"), (true, "matern32")] {
        let mut own = FormulaKernel::new(Matern { is_smooth });
        let mut built_in = parse(text, 2).unwrap();
        perturb(&mut own);
        perturb(built_in.as_mut());
        let x = points(6, 2, 0.2);
        agree(&own, built_in.as_ref(), Inputs::Gram(x.as_ref()), text);
    }
}

#[test]
fn formulas_keep_the_contract() {
    let (left, right) = (points(6, 2, 0.3), points(4, 2, 0.9));
    let [left, right] = [left, right].map(|points| points.subrows(1, points.nrows() - 1).to_owned());
    let mut stretched = FormulaKernel::new(Stretched { room: 3.0 });
    perturb(&mut stretched);
    assert_contract(&stretched, &left, &right, "not stationary");
    let sum = FormulaKernel::new(Periodic) * Stationary::rbf(1.0, &[2.0]) + FormulaKernel::new(Linear);
    assert_contract(&sum, &left, &right, "in a sum");
    assert_eq!(sum.expression(), "own_periodic * rbf + own_linear");

    // More parameters than one evaluation differentiates in.
    let wide =
        |points: &Mat<f64>| Mat::from_fn(points.nrows(), 9, |i, d| points[(i, d % 2)] + 0.1 * d as f64);
    assert_contract(&FormulaKernel::new(Rbf { columns: 9 }), &wide(&left), &wide(&right), "nine columns");
}

#[test]
fn entries_read_values_and_columns_are_checked() {
    let grammar = Grammar::default().with(FormulaKernel::<Periodic>::ENTRY).unwrap();
    let kernel = grammar.parse("own_periodic(period=2.5) + white", 2).unwrap();
    assert_eq!(kernel.parameters()[2].values, [2.5]);
    let kernel = FormulaKernel::new(Rbf { columns: 3 });
    assert_eq!(kernel.min_dims(), 3);
    let wrong = check_values(&kernel, 2).unwrap_err();
    assert_eq!(wrong, "the kernel own_rbf is for 3 columns, but the inputs have 2");
    assert_eq!(check_values(&kernel, 3), Ok(()));
}

#[test]
fn categories_count_as_in_the_built_in_kernels() {
    let dimensions =
        [Dimension::Number, Dimension::Category { levels: 3 }, Dimension::Category { levels: 2 }];
    let coded = |n: usize, shift: f64| {
        let of =
            |i: usize, d: usize| if d == 0 { (i as f64 + shift).sin() } else { ((i * d) % (4 - d)) as f64 };
        Mat::from_fn(n, 3, of)
    };
    let (left, right) = (coded(7, 0.1), coded(5, 0.4));
    let pairs: [(Box<dyn Kernel>, &str); 2] = [
        (FormulaKernel::new(Rbf { columns: 3 }).into(), "rbf(ard)"),
        (FormulaKernel::new(Linear).into(), "linear"),
    ];
    for (mut own, text) in pairs {
        let mut built_in = parse(text, 3).unwrap();
        for kernel in [&mut own, &mut built_in] {
            kernel.set_dimensions(&dimensions).unwrap();
            perturb(kernel.as_mut());
        }
        for inputs in [cross(&left, &right), Inputs::Gram(left.as_ref())] {
            agree(own.as_ref(), built_in.as_ref(), inputs, text);
        }
    }
}

/// `Σ x_d z_{D−1−d}`, which is symmetric, but not positive definite.
#[derive(Clone, Debug)]
struct Crossed;

impl KernelFormula for Crossed {
    const NAME: &'static str = "crossed";

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::positive("variance", vec![1.0])]
    }

    fn value<D: real::Derivatives>(&self, p: &[Real<D>], x: &[Real<D>], z: &[Real<D>]) -> Real<D> {
        p[0] * x.iter().zip(z.iter().rev()).map(|(&x, &z)| x * z).sum::<Real<D>>()
    }
}

#[test]
fn formulas_that_are_no_covariance_of_categories_refuse_them() {
    let mut kernel = FormulaKernel::new(Crossed);
    let dimensions = [Dimension::Category { levels: 3 }, Dimension::Number];
    let refused = DimensionError::NoCategories { kernel: "crossed".to_owned() };
    assert_eq!(kernel.set_dimensions(&dimensions), Err(refused));
    assert!(kernel.dimensions().is_empty());
}

/// A formula that is not symmetric.
#[derive(Clone, Debug)]
struct Lopsided;

impl KernelFormula for Lopsided {
    const NAME: &'static str = "lopsided";

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::positive("variance", vec![1.0])]
    }

    fn value<D: real::Derivatives>(&self, p: &[Real<D>], x: &[Real<D>], z: &[Real<D>]) -> Real<D> {
        p[0] * (-(x[0] - 0.9 * z[0]).powi(2)).exp()
    }
}

#[test]
fn the_contract_finds_wrong_formulas() {
    let (left, right) = (points(4, 1, 0.3), points(3, 1, 0.9));
    let verdict = check_kernel(&FormulaKernel::new(Lopsided), left.as_ref(), right.as_ref()).unwrap_err();
    assert!(verdict.contains("differs from the"), "{verdict}");
    let undefined = FormulaKernel::new(Stretched { room: 1.0 });
    let verdict = check_kernel(&undefined, left.as_ref(), right.as_ref()).unwrap_err();
    assert!(verdict.contains("NaN"), "{verdict}");
}

#[test]
fn derivatives_match_differences() {
    type Function = fn(Real<real::Second>) -> Real<real::Second>;
    let functions: [Function; 24] = [
        |x| x.recip(),
        |x| x.sqrt(),
        |x| x.powi(3),
        |x| x.powi(-2),
        |x| x.powf(2.5),
        |x| x.pow(x),
        |x| x.exp(),
        |x| x.exp_m1(),
        |x| x.ln(),
        |x| x.ln_1p(),
        |x| x.softplus(),
        |x| (-x).softplus(),
        |x| x.sin(),
        |x| x.cos(),
        |x| x.atan(),
        |x| x.asin(),
        |x| x.acos(),
        |x| x.tanh(),
        |x| x.cosh(),
        |x| (-x).abs() * x,
        |x| x.max(0.5 * x) / (1.0 - x),
        |x| x.min(0.5 * x) - 2.0 / x,
        |x| (x * x - x) / (x + 3.0) * 2.0,
        |x| [x, x * x, 1.0 - x].into_iter().sum::<Real<_>>() * [x, x + 1.0].into_iter().product::<Real<_>>(),
    ];
    for (which, function) in functions.into_iter().enumerate() {
        let at = |x: f64| function(Real { value: x, derivatives: real::Second { first: 1.0, second: 0.0 } });
        let (x, h) = (0.37, 1e-4);
        let found = at(x).derivatives;
        let first = (at(x + h).value - at(x - h).value) / (2.0 * h);
        let second = (at(x + h).derivatives.first - at(x - h).derivatives.first) / (2.0 * h);
        let same = |a: f64, b: f64| (a - b).abs() < 1e-5 * (1.0 + b.abs());
        assert!(
            same(found.first, first) && same(found.second, second),
            "{which}: {found:?} {first} {second}"
        );
    }
}

#[test]
fn steep_functions_keep_slopes_of_zero() {
    let at = |x: f64, slope: f64| Real { value: x, derivatives: [slope, 0.0] };
    assert_eq!(at(0.0, 1.0).sqrt().derivatives, [f64::INFINITY, 0.0]);
    assert_eq!(at(0.0, 0.0).powf(0.3).derivatives, [0.0, 0.0]);
    assert_eq!(at(0.0, 3.0).abs().derivatives, [0.0, 0.0]);
    assert_eq!(at(1.0, 4.0).max(at(1.0, 2.0)).derivatives, [3.0, 0.0]);
    assert!(at(-1.0, 1.0).sqrt().value.is_nan());
    let distance = Real { value: 0.0, derivatives: real::Second { first: 0.0, second: 2.0 } }.sqrt();
    assert_eq!(distance.derivatives, real::Second { first: 0.0, second: 0.0 });
}
