//! Neighbours in a model file.

use super::arrays::{Arrays, name};
use super::latent::LatentPrior;
use super::nearby::{Nearby, NearbyRows};
use super::posterior::Posterior;
use super::unusable::{Checked, Unusable};
use crate::options::MOST_NEIGHBOURS;
use crate::variational::{MatrixRef, Normal};
use safetensors::tensor::Dtype;
use std::sync::Arc;

impl NearbyRows {
    /// Reads the rows of this number of functions in a model file.
    pub(super) fn read(arrays: &Arrays<'_>, functions: usize) -> Checked<NearbyRows> {
        let single = arrays.tensors.tensor(name::NEIGHBOUR_INPUTS).is_ok_and(|x| x.dtype() == Dtype::F32);
        let shape = arrays.shape(name::NEIGHBOUR_INPUTS)?;
        let &[rows, dims] = &shape[..] else {
            return Err(Unusable::damaged("the inputs of its neighbours are not a matrix"));
        };
        Unusable::unless(u32::try_from(rows).is_ok(), "it has too many neighbours")?;
        let x = arrays.matrix(name::NEIGHBOUR_INPUTS, rows, dims)?.transpose().to_owned();
        let y = arrays.values(name::NEIGHBOUR_TARGETS, &[functions * rows])?;
        let noise = match arrays.has(name::NEIGHBOUR_NOISE) {
            true => Some(arrays.values(name::NEIGHBOUR_NOISE, &[functions * rows])?),
            false => None,
        };
        let positive = noise.iter().flatten().all(|noise| *noise > 0.0);
        Unusable::unless(positive, "the noise of its neighbours is not positive")?;
        Ok(NearbyRows { x, y, noise, single })
    }
}

/// Adds the training rows in the file to the posterior, as the neighbours of predictions.
pub(super) fn beside(
    posterior: Posterior,
    latent: &LatentPrior,
    q: &[Normal],
    count: usize,
    arrays: &Arrays<'_>,
) -> Checked<Posterior> {
    let rows = NearbyRows::read(arrays, q.len())?;
    let has_noise = rows.noise.is_some() || latent.likelihood.gaussian_noise().is_some();
    let full = q.iter().all(|q| matches!(q.cov(), MatrixRef::Full(_)));
    let inducing = latent.layers.iter().all(|layer| layer.inducing().is_some());
    let suits = full && inducing && has_noise;
    Unusable::unless(suits, "it has neighbours, which a model of its kind cannot use")?;
    let dims = latent.input_dims();
    Unusable::unless(
        rows.x.nrows() == dims && count <= MOST_NEIGHBOURS,
        "its neighbours have another number of inputs than its model, or are too many",
    )?;
    let joint = posterior.all_effects().iter().all(|known| known.moments().is_joint());
    Unusable::unless(joint, "its grouped effects do not suit its neighbours")?;
    let singular = |_| Unusable::damaged("the covariance matrix of its inducing inputs is singular");
    let latent = latent.factorised().map_err(singular)?;
    let first = latent.layer().inducing().map(|first| Nearby::new(first, rows, count));
    Ok(posterior.with_neighbours(&latent, first.map(Arc::new), q))
}
