//! The posterior of the hyper-parameters as weighted points, over which predictions are averaged.

use super::arrays::{Array, Arrays, Checked, Unusable, name};
use super::averaged::{Given, index_at};
use super::fitted::{Model, Placed};
use super::latent::LatentPrior;
use super::posterior::{Factors, Posterior, Root, Roots};
use faer::{Mat, Scale};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use sparsegp_kernels::Transform;

/// A point of the posterior of the hyper-parameters, without f.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HyperPlace {
    /// The weight in predictions; the model itself has the rest of 1.
    pub weight: f64,
    /// The values of kernels, means and the likelihood in the order of the flat vector.
    pub values: Vec<f64>,
}

/// A point of the posterior of the hyper-parameters, with the posterior of f given them. The model itself is the first point.
#[derive(Clone)]
pub(crate) struct HyperPoint {
    pub place: HyperPlace,
    pub posterior: Posterior,
}

impl HyperPoint {
    /// Returns the model with the values of this point.
    fn moved(latent: &LatentPrior, values: &[f64]) -> Checked<LatentPrior> {
        let (mut moved, mut values, mut admitted) = (latent.clone(), values.iter().copied(), true);
        moved.for_each_parameter_mut(&mut |p| {
            for own in &mut p.values {
                let value = values.next().unwrap_or(f64::NAN);
                // Training may end on the edge of a range, but never with a negative scale.
                admitted &= value.is_finite() && (value >= 0.0 || p.transform == Transform::Identity);
                *own = value;
            }
        });
        let suits = admitted && values.next().is_none();
        Unusable::unless(suits, "the points of its hyper-parameters do not match its hyper-parameters")?;
        Ok(moved)
    }

    /// Returns the arrays of point number `index`.
    pub(super) fn arrays(&self, index: usize) -> impl Iterator<Item = Array> {
        let factors = self.posterior.factors.iter().enumerate();
        factors.flat_map(move |(process, Factors { weights, roots })| {
            let name = |what: &str| name_of(what, index, process);
            let root =
                |what: &str, root: &Option<Root>| root.as_ref().map(|root| Array::packed(name(what), root));
            let (reduction, increase) =
                (root(name::REDUCTION, &roots.reduction), root(name::INCREASE, &roots.increase));
            [Some(Array::vector(name(name::WEIGHTS), weights)), reduction, increase].into_iter().flatten()
        })
    }

    /// Reads the points of a model.
    pub(super) fn read(
        places: Vec<HyperPlace>,
        (latent, mean_variance): (&LatentPrior, f64),
        arrays: &Arrays<'_>,
    ) -> Checked<Vec<HyperPoint>> {
        let sum: f64 = places.iter().map(|place| place.weight).sum();
        let positive = places.iter().all(|place| place.weight > 0.0) && sum <= 1.0;
        Unusable::unless(positive, "the weights of its hyper-parameters are no probabilities")?;
        let point = |(index, place): (usize, HyperPlace)| {
            let moved = HyperPoint::moved(latent, &place.values)?;
            let layers = moved.layers();
            let factors = (0..layers.processes()).map(|process| {
                let m = layers.get(layers.of(process)).dim();
                let name = |what: &str| name_of(what, index, process);
                let weights = arrays.values(&name(name::WEIGHTS), &[m])?;
                let reduction = arrays.root(&name(name::REDUCTION), m)?;
                let increase = arrays.root(&name(name::INCREASE), m)?;
                Ok(Factors { weights, roots: Roots { reduction, increase } })
            });
            let factors = factors.collect::<Checked<Vec<_>>>()?;
            let posterior = Posterior::from_factors(&moved, factors).with_mean_variance(mean_variance);
            Ok(HyperPoint { place, posterior })
        };
        places.into_iter().enumerate().map(point).collect()
    }
}

/// Returns the name of an array of a point and a process.
fn name_of(what: &str, point: usize, process: usize) -> String {
    format!("hyper.{point}.{process}.{what}")
}

/// The record of the uncertainty about hyper-parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct HyperSummary {
    /// The names of the free hyper-parameters with the ends of their 95 % intervals, on the scale the model sees.
    pub intervals: Vec<(String, [f64; 2])>,
    /// The factor by which uncertain hyper-parameters change the width of predictive intervals of training rows, on average.
    pub widening: f64,
    /// The number of evaluations of the objective.
    pub evaluations: usize,
}

impl HyperSummary {
    /// Returns the ends of the interval of a hyper-parameter.
    pub fn interval(&self, name: &str) -> Option<[f64; 2]> {
        self.intervals.iter().find(|(own, _)| own == name).map(|(_, ends)| *ends)
    }
}

impl Model {
    /// The number of sets of hyper-parameters over which predictions are averaged.
    #[doc(hidden)]
    pub fn hyper_points(&self) -> usize {
        1 + self.hyper_points.len()
    }

    /// The record of the uncertainty about hyper-parameters, if the fit has computed it.
    #[doc(hidden)]
    pub fn hyper_summary(&self) -> Option<&HyperSummary> {
        self.summary.hyper.as_ref()
    }

    /// The weights of the model and of the other points.
    fn hyper_weights(&self) -> impl Iterator<Item = f64> {
        let others = || self.hyper_points.iter().map(|point| point.place.weight);
        std::iter::once(1.0 - others().sum::<f64>()).chain(others())
    }

    /// The posteriors of the model and of the other points.
    pub(super) fn all_posteriors(&self) -> impl Iterator<Item = &Posterior> {
        std::iter::once(&self.posterior).chain(self.hyper_points.iter().map(|point| &point.posterior))
    }

    /// Returns the predictions of the other points at rows.
    pub(super) fn given_others(&self, rows: &Placed) -> Vec<Given> {
        let given = |HyperPoint { place, posterior }: &HyperPoint| Given {
            weight: place.weight,
            likelihood: posterior.likelihood().clone(),
            latent: posterior.marginals(rows.x.transpose()).with_offsets(rows.offsets.as_ref()),
        };
        self.hyper_points.iter().map(given).collect()
    }

    /// Returns the mean and the covariance of a process at rows, averaged over the points: `C = Σ_k w_k (C_k + (m_k − m)(m_k − m)ᵀ)`.
    pub(super) fn joint_of(&self, process: usize, rows: &Placed) -> (Vec<f64>, Mat<f64>) {
        if self.hyper_points.is_empty() {
            return self.joint_given(&self.posterior, process, rows);
        }
        let mean_of = |posterior| self.with_offsets(posterior, process, rows);
        let means: Vec<Vec<f64>> = self.all_posteriors().map(mean_of).collect();
        let mut mean = vec![0.0; rows.x.ncols()];
        for (weight, own) in self.hyper_weights().zip(&means) {
            mean.iter_mut().zip(own).for_each(|(sum, own)| *sum += weight * own);
        }
        let mut covariance = Mat::zeros(mean.len(), mean.len());
        for ((weight, posterior), own) in self.hyper_weights().zip(self.all_posteriors()).zip(&means) {
            let off = Mat::from_fn(mean.len(), 1, |i, _| own[i] - mean[i]);
            covariance += posterior.covariance_of(process, rows.x.transpose()) * Scale(weight);
            covariance += &off * off.transpose() * Scale(weight);
        }
        (mean, covariance)
    }

    /// Returns for every set of hyper-parameters the draws that belong to it, of `count` draws.
    pub(super) fn draws_of_points(&self, count: usize, seed: u64) -> Vec<(&Posterior, Vec<usize>)> {
        let mut all: Vec<(&Posterior, Vec<usize>)> =
            self.all_posteriors().map(|posterior| (posterior, Vec::new())).collect();
        if all.len() == 1 {
            all[0].1 = (0..count).collect();
            return all;
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(u64::MAX);
        for draw in 0..count {
            all[index_at(self.hyper_weights(), random.random())].1.push(draw);
        }
        all.retain(|(_, draws)| !draws.is_empty());
        all
    }
}
