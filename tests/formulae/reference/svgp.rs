//! Reference numbers of stochastic variational GPs with every likelihood: ELBO, log-loss DLM, natural gradients.

use super::{assert_gradient, assert_vector, cases, columns_of, inverse, model};
use faer::Mat;
use serde_json::Value;
use sparsegp::gradient::{Batch, BatchPass, Form, Problem};
use sparsegp::latent::{Layer, LayerScratch, Layers, LinearLayer};
use sparsegp::likelihood::{
    BernoulliLogit, Expectation, LatentMarginal, Likelihood, LikelihoodKind, Observation, OneFunction, Row,
};
use sparsegp::model::{LatentModel, Posterior};
use sparsegp::objective::Objective;
use sparsegp::quadrature::Integrator;
use sparsegp::training::{CollapsedObjective, VariationalModel};
use sparsegp::variational::{Family, NaturalGradient, Normal, UpdateRule};
use sparsegp_testkit::reference::*;

/// The tolerance for expectations by quadrature; closed forms have the tighter `VALUE_TOLERANCE`.
const QUADRATURE_TOLERANCE: f64 = 1e-8;

/// Returns the likelihood of a case, with its parameters.
fn likelihood(inputs: &Value) -> Box<dyn Likelihood> {
    let name = inputs["likelihood"].as_str().expect("name");
    let word = match name {
        "poisson_exp" => "poisson".to_owned(),
        "exponential_exp" => "exponential".to_owned(),
        "gamma_exp" => "gamma".to_owned(),
        "negative_binomial_exp" => "negative-binomial".to_owned(),
        other => other.replace('_', "-"),
    };
    let params = &inputs["params"];
    let edges = params["bin_edges"].as_array().map_or(0, Vec::len);
    let mut built = word.parse::<LikelihoodKind>().expect(name).build(edges + 1);
    built.for_each_parameter_mut(&mut |p| {
        p.fixed = false;
        p.values = match p.name.as_str() {
            "noise_variance" => vec![number(&params["variance"])],
            "first_edge" => vec![numbers(&params["bin_edges"])[0]],
            "gaps" => numbers(&params["bin_edges"]).windows(2).map(|e| e[1] - e[0]).collect(),
            "scale" if edges > 0 => vec![number(&params["sigma"])],
            other => vec![number(&params[other])],
        };
    });
    built
}

/// Returns the likelihood of a model with one function.
fn one(model: &LatentModel) -> &dyn OneFunction {
    model.likelihood.one().expect("one function")
}

/// Returns the reference gradient in the likelihood's parameters, in the order of this crate;
/// `None` for parameters that it lacks.
fn own_gradient(likelihood: &dyn OneFunction, reference: &Value) -> Vec<Option<f64>> {
    let edges = reference.get("bin_edges").map(numbers);
    let mut own = Vec::new();
    likelihood.for_each_parameter(&mut |p| match (p.name.as_str(), &edges) {
        // edge_k = first + gap_1 + … + gap_k.
        ("first_edge", Some(edges)) => own.push(Some(edges.iter().sum())),
        ("gaps", Some(edges)) => own.extend((1..edges.len()).map(|k| Some(edges[k..].iter().sum()))),
        ("scale", Some(_)) => own.push(Some(number(&reference["sigma"]))),
        ("noise_variance", _) => own.push(Some(number(&reference["variance"]))),
        (name, _) => own.push(reference.get(name).map(number)),
    });
    own
}

/// Returns q(w) from `q_mu` and `q_sqrt`, which describe u instead of w if `whiten` is false.
fn whitened_q(layer: &Layer, inputs: &Value) -> Normal {
    let (mu, sqrt) = (numbers(&inputs["q_mu"]), matrix(&inputs["q_sqrt"]));
    let cov = &sqrt * sqrt.transpose();
    if inputs["whiten"] == true {
        return Normal::new(mu, cov).expect("q");
    }
    let linv = layer.whitening().expect("whitening").matrix;
    let mean = linv * faer::ColRef::from_slice(&mu);
    let mean = (0..mean.nrows()).map(|i| mean[i]).collect();
    Normal::new(mean, linv * cov * linv.transpose()).expect("q")
}

/// Returns targets, model and whitened posterior of a case.
fn start(shared: &Value, inputs: &Value) -> (Vec<f64>, LatentModel, Normal) {
    let (z, jitter) = (matrix(&shared["Z"]), number(&shared["jitter"]));
    let start = model(build(&shared["kernel"]), z, jitter, likelihood(inputs), 0.0);
    let q = whitened_q(start.layer(), inputs);
    (numbers(&inputs["y"]), start, q)
}

/// Returns `∇_m F` and `∇_S F` in whitened coordinates, including the KL term.
fn whitened_gradient(svgp: &VariationalModel, beta: f64) -> (faer::Col<f64>, Mat<f64>) {
    let (data, q, m) = (svgp.q_gradient(), svgp.q(), svgp.q().dim());
    let precision = inverse(q.cov().full());
    let mean = faer::Col::from_fn(m, |i| data.mean[i] + beta * q.mean()[i]);
    let cov = Mat::from_fn(m, m, |i, j| {
        data.cov.full()[(i, j)] + 0.5 * beta * (if i == j { 1.0 } else { 0.0 } - precision[(i, j)])
    });
    (mean, cov)
}

/// Returns the gradient in θ and Z. If the reference holds q(u) fixed, `m = L⁻¹m_u` and
/// `S = L⁻¹S_uL⁻ᵀ` move with L, so `∇_m F mᵀ + 2 ∇_S F S` is added to the adjoint of the whitening.
fn theta_gradient(svgp: &mut VariationalModel, inputs: &Value, beta: f64) -> Vec<f64> {
    let mut gradient = svgp.theta_gradient().to_vec();
    if inputs["whiten"] != true {
        let (mean, cov) = whitened_gradient(svgp, beta);
        let (model, q) = (&svgp.model, svgp.q());
        let mut g = mean * faer::ColRef::from_slice(q.mean()).transpose() + 2.0 * cov * q.cov().full();
        let (mut through, mut flat) = (model.layer().zero_gradient(), Vec::new());
        model.layer().whitening_adjoint(g.as_mut(), &mut through, &mut LayerScratch::new(q.dim()));
        model.flatten_gradient(&[through], &vec![0.0; model.likelihood.own_len()], &mut flat);
        gradient.iter_mut().zip(flat).for_each(|(sum, part)| *sum += part);
    }
    gradient
}

/// Returns the gradient in `(q_mu, q_sqrt)` by the convention of the reference.
fn factor_gradient(svgp: &VariationalModel, inputs: &Value, beta: f64) -> (Vec<f64>, Mat<f64>) {
    let (mean, cov) = whitened_gradient(svgp, beta);
    let m = svgp.q().dim();
    let (mean, cov) = if inputs["whiten"] == true {
        (mean, cov)
    } else {
        let linv = svgp.model.layer().whitening().expect("whitening").matrix;
        (linv.transpose() * mean, linv.transpose() * cov * linv)
    };
    let sqrt = matrix(&inputs["q_sqrt"]);
    let factor = &cov * &sqrt;
    (
        (0..m).map(|i| mean[i]).collect(),
        Mat::from_fn(m, m, |i, j| if i >= j { 2.0 * factor[(i, j)] } else { 0.0 }),
    )
}

#[test]
fn svgp_elbo() {
    let file = load("svgp_elbo.json");
    let shared = &file["inputs"];
    let x = columns_of(&shared["X"]);
    for case in cases(&file) {
        let (name, inputs, want) = (&case["name"], &case["inputs"], &case["outputs"]);
        let (y, start, q) = start(shared, inputs);
        let scale = number(&shared["num_data"]) / y.len() as f64;
        for (key, scale) in [("elbo", 1.0), ("elbo_minibatch", scale)] {
            // Both forms of the products have to reproduce everything.
            for guard in [None, Some(f64::INFINITY)] {
                let mut svgp = VariationalModel::new(start.clone(), q.clone(), Objective::elbo(1.0), y.len())
                    .with_direct_guard(guard);
                let value = svgp.evaluate(Batch::of(x.transpose(), &y, scale), true);
                let what = format!("{name} {key}, {:?}", svgp.form());
                assert_close(-value, number(&want[key]), QUADRATURE_TOLERANCE, &what);
                let (mu, v) = svgp.last_marginals(y.len());
                assert_vector(&mu, &want["f_mean"], VALUE_TOLERANCE, &what);
                assert_vector(&v, &want["f_var"], VALUE_TOLERANCE, &what);
                assert_close(svgp.q().kl(), number(&want["kl"]), VALUE_TOLERANCE, &what);
                let g = &want[format!("grad_{key}")];
                let own = own_gradient(one(&start), &want[format!("grad_{key}_likelihood")]);
                let parts = (&g["kernel"], own.as_slice(), &g["Z"]);
                assert_gradient(
                    &theta_gradient(&mut svgp, inputs, 1.0),
                    -1.0,
                    &shared["kernel"],
                    parts,
                    &what,
                );
                let (mean, factor) = factor_gradient(&svgp, inputs, 1.0);
                let mean: Vec<f64> = mean.iter().map(|g| -g).collect();
                assert_vector(&mean, &g["q_mu"], GRADIENT_TOLERANCE, &what);
                assert_matrix(&(-1.0 * factor), &g["q_sqrt"], GRADIENT_TOLERANCE, &what);
            }
        }
        let (mu, v) = (numbers(&want["f_mean"]), numbers(&want["f_var"]));
        let mut integrator = Integrator::default();
        for i in 0..y.len() {
            let row = Row::new(Observation::of(y[i]), LatentMarginal::new(mu[i], v[i]));
            let local = one(&start).expectation(Expectation::ExpectedLog, row, &mut [], &mut integrator);
            let what = format!("{name} row {i}");
            assert_close(local.value, numbers(&want["var_exp"])[i], QUADRATURE_TOLERANCE, &what);
            assert_close(local.mean, numbers(&want["dvarexp_dmu"])[i], QUADRATURE_TOLERANCE, &what);
            assert_close(local.variance, numbers(&want["dvarexp_dv"])[i], QUADRATURE_TOLERANCE, &what);
        }
    }
}

#[test]
fn log_loss_dlm() {
    let file = load("dlm.json");
    let shared = &file["inputs"];
    let x = columns_of(&shared["X"]);
    for case in cases(&file).iter().filter(|case| case["name"] != "square_loss") {
        let (name, inputs, want) = (&case["name"], &case["inputs"], &case["outputs"]);
        let (y, start, q) = start(shared, inputs);
        for objective in want["objective"].as_array().expect("objectives") {
            let beta = number(&objective["beta"]);
            for guard in [None, Some(f64::INFINITY)] {
                let mut svgp = VariationalModel::new(start.clone(), q.clone(), Objective::dlm(beta), y.len())
                    .with_direct_guard(guard);
                let value = svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), true);
                let what = format!("{name} β = {beta}, {:?}", svgp.form());
                assert_close(value, number(&objective["value"]), QUADRATURE_TOLERANCE, &what);
                assert_dlm_gradient(&mut svgp, inputs, &shared["kernel"], want, beta, &what);
            }
        }
        let (mu, v) = (numbers(&want["f_mean"]), numbers(&want["f_var"]));
        let mut integrator = Integrator::default();
        for i in 0..y.len() {
            let row = Row::new(Observation::of(y[i]), LatentMarginal::new(mu[i], v[i]));
            let local = one(&start).expectation(Expectation::LogPredictive, row, &mut [], &mut integrator);
            let what = format!("{name} row {i}");
            assert_close(-local.value, numbers(&want["loss_i"])[i], QUADRATURE_TOLERANCE, &what);
            assert_close(-local.mean, numbers(&want["dloss_dmu"])[i], QUADRATURE_TOLERANCE, &what);
            assert_close(-local.variance, numbers(&want["dloss_dv"])[i], QUADRATURE_TOLERANCE, &what);
        }
    }
}

/// Checks the gradient `grad_loss_sum + β grad_kl` in every parameter.
fn assert_dlm_gradient(
    svgp: &mut VariationalModel,
    inputs: &Value,
    kernel: &Value,
    want: &Value,
    beta: f64,
    what: &str,
) {
    let (loss, kl) = (&want["grad_loss_sum"], &want["grad_kl"]);
    let own = own_gradient(one(&svgp.model), &want["grad_loss_sum_likelihood"]);
    let (kernel_sum, z) =
        (weighted(&loss["kernel"], &kl["kernel"], beta), weighted(&loss["Z"], &kl["Z"], beta));
    assert_gradient(&theta_gradient(svgp, inputs, beta), 1.0, kernel, (&kernel_sum, &own, &z), what);
    let (mean, factor) = factor_gradient(svgp, inputs, beta);
    assert_vector(&mean, &weighted(&loss["q_mu"], &kl["q_mu"], beta), GRADIENT_TOLERANCE, what);
    assert_matrix(&factor, &weighted(&loss["q_sqrt"], &kl["q_sqrt"], beta), GRADIENT_TOLERANCE, what);
}

/// Returns `a + beta·b` of two JSON values with the same layout.
fn weighted(a: &Value, b: &Value, beta: f64) -> Value {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.iter().zip(b).map(|(a, b)| weighted(a, b, beta)).collect(),
        (Value::Object(a), Value::Object(b)) => {
            Value::Object(a.iter().map(|(key, a)| (key.clone(), weighted(a, &b[key], beta))).collect())
        }
        _ => (number(a) + beta * number(b)).into(),
    }
}

#[test]
fn square_loss_dlm() {
    let file = load("dlm.json");
    let shared = &file["inputs"];
    let x = columns_of(&shared["X"]);
    let case = cases(&file).iter().find(|case| case["name"] == "square_loss").expect("the case");
    let y = numbers(&case["inputs"]["y"]);
    for want in case["outputs"]["solutions"].as_array().expect("solutions") {
        let beta = number(&want["beta"]);
        let (z, jitter) = (matrix(&shared["Z"]), number(&shared["jitter"]));
        let start = model(build(&shared["kernel"]), z, jitter, LikelihoodKind::Gaussian.build(0), 0.0);
        let data = sparsegp::collapsed::Dataset::of(x.transpose(), &y);
        let mut objective = CollapsedObjective::new(start, data, Objective::square(beta));
        let what = format!("square loss, β = {beta}");
        let (value, gradient) = objective.natural_gradient().expect("a minimum");
        assert_close(value, number(&want["objective"]), VALUE_TOLERANCE, &what);
        assert_vector(objective.q().mean(), &want["m_whitened"], VALUE_TOLERANCE, &what);
        let posterior = Posterior::new(objective.model(), objective.q());
        assert_vector(&posterior.means(x.transpose()), &want["f_mean"], VALUE_TOLERANCE, &what);
        let g = &want["grad_minimum"];
        assert_gradient(&gradient, 1.0, &shared["kernel"], (&g["kernel"], &[Some(0.0)], &g["Z"]), &what);
    }
}

#[test]
fn natural_gradients() {
    let file = load("natgrad.json");
    let shared = &file["inputs"];
    let x = columns_of(&shared["X"]);
    for case in cases(&file) {
        let (name, inputs, want) = (&case["name"], &case["inputs"], &case["outputs"]);
        let (y, start, q) = start(shared, inputs);
        let mut rule = NaturalGradient::new(&q);
        let mut svgp = VariationalModel::new(start, q, Objective::elbo(1.0), y.len());
        let batch = Batch::of(x.transpose(), &y, number(&inputs["num_data"]) / y.len() as f64);
        let elbo = -svgp.evaluate(batch, false);
        assert_close(elbo, number(&want["elbo_start"]), QUADRATURE_TOLERANCE, &format!("{name} start"));
        for step in 0..number(&inputs["steps"]) as usize {
            let info = svgp.update_q(&mut rule, number(&inputs["gamma"]));
            assert_eq!(info.rollbacks, 0, "{name}");
            let what = format!("{name} step {step}");
            let (mut mean, mut cov) = (
                faer::Col::from_fn(svgp.q().dim(), |i| svgp.q().mean()[i]),
                svgp.q().cov().full().to_owned(),
            );
            if inputs["whiten"] != true {
                let l = svgp.model.layer().inducing().expect("inducing points").factor();
                (mean, cov) = (l * mean, l * cov * l.transpose());
            }
            let mean: Vec<f64> = (0..mean.nrows()).map(|i| mean[i]).collect();
            assert_vector(&mean, &want["q_mu"][step], QUADRATURE_TOLERANCE, &what);
            let sqrt = matrix(&want["q_sqrt"][step]);
            let want_cov = &sqrt * sqrt.transpose();
            for j in 0..cov.ncols() {
                for i in 0..cov.nrows() {
                    assert_close(cov[(i, j)], want_cov[(i, j)], QUADRATURE_TOLERANCE, &what);
                }
            }
            let elbo = -svgp.evaluate(batch, false);
            assert_close(elbo, numbers(&want["elbo"])[step], QUADRATURE_TOLERANCE, &what);
        }
    }
}

/// Variational Newton for logistic regression with the linear layer, and its optimum.
#[test]
fn logistic_variational_newton() {
    let file = load("logistic_vn.json");
    let shared = &file["inputs"];
    let (x, y) = (columns_of(&shared["X"]), numbers(&shared["y"]));
    let root = number(&shared["lambda"]).sqrt();
    let d = x.nrows();
    let prior = Mat::from_fn(d, d, |i, j| if i == j { 1.0 / (root * root) } else { 0.0 });
    let linear = LinearLayer::new(prior.as_ref()).expect("prior");
    let (layer, likelihood) = (Layer::from(linear.clone()), BernoulliLogit.into());
    let objective = Objective::elbo(1.0);
    let standard = Normal::standard(Family::Full, d);
    let mut pass = BatchPass::new(Layers::one(&layer), &likelihood, objective, standard.as_ref(), y.len());
    let optimum = &cases(&file).iter().find(|case| case["name"] == "optimum").expect("optimum")["outputs"];
    for case in cases(&file).iter().filter(|case| case["inputs"]["algorithm"] == "vn") {
        let (name, inputs, want) = (&case["name"], &case["inputs"], &case["outputs"]);
        let factor = matrix(&inputs["C0"]);
        // β = w/√λ, so q(w) has mean √λ m and covariance λ S.
        let mean: Vec<f64> = numbers(&inputs["m0"]).iter().map(|m| root * m).collect();
        let mut q = Normal::new(mean, root * root * (&factor * factor.transpose())).expect("q");
        let mut rule = NaturalGradient::new(&q);
        let steps = want["m"].as_array().expect("iterates").len();
        let mut value = f64::NAN;
        // After many more iterates than are listed, q is at the optimum.
        for step in 0..200 {
            let problem = Problem::new(Layers::one(&layer), &likelihood, objective, q.as_ref());
            let data = pass.run(problem, Batch::of(x.transpose(), &y, 1.0), Form::Stable, false);
            value = data + q.kl();
            let (mean, cov) = linear.coefficient_posterior(&q);
            if step < steps {
                let what = format!("{name} iterate {step}");
                assert_close(value, numbers(&want["neg_elbo"])[step], QUADRATURE_TOLERANCE, &what);
                assert_vector(&mean, &want["m"][step], QUADRATURE_TOLERANCE, &what);
                assert_matrix(&cov, &want["S"][step], QUADRATURE_TOLERANCE, &what);
            }
            let gradient = pass.q_gradient(0);
            rule.step(&mut q, gradient, 1.0, number(&inputs["rho"]));
        }
        let (mean, cov) = linear.coefficient_posterior(&q);
        assert_close(value, number(&optimum["neg_elbo"]), QUADRATURE_TOLERANCE, "optimum");
        assert_vector(&mean, &optimum["m"], QUADRATURE_TOLERANCE, "optimal mean");
        assert_matrix(&cov, &optimum["S"], QUADRATURE_TOLERANCE, "optimal covariance");
    }
}
