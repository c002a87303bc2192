//! The choice of β on held-out rows: fits of a grid of β, each started from its neighbour, and the
//! options of the final fit.

use crate::error::{Error, Result};
use crate::hyper::StopReason;
use crate::model::{BetaCurve, BetaPoint};
use crate::options::{Betas, FitOptions, Hyper, LossKind};
use crate::training::failure::unless_failed;

/// The default share of the rows that is held out to choose β.
const VALIDATION_FRACTION: f64 = 0.2;

/// Returns the share of the rows that these options hold out to choose β.
pub fn grid_validation(options: &FitOptions) -> f64 {
    let asked = options.validation_fraction;
    if asked > 0.0 { asked } else { VALIDATION_FRACTION }
}

/// A fit of the grid.
pub struct GridFit<F> {
    /// The point of the curve.
    pub point: BetaPoint,
    /// The fit.
    pub fit: F,
}

/// A function that fits with options, continuing from another fit if one is given, and returns the fit with its point of the curve.
pub(crate) type FitWith<'a, F> = dyn FnMut(&FitOptions, Option<&F>) -> Result<GridFit<F>> + 'a;

/// Fits with every β of the grid for `n` rows; results are in the order of the grid. The β nearest to 1 is fitted first, from scratch; the
/// others continue from their neighbour, with a third of the epochs.
///
/// # Errors
///
/// If the first fit fails; later fits that fail numerically are left out, and their neighbours continue without them.
pub fn fit_beta_grid<F>(
    options: &FitOptions,
    betas: &Betas,
    n: usize,
    fit: &mut FitWith<'_, F>,
) -> Result<Vec<GridFit<F>>> {
    let base = FitOptions { validation_fraction: grid_validation(options), ..options.clone() };
    let grid = betas.grid(n);
    let first = (0..grid.len())
        .min_by(|&a, &b| grid[a].ln().abs().total_cmp(&grid[b].ln().abs()))
        .ok_or_else(|| Error::usage("⟨betas⟩ is empty, expected at least one value"))?;
    let middle = fit(&FitOptions { beta: grid[first], ..base.clone() }, None)?;
    let short = FitOptions { epochs: Some(base.epoch_limit().div_ceil(3)), ..base };
    let mut chain = |betas: &mut dyn Iterator<Item = f64>| -> Result<Vec<GridFit<F>>> {
        let mut fits: Vec<GridFit<F>> = Vec::new();
        for beta in betas {
            let neighbour = fits.last().unwrap_or(&middle);
            let options = FitOptions { beta, ..short.clone() };
            fits.extend(unless_failed(fit(&options, Some(&neighbour.fit)))?);
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

/// Returns the curve of a grid, judged on this number of rows.
///
/// # Errors
///
/// If no point has a finite score.
pub fn beta_curve(points: Vec<BetaPoint>, loss: LossKind, validation_rows: usize) -> Result<BetaCurve> {
    let scored = points.iter().filter_map(|point| Some((point.beta, point.score?)));
    let best = scored.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(beta, _)| beta);
    let chosen = best.ok_or_else(|| {
        Error::fit("no β of the grid gave finite validation scores").hint("try larger ⟨betas⟩, or ⟨beta 1⟩")
    })?;
    Ok(BetaCurve { squared_error: loss == LossKind::Square, validation_rows, points, chosen })
}

/// Returns the options of the fit on all training rows with the best β, whose fit of the grid ended for `reason`. The fit trains q, and
/// also the hyper-parameters if the validation score was still improving; otherwise more training would leave the chosen point.
pub fn refit_options(options: &FitOptions, chosen: f64, reason: Option<StopReason>) -> FitOptions {
    let stopped = reason == Some(StopReason::EarlyStop);
    FitOptions {
        beta: chosen,
        validation_fraction: 0.0,
        hyper: if stopped { Some(Hyper::Fixed) } else { options.hyper },
        hyper_optimizer: options.hyper_optimizer.filter(|_| !stopped),
        ..options.clone()
    }
}
