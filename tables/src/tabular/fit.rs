//! A fit to a table: from its columns and rows to the input of the training, and back to a model of tables; also with a β that held-out rows choose.

use super::held_out::{Shares, split_table, training_rows};
use super::model::TableModel;
use super::resolve::{
    check_start_target, check_training_target, chosen_for, cut_off, find_schema, levels_of, resolved,
    scaling_for, two_valued, two_values,
};
use super::rows::TableRows;
use super::trees::{cross_fitted, folds_of, try_trees, with_scores};
use crate::schema::{Schema, SchemaOptions, check_labelled, input_warnings};
use crate::tables::Table;
use sparsegp::data::Scaling;
use sparsegp::error::{Error, Result};
use sparsegp::hyper::{Clock, Listener, Session, Stage, StopReason};
use sparsegp::model::{BetaCurve, BetaPoint, Score};
use sparsegp::options::{Betas, FitOptions, Hyper, MeanKind, Part};
use sparsegp::training::choices::Chosen;
use sparsegp::training::search::{GridFit, beta_curve, fit_beta_grid, longer_options, refit_options};
use sparsegp::training::{Fitted, Start, TrainingData, fit_arrays_in, suited};
use std::time::Instant;

/// The request for a fit: the table, the meaning of its columns, and the rows for training.
#[derive(Clone, Copy)]
pub struct FitRequest<'a> {
    /// The data.
    pub table: &'a Table,
    /// The columns to use; with `start`, only the target is read from here, the rest comes from the start model.
    pub columns: &'a SchemaOptions,
    /// The options of the fit.
    pub options: &'a FitOptions,
    /// The share of the rows held out for testing.
    pub test_fraction: f64,
    /// A model to start from: its columns, scaling, kernel, hyper-parameters and inducing inputs.
    pub start: Option<&'a TableModel>,
    /// True to continue with the posterior of the start model; false to solve for a new one.
    pub keep_posterior: bool,
}

impl<'a> FitRequest<'a> {
    /// Creates the request for a fit to all rows of a table, without a start model.
    pub fn new(table: &'a Table, columns: &'a SchemaOptions, options: &'a FitOptions) -> Self {
        FitRequest { table, columns, options, test_fraction: 0.0, start: None, keep_posterior: false }
    }
}

/// A fitted model with its held-out rows.
pub struct TableFit {
    /// The model.
    pub model: TableModel,
    /// The validation rows, if any were requested.
    pub validation: Option<TableRows>,
    /// The test rows, if any were requested.
    pub test: Option<TableRows>,
}

/// Fits a model to a table. `listener` receives every stage and epoch.
///
/// Inputs and target are scaled by the training rows alone.
///
/// ```
/// use sparsegp::options::FitOptions;
/// use sparsegp_tables::schema::{SchemaOptions, UnseenLevels};
/// use sparsegp_tables::tables::read_csv;
/// use sparsegp_tables::tabular::{FitRequest, fit_table};
///
/// let rows = (0..60).map(|i| format!("{},{},{}\n", 0.5 * i as f64, ["left", "right"][i % 2], (0.1 * i as f64).sin() + (i % 2) as f64));
/// let text = format!("hour,side,load\n{}", rows.collect::<String>());
/// let table = read_csv("loads", std::io::Cursor::new(text))?;
/// let (columns, options) = (SchemaOptions { target: "load".into(), ..SchemaOptions::default() }, FitOptions::default());
/// let request = FitRequest { test_fraction: 0.2, ..FitRequest::new(&table, &columns, &options) };
/// let fit = fit_table(&request, &mut |event| eprintln!("{event:?}"))?;
/// let predictions = fit.model.predict(&table, UnseenLevels::Error)?;
/// assert!((predictions.row(1).mean - (0.1f64.sin() + 1.0)).abs() < 0.1);
/// assert_eq!(fit.test.expect("12 rows held out").targets.len(), 12);
/// # Ok::<(), sparsegp::Error>(())
/// ```
///
/// # Errors
///
/// Usage errors for options that contradict each other or the data; data errors for a table that cannot be
/// learned from (see [`Schema::infer`]) or that lacks a column of the start model; fit errors if the
/// objective cannot be evaluated at the start.
pub fn fit_table(request: &FitRequest<'_>, listener: &mut Listener<'_>) -> Result<TableFit> {
    fit_table_in(request, &mut Session::new(listener))
}

/// Fits a model to a table within a session, which may interrupt the fit and stores its state.
///
/// # Errors
///
/// As for [`fit_table`]; `Interrupted` if the session was interrupted, `Data` if its checkpoint belongs to another fit.
pub fn fit_table_in(request: &FitRequest<'_>, session: &mut Session<'_>) -> Result<TableFit> {
    let prepared = PreparedFit::of(request)?;
    let clock = session.clock(prepared.options.max_seconds);
    let mut prepared = prepared.with_mean(request, &mut session.until(clock, Clock::CHOICES))?;
    let chosen = prepared.choose(request, clock, session)?;
    let mark = session.checkpoint().map(|checkpoint| checkpoint.mark());
    let model = match finished_model(session)? {
        Some(model) => model,
        None => {
            let model = prepared.train(request, chosen, &mut session.until(clock, Clock::TRAINING))?;
            if let (Some(mark), Some(checkpoint)) = (mark, session.checkpoint()) {
                checkpoint.finish_fit(mark, model.to_bytes()?);
            }
            model
        }
    };
    Ok(TableFit { model, validation: prepared.validation, test: prepared.test })
}

/// Returns the model of this fit, if the checkpoint contains it.
fn finished_model(session: &mut Session<'_>) -> Result<Option<TableModel>> {
    let Some(checkpoint) = session.checkpoint() else { return Ok(None) };
    let Some(found) = checkpoint.finished_fit() else { return Ok(None) };
    TableModel::from_bytes(&checkpoint.path().display().to_string(), &found).map(Some)
}

/// The columns and rows of a fit.
struct PreparedFit {
    schema: Schema,
    /// The options, as far as the columns determine them.
    options: FitOptions,
    /// All rows with a target, in original units.
    data: TableRows,
    train: TableRows,
    /// The validation rows, with their numbers in the table of the request.
    validation: Option<TableRows>,
    /// The test rows, with their numbers in the table of the request.
    test: Option<TableRows>,
    /// The folds of the training rows in which trees are cross-fitted.
    folds: Vec<usize>,
    /// Notes about the columns.
    notes: Vec<String>,
}

impl PreparedFit {
    /// Finds the columns, splits the rows and checks both.
    fn of(request: &FitRequest<'_>) -> Result<PreparedFit> {
        let options = request.options;
        let shares = Shares::of(request.test_fraction, options);
        let (mut schema, mut notes) = schema_of(request, shares)?;
        let table = request.table.with_values(schema.target_name());
        let table = &*table.read(&schema.readings, &|_| true)?;
        let options = resolved(options, &schema, request.start)?;
        options.validate()?;
        let rows = split_table(table, request.columns.split.as_ref(), shares)?;
        check_grouped_start(request.columns, request.start)?;
        match request.start {
            None => schema.settle(table, &rows.train, request.columns.known.is_some())?,
            Some(_) => schema.add_levels(&table.take(&rows.train))?,
        }
        schema = schema.without_trees();
        let data = TableRows::of(&schema, table)?;
        let train = data.part(rows.train);
        check_training_target(&schema, table, &train.targets)?;
        let inputs = schema.feature_dims();
        let folds = match options.mean == MeanKind::Trees || options.open.contains(Part::Mean) {
            true => folds_of(table, request.columns.split.as_ref(), options.seed)?,
            false => Vec::new(),
        };
        let folds: Vec<usize> = train.rows.iter().filter_map(|&row| folds.get(row).copied()).collect();
        notes.extend(input_warnings(&schema.input_names()[..inputs], train.inputs().subcols(0, inputs)));
        notes.extend(two_values(&train.targets).and_then(|(low, high)| two_valued(&schema, low, high)));
        notes.extend(cut_off(&schema, &train.targets));
        let held_out = |rows: Vec<usize>| (!rows.is_empty()).then(|| data.part(rows).numbered_in(table));
        let (validation, test) = (held_out(rows.validation), held_out(rows.test));
        Ok(PreparedFit { schema, options, data, train, validation, test, folds, notes })
    }

    /// Adds trees that were asked for, and settles the options that depend on all inputs.
    fn with_mean(mut self, request: &FitRequest<'_>, session: &mut Session<'_>) -> Result<PreparedFit> {
        if self.options.mean == MeanKind::Trees {
            self.add_trees(session)?;
        }
        let options = may_choose_kind(self.options.clone(), request, &self.train.targets);
        Ok(PreparedFit { options: self.schema.options_of(options)?, ..self })
    }

    /// Boosts trees on the training rows, and adds their scores to all rows.
    fn add_trees(&mut self, session: &mut Session<'_>) -> Result<()> {
        let (schema, scores) = cross_fitted(&self.schema, &self.train, &self.folds, &self.options, session)?;
        self.data = with_scores(&self.data, &schema, Some((&self.train.rows, &scores)));
        self.train = self.data.part(std::mem::take(&mut self.train.rows));
        for part in [&mut self.validation, &mut self.test].into_iter().flatten() {
            *part = with_scores(part, &schema, None);
        }
        self.schema = schema;
        Ok(())
    }

    /// Chooses the unset options, and the mean after all others.
    fn choose(
        &mut self,
        request: &FitRequest<'_>,
        clock: Option<Clock>,
        session: &mut Session<'_>,
    ) -> Result<Chosen> {
        let mut choices = session.until(clock, Clock::CHOICES);
        let chosen = chosen_for(&self.options, request.start, &self.schema, &self.train, &mut choices)?;
        if request.start.is_some() || !self.options.open.contains(Part::Mean) || choices.is_late() {
            return Ok(chosen);
        }
        let judged = try_trees(&self.schema, &self.train, &self.folds, &chosen, &mut choices)?;
        let Some((choice, options)) = judged else { return Ok(chosen) };
        if options.is_some() {
            // The trees of the comparison did not see the held-out rows; the fit has trees of all training rows.
            self.add_trees(&mut session.until(clock, Clock::TRAINING))?;
        }
        Ok(chosen.then(choice, options))
    }

    /// Trains with the chosen options. If training fails for numerical reasons, reverts the choices one at a
    /// time and tries again.
    fn train(
        &mut self,
        request: &FitRequest<'_>,
        mut chosen: Chosen,
        session: &mut Session<'_>,
    ) -> Result<TableModel> {
        loop {
            let options = self.schema.with_kind_of(chosen.options.decided_for(self.train.targets.len()));
            let scaling = scaling_for(&options, request.start, &self.train, || {
                let plain = Scaling::standardise(self.train.inputs(), &self.train.targets);
                self.schema.take_means(&plain);
                plain
            })?;
            self.train.scale(&scaling);
            let options = options.with_units_of(&scaling);
            match self.train_scaled(request, &scaling, &options, session) {
                // The next attempt may scale the rows differently.
                Err(error) if chosen.give_up(&error) => {
                    self.train = self.data.part(std::mem::take(&mut self.train.rows));
                }
                fitted => {
                    let mut fitted = fitted?;
                    fitted.decided_by(chosen);
                    let (schema, notes) = (self.schema.clone(), std::mem::take(&mut self.notes));
                    let rows = self.train.targets.len();
                    return Ok(TableModel::of(fitted, schema, scaling, &options, rows, notes));
                }
            }
        }
    }

    fn train_scaled(
        &self,
        request: &FitRequest<'_>,
        scaling: &Scaling,
        options: &FitOptions,
        session: &mut Session<'_>,
    ) -> Result<Fitted> {
        let scaled = self.validation.as_ref().map(|part| part.scaled(scaling));
        let validation = scaled.as_ref().map(TableRows::dataset);
        let training =
            TrainingData { train: self.train.dataset(), validation, levels: levels_of(&self.schema) };
        let (inputs, keep_posterior) = (training.train.x, request.keep_posterior);
        let start =
            request.start.map(|start| Start::from_model(start, options, Some(inputs), keep_posterior));
        let mut fitted = fit_arrays_in(training, options, start.as_ref(), session)?;
        // A fit that continues with the posterior of another fit keeps the record of that fit's search for a
        // start.
        if let Some(start) = request.start.filter(|_| keep_posterior) {
            fitted.search = start.search().clone();
        }
        Ok(fitted)
    }
}

/// Returns the options without the task if the user left the choice between numbers, counts and amounts open. The targets are `y`.
fn may_choose_kind(options: FitOptions, request: &FitRequest<'_>, y: &[f64]) -> FitOptions {
    let FitRequest { columns, options: asked, .. } = request;
    let may_be_amounts = y.contains(&0.0) && y.iter().any(|y| y.fract() != 0.0);
    let numbers = columns.numbers || (columns.continuous && !may_be_amounts);
    let open = asked.task.is_none() && columns.target_kind.is_none() && !numbers;
    FitOptions { task: options.task.filter(|_| !open), ..options }
}

/// Refuses grouped effects other than those of the start model, which a fit continues without ⟨group⟩, too.
fn check_grouped_start(columns: &SchemaOptions, start: Option<&TableModel>) -> Result<()> {
    match start {
        Some(start) if !columns.groups.is_empty() && !start.schema().has_groups(columns) => {
            Err(Error::usage("⟨group⟩ differs from the grouped effects of the model of ⟨from⟩")
                .hint("leave ⟨group⟩ out to continue with the effects of that model, or fit without ⟨from⟩"))
        }
        _ => Ok(()),
    }
}

/// Returns the columns of the fit: those of the start model, or those found in the table.
pub(super) fn schema_of(request: &FitRequest<'_>, shares: Shares) -> Result<(Schema, Vec<String>)> {
    let Some(start) = request.start else {
        let train = training_rows(request.table, request.columns, shares);
        return find_schema(request.table, request.columns, request.options, &train);
    };
    check_start_target(start.schema(), request.columns)?;
    // The schema of the start model was checked against another table, so the rows and the target of this table need a check.
    let (table, target) = (request.table, start.schema().target_name());
    let labelled = table.with_values(target);
    let notes = check_labelled(target, table.source(), labelled.rows(), table.rows())?;
    start.schema().check_training(&labelled)?;
    Ok((start.schema().clone(), notes.into_iter().collect()))
}

/// Returns a table model that wraps a latent model and its posterior. A program must have trained them on the
/// unscaled rows of the table.
///
/// # Errors
///
/// As for [`fit_table`]; a usage error if the model and the table differ in the number of
/// inputs; a data error if the classes or levels of the target are not the codes 0, 1, … of the model.
pub fn table_model(request: &FitRequest<'_>, fitted: Fitted) -> Result<TableModel> {
    let rows: Vec<usize> = (0..request.table.rows()).collect();
    let (mut schema, notes) = find_schema(request.table, request.columns, request.options, &rows)?;
    let table = &*request.table.read(&schema.readings, &|_| true)?;
    schema.settle(table, &rows, false)?;
    let options = schema.options_of(resolved(request.options, &schema, None)?)?;
    let train = TableRows::of(&schema, table)?;
    check_training_target(&schema, table, &train.targets)?;
    let scaling = suited(&options, Scaling::none(train.inputs().ncols()));
    let (inputs, expected) = (schema.dims() - options.offsets, fitted.model.input_dims());
    if inputs != expected {
        return Err(Error::usage(format!("the table has {inputs} inputs, the model has {expected}")));
    }
    let (levels, known) = (schema.encoding().levels(), fitted.model.likelihood.levels());
    let is_coded = |(code, level): (usize, &String)| level.parse() == Ok(code as f64);
    let suits = levels.is_empty() || (levels.len() == known && levels.iter().enumerate().all(is_coded));
    if !suits {
        let (values, last) = (levels.join(", "), known.saturating_sub(1));
        let found = format!("the target has the values {values}");
        return Err(Error::data(format!("{found}, expected rows with each value from 0 to {last}")));
    }
    let count = train.targets.len();
    Ok(TableModel::of(fitted, schema, scaling, &options, count, notes))
}

/// Fits with every β of a grid; see [`fit_beta_grid`].
pub(crate) fn fit_grid(
    request: &FitRequest<'_>,
    betas: &Betas,
    session: &mut Session<'_>,
) -> Result<Vec<GridFit<TableFit>>> {
    let rows = request.table.with_values(&request.columns.target).rows();
    let (mut number, of) = (0, betas.grid(rows).len());
    let clock = session.clock(request.options.max_seconds);
    let session = &mut session.until(clock, Clock::TRAINING);
    let end = session.end();
    let mut fit = |options: &FitOptions, from: Option<&TableFit>| {
        number += 1;
        session.enter(Stage::Beta { beta: options.beta, number, of });
        let (start, keep_posterior) = match from {
            Some(from) => (Some(&from.model), true),
            None => (request.start, request.keep_posterior),
        };
        // Every fit of the grid, and the final fit, gets an equal part of the time that is left.
        let part = clock.map(|clock| clock.for_next_of(of + 2 - number));
        let session = &mut session.until(part, 1.0);
        let fit = fit_table_in(&FitRequest { options, start, keep_posterior, ..*request }, session)?;
        let (model, part) = (&fit.model, fit.validation.as_ref());
        let score = part.map(|part| {
            let scaled = part.scaled(model.scaling());
            model.posterior().score(scaled.dataset(), Score::of(model.loss()))
        });
        let score = score.filter(|score| score.is_finite());
        let point = BetaPoint { beta: options.beta, score, seconds: model.summary().seconds };
        Ok(GridFit { point, fit })
    };
    fit_beta_grid(request.options, betas, rows, &mut fit, &|| end.is_some_and(|end| Instant::now() >= end))
}

/// Chooses β on held-out rows, and then fits q to all training rows with the best β, starting from the best fit of the grid.
///
/// # Errors
///
/// As for [`fit_table_in`], and if no fit of the grid has a finite score.
pub fn select_beta(
    request: &FitRequest<'_>,
    betas: &Betas,
    session: &mut Session<'_>,
) -> Result<(TableFit, BetaCurve)> {
    // The time limit is that of the grid and the final fit together.
    let clock = session.clock(request.options.max_seconds);
    let session = &mut session.until(clock, 1.0);
    let fits = fit_grid(request, betas, session)?;
    refit_best(request, &fits, session)
}

/// Fits q to all training rows with the best β of a grid for the same request, after the hyper-parameters of the best fit were trained
/// further on the rows of the grid if the limit of epochs ended it. Fixed hyper-parameters are those of the start of the request.
pub(crate) fn refit_best(
    request: &FitRequest<'_>,
    fits: &[GridFit<TableFit>],
    session: &mut Session<'_>,
) -> Result<(TableFit, BetaCurve)> {
    let rows = fits.first().and_then(|fit| fit.fit.validation.as_ref()).map_or(0, |part| part.targets.len());
    let points = fits.iter().map(|fit| fit.point).collect();
    let curve = beta_curve(points, request.options.objective.loss(), rows)?;
    let best = fits.iter().find(|fit| fit.point.beta == curve.chosen).map(|best| &best.fit.model);
    session.enter(Stage::Refit { beta: curve.chosen });
    let fixed = request.options.hyper_mode() == Hyper::Fixed;
    let unfinished = |best: &&TableModel| best.summary().stop_reason == StopReason::MaxEpochs && !fixed;
    let longer = match best.filter(unfinished) {
        Some(best) => {
            let options = longer_options(request.options, curve.chosen);
            let request =
                FitRequest { options: &options, start: Some(best), keep_posterior: true, ..*request };
            Some(fit_table_in(&request, session)?.model)
        }
        None => None,
    };
    let options = refit_options(request.options, curve.chosen);
    let start = request.start.filter(|_| fixed).or(longer.as_ref()).or(best);
    let mut fit =
        fit_table_in(&FitRequest { options: &options, start, keep_posterior: true, ..*request }, session)?;
    fit.model.model.set_beta_curve(curve.clone());
    Ok((fit, curve))
}
