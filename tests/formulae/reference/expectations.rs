//! Likelihoods of the reference files, and their expectations over N(f; μ, v): of one and of several functions, with extreme cells.

use crate::prelude::*;

/// Returns the likelihood of a name in the reference files, with its parameters.
pub fn likelihood(name: &str, params: &Value) -> Box<dyn Likelihood> {
    let word = match name {
        "gamma_shape" => "gamma-shaped".to_owned(),
        "beta_precision" => "beta-precise".to_owned(),
        name if name.starts_with("softmax") => "softmax".to_owned(),
        name => name.trim_end_matches("_exp").replace('_', "-"),
    };
    let edges = params.get("bin_edges").map(numbers).unwrap_or_default();
    let levels = params.get("C").map_or(edges.len() + 1, |classes| number(classes) as usize);
    let mut built = word.parse::<LikelihoodKind>().expect(name).build(levels);
    built.for_each_parameter_mut(&mut |p| {
        p.fixed = false;
        match p.name.as_str() {
            "noise_variance" => p.values = vec![number(&params["variance"])],
            "first_edge" => p.values = vec![edges[0]],
            "gaps" => p.values = edges.windows(2).map(|e| e[1] - e[0]).collect(),
            "scale" if !edges.is_empty() => p.values = vec![number(&params["sigma"])],
            other => params.get(other).into_iter().for_each(|value| p.values = vec![number(value)]),
        }
    });
    built
}

/// Returns the reference gradient in the likelihood's parameters, in the order of this crate, from the derivatives by name;
/// `None` for parameters that it lacks.
pub fn own_gradient(likelihood: &dyn Likelihood, of: &dyn Fn(&str) -> Option<f64>) -> Vec<Option<f64>> {
    let edges: Vec<f64> = (0..).map_while(|k| of(&format!("bin_edges.{k}"))).collect();
    let mut own = Vec::new();
    likelihood.for_each_parameter(&mut |p| match p.name.as_str() {
        // edge_k = first + gap_1 + … + gap_k.
        "first_edge" => own.push(Some(edges.iter().sum())),
        "gaps" => own.extend((1..edges.len()).map(|k| Some(edges[k..].iter().sum()))),
        "scale" if !edges.is_empty() => own.push(of("sigma")),
        "noise_variance" => own.push(of("variance")),
        name => own.push(of(name)),
    });
    own
}

/// Compares the losses of rows at the reference marginals, with their slopes within a tolerance.
pub fn assert_losses(
    likelihood: &dyn Likelihood,
    predictive: bool,
    y: &[f64],
    want: &Value,
    tolerance: f64,
    what: &str,
) {
    let (keys, sign) = match predictive {
        true => (["loss_i", "dloss_dmu", "dloss_dv"], -1.0),
        false => (["var_exp", "dvarexp_dmu", "dvarexp_dv"], 1.0),
    };
    let mut integrator = Integrator::default();
    for (i, y) in y.iter().enumerate() {
        let (mu, v) = (numbers(&want["f_mean"][i]), numbers(&want["f_var"][i]));
        let found = joint_expectation(
            likelihood,
            predictive,
            Observation::of(*y),
            Marginal { mean: &mu, variance: &v },
            &mut integrator,
        );
        let what = format!("{what} row {i}");
        assert_close(sign * found.value, number(&want[keys[0]][i]), 1e-8, &what);
        for (got, key) in [(found.mean, keys[1]), (found.variance, keys[2])] {
            let got: Vec<f64> = got.iter().map(|slope| sign * slope).collect();
            assert_all_close(&got, &numbers(&want[key][i]), tolerance, &what);
        }
    }
}

/// Returns the largest relative errors of the value and of the slopes of a row; smaller numbers than a thousandth count as such.
fn errors(
    likelihood: &dyn Likelihood,
    case: &Value,
    (predictive, i): (bool, usize),
    integrator: &mut Integrator,
) -> [f64; 2] {
    let keys = match predictive {
        true => ["log_E_p", "dlogEp_dmu", "dlogEp_dv", "dlogEp_dparam"],
        false => ["E_logp", "dE_dmu", "dE_dv", "dE_dparam"],
    };
    let (inputs, outputs) = (&case["inputs"], &case["outputs"]);
    let (mu, v) = (numbers(&inputs["mu"][i]), numbers(&inputs["v"][i]));
    let found = joint_expectation(
        likelihood,
        predictive,
        Observation::of(number(&inputs["y"][i])),
        Marginal { mean: &mu, variance: &v },
        integrator,
    );
    let relative = |got: f64, want: f64, scale: f64| {
        let error = (got - want).abs() / want.abs().max(1e-3 * scale);
        if error.is_nan() { f64::INFINITY } else { error }
    };
    let mut slopes = Vec::new();
    for (got, key) in [(&found.mean, keys[1]), (&found.variance, keys[2])] {
        let want = numbers(&outputs[key][i]);
        let largest = want.iter().fold(1e-3f64, |most, want| most.max(want.abs()));
        let scale = if mu.len() == 1 { 1.0 } else { largest };
        slopes.extend(got.iter().zip(want).map(|(got, want)| relative(*got, want, scale)));
    }
    let own = own_gradient(likelihood, &|name| outputs[keys[3]].get(name).map(|column| number(&column[i])));
    let own = found.own.iter().zip(own).filter_map(|(got, want)| Some(relative(*got, want?, 1.0)));
    let worst = slopes.into_iter().chain(own).fold(0.0, f64::max);
    [relative(found.value, number(&outputs[keys[0]][i]), 1.0), worst]
}

/// Checks the rows of a file with a tag, or all rows, against tolerances of values and slopes.
fn check(
    file: &str,
    tag: Option<&str>,
    nodes: Option<usize>,
    tolerances: impl Fn(&str, bool) -> [f64; 2],
) -> usize {
    let (file, mut integrator, mut failures) = (load(file), Integrator::new(nodes), Vec::new());
    let cases = file["cases"].as_array().expect("cases");
    for case in cases {
        let (name, inputs) = (case["name"].as_str().expect("name"), &case["inputs"]);
        let likelihood = likelihood(name, &inputs["params"]);
        for predictive in [false, true] {
            let (tolerances, mut worst) = (tolerances(name, predictive), [0.0f64; 2]);
            let rows = 0..numbers(&inputs["y"]).len();
            for i in rows.filter(|i| tag.is_none_or(|tag| inputs["tag"][*i] == tag)) {
                let found = errors(&*likelihood, case, (predictive, i), &mut integrator);
                worst = [worst[0].max(found[0]), worst[1].max(found[1])];
                if found[0] > tolerances[0] || found[1] > tolerances[1] {
                    let at = ["tag", "y", "mu", "v"].map(|key| inputs[key][i].to_string());
                    failures.push(format!(
                        "{name}, predictive {predictive}, {at:?}: {:.1e} {:.1e}",
                        found[0], found[1]
                    ));
                }
            }
            println!("{name}, predictive {predictive}: {:.1e} {:.1e}", worst[0], worst[1]);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    cases.len()
}

#[test]
fn expectations_agree_with_high_precision() {
    let closed = |name: &str, predictive: bool| match name {
        "gaussian" => true,
        "bernoulli_probit" | "ordinal" => predictive,
        "poisson_exp" | "exponential_exp" | "gamma_exp" => !predictive,
        _ => false,
    };
    let tolerances = |name: &str, predictive| if closed(name, predictive) { [1e-9; 2] } else { [1e-8; 2] };
    assert_eq!(check("likelihood_expectations.json", None, None, tolerances), 12);
    assert_eq!(check("multilatent_expectations.json", None, None, |_, _| [1e-8, 1e-6]), 10);
}

#[test]
fn fixed_nodes_agree_on_plain_cells() {
    check("likelihood_expectations.json", Some("plain"), Some(64), |_, _| [1e-6; 2]);
}
