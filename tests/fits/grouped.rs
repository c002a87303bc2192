//! Fits with grouped effects: recovery with and without Gaussian noise, singular fits, model files, new levels.

use super::common::*;

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

#[test]
fn effects_with_every_kind_of_noise_are_recovered_and_kept_in_a_model_file() {
    let (x, eta) = crossed(15, 900, (0.8, 0.4));
    let eta: Vec<f64> = eta.iter().map(|y| y - 9.7).collect();
    for (kind, model) in [
        (LikelihoodKind::BernoulliProbit, ModelKind::Gp),
        (LikelihoodKind::Poisson, ModelKind::Glm),
        (LikelihoodKind::StudentT, ModelKind::Gp),
    ] {
        let y = drawn(kind, &eta, 31);
        let inducing = (model == ModelKind::Gp).then_some(15);
        let effects = crossed_intercepts(30, 20);
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

        let what = format!("{kind}, {model}");
        assert_kept(&fitted, x.as_ref());
        check_levels(&fitted, |a| Mat::from_fn(1, 3, |_, j| [0.4, a, 4.0][j]), &what);
    }
}

#[test]
fn effects_that_do_not_exist_end_at_a_standard_deviation_of_zero() {
    let (x, y) = crossed(7, 600, (0.0, 0.4));
    for reml in [false, true] {
        let options = FitOptions { reml, ..linear(crossed_intercepts(30, 20)) };
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
fn updates_by_new_rows_equal_a_fit_to_all_rows() {
    let (x, y) = crossed(8, 300, (0.8, 0.4));
    let effects = crossed_intercepts(30, 20);
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
        let near = |got: &[f64], want: &[f64]| got.iter().zip(want).all(|(a, b)| (a - b).abs() < tolerance);
        assert!(near(&got.mean, &want.mean), "means {:?} {:?}", got.mean, want.mean);
        assert!(near(&got.variance, &want.variance), "variances {:?} {:?}", got.variance, want.variance);
    }
}

/// A fit of several functions without options ends near the best that longer steps on mini-batches reach.
#[test]
fn classes_with_groups_are_trained_to_their_optimum_by_default() {
    let (x, y) = crossed(8, 400, (0.9, 0.5));
    // Three classes of different centres and widths.
    let classes: Vec<f64> =
        y.iter().map(|y| f64::from(u8::from(*y > 9.6)) + f64::from(u8::from(*y > 10.8))).collect();
    let effects = crossed_intercepts(30, 20);
    let options = FitOptions {
        likelihood: Some(LikelihoodKind::Softmax),
        effects,
        inducing: Some(20),
        ..FitOptions::default()
    };
    let objective = |options: &FitOptions| fit(options, x.as_ref(), &classes).summary().objective;
    let joint = FitOptions { hyper: Some(Hyper::Joint), epochs: Some(1000), ..options.clone() };
    let (by_default, long) = (objective(&options), objective(&joint));
    assert!(by_default < long + 0.02, "{by_default}, by 1000 epochs {long}");
}
