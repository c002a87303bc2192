//! Fits with grouped effects: recovery with and without Gaussian noise, singular fits, model files, new levels, refusals.

use faer::{Mat, MatRef};
use sparsegp::ErrorKind;
use sparsegp::collapsed::Dataset;
use sparsegp::effects::{EffectTerm, POPULATION};
use sparsegp::hyper::{Event, Session};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::Model;
use sparsegp::objective::Estimator;
use sparsegp::options::{FitOptions, Hyper, ModelKind, ObjectiveKind};
use sparsegp::training::{ModelBuilder, Start, TrainingData, fit_arrays, update};
use sparsegp_testkit::problems::Normals;

fn linear(effects: Vec<EffectTerm>) -> FitOptions {
    FitOptions { model: ModelKind::Glm, effects, ..FitOptions::default() }
}

/// Returns one input with the codes of two crossed groupings, and targets with effects of these
/// standard deviations.
fn crossed(seed: u64, n: usize, (first, second): (f64, f64)) -> (Mat<f64>, Vec<f64>) {
    let mut normals = Normals::new(seed);
    let (a, b) = (normals.vec(30), normals.vec(20));
    let x = Mat::from_fn(n, 3, |i, j| match j {
        0 => normals.next(),
        1 => ((7 * i + i / 11) % 30) as f64,
        _ => ((3 * i + i / 7) % 20) as f64,
    });
    let y = (0..n).map(|i| {
        let smooth = (2.0 * x[(i, 0)]).sin();
        10.0 + smooth + first * a[x[(i, 1)] as usize] + second * b[x[(i, 2)] as usize] + 0.3 * normals.next()
    });
    (x.clone(), y.collect())
}

fn fit(options: &FitOptions, x: MatRef<'_, f64>, y: &[f64]) -> Model {
    ModelBuilder::new().options(options.clone()).fit(x, y).expect("a fit")
}

#[test]
fn a_function_with_crossed_groupings_is_recovered() {
    let (x, y) = crossed(5, 1500, (0.8, 0.4));
    let effects = vec![EffectTerm::intercepts("a", 30, 0), EffectTerm::intercepts("b", 20, 1)];
    for objective in [ObjectiveKind::Elbo, ObjectiveKind::Vfe, ObjectiveKind::Fitc] {
        let options =
            FitOptions { effects: effects.clone(), objective, inducing: Some(20), ..FitOptions::default() };
        let model = fit(&options, x.as_ref(), &y);
        let components = model.variance_components();
        let sds: Vec<f64> = components.iter().map(|component| component.sd).collect();
        // The relative standard errors over 30 and 20 levels are about an eighth and a sixth.
        assert!((sds[0] - 0.8).abs() < 0.3 && (sds[1] - 0.4).abs() < 0.2, "{objective}: {sds:?}");
        let noise = model.residual_deviation().expect("noise");
        assert!((noise - 0.3).abs() < 0.02, "{objective}: {noise}");

        // A known level has less variance than a new one, and the population has no variance of
        // effects.
        let at = |a: f64, b: f64| Mat::from_fn(1, 3, |_, j| [0.4, a, b][j]);
        let [known, new, population] = [at(3.0, 4.0), at(77.0, 4.0), at(POPULATION, 4.0)]
            .map(|x| model.predict(x.as_ref(), &[]).expect("predictions").row(0));
        assert_eq!(new.latent_mean, population.latent_mean);
        let added = new.latent_variance - population.latent_variance;
        assert!((added / sds[0].powi(2) - 1.0).abs() < 1e-9, "{objective}: {added}");
        assert!(known.latent_variance < population.latent_variance + 1e-9);
    }
}

#[test]
fn a_model_file_gives_the_same_predictions_and_effects_to_the_last_bit() {
    let (x, y) = crossed(6, 300, (0.8, 0.4));
    let slope = EffectTerm {
        slopes: vec!["x".into()],
        values: vec![2],
        correlated: true,
        ..EffectTerm::intercepts("a", 30, 0)
    };
    let wide = Mat::from_fn(300, 4, |i, j| if j == 3 { x[(i, 0)] } else { x[(i, j)] });
    for model in [ModelKind::Gp, ModelKind::Glm] {
        let effects = vec![slope.clone(), EffectTerm::intercepts("b", 20, 1)];
        let options =
            FitOptions { model, effects, inducing: Some(15), epochs: Some(5), ..FitOptions::default() };
        let options =
            if model == ModelKind::Glm { FitOptions { inducing: None, ..options } } else { options };
        let fitted = fit(&options, wide.as_ref(), &y);
        let bytes = fitted.to_bytes().expect("bytes");
        let again = Model::from_bytes("model", &bytes).expect("a model");
        let (a, b) = (
            fitted.predict(wide.as_ref(), &[]).expect("rows"),
            again.predict(wide.as_ref(), &[]).expect("rows"),
        );
        assert!((0..300).all(|row| a.row(row) == b.row(row)), "{model}");
        assert_eq!(fitted.level_effects(), again.level_effects());
        assert_eq!(fitted.variance_components(), again.variance_components());
        assert_eq!(fitted.level_effects().len(), 30 * 2 + 20);
        let draws = |model: &Model| model.samples(wide.as_ref(), 2, 0).expect("joint draws");
        assert_eq!(draws(&fitted), draws(&again));
    }
}

/// Returns counts, classes, amounts or numbers with heavy tails for rows whose latent values are
/// `eta`, the targets of [`crossed`].
fn observed(kind: LikelihoodKind, eta: &[f64]) -> Vec<f64> {
    let mut normals = Normals::new(31);
    let mut draw = |eta: f64| {
        let (noise, other) = (normals.next(), normals.next());
        match kind {
            LikelihoodKind::BernoulliProbit => f64::from(eta + noise > 0.0),
            LikelihoodKind::Poisson => {
                // Drawn by inversion of a uniform number.
                let uniform = (0.5 * (1.0 + (0.8 * noise).tanh())).clamp(1e-9, 1.0 - 1e-9);
                let (rate, mut count, mut sum) = (eta.exp(), 0.0, 0.0);
                let mut term = (-rate).exp();
                while sum + term < uniform && count < 1e3 {
                    sum += term;
                    count += 1.0;
                    term *= rate / count;
                }
                count
            }
            LikelihoodKind::Gamma => eta.exp() * (noise * noise + other * other) / 2.0,
            _ => eta + 0.2 * noise / (0.3 + other * other),
        }
    };
    eta.iter().map(|eta| draw(*eta)).collect()
}

#[test]
fn effects_with_every_kind_of_noise_are_recovered_and_kept_in_a_model_file() {
    let (x, eta) = crossed(15, 1500, (0.8, 0.4));
    let eta: Vec<f64> = eta.iter().map(|y| y - 9.7).collect();
    let kinds = [
        LikelihoodKind::BernoulliProbit,
        LikelihoodKind::Poisson,
        LikelihoodKind::Gamma,
        LikelihoodKind::StudentT,
    ];
    for (kind, model) in kinds.into_iter().flat_map(|kind| [(kind, ModelKind::Gp), (kind, ModelKind::Glm)]) {
        let y = observed(kind, &eta);
        let inducing = (model == ModelKind::Gp).then_some(15);
        let effects = vec![EffectTerm::intercepts("a", 30, 0), EffectTerm::intercepts("b", 20, 1)];
        let options =
            FitOptions { likelihood: Some(kind), model, inducing, effects, ..FitOptions::default() };
        let fitted = fit(&options, x.as_ref(), &y);
        let sds: Vec<f64> = fitted.variance_components().iter().map(|component| component.sd).collect();
        // The relative standard errors over 30 and 20 levels are about an eighth and a sixth, and
        // larger because of the noise.
        assert!((sds[0] - 0.8).abs() < 0.35 && (sds[1] - 0.4).abs() < 0.25, "{kind}, {model}: {sds:?}");
        assert!(fitted.residual_deviation().is_none());
        let shares = fitted.intraclass_correlations().len();
        let defined = [LikelihoodKind::BernoulliProbit, LikelihoodKind::Poisson].contains(&kind);
        assert_eq!(shares, if defined { 2 } else { 0 }, "{kind}");
        assert!(fitted.grouped_log_likelihood().is_some_and(f64::is_finite));

        let again = Model::from_bytes("model", &fitted.to_bytes().expect("bytes")).expect("a model");
        let [own, other] =
            [&fitted, &again].map(|model| model.predict(x.as_ref(), &[]).expect("predictions"));
        assert!((0..y.len()).all(|row| own.row(row) == other.row(row)), "{kind}, {model}");
        assert_eq!(fitted.level_effects(), again.level_effects());

        // A new level has the latent variance of the population plus the variance of levels.
        let at = |a: f64| Mat::from_fn(1, 3, |_, j| [0.4, a, 4.0][j]);
        let [known, new, population] = [at(3.0), at(77.0), at(POPULATION)]
            .map(|x| fitted.predict(x.as_ref(), &[]).expect("predictions").row(0));
        let added = (new.latent_variance - population.latent_variance).sqrt();
        assert!((added / sds[0] - 1.0).abs() < 1e-6, "{kind}, {model}: {added} {sds:?}");
        assert_eq!(new.latent_mean, population.latent_mean);
        assert!(known.latent_variance < new.latent_variance);
    }
}

#[test]
fn another_weight_of_the_kl_term_and_fixed_hyper_parameters_suit_groups() {
    let (x, y) = crossed(16, 400, (0.8, 0.4));
    let effects = vec![EffectTerm::intercepts("a", 30, 0), EffectTerm::intercepts("b", 20, 1)];
    let base = FitOptions { effects, inducing: Some(10), epochs: Some(20), ..FitOptions::default() };
    let tempered = fit(&FitOptions { beta: 0.5, ..base.clone() }, x.as_ref(), &y);
    assert!(tempered.grouped_log_likelihood().is_none());
    let likelihood = Some(LikelihoodKind::StudentT);
    let fixed = fit(&FitOptions { hyper: Some(Hyper::Fixed), likelihood, ..base.clone() }, x.as_ref(), &y);
    let trained = fit(&FitOptions { likelihood, ..base }, x.as_ref(), &y);
    assert_eq!(fixed.summary().iterations, 0);
    assert!(trained.summary().objective < fixed.summary().objective);
}

#[test]
fn effects_that_do_not_exist_end_at_a_standard_deviation_of_zero() {
    let (x, y) = crossed(7, 600, (0.0, 0.4));
    for reml in [false, true] {
        let options = FitOptions {
            reml,
            ..linear(vec![EffectTerm::intercepts("a", 30, 0), EffectTerm::intercepts("b", 20, 1)])
        };
        let model = fit(&options, x.as_ref(), &y);
        let sds: Vec<f64> = model.variance_components().iter().map(|component| component.sd).collect();
        // A grouping with variance 0 changes nothing.
        let narrow = Mat::from_fn(600, 2, |i, j| x[(i, 2 * j)]);
        let without = fit(
            &FitOptions { reml, ..linear(vec![EffectTerm::intercepts("b", 20, 0)]) },
            narrow.as_ref(),
            &y,
        );
        let [with, without] =
            [&model, &without].map(|model| model.grouped_log_likelihood().expect("a value"));
        assert!(with >= without - 1e-6, "{with} {without}");
        assert!(sds[0] < 0.12, "{sds:?}");
        assert!(
            model.level_effects().iter().all(|effect| effect.estimate.is_finite() && effect.sd.is_finite())
        );
    }
}

#[test]
fn a_single_level_and_one_level_per_row_are_fitted() {
    let (x, y) = crossed(8, 200, (0.5, 0.0));
    let one = Mat::from_fn(200, 2, |i, j| if j == 0 { x[(i, 0)] } else { 0.0 });
    let each = Mat::from_fn(200, 2, |i, j| if j == 0 { x[(i, 0)] } else { i as f64 });
    for (x, levels) in [(one, 1), (each, 200)] {
        for model in [ModelKind::Gp, ModelKind::Glm] {
            let options = FitOptions { model, ..linear(vec![EffectTerm::intercepts("g", levels, 0)]) };
            let fitted = fit(&options, x.as_ref(), &y);
            let predictions = fitted.predict(x.as_ref(), &[]).expect("rows");
            assert!((0..200).all(|row| predictions.row(row).variance > 0.0), "{model}, {levels} levels");
        }
    }
}

#[test]
fn every_method_of_training_explains_what_the_closed_form_explains() {
    let (x, y) = crossed(5, 400, (0.8, 0.4));
    let effects = vec![EffectTerm::intercepts("a", 30, 0), EffectTerm::intercepts("b", 20, 1)];
    let base = FitOptions { effects, inducing: Some(12), epochs: Some(60), ..FitOptions::default() };
    let error = |options: &FitOptions| {
        let model = fit(options, x.as_ref(), &y);
        let (predictions, means) =
            (model.predict(x.as_ref(), &[]).expect("predictions"), model.level_effects());
        assert_eq!(means.len() % 50, 0);
        predictions.report(&y).rmse.expect("an error of numbers")
    };
    let closed = error(&base);
    assert!(closed < 0.31, "{closed}");
    for options in [
        FitOptions { likelihood: Some(LikelihoodKind::GaussianHeteroskedastic), ..base.clone() },
        FitOptions { objective: ObjectiveKind::DlmLog, ..base.clone() },
        FitOptions { objective: ObjectiveKind::DlmSquare, ..base.clone() },
        FitOptions { estimator: Estimator::Price { samples: 3 }, ..base.clone() },
        FitOptions { hyper: Some(Hyper::Alternating), ..base.clone() },
    ] {
        let found = error(&options);
        assert!(
            found < 1.1 * closed,
            "{} {}: {found} instead of {closed}",
            options.objective,
            options.estimator
        );
    }
}

#[test]
fn updates_by_new_rows_equal_a_fit_to_all_rows() {
    let (x, y) = crossed(8, 300, (0.8, 0.4));
    let effects = vec![EffectTerm::intercepts("a", 30, 0), EffectTerm::intercepts("b", 20, 1)];
    let hyper = Some(Hyper::Fixed);
    let base = FitOptions { effects, inducing: Some(10), hyper, standardize: false, ..FitOptions::default() };
    for (neighbours, inducing) in [(None, 10), (Some(4), 5)] {
        let options = FitOptions { neighbours, inducing: Some(inducing), ..base.clone() };
        // The hyper-parameters and inducing inputs of the first rows stay.
        let first = fit(&options, x.subrows(0, 200), &y[..200]);
        let rows = Dataset::of(x.subrows(200, 100), &y[200..]);
        let mut listener = |_: &Event| {};
        let updated = update(&first, rows, 0.0, &mut Session::new(&mut listener)).expect("an update");
        let start = Start::from_model(&first, &options, None, false);
        let data = TrainingData::of(Dataset::of(x.as_ref(), &y));
        let all = fit_arrays(data, &options, Some(&start), &mut listener).expect("a fit");
        let want = all.posterior.marginals(x.as_ref());
        let got = updated.posterior().marginals(x.as_ref());
        // Rows given neighbours depend on the order of the rows.
        let tolerance = if neighbours.is_some() { 0.05 } else { 1e-7 };
        for i in 0..300 {
            assert!(
                (got.mean[i] - want.mean[i]).abs() < tolerance,
                "mean {i}: {} {}",
                got.mean[i],
                want.mean[i]
            );
            assert!((got.variance[i] - want.variance[i]).abs() < tolerance, "variance {i}");
        }
    }
}

#[test]
fn options_that_cannot_be_combined_are_refused_in_one_line() {
    let (x, y) = crossed(9, 100, (0.5, 0.2));
    let base = FitOptions {
        effects: vec![EffectTerm::intercepts("a", 30, 0), EffectTerm::intercepts("b", 20, 1)],
        ..FitOptions::default()
    };
    let glm = FitOptions { model: ModelKind::Glm, ..base.clone() };
    let refused = [
        (FitOptions { hyper: Some(Hyper::Dual), ..base.clone() }, "hyper"),
        (FitOptions { prior_variance: 2.0, ..glm.clone() }, "prior_variance"),
        (FitOptions { reml: true, likelihood: Some(LikelihoodKind::StudentT), ..glm.clone() }, "reml"),
        (FitOptions { reml: true, beta: 0.5, ..glm.clone() }, "reml"),
        (FitOptions { reml: true, effects: Vec::new(), ..glm }, "reml"),
    ];
    for (options, name) in refused {
        let error = ModelBuilder::new().options(options).fit(x.as_ref(), &y).err().expect(name);
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(error.options().contains(&name.to_owned()), "{name}: {error}");
    }
    let bad = Mat::from_fn(100, 3, |i, j| if (i, j) == (4, 1) { 30.0 } else { x[(i, j)] });
    let error = ModelBuilder::new().options(base).fit(bad.as_ref(), &y).err().expect("no such level");
    assert!(error.kind() == ErrorKind::Data && error.to_string().contains("row 4"), "{error}");
}
