//! Warnings, errors and refusals of fits: each is caused by data or options made for it, and ordinary data cause none.

use super::common::fit_columns as fit;
use super::common::*;
use rand_distr::{Distribution, Gamma, Poisson};
use sparsegp::Error;

fn options(objective: ObjectiveKind) -> FitOptions {
    FitOptions { objective, inducing: Some(20), steps: batches_of(50), ..FitOptions::default() }
}

fn warnings(x: &Mat<f64>, y: &[f64], options: &FitOptions) -> Vec<Warning> {
    fit(x, y, options).expect("fit").summary.warnings
}

fn fixed(values: &[(&str, f64)]) -> Constraints {
    Constraints::fixing(values.iter().copied()).expect("names")
}

#[test]
fn ordinary_data_cause_no_warning() {
    for seed in 0..3 {
        let (x, y) = data(seed, 2, 200);
        for objective in [ObjectiveKind::Vfe, ObjectiveKind::Fitc, ObjectiveKind::Elbo, ObjectiveKind::DlmLog]
        {
            let mut found = warnings(&x, &y, &options(objective));
            // The warning about the limit of epochs is not about the data.
            found.retain(|warning| !matches!(warning, Warning::EpochLimit { .. }));
            assert!(found.is_empty(), "{objective} {seed}: {found:?}");
        }
    }
}

#[test]
fn counts_that_vary_more_than_poisson_counts_are_told_from_those_that_do_not() {
    let (x, f) = data(4, 2, 400);
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut draw = |spread: f64| -> Vec<f64> {
        let count = |f: &f64| {
            let gamma: f64 = if spread > 0.0 {
                Gamma::new(1.0 / spread, spread).expect("a shape").sample(&mut random)
            } else {
                1.0
            };
            Poisson::new((f.exp() * 4.0 * gamma).max(1e-6)).expect("a rate").sample(&mut random)
        };
        f.iter().map(count).collect()
    };
    let (plain, wide) = (draw(0.0), draw(1.0));
    let about = |y: &[f64], likelihood| {
        let options = FitOptions { likelihood: Some(likelihood), ..options(ObjectiveKind::Elbo) };
        let found = warnings(&x, y, &options);
        found.into_iter().find(|w| matches!(w, Warning::Overdispersed { .. }))
    };
    assert_eq!(about(&plain, LikelihoodKind::Poisson), None);
    assert_eq!(about(&wide, LikelihoodKind::NegativeBinomial), None);
    let Some(Warning::Overdispersed { dispersion }) = about(&wide, LikelihoodKind::Poisson) else {
        panic!("nothing about counts of four times the variance")
    };
    assert!((1.5..20.0).contains(&dispersion), "{dispersion}");
}

#[test]
fn warnings_name_what_fixed_values_cause() {
    type Case<'a> = ((Mat<f64>, Vec<f64>), &'a [(&'a str, f64)], usize, Jitter, fn(&Warning) -> bool);
    let ill_conditioned: fn(&Warning) -> bool = |warning| {
        matches!(warning, Warning::IllConditioned { condition, raised_to, close_pairs, inducing: 40 }
            if *close_pairs > 0 && (*condition > 1e10 || raised_to.is_some()))
    };
    let close = [("kernel.lengthscales", 3.0)];
    let cases: [Case<'_>; 5] = [
        (
            data(1, 3, 200),
            &[("kernel.lengthscales.1", 1e4), ("kernel.lengthscales.2", 1.5)],
            20,
            Jitter::DEFAULT,
            |w| matches!(w, Warning::Irrelevant { inputs } if inputs.len() == 1 && inputs[0].index == 1),
        ),
        (
            data(3, 2, 60),
            &[
                ("kernel.lengthscales.0", 3.0),
                ("kernel.lengthscales.1", 1e-3),
                ("likelihood.noise_variance", 1e-3),
            ],
            60,
            Jitter::DEFAULT,
            |w| matches!(w, Warning::Memorised { input, correlation } if input.index == 1 && *correlation < 0.2),
        ),
        (
            data(4, 1, 300),
            &[("kernel.lengthscales", 200.0), ("kernel.variance", 1e4)],
            60,
            Jitter::DEFAULT,
            |w| {
                matches!(w, Warning::NearDuplicates { duplicates, inducing: 60, closest }
                    if *duplicates > 6 && *closest < 1e-3)
            },
        ),
        (data(5, 1, 200), &close, 40, Jitter::Relative(1e-13), ill_conditioned),
        (data(5, 1, 200), &close, 40, Jitter::Absolute(0.0), ill_conditioned),
    ];
    for ((x, y), values, inducing, jitter, expected) in cases {
        let base = FitOptions { inducing: Some(inducing), jitter, ..options(ObjectiveKind::Vfe) };
        let found = warnings(&x, &y, &FitOptions { constraints: fixed(values), ..base });
        assert!(found.iter().any(expected), "{values:?}: {found:?}");
    }
    // Long lengthscales of a straight line do not make its input irrelevant.
    let ((x, _), mut normals) = (data(2, 1, 200), Normals::new(2));
    let y: Vec<f64> = (0..200).map(|j| 2.0 * x[(0, j)] + 0.1 * normals.next()).collect();
    let constraints = fixed(&[("kernel.lengthscales", 100.0)]);
    let options = FitOptions { constraints, inducing: Some(5), ..options(ObjectiveKind::Vfe) };
    let found = warnings(&x, &y, &options);
    assert!(!found.iter().any(|warning| matches!(warning, Warning::Irrelevant { .. })), "{found:?}");
}

#[test]
fn overfitting_is_seen_on_validation_rows() {
    let mut normals = Normals::new(6);
    let mut draw = |n: usize| (normals.mat(1, n), normals.vec(n));
    let ((x, y), (new, targets)) = (draw(60), draw(200));
    let data = TrainingData {
        train: Dataset::of(x.transpose(), &y),
        validation: Some(Dataset::of(new.transpose(), &targets)),
        levels: 0,
    };
    let tight =
        [("likelihood.noise_variance", 0.01), ("kernel.lengthscales", 0.02), ("kernel.variance", 1.0)];
    let run = |constraints: Constraints| {
        let options =
            FitOptions { constraints, inducing: Some(60), epochs: Some(20), ..options(ObjectiveKind::Elbo) };
        fit_arrays(data, &options, None, &mut |_| {}).expect("fit").summary.warnings
    };
    let overfitted = |found: &[Warning]| {
        found.iter().find_map(|warning| match warning {
            Warning::Overfitted { training, validation, error } => Some((*training, *validation, *error)),
            _ => None,
        })
    };
    let found = run(fixed(&tight));
    let Some((training, validation, error)) = overfitted(&found) else { panic!("{found:?}") };
    assert!(validation - training > 0.5 && validation - training > 3.0 * error);
    assert_eq!(overfitted(&run(Constraints::default())), None);
}

#[test]
fn a_square_loss_that_predicts_worse_than_the_elbo_is_told() {
    let mut normals = Normals::new(6);
    let (x, noise) = (normals.mat(6, 120), normals.vec(120));
    let line = |noise_sd: f64| -> Vec<f64> { (0..120).map(|i| x[(0, i)] + noise_sd * noise[i]).collect() };
    let found = |y: &[f64], beta: f64| {
        let options = FitOptions { inducing: Some(40), beta, ..options(ObjectiveKind::DlmSquare) };
        warnings(&x, y, &options).into_iter().find_map(|warning| match warning {
            Warning::SquareLoss { ratio, training } => Some((ratio, training)),
            _ => None,
        })
    };
    let (ratio, training) = found(&line(0.5), 0.01).expect("240 coordinates fit the noise of 120 rows");
    assert!(ratio > 1.2 && training < 0.8, "{ratio} {training}");
    let (ratio, training) = found(&line(0.0), 1e4).expect("so large a penalty hides the line");
    assert!(ratio > 1.2 && training > 1.2, "{ratio} {training}");
}

#[test]
fn rolled_back_steps_are_counted_by_cause() {
    let (x, y) = data(7, 2, 200);
    // An extreme learning rate leads to points at which nothing can be evaluated.
    let wild = |objective| FitOptions { learning_rate: 1e3, epochs: Some(5), ..options(objective) };
    if let Err(error) = fit(&x, &y, &wild(ObjectiveKind::Elbo)) {
        let advice = error.advice().unwrap_or_default();
        assert!(error.to_string().contains("training ended") && advice.contains("learning_rate"), "{error}");
    }
    let found = warnings(&x, &y, &wild(ObjectiveKind::DlmLog));
    let halved =
        found.iter().any(|w| matches!(w, Warning::HyperSteps { count, halved: true, .. } if *count > 0));
    assert!(halved || found.contains(&Warning::NoProgress), "{found:?}");
    assert!(found.iter().any(|w| w.to_string().contains("learning_rate")), "{found:?}");
    let calm = FitOptions {
        epochs: Some(5),
        steps: StepOptions { q_step: Some(Schedule::Constant(0.1)), ..options(ObjectiveKind::Elbo).steps },
        ..options(ObjectiveKind::Elbo)
    };
    let found = warnings(&x, &y, &calm);
    assert!(
        !found.iter().any(|w| matches!(w, Warning::HyperSteps { .. } | Warning::QSteps { .. })),
        "{found:?}"
    );
}

#[test]
fn refused_plain_steps_end_the_fit_and_the_proven_step_descends() {
    let (x, y) = data(7, 2, 200);
    let y: Vec<f64> = y.iter().map(|y| f64::from(*y > 0.0)).collect();
    let options = |step: f64| {
        let steps = StepOptions {
            q_update: QUpdate::SrVn,
            q_guard: Guard::None,
            q_step: Some(Schedule::Constant(step)),
            polish: false,
            ..StepOptions::default()
        };
        FitOptions {
            model: ModelKind::Glm,
            objective: ObjectiveKind::Elbo,
            likelihood: Some(LikelihoodKind::BernoulliLogit),
            hyper: Some(Hyper::Fixed),
            epochs: Some(40),
            steps,
            ..FitOptions::default()
        }
    };
    let plain = |step: f64| fit(&x, &y, &options(step)).expect("fit").summary;
    let summary = plain(1.0);
    let proven = summary.warnings.iter().find_map(|warning| match warning {
        Warning::Refused { proven } => *proven,
        _ => None,
    });
    let proven = proven.unwrap_or_else(|| panic!("{:?}", summary.warnings));
    assert!(summary.epochs < 10, "{}", summary.epochs);
    let falling = plain(proven).trace;
    assert!(
        falling.len() == 40 && falling.windows(2).all(|pair| pair[1].objective < pair[0].objective),
        "{falling:?}"
    );
    // A loop of the caller decides itself when to end.
    let mut trainer = Fit::of(options(1.0)).trainer(x.transpose(), &y[..]).expect("a trainer");
    for _ in 0..30 {
        assert!(trainer.epoch().expect("an epoch").objective.is_finite());
    }
}

fn failure(x: &Mat<f64>, y: &[f64], options: &FitOptions, words: &[&str]) -> Error {
    let error = fit(x, y, options).err().expect("the fit fails");
    assert_eq!(error.kind(), ErrorKind::Fit, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} in {error}");
    }
    assert!(error.advice().is_some() && !error.to_string().contains('\n'), "{error}");
    error
}

#[test]
fn a_fit_that_cannot_start_reports_the_cause() {
    let (x, y) = data(8, 2, 40);
    let vfe = options(ObjectiveKind::Vfe);
    let large: Vec<f64> = y.iter().map(|y| y * 1e200).collect();
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Fitc, ObjectiveKind::Elbo] {
        failure(&x, &large, &options(objective), &["the target reaches", "e200"]);
    }
    let wide = Mat::from_fn(2, 40, |i, j| if i == 1 { x[(i, j)] * 1e200 } else { x[(i, j)] });
    let kernel = "linear".to_owned();
    failure(&wide, &y, &FitOptions { kernel, ..vfe.clone() }, &["input 1", "e200"]);
    let runaway = FitOptions { constraints: fixed(&[("kernel.variance", 1e308)]), ..vfe.clone() };
    let error =
        failure(&x, &y, &runaway, &["kernel.variance is 1e308", "too large or too small to compute with"]);
    assert!(error.advice().is_some_and(|hint| hint.contains("fix = kernel.variance")));
}

fn refused(
    data: TrainingData<'_>,
    options: &FitOptions,
    start: Option<&Start>,
    kind: ErrorKind,
    words: &str,
) {
    let Err(error) = fit_arrays(data, options, start, &mut |_| {}) else { panic!("accepted {options:?}") };
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    assert!(text.contains(words) && !text.contains('\n'), "{words:?} in {text}");
}

fn invalid(x: MatRef<'_, f64>, y: &[f64], cases: impl IntoIterator<Item = (FitOptions, &'static str)>) {
    for (options, words) in cases {
        refused(TrainingData::of(Dataset::of(x, y)), &options, None, ErrorKind::Usage, words);
    }
}

#[test]
fn options_that_grouped_effects_do_not_support() {
    let (points, y) = data(9, 1, 100);
    let code = |i: usize, j: usize| if j == 1 { i % 30 } else { i / 5 } as f64;
    let x = Mat::from_fn(100, 3, |i, j| if j == 0 { points[(0, i)] } else { code(i, j) });
    let base = FitOptions { effects: crossed_intercepts(30, 20), ..FitOptions::default() };
    let with = |likelihood| FitOptions { likelihood: Some(likelihood), ..base.clone() };
    let glm = FitOptions { model: ModelKind::Glm, ..base.clone() };
    let cases = [
        (FitOptions { hyper: Some(Hyper::Dual), ..base.clone() }, "hyper"),
        (FitOptions { prior_variance: 2.0, ..glm.clone() }, "prior_variance"),
        (FitOptions { reml: true, model: ModelKind::Glm, ..with(LikelihoodKind::StudentT) }, "reml"),
        (FitOptions { reml: true, beta: 0.5, ..glm.clone() }, "reml"),
        (FitOptions { reml: true, effects: Vec::new(), ..glm }, "reml"),
    ];
    invalid(x.as_ref(), &y, cases);
    let bad = Mat::from_fn(100, 3, |i, j| if (i, j) == (4, 1) { 30.0 } else { x[(i, j)] });
    let rows = TrainingData::of(Dataset::of(bad.as_ref(), &y));
    refused(rows, &base, None, ErrorKind::Data, "row 4");
}

#[test]
fn shapes_that_differ() {
    let ((x, y), (wide, _)) = (data(11, 2, 30), data(11, 3, 30));
    let (base, train) = (FitOptions::default(), Dataset::of(x.transpose(), &y));
    let short = TrainingData::of(Dataset::of(x.transpose(), &y[..29]));
    refused(short, &base, None, ErrorKind::Data, "");
    let validation = Some(Dataset::of(wide.transpose(), &y));
    refused(TrainingData { validation, ..TrainingData::of(train) }, &base, None, ErrorKind::Data, "");
    let quick = FitOptions { epochs: Some(1), objective: ObjectiveKind::Vfe, ..base.clone() };
    let other = TrainingData::of(Dataset::of(wide.transpose(), &y));
    let model = fit_arrays(other, &quick, None, &mut |_| {}).expect("fit").model;
    let start = Start { model, q: None };
    refused(TrainingData::of(train), &base, Some(&start), ErrorKind::Data, "");
}
