//! Models that take in new rows: parts against the whole, forgetting, every likelihood, what is refused, the command.

mod common;
#[path = "common/program.rs"]
mod program;

use common::data;
use faer::{Mat, MatRef};
use program::{Work, table};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sparsegp::collapsed::Dataset;
use sparsegp::hyper::{Event, Session};
use sparsegp::likelihood::{LikelihoodKind, TargetKind};
use sparsegp::model::Model;
use sparsegp::options::{FitOptions, Hyper, ModelKind, ObjectiveKind, StepOptions};
use sparsegp::training::{ModelBuilder, update};
use sparsegp::variational::Family;
use std::ops::Range;

/// Inputs (`n × D`) and targets that a likelihood draws at smooth functions of them.
fn problem(kind: LikelihoodKind, n: usize) -> (Mat<f64>, Vec<f64>) {
    let (x, f) = data(3, 2, n);
    let likelihood = sparsegp::Registry::default().likelihood(kind, 3).expect("a likelihood");
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let functions = likelihood.functions();
    let draw = |(i, f): (usize, &f64)| {
        let at = |c: usize| if c == 0 { 0.5 + f } else { -0.5 + 0.4 * (c as f64 * x[(0, i)]).sin() };
        let y = likelihood.sample(&(0..functions).map(at).collect::<Vec<_>>(), 1.0, &mut random);
        if kind.target_kind() == TargetKind::UnitInterval { y.clamp(1e-9, 1.0 - 1e-9) } else { y }
    };
    let y = f.iter().enumerate().map(draw).collect();
    (x.transpose().to_owned(), y)
}

fn absorb(model: &Model, (x, y): (MatRef<'_, f64>, &[f64]), rows: Range<usize>, forget: f64) -> Model {
    let part = Dataset::of(x.subrows(rows.start, rows.len()), &y[rows]);
    update(model, part, forget, &mut Session::new(&mut |_: &Event| {})).expect("an update")
}

/// The largest differences of means, relative to their spread, and of the logarithms of variances at the inputs.
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

/// Gaussian noise: rows in any parts are the rows at once, and the fit's own rows, all else forgotten, are the fit.
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
        FitOptions { model: ModelKind::Glm, inducing: None, ..gaussian },
    ];
    for options in ways {
        let fit = |n: usize| ModelBuilder::new().options(options.clone()).fit(x.subrows(0, n), &y[..n]);
        let model = fit(100).expect("a fit");
        let at_once = absorb(&model, (x, y), 0..240, 1.0);
        let alone = absorb(&model, (x, y), 0..100, 1.0);
        let parts = [100..103, 103..180, 180..240];
        let in_parts = parts.into_iter().fold(alone, |model, rows| absorb(&model, (x, y), rows, 0.0));
        let (mean, variance) = differences(&at_once, &in_parts, x);
        assert!(mean < 1e-8 && variance < 1e-8, "{:?}: {mean} {variance}", options.objective);
        assert_eq!((in_parts.training_rows(), in_parts.summary().updates.len()), (340, 4));
        if options.is_collapsed() {
            let (mean, variance) = differences(&model, &absorb(&model, (x, y), 0..100, 1.0), x);
            assert!(mean < 1e-8 && variance < 1e-8, "{:?}: {mean} {variance}", options.objective);
        }
        // Files keep what was learnt.
        let bytes = in_parts.to_bytes().expect("a file");
        let again = Model::from_bytes("m", &bytes).expect("a model");
        assert_eq!(differences(&in_parts, &again, x), (0.0, 0.0));
        assert_eq!(again.summary().updates, in_parts.summary().updates);
    }
}

/// By the ELBO every likelihood learns from later rows nearly as if they had been there from the start; by DLM it predicts them better.
#[test]
fn rows_of_every_likelihood_are_learnt_from() {
    for word in LikelihoodKind::WORDS {
        let kind: LikelihoodKind = word.parse().expect("a likelihood");
        let (x, y) = problem(kind, 200);
        let (x, y) = (x.as_ref(), &y[..]);
        for objective in [ObjectiveKind::Elbo, ObjectiveKind::DlmLog] {
            let options = FitOptions { objective, ..quick(kind) };
            let model = ModelBuilder::new().options(options).fit(x.subrows(0, 40), &y[..40]).expect("a fit");
            let first = absorb(&model, (x, y), 0..80, 1.0);
            let in_parts = absorb(&first, (x, y), 80..160, 0.0);
            if objective == ObjectiveKind::DlmLog {
                // The sum of the losses of the new rows and of β KL(q ‖ q before) is no more than those losses were.
                let new = |model: &Model| score(model, x.subrows(80, 80), &y[80..160]);
                let (before, after) = (new(&first), new(&in_parts));
                assert!(after >= before, "{word}: {before} to {after}");
                continue;
            }
            let at_once = absorb(&model, (x, y), 0..160, 1.0);
            let test = |model: &Model| score(model, x.subrows(160, 40), &y[160..]);
            let (parts, whole) = (test(&in_parts), test(&at_once));
            assert!((parts - whole).abs() < 0.04, "{word}: {parts}, at once {whole}");
        }
    }
}

/// Forgetting takes the precision down in proportion, and all of it leaves what the new rows say.
#[test]
fn forgetting_is_a_share() {
    let (x, y) = problem(LikelihoodKind::Poisson, 200);
    let (x, y) = (x.as_ref(), &y[..]);
    for family in [Family::Full, Family::Diagonal] {
        let mut options = quick(LikelihoodKind::Poisson);
        options.steps.family = family;
        let model = ModelBuilder::new().options(options).fit(x.subrows(0, 150), &y[..150]).expect("a fit");
        let of = |forget: f64| absorb(&model, (x, y), 150..200, forget);
        // A variance that cannot grow: the more is forgotten the larger it is.
        let variance = |model: &Model| model.predict(x, &[]).expect("predictions").latent(0, 0).1;
        let found: Vec<f64> = [0.0, 0.3, 0.9, 1.0].map(|forget| variance(&of(forget))).to_vec();
        assert!(found.is_sorted() && found[3] > 1.5 * found[0], "{found:?}");
        // What was known before then makes no difference.
        let (mean, variance) = differences(&of(1.0), &absorb(&of(0.5), (x, y), 150..200, 1.0), x);
        assert!(mean < 1e-3 && variance < 1e-3, "{mean} {variance}");
    }
}

#[test]
fn the_command_updates_in_place_and_says_what_it_did() {
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
    // Several targets with models of their own.
    let two = |n: usize| {
        table(n)
            .lines()
            .enumerate()
            .map(|(i, line)| {
                if i == 0 {
                    format!("{line},z\n")
                } else {
                    format!("{line},{}\n", if i % 4 == 0 { String::new() } else { i.to_string() })
                }
            })
            .collect::<String>()
    };
    work.write("two.csv", &two(80));
    work.run("fit two.csv --target y,z --task regression --inducing 5 --epochs 2 --quiet --model-out both")
        .ok();
    let told = work.run("update both two.csv --model-out both").ok().stdout();
    assert!(told.contains("80 new rows on top of 80") && told.contains("60 new rows on top of 60"), "{told}");
}

#[test]
fn what_cannot_be_updated_is_said_in_one_line() {
    let work = Work::new();
    work.model();
    let refused = |arguments: &str, code: i32, words: &str| {
        let run = work.run(arguments);
        let text = run.stderr();
        assert!(
            run.code() == code && text.starts_with("error: ") && text.contains(words),
            "{arguments}: {text}"
        );
        assert!(!work.names().contains(&"out".to_owned()), "{arguments}");
    };
    let fit = |options: &str| {
        work.run(&format!(
            "fit data.csv --target y --quiet --model-out other --epochs 2 --inducing 5 {options}"
        ))
        .ok();
    };
    refused("update model data.csv --model-out out --forget 1.5", 2, "--forget is 1.5");
    refused("update model data.csv", 2, "--model-out");
    refused("update model absent.csv --model-out out", 3, "absent.csv");
    work.write("without.csv", "a,b,c\n1,2,x\n");
    refused("update model without.csv --model-out out", 3, "without.csv");
    for (options, words) in [
        ("--neighbours 5", "fit it with --neighbours none"),
        ("--objective dlm-square", "fit it with --objective elbo"),
    ] {
        fit(options);
        refused("update other data.csv --model-out out", 2, words);
    }
}
