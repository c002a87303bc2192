//! The modes of tuning hyper-parameters, compared with each other and with the collapsed bound.

use faer::MatRef;
use sparsegp::collapsed::Dataset;
use sparsegp::gradient::Batch;
use sparsegp::latent::Jitter;
use sparsegp::objective::{Estimator, Loss, Objective};
use sparsegp::training::{CollapsedObjective, VariationalModel};
use sparsegp::variational::{NaturalGradient, Parameterization, Rules, SquareRoot, UpdateRule};
use sparsegp_testkit::problems::{data, model};
use sparsegp_testkit::program::{Work, table, without_seconds};

/// Returns a model of 60 rows at the optimal q of its collapsed bound.
fn solved(x: MatRef<'_, f64>, y: &[f64], parameterization: Parameterization) -> VariationalModel {
    let start = model(4, "rbf(ard)", 2, 25, Jitter::Absolute(1e-6));
    let mut collapsed = CollapsedObjective::new(start, Dataset::of(x, y), Objective::elbo(1.0));
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
        let [mut carried, mut computed] = [0; 2].map(|_| solved(x.transpose(), &y, held));
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
        let estimators = [Estimator::Price { samples: 20 }, Estimator::EnergyEntropy { samples: 20 }];
        let [price, path] = estimators.map(|estimator| {
            let (model, q) = solved(x.transpose(), &y, held).into_parts();
            let objective = Objective { loss: Loss::ExpectedLog(estimator), ..Objective::elbo(1.0) };
            let rule = SquareRoot::new(&q[0]);
            let svgp = VariationalModel::new(model, q, objective, y.len());
            let mut svgp = svgp.with_parameterization(held).with_seed(3);
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
        let config = &work.fit(options)["config"];
        assert_eq!(
            (&config["hyper"], &config["hyper_optimizer"]),
            (&hyper.into(), &optimizer.into()),
            "{options}"
        );
    }
    let vfe = "--objective vfe --hyper-optimizer adam --learning-rate";
    let [fast, slow] =
        ["0.1", "0.01"].map(|rate| work.fit(&format!("{vfe} {rate}"))["fit"]["objective"].clone());
    assert_ne!(fast, slow);
    let words = ["target_reached after", "requested target was reached"];
    work.prints("fit data.csv --target y --quiet --epochs 50 --stop-at 0.5", &words);
}

#[test]
fn one_and_two_threads_give_the_same_bits() {
    let work = Work::with("data.csv", table(600));
    for options in [
        "--batch-size 300 --inducing 70 --hyper joint",
        // Every iteration solves for q.
        "--batch-size 300 --inducing 20 --hyper alternating",
        "--batch-size 300 --inducing 70 --hyper joint --shuffle-buffer 100",
        "--inducing 70 --objective vfe",
        "--inducing 70 --objective fitc",
        "--batch-size 300 --inducing 70 --objective dlm-log --estimator ups:5",
        "--batch-size 300 --inducing 70 --likelihood student-t --q-update sr-vn",
        "--batch-size 300 --inducing 70 --family diagonal --q-update adam --estimator reparam-ent:5",
        "--batch-size 300 --model glm --likelihood student-t",
    ] {
        let [one, two] = [1, 2].map(|threads| {
            work.quick_fit(&format!("data.csv --target y {options} --threads {threads} --model-out m"));
            let document = without_seconds(work.run("inspect m --json").json());
            (work.text("predict m data.csv --out - --latent"), document)
        });
        assert_eq!(one, two, "{options}");
    }
}
