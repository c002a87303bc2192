//! Fits to files that stay on disk: memory plan, training through a shuffle buffer, and its end.

use super::held_out::{Shares, roles_of_file};
use super::model::TableModel;
use super::resolve::{check_start_target, schema_options};
use super::rows::TableRows;
use super::streamed::{DataFile, FileBatches, FileRows, changed};
use super::survey::{Sampled, Survey, Surveyed, survey};
use crate::schema::{Schema, SchemaOptions};
use crate::tables::table::absent;
use crate::tables::{Ahead, column_names, large_size, read_table_with};
use sparsegp::data::{BatchPlan, Role, Roles, check_fractions};
use sparsegp::error::{Error, Result};
use sparsegp::files::check_input;
use sparsegp::hyper::{Clock, Session};
use sparsegp::options::{FitOptions, Hyper, MeanKind, ModelKind, Part};
use sparsegp::training::BatchSource;
use std::path::Path;
use std::sync::Arc;

/// The size in bytes of the rows in a shuffle buffer of default size.
const BUFFER_BYTES: usize = 256 << 20;

/// The request for a fit to a file whose training rows are read again in every epoch.
#[derive(Clone, Copy)]
pub struct FileFitRequest<'a> {
    /// The path of the file; standard input is not possible.
    pub path: &'a Path,
    /// The columns to use; with `start`, only the target is read from here, the rest comes from the start model.
    pub columns: &'a SchemaOptions,
    /// The options of the fit.
    pub options: &'a FitOptions,
    /// The share of the rows held out for testing.
    pub test_fraction: f64,
    /// A model to start from: its columns, scaling, kernel, hyper-parameters and inducing inputs.
    pub start: Option<&'a TableModel>,
    /// The number of rows that are shuffled in memory; `None` means 256 MiB of rows.
    pub shuffle_buffer: Option<usize>,
}

/// The memory that training from a file needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The number of training rows.
    pub training_rows: usize,
    /// The number of rows of the shuffle buffer.
    pub buffer_rows: usize,
    /// The maximum number of rows in memory: the buffer, blocks being read, batches in use and samples.
    pub most_rows: usize,
    /// The maximum number of bytes of all these rows.
    pub most_bytes: usize,
}

/// A fitted model, with access to the held-out rows of the file.
pub struct FileFit {
    /// The model.
    pub model: TableModel,
    /// The validation rows, if any were requested; a sample of them if there are more than 20,480.
    pub validation: Option<TableRows>,
    /// The number of rows of the file.
    pub rows: usize,
    /// The memory that training used.
    pub plan: MemoryPlan,
    file: Arc<DataFile>,
}

impl FileFit {
    /// Reads the test rows again, block by block.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened again; an item is an error if the file cannot be read to its end or has changed.
    pub fn test_parts(&self) -> Result<impl Iterator<Item = Result<TableRows>> + use<>> {
        let mut parts = self.file.parts(Role::Test, None)?;
        Ahead::new(1, move || parts.next())
    }
}

/// Refuses a file that cannot be read in every epoch, a buffer without rows, and fits that need all rows in memory.
///
/// # Errors
///
/// Usage errors that name the option; data errors if the file cannot be inspected.
pub fn check_file_fit(
    path: &Path,
    columns: &SchemaOptions,
    options: &FitOptions,
    shuffle_buffer: Option<usize>,
) -> Result<()> {
    if shuffle_buffer == Some(0) {
        return Err(Error::usage("⟨shuffle_buffer⟩ is 0, expected at least 1 row"));
    }
    check_without_table(columns, options)?;
    check_readable_twice(path)
}

/// Refuses fits that need all rows in memory.
fn check_without_table(columns: &SchemaOptions, options: &FitOptions) -> Result<()> {
    // Sums by level add up over blocks of rows, so fits with groups read the rows in order.
    let one_pass = !columns.groups.is_empty() && options.neighbours.is_none();
    let collapsed = options.is_collapsed() && !one_pass;
    let hyper = options.hyper.filter(|_| options.has_own_q());
    let asked = match hyper {
        Some(hyper) => format!("⟨hyper {hyper}⟩"),
        None => format!("⟨objective {}⟩", options.objective),
    };
    let one_of_two = "leave out one of the two, or fit a part of the rows";
    let on_a_part = "use it on a part of the rows, and start from that model with ⟨from⟩";
    let whole = [
        (collapsed && options.neighbours.is_some(), "⟨neighbours⟩", one_of_two),
        (collapsed, asked.as_str(), "use ⟨objective elbo⟩ or dlm-log with ⟨hyper joint⟩"),
        (options.hyper == Some(Hyper::Alternating), "⟨hyper alternating⟩", on_a_part),
        (options.growth.is_some(), "⟨inducing auto⟩", on_a_part),
        (options.restarts > 1, "⟨restarts⟩", on_a_part),
        (
            options.mean == MeanKind::Trees && columns.split.is_some(),
            "⟨mean trees⟩ with rows held out by group or time",
            "use ⟨mean constant⟩, or fit to a part of the rows",
        ),
        (options.steps.batch_schedule.is_some(), "⟨batch_schedule⟩", "give ⟨batch_size⟩ instead"),
    ];
    let Some((_, name, hint)) = whole.into_iter().find(|(applies, ..)| *applies) else { return Ok(()) };
    let needs = format!("{name} needs all rows in memory and cannot be used with ⟨shuffle_buffer⟩");
    Err(Error::usage(needs).hint(hint))
}

/// Fits a model to a file without holding its rows in memory. `planned` receives the memory plan before training starts, `session` every
/// stage and epoch.
///
/// One pass finds columns and scaling, checks every row and draws two samples: one to choose inducing inputs
/// and starting hyper-parameters, and one of 20,480 rows to estimate the objective. The held-out rows are the
/// same as in [`fit_table`](super::fit_table); if there are any, a text file is first read once more to count
/// its rows. Training then reads the file once per epoch.
///
/// # Errors
///
/// As for [`fit_table`](super::fit_table), and if reading fails or the file changes during the fit.
pub fn fit_file(
    request: &FileFitRequest<'_>,
    planned: &mut dyn FnMut(&MemoryPlan),
    session: &mut Session<'_>,
) -> Result<FileFit> {
    check_file_fit(request.path, request.columns, request.options, request.shuffle_buffer)?;
    if let Some(start) = request.start {
        check_start_target(start.schema(), request.columns)?;
        start.check_no_groups("⟨from⟩ with ⟨shuffle_buffer⟩")?;
        request.columns.check_no_groups("⟨from⟩ with ⟨shuffle_buffer⟩")?;
    }
    let roles = roles_for(request)?;
    let surveyed = survey_for(request, &roles)?;
    let (rows, groups) = (surveyed.rows, surveyed.groups.clone());
    let clock = session.clock(request.options.max_seconds);
    let choosing = &mut session.until(clock, Clock::CHOICES);
    let open = match request.columns.split {
        // Folds of rows that are not in memory do not respect groups and times.
        Some(_) => request.options.open.without(&[Part::Mean]),
        None => request.options.open,
    };
    let options = FitOptions { open, ..request.options.clone() };
    let mut sampled = Sampled::of(surveyed, &options, request.start, by_batches, choosing)?;
    let session = &mut session.until(clock, Clock::TRAINING);
    let (schema, scaling, train) = (sampled.schema.clone(), sampled.scaling.clone(), sampled.train);
    let (path, delimiter) = (request.path.to_owned(), request.columns.delimiter);
    let file = Arc::new(DataFile { path, delimiter, schema, scaling, roles, groups, rows, train });
    let plan = plan_memory(&file, &sampled, request.shuffle_buffer);
    planned(&plan);
    let batches = |batch: BatchPlan, seed: u64| -> Result<Box<dyn BatchSource>> {
        let batch = batch.first(train);
        Ok(Box::new(FileBatches::new(Arc::clone(&file), batch, plan.buffer_rows, seed)?))
    };
    let all = FileRows(Arc::clone(&file));
    let validation = sampled.validation.take();
    let model = sampled.train(&all, true, &batches, request.start, session)?;
    Ok(FileFit { model, validation, rows, plan, file })
}

/// Refuses an input that can be read only once.
fn check_readable_twice(path: &Path) -> Result<()> {
    let source = path.display();
    if path == Path::new("-") {
        let found = "standard input cannot be read again in every epoch";
        return Err(Error::usage(format!("{found}: ⟨shuffle_buffer⟩ needs a file")));
    }
    let metadata = path.metadata();
    let metadata = metadata.map_err(|error| Error::data(format!("{source}: cannot be read: {error}")))?;
    if metadata.is_file() || metadata.is_dir() {
        return Ok(());
    }
    let found = format!("{source}: is not an ordinary file");
    Err(Error::usage(format!("{found}; ⟨shuffle_buffer⟩ reads its file again in every epoch")))
}

/// Returns the role of every row; counts the rows first if some are held out.
fn roles_for(request: &FileFitRequest<'_>) -> Result<Roles> {
    let shares = Shares::of(request.test_fraction, request.options);
    check_fractions(shares.test, shares.validation)?;
    if shares.test + shares.validation == 0.0 {
        return Ok(Roles::default());
    }
    roles_of_file(request.path, request.columns, shares)
}

fn survey_for(request: &FileFitRequest<'_>, roles: &Roles) -> Result<Surveyed> {
    let known = request.start.map(|start| start.schema().clone());
    let columns = SchemaOptions { known, ..schema_options(request.columns, request.options)? };
    let surveyed = survey(request.path, &Survey { columns: &columns, roles, options: request.options })?;
    match roles.rows() {
        Some(counted) if counted != surveyed.rows => Err(changed(request.path, surveyed.rows, counted)),
        _ => Ok(surveyed),
    }
}

/// Returns the options with the defaults that follow from the number of training rows.
fn by_batches(options: FitOptions, train: usize) -> FitOptions {
    let sparse = options.model == ModelKind::Gp;
    let inducing = if sparse { Some(options.inducing_for(train)) } else { options.inducing };
    let options = FitOptions { inducing, ..options };
    let sums = !options.effects.is_empty() && options.adds_up();
    if sums { options.decided_for(train) } else { options.by_batches() }
}

fn plan_memory(file: &DataFile, sampled: &Sampled, buffer_rows: Option<usize>) -> MemoryPlan {
    let row_bytes = file.row_width() * size_of::<f64>();
    let buffer = buffer_rows.unwrap_or((BUFFER_BYTES / row_bytes).max(1)).min(file.train);
    let batch = sampled.options.steps.batch_size.min(file.train);
    let most_rows = DataFile::most_rows(buffer, batch) + sampled.rows();
    MemoryPlan {
        training_rows: file.train,
        buffer_rows: buffer,
        most_rows,
        most_bytes: most_rows * row_bytes,
    }
}

/// The maximum size, in bytes of numbers, of data that are read to find out if a column that the test rows
/// lack is used.
const MOST_BYTES: u64 = 1 << 28;

/// Checks that a file of test rows has the target and the columns that a fit of `columns` to `data` uses, or that the start model `start`
/// uses. The check ignores files that can be read only once.
///
/// # Errors
///
/// If the file cannot be read, or lacks such a column.
pub fn check_test_file(
    test: &Path,
    data: &Path,
    columns: &SchemaOptions,
    start: Option<&Schema>,
) -> Result<()> {
    let source = test.display().to_string();
    check_input(test, &source)?;
    let Some(names) = column_names(test, columns.delimiter)? else { return Ok(()) };
    let listed = || names.iter().map(String::as_str);
    let has = |name: &str| names.iter().any(|known| known == name);
    let target = start.map_or(columns.target.as_str(), Schema::target_name);
    if !has(target) {
        return Err(absent(&source, "column", target, listed()));
    }
    if let Some(schema) = start {
        return schema.check_columns(&source, listed());
    }
    let weights = columns.weights.as_deref();
    let Some(known) = column_names(data, columns.delimiter)? else { return Ok(()) };
    let used = |name: &&String| columns.uses(name) && weights != Some(name.as_str());
    if known.iter().filter(used).all(|name| has(name))
        || large_size(data, columns.delimiter, &|_| true, MOST_BYTES).is_some()
    {
        return Ok(());
    }
    // Whether a column is left out depends on all of its cells. The fit itself reports problems with the
    // data.
    let table = read_table_with(data, columns.delimiter, &columns.missing);
    let table = table.map(|table| table.with_interval(columns.interval()));
    match table.and_then(|table| Schema::infer(&table, columns)) {
        Ok((schema, _)) => schema.check_columns(&source, listed()),
        Err(_) => Ok(()),
    }
}
