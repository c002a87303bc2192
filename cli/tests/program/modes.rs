//! The modes of tuning hyper-parameters, compared with each other and with the collapsed bound.

use sparsegp::collapsed::Dataset;
use sparsegp::gradient::Batch;
use sparsegp::hyper::Event;
use sparsegp::latent::Jitter;
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::Score;
use sparsegp::objective::{Estimator, Loss, Objective, Targets};
use sparsegp::options::{FitOptions, Hyper, HyperOptimizer, ObjectiveKind, StepOptions};
use sparsegp::training::{CollapsedObjective, Fitted, TrainingData, VariationalModel, fit_arrays};
use sparsegp::variational::{NaturalGradient, Parameterization, Rules, SquareRoot, UpdateRule};
use sparsegp_testkit::problems::{Normals, data, model};
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
fn at_the_best_q_every_parameterisation_has_the_gradient_of_the_collapsed_bound() {
    for seed in 0..5 {
        let (x, y) = data(seed, 2, 60);
        let start = model(seed, "rbf(ard)", 2, 25, Jitter::Absolute(1e-6));
        let bound = Objective::elbo(1.0);
        let mut collapsed = CollapsedObjective::new(start, Dataset::of(x.transpose(), &y), bound);
        let (value, gradient) = collapsed.natural_gradient().expect("a bound");
        for held in [Parameterization::Whitened, Parameterization::Sites] {
            let mut svgp = solved(seed, &y, x.transpose(), held);
            let own = svgp.evaluate(Batch::of(x.transpose(), &y, 1.0), true);
            assert!((own - value).abs() < 1e-9 * value.abs(), "{held:?}: {own} and {value}");
            let largest = gradient.iter().fold(0.0f64, |a, g| a.max(g.abs()));
            for (g, c) in svgp.theta_gradient().iter().zip(&gradient) {
                assert!((g - c).abs() < 1e-8 * largest, "{held:?}: {g} and {c}");
            }
        }
    }
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

/// Returns inputs and targets that suit a likelihood.
fn problem(kind: LikelihoodKind) -> (faer::Mat<f64>, Vec<f64>) {
    let (x, f) = data(3, 2, 90);
    let mut normals = Normals::new(9);
    let y = f.iter().map(|f| match kind {
        LikelihoodKind::Poisson => (f.exp() + 0.3 * normals.next()).round().max(0.0),
        _ => *f,
    });
    let y = y.collect();
    (x, y)
}

fn fit(kind: LikelihoodKind, options: &FitOptions) -> Fitted {
    let (x, y) = problem(kind);
    let options = FitOptions {
        likelihood: Some(kind),
        inducing: Some(10),
        warm_start: 0,
        steps: StepOptions { batch_size: 45, ..options.steps.clone() },
        ..options.clone()
    };
    let train = Dataset { x: x.transpose(), targets: Targets::of(&y) };
    fit_arrays(TrainingData::of(train), &options, None, &mut |_: &Event| {}).expect("a fit")
}

#[test]
fn alternating_solves_the_same_problem_as_the_collapsed_bound() {
    let options = FitOptions { epochs: Some(60), tolerance: Some(0.0), ..FitOptions::default() };
    let collapsed =
        fit(LikelihoodKind::Gaussian, &FitOptions { hyper: Some(Hyper::Collapsed), ..options.clone() });
    let vfe = fit(LikelihoodKind::Gaussian, &FitOptions { objective: ObjectiveKind::Vfe, ..options.clone() });
    assert_eq!(collapsed.summary.objective, vfe.summary.objective);
    let alternating =
        fit(LikelihoodKind::Gaussian, &FitOptions { hyper: Some(Hyper::Alternating), ..options });
    let (found, best) = (alternating.summary.objective, vfe.summary.objective);
    assert!((found - best).abs() < 1e-3, "{found} and {best} nats per datum: {:?}", alternating.summary);
}

#[test]
fn every_mode_improves_on_fixed_hyper_parameters() {
    let modes = [
        (Hyper::Joint, HyperOptimizer::Adam),
        (Hyper::Dual, HyperOptimizer::Adam),
        (Hyper::Alternating, HyperOptimizer::Adam),
        (Hyper::Alternating, HyperOptimizer::Lbfgs),
        (Hyper::Collapsed, HyperOptimizer::Adam),
        (Hyper::Collapsed, HyperOptimizer::Lbfgs),
    ];
    for kind in [LikelihoodKind::Gaussian, LikelihoodKind::Poisson] {
        let base = FitOptions { epochs: Some(40), learning_rate: 0.05, ..FitOptions::default() };
        let fixed = fit(kind, &FitOptions { hyper: Some(Hyper::Fixed), ..base.clone() }).summary.objective;
        let allowed =
            modes.iter().filter(|(hyper, _)| kind == LikelihoodKind::Gaussian || *hyper != Hyper::Collapsed);
        for &(hyper, optimizer) in allowed {
            let options = FitOptions { hyper: Some(hyper), hyper_optimizer: Some(optimizer), ..base.clone() };
            let fitted = fit(kind, &options);
            let found = fitted.summary.objective;
            assert!(found < fixed - 0.01, "{kind} {hyper} {optimizer}: {found}, fixed {fixed}");
            assert_eq!(fitted.summary.trace.len(), fitted.summary.epochs);
        }
    }
}

#[test]
fn the_best_validated_parameters_of_full_batch_searches_are_kept() {
    let (x, y) = problem(LikelihoodKind::Gaussian);
    let validation = Dataset { x: x.transpose().subrows(60, 30), targets: Targets::of(&y[60..]) };
    let train = Dataset { x: x.transpose().subrows(0, 60), targets: Targets::of(&y[..60]) };
    for hyper in [Hyper::Collapsed, Hyper::Alternating] {
        let options = FitOptions {
            hyper: Some(hyper),
            inducing: Some(25),
            epochs: Some(60),
            tolerance: Some(0.0),
            patience: 8,
            ..FitOptions::default()
        };
        let data = TrainingData { train, validation: Some(validation), levels: 0 };
        let fitted = fit_arrays(data, &options, None, &mut |_| {}).expect("a fit");
        let scores: Vec<f64> =
            fitted.summary.trace.iter().map(|r| r.validation_nll.expect("a score")).collect();
        let best = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let kept = fitted.posterior.score(validation, Score::LogLoss);
        assert!((kept - best).abs() < 1e-9, "{hyper}: kept {kept}, best {best}, last {:?}", scores.last());
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
        ("--objective dlm-log", "joint", "adam"),
        ("--hyper dual", "dual", "adam"),
        ("--hyper alternating --hyper-optimizer adam", "alternating", "adam"),
        ("--objective vfe --hyper-optimizer adam --learning-rate 0.1", "collapsed", "adam"),
        ("--objective dlm-log --hyper alternating", "alternating", "lbfgs"),
    ] {
        let document = work.fit(options);
        assert_eq!(document["config"]["hyper"], hyper, "{options}");
        assert_eq!(document["config"]["hyper_optimizer"], optimizer, "{options}");
    }
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
