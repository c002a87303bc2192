//! The choice of β by held-out rows: a grid of fits, each started from its neighbour, and a refit at the best; no β of its own.

use super::failure::unless_failed;
use super::fitted::{FitRequest, FittedModel, HeldOut, TableFit, fit_table_in};
use super::options::{FitOptions, Hyper, ObjectiveKind};
use super::posterior::Score;
use crate::error::{Error, Result};
use crate::hyper::{Session, StopReason};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which values of β to choose among.
#[derive(Clone, Debug, PartialEq)]
pub enum Betas {
    /// n, n/2, n/4, …, 0.01 for n training rows (Wei, Sheth & Khardon 2021).
    Auto,
    /// These, all positive.
    List(Vec<f64>),
}

impl Betas {
    /// The smallest β of the automatic grid.
    const SMALLEST: f64 = 0.01;

    /// The values in falling order, for `n` training rows.
    pub fn grid(&self, n: usize) -> Vec<f64> {
        let mut grid = match self {
            Betas::Auto => {
                let halves = std::iter::successors(Some(n as f64), |beta| Some(0.5 * beta));
                halves.take_while(|beta| *beta > Self::SMALLEST).chain([Self::SMALLEST]).collect()
            }
            Betas::List(list) => list.clone(),
        };
        grid.sort_by(|a: &f64, b| b.total_cmp(a));
        grid.dedup();
        grid
    }
}

impl FromStr for Betas {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "auto" {
            return Ok(Betas::Auto);
        }
        let number = |part: &str| part.trim().parse::<f64>().ok().filter(|b| *b > 0.0 && b.is_finite());
        let list: Option<Vec<f64>> = text.split(',').map(number).collect();
        list.map(Betas::List).ok_or_else(|| {
            Error::usage(format!("betas '{text}' are not auto or positive numbers separated by commas"))
        })
    }
}

impl fmt::Display for Betas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Betas::Auto => f.write_str("auto"),
            Betas::List(list) => f.write_str(&list.iter().map(f64::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}

/// One fit of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BetaPoint {
    /// Its β.
    pub beta: f64,
    /// Its score on the validation rows, on the scale the model sees; smaller is better, and absent when not finite.
    pub score: Option<f64>,
    /// Seconds of training.
    pub seconds: f64,
}

/// What the choice was made by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BetaCurve {
    /// Whether the score is the squared error, instead of the log loss.
    pub squared_error: bool,
    /// The rows it is computed on.
    pub validation_rows: usize,
    /// The grid in falling order of β.
    pub points: Vec<BetaPoint>,
    /// The β with the smallest score.
    pub chosen: f64,
}

/// The share of the rows that decides when none was asked for.
const VALIDATION_FRACTION: f64 = 0.2;

/// The share of the rows that decides about β with these options.
pub fn grid_validation(options: &FitOptions) -> f64 {
    let asked = options.validation_fraction;
    if asked > 0.0 { asked } else { VALIDATION_FRACTION }
}

/// The score that β is chosen by: what the objective is for.
pub(super) fn score_of(options: &FitOptions) -> Score {
    if options.objective == ObjectiveKind::DlmSquare { Score::SquaredError } else { Score::LogLoss }
}

/// A fit of the grid.
pub struct GridFit {
    /// What the curve says of it.
    pub point: BetaPoint,
    /// The fit, with its validation rows.
    pub fit: TableFit,
}

/// Fits with every β of the grid, in the grid's order in the result. The β nearest to 1 is fitted first, from the start
/// that the request gives; the others go on from their neighbour, on a third of the epochs.
///
/// # Errors
///
/// As for [`fit_table_in`](super::fit_table_in), when the first fit fails; a later one whose numbers fail counts as one with an infinite score.
pub fn fit_grid(request: &FitRequest<'_>, betas: &Betas, session: &mut Session<'_>) -> Result<Vec<GridFit>> {
    let base =
        FitOptions { validation_fraction: grid_validation(request.options), ..request.options.clone() };
    let grid = betas.grid(request.table.rows());
    let first = (0..grid.len())
        .min_by(|&a, &b| grid[a].ln().abs().total_cmp(&grid[b].ln().abs()))
        .ok_or_else(|| Error::usage("--betas names no value"))?;
    let options = FitOptions { beta: grid[first], ..base.clone() };
    let middle = grid_fit(&FitRequest { options: &options, ..*request }, session)?;
    let short = FitOptions { epochs: Some(base.epoch_limit().div_ceil(3)), ..base };
    let mut chain = |betas: &mut dyn Iterator<Item = f64>| -> Result<Vec<GridFit>> {
        let mut fits: Vec<GridFit> = Vec::new();
        for beta in betas {
            let start = fits.last().map_or(&middle.fit.model, |fit| &fit.fit.model);
            let options = FitOptions { beta, ..short.clone() };
            let request =
                FitRequest { options: &options, start: Some(start), keep_posterior: true, ..*request };
            // A β that cannot be fitted is passed over: its neighbours go on without it.
            fits.extend(unless_failed(grid_fit(&request, session))?);
        }
        Ok(fits)
    };
    let mut above = chain(&mut grid[..first].iter().rev().copied())?;
    let below = chain(&mut grid[first + 1..].iter().copied())?;
    above.reverse();
    above.push(middle);
    above.extend(below);
    Ok(above)
}

fn grid_fit(request: &FitRequest<'_>, session: &mut Session<'_>) -> Result<GridFit> {
    let fit = fit_table_in(request, session)?;
    let score = fit.validation.as_ref().map(|part| score(&fit.model, part)).filter(|s| s.is_finite());
    let point = BetaPoint { beta: request.options.beta, score, seconds: fit.model.summary().seconds };
    Ok(GridFit { point, fit })
}

fn score(model: &FittedModel, part: &HeldOut) -> f64 {
    let scaled = part.scaled(model.scaling());
    model.posterior().score(scaled.dataset(), score_of(model.options()))
}

/// The curve of a grid.
pub fn curve(fits: &[GridFit]) -> Option<BetaCurve> {
    let best = fits
        .iter()
        .filter_map(|fit| Some((fit.point.beta, fit.point.score?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let fit = &fits.first()?.fit;
    Some(BetaCurve {
        squared_error: score_of(fit.model.options()) == Score::SquaredError,
        validation_rows: fit.validation.as_ref().map_or(0, |part| part.targets.len()),
        points: fits.iter().map(|fit| fit.point).collect(),
        chosen: best.0,
    })
}

/// Chooses β by held-out rows and fits again with it, on all training rows and going on from the best fit of the grid.
///
/// # Errors
///
/// As for [`fit_table_in`](super::fit_table_in), and when no fit of the grid has a finite score.
pub fn select_beta(
    request: &FitRequest<'_>,
    betas: &Betas,
    session: &mut Session<'_>,
) -> Result<(TableFit, BetaCurve)> {
    let fits = fit_grid(request, betas, session)?;
    refit_best(request, &fits, session)
}

/// Fits again with the best β of a grid that was fitted for the same request, on all training rows: q, and the
/// hyper-parameters too when the validation score was still improving as the best fit of the grid ended. Where it had
/// stopped improving, more training would leave the point that was chosen. With hyper-parameters fixed, they are those of
/// the request's own start.
///
/// # Errors
///
/// As for [`select_beta`].
pub fn refit_best(
    request: &FitRequest<'_>,
    fits: &[GridFit],
    session: &mut Session<'_>,
) -> Result<(TableFit, BetaCurve)> {
    let curve = curve(fits).ok_or_else(|| {
        Error::fit("no β of the grid gave finite validation scores").hint("try larger --betas, or --beta 1")
    })?;
    let best = fits.iter().find(|fit| fit.point.beta == curve.chosen).map(|best| &best.fit.model);
    let stopped = best.is_some_and(|best| best.summary().stop_reason == StopReason::EarlyStop);
    let fixed = request.options.hyper_mode() == Hyper::Fixed;
    let options = FitOptions {
        beta: curve.chosen,
        validation_fraction: 0.0,
        hyper: if stopped { Some(Hyper::Fixed) } else { request.options.hyper },
        hyper_optimizer: request.options.hyper_optimizer.filter(|_| !stopped),
        ..request.options.clone()
    };
    let start = request.start.filter(|_| fixed).or(best);
    let mut fit =
        fit_table_in(&FitRequest { options: &options, start, keep_posterior: true, ..*request }, session)?;
    fit.model.beta_curve = Some(curve.clone());
    Ok((fit, curve))
}
