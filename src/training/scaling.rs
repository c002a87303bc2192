//! The scaling of inputs and target, from the options and the training rows.

use crate::data::{InputWarp, Scaling, TargetWarp};
use crate::effects::columns_of;
use crate::error::Result;
use crate::options::FitOptions;
use faer::MatRef;

/// Returns true if options require more than shift and scale.
pub fn asks_for_warps(options: &FitOptions) -> bool {
    options.warp_inputs != InputWarp::None || options.warp_target != TargetWarp::None
}

/// Returns the scaling of inputs (`n × D`, one row per datum) and targets that the options require: inputs are standardised, and targets
/// too if the likelihood does not depend on location and scale.
///
/// # Errors
///
/// A data error if the target does not suit its warp.
pub fn scaling_of(options: &FitOptions, x: MatRef<'_, f64>, y: &[f64]) -> Result<Scaling> {
    let scaling = if asks_for_warps(options) {
        Scaling::warped(x, y, options.warp_inputs, options.warp_target, &options.dimensions)?
    } else {
        Scaling::standardise(x, y)
    };
    Ok(suited(options, scaling))
}

impl FitOptions {
    /// Returns the options with the units of the columns that constraints name, and with the origins of the columns of slopes.
    pub fn with_units_of(mut self, scaling: &Scaling) -> FitOptions {
        self.constraints.columns = self.constraints.columns.scaled(scaling);
        let columns = &scaling.inputs[scaling.dims() - columns_of(&self.effects)..];
        for term in &mut self.effects {
            term.origins = term.values.iter().map(|&value| columns[value].apply(0.0)).collect();
        }
        self
    }
}

/// Returns the scaling of a fit, given the scaling that standardises everything.
pub fn suited(options: &FitOptions, scaling: Scaling) -> Scaling {
    if !options.standardize {
        return Scaling::none(scaling.dims());
    }
    let scaling = scaling.suited_to(&options.dimensions).with_effects(&options.effects);
    if options.likelihood_kind().scales_target() { scaling } else { scaling.with_original_target() }
}
