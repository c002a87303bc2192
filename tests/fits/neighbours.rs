//! Fits with neighbours, with every kind of noise, and with grouped effects: what inducing inputs cannot represent, model files, choices.

use super::common::*;

/// Returns inputs from 0 to `end`, and the values of waves along them, which ten inducing inputs cannot represent.
fn waves(n: usize, first: usize, end: f64) -> (Mat<f64>, Vec<f64>) {
    let at = |i: usize| ((first + i) as f64 * 0.618_034).fract() * end;
    let x = Mat::from_fn(n, 1, |i, _| at(i));
    (x, (0..n).map(|i| (4.0 * at(i)).sin()).collect())
}

/// Returns a dozen waves around 5 with little noise, and two inputs that determine them.
fn numbers(n: usize, first: usize) -> (Mat<f64>, Vec<f64>) {
    let (at, f) = waves(n, first, 20.0);
    let x = Mat::from_fn(n, 2, |i, d| if d == 0 { at[(i, 0)] } else { (at[(i, 0)] * 0.1).cos() });
    (x, f.iter().enumerate().map(|(i, f)| 5.0 + f + 0.05 * (i as f64 * 2.3).sin()).collect())
}

fn few() -> FitOptions {
    FitOptions { kernel: "matern52(ard)".into(), ..small(10, 10) }
}

fn beside(count: usize) -> FitOptions {
    FitOptions { neighbours: Some(count), ..few() }
}

fn fitted(options: FitOptions) -> Model {
    let (x, y) = numbers(600, 0);
    fit(&options, x.as_ref(), &y)
}

/// Returns the root mean squared error of predicted means.
fn error(model: &Model, x: MatRef<'_, f64>, y: &[f64]) -> f64 {
    model.predict(x, &[]).expect("predictions").report(y).rmse.expect("an RMSE")
}

fn rmse(model: &Model) -> f64 {
    let (x, y) = numbers(300, 5000);
    error(model, x.as_ref(), &y)
}

#[test]
fn fits_with_neighbours_predict_what_inducing_inputs_cannot_and_survive_a_model_file() {
    let model = fitted(beside(15));
    assert!(rmse(&model) < 0.15, "{}", rmse(&model));
    let nearby = model.neighbours().expect("neighbours");
    assert_eq!((nearby.count(), nearby.len(), nearby.bytes()), (15, 600, 600 * 3 * 8));
    let (x, _) = numbers(40, 9000);
    let rows = |model: &Model| {
        let predictions = model.predict(x.as_ref(), &[]).expect("predictions");
        (0..40).map(|row| predictions.row(row)).collect::<Vec<_>>()
    };
    assert_eq!(rows(&model), rows(&reread(&model)));
    // The marginals of the function at many rows together agree with each row's own marginal, although neighbours are shared.
    let draws = reread(&model).samples(x.as_ref(), 400, 1).expect("draws");
    for (row, alone) in rows(&model).iter().enumerate() {
        let mean = draws.iter().map(|draw| draw[row]).sum::<f64>() / 400.0;
        assert!((mean - alone.mean).abs() < 0.1, "row {row}: {mean} and {}", alone.mean);
    }
    let short = fitted(FitOptions { keep_rows: Some(500), keep_single: true, ..beside(15) });
    let nearby = short.neighbours().expect("neighbours");
    assert_eq!((nearby.len(), nearby.bytes()), (500, 500 * 3 * 4));
    assert_eq!(rows(&short), rows(&reread(&short)));
    let [bytes, short] = [&model, &short].map(|model| model.to_bytes().expect("bytes").len());
    assert!(short + 500 * 3 * 4 < bytes);
}

#[test]
fn predictions_given_all_sites_are_those_of_a_gp_with_their_noise_and_survive_a_model_file() {
    let (x, f) = waves(90, 0, 40.0);
    let y: Vec<f64> = f.iter().enumerate().map(|(i, f)| (3.0 + 2.0 * f + (i % 2) as f64).floor()).collect();
    let likelihood = Some(LikelihoodKind::NegativeBinomial);
    let options = FitOptions { hyper: Some(Hyper::Fixed), likelihood, ..beside(90) };
    let model = fit(&options, x.as_ref(), &y);
    let nearby = model.neighbours().expect("neighbours");
    let ((rows, targets), noise) = (nearby.data(), nearby.noise().expect("noise"));
    assert_eq!(nearby.bytes(), 90 * 3 * 8);
    let layer = model.latent().layer().inducing().expect("a layer");
    let mean = layer.mean().values[0];
    let new = Mat::from_fn(30, 1, |i, _| 1.3 * i as f64 / 20.0 - 1.0);
    let v = with_diagonal(gram(layer.kernel(), rows), |i| noise[i]);
    let c: Vec<f64> = targets.iter().map(|y| y - mean).collect();
    let cross = covariances(layer.kernel(), rows, new.as_ref());
    let wanted = conditional(&v, &c, &cross, &gram(layer.kernel(), new.as_ref()));
    let found = model.posterior().marginals(new.as_ref());
    for i in 0..30 {
        assert!((found.mean[i] - mean - wanted.mean[i]).abs() < 1e-7, "{i}: {}", found.mean[i]);
        assert!((found.variance[i] - wanted.covariance[(i, i)]).abs() < 1e-7, "{i}: {}", found.variance[i]);
    }
    assert_eq!(reread(&model).posterior().marginals(new.as_ref()), found);
}

/// Returns two inputs followed by the codes of two crossed groupings, and targets: rough waves that
/// few inducing inputs cannot follow, plus effects.
fn grouped(n: usize) -> (Mat<f64>, Vec<f64>) {
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

fn with_effects(neighbours: Option<usize>) -> FitOptions {
    let effects = crossed_intercepts(40, 15);
    FitOptions {
        kernel: "matern52(ard)".into(),
        effects,
        inducing: Some(20),
        neighbours,
        ..FitOptions::default()
    }
}

#[test]
fn neighbours_fit_the_residual_of_inducing_inputs_and_effects_their_variances() {
    let (x, y) = grouped(1400);
    let (train, test) = (x.as_ref().subrows(0, 1000), x.as_ref().subrows(1000, 400));
    let model = fit(&with_effects(Some(15)), train, &y[..1000]);
    let components = model.variance_components();
    for (component, sd) in components.iter().zip([0.8, 0.4]) {
        let [low, high] = component.interval.expect("an interval");
        assert!(low < component.sd && component.sd < high && low < sd && sd < high, "{component:?}");
    }
    let [low, high] = model.residual_interval().expect("an interval of the noise");
    assert!(low < 0.3 && 0.3 < high, "{low} to {high}");
    let without = fit(&with_effects(None), train, &y[..1000]);
    let (beside, alone) = (error(&model, test, &y[1000..]), error(&without, test, &y[1000..]));
    assert!(beside < 0.36 && beside < 0.6 * alone, "{beside} and {alone}");

    check_levels(&model, |a| Mat::from_fn(1, 4, |_, j| [4.2, 3.3, a, 4.0][j]), "neighbours");
    assert_kept(&model, test);
}

/// Hyper-parameters come from a part of the levels, and all levels have estimates.
#[test]
fn many_levels_are_trained_on_a_part_of_them() {
    let (n, levels) = (12_800, 1600);
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
        neighbours: Some(4),
        ..small(5, 2)
    };
    let model = fit(&options, x.as_ref(), &y);
    // With 1500 levels in training the standard error of the standard deviation is 0.8 / √3000.
    let drawn = (b.iter().map(|b| b * b).sum::<f64>() / levels as f64).sqrt();
    let sd = model.variance_components()[0].sd;
    assert!((sd / (0.8 * drawn) - 1.0).abs() < 0.06, "{sd}, drawn {}", 0.8 * drawn);
    let noise = model.residual_deviation().expect("Gaussian noise");
    assert!((noise - 0.5).abs() < 0.02, "{noise}");
    // 8 rows of each level leave an error of 0.5 / √8.
    let effects = model.level_effects();
    assert_eq!(effects.len(), levels);
    let mean = b.iter().sum::<f64>() / levels as f64;
    let squares = effects.iter().zip(&b).map(|(effect, b)| (effect.estimate - 0.8 * (b - mean)).powi(2));
    let error = (squares.sum::<f64>() / levels as f64).sqrt();
    assert!(error < 0.2, "{error}");
}
