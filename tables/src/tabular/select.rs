//! The choice of β for a fit to a table; the search is elsewhere.

use super::fit::{FitRequest, TableFit, fit_table_in};
use super::model::TableModel;
use sparsegp::error::Result;
use sparsegp::hyper::{Clock, Session, Stage, StopReason};
use sparsegp::model::{BetaCurve, BetaPoint, Score};
use sparsegp::options::{Betas, FitOptions, Hyper};
use sparsegp::training::search::{GridFit, beta_curve, fit_beta_grid, longer_options, refit_options};
use std::time::Instant;

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
