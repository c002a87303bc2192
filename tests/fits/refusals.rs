//! Options and data that fits refuse before any work, with an error of one line.

use faer::{Mat, MatRef};
use sparsegp::ErrorKind;
use sparsegp::collapsed::Dataset;
use sparsegp::effects::EffectTerm;
use sparsegp::hyper::Constraints;
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::options::{FitOptions, Growth, Hyper, ModelKind, ObjectiveKind, StepOptions};
use sparsegp::training::{Start, TrainingData, fit_arrays};
use sparsegp_testkit::problems::data;

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
fn invalid_options() {
    let (x, y) = data(11, 2, 30);
    let base = FitOptions::default;
    let vfe = || FitOptions { objective: ObjectiveKind::Vfe, ..base() };
    let growing = |tolerance, most| {
        let growth = Growth { inducing_tolerance: Some(tolerance), max_inducing: Some(most) };
        FitOptions { growth: Some(growth), ..vfe() }
    };
    let fixing = |name, value| Constraints::fixing([(name, value)]).expect("a name");
    let cases = [
        (FitOptions { beta: 0.0, ..base() }, "beta"),
        (FitOptions { beta: f64::NAN, ..base() }, "beta"),
        (FitOptions { inducing: Some(0), ..base() }, "inducing"),
        (FitOptions { steps: StepOptions { batch_size: 0, ..base().steps }, ..base() }, "batch_size"),
        (FitOptions { epochs: Some(0), ..base() }, "epochs"),
        (FitOptions { learning_rate: -1.0, ..base() }, "learning_rate"),
        (FitOptions { max_seconds: Some(0.0), ..base() }, "max_seconds"),
        (FitOptions { tolerance: Some(-1.0), ..base() }, "tolerance"),
        (FitOptions { hyper: Some(Hyper::Collapsed), objective: ObjectiveKind::DlmLog, ..base() }, "hyper"),
        (FitOptions { hyper: Some(Hyper::Joint), ..vfe() }, "hyper"),
        (FitOptions { objective: ObjectiveKind::Fitc, beta: 0.5, ..base() }, "beta"),
        (FitOptions { kernel: "rbf[7]".into(), ..base() }, "no column 7"),
        (FitOptions { kernel: "nonsense(".into(), ..base() }, "kernel 'nonsense('"),
        (FitOptions { constraints: fixing("no.such", 1.0), ..base() }, "'no.such'"),
        (FitOptions { constraints: fixing("likelihood.noise_variance", -1.0), ..base() }, "noise_variance"),
        (FitOptions { inducing: Some(5), ..growing(0.1, 10) }, "inducing"),
        (growing(0.0, 10), "inducing_tolerance"),
        (growing(f64::NAN, 10), "inducing_tolerance"),
        (growing(0.1, 0), "max_inducing"),
        (FitOptions { restarts: 2, ..growing(0.1, 10) }, "restarts"),
        (FitOptions { model: ModelKind::Glm, ..growing(0.1, 10) }, "inducing"),
        (FitOptions { restarts: 0, ..vfe() }, "restarts is 0"),
        (FitOptions { restarts: 100_000, ..vfe() }, "restarts is 100000"),
        (FitOptions { restarts: 2, hyper: Some(Hyper::Fixed), ..vfe() }, "hyper = fixed"),
    ];
    invalid(x.transpose(), &y, cases);
}

#[test]
fn options_that_grouped_effects_do_not_support() {
    let (points, y) = data(9, 1, 100);
    let code = |i: usize, j: usize| if j == 1 { i % 30 } else { i / 5 } as f64;
    let x = Mat::from_fn(100, 3, |i, j| if j == 0 { points[(0, i)] } else { code(i, j) });
    let base = FitOptions {
        effects: vec![EffectTerm::intercepts("a", 30, 0), EffectTerm::intercepts("b", 20, 1)],
        ..FitOptions::default()
    };
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
