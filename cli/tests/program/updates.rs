//! Updates of models with new rows: in parts or at once, forgetting, several likelihoods, and the command.

use faer::Mat;
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

/// Inputs (`n × D`), and targets drawn from a likelihood at smooth functions of the inputs.
struct Rows {
    x: Mat<f64>,
    y: Vec<f64>,
}

impl Rows {
    fn of(kind: LikelihoodKind, n: usize) -> Rows {
        let (x, f) = data(3, 2, n);
        let likelihood = sparsegp::Registry::default().likelihood(kind, 3).expect("a likelihood");
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let draw = |(i, f): (usize, &f64)| {
            let at = |c: usize| if c == 0 { 0.5 + f } else { -0.5 + 0.4 * (c as f64 * x[(0, i)]).sin() };
            let functions: Vec<f64> = (0..likelihood.functions()).map(at).collect();
            let y = likelihood.sample(Observation::of(1.0), &functions, &mut random);
            if kind.target_kind() == TargetKind::UnitInterval { y.clamp(1e-9, 1.0 - 1e-9) } else { y }
        };
        let y = f.iter().enumerate().map(draw).collect();
        Rows { x: x.transpose().to_owned(), y }
    }

    fn part(&self, rows: Range<usize>) -> Dataset<'_> {
        Dataset::of(self.x.as_ref().subrows(rows.start, rows.len()), &self.y[rows])
    }

    fn fitted(&self, options: FitOptions, rows: Range<usize>) -> Model {
        Fit::of(options).fit(self.part(rows.clone()).x, &self.y[rows]).expect("a fit")
    }

    fn absorb(&self, model: &Model, rows: Range<usize>, forget: f64) -> Model {
        update(model, self.part(rows), forget, &mut Session::new(&mut |_: &Event| {})).expect("an update")
    }

    fn score(&self, model: &Model, rows: Range<usize>) -> f64 {
        let predictions = model.predict(self.part(rows.clone()).x, &[]).expect("predictions");
        let densities = self.y[rows].iter().enumerate().map(|(row, y)| predictions.log_density(row, *y));
        densities.sum::<f64>() / predictions.rows() as f64
    }

    fn variances(&self, model: &Model, rows: Range<usize>) -> Vec<f64> {
        let predictions = model.predict(self.part(rows).x, &[]).expect("predictions");
        (0..predictions.rows()).map(|row| predictions.latent(row, 0).1).collect()
    }

    /// Returns the marginals of the posterior of a model.
    fn marginals(&self, model: &Model, rows: Range<usize>) -> Marginals {
        let mut x = self.part(rows).x.to_owned();
        model.scaling().scale_inputs(x.as_mut());
        model.posterior().marginals(x.as_ref())
    }

    /// Returns the marginals of a fit to these rows, with the hyper-parameters, inducing inputs and scaling of a model.
    fn refitted(&self, model: &Model, rows: Range<usize>) -> Marginals {
        let (mut x, mut y) = (self.part(rows.clone()).x.to_owned(), self.y[rows].to_vec());
        model.scaling().scale_inputs(x.as_mut());
        model.scaling().scale_target(&mut y);
        let start = Start { model: model.latent().clone(), q: None };
        let options = FitOptions { hyper: Some(Hyper::Fixed), ..model.options().clone() };
        let data = TrainingData::of(Dataset::of(x.as_ref(), &y));
        let fitted = fit_arrays(data, &options, Some(&start), &mut |_: &Event| {}).expect("a fit");
        fitted.posterior.marginals(x.as_ref())
    }

    /// Returns the largest difference between the models' means, relative to the spread of means, and between the logarithms of their
    /// variances.
    fn differences(&self, a: &Model, b: &Model) -> (f64, f64) {
        let [a, b] = [a, b].map(|model| model.predict(self.x.as_ref(), &[]).expect("predictions"));
        let n = a.rows() as f64;
        let means: Vec<f64> = (0..a.rows()).map(|row| a.latent(row, 0).0).collect();
        let middle = means.iter().sum::<f64>() / n;
        let spread = (means.iter().map(|m| (m - middle).powi(2)).sum::<f64>() / n).sqrt();
        (0..a.rows()).fold((0.0, 0.0), |(mean, variance): (f64, f64), row| {
            let ((m, v), (n, w)) = (a.latent(row, 0), b.latent(row, 0));
            (mean.max((m - n).abs() / spread), variance.max((v / w).ln().abs()))
        })
    }
}

fn loaded(model: &Model) -> Model {
    Model::from_bytes("m", &model.to_bytes().expect("a file")).expect("a model")
}

fn quick(kind: LikelihoodKind) -> FitOptions {
    let steps = StepOptions { batch_size: 40, ..StepOptions::default() };
    let (likelihood, inducing, epochs) = (Some(kind), Some(8), Some(4));
    FitOptions { likelihood, inducing, epochs, warm_start: 2, steps, ..FitOptions::default() }
}

/// With Gaussian noise, updates with parts of the rows equal one update with all rows, and an update with the training rows after
/// forgetting everything equals the fit.
#[test]
fn gaussian_rows_add_up() {
    let rows = Rows::of(LikelihoodKind::Gaussian, 240);
    let gaussian = quick(LikelihoodKind::Gaussian);
    for options in [
        FitOptions { objective: ObjectiveKind::Vfe, ..gaussian.clone() },
        FitOptions { objective: ObjectiveKind::Vfe, beta: 0.4, ..gaussian.clone() },
        FitOptions { objective: ObjectiveKind::Fitc, ..gaussian.clone() },
        FitOptions { hyper: Some(Hyper::Alternating), ..gaussian.clone() },
        FitOptions { hyper: Some(Hyper::Dual), beta: 2.0, ..gaussian.clone() },
        FitOptions { objective: ObjectiveKind::DlmLog, ..gaussian.clone() },
        FitOptions { objective: ObjectiveKind::DlmLog, beta: 0.5, ..gaussian.clone() },
        FitOptions { model: ModelKind::Glm, inducing: None, ..gaussian },
    ] {
        let (objective, collapsed) = (options.objective, options.is_collapsed());
        let model = rows.fitted(options, 0..100);
        let at_once = rows.absorb(&model, 0..240, 1.0);
        let alone = rows.absorb(&model, 0..100, 1.0);
        let parts = [180..240, 100..103, 103..180];
        let in_parts = parts.into_iter().fold(alone.clone(), |model, part| rows.absorb(&model, part, 0.0));
        assert_eq!((in_parts.training_rows(), in_parts.summary().updates.len()), (340, 4));
        for (a, b) in [(&at_once, &in_parts), (&model, if collapsed { &alone } else { &model })] {
            let (mean, variance) = rows.differences(a, b);
            assert!(mean < 1e-8 && variance < 1e-8, "{objective:?}: {mean} {variance}");
        }
    }
}

/// An update in parts is nearly as good as an update with all rows.
#[test]
fn likelihoods_learn_from_new_rows() {
    for word in ["bernoulli-logit", "poisson", "student-t", "ordinal", "softmax", "hurdle-poisson"] {
        let kind: LikelihoodKind = word.parse().expect("a likelihood");
        let rows = Rows::of(kind, 200);
        let model = rows.fitted(quick(kind), 0..40);
        let in_parts = rows.absorb(&rows.absorb(&model, 0..80, 1.0), 80..160, 0.0);
        let at_once = rows.absorb(&model, 0..160, 1.0);
        let [parts, whole] = [in_parts, at_once].map(|model| rows.score(&model, 160..200));
        assert!((parts - whole).abs() < 0.04, "{word}: {parts}, at once {whole}");
    }
}

/// With Gaussian noise and neighbours, an update equals the fit to all rows if the order of the rows does not matter: with all neighbours
/// (the dense GP) or none (FITC).
#[test]
fn updates_with_neighbours_equal_the_fit_to_all_rows() {
    let rows = Rows::of(LikelihoodKind::Gaussian, 120);
    for (count, objective, m) in
        [(120, ObjectiveKind::Elbo, 8), (120, ObjectiveKind::DlmLog, 0), (0, ObjectiveKind::Elbo, 8)]
    {
        let (neighbours, inducing, epochs) = (Some(count), Some(m), Some(3));
        let gaussian = quick(LikelihoodKind::Gaussian);
        let model = rows.fitted(FitOptions { objective, neighbours, inducing, epochs, ..gaussian }, 0..70);
        let updated = rows.absorb(&rows.absorb(&loaded(&model), 70..83, 0.0), 83..120, 0.0);
        assert_eq!(updated.neighbours().map(Nearby::len), Some(120));
        let alone = rows.absorb(&model, 70..120, 1.0);
        for (found, from) in [(&updated, 0), (&loaded(&updated), 0), (&alone, 70)] {
            let wanted = rows.refitted(&model, from..120);
            let found = rows.marginals(found, from..120);
            let wanted = wanted.mean.iter().chain(&wanted.variance);
            for (a, b) in found.mean.iter().chain(&found.variance).zip(wanted) {
                let close = (a - b).abs() < 1e-10 * (1.0 + b.abs());
                assert!(close, "{count} {objective:?} {m}: {a}, {b} wanted");
            }
        }
        // Half-forgotten rows have more noise, which a saved model keeps.
        let half = rows.absorb(&model, 70..120, 0.5);
        assert_eq!(rows.differences(&half, &loaded(&half)), (0.0, 0.0));
        let found = [&updated, &half, &alone].map(|model| rows.variances(model, 0..70).iter().sum::<f64>());
        assert!(found.is_sorted(), "{count} {objective:?} {m}: {found:?}");
    }
}

/// An update with sites predicts nearly as well as a fit to all rows with sites.
#[test]
fn models_with_sites_learn_from_new_rows() {
    for kind in [LikelihoodKind::Poisson, LikelihoodKind::BernoulliProbit, LikelihoodKind::StudentT] {
        let rows = Rows::of(kind, 200);
        let options = FitOptions { neighbours: Some(15), epochs: Some(3), ..quick(kind) };
        let model = rows.fitted(options, 0..90);
        let updated = rows.absorb(&model, 90..160, 0.0);
        let (found, wanted) = (rows.marginals(&updated, 0..160), rows.refitted(&model, 0..160));
        let square =
            |of: &dyn Fn(usize) -> f64| ((0..160).map(|i| of(i).powi(2)).sum::<f64>() / 160.0).sqrt();
        let means = square(&|i| (found.mean[i] - wanted.mean[i]) / wanted.variance[i].sqrt());
        let variances = square(&|i| (found.variance[i] / wanted.variance[i]).ln());
        assert!(means < 0.15 && variances < 0.15, "{kind}: {means} {variances}");
        let [after, before] = [&updated, &model].map(|model| rows.score(model, 90..160));
        assert!(after > before, "{kind}: {after} and {before}");
    }
}

/// Targets of absurd size are refused, and targets far from the training targets cause a warning.
#[test]
fn targets_far_from_the_training_targets_cause_a_warning() {
    let rows = Rows::of(LikelihoodKind::Gaussian, 60);
    let model = rows.fitted(quick(LikelihoodKind::Gaussian), 0..60);
    let with = |target: f64| {
        let row = Dataset::of(rows.part(0..1).x, std::slice::from_ref(&target));
        update(&model, row, 0.0, &mut Session::new(&mut |_: &Event| {}))
    };
    let refused = with(1e300).map(|_| ()).expect_err("refused").to_string();
    assert!(refused.contains("the target reaches") && !refused.contains('\n'), "{refused}");
    let before = model.summary().warnings.len();
    assert_eq!(with(1.0).expect("an update").summary().warnings.len(), before);
    let told = with(1e9).expect("an update").summary().warnings[before].to_string();
    assert!(told.contains("1.000e9"), "{told}");
}

/// Forgetting reduces the precision in proportion. After forgetting everything, only the new rows matter.
#[test]
fn forgetting_is_a_share() {
    let rows = Rows::of(LikelihoodKind::Poisson, 200);
    for family in [Family::Full, Family::Diagonal] {
        let mut options = quick(LikelihoodKind::Poisson);
        options.steps.family = family;
        let model = rows.fitted(options, 0..150);
        let of = |forget: f64| rows.absorb(&model, 150..200, forget);
        // The variance grows with the forgotten share.
        let found = [0.0, 0.3, 0.9, 1.0].map(|forget| rows.variances(&of(forget), 0..1)[0]);
        assert!(found.is_sorted() && found[3] > 1.5 * found[0], "{found:?}");
        // The earlier rows make no difference.
        let (mean, variance) = rows.differences(&of(1.0), &rows.absorb(&of(0.5), 150..200, 1.0));
        assert!(mean < 1e-3 && variance < 1e-3, "{mean} {variance}");
    }
}

#[test]
fn the_command_updates_in_place_and_prints_the_scores() {
    let work = Work::modelled();
    work.write("more.csv", table(180).replacen(work.read("data.csv").as_str(), &table(0), 1));
    let evaluated = || work.run("evaluate model more.csv --json").json()["test"].clone();
    let before = evaluated();
    let found = work.run("update model more.csv --model-out model --json").json();
    let figures = &found["outputs"]["y"];
    assert_eq!((&figures["rows"], &figures["rows_before"]), (&60.into(), &120.into()));
    assert_eq!((&figures["before"], &figures["after"]), (&before, &evaluated()));
    assert_ne!(figures["before"], figures["after"]);
    let told = work.text("update model more.csv --model-out again --forget 0.25");
    assert!(
        told.starts_with("60 new rows on top of 180\n") && told.ends_with("written to again\n"),
        "{told}"
    );
    work.prints("inspect again", &["60 rows, 0.25 forgotten"]);
    work.run("evaluate again more.csv").ok();
    // Several targets with separate models. The second one lacks 11 cells.
    work.write("two.csv", sparsegp_testkit::outputs::table(80));
    work.quick_fit("two.csv --target y1,y2 --exclude y3 --model-out both");
    let words = ["80 new rows on top of 80", "69 new rows on top of 69"];
    work.prints("update both two.csv --model-out both", &words);
}

#[test]
fn a_refused_update_leaves_the_model_unchanged() {
    let work = Work::modelled();
    let before = work.bytes("model");
    work.write("far.csv", "a,b,colour,y\n1,2,red,1e300\n");
    let run = work.run("update model far.csv --model-out model");
    assert_eq!((run.code(), work.bytes("model") == before), (4, true), "{}", run.stderr());
    // Rows with category levels that training did not see are accepted.
    work.write("new.csv", "a,b,colour,y\n1,2,violet,50\n");
    work.run("update model new.csv --model-out model").ok();
}

/// A level that first occurs in an update is known afterwards, and differs from all other new levels.
#[test]
fn levels_of_an_update_are_distinguished_from_later_new_levels() {
    let work = Work::empty();
    let rows = |levels: &[&str], n: usize, shift: f64| {
        csv_text("x,g,y", 0..n, |i| {
            let (x, level) = (i as f64 / n as f64, levels[i % levels.len()]);
            let of_level = if level == "b" { 1.0 } else { shift };
            format!("{x},{level},{}", (6.0 * x).sin() + of_level + 0.01 * (17.0 * i as f64).sin())
        })
    };
    work.write("old.csv", rows(&["a", "b"], 120, 0.0));
    work.write("new.csv", rows(&["c"], 40, 2.0));
    work.write("others.csv", rows(&["d", "e"], 20, 0.0));
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
