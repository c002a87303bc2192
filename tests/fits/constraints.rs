//! Priors, bounds, ties and fixed values in whole fits: against finite differences, equivalent
//! models and the fitted values.

use super::common::fit_columns as fit;
use super::common::*;

/// Reads constraints from lines such as `fix kernel.variance=2`.
fn constraints(lines: &str) -> Constraints {
    let mut out = Constraints::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (option, text) = line.split_once(' ').expect("an option and its text");
        match option {
            "fix" => out.fix.push(text.parse().expect(text)),
            "bounds" => out.bounds.push(text.parse().expect(text)),
            "prior" => out.prior.push(text.parse().expect(text)),
            "tie" => out.tie.push(text.parse().expect(text)),
            _ => panic!("{option}"),
        }
    }
    out
}

fn options(objective: ObjectiveKind, lines: &str) -> FitOptions {
    FitOptions {
        objective,
        constraints: constraints(lines),
        default_priors: false,
        tolerance: Some(0.0),
        steps: batches_of(100),
        ..small(15, 30)
    }
}

fn value(fitted: &Fitted, name: &str) -> f64 {
    let named = fitted.model.named_values().into_iter().find(|(n, _)| n == name);
    named.unwrap_or_else(|| panic!("{name}")).1
}

const PRIORS: [&str; 5] =
    ["lognormal(0.3,0.8)", "gamma(2.5,1.4)", "normal(0.8,0.6)", "halfcauchy(0.7)", "none"];
const BOUNDS: [&str; 4] = ["", "0.01,", ",20", "0.02,30"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The free parameters of a solver, with every kind of prior and range on lengthscales and
    /// mean, and with tied variances.
    #[test]
    fn the_penalised_objective(seed in 0u64..1000, prior in 0..PRIORS.len(), bounds in 0..BOUNDS.len(), mean in 0..5usize) {
        let (x, y) = data(seed, 2, 23);
        let mut lines = format!("prior *.lengthscales={}\ntie *.variance\n", PRIORS[prior]);
        if mean < 4 {
            lines += &format!("prior mean.constant=normal(0.2,{})\n", 0.5 + seed as f64 / 500.0);
        }
        if !BOUNDS[bounds].is_empty() {
            lines += &format!("bounds *.lengthscales={}\n", BOUNDS[bounds]);
        }
        lines += ["", "bounds mean.constant=,2", "bounds mean.constant=-4,", "bounds mean.constant=-2,3", "fix mean.constant"][mean];
        let mut start = model(seed, "rbf(ard) + matern52", 2, 6, Jitter::Relative(1e-6)).to_prior();
        start.constrain(&constraints(&lines), false).expect("constraints");
        let start = start.factorised().expect("K_uu factorises");
        let count = start.natural().len();
        let set = Dataset::of(x.transpose(), &y);
        let mut objective = CollapsedObjective::new(start, set, Objective::elbo(1.0));
        let theta = objective.start();
        prop_assert_eq!(theta.len() + 1 + usize::from(mean == 4), count, "two variances are one number");
        check_objective(&mut objective, &theta, seed)?;
    }

    /// Every free number maps into the range, and a value that rounding moves to an end of the
    /// range can still be packed.
    #[test]
    fn bounds_hold_for_every_free_number(u in -1e4f64..1e4, lower in -3.0f64..3.0, width in 1e-6f64..5.0, kind in 0..3) {
        let upper = lower + width;
        let transform = match kind {
            0 => Transform::Positive { lower },
            1 => Transform::Below { upper },
            _ => Transform::Bounded { lower, upper },
        };
        let descriptor =
            Descriptor { name: "a".into(), role: (Role::Other, 0), transform, prior: None, fixed: false, tie: None, unit: 1.0 };
        let free = FreeVector::new(&[descriptor]);
        let mut natural = [f64::NAN];
        free.unpack(&[u], &mut natural);
        prop_assume!(natural[0].is_finite());
        let (low, high) = transform.range();
        prop_assert!(natural[0] >= low && natural[0] <= high, "{transform:?} at {u}: {}", natural[0]);
        prop_assert!(free.pack(&natural)[0].is_finite());
    }
}

#[test]
fn tied_lengthscales_are_those_of_the_kernel_that_shares_one() {
    let (x, y) = data(1, 2, 150);
    for (objective, tolerance) in [(ObjectiveKind::Vfe, 1e-4), (ObjectiveKind::Elbo, 1e-4)] {
        for priors in [false, true] {
            let shared = FitOptions {
                kernel: "rbf".into(),
                default_priors: priors,
                epochs: Some(100),
                ..options(objective, "")
            };
            let tied = FitOptions {
                kernel: "rbf(ard)".into(),
                constraints: constraints("tie kernel.lengthscales"),
                ..shared.clone()
            };
            let (shared, tied) = (fit(&x, &y, &shared).expect("fit"), fit(&x, &y, &tied).expect("fit"));
            let length = value(&shared, "kernel.lengthscales");
            let both = (value(&tied, "kernel.lengthscales.0"), value(&tied, "kernel.lengthscales.1"));
            assert_eq!(both.0, both.1);
            assert!((both.0 / length - 1.0).abs() < 1e3 * tolerance, "{objective}: {both:?} {length}");
            let gap = tied.summary.objective - shared.summary.objective;
            assert!(gap.abs() < tolerance, "{objective}: {gap}");
        }
    }
}

#[test]
fn the_trace_has_the_reported_objective_and_the_penalty_of_priors() {
    let (x, y) = data(4, 2, 120);
    use ObjectiveKind::*;
    for (objective, hyper) in [
        (Vfe, None),
        (Fitc, None),
        (DlmSquare, None),
        (Elbo, Some(Hyper::Alternating)),
        (Elbo, None),
        (DlmLog, None),
    ] {
        let options =
            FitOptions { hyper, ..options(objective, "prior kernel.lengthscales=lognormal(1.6,1)") };
        let fitted = fit(&x, &y, &options).expect("fit");
        let last = fitted.summary.trace.last().expect("an epoch");
        let prior: Prior = "lognormal(1.6,1)".parse().expect("a prior");
        let names = ["kernel.lengthscales.0", "kernel.lengthscales.1"];
        let terms: f64 = names.iter().map(|name| -prior.log_density(value(&fitted, name)).0 / 120.0).sum();
        // With mini-batches the record of an epoch is a mean over steps, each of which changes a
        // logarithm by up to 0.01.
        let solved = !matches!((objective, hyper), (Elbo | DlmLog, None));
        // At an optimum the objective, with its rounding errors of 1e-14, determines parameters to their root, and the lowest of the last
        // points is kept. There, the direct form of the last step also loses up to ε cond(K_uu)/100 of a variance.
        let (near, kept) = if hyper == Some(Hyper::Alternating) { (1e-8, 1e-7) } else { (1e-9, 1e-9) };
        let (near, prior_near) = if solved { (near, kept) } else { (0.5, 1e-3) };
        assert!((last.prior_terms - terms).abs() < prior_near, "{objective}: {} {terms}", last.prior_terms);
        let (seen, reported) = (last.objective, fitted.summary.objective);
        assert!((seen - reported).abs() < near * (1.0 + reported.abs()), "{objective}: {seen} {reported}");
    }
}

#[test]
fn a_prior_moves_a_fit_that_continues_from_another() {
    let (x, y) = data(5, 2, 150);
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Elbo, ObjectiveKind::DlmLog] {
        let first = fit(&x, &y, &options(objective, "")).expect("fit");
        let more = options(objective, "prior kernel.lengthscales=lognormal(2.3,0.02)\nfix kernel.variance");
        let more = FitOptions { epochs: Some(150), learning_rate: 0.05, ..more };
        let start = Start { model: first.model.clone(), q: None };
        let data = TrainingData::of(Dataset::of(x.transpose(), &y));
        let second = fit_arrays(data, &more, Some(&start), &mut |_| {}).expect("fit");
        assert_eq!(value(&second, "kernel.variance"), value(&first, "kernel.variance"), "fixed where it was");
        // With the prior, the objective without priors is worse at the end, which must not undo the fit.
        assert!(second.summary.objective > first.summary.objective, "{objective}");
        let length = value(&second, "kernel.lengthscales.0");
        assert!((length / 2.3f64.exp() - 1.0).abs() < 0.2, "{objective}: {length}");
    }
}

#[test]
fn weak_priors_apply_to_stationary_lengthscales_and_can_be_disabled() {
    let weak = |kernel: &str| model(7, kernel, 3, 5, Jitter::Relative(1e-6)).weak_priors();
    let median = |prior: Prior| match prior {
        Prior::LogNormal { mu, sigma } => (mu - sigma * sigma).exp(),
        other => panic!("{other:?}"),
    };
    let named = weak("rbf(ard) + periodic[0] * matern52[1] + linear");
    let names: Vec<&str> = named.iter().map(|(name, _)| &name[..]).collect();
    let lengths = ["kernel.rbf.lengthscales.0", "kernel.rbf.lengthscales.1", "kernel.rbf.lengthscales.2"];
    assert_eq!(names, [&lengths[..], &["kernel.matern52.lengthscales"]].concat());
    // The mode of the logarithm is the starting value: √D for the D inputs that the kernel sees.
    assert!((median(named[0].1) - 3f64.sqrt()).abs() < 1e-12 && (median(named[3].1) - 1.0).abs() < 1e-12);
    let (x, y) = data(7, 3, 60);
    let prior = |options: &FitOptions| {
        let fitted = fit(&x, &y, options).expect("fit");
        let descriptors = fitted.model.descriptors();
        descriptors.into_iter().find(|d| d.name == "kernel.lengthscales.0").expect("a lengthscale").prior
    };
    let on = FitOptions { default_priors: true, ..options(ObjectiveKind::Vfe, "") };
    assert!(prior(&on).is_some());
    assert_eq!(prior(&FitOptions { standardize: false, ..on.clone() }), None);
    assert_eq!(prior(&FitOptions { constraints: constraints("prior *.lengthscales=none"), ..on }), None);
    assert_eq!(prior(&options(ObjectiveKind::Vfe, "")), None);
}

/// A model whose first value is its variance.
fn constrained() -> LatentPrior {
    model(3, "rbf(ard)", 2, 4, Jitter::Relative(1e-6)).to_prior()
}

#[test]
fn repeated_bounds_leave_values_on_their_edge() {
    let (mut model, bounds) = (constrained(), constraints("bounds kernel.variance=1,2"));
    for (start, end) in [(1.0, 1.1), (2.0, 2.0)] {
        let mut natural = model.natural();
        natural[0] = start;
        model.set_natural(&natural);
        model.constrain(&bounds, false).expect("constraints");
        assert_eq!(model.natural()[0], end);
    }
}

#[test]
fn invalid_constraints_are_refused_with_the_names() {
    let refused =
        |lines: &str| constrained().constrain(&constraints(lines), false).expect_err("an invalid constraint");
    for (lines, words) in [
        ("fix kernel.nothing=1", "no hyper-parameter 'kernel.nothing'"),
        ("fix inducing.0.0=1", "no hyper-parameter 'inducing.0.0'"),
        ("fix kernel.variance=-1", "outside the range of kernel.variance, which is above 0"),
        ("bounds kernel.variance=-2,-1", "the bounds leave no value for kernel.variance, which is above 0"),
        ("bounds kernel.variance=2,3\nfix kernel.variance=4", "between 2 and 3"),
        ("prior mean.constant=gamma(1,1)", "may be negative"),
        ("tie kernel.variance", "only one such value"),
        ("tie kernel.variance,mean.constant", "above 0, and any number"),
        ("fix kernel.lengthscales.0=1\ntie *.lengthscales", "only one of them is fixed"),
    ] {
        let error = refused(lines).to_string();
        assert!(error.contains(words), "{lines}: {error}");
    }
    let names = "the names are kernel.variance, kernel.lengthscales.0 to .1, mean.constant, likelihood.noise_variance";
    assert_eq!(refused("fix x=1").advice().as_deref(), Some(names));
}
