//! Offsets of tables: equal to exposures and to shifted targets, kept by updates, files and continued fits, and left alone by explanations.

use super::common::*;

/// Returns a number in [0, 1) that looks random.
fn uniform(row: usize, k: usize) -> f64 {
    ((row * k + 1) as f64 * 0.618_034 + k as f64 * 0.414_214).fract()
}

/// Returns rows with a position, an exposure `e` and its logarithm, an offset `o` in units of the target, `y` with the offset, `rest` without
/// it, a count whose rate has the exposure as a factor, a class, and `log_e` raised by 2.
fn rows(range: std::ops::Range<usize>) -> Table {
    let mut columns: Vec<(&str, Vec<f64>)> =
        ["x", "e", "log_e", "o", "y", "rest", "count", "class", "raised"]
            .map(|name| (name, Vec::new()))
            .into();
    for row in range {
        let (x, e) = (6.0 * uniform(row, 1), 0.2 + 4.0 * uniform(row, 7));
        let (o, rest) = (40.0 * uniform(row, 3) - 90.0, 5.0 * x.sin() + uniform(row, 5));
        let count = (e * (0.7 * x.sin() + 0.8).exp() + 2.0 * uniform(row, 11) - 1.0).round().max(0.0);
        let class = f64::from(u8::from(x.sin() + e.ln() + uniform(row, 13) > 0.5));
        let values = [x, e, e.ln(), o, rest + o, rest, count, class, e.ln() + 2.0];
        columns.iter_mut().zip(values).for_each(|(column, value)| column.1.push(value));
    }
    numbers(columns)
}

fn cells(table: &Table, name: &str) -> Vec<f64> {
    match table.column(name) {
        Some(Column::Number(values)) => values.clone(),
        _ => panic!("{name} is no column of numbers"),
    }
}

/// The roles of columns: one input, and the others only as named.
fn columns(target: &str, offset: &[&str], exposure: Option<&str>) -> SchemaOptions {
    SchemaOptions {
        target: target.into(),
        features: Some(vec!["x".into()]),
        offset: offset.iter().map(|name| (*name).to_owned()).collect(),
        exposure: exposure.map(str::to_owned),
        ..SchemaOptions::default()
    }
}

fn of_likelihood(likelihood: LikelihoodKind) -> FitOptions {
    FitOptions { likelihood: Some(likelihood), ..small(8, 60) }
}

/// Returns a number for every row of predictions.
fn all(predictions: &Predictions, of_row: impl Fn(&Predictions, usize) -> f64) -> Vec<f64> {
    (0..predictions.rows()).map(|row| of_row(predictions, row)).collect()
}

fn assert_near(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len());
    for (row, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{what}, row {row}: {got} {want}");
    }
}

#[test]
fn the_logarithm_of_an_exposure_as_offset_is_the_exposure() {
    let (train, test) = (rows(0..150), rows(150..190));
    let counts = cells(&test, "count");
    for model in [ModelKind::Glm, ModelKind::Gp] {
        let inducing = Some(8).filter(|_| model == ModelKind::Gp);
        let options = FitOptions { model, inducing, ..of_likelihood(LikelihoodKind::Poisson) };
        let exposed = fit(&train, &columns("count", &[], Some("e")), &options).expect("a fit");
        let raised = fit(&train, &columns("count", &["log_e"], None), &options).expect("a fit");
        let [want, got] = [&exposed, &raised].map(|model| {
            let predictions = model.predict(&test, UnseenLevels::Error).expect("predictions");
            let densities =
                counts.iter().enumerate().map(|(row, count)| predictions.log_density(row, *count));
            [densities.collect(), all(&predictions, |all, row| all.row(row).mean)]
        });
        assert_near(&got[0], &want[0], 1e-6, "log densities");
        assert_near(&got[1], &want[1], 1e-6, "means");
        // The latent function of exposures lacks their logarithms, that of offsets has them.
        let ignoring = fit(&train, &columns("count", &[], None), &options).expect("a fit");
        let predictions = ignoring.predict(&test, UnseenLevels::Error).expect("predictions");
        let worse = counts.iter().enumerate().map(|(row, count)| predictions.log_density(row, *count));
        assert!(worse.sum::<f64>() < got[0].iter().sum::<f64>() - 5.0, "the offset matters");
    }
}

#[test]
fn an_offset_of_gaussian_targets_is_subtracted_in_training_and_added_to_predictions() {
    let (train, test) = (rows(0..150), rows(150..190));
    let offsets = cells(&test, "o");
    // Without scaling both fits are the same in the same units. Otherwise y has another scale, so only their optimum is.
    for (standardize, tolerance) in [(false, 1e-7), (true, 2e-3)] {
        let options = FitOptions { standardize, ..of_likelihood(LikelihoodKind::Gaussian) };
        let raised = fit(&train, &columns("y", &["o"], None), &options).expect("a fit");
        let plain = fit(&train, &columns("rest", &[], None), &options).expect("a fit");
        let got = raised.predict(&test, UnseenLevels::Error).expect("predictions");
        let want = plain.predict(&test, UnseenLevels::Error).expect("predictions");
        let added = |mut values: Vec<f64>| {
            values.iter_mut().zip(&offsets).for_each(|(value, offset)| *value += offset);
            values
        };
        let mean = |all: &Predictions, row| all.row(row).mean;
        let low = |all: &Predictions, row| all.quantile(row, 0.05);
        let variance = |all: &Predictions, row| all.row(row).variance;
        assert_near(&all(&got, mean), &added(all(&want, mean)), tolerance, "means");
        assert_near(&all(&got, low), &added(all(&want, low)), tolerance, "quantiles");
        assert_near(&all(&got, variance), &all(&want, variance), 10.0 * tolerance, "variances");
    }
}

#[test]
fn a_likelihood_needs_as_many_offsets_as_functions() {
    let train = rows(0..60);
    for (target, offset, likelihood) in [
        ("y", &["o", "log_e"][..], LikelihoodKind::Gaussian),
        ("y", &["o"], LikelihoodKind::GaussianHeteroskedastic),
    ] {
        let found = fit(&train, &columns(target, offset, None), &of_likelihood(likelihood));
        let error = found.err().expect("another number of offsets").to_string();
        assert!(error.contains("offset") && !error.contains('\n'), "{error}");
    }
    // One for the mean and one for the logarithm of the noise.
    let options = FitOptions { epochs: Some(3), ..of_likelihood(LikelihoodKind::GaussianHeteroskedastic) };
    fit(&train, &columns("y", &["o", "log_e"], None), &options).expect("two offsets");
}

#[test]
fn offsets_are_refused_with_trees_of_warped_targets_and_with_shared_outputs() {
    let train = rows(0..150);
    let warped = FitOptions { warp_target: TargetWarp::Log, mean: MeanKind::Trees, ..small(6, 2) };
    let error = fit(&train, &columns("e", &["log_e"], None), &warped).err().expect("a warp").to_string();
    assert!(error.contains("offset") && error.contains("trees"), "{error}");
    let targets = ["y".to_owned(), "rest".to_owned()];
    let (columns, options) = (columns("y", &["o"], None), small(6, 2));
    for sharing in [Sharing::Kernel, Sharing::Processes(1)] {
        let request = OutputsRequest {
            table: &train,
            columns: &columns,
            targets: &targets,
            options: &options,
            test_fraction: 0.0,
            sharing: Some(sharing),
            start: None,
        };
        let error =
            fit_outputs_in(&request, &mut Session::new(&mut |_| {})).err().expect("shared").to_string();
        assert!(error.contains("cannot be combined") && error.contains("offset"), "{error}");
    }
}

/// Trees of counts with an offset equal trees with an exposure, and trees of numbers with an offset equal trees of the differences.
#[test]
fn trees_see_the_offsets() {
    let train = rows(0..150);
    let forest = |target: &str, offset: &[&str], exposure: Option<&str>, likelihood| {
        let options = FitOptions { mean: MeanKind::Trees, epochs: Some(2), ..of_likelihood(likelihood) };
        let model = fit(&train, &columns(target, offset, exposure), &options).expect("a fit");
        let mut x =
            Mat::from_fn(40, model.schema().dims(), |i, d| if d == 0 { 0.15 * i as f64 } else { 0.0 });
        model.schema().write_trees(x.as_mut());
        let score: Vec<f64> = x.col(1).iter().copied().collect();
        assert!(score.iter().any(|value| (value - score[0]).abs() > 0.05), "the trees split");
        score
    };
    let [raised, exposed] = [(&["log_e"][..], None), (&[][..], Some("e"))]
        .map(|(offset, exposure)| forest("count", offset, exposure, LikelihoodKind::Poisson));
    assert_near(&raised, &exposed, 1e-6, "log rates");
    let [raised, plain] = [("y", &["o"][..]), ("rest", &[][..])]
        .map(|(target, offset)| forest(target, offset, None, LikelihoodKind::Gaussian));
    assert_near(&raised, &plain, 1e-9, "means");
    // A constant part of an offset changes the constant part of the scores alone.
    let [low, high] =
        ["log_e", "raised"].map(|offset| forest("class", &[offset], None, LikelihoodKind::BernoulliLogit));
    let moved: Vec<f64> = high.iter().map(|score| score + 2.0).collect();
    assert_near(&moved, &low, 1e-6, "log odds");
    let ignoring = forest("class", &[], None, LikelihoodKind::BernoulliLogit);
    assert!(low.iter().zip(&ignoring).any(|(a, b)| (a - b).abs() > 0.2), "the offset matters");
}

#[test]
fn files_updates_and_continued_fits_keep_the_offsets() {
    let (train, more, test) = (rows(0..100), rows(100..150), rows(150..170));
    let options = of_likelihood(LikelihoodKind::Gaussian);
    let model = fit(&train, &columns("y", &["o"], None), &options).expect("a fit");
    let model = read_back(&model, &test);
    assert_eq!(model.schema().offset_names(), ["o"]);
    let without = test.columns().iter().filter(|named| named.name != "o").cloned().collect();
    let without = Table::new("new.csv", without).expect("a table");
    let error = model.predict(&without, UnseenLevels::New).expect_err("no offset").to_string();
    assert_eq!(error.lines().next(), Some("new.csv: there is no column named 'o'"));
    // With Gaussian noise and fixed hyper-parameters, an update gives the posterior of all rows. The offset shifts the targets of both.
    let updated = model.updated(&more, 0.0, &mut Session::new(&mut |_| {})).expect("an update");
    let fixed = FitOptions { hyper: Some(Hyper::Fixed), ..FitOptions::default() };
    let whole = fit_from(&rows(0..150), &target("y"), &fixed, Some(&model)).expect("a fit from the model");
    assert_eq!(whole.schema().offset_names(), ["o"]);
    let mean = |model: &TableModel| {
        all(&model.predict(&test, UnseenLevels::Error).expect("predictions"), |all, row| all.row(row).mean)
    };
    assert_near(&mean(&updated), &mean(&whole), 1e-6, "means");
    let moved = mean(&updated).iter().zip(mean(&model)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(moved > 1e-4, "the update changes the predictions");
}

#[test]
fn explanations_leave_offsets_at_the_value_of_each_row() {
    let train = rows(0..120);
    let settings = Settings { orders: 20, ..Settings::default() };
    for (name, offset, likelihood) in [
        ("y", "o", LikelihoodKind::Gaussian),
        ("y", "o", LikelihoodKind::StudentT),
        ("count", "log_e", LikelihoodKind::Poisson),
        ("class", "log_e", LikelihoodKind::BernoulliLogit),
    ] {
        for kernel in ["rbf[0] + rbf[1]", "rbf(ard)"] {
            let features = Some(vec!["x".into(), "e".into()]);
            let columns = SchemaOptions { features, ..columns(name, &[offset], None) };
            let options = FitOptions { kernel: kernel.into(), ..of_likelihood(likelihood) };
            let model = fit(&train, &columns, &options).expect("a fit");
            let explainer = Explainer::of_table(&model);
            let names: Vec<&str> = explainer.columns().iter().map(|column| column.name.as_str()).collect();
            assert_eq!(names, ["x", "e"]);
            let rows = model.rows(&train, UnseenLevels::Error).expect("rows");
            let background =
                Rows { x: rows.inputs(), exposure: &[], targets: &rows.targets, other_ends: &[] };
            let x = rows.inputs().subrows(0, 3);
            for (row, found) in explainer.contributions(x, &[], background, &settings).iter().enumerate() {
                // Around the background rows with the offset of the explained row.
                let offset = x[(row, 2)];
                let around = Mat::from_fn(120, 3, |i, d| if d == 2 { offset } else { background.x[(i, d)] });
                let predictions = model.predict_rows(around.as_ref(), Vec::new());
                let value = |all: &Predictions, row| match found.scale {
                    Scale::Latent => all.latent(row, 0).0,
                    Scale::Mean | Scale::Probability(_) => all.row(row).mean,
                };
                let base = all(&predictions, value).iter().sum::<f64>() / 120.0;
                let own = value(&model.predict_rows(x.subrows(row, 1), Vec::new()), 0);
                assert_near(&[found.prediction], &[own], 1e-9, "the prediction");
                // Shapley values draw background rows for each order.
                let tolerance = if kernel.contains('+') { 1e-9 } else { f64::INFINITY };
                assert_near(&[found.base], &[base], tolerance, "the base");
                let sum = found.base + found.parts.iter().map(|part| part.value).sum::<f64>();
                assert_near(&[sum], &[own], 1e-9, "the sum of all parts");
            }
            let relevance = explainer.relevance(background, &settings);
            assert!(relevance.iter().all(|relevance| relevance.permutation.is_some()));
            let dependence = explainer.dependence(0, background, &settings);
            assert!(dependence.curves[0].points.iter().all(|point| point.0.is_finite()));
        }
    }
}
