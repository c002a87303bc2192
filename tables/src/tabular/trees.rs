//! The mean of boosted trees: cross-fitting on the training rows, and the rows with the scores as inputs.

use super::held_out::{groups_in, times_in};
use super::resolve::levels_of;
use super::rows::TableRows;
use crate::schema::{Schema, SplitBy};
use crate::tables::Table;
use faer::{Mat, MatRef};
use rand::RngExt;
use rand::seq::SliceRandom;
use sparsegp::data::{Purpose, Scaling, generator};
use sparsegp::error::{Error, ErrorKind, Result};
use sparsegp::functions::normal::log_cdf_at;
use sparsegp::hyper::{Session, Stage};
use sparsegp::likelihood::{LikelihoodKind, TargetKind};
use sparsegp::model::Choice;
use sparsegp::options::{FitOptions, MeanKind, ModelKind, Part, TargetWarp};
use sparsegp::training::TrainingData;
use sparsegp::training::choices::{Chosen, close_rows};
use sparsegp_trees::{CrossFit, Loss, Settings, Targets, cross_fit};

/// The number of folds.
const FOLDS: usize = 5;

/// The minimum number of training rows for trees, …
const FEWEST_ROWS: usize = 100;

/// … and for trying them unasked.
const FEWEST_TRIED: usize = 300;

/// Returns the fold of every row of a table: at random, by whole groups, or as blocks of consecutive times. Rows that are held out by group
/// or time have their scores from trees that saw neither their group nor their time.
pub(super) fn folds_of(table: &Table, split: Option<&SplitBy>, seed: u64) -> Result<Vec<usize>> {
    let each = |take: &mut dyn FnMut(&Table) -> Result<()>| take(table);
    let shuffled = |count: usize| {
        let mut folds: Vec<usize> = (0..count).map(|at| at % FOLDS).collect();
        folds.shuffle(&mut generator(seed, Purpose::Trees, 0));
        folds
    };
    Ok(match split {
        None => shuffled(table.rows()),
        Some(SplitBy::Group(name)) => {
            let groups = groups_in(&each, name)?;
            let folds = shuffled(groups.iter().max().map_or(0, |most| *most as usize + 1));
            groups.iter().map(|&group| folds[group as usize]).collect()
        }
        Some(SplitBy::Time(name)) => {
            let times = times_in(&each, name)?;
            let mut order: Vec<usize> = (0..times.len()).collect();
            order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
            let mut folds = vec![0; times.len()];
            order.iter().enumerate().for_each(|(at, &row)| folds[row] = at * FOLDS / times.len());
            folds
        }
    })
}

/// Boosts trees on training rows of a schema without trees. Returns the schema with the trees, and the scores of every row from trees that
/// did not see it, row by row. At the end of the session's time there are the trees of the rounds so far.
///
/// # Errors
///
/// A usage error if there are too few rows or no inputs to split by, if a fold has all of them, or if there are offsets of a warped target;
/// `Interrupted`.
pub(super) fn cross_fitted(
    schema: &Schema,
    rows: &TableRows,
    folds: &[usize],
    options: &FitOptions,
    session: &mut Session<'_>,
) -> Result<(Schema, Vec<f64>)> {
    let fit = boosted(schema, rows, folds, options, session)?;
    Ok((schema.with_trees(fit.forest), fit.held_out))
}

/// Boosts trees as [`cross_fitted`] does.
fn boosted(
    schema: &Schema,
    rows: &TableRows,
    folds: &[usize],
    options: &FitOptions,
    session: &mut Session<'_>,
) -> Result<CrossFit> {
    let n = rows.targets.len();
    if !schema.offset_names().is_empty() && options.warp_target != TargetWarp::None {
        return Err(Error::usage("⟨mean trees⟩ cannot be combined with ⟨offset⟩ and ⟨warp_target⟩ together")
            .hint("use ⟨mean constant⟩"));
    }
    let used = |fold: usize| folds.contains(&fold);
    let found = (0..FOLDS).filter(|&fold| used(fold)).count();
    if n < FEWEST_ROWS || found < 2 || schema.feature_dims() == 0 {
        let found = match (n < FEWEST_ROWS, schema.feature_dims()) {
            (true, _) => format!("there are {n} training rows, expected at least {FEWEST_ROWS}"),
            (false, 0) => "there are no inputs".to_owned(),
            (false, _) => "all training rows have the same group or time".to_owned(),
        };
        return Err(Error::usage(format!("⟨mean trees⟩: {found}")).hint("use ⟨mean constant⟩"));
    }
    let inputs = rows.inputs().subcols(0, schema.feature_dims());
    let loss = schema.tree_loss();
    // A share of successes counts as often as it has trials.
    let successes = schema.encoding().kind() == TargetKind::Trials;
    let weights = if successes { trial_weights(rows) } else { rows.weights.clone() };
    let (y, exposure, offsets) = targets_of(schema, rows, loss, options);
    let targets = Targets { y: &y, weights: &weights, exposure: &exposure, offsets: &offsets };
    // Numbers without rows get no fold.
    let number: Vec<usize> =
        (0..FOLDS).map(|fold| (0..fold).filter(|&before| used(before)).count()).collect();
    let folds: Vec<usize> = folds.iter().map(|&fold| number[fold]).collect();
    session.enter(Stage::Trees { rows: n });
    let columns = schema.tree_columns(inputs);
    let stopped = || session.is_interrupted() || session.is_late();
    let fit = cross_fit(&columns, &targets, loss, &folds, &Settings::default(), &stopped);
    session.check()?;
    Ok(fit)
}

/// Boosts trees for each of several targets with the same inputs x (`n × D`), from the rows in which the target is known; `columns` has the
/// targets, NaN where unknown. Returns the schema with all trees, and the inputs with the scores of every target. A row in which a target
/// is unknown has the average of all folds, none of which saw that target.
pub(super) fn cross_fitted_outputs(
    (base, schemas): (&Schema, &[Schema]),
    (x, columns, weights): (MatRef<'_, f64>, &[Vec<f64>], &[f64]),
    folds: &[usize],
    options: &FitOptions,
    session: &mut Session<'_>,
) -> Result<(Schema, Mat<f64>)> {
    let rows = TableRows::of_inputs(x, weights);
    let (mut forests, mut held_out) = (Vec::new(), Vec::new());
    for (schema, targets) in schemas.iter().zip(columns) {
        let known: Vec<usize> = (0..targets.len()).filter(|&row| !targets[row].is_nan()).collect();
        let own: Vec<usize> = known.iter().map(|&row| folds[row]).collect();
        let part = TableRows { targets: targets.clone(), ..rows.clone() }.part(known.clone());
        let fit = boosted(schema, &part, &own, options, session)?;
        forests.push(fit.forest);
        held_out.push((known, fit.held_out));
    }
    let names = schemas.iter().map(|schema| schema.target_name().to_owned()).collect();
    let schema = base.with_trees_of(forests, names);
    let mut x = with_scores(&rows, &schema, None).columns.transpose().to_owned();
    let inputs = schema.trees().into_iter().flat_map(|(_, inputs)| inputs);
    for (input, (known, scores)) in inputs.zip(held_out) {
        known.iter().zip(scores).for_each(|(&row, score)| x[(row, input)] = score);
    }
    Ok((schema, x))
}

/// Returns the folds of rows of a table that is not in memory, by their numbers in the table. The numbers are hashed, because rows may
/// follow a period.
pub(super) fn folds_of_numbers(rows: &[usize]) -> Vec<usize> {
    rows.iter().map(|&row| generator(0, Purpose::Trees, 1 + row as u64).random_range(0..FOLDS)).collect()
}

/// Returns training rows of a table that is not in memory with the scores of the trees that did not see the fold of each row.
pub(super) fn with_held_out_scores(schema: &Schema, mut rows: TableRows) -> TableRows {
    if schema.trees().is_some() {
        let folds = folds_of_numbers(&rows.rows);
        schema.write_held_out_trees(rows.columns.as_mut().transpose_mut(), &folds);
    }
    rows
}

/// Returns the targets of trees, their exposures, and the additions to their scores: numbers are taken without their offset, an offset of counts
/// is a factor of the exposure, and scores of classes and shares are raised by theirs. Ordered levels have no scale of the scores, so trees do
/// not see their offset.
fn targets_of(
    schema: &Schema,
    rows: &TableRows,
    loss: Loss,
    options: &FitOptions,
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (n, inputs) = (rows.targets.len(), schema.offset_inputs());
    let offset = |row: usize, function: usize| match inputs.is_empty() {
        true => 0.0,
        false => rows.columns[(inputs.start + function, row)],
    };
    let kind = schema.encoding().kind();
    let less = |of: &dyn Fn(f64) -> f64| -> Vec<f64> {
        standardised((0..n).map(|row| of(rows.targets[row]) - offset(row, 0)).collect())
    };
    let y = match kind {
        TargetKind::Positive => less(&f64::ln),
        TargetKind::Trials => (0..n).map(|row| rows.targets[row] / exposure_of(rows, row)).collect(),
        TargetKind::Ordinal => standardised(rows.targets.clone()),
        _ if loss == Loss::Squared => less(&|y| y),
        _ => rows.targets.clone(),
    };
    if loss == Loss::Poisson {
        let exposure = |row: usize| exposure_of(rows, row) * offset(row, 0).exp();
        return (y, (0..n).map(exposure).collect(), Vec::new());
    }
    if inputs.is_empty() || loss == Loss::Squared {
        return (y, Vec::new(), Vec::new());
    }
    let is_probit =
        matches!(options.likelihood_kind(), LikelihoodKind::BernoulliProbit | LikelihoodKind::BetaProbit);
    let of_row = |row: usize| (0..loss.scores()).map(move |function| offset(row, function));
    // The log odds of Φ(o) on the scale of a probit link.
    let raised = |o: f64| if is_probit { log_cdf_at(o).0 - log_cdf_at(-o).0 } else { o };
    (y, Vec::new(), (0..n).flat_map(of_row).map(raised).collect())
}

/// Returns the exposure or the number of trials of a row.
fn exposure_of(rows: &TableRows, row: usize) -> f64 {
    rows.exposure.get(row).copied().unwrap_or(1.0)
}

/// Returns the weights of shares of successes.
fn trial_weights(rows: &TableRows) -> Vec<f64> {
    let weight = |row: usize| rows.weights.get(row).copied().unwrap_or(1.0);
    (0..rows.targets.len()).map(|row| weight(row) * exposure_of(rows, row)).collect()
}

/// Returns numbers with mean 0 and standard deviation 1: squares of numbers of any unit neither overflow nor vanish on this scale.
fn standardised(mut y: Vec<f64>) -> Vec<f64> {
    let scaling = Scaling::standardise(MatRef::from_row_major_slice(&[], y.len(), 0), &y);
    scaling.scale_target(&mut y);
    y
}

/// Adds the scores of the trees of `schema` to rows of a schema without trees. `held_out` has the scores of some rows, given by their places;
/// the trees compute all other scores.
pub(super) fn with_scores(
    rows: &TableRows,
    schema: &Schema,
    held_out: Option<(&[usize], &[f64])>,
) -> TableRows {
    let Some((scores, own)) = schema.trees() else { return rows.clone() };
    let cell = |row: usize, input: usize| match input {
        _ if input < own.start => rows.columns[(input, row)],
        _ if input < own.end => 0.0,
        _ => rows.columns[(input - scores.count(), row)],
    };
    let mut x = Mat::from_fn(rows.columns.ncols(), schema.dims(), cell);
    schema.write_trees(x.as_mut());
    if let Some((places, held_out)) = held_out {
        for (&row, held_out) in places.iter().zip(held_out.chunks_exact(scores.count())) {
            own.clone().zip(held_out).for_each(|(input, score)| x[(row, input)] = *score);
        }
    }
    TableRows { columns: x.transpose().to_owned(), ..rows.clone() }
}

/// Compares a constant mean with trees by short fits with the chosen options, if there are enough rows. The trees of this comparison see only
/// the rows of the short fits. Returns the scores, and the options of the fit with trees if these are better.
pub(super) fn try_trees(
    schema: &Schema,
    train: &TableRows,
    folds: &[usize],
    chosen: &Chosen,
    session: &mut Session<'_>,
) -> Result<Option<(Choice, Option<FitOptions>)>> {
    let (n, options) = (train.targets.len(), &chosen.options);
    let rows = close_rows(n, options.seed).filter(|_| options.model == ModelKind::Gp && n >= FEWEST_TRIED);
    let Some((seen, _)) = rows else { return Ok(None) };
    let own: Vec<usize> = seen.iter().filter_map(|&row| folds.get(row).copied()).collect();
    let (with, scores) = match cross_fitted(schema, &train.part(seen.clone()), &own, options, session) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::Usage => return Ok(None),
        Err(error) => return Err(error),
    };
    let rows = with_scores(train, &with, Some((&seen, &scores)));
    let richer = with.options_of(FitOptions { mean: MeanKind::Trees, ..options.clone() })?;
    let levels = levels_of(schema);
    let data = |rows| TrainingData { levels, ..TrainingData::of(rows) };
    chosen.judge_inputs(Part::Mean, data(train.dataset()), (data(rows.dataset()), &richer), session)
}
