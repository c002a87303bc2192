//! Likelihoods with several latent functions: the numbers of an independent 50-digit computation, the test kit, and extremes.

#[path = "../kernels/tests/support/mod.rs"]
mod support;

use serde_json::Value;
use sparsegp::likelihood::Observation;
use sparsegp::likelihood::joint::{JointIntegrator, JointLikelihood, Marginal, Slopes, Softmax};
use support::*;

fn family(name: &str, params: &Value) -> Option<Box<dyn JointLikelihood>> {
    let _ = params;
    Some(match name {
        "softmax_3" => Box::new(Softmax::new(3)),
        "softmax_6" => Box::new(Softmax::new(6)),
        _ => return None,
    })
}

fn error(got: f64, want: f64, floor: f64) -> f64 {
    let error = (got - want).abs() / want.abs().max(floor);
    if error.is_nan() { f64::INFINITY } else { error }
}

#[test]
fn expectations_agree_with_high_precision() {
    let file = load("multilatent_expectations.json");
    let mut integrator = JointIntegrator::new(None);
    let mut failures = Vec::new();
    for case in file["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("name");
        let (inputs, outputs) = (&case["inputs"], &case["outputs"]);
        let Some(likelihood) = family(name, &inputs["params"]) else { continue };
        for predictive in [false, true] {
            let keys = if predictive {
                ["log_E_p", "dlogEp_dmu", "dlogEp_dv", "dlogEp_dparam"]
            } else {
                ["E_logp", "dE_dmu", "dE_dv", "dE_dparam"]
            };
            let (mut worst_value, mut worst_slope) = (0.0f64, 0.0f64);
            for i in 0..numbers(&inputs["y"]).len() {
                let at = Observation::of(number(&inputs["y"][i]));
                let (mu, v) = (numbers(&inputs["mu"][i]), numbers(&inputs["v"][i]));
                let c = mu.len();
                let (mut mean, mut variance, mut own) =
                    (vec![f64::NAN; c], vec![f64::NAN; c], vec![0.0; likelihood.own_len()]);
                let slopes = Slopes { mean: &mut mean, variance: &mut variance, own: &mut own };
                let marginal = Marginal { mean: &mu, variance: &v };
                let value = if predictive {
                    likelihood.log_predictive(at, marginal, slopes, &mut integrator)
                } else {
                    likelihood.expected_log_density(at, marginal, slopes, &mut integrator)
                };
                let off = error(value, number(&outputs[keys[0]][i]), 1e-3);
                worst_value = worst_value.max(off);
                let mut slope_off = 0.0f64;
                for (got, key) in [(&mean, keys[1]), (&variance, keys[2])] {
                    let want = numbers(&outputs[key][i]);
                    let scale = want.iter().fold(0.0f64, |a, b| a.max(b.abs())).max(1e-3);
                    for (got, want) in got.iter().zip(&want) {
                        slope_off = slope_off.max(error(*got, *want, 1e-3 * scale));
                    }
                }
                worst_slope = worst_slope.max(slope_off);
                if off > 1e-8 || slope_off > 1e-6 {
                    failures.push(format!("{name} {predictive} {} {at:?} {marginal:?}: {value} {mean:?} {variance:?}: {off:.1e} {slope_off:.1e}", inputs["tag"][i]));
                }
            }
            println!("{name} {}: value {worst_value:.1e}, slopes {worst_slope:.1e}", keys[0]);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
