//! The contract every kernel must pass: symmetry, positive definiteness, adjoints against finite
//! differences, names and text form.

use crate::kernel::{Gradient, Inputs, Kernel, Scratch, value_names};
use crate::parameter::Parameter;
use crate::parse::Grammar;
use faer::{Mat, MatRef, Side};
use std::collections::HashSet;

/// Rounding allowed between two ways to compute the same covariance, relative to the largest variance: the product
/// form of distances loses `ε‖x‖²`, which a Matérn-3/2 passes on unamplified.
const VALUE_TOLERANCE: f64 = 1e-11;
/// Central differences with step `ε^⅓` are good to about `ε^⅔ ≈ 4e-11` times the third derivative;
/// with points and parameters of order 1 the error stays below this tolerance.
const GRADIENT_TOLERANCE: f64 = 2e-7;

/// Checks the contract on two sets of points with the same number of columns, all of them distinct
/// and of order 1 in the kernel's units. The text form is not checked for kernels with names that
/// the default grammar does not know; see [`check_kernel_in`].
///
/// # Errors
/// Describes the first violation of the contract, and where it occurs.
pub fn check_kernel(
    kernel: &dyn Kernel,
    left: MatRef<'_, f64>,
    right: MatRef<'_, f64>,
) -> Result<(), String> {
    let grammar = Grammar::default();
    if kernel.parts().iter().all(|part| grammar.knows(&part.label)) {
        check_text(kernel, left.ncols(), &grammar)?;
    }
    check_numbers(kernel, left, right)
}

/// Like [`check_kernel`], but reads the text form with `grammar`.
///
/// # Errors
/// As for [`check_kernel`].
pub fn check_kernel_in(
    grammar: &Grammar,
    kernel: &dyn Kernel,
    left: MatRef<'_, f64>,
    right: MatRef<'_, f64>,
) -> Result<(), String> {
    check_text(kernel, left.ncols(), grammar)?;
    check_numbers(kernel, left, right)
}

fn check_numbers(kernel: &dyn Kernel, left: MatRef<'_, f64>, right: MatRef<'_, f64>) -> Result<(), String> {
    check_values(kernel, left, right)?;
    check_names(kernel, left.ncols())?;
    for inputs in [Inputs::Cross { left, right }, Inputs::Gram(left)] {
        check_adjoint(kernel, inputs)?;
    }
    check_diag_adjoint(kernel, left)
}

/// Returns the derivative of `f` at `x` by a central difference with a step near `ε^⅓`, which
/// balances rounding and the third derivative.
pub fn central_difference(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    let h = 6e-6 * x.abs().max(1e-3);
    (f(x + h) - f(x - h)) / (2.0 * h)
}

fn ensure(condition: bool, message: impl Fn() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}

fn evaluate(kernel: &dyn Kernel, inputs: Inputs<'_>) -> Mat<f64> {
    let (rows, cols) = inputs.shape();
    // Filled with NaN, so that an unwritten entry shows.
    let mut out = Mat::from_fn(rows, cols, |_, _| f64::NAN);
    kernel.eval(inputs, out.as_mut(), &mut Scratch::new());
    out
}

fn diagonal(kernel: &dyn Kernel, x: MatRef<'_, f64>) -> Vec<f64> {
    let mut out = vec![f64::NAN; x.nrows()];
    kernel.diag(x, &mut out, &mut Scratch::new());
    out
}

fn check_values(kernel: &dyn Kernel, left: MatRef<'_, f64>, right: MatRef<'_, f64>) -> Result<(), String> {
    let gram = evaluate(kernel, Inputs::Gram(left));
    let diag = diagonal(kernel, left);
    let scale = diag.iter().fold(0.0, |a: f64, &b| a.max(b));
    let n = left.nrows();
    for i in 0..n {
        ensure(gram[(i, i)] == diag[i], || {
            format!("Gram diagonal {i}: {} is not {}", gram[(i, i)], diag[i])
        })?;
        for j in 0..i {
            let (a, b) = (gram[(i, j)], gram[(j, i)]);
            ensure(a == b, || format!("Gram matrix not symmetric at ({i}, {j}): {a} and {b}"))?;
        }
    }
    let values =
        gram.self_adjoint_eigenvalues(Side::Lower).map_err(|_| "Gram matrix not finite".to_owned())?;
    let smallest = values.iter().fold(f64::INFINITY, |a, &b| a.min(b));
    ensure(smallest >= -1e-10 * scale, || format!("Gram matrix has the eigenvalue {smallest}"))?;

    let cross = evaluate(kernel, Inputs::Cross { left, right });
    let transposed = evaluate(kernel, Inputs::Cross { left: right, right: left });
    let of_both = |i: usize, d: usize| if i < n { left[(i, d)] } else { right[(i - n, d)] };
    let both = Mat::from_fn(n + right.nrows(), left.ncols(), of_both);
    let gram = evaluate(kernel, Inputs::Gram(both.as_ref()));
    for i in 0..n {
        for j in 0..right.nrows() {
            let value = cross[(i, j)];
            for (other, what) in [(gram[(i, n + j)], "Gram"), (transposed[(j, i)], "transposed")] {
                let close = (value - other).abs() <= VALUE_TOLERANCE * scale;
                ensure(close, || {
                    format!("cross value ({i}, {j}) {value} differs from the {what} one {other}")
                })?;
            }
        }
    }
    Ok(())
}

fn check_names(kernel: &dyn Kernel, dims: usize) -> Result<(), String> {
    let names = value_names(kernel);
    let count = kernel.parameters().iter().map(|parameter| parameter.values.len()).sum::<usize>();
    ensure(names.len() == count, || format!("{} names for {count} values", names.len()))?;
    let unique: HashSet<&String> = names.iter().collect();
    ensure(unique.len() == names.len(), || format!("names are not unique: {names:?}"))?;
    ensure(kernel.min_dims() <= dims, || format!("min_dims is {} for {dims} columns", kernel.min_dims()))?;

    let (before, mut copy) = (kernel.parameters(), kernel.boxed_clone());
    ensure(copy.parameters() == before, || "a copy has other parameters".to_owned())?;
    let mut index = 0;
    copy.for_each_parameter_mut(&mut |parameter| {
        index += usize::from(before.get(index).is_some_and(|&same| same == parameter));
    });
    ensure(index == before.len(), || {
        "parameters are visited in another order when they may change".to_owned()
    })?;
    copy.fix_scale();
    let fixed = |found: &[&Parameter]| found.iter().filter(|parameter| parameter.fixed).count();
    ensure(fixed(&copy.parameters()) <= fixed(&before) + 1, || {
        "fix_scale fixes more than one parameter".to_owned()
    })
}

fn check_text(kernel: &dyn Kernel, dims: usize, grammar: &Grammar) -> Result<(), String> {
    let text = kernel.expression();
    let mut again = grammar.parse(&text, dims).map_err(|error| format!("expression '{text}': {error}"))?;
    again.set_dimensions(kernel.dimensions()).map_err(|error| format!("expression '{text}': {error}"))?;
    ensure(again.expression() == text, || format!("'{text}' came back as '{}'", again.expression()))?;
    let same = value_names(again.as_ref()) == value_names(kernel);
    ensure(same, || format!("'{text}' came back with other parameters"))
}

/// Gradients of `Σ kbar∘k`: in the flat parameters, the left points and the right points.
struct Gradients {
    parameters: Vec<f64>,
    left: Mat<f64>,
    right: Mat<f64>,
}

impl Gradients {
    fn filled(kernel: &dyn Kernel, inputs: Inputs<'_>, value: f64) -> Self {
        let (left, right) = inputs.sides();
        Gradients {
            parameters: vec![value; value_names(kernel).len()],
            left: Mat::from_fn(left.nrows(), left.ncols(), |_, _| value),
            right: Mat::from_fn(right.nrows(), right.ncols(), |_, _| value),
        }
    }

    /// Returns all numbers, each with the name of what it belongs to.
    fn numbers(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let points =
            [("left points", &self.left), (RIGHT, &self.right)].into_iter().flat_map(|(what, points)| {
                points.col_iter().flat_map(move |column| column.iter().map(move |&number| (what, number)))
            });
        self.parameters.iter().map(|&number| ("parameters", number)).chain(points)
    }

    fn target(&mut self) -> Gradient<'_> {
        Gradient {
            parameters: &mut self.parameters,
            left: Some(self.left.as_mut()),
            right: Some(self.right.as_mut()),
        }
    }
}

/// The name of the right points in messages.
const RIGHT: &str = "right points";

/// Deterministic weights of both signs, not symmetric.
fn weight(i: usize, j: usize) -> f64 {
    ((3 * i + 7 * j) as f64 * 0.37 + 0.2).sin()
}

fn weighted_sum(kernel: &dyn Kernel, inputs: Inputs<'_>) -> f64 {
    let k = evaluate(kernel, inputs);
    (0..k.ncols())
        .flat_map(|j| (0..k.nrows()).map(move |i| (i, j)))
        .map(|(i, j)| weight(i, j) * k[(i, j)])
        .sum()
}

fn set_value(kernel: &mut dyn Kernel, index: usize, value: f64) {
    let mut first = 0;
    kernel.for_each_parameter_mut(&mut |parameter| {
        let size = parameter.values.len();
        if (first..first + size).contains(&index) {
            parameter.values[index - first] = value;
        }
        first += size;
    });
}

/// Compares with a central difference; `scale` is the size of the function.
fn compare(what: &str, got: f64, x: f64, scale: f64, f: &dyn Fn(f64) -> f64) -> Result<(), String> {
    let h = f64::EPSILON.cbrt() * x.abs().max(0.1);
    let want = (f(x + h) - f(x - h)) / (2.0 * h);
    let close = (got - want).abs() <= GRADIENT_TOLERANCE * (want.abs() + scale);
    ensure(close, || format!("{what}: adjoint {got}, finite difference {want}"))
}

/// Checks every parameter of `gradient` against differences of `f`, a function of the kernel.
fn compare_parameters(
    kernel: &dyn Kernel,
    gradient: &[f64],
    scale: f64,
    what: &str,
    f: &dyn Fn(&dyn Kernel) -> f64,
) -> Result<(), String> {
    let values = kernel.parameters().into_iter().flat_map(|parameter| &parameter.values);
    for (index, (name, &x)) in value_names(kernel).iter().zip(values).enumerate() {
        compare(&format!("{what}, {name}"), gradient[index], x, scale, &|value| {
            let mut moved = kernel.boxed_clone();
            set_value(moved.as_mut(), index, value);
            f(moved.as_ref())
        })?;
    }
    Ok(())
}

/// Checks the gradient in a set of points against differences of `f`, a function of the points.
fn compare_points(
    x: MatRef<'_, f64>,
    gradient: &Mat<f64>,
    scale: f64,
    what: &str,
    f: &dyn Fn(MatRef<'_, f64>) -> f64,
) -> Result<(), String> {
    for i in 0..x.nrows() {
        for d in 0..x.ncols() {
            compare(&format!("{what} point ({i}, {d})"), gradient[(i, d)], x[(i, d)], scale, &|value| {
                let mut moved = x.to_owned();
                moved[(i, d)] = value;
                f(moved.as_ref())
            })?;
        }
    }
    Ok(())
}

fn check_adjoint(kernel: &dyn Kernel, inputs: Inputs<'_>) -> Result<(), String> {
    let k = evaluate(kernel, inputs);
    let kbar = Mat::from_fn(k.nrows(), k.ncols(), weight);
    let mut scratch = Scratch::new();
    let mut gradients = Gradients::filled(kernel, inputs, 0.0);
    let at = inputs.evaluated(k.as_ref(), kbar.as_ref());
    kernel.adjoint(at, gradients.target(), &mut scratch);
    let scale = k.norm_max() * (k.nrows().max(k.ncols()) as f64);
    let (left, right) = inputs.sides();
    let gram = matches!(inputs, Inputs::Gram(_));
    let (what, what_left) = if gram { ("Gram", "Gram") } else { ("cross", "left") };
    compare_parameters(kernel, &gradients.parameters, scale, what, &|kernel| weighted_sum(kernel, inputs))?;
    compare_points(left, &gradients.left, scale, what_left, &|left| {
        weighted_sum(kernel, if gram { Inputs::Gram(left) } else { Inputs::Cross { left, right } })
    })?;
    if gram {
        let unused = gradients.right.norm_max() == 0.0;
        ensure(unused, || "Gram adjoint wrote to the right points".to_owned())?;
    } else {
        let f = |right: MatRef<'_, f64>| weighted_sum(kernel, Inputs::Cross { left, right });
        compare_points(right, &gradients.right, scale, "right", &f)?;
    }

    // Results are added, a warm scratch changes nothing, and skipping one part of the gradient does
    // not change the others.
    let mut added = Gradients::filled(kernel, inputs, 2.0);
    kernel.adjoint(at, added.target(), &mut scratch);
    let mut alone = Gradients::filled(kernel, inputs, 0.0);
    let only_parameters = Gradient { parameters: &mut alone.parameters, left: None, right: None };
    kernel.adjoint(at, only_parameters, &mut scratch);
    let only_left = Gradient { parameters: &mut [], left: Some(alone.left.as_mut()), right: None };
    kernel.adjoint(at, only_left, &mut scratch);
    for (((what, a), (_, b)), (_, c)) in gradients.numbers().zip(added.numbers()).zip(alone.numbers()) {
        let tolerance = 1e-13 * scale * (1.0 + a.abs());
        ensure((b - a - 2.0).abs() <= tolerance, || format!("{what} not added to: {a} and {b}"))?;
        // The right points were not computed alone.
        let kept = what == RIGHT || (c - a).abs() <= tolerance;
        ensure(kept, || format!("{what} alone: {c} instead of {a}"))?;
    }
    Ok(())
}

fn check_diag_adjoint(kernel: &dyn Kernel, x: MatRef<'_, f64>) -> Result<(), String> {
    let f = |kernel: &dyn Kernel, x: MatRef<'_, f64>| {
        diagonal(kernel, x).iter().enumerate().map(|(i, k)| weight(i, i) * k).sum::<f64>()
    };
    let kbar: Vec<f64> = (0..x.nrows()).map(|i| weight(i, i)).collect();
    let mut gradients = Gradients::filled(kernel, Inputs::Gram(x), 0.0);
    kernel.diag_adjoint(x, &kbar, gradients.target(), &mut Scratch::new());
    let scale = diagonal(kernel, x).iter().sum::<f64>();
    compare_parameters(kernel, &gradients.parameters, scale, "diagonal", &|kernel| f(kernel, x))?;
    compare_points(x, &gradients.left, scale, "diagonal", &|x| f(kernel, x))?;
    let mut added = Gradients::filled(kernel, Inputs::Gram(x), 2.0);
    kernel.diag_adjoint(x, &kbar, added.target(), &mut Scratch::new());
    for (a, b) in gradients.parameters.iter().zip(&added.parameters) {
        let added = (b - a - 2.0).abs() <= 1e-13 * (1.0 + a.abs() + scale);
        ensure(added, || format!("diagonal parameters not added to: {a} and {b}"))?;
    }
    Ok(())
}
