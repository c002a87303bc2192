//! Fits to arrays in the user's units: equality with fits to tables, custom training loops, any strides,
//! files.

use super::common::*;
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

fn joint() -> FitOptions {
    FitOptions {
        hyper: Some(Hyper::Joint),
        tolerance: Some(0.0),
        warm_start: 5,
        steps: batches_of(40),
        ..small(12, 6)
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
        [joint(), FitOptions { objective: ObjectiveKind::DlmLog, ..joint() }, FitOptions::default()]
    {
        let of_table = fit(&table, &target("y"), &options).expect("a fit");
        let of_arrays = Fit::of(options).fit(x.as_ref(), &y).expect("a fit");
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
        joint(),
        FitOptions { hyper: Some(Hyper::Dual), ..joint() },
        FitOptions { objective: ObjectiveKind::DlmLog, ..joint() },
    ] {
        let fit = Fit::of(options);
        let whole = fit.fit(x.as_ref(), &y).expect("a fit");
        let mut trainer = fit.trainer(x.as_ref(), &y).expect("a trainer");
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
        let mut other = fit.trainer(x.as_ref(), &y).expect("a trainer");
        other.step(x.subrows(10, 7), &y[10..17]).expect("a step");
        other.restore(&state).expect("the state");
        let resumed = std::thread::spawn(move || {
            for _ in 0..3 {
                other.epoch().expect("an epoch");
            }
            other.finish().expect("a model")
        });
        assert_eq!(bits(&resumed.join().expect("no panic")), bits(&whole));

        let mut damaged = fit.trainer(x.as_ref(), &y).expect("a trainer");
        assert!(damaged.restore(&state[..state.len() - 1]).is_err());
        let error = fit.trainer(x.as_ref(), &y).expect("a trainer").step(x.subrows(0, 2), &y[..3]);
        assert!(error.is_err_and(|error| error.to_string().contains("2 rows × 2 columns for 3 targets")));
    }
    let vfe = FitOptions { objective: ObjectiveKind::Vfe, inducing: Some(12), ..FitOptions::default() };
    let error = Fit::of(vfe).trainer(x.as_ref(), &y).map(|_| ()).expect_err("no batches");
    assert_eq!(error.exit_code(), 2);
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
    let options = FitOptions { validation_fraction: 0.0, ..joint() };
    in_any_strides("fit and predict", x.as_ref(), |x| {
        let fit = Fit::of(options.clone()).validation(x, &y);
        let fitted = fit.fit(x, &y).expect("a fit");
        let latent = fitted.predict(x, &[]).expect("predictions").row(7);
        let samples = fitted.samples(x.subrows(0, 5), 2, 1).expect("samples");
        let trainer = fit.trainer(x, &y);
        let mut trainer = trainer.expect("a trainer");
        let step = trainer.step(x.subrows(3, 20), &y[3..23]).expect("a step");
        let mut numbers = fitted.latent().natural();
        numbers.extend([latent.mean, latent.variance, step]);
        numbers.extend(samples.concat());
        numbers
    });
}
