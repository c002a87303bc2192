//! The reference grid of expectations over N(f; μ, v), with its extreme cells, for every likelihood.

use serde_json::Value;
use sparsegp::likelihood::{
    BernoulliLogit, BernoulliProbit, BetaLogit, BetaProbit, Expectation, Exponential, Gamma, Gaussian,
    LatentMarginal, LatentRow, NegativeBinomial, Observation, OneFunction, Ordinal, PoissonExp,
    PoissonSoftplus, Row, StudentT, TargetKind,
};
use sparsegp::quadrature::Integrator;
use sparsegp_testkit::reference::*;

/// The relative tolerances of closed forms and of quadrature; for smaller numbers, errors are
/// relative to `FLOOR`.
const CLOSED: f64 = 1e-9;
const QUADRATURE: f64 = 1e-8;
const FLOOR: f64 = 1e-3;

/// One case of the reference file.
struct Case {
    likelihood: Box<dyn OneFunction>,
    /// True if `E log p` and `log E p`, respectively, have a closed form.
    closed: [bool; 2],
    /// The names of the likelihood's parameters in the reference, in the order of this crate,
    /// without the edges of an ordinal likelihood.
    names: &'static [&'static str],
}

fn case(name: &str, params: &Value) -> Case {
    let value = |key: &str| number(&params[key]);
    let (likelihood, closed, names): (Box<dyn OneFunction>, [bool; 2], &[&str]) = match name {
        "gaussian" => (Box::new(Gaussian::new(value("variance"))), [true, true], &["variance"]),
        "bernoulli_probit" => (Box::new(BernoulliProbit), [false, true], &[]),
        "bernoulli_logit" => (Box::new(BernoulliLogit), [false, false], &[]),
        "student_t" => (Box::new(StudentT::new(value("scale"), value("df"))), [false, false], &["scale"]),
        "poisson_exp" => (Box::new(PoissonExp), [true, false], &[]),
        "poisson_softplus" => (Box::new(PoissonSoftplus), [false, false], &[]),
        "exponential_exp" => (Box::new(Exponential), [true, false], &[]),
        "gamma_exp" => (Box::new(Gamma::new(value("shape"))), [true, false], &["shape"]),
        "beta_probit" => (Box::new(BetaProbit::new(value("scale"))), [false, false], &["scale"]),
        "beta_logit" => (Box::new(BetaLogit::new(value("scale"))), [false, false], &["scale"]),
        "ordinal" => {
            let edges = numbers(&params["bin_edges"]);
            (Box::new(Ordinal::with_edges(&edges, value("sigma"))), [false, true], &["sigma"])
        }
        "negative_binomial_exp" => {
            (Box::new(NegativeBinomial::new(value("alpha"))), [false, false], &["alpha"])
        }
        other => panic!("unknown likelihood {other}"),
    };
    Case { likelihood, closed, names }
}

/// Returns the reference gradient of row `i` in the likelihood's parameters, in the order of this
/// crate.
fn own_reference(case: &Case, gradient: &Value, i: usize) -> Vec<f64> {
    let mut want: Vec<f64> = case.names.iter().map(|name| number(&gradient[*name][i])).collect();
    if case.likelihood.target_kind() == TargetKind::Ordinal {
        // Edge k is the first edge plus the gaps before edge k.
        let edges: Vec<f64> = (0..case.likelihood.levels() - 1)
            .map(|k| number(&gradient[format!("bin_edges.{k}")][i]))
            .collect();
        want.extend((0..edges.len()).map(|k| edges[k..].iter().sum::<f64>()));
    }
    want
}

fn relative_error(got: f64, want: f64) -> f64 {
    let error = (got - want).abs() / want.abs().max(FLOOR);
    if error.is_nan() { f64::INFINITY } else { error }
}

/// Returns the largest relative error over value, ∂μ, ∂v and the likelihood's parameters for one
/// row of the reference.
fn row_error(
    case: &Case,
    outputs: &Value,
    (of, i): (Expectation, usize),
    row: LatentRow,
    integrator: &mut Integrator,
) -> f64 {
    let (columns, own_column) = match of {
        Expectation::ExpectedLog => (["E_logp", "dE_dmu", "dE_dv"], "dE_dparam"),
        Expectation::LogPredictive => (["log_E_p", "dlogEp_dmu", "dlogEp_dv"], "dlogEp_dparam"),
    };
    let mut own = vec![0.0; case.likelihood.own_len()];
    let local = case.likelihood.expectation(of, row, &mut own, integrator);
    let want = columns.map(|column| number(&outputs[column][i]));
    let own_want = own_reference(case, &outputs[own_column], i);
    [local.value, local.mean, local.variance]
        .iter()
        .zip(&want)
        .chain(own.iter().zip(&own_want))
        .map(|(got, want)| relative_error(*got, *want))
        .fold(0.0, f64::max)
}

#[test]
fn expectations_agree_with_high_precision() {
    let file = load("likelihood_expectations.json");
    let cases = file["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 12);
    let mut integrator = Integrator::new(None);
    let mut failures = Vec::new();
    for reference in cases {
        let name = reference["name"].as_str().expect("name");
        let inputs = &reference["inputs"];
        let case = case(name, &inputs["params"]);
        let column = |key: &str| numbers(&inputs[key]);
        let (y, mu, v) = (column("y"), column("mu"), column("v"));
        for of in [Expectation::ExpectedLog, Expectation::LogPredictive] {
            let tolerance = if case.closed[of as usize] { CLOSED } else { QUADRATURE };
            let mut worst = 0.0f64;
            for i in 0..y.len() {
                let row = Row::new(Observation::of(y[i]), LatentMarginal::new(mu[i], v[i]));
                let error = row_error(&case, &reference["outputs"], (of, i), row, &mut integrator);
                worst = worst.max(error);
                if error > tolerance {
                    let tag = &inputs["tag"][i];
                    failures
                        .push(format!("{name} {of} {tag}: y {} μ {} v {}: {error:.1e}", y[i], mu[i], v[i]));
                }
            }
            println!("{name} {of}: {worst:.1e}");
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn fixed_nodes_agree_on_plain_cells() {
    let file = load("likelihood_expectations.json");
    let mut integrator = Integrator::new(Some(64));
    for reference in file["cases"].as_array().expect("cases") {
        let name = reference["name"].as_str().expect("name");
        let inputs = &reference["inputs"];
        let case = case(name, &inputs["params"]);
        for i in (0..numbers(&inputs["y"]).len()).filter(|i| inputs["tag"][*i] == "plain") {
            let value = |key: &str| number(&inputs[key][i]);
            for of in [Expectation::ExpectedLog, Expectation::LogPredictive] {
                let latent = LatentMarginal::new(value("mu"), value("v"));
                let row = Row::new(Observation::of(value("y")), latent);
                let error = row_error(&case, &reference["outputs"], (of, i), row, &mut integrator);
                assert!(error < 1e-6, "{name} {of} {row:?}: {error:.1e}");
            }
        }
    }
}
