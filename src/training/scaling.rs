//! How a fit sees its inputs and target, by its options and the training rows; no fitting.

use crate::data::{InputWarp, Scaling, TargetWarp};
use crate::error::Result;
use crate::options::FitOptions;
use faer::MatRef;

/// Whether options ask for more than shift and scale.
pub fn asks_for_warps(options: &FitOptions) -> bool {
    options.warp_inputs != InputWarp::None || options.warp_target != TargetWarp::None
}

/// The scaling of inputs (`n × D`, a row per datum) and targets as options say: inputs are standardised, and targets where location
/// and scale mean nothing to the likelihood.
///
/// # Errors
///
/// A data error when the target does not suit its warp.
pub fn scaling_of(options: &FitOptions, x: MatRef<'_, f64>, y: &[f64]) -> Result<Scaling> {
    let scaling = if asks_for_warps(options) {
        Scaling::warped(x, y, (options.warp_inputs, options.warp_target))?
    } else {
        Scaling::standardise(x, y)
    };
    Ok(suited(options, scaling))
}

/// The scaling of a fit, `scaling` being what standardises everything.
pub fn suited(options: &FitOptions, scaling: Scaling) -> Scaling {
    if !options.standardize {
        return Scaling::none(scaling.dims());
    }
    let scaling = scaling.without_codes(&options.dimensions).with_effects(&options.effects);
    if options.likelihood_kind().scales_target() { scaling } else { scaling.with_original_target() }
}
