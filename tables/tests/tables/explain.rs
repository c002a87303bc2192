//! Explanations against slow loops: permutation over all pairs of rows, partial dependence by
//! direct predictions, Shapley values over all subsets.

use super::common::*;
use sparsegp::functions::normal;

fn fit(options: &FitOptions, x: MatRef<'_, f64>, y: &[f64]) -> Model {
    Fit::of(options.clone()).fit(x, y).expect("a fit")
}

/// Returns deterministic inputs that look random, one row per datum.
fn inputs(rows: usize, dims: usize) -> Mat<f64> {
    Mat::from_fn(rows, dims, |i, d| ((i * (2 * d + 3) * 7919 + 31 * d * d) % 1009) as f64 / 200.0)
}

/// Returns a target that depends on the first input and on the product of the next two only.
fn target(x: &Mat<f64>) -> Vec<f64> {
    let noise = |i: usize| 0.05 * ((i * 37 % 11) as f64 - 5.0);
    (0..x.nrows()).map(|i| 3.0 + 2.0 * x[(i, 0)].sin() + 0.3 * x[(i, 1)] * x[(i, 2)] + noise(i)).collect()
}

fn with_kernel(x: &Mat<f64>, y: &[f64], kernel: &str) -> Model {
    let options = FitOptions { kernel: kernel.into(), ..small(20, 15) };
    fit(&options, x.as_ref(), y)
}

fn rows_of<'a>(x: &'a Mat<f64>, targets: &'a [f64]) -> Rows<'a> {
    Rows { x: x.as_ref(), exposure: &[], targets, other_ends: &[] }
}

fn means(model: &Model, x: MatRef<'_, f64>) -> Vec<f64> {
    let predictions = model.predict(x, &[]).expect("predictions");
    (0..predictions.rows()).map(|row| predictions.row(row).mean).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found}, expected {expected}");
}

#[test]
fn permuting_with_all_other_rows_gives_the_mean_over_all_pairs() {
    let x = inputs(25, 4);
    let y = target(&x);
    let model = with_kernel(&x, &y, "rbf(ard)");
    let settings = Settings { repeats: 24, ..Settings::default() };
    let rows = rows_of(&x, &y);
    let found = Explainer::of_inputs(&model).relevance(rows, &settings);
    assert!(found.windows(2).all(|pair| increase(&pair[0]) >= increase(&pair[1])), "sorted");

    let loss =
        |row: &Mat<f64>, y: f64| -model.predict(row.as_ref(), &[]).expect("a prediction").log_density(0, y);
    for Relevance { column, permutation, .. } in &found {
        let of_row = |i: usize| {
            let own = Mat::from_fn(1, 4, |_, d| x[(i, d)]);
            let before = loss(&own, y[i]);
            let with = |k: usize| Mat::from_fn(1, 4, |_, d| x[(if d == *column { k } else { i }, d)]);
            let others = (0..25).filter(|&k| k != i).map(|k| loss(&with(k), y[i]) - before);
            others.sum::<f64>() / 24.0
        };
        let increases: Vec<f64> = (0..25).map(of_row).collect();
        let variance = increases.iter().map(|value| (value - mean(&increases)).powi(2)).sum::<f64>() / 24.0;
        let permutation = permutation.expect("permuted");
        close(permutation.mean, mean(&increases));
        close(permutation.error, (variance / 25.0).sqrt());
    }
    // The relevance of a column that does not affect the target is 0 within its error.
    let idle = found.iter().find(|relevance| relevance.column == 3).expect("the column");
    assert!(increase(idle) < 0.2 * increase(&found[0]));
}

/// The loss of a censored row is −log P(Y > y) of a normal prediction.
#[test]
fn permuting_counts_censored_rows_by_what_is_known_of_them() {
    let (x, rows) = (inputs(24, 2), 24);
    let y: Vec<f64> = target(&Mat::from_fn(rows, 4, |i, d| if d < 2 { x[(i, d)] } else { 0.0 }));
    let other_ends: Vec<f64> = (0..rows).map(|i| if i % 3 == 0 { f64::INFINITY } else { f64::NAN }).collect();
    let options =
        FitOptions { likelihood: Some("gaussian-censored".parse().expect("a name")), ..small(5, 10) };
    let model = Fit::of(options).other_ends(&other_ends).fit(x.as_ref(), &y).expect("a fit");
    let settings = Settings { repeats: rows - 1, ..Settings::default() };
    let data = Rows { other_ends: &other_ends, ..rows_of(&x, &y) };
    let found = Explainer::of_inputs(&model).relevance(data, &settings);
    let loss = |row: &Mat<f64>, i: usize| {
        let predictions = model.predict(row.as_ref(), &[]).expect("a prediction");
        let Prediction { mean, variance, .. } = predictions.row(0);
        match other_ends[i].is_nan() {
            true => -predictions.log_density(0, y[i]),
            false => -normal::cdf((mean - y[i]) / variance.sqrt()).ln(),
        }
    };
    for Relevance { column, permutation, .. } in &found {
        let with = |i: usize, k: usize| {
            loss(&Mat::from_fn(1, 2, |_, d| x[(if d == *column { k } else { i }, d)]), i)
        };
        let of_row = |i: usize| (0..rows).map(|k| with(i, k) - with(i, i)).sum::<f64>() / (rows - 1) as f64;
        let expected = mean(&(0..rows).map(of_row).collect::<Vec<_>>());
        let found = permutation.expect("permuted").mean;
        assert!((found - expected).abs() < 1e-7 * expected.abs(), "{found}, expected {expected}");
    }
}

fn increase(relevance: &Relevance) -> f64 {
    relevance.permutation.expect("permuted").mean
}

#[test]
fn partial_dependence_is_the_mean_of_direct_predictions() {
    let x = inputs(30, 3);
    let y = target(&x);
    let model = with_kernel(&x, &y, "matern52(ard)");
    let rows = rows_of(&x, &y);
    let found = Explainer::of_inputs(&model).dependence(1, rows, &Settings::default());
    assert_eq!((found.rows, found.settings.len(), found.curves.len()), (30, 25, 1));
    assert_eq!(found.curves[0].scale, Scale::Mean);
    for (setting, point) in found.settings.iter().zip(&found.curves[0].points) {
        let moved = Mat::from_fn(30, 3, |i, d| if d == 1 { setting.value } else { x[(i, d)] });
        close(point.0, mean(&means(&model, moved.as_ref())));
        let (_, covariance) = model.joint(moved.as_ref()).expect("a covariance");
        let half = 1.959963984540054 * covariance.sum().sqrt() / 30.0;
        assert!((point.1 - (point.0 - half)).abs() < 1e-7 && (point.2 - (point.0 + half)).abs() < 1e-7);
    }
    // If there are at most 25 distinct values, all of them are settings.
    let coarse = Mat::from_fn(30, 3, |i, d| if d == 0 { (i % 24) as f64 } else { x[(i, d)] });
    let rows = rows_of(&coarse, &y);
    let found = Explainer::of_inputs(&model).dependence(0, rows, &Settings::default());
    let values: Vec<f64> = found.settings.iter().map(|setting| setting.value).collect();
    assert_eq!(values, (0..24).map(f64::from).collect::<Vec<_>>());
}

#[test]
fn dependence_follows_the_most_probable_of_many_classes() {
    let classes = 9;
    let x = inputs(150, 2);
    // Higher classes have more rows.
    let y: Vec<f64> = (0..150).map(|i| f64::from(((i % 81) as f64).sqrt() as u32)).collect();
    let options = FitOptions { likelihood: Some(LikelihoodKind::Softmax), ..small(15, 3) };
    let model = fit(&options, x.as_ref(), &y);
    let rows = rows_of(&x, &y);
    let settings = Settings { classes: 3, background: 20, ..Settings::default() };
    let explainer = Explainer::of_inputs(&model);
    let found = explainer.dependence(0, rows, &settings);
    let all = explainer.dependence(0, rows, &Settings { classes, ..settings });
    assert_eq!(
        (found.curves.len(), found.left_out, all.curves.len(), all.left_out),
        (3, classes - 3, classes, 0)
    );
    let mean_of = |curve: &sparsegp_tables::explain::Curve| {
        mean(&curve.points.iter().map(|point| point.0).collect::<Vec<_>>())
    };
    // Each curve belongs to its class, and the curves of all classes add up to 1.
    for curve in &found.curves {
        let of_all = all.curves.iter().find(|other| other.scale == curve.scale).expect("its class");
        curve.points.iter().zip(&of_all.points).for_each(|(a, b)| {
            close(a.0, b.0);
            assert!(a.1 <= a.0 && a.0 <= a.2, "{a:?}");
        });
    }
    for setting in 0..all.settings.len() {
        let sum: f64 = all.curves.iter().map(|curve| curve.points[setting].0).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    }
    let shown: f64 = found.curves.iter().map(mean_of).sum();
    assert!(shown > 1.5 * 3.0 / classes as f64, "{shown}");
}

/// Returns the Shapley values of a row over all subsets of the columns and all rows of the background.
fn shapley(model: &Model, row: &[f64], background: &Mat<f64>) -> Vec<f64> {
    let (n, dims) = (background.nrows(), row.len());
    let value = |set: usize| {
        let points =
            Mat::from_fn(n, dims, |i, d| if set >> d & 1 == 1 { row[d] } else { background[(i, d)] });
        mean(&means(model, points.as_ref()))
    };
    let values: Vec<f64> = (0..1 << dims).map(value).collect();
    let factorial = |k: usize| (1..=k).product::<usize>() as f64;
    let of_column = |d: usize| {
        let without = (0..1usize << dims).filter(|set| set >> d & 1 == 0);
        let term = |set: usize| {
            let size = set.count_ones() as usize;
            let weight = factorial(size) * factorial(dims - size - 1) / factorial(dims);
            weight * (values[set | 1 << d] - values[set])
        };
        without.map(term).sum()
    };
    (0..dims).map(of_column).collect()
}

#[test]
fn sampled_orders_estimate_shapley_values_and_add_up_exactly() {
    let x = inputs(20, 3);
    let y = target(&x);
    let model = with_kernel(&x, &y, "rbf(ard)");
    let background = rows_of(&x, &[]);
    let explainer = Explainer::of_inputs(&model);
    for orders in [1, 7, 2000] {
        let settings = Settings { orders, ..Settings::default() };
        let rows = x.as_ref().subrows(3, 2);
        for (index, found) in explainer.contributions(rows, &[], background, &settings).iter().enumerate() {
            let total: f64 = found.parts.iter().map(|part| part.value).sum();
            close(found.base + total, found.prediction);
            close(found.prediction, means(&model, rows)[index]);
            if orders < 2000 {
                continue;
            }
            close(found.base, mean(&means(&model, x.as_ref())));
            let row: Vec<f64> = rows.row(index).iter().copied().collect();
            for (part, expected) in found.parts.iter().zip(shapley(&model, &row, &x)) {
                let error = part.error.expect("sampled");
                assert!((part.value - expected).abs() < 4.0 * error, "{} ± {error}, {expected}", part.value);
                assert!(error < 0.1);
            }
        }
    }
}

#[test]
fn terms_of_additive_models_are_exact() {
    let x = inputs(40, 3);
    let y = target(&x);
    let linear = FitOptions { model: ModelKind::Glm, ..FitOptions::default() };
    let linear = fit(&linear, x.as_ref(), &y);
    let models = [
        with_kernel(&x, &y, "rbf[0] + matern32[1] + constant + rbf[2]"),
        with_kernel(&x, &y, "additive(order=1)"),
        linear,
    ];
    for model in &models {
        let (row, background) = (x.as_ref().subrows(5, 1), rows_of(&x, &[]));
        let found = Explainer::of_inputs(model).contributions(row, &[], background, &Settings::default());
        let [found] = &found[..] else { panic!("one row") };
        assert_eq!((found.scale, found.parts.len()), (Scale::Mean, 3));
        // The effect of one column on the prediction, which does not depend on the other columns.
        let alone = |d: usize, value: f64| {
            let point = Mat::from_fn(1, 3, |_, k| if k == d { value } else { 1.0 });
            means(model, point.as_ref())[0]
        };
        for (d, part) in found.parts.iter().enumerate() {
            let around: Vec<f64> = (0..40).map(|i| alone(d, x[(i, d)])).collect();
            close(part.value, alone(d, x[(5, d)]) - mean(&around));
            assert_eq!(part.error, None);
        }
        close(found.base, mean(&means(model, x.as_ref())));
    }
    // Terms with the same columns are joined, and a term of two columns has both names.
    let model = with_kernel(&x, &y, "rbf[0] + linear[0] + rbf[1:3]");
    let background = rows_of(&x, &[]);
    let found = Explainer::of_inputs(&model).contributions(x.as_ref(), &[], background, &Settings::default());
    let names: Vec<&str> = found[0].parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["x0", "x1 × x2"]);
}
