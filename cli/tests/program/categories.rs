//! Categories as one input each: the exact GP, one-hot codes, unseen, rare and missing levels.

use super::awkward::csv;
use faer::Mat;
use sparsegp::kernels::Dimension;
use sparsegp::model::Model;
use sparsegp::options::{FitOptions, Hyper, MeanKind};
use sparsegp::training::Fit;
use sparsegp_tables::schema::{SchemaOptions, UnseenLevels};
use sparsegp_tables::tabular::{FitRequest, TableModel, fit_table};
use sparsegp_testkit::dense::dense_gp;
use sparsegp_testkit::program::{Work, csv_text};

const LEVELS: usize = 6;

/// Returns inputs (a number, a code and another number) and a target that depends on all of them.
fn data(n: usize) -> (Mat<f64>, Vec<f64>) {
    let number = |i: usize, step: usize| ((i * step) as f64 * 0.618_034).fract() * 3.0;
    let x = Mat::from_fn(n, 3, |i, d| if d == 1 { (i * 5 % LEVELS) as f64 } else { number(i, 7 + 4 * d) });
    let effect = [0.0, 1.5, -1.0, 0.4, 2.2, -0.7];
    let y = |i: usize| {
        x[(i, 0)].sin() + effect[x[(i, 1)] as usize] + 0.3 * x[(i, 2)] + 0.1 * (1.7 * i as f64).sin()
    };
    let y = (0..n).map(y).collect();
    (x, y)
}

fn options() -> FitOptions {
    let dimensions = vec![Dimension::Number, Dimension::Category { levels: LEVELS }, Dimension::Number];
    FitOptions { kernel: "matern32(ard)".into(), dimensions, mean: MeanKind::Zero, ..FitOptions::default() }
}

fn fitted(options: FitOptions, x: &Mat<f64>, y: &[f64]) -> Model {
    Fit::of(options).fit(x.as_ref(), y).expect("a fit")
}

/// Returns the mean and variance of the target for each new row under the exact GP with the hyper-parameters of a model.
fn exact(model: &Model, (x, y): (&Mat<f64>, &[f64]), new: &Mat<f64>) -> Vec<(f64, f64)> {
    let scaling = model.scaling();
    let [x, new] = [x, new].map(|x| {
        let mut x = x.clone();
        scaling.scale_inputs(x.as_mut());
        x.transpose().to_owned()
    });
    let mut y = y.to_vec();
    scaling.scale_target(&mut y);
    let layer = model.latent().layer().inducing().expect("a sparse GP");
    let noise = model.latent().likelihood.gaussian_noise().expect("a noise");
    let (_, means, variances) = dense_gp(layer.kernel(), 0.0, noise, (&x, &y), &new);
    let moments = means.into_iter().zip(variances);
    moments.map(|(mean, v)| (scaling.unscale_mean(mean), scaling.unscale_variance(v + noise))).collect()
}

#[test]
fn all_neighbours_are_the_exact_gp_and_unseen_levels_fall_back_to_the_population() {
    let (x, y) = data(80);
    let all = FitOptions { neighbours: Some(80), inducing: Some(4), epochs: Some(5), ..options() };
    let model = fitted(all, &x, &y);
    // Known levels, and a level that training did not see. The last three rows differ in their level.
    let number = |i: usize, d: usize| if i < 12 { 0.2 + 0.2 * (i + d) as f64 } else { 1.0 };
    let level = |i: usize| if i < 12 { [0.0, 3.0, 9.0][i % 3] } else { [0.0, 4.0, 9.0][i - 12] };
    let new = Mat::from_fn(15, 3, |i, d| if d == 1 { level(i) } else { number(i, d) });
    let predictions = model.predict(new.as_ref(), &[]).expect("predictions");
    for (row, (mean, variance)) in exact(&model, (&x, &y), &new).iter().enumerate() {
        let found = predictions.row(row);
        assert!((found.mean - mean).abs() < 1e-3, "row {row}: {} and {mean}", found.mean);
        assert!((found.variance / variance - 1.0).abs() < 1e-2, "row {row}");
    }
    // The row with the unseen level is the most uncertain, and its mean is between the others.
    let [known, other, unseen] = [12, 13, 14].map(|row| predictions.row(row));
    assert!(unseen.variance > 2.0 * known.variance.max(other.variance));
    assert!(known.mean < unseen.mean && unseen.mean < other.mean);
}

#[test]
fn inducing_inputs_have_codes_of_rows_and_stay_there() {
    let (x, y) = data(200);
    // A code with a rounding error, which means of some numbers of codes have, is not the code of any level.
    for (hyper, m) in [(Hyper::Collapsed, 20), (Hyper::Joint, 20), (Hyper::Collapsed, 47), (Hyper::Joint, 98)]
    {
        let how = FitOptions { inducing: Some(m), hyper: Some(hyper), epochs: Some(5), ..options() };
        let model = fitted(how, &x, &y);
        let z = model.latent().layer().inducing().expect("a sparse GP").z();
        assert_eq!(z.nrows(), m);
        assert!((0..m).all(|i| (0..LEVELS).any(|level| z[(i, 1)] == level as f64)), "{z:?}");
        assert!((0..m).any(|i| z[(i, 1)] != z[(0, 1)]));
        // Codes are unchanged; numbers are standardised.
        assert_eq!(model.scaling().inputs[1].apply(3.0), 3.0);
        assert!(model.scaling().inputs[0].shift != 0.0);
        let again = Model::from_bytes("again", &model.to_bytes().expect("bytes")).expect("a model");
        let layer = again.latent().layer().inducing().expect("a sparse GP");
        assert_eq!(layer.kernel().dimensions(), options().dimensions);
    }
}

/// Returns `rows` rows with a number, a city with `levels` levels, and a target. With `gaps` every seventh city is missing.
fn cities(rows: usize, levels: usize, gaps: bool) -> String {
    csv_text("a,city,y", 0..rows, |i| {
        let (a, level) = (((i * 13) % 97) as f64 / 30.0, (i * 31) % levels);
        let city = if gaps && i.is_multiple_of(7) { String::new() } else { format!("city {level}") };
        format!("{a},{city},{}", a.sin() + (level % 5) as f64 + 0.05 * (i % 3) as f64)
    })
}

#[test]
fn tables_with_any_number_of_levels_are_fitted_and_predict_levels_they_never_saw() {
    let columns = SchemaOptions { target: "y".into(), keep: vec!["city".into()], ..SchemaOptions::default() };
    let (kernel, epochs, inducing) = ("matern32(ard)".into(), Some(5), Some(30));
    let options = FitOptions { kernel, epochs, inducing, ..FitOptions::default() };
    // A level that is known, two that are not, and a missing cell.
    let new = csv("a,city\n1,city 3\n1,nowhere\n1,elsewhere\n1,\n");
    for (rows, levels, gaps) in [(886, 670, false), (150, 12, true), (200, 199, false), (160, 100, true)] {
        let table = csv(&cities(rows, levels, gaps));
        let model =
            fit_table(&FitRequest::new(&table, &columns, &options), &mut |_| ()).expect("a fit").model;
        assert_eq!(model.inputs(), 2, "one input for the number and one for the city");
        let rows = |model: &TableModel| {
            let predictions = model.predict(&new, UnseenLevels::New).expect("predictions");
            [0, 1, 2, 3].map(|row| predictions.row(row))
        };
        let [known, nowhere, elsewhere, missing] = rows(&model);
        let is_valid = |mean: f64, variance: f64| mean.is_finite() && variance > 0.0;
        assert!([&known, &nowhere, &missing].iter().all(|row| is_valid(row.mean, row.variance)));
        assert_eq!((nowhere.mean, nowhere.variance), (elsewhere.mean, elsewhere.variance));
        // Missing cells are a level of their own if training had some.
        assert_eq!(gaps, missing.mean != nowhere.mean);
        assert!(nowhere.variance >= known.variance);
        let found = model.schema().unseen_levels(&new).expect("levels");
        assert_eq!((found[0].rows, found[0].levels.len()), if gaps { (2, 2) } else { (3, 3) });
        let again = TableModel::from_bytes("again", &model.to_bytes().expect("bytes")).expect("a model");
        assert_eq!(rows(&again), [known, nowhere, elsewhere, missing], "the same bits from a file");
        assert!(model.predict(&new, UnseenLevels::Error).is_err());
    }
}

#[test]
fn every_command_takes_levels_that_training_did_not_see_with_one_warning() {
    let work = Work::with("train.csv", cities(150, 12, false));
    work.write("test.csv", "a,city,y\n1,city 3,3.8\n1.5,Rome,2\n2,Oslo,1\n0.5,Rome,1\n1,Bonn,2\n1,Bern,3\n");
    let told = "test.csv: levels that do not occur in the training data: 'city' (5 rows, such as 'Rome', 'Oslo', 'Bonn')";
    for command in [
        "fit train.csv --target y --epochs 3 --inducing 20 --test test.csv --model-out m",
        "predict m test.csv --out p.csv",
        "evaluate m test.csv",
        "explain m test.csv",
        "update m test.csv --model-out n",
        // A linear model has an input for every known level, and none for unseen levels.
        "fit train.csv --target y --epochs 3 --model glm --test test.csv",
    ] {
        let run = work.run(command).ok();
        assert_eq!(run.stderr().matches(told).count(), 1, "{command}: {}", run.stderr());
    }
    work.run("evaluate m test.csv --unseen error").fails(3, &["expected a category seen in training"]);
}
