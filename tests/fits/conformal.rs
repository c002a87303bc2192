//! Conformal calibration: MAPIE's intervals, coverage in simulation, counts and groups, invariance, and the model file.

use crate::common::*;
use serde_json::Value;
use sparsegp::likelihood::functions::normal;
use sparsegp_testkit::compare::assert_all_close;

/// Returns a linear model of these rows whose noise variance is fixed, on the scale of the rows.
fn linear(x: &Mat<f64>, y: &[f64], likelihood: impl Into<ObservationModel>) -> Model {
    let fixed = |options: &mut FitOptions| options.hyper = Some(Hyper::Fixed);
    Fit::new(Linear::default(), likelihood).with(fixed).fit(x, y).expect("a fit")
}

/// Calibrates a model by rows that it was fitted without.
fn calibrate(model: &mut Model, x: &Mat<f64>, y: &[f64]) {
    let scores = model.predict(x, &[]).expect("predictions").conformal_scores(y);
    model.calibrate(x.as_ref(), scores);
}

/// `benches/peers/conformal.py` writes the reference.
#[test]
fn intervals_of_standardised_residuals_are_those_of_mapie() {
    let file: Value = serde_json::from_str(include_str!("../reference/conformal.json")).expect("JSON");
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().expect("an array").iter().filter_map(Value::as_f64).collect()
    };
    let column = |name: &str| Mat::from_fn(numbers(&file[name]).len(), 1, |i, _| numbers(&file[name])[i]);
    let number = |name: &str| file[name].as_f64().expect("a number");
    let (x, kernel) = (column("x"), Stationary::rbf(number("variance"), &[number("lengthscale")]));
    let options = |options: &mut FitOptions| {
        (options.hyper, options.mean, options.standardize) = (Some(Hyper::Fixed), MeanKind::Zero, false);
        (options.fix_inducing, options.jitter) = (true, Jitter::Absolute(1e-11));
    };
    let gp = Inducing::new(kernel).points(Points::Given(x.clone()));
    let fit = Fit::new(gp, Gaussian::new(number("noise"))).objective(ObjectiveKind::Vfe).with(options);
    let mut model = fit.fit(&x, &numbers(&file["y"])).expect("a fit");
    let held = model.predict(column("x_held"), &[]).expect("predictions");
    assert_all_close(
        &held.conformal_scores(&numbers(&file["y_held"])),
        &numbers(&file["scores"]),
        1e-7,
        "scores",
    );
    calibrate(&mut model, &column("x_held"), &numbers(&file["y_held"]));
    let new = model.predict(column("x_new"), &[]).expect("predictions");
    for (index, level) in numbers(&file["levels"]).into_iter().enumerate() {
        for (end, p) in [("lower", 0.5 - 0.5 * level), ("upper", 0.5 + 0.5 * level)] {
            let rows = file[end].as_array().expect("rows").iter();
            let wanted: Vec<f64> = rows.map(|row| numbers(row)[index]).collect();
            assert_all_close(&new.quantiles(p), &wanted, 1e-7, &format!("{end} ends, {level}"));
        }
    }
}

/// Draws small data sets whose noise is five times larger than the model's, and returns the shares of new rows inside 80 % and 95 % intervals
/// without and with calibration by 39 rows.
fn coverages(
    draw: impl Fn(&mut Normals, f64) -> f64,
    likelihood: &dyn Fn() -> ObservationModel,
) -> [[f64; 2]; 2] {
    const DRAWS: usize = 400;
    let (mut normals, mut inside) = (Normals::new(5), [[0.0; 2]; 2]);
    for _ in 0..DRAWS {
        let mut rows = |count: usize| {
            let x = normals.mat(count, 1);
            let y: Vec<f64> = (0..count).map(|row| draw(&mut normals, x[(row, 0)])).collect();
            (x, y)
        };
        let ((x, y), (x_held, y_held), (x_new, y_new)) = (rows(20), rows(39), rows(10));
        let mut model = linear(&x, &y, likelihood());
        for of_model in &mut inside {
            let report = model.predict(&x_new, &[]).expect("predictions").report(&y_new);
            let coverage = report.coverage.expect("coverage");
            let found = [coverage.central_80, coverage.central_95];
            of_model
                .iter_mut()
                .zip(found)
                .for_each(|(sum, share)| *sum += share.expect("a share") / DRAWS as f64);
            calibrate(&mut model, &x_held, &y_held);
        }
    }
    inside
}

/// The mean over draws of the coverage given 39 scores has the standard deviation of a beta variable, and of 10 new rows.
fn assert_covers(found: [[f64; 2]; 2], discrete: bool) {
    for (index, level) in [0.8, 0.95].into_iter().enumerate() {
        let spread = (level * (1.0 - level) * (1.0 / 41.0 + 0.1) / 400.0_f64).sqrt();
        let [without, with] = [found[0][index], found[1][index]];
        assert!(without < level - 0.1, "{level}: {without} without calibration");
        assert!(with > level - 2.0 * spread, "{level}: {with}");
        // At most one rank of 40 too many, unless targets are whole numbers.
        assert!(discrete || with < level + 1.0 / 40.0 + 3.0 * spread, "{level}: {with}");
    }
}

#[test]
fn intervals_of_a_misspecified_model_cover_with_calibration_alone() {
    let gaussian = || ObservationModel::from(Gaussian::new(0.01));
    assert_covers(coverages(|normals, x| x + 2.0 * normals.next() * (0.3 + 0.2 * x.abs()), &gaussian), false);
    // Counts with far more spread than Poisson counts; many scores are beyond the largest representable probability.
    let poisson = || ObservationModel::from(Poisson::Exp);
    assert_covers(
        coverages(|normals, x| (4.0 + 0.3 * x + 1.2 * normals.next()).exp().round(), &poisson),
        true,
    );
}

/// An interval contains a count exactly if its score is at most k, also at the scores themselves.
#[test]
fn intervals_of_counts_contain_the_targets_whose_scores_are_small_enough() {
    let x = Mat::from_fn(60, 1, |i, _| (i as f64 * 0.7).sin());
    let y: Vec<f64> =
        (0..60).map(|i| (1.0 + x[(i, 0)] + 0.9 * (i as f64 * 2.1).sin()).exp().round()).collect();
    let mut model = linear(&x, &y, Poisson::Exp);
    calibrate(&mut model, &x, &y);
    let mut sorted = model.predict(&x, &[]).expect("predictions").conformal_scores(&y);
    sorted.sort_by(f64::total_cmp);
    // A count at the median is inside every interval.
    assert!(sorted[0] < 0.0, "{sorted:?}");
    let read = Model::from_bytes("copy", &model.to_bytes().expect("bytes")).expect("a model");
    let (own, again) = (model.predict(&x, &[]), read.predict(&x, &[]));
    assert_eq!(own.expect("predictions").quantiles(0.9), again.expect("predictions").quantiles(0.9));
    let counts: Vec<f64> = (0..40).map(f64::from).collect();
    for row in (0..60).step_by(7) {
        let same = model.predict(Mat::from_fn(40, 1, |_, _| x[(row, 0)]), &[]).expect("predictions");
        let scores = same.conformal_scores(&counts);
        for rank in [12, 30, 50, 58] {
            let half = 0.5 - 0.5 * rank as f64 / 61.0;
            let interval = same.quantile(0, half)..=same.quantile(0, 1.0 - half);
            for (count, score) in counts.iter().zip(&scores) {
                let inside = *score <= sorted[rank - 1] + 1e-9;
                assert_eq!(interval.contains(count), inside, "rank {rank}, row {row}, {count}: {score}");
            }
        }
    }
}

#[test]
fn shift_and_scale_of_the_target_move_intervals_and_nothing_else() {
    let x = Mat::from_fn(50, 1, |i, _| (i as f64 * 0.37).sin());
    let y: Vec<f64> = (0..50).map(|i| x[(i, 0)] + (i as f64 * 1.9).cos().powi(3)).collect();
    let moved: Vec<f64> = y.iter().map(|y| 1000.0 - 40.0 * y).collect();
    let mut models =
        [linear(&x, &y, Gaussian::new(0.002)), linear(&x, &moved, Gaussian::new(0.002 * 1600.0))];
    let plain = models[0].predict(&x, &[]).expect("predictions");
    calibrate(&mut models[0], &x, &y);
    calibrate(&mut models[1], &x, &moved);
    let [here, there] = models.map(|model| model.predict(&x, &[]).expect("predictions"));
    let mut wide = 0;
    for (row, p) in (0..50).flat_map(|row| [0.01, 0.1, 0.5, 0.9, 0.999].map(|p| (row, p))) {
        let (own, other) = (here.quantile(row, p), (1000.0 - there.quantile(row, 1.0 - p)) / 40.0);
        assert!((own - other).abs() < 1e-7, "row {row}, {p}: {own} {other}");
        wide += usize::from((own - plain.quantile(row, p)).abs() > 0.1);
    }
    assert_eq!(wide, 200, "all quantiles except medians");
    // Means, variances, densities and CRPS are those of the model.
    assert_eq!((here.row(7), here.log_density(7, 0.3)), (plain.row(7), plain.log_density(7, 0.3)));
    assert_eq!(here.crps(7, 0.3), plain.crps(7, 0.3));
}

/// The noise of the first of three groups is ten times larger; the last has fewer than 19 scores.
#[test]
fn groups_with_enough_scores_have_their_own_and_files_keep_them() {
    let x =
        Mat::from_fn(
            120,
            2,
            |i, d| if d == 0 { (i as f64 * 0.37).sin() } else { [0, 1, 0, 1, 2][i % 5] as f64 },
        );
    let noise = |i: usize| (i as f64 * 1.9).cos() * if x[(i, 1)] == 0.0 { 1.0 } else { 0.1 };
    let y: Vec<f64> = (0..120).map(|i| x[(i, 0)] + noise(i)).collect();
    let grouped = |options: &mut FitOptions| options.hyper = Some(Hyper::Fixed);
    let fit = Fit::new(Linear::default(), Gaussian::new(0.1)).with(grouped);
    let mut model = fit.group(EffectTerm::intercepts("g", 3, 0)).fit(&x, &y).expect("a fit");
    let held: Vec<usize> = (0..80).collect();
    let x_held = Mat::from_fn(80, 2, |i, d| x[(held[i], d)]);
    calibrate(&mut model, &x_held, &y[..80]);
    let scores = model.conformal().expect("scores");
    assert_eq!((scores.count(), scores.levels(), scores.is_enough()), (80, 2, true));
    // The fourth level is new.
    let new = Mat::from_fn(4, 2, |i, d| if d == 0 { 0.2 } else { i as f64 });
    let width = |of: &Predictions, row: usize| {
        (of.quantile(row, 0.95) - of.quantile(row, 0.05)) / of.row(row).variance.sqrt()
    };
    let predictions = model.predict(&new, &[]).expect("predictions");
    let widths: Vec<f64> = (0..4).map(|row| width(&predictions, row)).collect();
    assert!(widths[0] > 5.0 * widths[1] && widths[1] < widths[2], "{widths:?}");
    assert!((widths[2] - widths[3]).abs() < 1e-9, "all scores: {widths:?}");

    let bytes = model.to_bytes().expect("bytes");
    let again = Model::from_bytes("a", &bytes).expect("a model");
    assert_eq!(again.conformal(), model.conformal());
    assert_eq!(again.predict(&new, &[]).expect("predictions").quantiles(0.9), predictions.quantiles(0.9));
}

#[test]
fn few_scores_are_continued_as_for_a_normal_distribution() {
    let x = Mat::from_fn(30, 1, |i, _| (i as f64 * 0.37).sin());
    let y: Vec<f64> = (0..30).map(|i| x[(i, 0)] + (i as f64 * 1.9).cos()).collect();
    let mut model = linear(&x, &y, Gaussian::new(0.5));
    let x_few = Mat::from_fn(9, 1, |i, _| x[(i, 0)]);
    calibrate(&mut model, &x_few, &y[..9]);
    let (predictions, plain) =
        (model.predict(&x, &[]).expect("predictions"), linear(&x, &y, Gaussian::new(0.5)));
    let mut scores = plain.predict(&x_few, &[]).expect("predictions").conformal_scores(&y[..9]);
    scores.sort_by(f64::total_cmp);
    let row = predictions.row(3);
    let k = |p: f64| (predictions.quantile(3, p) - row.mean) / row.variance.sqrt();
    // 9 of 10 is the last interval that the scores allow: the largest score.
    assert!((k(0.95) - scores[8]).abs() < 1e-7);
    assert!((k(0.975) - scores[8] * normal::quantile(0.975) / normal::quantile(0.95)).abs() < 1e-7);
    assert!(!model.conformal().expect("scores").is_enough());
}
