//! Fits to arrays in the user's units: equality with fits to tables, custom training loops, bad arrays, any
//! strides, files.

use super::common::{fit, numbers, target};
use faer::{Mat, MatRef};
use sparsegp_tables::prelude::*;

/// A smooth function of two inputs in odd units with some noise, `n` rows.
fn rows(n: usize) -> (Mat<f64>, Vec<f64>) {
    let x = Mat::from_fn(n, 2, |i, j| {
        if j == 0 { 1e3 + (i as f64 * 0.618).fract() } else { (i as f64 * 0.414).fract() * 1e-3 }
    });
    let noise = |i: usize| ((i as f64 * 12.9898).sin() * 43758.5453).fract();
    let y = (0..n).map(|i| 50.0 + 7.0 * (6.0 * x[(i, 0)]).sin() + 3e3 * x[(i, 1)] + noise(i)).collect();
    (x, y)
}

fn small() -> FitOptions {
    FitOptions {
        hyper: Some(Hyper::Joint),
        inducing: Some(12),
        epochs: Some(6),
        tolerance: Some(0.0),
        warm_start: 5,
        steps: StepOptions { batch_size: 40, ..StepOptions::default() },
        ..FitOptions::default()
    }
}

fn bits(model: &Model) -> Vec<u64> {
    let mut numbers = model.latent().natural();
    numbers.extend_from_slice(model.q().mean());
    model.q().cov().to_dense().col_iter().for_each(|column| numbers.extend(column.iter()));
    numbers.into_iter().map(f64::to_bits).collect()
}

#[test]
fn arrays_give_the_model_that_a_table_of_them_gives() {
    let (x, y) = rows(120);
    let column = |d: usize| x.col(d).iter().copied().collect();
    let table = numbers([("a", column(0)), ("b", column(1)), ("y", y.clone())]);
    for options in
        [small(), FitOptions { objective: ObjectiveKind::DlmLog, ..small() }, FitOptions::default()]
    {
        let of_table = fit(&table, &target("y"), &options).expect("a fit");
        let of_arrays = ModelBuilder::new().options(options).fit(x.as_ref(), &y).expect("a fit");
        assert_eq!(bits(&of_arrays), bits(&of_table));
        let predictions = of_arrays.predict(x.as_ref(), &[]).expect("predictions");
        let mean_error = (0..120).map(|i| (predictions.row(i).mean - y[i]).abs()).sum::<f64>() / 120.0;
        assert!(mean_error < 1.5, "{mean_error}");
        // Both files hold the model, but only the file of the table model has columns.
        let file = of_table.to_bytes().expect("bytes");
        assert_eq!(bits(&Model::from_bytes("m", &file).expect("a model")), bits(&of_table));
        let file = of_arrays.to_bytes().expect("bytes");
        let again = Model::from_bytes("m", &file).expect("a model");
        assert_eq!(bits(&again), bits(&of_arrays));
        assert_eq!(again.predict(x.as_ref(), &[]).expect("predictions").row(3), predictions.row(3));
        let error = TableModel::from_bytes("m", &file).map(|_| ()).expect_err("no columns");
        assert!(error.to_string().contains("m: the model was fitted to arrays"), "{error}");
    }
}

#[test]
fn a_custom_loop_of_epochs_equals_the_loop_of_fit() {
    let (x, y) = rows(120);
    let is_send = |_: &dyn Send| {};
    for options in [
        small(),
        FitOptions { hyper: Some(Hyper::Dual), ..small() },
        FitOptions { objective: ObjectiveKind::DlmLog, ..small() },
    ] {
        let builder = ModelBuilder::new().options(options);
        let whole = builder.fit(x.as_ref(), &y).expect("a fit");
        let mut trainer = builder.trainer(x.as_ref(), &y).expect("a trainer");
        is_send(&trainer);
        let mut state = Vec::new();
        for epoch in 0..6 {
            if epoch == 3 {
                state = trainer.state();
            }
            let record = trainer.epoch().expect("an epoch");
            assert_eq!(record.objective, whole.summary().trace[epoch].objective, "epoch {epoch}");
        }
        assert_eq!(trainer.steps(), 18);
        assert_eq!(bits(&trainer.finish().expect("a model")), bits(&whole));

        // The state brings a trainer that took other steps to the same end, even on another thread.
        let mut other = builder.trainer(x.as_ref(), &y).expect("a trainer");
        other.step(x.subrows(10, 7), &y[10..17]).expect("a step");
        other.restore(&state).expect("the state");
        let resumed = std::thread::spawn(move || {
            for _ in 0..3 {
                other.epoch().expect("an epoch");
            }
            other.finish().expect("a model")
        });
        assert_eq!(bits(&resumed.join().expect("no panic")), bits(&whole));

        let mut damaged = builder.trainer(x.as_ref(), &y).expect("a trainer");
        assert!(damaged.restore(&state[..state.len() - 1]).is_err());
        let error = builder.trainer(x.as_ref(), &y).expect("a trainer").step(x.subrows(0, 2), &y[..3]);
        assert!(error.is_err_and(|error| error.to_string().contains("2 rows × 2 columns for 3 targets")));
    }
    let vfe = FitOptions { objective: ObjectiveKind::Vfe, inducing: Some(12), ..FitOptions::default() };
    let error = ModelBuilder::new().options(vfe).trainer(x.as_ref(), &y).map(|_| ()).expect_err("no batches");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn bad_arrays_are_refused_in_one_line_with_the_position() {
    let (x, y) = rows(30);
    let refused = |builder: ModelBuilder, x: &Mat<f64>, y: &[f64], words: &str| {
        let error = builder.fit(x.as_ref(), y).map(|_| ()).expect_err(words);
        let text = error.to_string();
        assert!(text.contains(words) && !text.contains('\n'), "{text}");
    };
    let counts = || {
        let likelihood = Some(LikelihoodKind::Poisson);
        ModelBuilder::new().options(FitOptions { likelihood, ..FitOptions::default() })
    };
    let mut bad = y.clone();
    bad[7] = f64::NAN;
    refused(ModelBuilder::new(), &x, &bad, "the training targets have NaN in row 7");
    bad[7] = -1.0;
    bad.iter_mut().enumerate().filter(|(i, _)| *i != 7).for_each(|(i, y)| *y = (i % 3) as f64);
    refused(counts(), &x, &bad, "have -1 in row 7, counted from 0, expected a whole number, 0 or more");
    bad[7] = 2.0;
    refused(counts().exposure(&[1.0; 29]), &x, &bad, "there are 29 exposures for 30 training targets");
    refused(ModelBuilder::new().weights(&[1.0]), &x, &y, "there are 1 weights for 30");
    refused(ModelBuilder::new().weights(&[0.0; 30]), &x, &y, "weights have 0 in row 0");
    refused(ModelBuilder::new(), &x, &[1.0; 30], "are the same");
    refused(ModelBuilder::new(), &x, &y[1..], "30 rows × 2 columns for 29 targets");
    refused(ModelBuilder::new().validation(x.subcols(0, 1), &y), &x, &y, "the validation inputs");
    let mut holes = x.clone();
    holes[(4, 1)] = f64::INFINITY;
    refused(ModelBuilder::new(), &holes, &y, "inf in row 4, column 1");
    let model = ModelBuilder::new().options(small()).fit(x.as_ref(), &y).expect("a fit");
    for (words, error) in [
        ("1 columns, expected 2", model.predict(x.subcols(0, 1), &[]).map(|_| ())),
        ("inf in row 4", model.predict(holes.as_ref(), &[]).map(|_| ())),
        ("3 exposures for 30", model.predict(x.as_ref(), &[1.0; 3]).map(|_| ())),
    ] {
        let error = error.expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// Checks that `numbers` returns the same values for rows in row-major order, in column-major order, and
/// backwards in memory.
fn in_any_strides(what: &str, rows: MatRef<'_, f64>, numbers: impl Fn(MatRef<'_, f64>) -> Vec<f64>) {
    let (n, d) = rows.shape();
    let by_row = rows.transpose().to_owned();
    let by_column = rows.to_owned();
    let backwards = Mat::from_fn(n, d, |i, j| rows[(n - 1 - i, d - 1 - j)]);
    let bits = |x| numbers(x).into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let want = bits(by_row.transpose());
    assert!(!want.is_empty() && want.iter().all(|&bits| f64::from_bits(bits).is_finite()), "{what}");
    assert_eq!(bits(by_column.as_ref()), want, "{what}, column-major");
    assert_eq!(bits(backwards.as_ref().reverse_rows_and_cols()), want, "{what}, backwards");
}

#[test]
fn arrays_of_any_strides_give_the_same_fits() {
    let (x, y) = rows(120);
    let options = FitOptions { validation_fraction: 0.0, ..small() };
    in_any_strides("fit and predict", x.as_ref(), |x| {
        let builder = ModelBuilder::new().options(options.clone()).validation(x, &y);
        let fitted = builder.fit(x, &y).expect("a fit");
        let latent = fitted.predict(x, &[]).expect("predictions").row(7);
        let samples = fitted.samples(x.subrows(0, 5), 2, 1).expect("samples");
        let trainer = builder.trainer(x, &y);
        let mut trainer = trainer.expect("a trainer");
        let step = trainer.step(x.subrows(3, 20), &y[3..23]).expect("a step");
        let mut numbers = fitted.latent().natural();
        numbers.extend([latent.mean, latent.variance, step]);
        numbers.extend(samples.concat());
        numbers
    });
}

#[test]
fn joint_moments_are_those_of_every_row_and_of_the_draws() {
    let (x, y) = rows(80);
    let model = ModelBuilder::new().options(small()).fit(x.as_ref(), &y).expect("a fit");
    let new = x.as_ref().subrows(0, 6);
    let (mean, covariance) = model.joint(new).expect("few rows");
    let predictions = model.predict(new, &[]).expect("inputs of the model");
    for (row, mean) in mean.iter().enumerate() {
        let at = predictions.row(row);
        assert!((mean - at.latent_mean).abs() <= 1e-9 * at.latent_mean.abs());
        assert!((covariance[(row, row)] - at.latent_variance).abs() <= 1e-7 * at.latent_variance);
    }
    let draws = model.samples(new, 4000, 1).expect("draws");
    let product = |draw: &Vec<f64>| (draw[0] - mean[0]) * (draw[1] - mean[1]);
    let found = draws.iter().map(product).sum::<f64>() / draws.len() as f64;
    let spread = (covariance[(0, 0)] * covariance[(1, 1)]).sqrt();
    assert!((found - covariance[(0, 1)]).abs() < 0.1 * spread, "{found} and {}", covariance[(0, 1)]);
}
