//! Interrupted fits continue from their checkpoint with the same bits as an uninterrupted fit.

use sparsegp::checkpoint::{Checkpoint, Identity};
use sparsegp::data::SizeSchedule;
use sparsegp::hyper::{Event, Session};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::objective::Estimator;
use sparsegp::options::{
    Betas, FitOptions, Hyper, HyperOptimizer, ModelKind, ObjectiveKind, Open, StepOptions,
};
use sparsegp::variational::{Average, Family, QUpdate, Schedule};
use sparsegp::{ErrorKind, Result};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tables::{Table, read_csv};
use sparsegp_tables::tabular::{FitRequest, TableFit, TableModel, fit_table_in, select_beta};
use sparsegp_testkit::program::{Work, table};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CO2: &str = sparsegp_data::CO2_MONTHLY;
const TUMOURS: &str = sparsegp_data::BREAST_CANCER;
const VISITS: &str = sparsegp_data::DOCTOR_VISITS;

/// Returns the first `most` rows of a file.
fn rows(csv: &'static str, most: usize) -> Table {
    let text: String = csv.lines().take(most + 1).map(|line| format!("{line}\n")).collect();
    read_csv("data.csv", std::io::Cursor::new(text)).expect("a table")
}

/// Creates a case, a fit that can be interrupted after every epoch.
struct Case {
    name: &'static str,
    table: Table,
    target: &'static str,
    group: Option<&'static str>,
    options: FitOptions,
    betas: Option<Betas>,
}

fn case(name: &'static str, options: FitOptions) -> Case {
    let options =
        FitOptions { inducing: options.inducing.or(Some(7)), tolerance: Some(0.0), warm_start: 4, ..options };
    Case { name, table: rows(CO2, 120), target: "co2", group: None, options, betas: None }
}

/// Creates the case of a mini-batch fit of a linear model, which has no inducing inputs.
fn linear(name: &'static str, options: FitOptions) -> Case {
    let steps = StepOptions { batch_size: 30, ..options.steps.clone() };
    let glm = case(name, FitOptions { model: ModelKind::Glm, steps, ..options });
    let options =
        FitOptions { inducing: None, likelihood: Some(LikelihoodKind::BernoulliLogit), ..glm.options };
    Case { table: rows(TUMOURS, 100), target: "diagnosis", options, ..glm }
}

/// Creates the case of a fit to counts.
fn counts(name: &'static str, likelihood: LikelihoodKind, options: FitOptions) -> Case {
    let options = FitOptions { likelihood: Some(likelihood), ..options };
    Case { table: rows(VISITS, 120), target: "visits", ..case(name, options) }
}

fn cases() -> Vec<Case> {
    use ObjectiveKind::*;
    let epochs = |count| FitOptions {
        epochs: Some(count),
        steps: StepOptions { batch_size: 30, ..StepOptions::default() },
        ..FitOptions::default()
    };
    let batches = |options: FitOptions| FitOptions { hyper: Some(Hyper::Joint), ..options };
    let with_steps = |count, change: &dyn Fn(&mut StepOptions)| {
        let mut options = epochs(count);
        change(&mut options.steps);
        options
    };
    let mut all = vec![
        case("elbo with validation", FitOptions { validation_fraction: 0.2, ..batches(epochs(6)) }),
        case("dual", FitOptions { hyper: Some(Hyper::Dual), ..epochs(4) }),
        case(
            "neighbours",
            FitOptions { neighbours: Some(6), objective: DlmLog, validation_fraction: 0.2, ..epochs(4) },
        ),
        case(
            "neighbours and sites",
            FitOptions { neighbours: Some(6), likelihood: Some(LikelihoodKind::StudentT), ..epochs(4) },
        ),
        case("choices", FitOptions { open: Open::EVERYTHING, ..epochs(4) }),
        case(
            "alternating by adam with validation",
            FitOptions {
                hyper: Some(Hyper::Alternating),
                hyper_optimizer: Some(HyperOptimizer::Adam),
                validation_fraction: 0.2,
                ..epochs(5)
            },
        ),
        case(
            "sampled dlm-log",
            FitOptions {
                objective: DlmLog,
                estimator: Estimator::Product { samples: 5 },
                ..batches(epochs(4))
            },
        ),
        case("vfe with validation", FitOptions { objective: Vfe, validation_fraction: 0.2, ..epochs(9) }),
        case(
            "vfe by adam",
            FitOptions { objective: Vfe, hyper_optimizer: Some(HyperOptimizer::Adam), ..epochs(8) },
        ),
        case("fitc", FitOptions { objective: Fitc, ..epochs(8) }),
        case(
            "q and hyper-parameters by L-BFGS",
            FitOptions {
                objective: DlmLog,
                validation_fraction: 0.2,
                epochs: Some(9),
                ..FitOptions::default()
            },
        ),
        case("dlm-square", FitOptions { objective: DlmSquare, ..epochs(8) }),
        case(
            "growing batches",
            batches(with_steps(4, &|steps| {
                steps.batch_schedule = Some(SizeSchedule::Power { exponent: 1.0 });
                steps.q_average = Average::Tail;
            })),
        ),
        Case {
            betas: Some(Betas::List(vec![1.0, 0.3, 0.1])),
            ..case("a grid of betas", FitOptions { validation_fraction: 0.2, ..batches(epochs(4)) })
        },
        counts("counts", LikelihoodKind::Poisson, epochs(4)),
        Case { group: Some("disea"), ..counts("groups of counts", LikelihoodKind::Poisson, epochs(6)) },
        case(
            "varying noise",
            FitOptions { likelihood: Some(LikelihoodKind::GaussianHeteroskedastic), ..batches(epochs(4)) },
        ),
        counts(
            "zero-inflated counts",
            LikelihoodKind::ZeroInflatedPoisson,
            FitOptions { hyper: Some(Hyper::Alternating), ..epochs(4) },
        ),
        linear(
            "samples of w",
            FitOptions {
                estimator: Estimator::Price { samples: 3 },
                ..with_steps(4, &|steps| {
                    steps.sample_schedule = Some(SizeSchedule::Power { exponent: 1.0 });
                    steps.q_average = Average::Expectation;
                })
            },
        ),
    ];
    // Natural gradients are the default of the cases above.
    let rules = QUpdate::WORDS.iter().map(|word| word.parse().expect("a rule"));
    let families = [Family::Full, Family::Diagonal].into_iter().cycle();
    for (q_update, family) in rules.filter(|&rule| rule != QUpdate::Ngd).zip(families) {
        all.push(linear(
            "a rule",
            with_steps(3, &|steps| (steps.q_update, steps.family) = (q_update, family)),
        ));
    }
    let diagonal = with_steps(3, &|steps| {
        (steps.family, steps.q_step) = (Family::Diagonal, Some(Schedule::Constant(0.2)));
    });
    all.push(linear("ngd, diagonal", diagonal));
    all
}

fn identity() -> Identity {
    vec![("test".into(), "resume".into())]
}

impl Case {
    fn fit(&self, session: &mut Session<'_>) -> Result<TableFit> {
        let columns = SchemaOptions {
            target: self.target.to_owned(),
            groups: self.group.iter().map(|group| group.parse().expect("a formula")).collect(),
            ..SchemaOptions::default()
        };
        let request = FitRequest {
            table: &self.table,
            columns: &columns,
            options: &self.options,
            test_fraction: 0.1,
            start: None,
            keep_posterior: false,
        };
        match &self.betas {
            Some(betas) => select_beta(&request, betas, session).map(|(fit, _)| fit),
            None => fit_table_in(&request, session),
        }
    }

    /// Resumes the fit from a checkpoint, without further interruptions, and returns its bits.
    fn resumed(&self, path: &Path) -> Result<Vec<u64>> {
        let mut checkpoint = Checkpoint::new(path, identity(), None).resume(path)?;
        let mut ignore = |_: &Event| {};
        let mut session = Session::new(&mut ignore).with_checkpoint(&mut checkpoint);
        self.fit(&mut session).map(|fit| bits(&fit.model))
    }
}

/// Returns the bytes of the checkpoint on disk during the event of an epoch.
fn state_of_epoch(event: &Event, path: &Path) -> Option<Vec<u8>> {
    matches!(event, Event::Epoch { .. }).then(|| std::fs::read(path).expect("a checkpoint"))
}

/// Returns the bits of the complete result of a fit, except for times.
fn bits(model: &TableModel) -> Vec<u64> {
    let summary = model.summary();
    let mut numbers = model.latent().natural();
    numbers.extend_from_slice(model.q().mean());
    let cov = model.q().cov().to_dense();
    cov.col_iter().for_each(|column| numbers.extend(column.iter()));
    numbers.extend([summary.objective, summary.jitter]);
    numbers.extend(summary.trace.iter().map(|record| record.objective));
    numbers.extend(summary.trace.iter().filter_map(|record| record.validation_nll));
    let mut bits: Vec<u64> = numbers.into_iter().map(f64::to_bits).collect();
    let counts = [summary.iterations, summary.evaluations, summary.rollbacks, summary.epochs];
    bits.extend(counts.map(|count| count as u64));
    bits.extend(summary.stop_reason.word().bytes().map(u64::from));
    bits
}

#[test]
fn every_kind_of_fit_resumes_bit_for_bit_from_every_saved_state() {
    for case in cases() {
        let what = format!("{} {:?} {:?}", case.name, case.options.steps.q_update, case.options.steps.family);
        let resumed = |path: &Path| case.resumed(path).unwrap_or_else(|error| panic!("{what}: {error}"));
        let folder = tempfile::tempdir().expect("a folder");
        let whole = case.fit(&mut Session::new(&mut |_: &Event| {}));
        let whole = bits(&whole.unwrap_or_else(|error| panic!("{what}: {error}")).model);

        // During the event of an epoch, the file on disk holds the state before the last step of this epoch.
        let path = folder.path().join("fit.checkpoint");
        let mut copies = Vec::new();
        let mut checkpoint = Checkpoint::new(&path, identity(), Some(Duration::ZERO));
        let mut copy = |event: &Event| copies.extend(state_of_epoch(event, &path));
        let mut session = Session::new(&mut copy).with_checkpoint(&mut checkpoint);
        let watched = bits(&case.fit(&mut session).expect("a fit").model);
        assert!(watched == whole, "{what}: saving changes the fit");
        assert!(copies.len() >= 3, "{what}: {} states", copies.len());
        let again = folder.path().join("again.checkpoint");
        for (index, copy) in copies.iter().enumerate().step_by(3) {
            std::fs::write(&again, copy).expect("written");
            assert!(resumed(&again) == whole, "{what}: state {index} of {}", copies.len());
        }

        // The fit is interrupted after the second epoch, before any state has been saved.
        let (flag, heard) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut checkpoint = Checkpoint::new(&path, identity(), None);
        let mut interrupt = |event: &Event| {
            if matches!(event, Event::Epoch { .. }) {
                flag.store(heard.swap(true, Ordering::Relaxed), Ordering::Relaxed);
            }
        };
        let mut session = Session::new(&mut interrupt).with_interrupt(&flag).with_checkpoint(&mut checkpoint);
        let error = case.fit(&mut session).err().unwrap_or_else(|| panic!("{what}: not interrupted"));
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{what}: {error}");
        assert!(resumed(&path) == whole, "{what}: after an interruption");
    }
}

#[test]
fn a_state_of_another_fit_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("fit.checkpoint");
    let all = cases();
    let mut copies = Vec::new();
    let mut checkpoint = Checkpoint::new(&path, identity(), Some(Duration::ZERO));
    let mut copy = |event: &Event| copies.extend(state_of_epoch(event, &path));
    all[0].fit(&mut Session::new(&mut copy).with_checkpoint(&mut checkpoint)).expect("a fit");
    std::fs::write(&path, &copies[1]).expect("written");
    for other in all.iter().filter(|case| ["samples of w", "counts"].contains(&case.name)) {
        let error = other.resumed(&path).err().unwrap_or_else(|| panic!("{}: accepted", other.name));
        assert!(
            error.to_string().ends_with("the stored state does not match its stage of the fit"),
            "{error}"
        );
    }
}

const FIT: &str =
    "fit data.csv --target y --hyper joint --inducing 30 --batch-size 40 --tolerance 0 --test-fraction 0.1";

/// Returns a metrics document without times and file names.
fn comparable(mut document: serde_json::Value) -> serde_json::Value {
    for seconds in ["seconds", "seconds_per_step"] {
        document["fit"][seconds] = 0.into();
    }
    let trace = document["trace"].as_array_mut().expect("a trace");
    trace.iter_mut().for_each(|record| record["seconds"] = 0.into());
    document["config"]["max_seconds"] = 0.into();
    document
}

#[cfg(unix)]
#[test]
fn an_interrupted_fit_leaves_a_checkpoint_and_its_own_status() {
    let work = Work::with("data.csv", &table(400));
    work.run(&format!("{FIT} --epochs 300 --quiet --metrics whole.json")).ok();
    let mut child = work
        .command(&format!("{FIT} --epochs 300 --model-out m --metrics m.json"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut lines = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let first = lines.find(|line| line.as_ref().expect("text").starts_with("epoch "));
    assert!(first.expect("an epoch").expect("text").starts_with("epoch 30/300 "));
    let killed = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().expect("a signal");
    assert!(killed.success());
    let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    let [.., error, hint] = rest.as_slice() else { panic!("{rest:?}") };
    assert_eq!(error, "error: interrupted; a checkpoint is left in m.checkpoint");
    assert_eq!(hint, "hint: repeat the command with --resume m.checkpoint to continue");
    assert_eq!(work.names(), ["data.csv", "m.checkpoint", "whole.json"], "nothing half-written");

    let other = work.run(&format!("{FIT} --epochs 300 --seed 1 --resume m.checkpoint"));
    other.fails(3, &["m.checkpoint: belongs to another fit: seed is 0 in the checkpoint and 1 in this fit"]);
    work.run(&format!("{FIT} --epochs 300 --quiet --metrics m.json --resume m.checkpoint")).ok();
    assert_eq!(comparable(work.json("m.json")), comparable(work.json("whole.json")));
}
