//! A kernel from outside: its adjoint by the test kit, its name in a grammar, its options, its place in compositions.

use faer::{Mat, MatMut, MatRef};
use sparsegp_kernels::testkit::{check_kernel, check_kernel_in};
use sparsegp_kernels::{
    Entry, Gradient, Grammar, Inputs, Kernel, NameError, Parameter, Scratch, Transform, value_names,
};

/// `variance · Σ_d (1 + Δ_d²/ℓ²)⁻ⁿ / D`: an additive kernel of inverse multiquadrics, positive definite for every power n.
#[derive(Clone, Debug)]
struct Additive {
    power: u32,
    variance: Parameter,
    lengthscale: Parameter,
}

impl Additive {
    const ENTRY: Entry = Entry {
        names: &["additive", "imq"],
        flags: &[],
        arguments: &["power"],
        parameters: &["variance", "lengthscale"],
        build: |options| {
            let power = options.integer("power", 1, 1..=4)?;
            if options.dims() == 0 {
                return Err(options.refusal("power", "'additive' needs a column"));
            }
            Ok(Box::new(Additive {
                power,
                variance: Parameter::positive("variance", vec![1.0]),
                lengthscale: Parameter::new(
                    "lengthscale",
                    vec![1.0],
                    Transform::Bounded { lower: 0.0, upper: 50.0 },
                ),
            }))
        },
    };

    fn base(&self, difference: f64) -> f64 {
        1.0 + (difference / self.lengthscale.at(0)).powi(2)
    }

    fn value(&self, x: MatRef<'_, f64>, i: usize, z: MatRef<'_, f64>, j: usize) -> f64 {
        let terms = (0..x.ncols()).map(|d| self.base(x[(i, d)] - z[(j, d)]).powi(-(self.power as i32)));
        self.variance.at(0) * terms.sum::<f64>() / x.ncols() as f64
    }
}

impl Kernel for Additive {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, _: &mut Scratch) {
        let (x, z) = inputs.sides();
        for j in 0..z.nrows() {
            for i in 0..x.nrows() {
                out[(i, j)] = self.value(x, i, z, j);
            }
        }
    }

    fn adjoint(
        &self,
        inputs: Inputs<'_>,
        k: MatRef<'_, f64>,
        kbar: MatRef<'_, f64>,
        grad: Gradient<'_>,
        _: &mut Scratch,
    ) {
        let Gradient { parameters, mut left, mut right } = grad;
        let (x, z) = inputs.sides();
        let (variance, length) = (self.variance.at(0), self.lengthscale.at(0));
        for j in 0..z.nrows() {
            for i in 0..x.nrows() {
                if let Some(slot) = parameters.first_mut() {
                    *slot += kbar[(i, j)] * k[(i, j)] / variance;
                }
                for d in 0..x.ncols() {
                    let u = (x[(i, d)] - z[(j, d)]) / length;
                    let slope = self.base(u * length).powi(-(self.power as i32) - 1);
                    let bar = -2.0 * f64::from(self.power) * variance / x.ncols() as f64 * slope * u / length
                        * kbar[(i, j)];
                    if let Some(slot) = parameters.get_mut(1) {
                        *slot -= bar * u;
                    }
                    if let Some(left) = &mut left {
                        left[(i, d)] += bar;
                    }
                    let other = if matches!(inputs, Inputs::Gram(_)) { &mut left } else { &mut right };
                    if let Some(other) = other {
                        other[(j, d)] -= bar;
                    }
                }
            }
        }
    }

    fn diag(&self, _: MatRef<'_, f64>, out: &mut [f64], _: &mut Scratch) {
        out.fill(self.variance.at(0));
    }

    fn diag_adjoint(&self, _: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, _: &mut Scratch) {
        if let Some(slot) = grad.parameters.first_mut() {
            *slot += kbar.iter().sum::<f64>();
        }
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.variance);
        visit(&self.lengthscale);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.variance);
        visit(&mut self.lengthscale);
    }

    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        self.variance.start(|_| target_variance);
        self.lengthscale.start_from_spread(spread, |s, _| s);
    }

    fn expression(&self) -> String {
        format!("additive(power={})", self.power)
    }

    fn min_dims(&self) -> usize {
        0
    }

    fn boxed_clone(&self) -> Box<dyn Kernel> {
        Box::new(self.clone())
    }
}

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
        "additive(power=1)",
        "additive(power=3)",
        "rbf(ard) * additive(power=2) + additive(power=1)[1:3]",
        "scale(additive(power=2) + white)",
    ] {
        let mut kernel = grammar().parse(text, 3).unwrap_or_else(|error| panic!("{text}: {error}"));
        kernel.initialise(&[0.8; 3], 1.3);
        // Its name means nothing to the default grammar, which is no fault of the kernel.
        for verdict in [
            check_kernel(kernel.as_ref(), left.as_ref(), right.as_ref()),
            check_kernel_in(&grammar(), kernel.as_ref(), left.as_ref(), right.as_ref()),
        ] {
            verdict.unwrap_or_else(|violation| panic!("{text}: {violation}"));
        }
        let unknown = check_kernel_in(&Grammar::default(), kernel.as_ref(), left.as_ref(), right.as_ref());
        assert!(unknown.is_err_and(|violation| violation.contains("'additive' is not known")));
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
    assert_eq!(free("linear * imq"), ["linear.variance", "additive.lengthscale"]);
    let kernel = grammar().parse("additive(power=2, lengthscale=3)", 1).expect("a kernel");
    assert_eq!(kernel.expression(), "additive(power=2)");
    for (text, column, part) in [
        ("rbf + additive(power=9)", 16, "'power' is a whole number from 1 to 4"),
        ("additive(ard)", 10, "has no option 'ard'; expected one of power, variance, lengthscale"),
        ("additive(lengthscale=60)", 10, "'lengthscale' must be between 0 and 50, not 60"),
        ("additve", 1, "white, additive, scale(...) or (...)"),
    ] {
        let error = grammar().parse(text, 2).expect_err(text);
        assert!(error.column == column && error.message.contains(part), "{text}: {error}");
    }
}

#[test]
fn names_are_words_and_given_once() {
    for (names, why) in [
        (&["additive", "rq"][..], NameError::Taken("rq".to_owned())),
        (&["scale"], NameError::Taken("scale".to_owned())),
        (&["two words"], NameError::Malformed("two words".to_owned())),
        (&["2nd"], NameError::Malformed("2nd".to_owned())),
        (&[], NameError::Malformed(String::new())),
    ] {
        let refused = Grammar::default().with(Entry { names, ..Additive::ENTRY });
        assert_eq!(refused.err(), Some(why));
    }
}
