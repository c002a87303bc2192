//! Options and data that fits refuse before any work, with an error of one line.

use super::common::*;

fn refused(
    data: TrainingData<'_>,
    options: &FitOptions,
    start: Option<&Start>,
    kind: ErrorKind,
    words: &str,
) {
    let Err(error) = fit_arrays(data, options, start, &mut |_| {}) else { panic!("accepted {options:?}") };
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    assert!(text.contains(words) && !text.contains('\n'), "{words:?} in {text}");
}

fn invalid(x: MatRef<'_, f64>, y: &[f64], cases: impl IntoIterator<Item = (FitOptions, &'static str)>) {
    for (options, words) in cases {
        refused(TrainingData::of(Dataset::of(x, y)), &options, None, ErrorKind::Usage, words);
    }
}

#[test]
fn options_that_grouped_effects_do_not_support() {
    let (points, y) = data(9, 1, 100);
    let code = |i: usize, j: usize| if j == 1 { i % 30 } else { i / 5 } as f64;
    let x = Mat::from_fn(100, 3, |i, j| if j == 0 { points[(0, i)] } else { code(i, j) });
    let base = FitOptions { effects: crossed_intercepts(30, 20), ..FitOptions::default() };
    let with = |likelihood| FitOptions { likelihood: Some(likelihood), ..base.clone() };
    let glm = FitOptions { model: ModelKind::Glm, ..base.clone() };
    let cases = [
        (FitOptions { hyper: Some(Hyper::Dual), ..base.clone() }, "hyper"),
        (FitOptions { prior_variance: 2.0, ..glm.clone() }, "prior_variance"),
        (FitOptions { reml: true, model: ModelKind::Glm, ..with(LikelihoodKind::StudentT) }, "reml"),
        (FitOptions { reml: true, beta: 0.5, ..glm.clone() }, "reml"),
        (FitOptions { reml: true, effects: Vec::new(), ..glm }, "reml"),
    ];
    invalid(x.as_ref(), &y, cases);
    let bad = Mat::from_fn(100, 3, |i, j| if (i, j) == (4, 1) { 30.0 } else { x[(i, j)] });
    let rows = TrainingData::of(Dataset::of(bad.as_ref(), &y));
    refused(rows, &base, None, ErrorKind::Data, "row 4");
}

#[test]
fn shapes_that_differ() {
    let ((x, y), (wide, _)) = (data(11, 2, 30), data(11, 3, 30));
    let (base, train) = (FitOptions::default(), Dataset::of(x.transpose(), &y));
    let short = TrainingData::of(Dataset::of(x.transpose(), &y[..29]));
    refused(short, &base, None, ErrorKind::Data, "");
    let validation = Some(Dataset::of(wide.transpose(), &y));
    refused(TrainingData { validation, ..TrainingData::of(train) }, &base, None, ErrorKind::Data, "");
    let quick = FitOptions { epochs: Some(1), objective: ObjectiveKind::Vfe, ..base.clone() };
    let other = TrainingData::of(Dataset::of(wide.transpose(), &y));
    let model = fit_arrays(other, &quick, None, &mut |_| {}).expect("fit").model;
    let start = Start { model, q: None };
    refused(TrainingData::of(train), &base, Some(&start), ErrorKind::Data, "");
}
