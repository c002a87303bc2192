//! The modes of tuning hyper-parameters, compared with each other and with the collapsed bound.

use sparsegp::collapsed::Dataset;
use sparsegp::gradient::Batch;
use sparsegp::latent::Jitter;
use sparsegp::objective::{Estimator, Loss, Objective};
use sparsegp::training::{CollapsedObjective, VariationalModel};
use sparsegp::variational::{NaturalGradient, Parameterization, Rules, SquareRoot, UpdateRule};
use sparsegp_testkit::problems::{data, model};
use sparsegp_testkit::program::{Work, table};

/// Returns a model at the optimal q of its collapsed bound.
fn solved(
    seed: u64,
    y: &[f64],
    x: faer::MatRef<'_, f64>,
    parameterization: Parameterization,
) -> VariationalModel {
    let start = model(seed, "rbf(ard)", 2, 25, Jitter::Absolute(1e-6));
    let bound = Objective::elbo(1.0);
    let mut collapsed = CollapsedObjective::new(start, Dataset::of(x, y), bound);
    let theta = collapsed.start();
    collapsed.solve(&theta).expect("a bound");
    let (model, q) = collapsed.into_parts();
    VariationalModel::new(model, q, Objective::elbo(1.0), y.len()).with_parameterization(parameterization)
}

#[test]
fn a_rule_that_carries_the_precision_equals_a_rule_that_computes_it() {
    let (x, y) = data(4, 2, 60);
    let batch = Batch::of(x.transpose(), &y, 1.0);
    for held in [Parameterization::Sites, Parameterization::Whitened] {
        let [mut carried, mut computed] = [0; 2].map(|_| solved(4, &y, x.transpose(), held));
        let [mut rule, mut other] =
            [&carried, &computed].map(|svgp| Rules::from(NaturalGradient::new(svgp.q())));
        for _ in 0..5 {
            carried.evaluate_under(batch, true, rule.factor());
            computed.evaluate(batch, true);
            let mut natural = carried.model.natural();
            natural.iter_mut().take(3).for_each(|value| *value *= 1.1);
            assert!(carried.advance(&mut rule, 0.5, &natural).1);
            computed.update_all(&mut other, 0.5);
            assert!(computed.set_natural(&natural));
            other.restart(computed.posteriors());
            let (q, want) = (carried.q(), computed.q());
            let change = q.cov().to_dense() - want.cov().to_dense();
            // Both invert the same matrix, whose condition number is below 1e4.
            assert!(change.norm_max() < 1e-10, "{held:?}: {:e}", change.norm_max());
            for (m, w) in q.mean().iter().zip(want.mean()) {
                assert!((m - w).abs() < 1e-9 * w.abs().max(1.0), "{held:?}: {m} and {w}");
            }
        }
    }
}

#[test]
fn the_gradient_in_theta_from_samples_does_not_depend_on_the_rule_for_q() {
    let (x, y) = data(4, 2, 60);
    let batch = Batch::of(x.transpose(), &y, 1.0);
    for held in [Parameterization::Sites, Parameterization::Whitened] {
        let [price, path] =
            [Estimator::Price { samples: 20 }, Estimator::EnergyEntropy { samples: 20 }].map(|estimator| {
                let (model, q) = solved(4, &y, x.transpose(), held).into_parts();
                let objective =
                    Objective { loss: Loss::ExpectedLog(estimator), beta: 1.0, nodes: None, coarse: false };
                let rule = SquareRoot::new(&q[0]);
                let mut svgp = VariationalModel::new(model, q, objective, y.len())
                    .with_parameterization(held)
                    .with_seed(3);
                svgp.evaluate_under(batch, true, rule.factor());
                svgp.theta_gradient().to_vec()
            });
        // Both use the same samples and sum over them in the same way.
        assert_eq!(price, path, "{held:?}");
    }
}

#[test]
fn the_command_line_takes_the_modes() {
    let work = Work::new();
    for (options, hyper, optimizer) in [
        ("", "collapsed", "lbfgs"),
        ("--batch-size 30", "dual", "adam"),
        // With so few rows every step uses all rows.
        ("--likelihood student-t", "alternating", "lbfgs"),
        ("--likelihood student-t --batch-size 30", "dual", "adam"),
        ("--likelihood student-t --family diagonal", "joint", "adam"),
        ("--likelihood student-t --q-update adam", "joint", "adam"),
        ("--objective dlm-log", "joint", "lbfgs"),
        ("--objective dlm-log --batch-size 30", "joint", "adam"),
        ("--hyper joint --hyper-optimizer lbfgs", "joint", "lbfgs"),
        ("--hyper-optimizer lbfgs", "collapsed", "lbfgs"),
        ("--hyper joint", "joint", "adam"),
        ("--hyper dual", "dual", "adam"),
        ("--hyper alternating", "alternating", "lbfgs"),
        ("--hyper alternating --hyper-optimizer adam", "alternating", "adam"),
        ("--hyper collapsed", "collapsed", "lbfgs"),
        ("--objective vfe --hyper-optimizer adam --learning-rate 0.1", "collapsed", "adam"),
        ("--objective vfe --validation-fraction 0.2 --patience 3", "collapsed", "lbfgs"),
        ("--objective dlm-log --hyper alternating", "alternating", "lbfgs"),
    ] {
        let document = work.fit(options);
        assert_eq!(document["config"]["hyper"], hyper, "{options}");
        assert_eq!(document["config"]["hyper_optimizer"], optimizer, "{options}");
    }
    let rate = |rate: &str| {
        work.fit(&format!("--objective vfe --hyper-optimizer adam --learning-rate {rate}"))["fit"]["objective"].clone()
    };
    assert_ne!(rate("0.1"), rate("0.01"));
    let text = work.run("fit data.csv --target y --quiet --epochs 50 --stop-at 0.5").ok().stdout();
    // The position of the line break depends on the number of digits of the seconds.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("target_reached after") && text.contains("requested target was reached"), "{text}");
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let work = Work::with("data.csv", &table(600));
    for options in [
        "--hyper joint",
        "--hyper alternating",
        "--hyper joint --shuffle-buffer 100",
        "--objective vfe",
        "--objective fitc",
        "--objective dlm-log --estimator ups:5",
        "--likelihood student-t --q-update sr-vn",
        "--family diagonal --q-update adam --estimator reparam-ent:5",
        "--model glm --likelihood student-t",
    ] {
        let inducing = match options {
            glm if glm.contains("glm") => "",
            // Every iteration solves for q.
            "--hyper alternating" => "--inducing 20",
            _ => "--inducing 70",
        };
        let full = ["vfe", "fitc"].iter().any(|word| options.contains(word));
        let batches = if full { "" } else { "--batch-size 300" };
        let run = |threads: usize| {
            let fit =
                format!("fit data.csv --target y --quiet --epochs 3 --tolerance 0 {batches} {inducing}");
            work.run(&format!("{fit} {options} --threads {threads} --model-out m{threads}")).ok();
            work.run(&format!("predict m{threads} data.csv --out p{threads}.csv --latent")).ok();
            (work.read(&format!("p{threads}.csv")), work.run(&format!("inspect m{threads} --json")).json())
        };
        let ((one, mut first), (two, mut second)) = (run(1), run(2));
        assert_eq!(one, two, "{options}");
        for document in [&mut first, &mut second] {
            document["fit"]["seconds"] = 0.into();
            document["fit"]["seconds_per_step"] = 0.into();
            let trace = document["trace"].as_array_mut().expect("a trace");
            trace.iter_mut().for_each(|record| record["seconds"] = 0.into());
        }
        assert_eq!(first, second, "{options}");
    }
}
