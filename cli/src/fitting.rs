//! Runs the fit that the arguments describe, with the rows in memory or on disk.

use super::args::FitArgs;
use super::interruption;
use super::progress::Progress;
use sparsegp::checkpoint::{Checkpoint, Identity};
use sparsegp::files::file_digest;
use sparsegp::hyper::{Clock, Event, Session};
use sparsegp::options::FitOptions;
use sparsegp::{Error, Result};
use sparsegp_reports::{Evaluation, Evaluator, KeptRows};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::{Table, large_size};
use sparsegp_tables::tabular::{
    Baselines, FileFit, FileFitRequest, FitRequest, MemoryPlan, TableFit, TableModel, TableRows,
    TrainingSample, check_file_fit, fit_conformal_in, fit_file, fit_table_in, select_beta,
};
use std::time::{Duration, Instant};

/// The maximum size in bytes of the numbers in a file whose rows a fit reads into memory by default. Reading and training need about three
/// times as much memory.
const MOST_IN_MEMORY: u64 = 1 << 30;

/// A line announces the next phase only if the fit has taken longer than this.
const LONG: Duration = Duration::from_secs(5);

/// A finished fit, with access to its held-out rows.
pub struct Fitting {
    pub rows: usize,
    /// The baselines, if the rows are in memory and there are test rows.
    pub baselines: Option<Baselines>,
    /// A sample of the rows, if they are in memory, there are no test rows, and a report needs the sample.
    pub kept: Option<KeptRows>,
    fit: Fit,
}

enum Fit {
    Table(Box<TableFit>),
    File(Box<FileFit>),
}

impl Fitting {
    fn new(rows: usize, fit: Fit) -> Fitting {
        Fitting { rows, baselines: None, kept: None, fit }
    }

    pub fn model(&self) -> &TableModel {
        match &self.fit {
            Fit::Table(fit) => &fit.model,
            Fit::File(fit) => &fit.model,
        }
    }

    pub fn shuffle_buffer(&self) -> Option<usize> {
        match &self.fit {
            Fit::Table(_) => None,
            Fit::File(fit) => Some(fit.plan.buffer_rows),
        }
    }

    pub fn for_each_test(&self, visit: &mut dyn FnMut(&TableRows) -> Result<()>) -> Result<()> {
        match &self.fit {
            Fit::Table(fit) => fit.test.iter().try_for_each(visit),
            Fit::File(fit) => fit.test_parts()?.try_for_each(|part| visit(&part?)),
        }
    }

    pub fn evaluate(&self) -> Result<Evaluation> {
        let mut evaluator = Evaluator::new(self.model(), self.baselines.as_ref()).keeping_rows();
        self.for_each_test(&mut |part| {
            evaluator.push_part(part);
            Ok(())
        })?;
        Ok(evaluator.finish())
    }

    pub fn evaluate_validation(&self) -> Option<Evaluation> {
        let validation = match &self.fit {
            Fit::Table(fit) => &fit.validation,
            Fit::File(fit) => &fit.validation,
        };
        validation.as_ref().map(|part| Evaluation::of_part(self.model(), part))
    }
}

/// Returns the clock for `--max-seconds`, if it is set; it counts from the start of the command.
pub fn clock(options: &FitOptions, started: Instant) -> Option<Clock> {
    options.max_seconds.map(|seconds| Clock::since(started, seconds))
}

/// Fits the baselines for the test rows. They are optional, so a failure or an interruption returns `None`.
pub fn baselines(request: &FitRequest<'_>, clock: Option<Clock>, model: &TableModel) -> Option<Baselines> {
    let mut quiet = |_: &Event| {};
    let mut session = Session::new(&mut quiet).with_interrupt(interruption::flag());
    let sample = TrainingSample::draw(request, model).ok()?;
    Baselines::of(&sample, model, &mut session.until(clock, Clock::BASELINES)).ok()
}

/// Returns true if the user wants the rows to stay on disk. A model with neighbours holds its training rows, so they do not.
fn buffers(args: &FitArgs, options: &FitOptions) -> bool {
    args.shuffle_buffer.is_some() && options.neighbours.is_none()
}

/// Refuses, before any work, a shuffle buffer for a fit that cannot use one.
pub fn check(args: &FitArgs, options: &FitOptions) -> Result<()> {
    if !buffers(args, options) {
        return Ok(());
    }
    if args.betas.is_some() {
        return Err(Error::usage(
            "--betas needs all rows in memory, so it cannot be combined with --shuffle-buffer",
        )
        .hint("give --beta, or choose β on a part of the rows"));
    }
    check_file_fit(&args.data, &args.schema_options(), options, args.shuffle_buffer)
}

#[derive(Clone, Copy)]
pub struct Job<'a> {
    pub args: &'a FitArgs,
    pub options: &'a FitOptions,
    pub start: Option<&'a TableModel>,
    /// The start of the command, from which time limits count.
    pub started: Instant,
}

/// Fits the model, from disk if the user set `--shuffle-buffer` or the file is too large for memory. `table` holds the data if they have
/// already been read.
pub fn fit(job: Job<'_>, table: Option<Table>) -> Result<(Fitting, Checkpoint)> {
    let Job { args, options, start, started } = job;
    if args.shuffle_buffer.is_some() && options.neighbours.is_some() {
        args.note("note: a model with neighbours keeps its training rows, so all rows are read into memory");
    }
    if buffers(args, options) || chooses_disk(job) {
        // Rows in memory would defeat the purpose of a fit from disk.
        drop(table);
        return fit_from_disk(job);
    }
    let table = table.map_or_else(|| args.columns.read(&args.data), Ok)?;
    let (columns, test_fraction) = (args.schema_options(), args.test_fraction());
    let request = FitRequest { test_fraction, start, ..FitRequest::new(&table, &columns, options) };
    let (mut fitting, checkpoint) = watched(job, &table.digest(), |session| {
        let fit = match &args.betas {
            Some(betas) => select_beta(&request, betas, session)?.0,
            None if args.conformal => fit_conformal_in(&request, args.cv.map(usize::from), session)?,
            None => fit_table_in(&request, session)?,
        };
        Ok(Fitting::new(table.rows(), Fit::Table(Box::new(fit))))
    })?;
    if let Fit::Table(fit) = &fitting.fit {
        if fit.test.is_some() || args.test.is_some() {
            if started.elapsed() > LONG {
                args.note("test rows: fitting baselines, then predicting");
            }
            fitting.baselines = baselines(&request, clock(request.options, started), &fit.model);
        } else if args.wants_page() {
            fitting.kept = Some(sample(&fit.model, &table)?);
        }
    }
    Ok((fitting, checkpoint))
}

/// Returns a sample of the rows with a target, for a report without test rows.
pub fn sample(model: &TableModel, table: &Table) -> Result<KeptRows> {
    let mut rows = KeptRows::new(model);
    rows.push_table(model, &table.with_values(model.schema().target_name()), UnseenLevels::New)?;
    Ok(rows)
}

fn fit_from_disk(job: Job<'_>) -> Result<(Fitting, Checkpoint)> {
    let Job { args, options, start, .. } = job;
    let columns = args.schema_options();
    let request = FileFitRequest {
        path: &args.data,
        columns: &columns,
        options,
        test_fraction: args.test_fraction(),
        start,
        shuffle_buffer: args.shuffle_buffer,
    };
    let planned = &mut |plan: &MemoryPlan| args.note(&describe(plan));
    let digest = file_digest(&args.data)?;
    watched(job, &digest, |session| {
        fit_file(&request, planned, session).map(|fit| Fitting::new(fit.rows, Fit::File(Box::new(fit))))
    })
}

/// Runs `fit` in a session that shows progress, ends at Ctrl-C, and saves checkpoints.
fn watched(
    job: Job<'_>,
    digest: &str,
    fit: impl FnOnce(&mut Session<'_>) -> Result<Fitting>,
) -> Result<(Fitting, Checkpoint)> {
    let args = job.args;
    let mut checkpoint = interruption::checkpoint(args, || identity(job, digest))?;
    let mut progress = Progress::of_fit(args.data.display().to_string(), args.quiet);
    let mut listener = |event: &Event| progress.show(event);
    let mut session = Session::new(&mut listener)
        .with_interrupt(interruption::flag())
        .with_clock(clock(job.options, job.started))
        .with_checkpoint(&mut checkpoint);
    let fitted = fit(&mut session)?;
    progress.end(fitted.model().summary());
    Ok((fitted, checkpoint))
}

/// Returns everything that determines the course of the fit; a checkpoint of another identity is refused.
fn identity(job: Job<'_>, data: &str) -> Result<Identity> {
    let Job { args, options, start, .. } = job;
    let mut identity: Identity = vec![
        ("the program's version".into(), env!("CARGO_PKG_VERSION").into()),
        ("the data's digest".into(), data.into()),
    ];
    if let Some(start) = start {
        identity.push(("the start model's digest".into(), start.digest()?));
    }
    let parts = [serde_json::to_value(options), serde_json::to_value(args.schema_options())];
    for (name, value) in parts.into_iter().flatten().filter_map(|part| part.as_object().cloned()).flatten() {
        // A time limit does not change the steps before the limit.
        if name != "max_seconds" {
            identity.push((name, value.to_string()));
        }
    }
    let betas = args.betas.as_ref().map_or("none".to_owned(), ToString::to_string);
    identity.push(("betas".into(), betas));
    identity.push(("conformal".into(), args.conformal.to_string()));
    identity.push(("test_fraction".into(), args.test_fraction().to_string()));
    let buffer = args.shuffle_buffer.map_or("by size".to_owned(), |rows| rows.to_string());
    identity.push(("shuffle_buffer".into(), buffer));
    Ok(identity)
}

/// Returns true if the rows should stay on disk because the file is too large for memory, and prints a note unless `--quiet` is set.
fn chooses_disk(Job { args, options, start, .. }: Job<'_>) -> bool {
    let columns = args.schema_options();
    if !columns.groups.is_empty() {
        return false;
    }
    let names = start.map(|start| start.schema().used_names());
    let wanted = |name: &str| names.as_ref().map_or_else(|| columns.uses(name), |names| names.contains(name));
    let Some((rows, bytes)) = large_size(&args.data, args.columns.delimiter, &wanted, MOST_IN_MEMORY) else {
        return false;
    };
    let size = format!("{}: about {rows} rows, {:.1} GiB of numbers", args.data.display(), gib(bytes as f64));
    let on_disk = args.betas.is_none()
        && !args.conformal
        && check_file_fit(&args.data, &columns, options, None).is_ok();
    args.note(&match on_disk {
        true => format!(
            "note: {size}; the rows stay on disk; --shuffle-buffer sets the number of rows that are shuffled in memory"
        ),
        false => format!("note: {size}; this fit needs all of them in memory"),
    });
    on_disk
}

fn gib(bytes: f64) -> f64 {
    bytes / (1u64 << 30) as f64
}

fn describe(plan: &MemoryPlan) -> String {
    format!(
        "training on {} rows from disk through a shuffle buffer of {}; at most {} rows in memory, {:.0} MiB",
        plan.training_rows,
        plan.buffer_rows,
        plan.most_rows,
        (1024.0 * gib(plan.most_bytes as f64)).ceil()
    )
}
