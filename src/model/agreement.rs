//! The agreement of the numbers of a model file with each other.

use super::arrays::{Checked, Unusable};
use super::fitted::Model;
use super::posterior::Marginals;
use crate::data::Affine;
use faer::Mat;

/// Refuses numbers that are valid one by one, but together give no finite predictions, as in a file that was edited by hand.
pub(super) fn check_predictions(model: &Model) -> Checked<()> {
    const FEW: usize = 4;
    let posterior = model.posterior();
    let layer = model.latent().layer();
    let inducing = layer.inducing().map(|layer| layer.z());
    // The centre of the data, which is the origin, and some inducing inputs.
    let known = inducing.map_or(0, |z| z.nrows().min(FEW));
    let dims = model.scaling().dims();
    let places = Mat::from_fn(1 + known, dims, |i, j| match (i.checked_sub(1), inducing) {
        (Some(place), Some(z)) if j < z.ncols() => z[(place, j)],
        // The first level of a grouping.
        _ => 0.0,
    });
    let Marginals { mean, variance, .. } = posterior.marginals(places.as_ref());
    let Affine { shift, scale } = model.scaling().target;
    let finite = mean.iter().all(|mean| (mean * scale + shift).is_finite())
        && variance.iter().all(|variance| variance.is_finite() && *variance >= 0.0);
    Unusable::unless(finite, "its predictions are not finite numbers")
}
