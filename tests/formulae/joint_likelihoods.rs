//! Likelihoods with several latent functions: against an independent 50-digit computation, the test
//! kit, and extremes.

use serde_json::Value;
use sparsegp::likelihood::testkit::check_likelihood;
use sparsegp::likelihood::{
    BetaPrecise, Expectation, GammaShaped, GaussianHeteroskedastic, Likelihood, Marginal,
    NegativeBinomialDispersed, Observation, Row, Slopes, Softmax, StudentTHeteroskedastic, ZeroAltered,
};
use sparsegp::quadrature::Integrator;
use sparsegp_testkit::reference::*;

fn family(name: &str, params: &Value) -> Box<dyn Likelihood> {
    let alpha = || number(&params["alpha"]);
    match name {
        "softmax_3" => Box::new(Softmax::new(3)),
        "softmax_6" => Box::new(Softmax::new(6)),
        "gaussian_heteroskedastic" => Box::new(GaussianHeteroskedastic::new()),
        "student_t_heteroskedastic" => Box::new(StudentTHeteroskedastic::new()),
        "zero_inflated_poisson" => Box::new(ZeroAltered::inflated_poisson()),
        "zero_inflated_negative_binomial" => Box::new(ZeroAltered::inflated_negative_binomial(alpha())),
        "hurdle_poisson" => Box::new(ZeroAltered::hurdle_poisson()),
        "negative_binomial_dispersed" => Box::new(NegativeBinomialDispersed::new()),
        "gamma_shape" => Box::new(GammaShaped::new()),
        "beta_precision" => Box::new(BetaPrecise::new()),
        other => panic!("unknown likelihood {other}"),
    }
}

fn error(got: f64, want: f64, floor: f64) -> f64 {
    let error = (got - want).abs() / want.abs().max(floor);
    if error.is_nan() { f64::INFINITY } else { error }
}

#[test]
fn expectations_agree_with_high_precision() {
    let file = load("multilatent_expectations.json");
    let mut integrator = Integrator::new(None);
    let mut failures = Vec::new();
    for case in file["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("name");
        let (inputs, outputs) = (&case["inputs"], &case["outputs"]);
        let likelihood = family(name, &inputs["params"]);
        for (of, keys) in [
            (Expectation::ExpectedLog, ["E_logp", "dE_dmu", "dE_dv", "dE_dparam"]),
            (Expectation::LogPredictive, ["log_E_p", "dlogEp_dmu", "dlogEp_dv", "dlogEp_dparam"]),
        ] {
            let (mut worst_value, mut worst_slope) = (0.0f64, 0.0f64);
            for i in 0..numbers(&inputs["y"]).len() {
                let at = Observation::of(number(&inputs["y"][i]));
                let (mu, v) = (numbers(&inputs["mu"][i]), numbers(&inputs["v"][i]));
                let c = mu.len();
                let (mut mean, mut variance, mut own) =
                    (vec![f64::NAN; c], vec![f64::NAN; c], vec![0.0; likelihood.own_len()]);
                let slopes = Slopes { mean: &mut mean, variance: &mut variance, own: &mut own };
                let marginal = Marginal { mean: &mu, variance: &v };
                let value = likelihood.expectation(of, Row::new(at, marginal), slopes, &mut integrator);
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
                for (own, key) in own.iter().zip(["alpha"]) {
                    if name.ends_with("negative_binomial") {
                        slope_off = slope_off.max(error(*own, number(&outputs[keys[3]][key][i]), 1e-3));
                    }
                }
                worst_slope = worst_slope.max(slope_off);
                if off > 1e-8 || slope_off > 1e-6 {
                    failures.push(format!("{name} {of} {} {at:?} {marginal:?}: {value} {mean:?} {variance:?}: {off:.1e} {slope_off:.1e}", inputs["tag"][i]));
                }
            }
            println!("{name} {}: value {worst_value:.1e}, slopes {worst_slope:.1e}", keys[0]);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn kit(likelihood: &dyn Likelihood, targets: &[f64], exposure: f64) {
    let observations: Vec<Observation> = targets.iter().map(|&y| Observation::exposed(y, exposure)).collect();
    if let Err(why) = check_likelihood(likelihood, &observations) {
        panic!("{}: {why}", likelihood.name());
    }
}

#[test]
fn softmax_keeps_its_contract() {
    kit(&Softmax::new(2), &[0.0, 1.0], 1.0);
    kit(&Softmax::new(3), &[0.0, 1.0, 2.0], 1.0);
}

/// Coarse integrals of classes have their documented accuracy for narrow, wide and mixed marginals.
#[test]
fn coarse_integrals_are_close_to_exact_ones() {
    let softmax = Softmax::new(4);
    let mut worst = [0.0_f64; 3];
    for mean in [[0.0, 0.0, 0.0, 0.0], [1.3, -0.4, 2.2, -3.0], [9.0, -6.0, 0.5, 8.0]] {
        for spread in [1e-6_f64, 1e-4, 0.01, 0.1, 0.5, 1.0, 3.0, 30.0, 300.0] {
            let variance = [spread, 0.3 * spread, 2.0 * spread, spread.min(0.2)];
            let at = |coarse: bool| {
                let (mut by_mean, mut by_variance) = ([0.0; 4], [0.0; 4]);
                let slopes = Slopes { mean: &mut by_mean, variance: &mut by_variance, own: &mut [] };
                let mut tools = Integrator::new(None).coarsely(coarse);
                let marginal = Marginal { mean: &mean, variance: &variance };
                let row = Row::new(Observation::of(1.0), marginal);
                let value = softmax.expectation(Expectation::ExpectedLog, row, slopes, &mut tools);
                (value, by_mean, by_variance)
            };
            let (exact, coarse) = (at(false), at(true));
            worst[0] = worst[0].max((exact.0 - coarse.0).abs() / (1.0 + spread.sqrt()));
            for c in 0..4 {
                worst[1] = worst[1].max((exact.1[c] - coarse.1[c]).abs());
                worst[2] = worst[2].max((exact.2[c] - coarse.2[c]).abs());
            }
        }
    }
    // The first and second derivatives multiply the errors of the nodes by 2π/(2 STEP) = 9 and by
    // its square.
    assert!(worst[0] < 2e-6 && worst[1] < 1e-5 && worst[2] < 1e-4, "{worst:?}");
    assert!(worst[0] > 1e-12, "coarse integrals are not coarse: {worst:?}");
}

#[test]
fn heteroskedastic_noise_keeps_its_contract() {
    kit(&GaussianHeteroskedastic::new(), &[-1.3, 0.4, 2.5], 1.0);
    kit(&StudentTHeteroskedastic::new(), &[-1.3, 0.4, 2.5], 1.0);
}

#[test]
fn shapes_keep_their_contract() {
    kit(&GammaShaped::new(), &[0.2, 1.1, 4.0], 1.0);
}

#[test]
fn precisions_keep_their_contract() {
    kit(&BetaPrecise::new(), &[0.1, 0.5, 0.93], 1.0);
}

#[test]
fn dispersions_keep_their_contract() {
    kit(&NegativeBinomialDispersed::new(), &[0.0, 1.0, 3.0, 8.0], 1.0);
    kit(&NegativeBinomialDispersed::new(), &[0.0, 4.0], 2.5);
}

#[test]
fn zero_inflation_keeps_its_contract() {
    kit(&ZeroAltered::inflated_poisson(), &[0.0, 1.0, 4.0], 1.0);
    kit(&ZeroAltered::inflated_poisson(), &[0.0, 5.0], 2.5);
    kit(&ZeroAltered::inflated_negative_binomial(0.7), &[0.0, 2.0, 7.0], 1.6);
}

#[test]
fn hurdles_keep_their_contract() {
    kit(&ZeroAltered::hurdle_poisson(), &[0.0, 1.0, 4.0], 1.0);
    kit(&ZeroAltered::hurdle_poisson(), &[0.0, 5.0], 2.5);
    kit(&ZeroAltered::hurdle_negative_binomial(0.7), &[0.0, 1.0, 2.0, 7.0], 1.6);
}
