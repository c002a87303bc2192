//! Fits with grouped effects and neighbours: recovery, model files, new levels, every kind of
//! likelihood, refusals.

use faer::{Mat, MatRef};
use sparsegp::ErrorKind;
use sparsegp::effects::{EffectTerm, POPULATION};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::Model;
use sparsegp::options::{FitOptions, ObjectiveKind};
use sparsegp::training::ModelBuilder;
use sparsegp_testkit::problems::Normals;

/// Returns two inputs followed by the codes of two crossed groupings, and targets: rough waves that
/// few inducing inputs cannot follow, plus effects.
fn data(n: usize) -> (Mat<f64>, Vec<f64>) {
    let mut normals = Normals::new(4);
    let (a, b) = (normals.vec(40), normals.vec(15));
    let x = Mat::from_fn(n, 4, |i, j| match j {
        0 | 1 => ((i * (7 + 4 * j)) as f64 * 0.618_034).fract() * 10.0,
        2 => ((7 * i + i / 11) % 40) as f64,
        _ => ((3 * i + i / 7) % 15) as f64,
    });
    let latent = |i: usize| (2.5 * x[(i, 0)]).sin() + (2.0 * x[(i, 1)]).cos();
    let effects = |i: usize| 0.8 * a[x[(i, 2)] as usize] + 0.4 * b[x[(i, 3)] as usize];
    let y = (0..n).map(|i| 5.0 + latent(i) + effects(i) + 0.3 * normals.next()).collect();
    (x, y)
}

fn options(neighbours: Option<usize>) -> FitOptions {
    let effects = vec![EffectTerm::intercepts("a", 40, 0), EffectTerm::intercepts("b", 15, 1)];
    FitOptions {
        kernel: "matern52(ard)".into(),
        effects,
        inducing: Some(20),
        neighbours,
        ..FitOptions::default()
    }
}

fn fit(options: FitOptions, x: MatRef<'_, f64>, y: &[f64]) -> Model {
    ModelBuilder::new().options(options).fit(x, y).expect("a fit")
}

/// Returns the root mean squared error of predicted means.
fn error(model: &Model, x: MatRef<'_, f64>, y: &[f64]) -> f64 {
    let predictions = model.predict(x, &[]).expect("predictions");
    let squares = y.iter().enumerate().map(|(i, y)| (predictions.row(i).mean - y).powi(2));
    (squares.sum::<f64>() / y.len() as f64).sqrt()
}

#[test]
fn neighbours_fit_the_residual_of_inducing_inputs_and_effects_their_variances() {
    let (x, y) = data(2000);
    let (train, test) = (x.as_ref().subrows(0, 1500), x.as_ref().subrows(1500, 500));
    let model = fit(options(Some(15)), train, &y[..1500]);
    let components = model.variance_components();
    for (component, sd) in components.iter().zip([0.8, 0.4]) {
        let [low, high] = component.interval.expect("an interval");
        assert!(low < component.sd && component.sd < high && low < sd && sd < high, "{component:?}");
    }
    let [low, high] = model.residual_interval().expect("an interval of the noise");
    assert!(low < 0.3 && 0.3 < high, "{low} to {high}");
    let without = fit(options(None), train, &y[..1500]);
    let (beside, alone) = (error(&model, test, &y[1500..]), error(&without, test, &y[1500..]));
    assert!(beside < 0.36 && beside < 0.6 * alone, "{beside} and {alone}");

    // A known level has less variance than a new one, and the population has no variance of
    // effects.
    let at = |a: f64| Mat::from_fn(1, 4, |_, j| [4.2, 3.3, a, 4.0][j]);
    let [known, new, population] = [at(3.0), at(77.0), at(POPULATION)]
        .map(|x| model.predict(x.as_ref(), &[]).expect("predictions").row(0));
    assert_eq!(new.latent_mean, population.latent_mean);
    let added = new.latent_variance - population.latent_variance;
    assert!((added / components[0].sd.powi(2) - 1.0).abs() < 1e-9, "{added}");
    assert!(known.latent_variance < new.latent_variance);

    let bytes = model.to_bytes().expect("a model file");
    let again = Model::from_bytes("model", &bytes).expect("a model");
    let [found, expected] = [&again, &model].map(|model| model.predict(test, &[]).expect("predictions"));
    assert!((0..500).all(|i| found.row(i) == expected.row(i)));
    assert_eq!(again.level_effects(), model.level_effects());
}

/// Hyper-parameters come from a part of the levels, and all levels have estimates.
#[test]
fn many_levels_are_trained_on_a_part_of_them() {
    let (n, levels) = (33_000, 2200);
    let mut normals = Normals::new(9);
    let b = normals.vec(levels);
    let x = Mat::from_fn(n, 2, |i, j| match j {
        0 => (i as f64 * 0.618_034).fract() * 20.0,
        _ => (i * 7 % levels) as f64,
    });
    let y: Vec<f64> =
        (0..n).map(|i| (1.5 * x[(i, 0)]).sin() + 0.8 * b[i * 7 % levels] + 0.5 * normals.next()).collect();
    let options = FitOptions {
        kernel: "matern32".into(),
        effects: vec![EffectTerm::intercepts("g", levels, 0)],
        inducing: Some(5),
        neighbours: Some(4),
        epochs: Some(4),
        ..FitOptions::default()
    };
    let model = fit(options, x.as_ref(), &y);
    // With 1500 levels in training the standard error of the standard deviation is 0.8 / √3000.
    let drawn = (b.iter().map(|b| b * b).sum::<f64>() / levels as f64).sqrt();
    let sd = model.variance_components()[0].sd;
    assert!((sd / (0.8 * drawn) - 1.0).abs() < 0.06, "{sd}, drawn {}", 0.8 * drawn);
    let noise = model.residual_deviation().expect("Gaussian noise");
    assert!((noise - 0.5).abs() < 0.02, "{noise}");
    // 15 rows of each level leave an error of 0.5 / √15.
    let effects = model.level_effects();
    assert_eq!(effects.len(), levels);
    let mean = b.iter().sum::<f64>() / levels as f64;
    let squares = effects.iter().zip(&b).map(|(effect, b)| (effect.estimate - 0.8 * (b - mean)).powi(2));
    let error = (squares.sum::<f64>() / levels as f64).sqrt();
    assert!(error < 0.16, "{error}");
}

#[test]
fn counts_and_direct_losses_allow_effects_with_neighbours() {
    let (x, y) = data(900);
    let (train, test) = (x.as_ref().subrows(0, 700), x.as_ref().subrows(700, 200));
    let direct = fit(FitOptions { objective: ObjectiveKind::DlmLog, ..options(Some(10)) }, train, &y[..700]);
    assert!(error(&direct, test, &y[700..]) < 0.45);
    assert!(direct.variance_components()[0].interval.is_none());

    let mut normals = Normals::new(9);
    let counts: Vec<f64> =
        y.iter().map(|y| ((0.5 * (y - 4.0)).exp() + 0.3 * normals.next()).round().max(0.0)).collect();
    let poisson = |effects| {
        let likelihood = Some(LikelihoodKind::Poisson);
        FitOptions { likelihood, effects, ..options(Some(10)) }
    };
    let with = fit(poisson(options(None).effects), train, &counts[..700]);
    let levels = with.level_effects();
    let truth = Normals::new(4).vec(40);
    let own: Vec<f64> = levels.iter().filter(|level| level.term == 0).map(|level| level.estimate).collect();
    let product: f64 = own.iter().zip(&truth).map(|(found, truth)| found * truth).sum();
    let norms = [&own, &truth].map(|values| values.iter().map(|value| value * value).sum::<f64>().sqrt());
    assert!(product / (norms[0] * norms[1]) > 0.8, "levels {product} {norms:?}");
    let without = fit(poisson(Vec::new()), x.as_ref().submatrix(0, 0, 700, 2), &counts[..700]);
    let plain = x.as_ref().submatrix(700, 0, 200, 2);
    let (beside, alone) = (error(&with, test, &counts[700..]), error(&without, plain, &counts[700..]));
    assert!(beside < 0.9 * alone, "{beside} and {alone}");
}

#[test]
fn options_that_cannot_be_combined_are_refused() {
    let (x, y) = data(60);
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Fitc, ObjectiveKind::DlmSquare] {
        let options = FitOptions { objective, ..options(Some(5)) };
        let error =
            ModelBuilder::new().options(options).fit(x.as_ref(), &y).map(|_| ()).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
    let effects = vec![EffectTerm::intercepts("a", 12_001, 0)];
    let error = ModelBuilder::new()
        .options(FitOptions { effects, ..options(Some(5)) })
        .fit(x.as_ref(), &y)
        .map(|_| ())
        .expect_err("too many");
    assert!(error.to_string().contains("12001"), "{error}");
}
