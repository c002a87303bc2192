//! The structure that several targets share, given by an option or decided by held-out training
//! rows.

use super::outputs::{OutputsRequest, TableOutputs, fit_known};
use super::rows::known_targets;
use crate::schema::{Schema, UnseenLevels};
use crate::tables::Table;
use rand::seq::SliceRandom;
use sparsegp::data::{Purpose, generator};
use sparsegp::error::{Error, ErrorKind, Result};
use sparsegp::hyper::{Session, Stage};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::Tried;
use sparsegp::options::{FitOptions, ModelKind, Open};
use sparsegp::training::choices::{Losses, held_out};
use std::fmt;
use std::str::FromStr;
use std::time::Instant;

/// The structure that the models of several targets share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nothing: the targets have separate models.
    Own,
    /// Kernel and inducing inputs of separate processes; see [`fit_shared_outputs`](sparsegp::training::fit_shared_outputs).
    Kernel,
    /// This number of processes, which all targets mix; see [`fit_outputs`](sparsegp::training::fit_outputs).
    Processes(usize),
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sharing::Own => f.write_str("own"),
            Sharing::Kernel => f.write_str("shared"),
            Sharing::Processes(count) => write!(f, "mixed:{count}"),
        }
    }
}

impl FromStr for Sharing {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mixed = || text.strip_prefix("mixed:")?.parse().ok().map(Sharing::Processes);
        match text {
            "own" => Ok(Sharing::Own),
            "shared" => Ok(Sharing::Kernel),
            _ => mixed().ok_or_else(|| {
                Error::usage(format!(
                    "'{text}' is not one of own, shared or mixed:L with a number L of processes"
                ))
            }),
        }
    }
}

/// The maximum number of rows of a short fit.
const TRAINED_ON: usize = 4000;

/// The maximum numbers of epochs and inducing inputs of short fits, …
const SHORT: (usize, usize) = (30, 100);

/// … and the maximum number of epochs in a cross-validation: weights of processes for few cells need more epochs than kernels.
const CROSSED_EPOCHS: usize = 100;

/// The maximum number of processes that are tried.
const MOST_PROCESSES: usize = 2;

/// If a target is known in fewer rows than this, candidates are cross-validated: 30 % of its cells would be too few to compare them.
const FEW_CELLS: usize = 60;

/// The number of parts of the cross-validation.
const PARTS: usize = 4;

/// Sharing has to lower the log loss of held-out rows by more than this many nats per row, …
const LEAST_GAIN: f64 = 0.002;

/// … and, without cross-validation, more than this many standard errors of the differences.
const STANDARD_ERRORS: f64 = 1.0;

/// A candidate, and its losses on the held-out rows, summed over the targets of a row.
struct Judged {
    sharing: Sharing,
    losses: Losses,
    seconds: f64,
}

impl Judged {
    fn is_better_than(&self, other: &Judged, standard_errors: f64) -> bool {
        let (gain, error) = other.losses.gain_of(&self.losses);
        gain > LEAST_GAIN.max(standard_errors * error)
    }
}

/// Judges candidates by short fits to some rows and their losses on others.
struct Judge<'a> {
    /// The request of the short fits.
    request: OutputsRequest<'a>,
    schemas: &'a [Schema],
    /// The rows to fit to and the held-out rows of every short fit of a candidate.
    splits: Vec<(Table, Table)>,
    /// The number of candidates so far.
    judged: usize,
}

impl Judge<'_> {
    /// Fits a candidate and computes its losses; `None` if it cannot be fitted.
    fn judge(
        &mut self,
        sharing: Sharing,
        options: &FitOptions,
        session: &mut Session<'_>,
    ) -> Result<Option<Judged>> {
        let started = Instant::now();
        self.judged += 1;
        let (number, rows) = (self.judged, self.splits[0].0.rows());
        let of = number.max(2 + MOST_PROCESSES);
        session.enter(Stage::Choice { part: "outputs", rows, number, of, left: None });
        let mut all = Vec::new();
        for (train, held_out) in &self.splits {
            let request = OutputsRequest { table: train, options, sharing: Some(sharing), ..self.request };
            match fit_known(&request, self.schemas.to_vec(), sharing, &mut session.silent()) {
                Ok(models) => all.extend(losses(&models, held_out)?.0),
                Err(error) if matches!(error.kind(), ErrorKind::Fit | ErrorKind::Usage) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        Ok(Some(Judged { sharing, losses: Losses(all), seconds }))
    }
}

/// Decides what numeric targets share, by the log loss of held-out rows after short fits, and returns the
/// candidates; `None` if nothing can be shared. All short fits have the same kernel. If sharing is better,
/// separate models are judged again with all of their automatic choices.
pub(super) fn decide(
    request: &OutputsRequest<'_>,
    schemas: &[Schema],
    session: &mut Session<'_>,
) -> Result<(Sharing, Vec<Tried>)> {
    let OutputsRequest { table, options, .. } = *request;
    let splits = match can_share(options, schemas, table.rows()) {
        true => splits(table, schemas, options.seed)?,
        false => Vec::new(),
    };
    if splits.is_empty() {
        return Ok((Sharing::Own, Vec::new()));
    }
    let is_crossed = splits.len() > 1;
    let (errors, epochs) = if is_crossed { (0.0, CROSSED_EPOCHS) } else { (STANDARD_ERRORS, SHORT.0) };
    let splits = splits.iter().map(|(train, held)| (table.take(train), table.take(held))).collect();
    let mut judge = Judge { request: *request, schemas, splits, judged: 0 };
    let short = short_options(options, epochs);
    let own = judge.judge(Sharing::Own, &short, session)?;
    let Some(own) = own else { return Ok((Sharing::Own, Vec::new())) };
    let processes = (1..=MOST_PROCESSES.min(schemas.len())).map(Sharing::Processes);
    let mut all = vec![own];
    for sharing in std::iter::once(Sharing::Kernel).chain(processes) {
        all.extend(judge.judge(sharing, &short, session)?);
    }
    let mut best = best_of(&all, errors);
    if best > 0 && !is_crossed && !options.open.is_empty() {
        let chosen = FitOptions { open: options.open, ..short };
        if let Some(own) = judge.judge(Sharing::Own, &chosen, session)? {
            all[0] = own;
            best = if all[best].is_better_than(&all[0], errors) { best } else { 0 };
        }
    }
    let tried = |(i, one): (usize, &Judged)| Tried {
        value: one.sharing.to_string(),
        loss: Some(one.losses.mean()),
        seconds: one.seconds,
        chosen: i == best,
        ..Tried::default()
    };
    Ok((all[best].sharing, all.iter().enumerate().map(tried).collect()))
}

/// Splits rows into rows to fit to and held-out rows, or returns nothing if there are too few. With a target of few known cells these are
/// the splits of a cross-validation, in whose parts the same targets are known equally often.
fn splits(table: &Table, schemas: &[Schema], seed: u64) -> Result<Vec<(Vec<usize>, Vec<usize>)>> {
    let n = table.rows();
    let targets: Vec<Vec<f64>> =
        schemas.iter().map(|schema| known_targets(schema, table)).collect::<Result<_>>()?;
    let known = |row: usize| -> Vec<bool> { targets.iter().map(|target| !target[row].is_nan()).collect() };
    let few = targets.iter().map(|target| target.iter().filter(|y| !y.is_nan()).count() < FEW_CELLS);
    let few: Vec<bool> = few.collect();
    let whole = held_out(n, seed, 1, TRAINED_ON);
    if whole.is_none() || !few.contains(&true) {
        return Ok(whole.into_iter().collect());
    }
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(&mut generator(seed, Purpose::Choices, 1));
    let is_rare = |row: usize| known(row).iter().zip(&few).any(|(known, few)| *known && *few);
    rows.sort_by_key(|&row| !is_rare(row));
    rows.truncate(TRAINED_ON);
    rows.sort_by_cached_key(|&row| known(row));
    let part = |part: usize| (0..rows.len()).partition(|place| place % PARTS != part);
    let rows_at = |places: Vec<usize>| {
        let mut taken: Vec<usize> = places.into_iter().map(|place| rows[place]).collect();
        taken.sort_unstable();
        taken
    };
    Ok((0..PARTS).map(part).map(|(train, held)| (rows_at(train), rows_at(held))).collect())
}

/// Returns true if the targets of `rows` rows can share a kernel or processes: all have Gaussian noise and a closed form of q.
fn can_share(options: &FitOptions, schemas: &[Schema], rows: usize) -> bool {
    let gaussian = |schema: &Schema| {
        let kind = options.likelihood.unwrap_or(LikelihoodKind::default_of(schema.encoding().kind()));
        kind == LikelihoodKind::Gaussian
    };
    let closed = options.clone().without_neighbours().decided_for(rows).is_collapsed();
    let asked = options.neighbours.is_some() || options.restarts > 1 || options.growth.is_some();
    closed && !asked && options.model != ModelKind::Glm && schemas.iter().all(gaussian)
}

/// Returns the options of short fits of at most this number of epochs.
fn short_options(options: &FitOptions, epochs: usize) -> FitOptions {
    FitOptions {
        open: Open::NOTHING,
        epochs: Some(options.epochs.unwrap_or(epochs).min(epochs)),
        inducing: Some(options.inducing.unwrap_or(SHORT.1).min(SHORT.1)),
        validation_fraction: 0.0,
        max_seconds: None,
        stop_at: None,
        stop_range: None,
        ..options.clone()
    }
}

/// Returns the index of the candidate with the lowest loss among those that are better than the first one, or 0 if none is.
fn best_of(all: &[Judged], standard_errors: f64) -> usize {
    let mut best = 0;
    let is_better = |one: &Judged| one.is_better_than(&all[0], standard_errors);
    for (index, one) in all.iter().enumerate().skip(1).filter(|(_, one)| is_better(one)) {
        if best == 0 || one.losses.mean() < all[best].losses.mean() {
            best = index;
        }
    }
    best
}

/// Returns the log losses of the rows of a table, summed over the targets of a row, times the relative weight of the row. Losses of a target
/// that is known in a share of the rows are divided by this share, so that the mean over the rows is the sum of the mean losses of all
/// targets: models are to predict every target, however few of its cells are known.
fn losses(models: &TableOutputs, table: &Table) -> Result<Losses> {
    let mut losses = vec![0.0; table.rows()];
    for model in models.models() {
        let schema = model.schema();
        let targets = known_targets(schema, table)?;
        let weights = schema.weights(table)?.unwrap_or_else(|| vec![1.0; targets.len()]);
        let known: Vec<usize> = (0..targets.len()).filter(|&row| !targets[row].is_nan()).collect();
        let mean = known.iter().map(|&row| weights[row]).sum::<f64>() / targets.len() as f64;
        let predictions = model.predict(table, UnseenLevels::New)?;
        for row in known {
            losses[row] -= predictions.log_density(row, targets[row]) * weights[row] / mean;
        }
    }
    if !losses.iter().all(|loss| loss.is_finite()) {
        losses.fill(f64::INFINITY);
    }
    Ok(Losses(losses))
}
