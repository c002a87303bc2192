//! Reproduces the numbers of independent implementations (GPflow, GPyTorch, 50-digit quadrature) in `tests/reference`,
//! or in the folder named by SPARSEGP_REFERENCE_DIR.

mod expectations;
mod several;
mod svgp;

use crate::prelude::*;

fn columns_of(rows: &Value) -> Mat<f64> {
    matrix(rows).transpose().to_owned()
}

fn cases(file: &Value) -> &Vec<Value> {
    file["cases"].as_array().expect("cases")
}

fn assert_vector(got: &[f64], want: &Value, tolerance: f64, what: &str) {
    assert_all_close(got, &numbers(want), tolerance, what);
}

/// Returns a model with absolute jitter and all parameters free.
fn model(
    kernel: Box<dyn Kernel>,
    z: Mat<f64>,
    jitter: f64,
    likelihood: Box<dyn Likelihood>,
    mean: f64,
) -> LatentModel {
    let layer =
        InducingPrior::new(kernel, z, Jitter::Absolute(jitter)).expect("layer").with_mean(mean, false);
    let model = LatentModel::new(layer.into(), likelihood, false);
    model.factorised().expect("K_uu factorises")
}

/// Compares a flat natural gradient (kernel, mean, likelihood, Z) with `sign` times a reference gradient;
/// `own` has the derivatives in the likelihood's parameters, `None` if the reference lacks them.
fn assert_gradient(
    flat: &[f64],
    sign: f64,
    description: &Value,
    (kernel, own, z): (&Value, &[Option<f64>], &Value),
    what: &str,
) {
    let paths = paths(description, "");
    let count: usize = paths.iter().map(|p| numbers(&kernel[p]).len()).sum();
    let signed: Vec<f64> = flat.iter().map(|g| sign * g).collect();
    assert_parameters(&signed[..count], kernel, &paths, what);
    for (k, want) in own.iter().enumerate() {
        if let Some(want) = want {
            let at = format!("{what}, likelihood parameter {k}");
            assert_close(signed[count + 1 + k], *want, GRADIENT_TOLERANCE, &at);
        }
    }
    let got = &signed[count + 1 + own.len()..];
    assert_all_close(got, &entries(matrix(z).as_ref()), GRADIENT_TOLERANCE, &format!("{what}, Z"));
}

/// Checks predictions, the joint covariance and q(u) of a posterior against a reference block, which may lack some.
fn assert_posterior(model: &LatentModel, q: &Normal, file: &Value, want: &Value, what: &str) {
    let (x, y) = (columns_of(&file["inputs"]["X_test"]), numbers(&file["inputs"]["y_test"]));
    let posterior = Posterior::new(model, q);
    let marginals = posterior.marginals(x.transpose());
    let likelihood = posterior.likelihood().one().expect("one function");
    let mut integrator = Integrator::default();
    let at = |i: usize| LatentMarginal::new(marginals.mean[i], marginals.variance[i]);
    let moments = (0..y.len()).map(|i| Row::new(Observation::of(1.0), at(i)));
    let moments = moments.map(|row| likelihood.predictive_moments(row, &mut integrator));
    let (mean, variance): (Vec<f64>, Vec<f64>) = moments.unzip();
    let density = (0..y.len())
        .map(|i| Row::new(Observation::of(y[i]), at(i)))
        .map(|row| likelihood.expectation(Expectation::LogPredictive, row, &mut [], &mut integrator).value);
    let density: Vec<f64> = density.collect();
    let l = model.layer().inducing().expect("inducing points").factor();
    let of_u = l * faer::ColRef::from_slice(q.mean());
    let of_u: Vec<f64> = of_u.iter().copied().collect();
    let optional = |key: &str| !["predict_f_mean", "predict_f_var", "qu_mean", "qu_cov"].contains(&key);
    let wanted = |key: &&str| !(optional(key) && want[*key].is_null());
    for (key, got) in [
        ("predict_f_mean", &marginals.mean[..]),
        ("predict_f_mean", &posterior.means(x.transpose())),
        ("predict_f_var", &marginals.variance),
        ("predict_y_mean", &mean),
        ("predict_y_var", &variance),
        ("predict_log_density", &density),
        ("qu_mean_whitened", q.mean()),
        ("qu_mean", &of_u),
    ] {
        if wanted(&key) {
            assert_vector(got, &want[key], VALUE_TOLERANCE, &format!("{what} {key}"));
        }
    }
    for (key, got) in [
        ("predict_f_cov", posterior.covariance(x.transpose())),
        ("qu_cov_whitened", q.cov().full().to_owned()),
        ("qu_cov", l * q.cov().full() * l.transpose()),
    ] {
        if wanted(&key) {
            assert_matrix(&got, &want[key], VALUE_TOLERANCE, &format!("{what} {key}"));
        }
    }
}

#[test]
fn collapsed_bounds_and_their_posteriors() {
    let file = load("sgpr.json");
    let shared = &file["inputs"];
    let (x, y) = (columns_of(&shared["X"]), numbers(&shared["y"]));
    let data = Dataset::of(x.transpose(), &y);
    for case in cases(&file) {
        let (name, inputs, outputs) = (&case["name"], &case["inputs"], &case["outputs"]);
        let description = &inputs["kernel"];
        let start = || {
            let z = matrix(&shared["Z"]);
            let (noise, mean) = (number(&inputs["noise_variance"]), number(&inputs["mean_constant"]));
            model(build(description), z, number(&shared["jitter"]), Box::new(Gaussian::new(noise)), mean)
        };
        let check_gradient = |flat: &[f64], sign: f64, want: &Value, what: &str| {
            let noise = [Some(number(&want["noise_variance"]))];
            assert_gradient(flat, sign, description, (&want["kernel"], &noise, &want["Z"]), what);
        };
        let check = |bound: Objective, sign: f64, want: &Value, [value, slopes]: [&str; 2]| {
            let what = format!("{name} {value}, β = {}", bound.beta);
            let mut objective = CollapsedObjective::new(start(), data, bound);
            let (got, flat) = objective.natural_gradient().expect("a bound");
            assert_close(sign * got, number(&want[value]), VALUE_TOLERANCE, &what);
            check_gradient(&flat, sign, &want[slopes], &what);
            assert_posterior(objective.model(), objective.q(), &file, want, &what);
            objective
        };
        let mut vfe = check(Objective::elbo(1.0), -1.0, &outputs["sgpr"], ["elbo", "grad_elbo"]);
        let upper = vfe.evidence_upper_bound().expect("upper bound");
        let (want, what) = (&outputs["sgpr"], format!("{name} upper bound"));
        assert_close(upper, number(&want["upper_bound"]), VALUE_TOLERANCE, &what);
        check_gradient(&upper_bound_slopes(&start(), data), 1.0, &want["grad_upper_bound"], &what);
        check(Objective::fitc(), -1.0, &outputs["fitc"], ["log_marginal", "grad_log_marginal"]);
        for want in outputs["beta_elbo"].as_array().expect("beta_elbo") {
            let bound = Objective::elbo(number(&want["beta"]));
            let objective = check(bound, 1.0, want, ["objective", "grad_objective"]);
            assert_close(objective.q().kl(), number(&want["kl"]), VALUE_TOLERANCE, &format!("{name} kl"));
        }
    }
}

/// The evidence of the exact GP is the collapsed bound with Z = X and no jitter (the gradient is at fixed Z). It is computed from the whole
/// kernel matrix if the inducing inputs stay there.
#[test]
fn exact_gp_by_inducing_every_datum() {
    let file = load("sgpr.json");
    let shared = &file["inputs"];
    let (x, y) = (columns_of(&shared["X"]), numbers(&shared["y"]));
    let data = Dataset::of(x.transpose(), &y);
    for (case, fixed) in cases(&file).iter().flat_map(|case| [(case, false), (case, true)]) {
        let (inputs, want) = (&case["inputs"], &case["outputs"]["gpr"]);
        let what = format!("{} gpr, fixed: {fixed}", case["name"]);
        let (noise, mean) = (number(&inputs["noise_variance"]), number(&inputs["mean_constant"]));
        // A jitter of 1e-12 changes K_uu by less than the tolerance.
        let jitter = if fixed { Jitter::EXACT } else { Jitter::Absolute(1e-12) };
        let layer =
            InducingPrior::new(build(&inputs["kernel"]), matrix(&shared["X"]), jitter).expect("layer");
        let start = LatentModel::new(layer.with_mean(mean, false).into(), Gaussian::new(noise), fixed);
        let start = start.factorised().expect("K_uu factorises");
        let mut exact = CollapsedObjective::new(start, data, Objective::elbo(1.0));
        let (value, _) = exact.natural_gradient().expect("bound");
        assert_close(-value, number(&want["log_marginal"]), VALUE_TOLERANCE, &what);
        let x_test = columns_of(&shared["X_test"]);
        let posterior = Posterior::new(exact.model(), exact.q());
        let marginals = posterior.marginals(x_test.transpose());
        assert_vector(&marginals.mean, &want["predict_f_mean"], VALUE_TOLERANCE, &what);
        assert_vector(&marginals.variance, &want["predict_f_var"], VALUE_TOLERANCE, &what);
        let cov = posterior.covariance(x_test.transpose());
        assert_matrix(&cov, &want["predict_f_cov"], VALUE_TOLERANCE, &what);
    }
}

/// Returns the derivatives of the upper bound in the natural parameters, by differences of fourth order.
fn upper_bound_slopes(start: &LatentModel, data: Dataset<'_>) -> Vec<f64> {
    let natural = start.natural();
    let at = |i: usize, step: f64| {
        let (mut model, mut moved) = (start.clone(), natural.clone());
        moved[i] += step;
        model.set_natural(&moved).expect("a factor");
        CollapsedObjective::new(model, data, Objective::elbo(1.0)).evidence_upper_bound().expect("a bound")
    };
    let slope = |i: usize| {
        let h = 1e-3 * natural[i].abs().max(0.1);
        (8.0 * (at(i, h) - at(i, -h)) - (at(i, 2.0 * h) - at(i, -2.0 * h))) / (12.0 * h)
    };
    (0..natural.len()).map(slope).collect()
}

/// The Bayesian linear model uses the same collapsed code and the same rule as a sparse GP.
#[test]
fn bayesian_linear_regression() {
    let file = load("blr.json");
    for case in cases(&file) {
        let (name, inputs, want) = (&case["name"], &case["inputs"], &case["outputs"]);
        let (x, y) = (columns_of(&inputs["X"]), numbers(&inputs["y"]));
        let noise = number(&inputs["noise_variance"]);
        let prior = matrix(&inputs["prior_cov"]);
        let layer = LinearLayer::new(prior.as_ref()).expect("prior");
        let start = LatentModel::new(layer.clone().into(), Gaussian::new(noise), true);
        let start = start.factorised().expect("nothing to factorise");
        let data = Dataset::of(x.transpose(), &y);
        let mut bound = CollapsedObjective::new(start.clone(), data, Objective::elbo(1.0));
        let value = bound.solve(&bound.start()).expect("evidence");
        let evidence = number(&want["log_evidence"]);
        assert_close(-value, evidence, VALUE_TOLERANCE, &format!("{name} evidence"));
        let (mean, cov) = layer.coefficient_posterior(bound.q());
        assert_vector(&mean, &want["posterior_mean"], VALUE_TOLERANCE, &format!("{name} mean"));
        assert_matrix(&cov, &want["posterior_cov"], VALUE_TOLERANCE, &format!("{name} cov"));
        for (key, full) in [("ngd_minibatch_step", false), ("ngd_full_step", true)] {
            let (mean, cov) = linear_step(&layer, start.clone(), inputs, (&x, &y), full);
            let what = format!("{name} {key}");
            assert_vector(&mean, &want[key]["mean"], VALUE_TOLERANCE, &what);
            assert_matrix(&cov, &want[key]["cov"], VALUE_TOLERANCE, &what);
        }
    }
}

/// Takes one natural-gradient step on the linear model, on the batch of the case or on all data.
fn linear_step(
    layer: &LinearLayer,
    start: LatentModel,
    inputs: &Value,
    (x, y): (&Mat<f64>, &[f64]),
    full: bool,
) -> (Vec<f64>, Mat<f64>) {
    let rows: Vec<usize> = if full {
        (0..y.len()).collect()
    } else {
        numbers(&inputs["batch_indices"]).into_iter().map(|i| i as usize).collect()
    };
    let batch_x = Mat::from_fn(x.nrows(), rows.len(), |i, j| x[(i, rows[j])]);
    let batch_y: Vec<f64> = rows.iter().map(|&r| y[r]).collect();
    // β = L_P w, so w has mean L_P⁻¹ E β and covariance L_P⁻¹ Cov β L_P⁻ᵀ.
    let prior = matrix(&inputs["prior_cov"]);
    let lower = prior.llt(faer::Side::Lower).expect("prior").L().to_owned();
    let to_w = lower.transpose() * inverse((&lower * lower.transpose()).as_ref());
    let mean = &to_w * faer::Col::from_fn(x.nrows(), |i| numbers(&inputs["q_mean"])[i]);
    let cov = &to_w * matrix(&inputs["q_cov"]) * to_w.transpose();
    let q = Normal::new(mean.iter().copied().collect(), cov).expect("q");
    let mut rule = NaturalGradient::new(&q);
    let mut svgp = VariationalModel::new(start, q, Objective::elbo(1.0), rows.len());
    let scale = y.len() as f64 / rows.len() as f64;
    svgp.evaluate(Batch::of(batch_x.transpose(), &batch_y, scale), false);
    assert_eq!(svgp.update_q(&mut rule, number(&inputs["rho"])).rollbacks, 0);
    layer.coefficient_posterior(svgp.q())
}
