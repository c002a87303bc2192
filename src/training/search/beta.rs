//! The choice of β on held-out rows: fits of a grid of β, each started from its neighbour, and the
//! options of the final fit.

use crate::error::{Error, Result};
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
/// others continue from their neighbour, with a third of the epochs. `is_late` returns true once the time of the grid is over, which ends it.
///
/// # Errors
///
/// If the first fit fails; later fits that fail numerically are left out, and their neighbours continue without them.
pub fn fit_beta_grid<F>(
    options: &FitOptions,
    betas: &Betas,
    n: usize,
    fit: &mut FitWith<'_, F>,
    is_late: &dyn Fn() -> bool,
) -> Result<Vec<GridFit<F>>> {
    let base = FitOptions { validation_fraction: grid_validation(options), ..options.clone() };
    let grid = betas.grid(n);
    let first = (0..grid.len())
        .min_by(|&a, &b| grid[a].ln().abs().total_cmp(&grid[b].ln().abs()))
        .ok_or_else(|| Error::usage("⟨betas⟩ is empty, expected at least one value"))?;
    let middle = fit(&FitOptions { beta: grid[first], ..base.clone() }, None)?;
    // The default limit depends on the way to fit, which the number of rows decides.
    let epochs = base.decided_for(n).epoch_limit_for(n).div_ceil(3);
    let short = FitOptions { epochs: Some(epochs), ..base };
    let mut chain = |betas: &mut dyn Iterator<Item = f64>| -> Result<Vec<GridFit<F>>> {
        let mut fits: Vec<GridFit<F>> = Vec::new();
        for beta in betas {
            if is_late() {
                break;
            }
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

/// Returns the options of a fit that continues the best fit of the grid, still judged on the held-out rows, with the whole limit of epochs.
pub fn longer_options(options: &FitOptions, chosen: f64) -> FitOptions {
    FitOptions { beta: chosen, validation_fraction: grid_validation(options), ..options.clone() }
}

/// Returns the options of the fit on all training rows with the best β. The fit trains q alone: held-out rows have judged the
/// hyper-parameters, and none are left that could judge others.
pub fn refit_options(options: &FitOptions, chosen: f64) -> FitOptions {
    FitOptions {
        beta: chosen,
        validation_fraction: 0.0,
        hyper: Some(Hyper::Fixed),
        hyper_optimizer: None,
        ..options.clone()
    }
}
