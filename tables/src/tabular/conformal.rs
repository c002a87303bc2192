//! Fits whose quantiles and intervals are calibrated by the scores of held-out rows.

use super::cross::{Fold, folds};
use super::fit::{FitRequest, TableFit, fit_table_in, schema_of};
use super::held_out::{Shares, split_table};
use super::model::TableModel;
use crate::schema::{SchemaOptions, UnseenLevels};
use crate::tables::Table;
use sparsegp::error::{Error, Result};
use sparsegp::hyper::{Session, Stage};
use sparsegp::likelihood::Task;
use sparsegp::model::Warning;
use sparsegp::options::{FitOptions, LossKind, Open};

/// The smallest number of rows.
const FEWEST: usize = 10;

/// The maximum number of rows of which each gets a score, from a fit to the other parts.
const MOST_CROSSED: usize = 1000;

/// The number of parts, of which one at a time is held out.
const PARTS: usize = 5;

/// The maximum number of scores of a fit that holds out one part.
const MOST_SCORES: usize = 10_000;

/// The scores of rows of a table, each predicted by a model that was fitted without the row.
#[derive(Default)]
struct HeldOutScores {
    rows: Vec<usize>,
    scores: Vec<f64>,
}

impl HeldOutScores {
    /// Adds the scores of rows that `model` was fitted without.
    fn push(&mut self, model: &TableModel, table: &Table, rows: &[usize]) -> Result<()> {
        let part = model.rows(&table.take(rows), UnseenLevels::New)?;
        self.scores.extend(model.predict_part(&part).conformal_scores(&part.targets));
        self.rows.extend(rows);
        Ok(())
    }

    /// Calibrates the quantiles of a model by the scores. `table` has the rows of the scores.
    fn calibrate(self, model: &mut TableModel, table: &Table) -> Result<()> {
        let x = model.schema().design(&table.take(&self.rows), UnseenLevels::New)?;
        model.model.calibrate(x.as_ref(), self.scores);
        if let Some(scores) = model.conformal().filter(|scores| !scores.is_enough()) {
            let text = format!(
                "conformal calibration has {} scores, expected 19 or more for 95 % intervals; wider intervals than the scores allow are \
                 extrapolated as for a normal distribution",
                scores.count()
            );
            model.model.warn_first([Warning::from(text)]);
        }
        Ok(())
    }
}

/// Refuses a fit that cannot be calibrated by scores.
///
/// # Errors
///
/// Usage errors for classes, for censored targets, for ⟨from⟩ and for ⟨objective dlm-square⟩; as for
/// [`fit_table_in`](super::fit_table_in) if the columns cannot be found.
pub fn check_conformal(request: &FitRequest<'_>) -> Result<()> {
    if request.start.is_some() {
        return Err(Error::usage(
            "⟨conformal⟩ cannot be combined with ⟨from⟩: the start model may have seen the held-out rows",
        ));
    }
    if request.options.objective.loss() == LossKind::Square {
        return Err(Error::usage(
            "⟨conformal⟩ calibrates quantiles, but ⟨objective dlm-square⟩ defines only a mean",
        )
        .hint("use another ⟨objective⟩"));
    }
    let (schema, _) = schema_of(request, Shares::of(request.test_fraction, request.options))?;
    let target = schema.target_name();
    if schema.encoding().task() == Task::Classification {
        return Err(Error::usage(format!(
            "⟨conformal⟩ calibrates quantiles, but '{target}' has classes, which have no quantiles"
        ))
        .hint("leave ⟨conformal⟩ out; evaluate reports the calibration error of class probabilities"));
    }
    let ends = schema.other_ends(&request.table.with_values(target))?.unwrap_or_default();
    match ends.iter().filter(|end| !end.is_nan()).count() {
        0 => Ok(()),
        censored => Err(Error::usage(format!(
            "⟨conformal⟩ needs known targets, but {censored} values of '{target}' are censored"
        ))),
    }
}

/// Fits a model like [`fit_table_in`](super::fit_table_in), and calibrates its quantiles by rows that are held out.
///
/// With `parts`, or with at most 1000 rows, the model is fitted to all rows, and each of the parts (five by default) is scored by a fit to the
/// other parts with the same choices. With more rows, one part of at most 10,000 rows is scored by the model, which is fitted to the other
/// rows. Groups or times split the rows as in [`folds`](super::folds); a single part that is held out by time is the latest one.
///
/// # Errors
///
/// As for [`check_conformal`] and [`fit_table_in`](super::fit_table_in), for fewer than 10 rows, and for fewer groups or times than `parts`
/// or two.
pub fn fit_conformal_in(
    request: &FitRequest<'_>,
    parts: Option<usize>,
    session: &mut Session<'_>,
) -> Result<TableFit> {
    check_conformal(request)?;
    let labelled = request.table.with_values(&request.columns.target);
    let shares = Shares::of(request.test_fraction, request.options);
    let split = split_table(&labelled, request.columns.split.as_ref(), shares)?;
    let mut rows = [split.train, split.validation].concat();
    rows.sort_unstable();
    let rest = labelled.take(&rows);
    if rest.rows() < FEWEST {
        let (source, rows) = (labelled.source(), rest.rows());
        let found = format!("{source}: has {rows} training rows with a target");
        return Err(Error::data(format!("{found}, expected {FEWEST} or more for ⟨conformal⟩")));
    }
    match parts {
        Some(count) => crossed(request, &rest, split_into(request, &rest, count)?, session),
        None if rest.rows() <= MOST_CROSSED => {
            crossed(request, &rest, some_parts(request, &rest, PARTS)?, session)
        }
        None => held_out(request, &labelled.take(&split.test), &rest, session),
    }
}

/// Fits to all rows, and calibrates by fits without a part of `rest` each.
fn crossed(
    request: &FitRequest<'_>,
    rest: &Table,
    parts: Vec<Fold>,
    session: &mut Session<'_>,
) -> Result<TableFit> {
    let clock = session.clock(request.options.max_seconds);
    // Every fit gets an equal part of the time that is left.
    let share = |left: usize| clock.map(|clock| clock.for_next_of(left));
    let mut fit = fit_table_in(request, &mut session.until(share(parts.len() + 1), 1.0))?;
    let options = &as_chosen(request.options, fit.model.options());
    let columns = &SchemaOptions { known: Some(fit.model.schema().clone()), ..request.columns.clone() };
    let mut scores = HeldOutScores::default();
    for (number, Fold { train, test }) in parts.iter().enumerate() {
        // Only predictions are scored, so intervals of hyper-parameters are not needed.
        let session = &mut session.until(share(parts.len() - number), 1.0).without_intervals();
        session.enter(Stage::HeldOut { part: number + 1, of: parts.len() });
        let table = rest.take(train);
        let model = fit_table_in(&FitRequest::new(&table, columns, options), session)?.model;
        scores.push(&model, rest, test)?;
    }
    scores.calibrate(&mut fit.model, rest)?;
    Ok(fit)
}

/// Returns the options with the choices of a fit. Scores of one likelihood would not suit the quantiles of another.
fn as_chosen(options: &FitOptions, used: &FitOptions) -> FitOptions {
    if options.open.is_empty() {
        return options.clone();
    }
    let kernel = if used.kernel.is_empty() { &options.kernel } else { &used.kernel };
    let chosen = FitOptions {
        open: Open::NOTHING,
        kernel: kernel.clone(),
        likelihood: used.likelihood,
        mean: used.mean,
        warp_inputs: used.warp_inputs,
        warp_target: used.warp_target,
        objective: used.objective,
        beta: used.beta,
        hyper_posterior: used.hyper_posterior,
        ..options.clone()
    };
    used.neighbours.map_or_else(|| chosen.without_neighbours(), |count| chosen.with_neighbours(count))
}

/// Fits to all rows of `rest` except one part, which calibrates the model.
fn held_out(
    request: &FitRequest<'_>,
    test: &Table,
    rest: &Table,
    session: &mut Session<'_>,
) -> Result<TableFit> {
    // The last part is the latest one.
    let last = some_parts(request, rest, PARTS.max(rest.rows() / MOST_SCORES))?.pop();
    let Fold { train, test: held } = last.ok_or_else(|| Error::usage("there are no rows to hold out"))?;
    let table = &rest.take(&train);
    let mut fit = fit_table_in(&FitRequest { table, test_fraction: 0.0, ..*request }, session)?;
    if test.rows() > 0 {
        fit.test = Some(fit.model.rows(test, UnseenLevels::New)?.numbered_in(test));
    }
    let mut scores = HeldOutScores::default();
    scores.push(&fit.model, rest, &held)?;
    scores.calibrate(&mut fit.model, rest)?;
    Ok(fit)
}

fn split_into(request: &FitRequest<'_>, rest: &Table, count: usize) -> Result<Vec<Fold>> {
    let FitRequest { columns, options, .. } = request;
    let targets = std::slice::from_ref(&columns.target);
    folds(rest, targets, columns.split.as_ref(), count, options.seed)
}

/// Splits the rows into `count` parts, or into fewer if there are fewer groups or times.
fn some_parts(request: &FitRequest<'_>, rest: &Table, count: usize) -> Result<Vec<Fold>> {
    let split = |count: usize| split_into(request, rest, count);
    let fewer = (2..PARTS).rev().map(split);
    fewer.fold(split(count), |found, fewer| found.or(fewer)).map_err(|_| {
        Error::usage("⟨conformal⟩ needs at least 2 rows, groups or different times of training rows")
    })
}
