//! Interrupted fits continue from their checkpoint with the same bits as an uninterrupted fit.

use sparsegp::checkpoint::{Checkpoint, Identity};
use sparsegp::hyper::{Event, Session};
use sparsegp::options::{Betas, FitOptions, ModelKind};
use sparsegp::variational::QUpdate;
use sparsegp::{ErrorKind, Result};
use sparsegp_tables::options::{Given, find, unchecked};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tables::{Table, read_csv};
use sparsegp_tables::tabular::{FitRequest, TableModel, fit_conformal_in, fit_table_in, select_beta};
use sparsegp_testkit::program::{Work, table, without_seconds};
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

/// Fits by their data and the options that differ from the defaults of this test.
const GAUSSIAN_PROCESSES: [(Data, &str); 19] = [
    (CO2, "epochs=6 batch_size=30 hyper=joint validation_fraction=0.2"),
    (CO2, "epochs=4 batch_size=30 hyper=dual"),
    (CO2, "epochs=4 neighbours=6 objective=dlm-log validation_fraction=0.2"),
    (CO2, "epochs=4 neighbours=6 likelihood=student-t"),
    (CO2, "epochs=4 batch_size=30 auto=all"),
    (CO2, "epochs=5 hyper=alternating hyper_optimizer=adam validation_fraction=0.2"),
    (CO2, "epochs=4 batch_size=30 hyper=joint objective=dlm-log estimator=ups:5"),
    (CO2, "epochs=9 objective=vfe validation_fraction=0.2"),
    (CO2, "epochs=8 objective=vfe hyper_optimizer=adam"),
    (CO2, "epochs=8 objective=fitc"),
    (CO2, "epochs=9 objective=dlm-log validation_fraction=0.2"),
    (CO2, "epochs=8 objective=dlm-square"),
    (CO2, "epochs=4 batch_size=30 hyper=joint batch_schedule=power:1 q_average=tail"),
    (CO2, "epochs=4 batch_size=30 hyper=joint likelihood=gaussian-heteroskedastic"),
    (CO2, "epochs=4 batch_size=30 hyper=joint validation_fraction=0.2 betas=1,0.3,0.1"),
    (VISITS, "epochs=4 batch_size=30 likelihood=poisson"),
    (VISITS, "epochs=4 hyper=alternating likelihood=zero-inflated-poisson"),
    (VISITS, "epochs=6 batch_size=30 likelihood=poisson group=disea"),
    (CO2, "epochs=4 objective=vfe conformal=yes"),
];

/// A fit that can be interrupted after every epoch.
struct Case {
    name: String,
    table: Table,
    target: &'static str,
    group: Option<String>,
    options: FitOptions,
    betas: Option<Betas>,
    conformal: bool,
}

/// Creates a case from options by name, such as `epochs=4 hyper=dual`.
fn case((csv, most, target): Data, name: &str) -> Case {
    let usual = "auto=none tolerance=0 warm_start=4";
    let pairs = usual.split(' ').chain(name.split(' ')).map(|pair| pair.split_once('=').expect("a value"));
    let (own, values): (Vec<_>, Vec<_>) =
        pairs.partition(|(name, _)| ["betas", "group", "conformal"].contains(name));
    let value = |(name, text): (&str, &str)| {
        (name.to_owned(), find(name).expect(name).kind.parse(text).expect("a value"))
    };
    let options = unchecked(&values.into_iter().map(value).collect(), &Given::default()).expect("options");
    let inducing = (options.model != ModelKind::Glm).then_some(7);
    let options = FitOptions { inducing, ..options };
    let text: String = csv.lines().take(most + 1).map(|line| format!("{line}\n")).collect();
    let table = read_csv("data.csv", std::io::Cursor::new(text)).expect("a table");
    let own = |wanted: &str| own.iter().find(|(name, _)| *name == wanted).map(|(_, text)| *text);
    let betas = own("betas").map(|text| text.parse().expect("values of β"));
    let (group, conformal) = (own("group").map(str::to_owned), own("conformal").is_some());
    Case { name: name.to_owned(), table, target, group, options, betas, conformal }
}

fn cases() -> Vec<Case> {
    let mut all: Vec<Case> = GAUSSIAN_PROCESSES.iter().map(|(data, options)| case(*data, options)).collect();
    let linear = |options: &str| {
        case(TUMOURS, &format!("model=glm likelihood=bernoulli-logit batch_size=30 {options}"))
    };
    all.push(linear("epochs=4 estimator=price:3 sample_schedule=power:1 q_average=expectation"));
    // Natural gradients of a full q are the default of the cases above.
    let families = ["full", "diagonal"].into_iter().cycle();
    for (rule, family) in QUpdate::WORDS.iter().filter(|rule| **rule != "ngd").zip(families) {
        all.push(linear(&format!("epochs=3 q_update={rule} family={family}")));
    }
    all.push(linear("epochs=3 family=diagonal q_step=const:0.2"));
    all
}

fn identity() -> Identity {
    vec![("test".into(), "resume".into())]
}

impl Case {
    fn fit(&self, session: &mut Session<'_>) -> Result<Vec<u64>> {
        let columns = SchemaOptions {
            target: self.target.to_owned(),
            groups: self.group.iter().map(|group| group.parse().expect("a formula")).collect(),
            ..SchemaOptions::default()
        };
        let request =
            FitRequest { test_fraction: 0.1, ..FitRequest::new(&self.table, &columns, &self.options) };
        let fit = match &self.betas {
            Some(betas) => select_beta(&request, betas, session)?.0,
            None if self.conformal => fit_conformal_in(&request, None, session)?,
            None => fit_table_in(&request, session)?,
        };
        Ok(bits(&fit.model))
    }

    /// Fits with a checkpoint, and returns the bits of the result and the states during the events of epochs. The file on disk then holds
    /// the state before the last step of this epoch.
    fn states(&self, path: &Path) -> Result<(Vec<u64>, Vec<Vec<u8>>)> {
        let mut states = Vec::new();
        let mut checkpoint = Checkpoint::new(path, identity(), Some(Duration::ZERO));
        let mut copy = |event: &Event| {
            if matches!(event, Event::Epoch { .. }) {
                states.push(std::fs::read(path).expect("a checkpoint"));
            }
        };
        let bits = self.fit(&mut Session::new(&mut copy).with_checkpoint(&mut checkpoint))?;
        Ok((bits, states))
    }

    /// Resumes the fit from a checkpoint, without further interruptions, and returns its bits.
    fn resumed(&self, path: &Path) -> Result<Vec<u64>> {
        let mut checkpoint = Checkpoint::new(path, identity(), None).resume(path)?;
        self.fit(&mut Session::new(&mut |_: &Event| {}).with_checkpoint(&mut checkpoint))
    }
}

/// Returns the bits of the complete result of a fit, except for times.
fn bits(model: &TableModel) -> Vec<u64> {
    let summary = model.summary();
    let mut numbers = model.latent().natural();
    numbers.extend_from_slice(model.q().mean());
    let cov = model.q().cov().to_dense();
    cov.col_iter().for_each(|column| numbers.extend(column.iter()));
    numbers.extend([summary.objective, summary.jitter]);
    numbers.extend(model.conformal().map(|scores| scores.factor_95()));
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
        let whole = whole.unwrap_or_else(|error| panic!("{what}: {error}"));
        let path = folder.path().join("fit.checkpoint");
        let (watched, states) = case.states(&path).expect("a fit");
        assert!(watched == whole, "{what}: saving changes the fit");
        assert!(states.len() >= 3, "{what}: {} states", states.len());
        for (index, state) in states.iter().enumerate().step_by(3) {
            std::fs::write(&path, state).expect("written");
            assert!(resumed(&path) == whole, "{what}: state {index} of {}", states.len());
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
    let (_, states) = all[0].states(&path).expect("a fit");
    std::fs::write(&path, &states[1]).expect("written");
    // Counts, and a linear model.
    for other in [&all[15], &all[19]] {
        let error = other.resumed(&path).err().unwrap_or_else(|| panic!("{}: accepted", other.name));
        let words = "the stored state does not match its stage of the fit";
        assert!(error.to_string().ends_with(words), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_fit_leaves_a_checkpoint_and_its_own_status() {
    let work = Work::with("data.csv", table(400));
    let fit = "fit data.csv --target y --hyper joint --inducing 30 --batch-size 40 --tolerance 0 --test-fraction 0.1 --epochs 300";
    work.run(&format!("{fit} --quiet --metrics whole.json")).ok();
    let mut command = work.command(&format!("{fit} --model-out m --metrics m.json"));
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut lines = BufReader::new(child.stderr.take().expect("standard error")).lines();
    let first = lines.by_ref().map(|line| line.expect("text")).find(|line| line.starts_with("epoch "));
    assert!(first.expect("an epoch").starts_with("epoch 30/300 "));
    let killed = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().expect("a signal");
    assert!(killed.success());
    let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    let [.., error, hint] = rest.as_slice() else { panic!("{rest:?}") };
    assert_eq!(error, "error: interrupted; a checkpoint is left in m.checkpoint");
    assert_eq!(hint, "hint: repeat the command with --resume m.checkpoint to continue");
    assert_eq!(work.names(), ["data.csv", "m.checkpoint", "whole.json"], "nothing half-written");

    let words = ["m.checkpoint: belongs to another fit: seed is 0 in the checkpoint and 1 in this fit"];
    work.run(&format!("{fit} --seed 1 --resume m.checkpoint")).fails(3, &words);
    work.run(&format!("{fit} --quiet --metrics m.json --resume m.checkpoint")).ok();
    let [resumed, whole] = ["m.json", "whole.json"].map(|name| without_seconds(work.json(name)));
    assert_eq!(resumed, whole);
}
