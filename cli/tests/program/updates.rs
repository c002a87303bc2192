//! Updates of models with new rows: in parts or at once, forgetting, several likelihoods, and the command.

use faer::{Mat, MatRef};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sparsegp::collapsed::Dataset;
use sparsegp::hyper::{Event, Session};
use sparsegp::likelihood::{LikelihoodKind, Observation, TargetKind};
use sparsegp::model::{Marginals, Model, Nearby};
use sparsegp::options::{FitOptions, Hyper, ModelKind, ObjectiveKind, StepOptions};
use sparsegp::training::{Fit, Start, TrainingData, fit_arrays, update};
use sparsegp::variational::Family;
use sparsegp_testkit::problems::data;
use sparsegp_testkit::program::{Work, csv_text, table};
use std::ops::Range;

/// Returns inputs (`n × D`) and targets drawn from a likelihood at smooth functions of the inputs.
fn problem(kind: LikelihoodKind, n: usize) -> (Mat<f64>, Vec<f64>) {
    let (x, f) = data(3, 2, n);
    let likelihood = sparsegp::Registry::default().likelihood(kind, 3).expect("a likelihood");
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let functions = likelihood.functions();
    let draw = |(i, f): (usize, &f64)| {
        let at = |c: usize| if c == 0 { 0.5 + f } else { -0.5 + 0.4 * (c as f64 * x[(0, i)]).sin() };
        let y =
            likelihood.sample(Observation::of(1.0), &(0..functions).map(at).collect::<Vec<_>>(), &mut random);
        if kind.target_kind() == TargetKind::UnitInterval { y.clamp(1e-9, 1.0 - 1e-9) } else { y }
    };
    let y = f.iter().enumerate().map(draw).collect();
    (x.transpose().to_owned(), y)
}

fn fitted(options: FitOptions, x: MatRef<'_, f64>, y: &[f64]) -> Model {
    Fit::of(options).fit(x, y).expect("a fit")
}

/// Writes a model and reads it.
fn loaded(model: &Model) -> Model {
    Model::from_bytes("m", &model.to_bytes().expect("a file")).expect("a model")
}

fn absorb(model: &Model, (x, y): (MatRef<'_, f64>, &[f64]), rows: Range<usize>, forget: f64) -> Model {
    let part = Dataset::of(x.subrows(rows.start, rows.len()), &y[rows]);
    update(model, part, forget, &mut Session::new(&mut |_: &Event| {})).expect("an update")
}

/// Returns the largest difference between the models' means, relative to the spread of means, and between the logarithms of their
/// variances.
fn differences(a: &Model, b: &Model, x: MatRef<'_, f64>) -> (f64, f64) {
    let (a, b) = (a.predict(x, &[]).expect("predictions"), b.predict(x, &[]).expect("predictions"));
    let means: Vec<f64> = (0..a.rows()).map(|row| a.latent(row, 0).0).collect();
    let middle = means.iter().sum::<f64>() / means.len() as f64;
    let spread = (means.iter().map(|m| (m - middle).powi(2)).sum::<f64>() / means.len() as f64).sqrt();
    (0..a.rows()).fold((0.0, 0.0), |(mean, variance): (f64, f64), row| {
        let ((m, v), (n, w)) = (a.latent(row, 0), b.latent(row, 0));
        (mean.max((m - n).abs() / spread), variance.max((v / w).ln().abs()))
    })
}

fn score(model: &Model, x: MatRef<'_, f64>, y: &[f64]) -> f64 {
    let predictions = model.predict(x, &[]).expect("predictions");
    (0..y.len()).map(|row| predictions.log_density(row, y[row])).sum::<f64>() / y.len() as f64
}

fn quick(kind: LikelihoodKind) -> FitOptions {
    let steps = StepOptions { batch_size: 40, ..StepOptions::default() };
    FitOptions {
        likelihood: Some(kind),
        inducing: Some(8),
        epochs: Some(4),
        warm_start: 2,
        steps,
        ..FitOptions::default()
    }
}

/// With Gaussian noise, updates with parts of the rows equal one update with all rows, and an update with the training rows after
/// forgetting everything equals the fit.
#[test]
fn gaussian_rows_add_up() {
    let (x, y) = problem(LikelihoodKind::Gaussian, 240);
    let (x, y) = (x.as_ref(), &y[..]);
    let gaussian = quick(LikelihoodKind::Gaussian);
    let ways = [
        FitOptions { objective: ObjectiveKind::Vfe, ..gaussian.clone() },
        FitOptions { objective: ObjectiveKind::Vfe, beta: 0.4, ..gaussian.clone() },
        FitOptions { objective: ObjectiveKind::Fitc, ..gaussian.clone() },
        FitOptions { hyper: Some(Hyper::Alternating), ..gaussian.clone() },
        FitOptions { hyper: Some(Hyper::Dual), beta: 2.0, ..gaussian.clone() },
        FitOptions { objective: ObjectiveKind::DlmLog, ..gaussian.clone() },
        FitOptions { objective: ObjectiveKind::DlmLog, beta: 0.5, ..gaussian.clone() },
        FitOptions { model: ModelKind::Glm, inducing: None, ..gaussian },
    ];
    for options in ways {
        let model = fitted(options.clone(), x.subrows(0, 100), &y[..100]);
        let at_once = absorb(&model, (x, y), 0..240, 1.0);
        let alone = absorb(&model, (x, y), 0..100, 1.0);
        let parts = [180..240, 100..103, 103..180];
        let in_parts = parts.into_iter().fold(alone, |model, rows| absorb(&model, (x, y), rows, 0.0));
        let (mean, variance) = differences(&at_once, &in_parts, x);
        assert!(mean < 1e-8 && variance < 1e-8, "{:?}: {mean} {variance}", options.objective);
        assert_eq!((in_parts.training_rows(), in_parts.summary().updates.len()), (340, 4));
        if options.is_collapsed() {
            let (mean, variance) = differences(&model, &absorb(&model, (x, y), 0..100, 1.0), x);
            assert!(mean < 1e-8 && variance < 1e-8, "{:?}: {mean} {variance}", options.objective);
        }
    }
}

/// An update in parts is nearly as good as an update with all rows.
#[test]
fn likelihoods_learn_from_new_rows() {
    for word in ["bernoulli-logit", "poisson", "student-t", "ordinal", "softmax", "hurdle-poisson"] {
        let kind: LikelihoodKind = word.parse().expect("a likelihood");
        let (x, y) = problem(kind, 200);
        let (x, y) = (x.as_ref(), &y[..]);
        let model = fitted(quick(kind), x.subrows(0, 40), &y[..40]);
        let in_parts = absorb(&absorb(&model, (x, y), 0..80, 1.0), (x, y), 80..160, 0.0);
        let at_once = absorb(&model, (x, y), 0..160, 1.0);
        let [parts, whole] = [in_parts, at_once].map(|model| score(&model, x.subrows(160, 40), &y[160..]));
        assert!((parts - whole).abs() < 0.04, "{word}: {parts}, at once {whole}");
    }
}

/// Returns the marginals at `x` of a fit to these rows, with the hyper-parameters, inducing inputs and scaling of a model.
fn refitted(model: &Model, x: MatRef<'_, f64>, y: &[f64]) -> Marginals {
    let (mut rows, mut targets) = (x.to_owned(), y.to_vec());
    model.scaling().scale_inputs(rows.as_mut());
    model.scaling().scale_target(&mut targets);
    let start = Start { model: model.latent().clone(), q: None };
    let options = FitOptions { hyper: Some(Hyper::Fixed), ..model.options().clone() };
    let data = TrainingData::of(Dataset::of(rows.as_ref(), &targets));
    let fitted = fit_arrays(data, &options, Some(&start), &mut |_: &Event| {}).expect("a fit");
    fitted.posterior.marginals(rows.as_ref())
}

/// With Gaussian noise and neighbours, an update equals the fit to all rows if the order of the rows does not matter: with all neighbours
/// (the dense GP) or none (FITC).
#[test]
fn updates_with_neighbours_equal_the_fit_to_all_rows() {
    let (x, y) = problem(LikelihoodKind::Gaussian, 120);
    let (x, y) = (x.as_ref(), &y[..]);
    for (count, objective, m) in
        [(120, ObjectiveKind::Elbo, 8), (120, ObjectiveKind::DlmLog, 0), (0, ObjectiveKind::Elbo, 8)]
    {
        let options = FitOptions {
            objective,
            neighbours: Some(count),
            inducing: Some(m),
            epochs: Some(3),
            ..quick(LikelihoodKind::Gaussian)
        };
        let model = fitted(options, x.subrows(0, 70), &y[..70]);
        let updated = absorb(&absorb(&loaded(&model), (x, y), 70..83, 0.0), (x, y), 83..120, 0.0);
        assert_eq!(updated.neighbours().map(Nearby::len), Some(120));
        let alone = absorb(&model, (x, y), 70..120, 1.0);
        for (found, from) in [(&updated, 0), (&loaded(&updated), 0), (&alone, 70)] {
            let wanted = refitted(&model, x.subrows(from, 120 - from), &y[from..]);
            let mut rows = x.subrows(from, 120 - from).to_owned();
            found.scaling().scale_inputs(rows.as_mut());
            let found = found.posterior().marginals(rows.as_ref());
            let pairs =
                found.mean.iter().chain(&found.variance).zip(wanted.mean.iter().chain(&wanted.variance));
            for (a, b) in pairs {
                let close = (a - b).abs() < 1e-10 * (1.0 + b.abs());
                assert!(close, "{count} {objective:?} {m}: {a}, {b} wanted");
            }
        }
        // Half-forgotten rows have more noise, which a saved model keeps.
        let half = absorb(&model, (x, y), 70..120, 0.5);
        assert_eq!(differences(&half, &loaded(&half), x), (0.0, 0.0));
        let variance = |model: &Model| -> f64 {
            let predictions = model.predict(x.subrows(0, 70), &[]).expect("predictions");
            (0..70).map(|row| predictions.latent(row, 0).1).sum()
        };
        let found = [&updated, &half, &alone].map(variance);
        assert!(found.is_sorted(), "{count} {objective:?} {m}: {found:?}");
    }
}

/// An update with sites predicts nearly as well as a fit to all rows with sites.
#[test]
fn models_with_sites_learn_from_new_rows() {
    for kind in [LikelihoodKind::Poisson, LikelihoodKind::BernoulliProbit, LikelihoodKind::StudentT] {
        let (x, y) = problem(kind, 200);
        let (x, y) = (x.as_ref(), &y[..]);
        let options = FitOptions { neighbours: Some(15), epochs: Some(3), ..quick(kind) };
        let model = fitted(options, x.subrows(0, 90), &y[..90]);
        let updated = absorb(&model, (x, y), 90..160, 0.0);
        let wanted = refitted(&model, x.subrows(0, 160), &y[..160]);
        let mut rows = x.subrows(0, 160).to_owned();
        updated.scaling().scale_inputs(rows.as_mut());
        let found = updated.posterior().marginals(rows.as_ref());
        let square =
            |of: &dyn Fn(usize) -> f64| ((0..160).map(|i| of(i).powi(2)).sum::<f64>() / 160.0).sqrt();
        let means = square(&|i| (found.mean[i] - wanted.mean[i]) / wanted.variance[i].sqrt());
        let variances = square(&|i| (found.variance[i] / wanted.variance[i]).ln());
        assert!(means < 0.15 && variances < 0.15, "{kind}: {means} {variances}");
        let learnt = |model: &Model| score(model, x.subrows(90, 70), &y[90..160]);
        assert!(learnt(&updated) > learnt(&model), "{kind}: {} and {}", learnt(&updated), learnt(&model));
    }
}

/// Targets of absurd size are refused, and targets far from the training targets cause a warning.
#[test]
fn targets_far_from_the_training_targets_cause_a_warning() {
    let (x, y) = problem(LikelihoodKind::Gaussian, 60);
    let model = fitted(quick(LikelihoodKind::Gaussian), x.as_ref(), &y);
    let with = |target: f64| {
        let rows = Dataset::of(x.as_ref().subrows(0, 1), std::slice::from_ref(&target));
        update(&model, rows, 0.0, &mut Session::new(&mut |_: &Event| {}))
    };
    let refused = with(1e300).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("the target reaches") && !refused.contains('\n'), "{refused}");
    let before = model.summary().warnings.len();
    assert_eq!(with(1.0).expect("an update").summary().warnings.len(), before);
    let told = with(1e9).expect("an update").summary().warnings[before].to_string();
    assert!(told.contains("1.000e9"), "{told}");
}

/// Forgetting reduces the precision in proportion. After forgetting everything, only the new rows matter.
#[test]
fn forgetting_is_a_share() {
    let (x, y) = problem(LikelihoodKind::Poisson, 200);
    let (x, y) = (x.as_ref(), &y[..]);
    for family in [Family::Full, Family::Diagonal] {
        let mut options = quick(LikelihoodKind::Poisson);
        options.steps.family = family;
        let model = fitted(options, x.subrows(0, 150), &y[..150]);
        let of = |forget: f64| absorb(&model, (x, y), 150..200, forget);
        // The variance grows with the forgotten share.
        let variance = |model: &Model| model.predict(x, &[]).expect("predictions").latent(0, 0).1;
        let found: Vec<f64> = [0.0, 0.3, 0.9, 1.0].map(|forget| variance(&of(forget))).to_vec();
        assert!(found.is_sorted() && found[3] > 1.5 * found[0], "{found:?}");
        // The earlier rows make no difference.
        let (mean, variance) = differences(&of(1.0), &absorb(&of(0.5), (x, y), 150..200, 1.0), x);
        assert!(mean < 1e-3 && variance < 1e-3, "{mean} {variance}");
    }
}

#[test]
fn the_command_updates_in_place_and_prints_the_scores() {
    let work = Work::new();
    let rows = table(180);
    let more =
        rows.lines().enumerate().filter(|(i, _)| *i == 0 || *i > 120).map(|(_, line)| format!("{line}\n"));
    work.write("more.csv", &more.collect::<String>());
    work.model();
    let evaluated = || work.run("evaluate model more.csv --json").ok().json()["test"].clone();
    let before = evaluated();
    let found = work.run("update model more.csv --model-out model --json").ok().json();
    let figures = &found["outputs"]["y"];
    assert_eq!((&figures["rows"], &figures["rows_before"]), (&60.into(), &120.into()));
    assert_eq!((&figures["before"], &figures["after"]), (&before, &evaluated()));
    assert_ne!(figures["before"], figures["after"]);
    let told = work.run("update model more.csv --model-out again --forget 0.25").ok().stdout();
    assert!(
        told.starts_with("60 new rows on top of 180\n") && told.ends_with("written to again\n"),
        "{told}"
    );
    let inspected = work.run("inspect again").ok().stdout();
    assert!(inspected.contains("60 rows, 0.25 forgotten"), "{inspected}");
    work.run("evaluate again more.csv").ok();
    // Several targets with separate models.
    let cell = |i: usize| match i {
        0 => "z".to_owned(),
        gap if gap % 4 == 0 => String::new(),
        i => i.to_string(),
    };
    let two: String =
        table(80).lines().enumerate().map(|(i, line)| format!("{line},{}\n", cell(i))).collect();
    work.write("two.csv", &two);
    work.run("fit two.csv --target y,z --task regression --inducing 5 --epochs 2 --quiet --model-out both")
        .ok();
    let told = work.run("update both two.csv --model-out both").ok().stdout();
    assert!(told.contains("80 new rows on top of 80") && told.contains("60 new rows on top of 60"), "{told}");
}

#[test]
fn a_refused_update_leaves_the_model_unchanged() {
    let work = Work::new();
    work.model();
    let stored = || std::fs::read(work.path("model")).expect("a model");
    let before = stored();
    work.write("far.csv", "a,b,colour,y\n1,2,red,1e300\n");
    let run = work.run("update model far.csv --model-out model");
    assert_eq!((run.code(), stored() == before), (4, true), "{}", run.stderr());
    // Rows with category levels that training did not see are accepted.
    work.write("new.csv", "a,b,colour,y\n1,2,violet,50\n");
    work.run("update model new.csv --model-out model").ok();
}

/// A level that first occurs in an update is known afterwards, and differs from all other new levels.
#[test]
fn levels_of_an_update_are_distinguished_from_later_new_levels() {
    let work = Work::new();
    let rows = |levels: &[&str], n: usize, shift: f64| {
        csv_text("x,g,y", 0..n, |i| {
            let (x, level) = (i as f64 / n as f64, levels[i % levels.len()]);
            let of_level = if level == "b" { 1.0 } else { shift };
            format!("{x},{level},{}", (6.0 * x).sin() + of_level + 0.01 * (17.0 * i as f64).sin())
        })
    };
    work.write("old.csv", &rows(&["a", "b"], 120, 0.0));
    work.write("new.csv", &rows(&["c"], 40, 2.0));
    work.write("others.csv", &rows(&["d", "e"], 20, 0.0));
    work.write("query.csv", "x,g\n0.3,c\n0.3,d\n0.3,a\n");
    work.run("fit old.csv --target y --auto none --neighbours 10 --inducing 10 --quiet --model-out model")
        .ok();
    work.run("update model new.csv --model-out model").ok();
    let column = |name: &str| work.run("predict model query.csv --out -").csv().numbers(name);
    let (mean, variance) = (column("mean"), column("variance"));
    let truth = (6.0_f64 * 0.3).sin();
    assert!((mean[0] - truth - 2.0).abs() < 0.1 && (mean[2] - truth).abs() < 0.1, "{mean:?}");
    assert!(variance[1] > 25.0 * variance[0] && mean[1] < truth + 1.5, "{mean:?} {variance:?}");
    // The levels of a second update do not replace those of the first.
    work.run("update model others.csv --model-out model").ok();
    let again = column("mean");
    assert!((again[0] - mean[0]).abs() < 0.05 && (again[1] - truth).abs() < 0.2, "{mean:?} {again:?}");
}
