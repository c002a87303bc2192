//! Reference numbers of stochastic variational GPs with every likelihood: ELBO, log-loss DLM, natural gradients.

use super::expectations::{assert_losses, likelihood, own_gradient};
use super::{assert_gradient, assert_vector, cases, columns_of, model};
use crate::prelude::*;

/// The tolerance for expectations by quadrature; closed forms have the tighter `VALUE_TOLERANCE`.
const QUADRATURE_TOLERANCE: f64 = 1e-8;

/// Returns the reference gradient in the parameters of a model's likelihood.
fn own_slopes(model: &LatentModel, reference: &Value) -> Vec<Option<f64>> {
    own_gradient(&*model.likelihood, &|name| match name.strip_prefix("bin_edges.") {
        Some(k) => reference.get("bin_edges")?.get(k.parse::<usize>().expect("a place")).map(number),
        None => reference.get(name).map(number),
    })
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

/// A case of a reference file: rows, model and whitened posterior.
struct Start<'a> {
    case: &'a Value,
    kernel: &'a Value,
    x: Mat<f64>,
    y: Vec<f64>,
    model: LatentModel,
    q: Normal,
}

impl<'a> Start<'a> {
    fn new(shared: &'a Value, case: &'a Value) -> Start<'a> {
        let (inputs, kernel) = (&case["inputs"], &shared["kernel"]);
        let (z, jitter) = (matrix(&shared["Z"]), number(&shared["jitter"]));
        let likelihood = likelihood(inputs["likelihood"].as_str().expect("name"), &inputs["params"]);
        let model = model(build(kernel), z, jitter, likelihood, 0.0);
        let q = whitened_q(model.layer(), inputs);
        Start { case, kernel, x: columns_of(&shared["X"]), y: numbers(&inputs["y"]), model, q }
    }

    fn svgp(&self, objective: Objective) -> VariationalModel {
        VariationalModel::new(self.model.clone(), self.q.clone(), objective, self.y.len())
    }

    fn batch(&self, scale: f64) -> Batch<'_> {
        Batch::of(self.x.transpose(), &self.y, scale)
    }

    /// Compares `sign` times the value and the gradients with a reference in both forms of the products, which have to reproduce
    /// everything; `own` is the gradient in the parameters of the likelihood.
    fn check(&self, objective: Objective, scale: f64, sign: f64, want: f64, (slopes, own): (&Value, &Value)) {
        let (inputs, outputs) = (&self.case["inputs"], &self.case["outputs"]);
        for guard in [None, Some(f64::INFINITY)] {
            let mut svgp = self.svgp(objective).with_direct_guard(guard);
            let value = svgp.evaluate(self.batch(scale), true);
            let what = format!("{} {objective:?}, scale {scale}, {:?}", self.case["name"], svgp.form());
            assert_close(sign * value, want, QUADRATURE_TOLERANCE, &what);
            let (mu, v) = svgp.last_marginals(self.y.len());
            assert_vector(&mu, &outputs["f_mean"], VALUE_TOLERANCE, &what);
            assert_vector(&v, &outputs["f_var"], VALUE_TOLERANCE, &what);
            assert_close(svgp.q().kl(), number(&outputs["kl"]), VALUE_TOLERANCE, &what);
            let parts = (&slopes["kernel"], &own_slopes(&svgp.model, own)[..], &slopes["Z"]);
            let theta = theta_gradient(&mut svgp, inputs, objective.beta);
            assert_gradient(&theta, sign, self.kernel, parts, &what);
            let (mean, factor) = factor_gradient(&svgp, inputs, objective.beta);
            let mean: Vec<f64> = mean.iter().map(|g| sign * g).collect();
            assert_vector(&mean, &slopes["q_mu"], GRADIENT_TOLERANCE, &what);
            assert_matrix(&(sign * factor), &slopes["q_sqrt"], GRADIENT_TOLERANCE, &what);
        }
    }
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
    for case in cases(&file) {
        let (start, want) = (Start::new(&file["inputs"], case), &case["outputs"]);
        let scale = number(&file["inputs"]["num_data"]) / start.y.len() as f64;
        for (key, scale) in [("elbo", 1.0), ("elbo_minibatch", scale)] {
            let gradient = (&want[format!("grad_{key}")], &want[format!("grad_{key}_likelihood")]);
            start.check(Objective::elbo(1.0), scale, -1.0, number(&want[key]), gradient);
        }
        let name = case["name"].to_string();
        assert_losses(&*start.model.likelihood, false, &start.y, want, QUADRATURE_TOLERANCE, &name);
    }
}

#[test]
fn log_loss_dlm() {
    let file = load("dlm.json");
    for case in cases(&file).iter().filter(|case| case["name"] != "square_loss") {
        let (start, want) = (Start::new(&file["inputs"], case), &case["outputs"]);
        for objective in want["objective"].as_array().expect("objectives") {
            let beta = number(&objective["beta"]);
            // The gradient is that of the losses and β times that of the KL divergence.
            let gradient = weighted(&want["grad_loss_sum"], &want["grad_kl"], beta);
            let gradient = (&gradient, &want["grad_loss_sum_likelihood"]);
            start.check(Objective::dlm(beta), 1.0, 1.0, number(&objective["value"]), gradient);
        }
        let name = case["name"].to_string();
        assert_losses(&*start.model.likelihood, true, &start.y, want, QUADRATURE_TOLERANCE, &name);
    }
}

/// Returns `a + beta·b` of two JSON values with the same layout.
pub fn weighted(a: &Value, b: &Value, beta: f64) -> Value {
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
    for case in cases(&file) {
        let (name, inputs, want) = (&case["name"], &case["inputs"], &case["outputs"]);
        let start = Start::new(&file["inputs"], case);
        let (mut rule, mut svgp) = (NaturalGradient::new(&start.q), start.svgp(Objective::elbo(1.0)));
        let batch = start.batch(number(&inputs["num_data"]) / start.y.len() as f64);
        let elbo = -svgp.evaluate(batch, false);
        assert_close(elbo, number(&want["elbo_start"]), QUADRATURE_TOLERANCE, &format!("{name} start"));
        for step in 0..number(&inputs["steps"]) as usize {
            let info = svgp.update_q(&mut rule, number(&inputs["gamma"]));
            assert_eq!(info.rollbacks, 0, "{name}");
            let what = format!("{name} step {step}");
            let (mut mean, mut cov) =
                (faer::ColRef::from_slice(svgp.q().mean()).to_owned(), svgp.q().cov().full().to_owned());
            if inputs["whiten"] != true {
                let l = svgp.model.layer().inducing().expect("inducing points").factor();
                (mean, cov) = (l * mean, l * cov * l.transpose());
            }
            let mean: Vec<f64> = mean.iter().copied().collect();
            assert_vector(&mean, &want["q_mu"][step], QUADRATURE_TOLERANCE, &what);
            let sqrt = matrix(&want["q_sqrt"][step]);
            let want_cov = &sqrt * sqrt.transpose();
            assert_matrices_close(cov.as_ref(), want_cov.as_ref(), QUADRATURE_TOLERANCE, &what);
            let elbo = -svgp.evaluate(batch, false);
            assert_close(elbo, numbers(&want["elbo"])[step], QUADRATURE_TOLERANCE, &what);
        }
    }
}
