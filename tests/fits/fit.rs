//! Whole fits on small data: mini-batches against the collapsed bound, options, difficult data,
//! diagnosis.

use faer::Mat;
use sparsegp::ErrorKind;
use sparsegp::collapsed::Dataset;
use sparsegp::data::BatchPlan;
use sparsegp::hyper::{Constraints, Event};
use sparsegp::latent::Jitter;
use sparsegp::objective::Objective;
use sparsegp::options::{FitOptions, Hyper, MeanKind, ObjectiveKind, StepOptions};
use sparsegp::training::{Fitted, Inference, InferenceOptions, Start, TrainingData, fit_arrays};
use sparsegp::variational::{Family, Normal, QUpdate, Schedule};
use sparsegp_testkit::problems::{Normals, data};

fn fit(x: &Mat<f64>, y: &[f64], options: &FitOptions) -> sparsegp::Result<Fitted> {
    let data = TrainingData::of(Dataset::of(x.transpose(), y));
    fit_arrays(data, options, None, &mut |_| {})
}

fn options(objective: ObjectiveKind) -> FitOptions {
    FitOptions {
        objective,
        inducing: Some(25),
        steps: StepOptions { batch_size: 100, ..StepOptions::default() },
        ..FitOptions::default()
    }
}

#[test]
fn mini_batches_reach_the_collapsed_bound() {
    let (x, y) = data(1, 2, 600);
    let vfe = fit(&x, &y, &options(ObjectiveKind::Vfe)).expect("vfe");
    for (q_update, warm_start, tolerance) in
        [(QUpdate::Ngd, 100, 0.005), (QUpdate::Ngd, 0, 0.03), (QUpdate::Adam, 100, 0.005)]
    {
        let options = FitOptions {
            warm_start,
            learning_rate: 0.02,
            steps: StepOptions { q_update, ..options(ObjectiveKind::Elbo).steps },
            ..options(ObjectiveKind::Elbo)
        };
        let svgp = fit(&x, &y, &options).expect("elbo");
        let gap = svgp.summary.objective - vfe.summary.objective;
        assert!(gap < tolerance, "{q_update:?} from {warm_start}: {gap} nats a datum above");
        assert!(svgp.summary.elbo_sum.is_some_and(|elbo| elbo == -svgp.summary.objective_sum));
    }
}

#[test]
fn fits_recover_the_noise_and_report_their_work() {
    let (x, y) = data(2, 2, 800);
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Fitc, ObjectiveKind::Elbo] {
        let fitted = fit(&x, &y, &options(objective)).expect("fit");
        let named = fitted.model.named_values();
        let noise = named.iter().find(|(n, _)| n == "likelihood.noise_variance").expect("noise").1;
        assert!((noise - 0.04).abs() < 0.01, "{objective}: noise variance {noise}, simulated 0.04");
        let summary = &fitted.summary;
        assert_eq!(summary.epochs, summary.trace.len());
        assert!(summary.evaluations > 0 && summary.seconds > 0.0 && summary.jitter > 0.0);
        if objective == ObjectiveKind::Vfe {
            let (lower, upper) = (summary.elbo_sum, summary.evidence_upper_bound);
            assert!(lower.expect("lower") <= upper.expect("upper"));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_fit() {
    let (x, y) = data(3, 2, 300);
    let options = FitOptions { epochs: Some(5), ..options(ObjectiveKind::Elbo) };
    let run = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
        let options = FitOptions { seed, ..options.clone() };
        pool.install(|| fit(&x, &y, &options).expect("fit").model.natural())
    };
    let first = run(1, 0);
    assert_eq!(run(2, 0), first);
    assert_ne!(run(1, 1), first);
}

#[test]
fn fixed_parameters_stay_and_fixed_hyper_parameters_train_q_alone() {
    let (x, y) = data(4, 2, 200);
    let fix = [("likelihood.noise_variance", 0.5), ("kernel.variance", 2.0)];
    let constraints = Constraints::fixing(fix).expect("names");
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Elbo] {
        let given = FitOptions { constraints: constraints.clone(), epochs: Some(5), ..options(objective) };
        let fitted = fit(&x, &y, &given).expect("fit");
        for (name, value) in &fix {
            let found = fitted.model.named_values().into_iter().find(|(n, _)| n == *name);
            assert_eq!(found.map(|(_, v)| v), Some(*value), "{objective} {name}");
        }
        let fixed = FitOptions { hyper: Some(Hyper::Fixed), ..given };
        let fixed = fit(&x, &y, &fixed).expect("fit");
        let start = FitOptions {
            epochs: Some(1),
            warm_start: 0,
            learning_rate: 1e-12,
            ..options(ObjectiveKind::Elbo)
        };
        let start = fit(&x, &y, &FitOptions { constraints: constraints.clone(), ..start }).expect("fit");
        let moved =
            fixed.model.natural().iter().zip(start.model.natural()).any(|(a, b)| (a - b).abs() > 1e-9);
        assert!(!moved, "{objective}: hyper-parameters moved although fixed");
        assert!(fixed.q[0].mean().iter().any(|m| *m != 0.0), "q was trained");
    }
}

#[test]
fn a_zero_mean_stays_zero_and_a_constant_one_is_learned() {
    let (x, mut y) = data(5, 2, 200);
    y.iter_mut().for_each(|y| *y += 5.0);
    let mean = |kind: MeanKind| {
        let options = FitOptions { mean: kind, ..options(ObjectiveKind::Vfe) };
        let named = fit(&x, &y, &options).expect("fit").model.named_values();
        named.into_iter().find(|(n, _)| n == "mean.constant").expect("mean").1
    };
    assert_eq!(mean(MeanKind::Zero), 0.0);
    assert!((mean(MeanKind::Constant) - 5.0).abs() < 2.0);
}

#[test]
fn validation_is_scored_every_epoch() {
    let (x, y) = data(6, 2, 300);
    let (x_val, y_val) = data(7, 2, 60);
    let data = TrainingData {
        train: Dataset::of(x.transpose(), &y),
        validation: Some(Dataset::of(x_val.transpose(), &y_val)),
        levels: 0,
    };
    let options = FitOptions { epochs: Some(8), ..options(ObjectiveKind::Elbo) };
    let mut heard = Vec::new();
    let mut hear = |event: &Event| {
        if let Event::Epoch { record, limits } = event {
            assert_eq!(limits.epochs, options.epoch_limit());
            heard.push(*record);
        }
    };
    let fitted = fit_arrays(data, &options, None, &mut hear).expect("fit");
    assert!(!heard.is_empty() && heard == fitted.summary.trace);
    assert!(heard.iter().all(|r| r.validation_nll.is_some_and(f64::is_finite)));
}

#[test]
fn noise_that_explains_everything_is_reported() {
    let mut normals = Normals::new(8);
    let (x, y) = (normals.mat(2, 300), normals.vec(300));
    let fitted = fit(&x, &y, &options(ObjectiveKind::Vfe)).expect("fit");
    assert!(fitted.summary.warnings.iter().any(|w| w.to_string().contains("noise variance explains")));
    let (x, _) = data(9, 1, 300);
    let y: Vec<f64> = (0..300).map(|j| 2.0 * x[(0, j)]).collect();
    let options = FitOptions { kernel: "linear".into(), inducing: Some(1), ..options(ObjectiveKind::Vfe) };
    let fitted = fit(&x, &y, &options).expect("fit");
    assert!(
        fitted.summary.warnings.iter().any(|w| w.to_string().contains("nearly 0")),
        "{:?}",
        fitted.summary
    );
}

#[test]
fn hostile_but_legal_data_are_fitted() {
    let mut normals = Normals::new(10);
    let y = normals.vec(40);
    let hostile = [
        ("all rows but one equal", Mat::from_fn(2, 40, |i, j| if j == 0 { i as f64 } else { 1.0 })),
        ("a constant input", Mat::from_fn(2, 40, |i, j| if i == 0 { 3.0 } else { j as f64 })),
        ("inputs on two points", Mat::from_fn(1, 40, |_, j| (j % 2) as f64)),
        ("tiny spread", Mat::from_fn(1, 40, |_, j| 1e-9 * j as f64)),
        ("huge spread", Mat::from_fn(1, 40, |_, j| 1e9 * j as f64)),
    ];
    for (what, x) in &hostile {
        for objective in [ObjectiveKind::Vfe, ObjectiveKind::Fitc, ObjectiveKind::Elbo] {
            let options = FitOptions { epochs: Some(10), ..options(objective) };
            let fitted = fit(x, &y, &options).unwrap_or_else(|e| panic!("{what}, {objective}: {e}"));
            let marginals = fitted.posterior.marginals(x.transpose());
            let finite = marginals.mean.iter().chain(&marginals.variance).all(|v| v.is_finite());
            assert!(finite && fitted.summary.objective.is_finite(), "{what}, {objective}");
        }
    }
}

#[test]
fn invalid_options_are_refused_before_any_work() {
    let (x, y) = data(11, 2, 30);
    let base = FitOptions::default;
    let vfe = || FitOptions { objective: ObjectiveKind::Vfe, ..base() };
    let refused = [
        FitOptions { beta: 0.0, ..base() },
        FitOptions { beta: f64::NAN, ..base() },
        FitOptions { inducing: Some(0), ..base() },
        FitOptions { steps: StepOptions { batch_size: 0, ..base().steps }, ..base() },
        FitOptions { epochs: Some(0), ..base() },
        FitOptions { learning_rate: -1.0, ..base() },
        FitOptions { max_seconds: Some(0.0), ..base() },
        FitOptions { tolerance: Some(-1.0), ..base() },
        FitOptions { hyper: Some(Hyper::Collapsed), objective: ObjectiveKind::DlmLog, ..base() },
        FitOptions { hyper: Some(Hyper::Joint), ..vfe() },
        FitOptions { objective: ObjectiveKind::Fitc, beta: 0.5, ..base() },
        FitOptions { kernel: "rbf[7]".into(), ..base() },
        FitOptions { kernel: "nonsense(".into(), ..base() },
        FitOptions { constraints: Constraints::fixing([("no.such", 1.0)]).expect("a name"), ..base() },
        FitOptions {
            constraints: Constraints::fixing([("likelihood.noise_variance", -1.0)]).expect("a name"),
            ..base()
        },
    ];
    for options in refused {
        let error = fit(&x, &y, &options).err().unwrap_or_else(|| panic!("accepted {options:?}"));
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(!error.to_string().contains('\n'), "one line: {error}");
    }
    let error = fit(&x, &y[..29], &base()).err().expect("shapes that differ are refused");
    assert_eq!(error.kind(), ErrorKind::Data);
    let (wide, _) = data(11, 3, 30);
    let train = Dataset::of(x.transpose(), &y);
    let validation = Some(Dataset::of(wide.transpose(), &y));
    let mixed = TrainingData { train, validation, levels: 0 };
    let error = fit_arrays(mixed, &base(), None, &mut |_| {}).err().expect("columns that differ are refused");
    assert_eq!(error.kind(), ErrorKind::Data);
    let start = fit(&wide, &y, &FitOptions { epochs: Some(1), ..vfe() }).expect("fit").model;
    let start = Start { model: start, q: None };
    let plain = TrainingData::of(train);
    let error = fit_arrays(plain, &base(), Some(&start), &mut |_| {}).err().expect("another model's columns");
    assert_eq!(error.kind(), ErrorKind::Data);
}

#[test]
fn numbers_beyond_reason_end_in_an_error_not_a_panic() {
    let (x, y) = data(12, 2, 30);
    let y: Vec<f64> = y.iter().map(|y| y * 1e200).collect();
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Fitc, ObjectiveKind::Elbo] {
        let error = fit(&x, &y, &options(objective)).err();
        assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::Fit), "{objective}");
    }
}

#[test]
fn inference_continues_from_any_step_as_if_it_had_not_stopped() {
    let (x, y) = data(13, 2, 200);
    let options = InferenceOptions {
        batches: BatchPlan::Epochs(30),
        ..InferenceOptions::full_batch(QUpdate::Ngd, Schedule::TwoOverT)
    };
    let begin = |q: Normal| {
        let model = sparsegp_testkit::problems::model(13, "rbf", 2, 8, Jitter::DEFAULT);
        Inference::new(model, q, Objective::elbo(1.0), Dataset::of(x.transpose(), &y), options.clone())
    };
    let mut whole = begin(Normal::standard(Family::Full, 8));
    let take = |inference: &mut Inference<'_>, steps: usize| {
        (0..steps).for_each(|_| assert!(inference.step().0.is_finite()));
        inference.q().mean().to_vec()
    };
    take(&mut whole, 9);
    let mut later = begin(whole.q().clone());
    later.seek(9).expect("rows in memory");
    // Equal up to rounding: one rule carries a precision matrix, which the other computes from the
    // covariance.
    let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart(&take(&mut later, 5), &take(&mut whole, 5)) < 1e-12);
    later.seek(0).expect("rows in memory");
    assert!(apart(&take(&mut later, 5), &take(&mut whole, 5)) > 1e-3);
}
