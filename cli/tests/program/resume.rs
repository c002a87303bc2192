//! Interrupted fits continue from their checkpoint with the same bits as an uninterrupted fit.

use sparsegp::checkpoint::{Checkpoint, Identity};
use sparsegp::hyper::{Event, Session};
use sparsegp::options::{Betas, FitOptions, ModelKind};
use sparsegp::variational::QUpdate;
use sparsegp::{ErrorKind, Result};
use sparsegp_tables::options::{Given, find, unchecked};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tables::{Table, read_csv};
use sparsegp_tables::tabular::{FitRequest, TableFit, TableModel, fit_table_in, select_beta};
use sparsegp_testkit::program::{Work, table};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A data set: its text, the number of rows that are read, and the target.
type Data = (&'static str, usize, &'static str);

const CO2: Data = (sparsegp_data::CO2_MONTHLY, 120, "co2");
const TUMOURS: Data = (sparsegp_data::BREAST_CANCER, 100, "diagnosis");
const VISITS: Data = (sparsegp_data::DOCTOR_VISITS, 120, "visits");

/// A fit that can be interrupted after every epoch.
struct Case {
    name: String,
    table: Table,
    target: &'static str,
    group: Option<&'static str>,
    options: FitOptions,
    betas: Option<Betas>,
}

/// Creates a case from options by name, such as `epochs=4 hyper=dual`.
fn case(name: &str, (csv, most, target): Data, options: &str) -> Case {
    let value = |pair: &str| {
        let (name, text) = pair.split_once('=').expect("a name and a value");
        let value = find(name).expect(name).kind.parse(text).expect("a value");
        (name.to_owned(), value)
    };
    let usual = "auto=none tolerance=0 warm_start=4";
    let values = usual.split(' ').chain(options.split(' ')).map(value).collect();
    let options = unchecked(&values, &Given::default()).expect("options");
    let linear = options.model == ModelKind::Glm;
    let options = FitOptions { inducing: (!linear).then_some(7), ..options };
    let text: String = csv.lines().take(most + 1).map(|line| format!("{line}\n")).collect();
    let table = read_csv("data.csv", std::io::Cursor::new(text)).expect("a table");
    Case { name: name.to_owned(), table, target, group: None, options, betas: None }
}

fn cases() -> Vec<Case> {
    let linear = "model=glm likelihood=bernoulli-logit batch_size=30";
    let mut all: Vec<Case> = [
        ("elbo with validation", CO2, "epochs=6 batch_size=30 hyper=joint validation_fraction=0.2"),
        ("dual", CO2, "epochs=4 batch_size=30 hyper=dual"),
        ("neighbours", CO2, "epochs=4 neighbours=6 objective=dlm-log validation_fraction=0.2"),
        ("neighbours and sites", CO2, "epochs=4 neighbours=6 likelihood=student-t"),
        ("choices", CO2, "epochs=4 batch_size=30 auto=all"),
        ("alternating", CO2, "epochs=5 hyper=alternating hyper_optimizer=adam validation_fraction=0.2"),
        ("samples of f", CO2, "epochs=4 batch_size=30 hyper=joint objective=dlm-log estimator=ups:5"),
        ("vfe with validation", CO2, "epochs=9 objective=vfe validation_fraction=0.2"),
        ("vfe by adam", CO2, "epochs=8 objective=vfe hyper_optimizer=adam"),
        ("fitc", CO2, "epochs=8 objective=fitc"),
        ("everything by L-BFGS", CO2, "epochs=9 objective=dlm-log validation_fraction=0.2"),
        ("dlm-square", CO2, "epochs=8 objective=dlm-square"),
        ("growth", CO2, "epochs=4 batch_size=30 hyper=joint batch_schedule=power:1 q_average=tail"),
        ("counts", VISITS, "epochs=4 batch_size=30 likelihood=poisson"),
        ("varying noise", CO2, "epochs=4 batch_size=30 hyper=joint likelihood=gaussian-heteroskedastic"),
        ("zeros", VISITS, "epochs=4 hyper=alternating likelihood=zero-inflated-poisson"),
    ]
    .map(|(name, data, options)| case(name, data, options))
    .into();
    let grid = "epochs=4 batch_size=30 hyper=joint validation_fraction=0.2";
    all.push(Case { betas: Some(Betas::List(vec![1.0, 0.3, 0.1])), ..case("a grid of betas", CO2, grid) });
    all.push(Case {
        group: Some("disea"),
        ..case("groups of counts", VISITS, "epochs=6 batch_size=30 likelihood=poisson")
    });
    let samples = "epochs=4 estimator=price:3 sample_schedule=power:1 q_average=expectation";
    all.push(case("samples of w", TUMOURS, &format!("{linear} {samples}")));
    // Natural gradients of a full q are the default of the cases above.
    let families = ["full", "diagonal"].into_iter().cycle();
    for (rule, family) in QUpdate::WORDS.iter().filter(|rule| **rule != "ngd").zip(families) {
        all.push(case(rule, TUMOURS, &format!("{linear} epochs=3 q_update={rule} family={family}")));
    }
    let diagonal = "epochs=3 family=diagonal q_step=const:0.2";
    all.push(case("ngd, diagonal", TUMOURS, &format!("{linear} {diagonal}")));
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
        let request =
            FitRequest { test_fraction: 0.1, ..FitRequest::new(&self.table, &columns, &self.options) };
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
        let what = &case.name;
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
    for other in all.iter().filter(|case| ["samples of w", "counts"].contains(&case.name.as_str())) {
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
