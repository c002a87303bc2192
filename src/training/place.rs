//! A model as a function of its free parameters: its current point, its moves, and the best point
//! so far.

use crate::effects::Effects;
use crate::error::Error;
use crate::hyper::FreeVector;
use crate::model::LatentModel;

/// A model with its current point in the space of its free parameters.
pub(super) struct Place {
    pub model: LatentModel,
    free: FreeVector,
    natural: Vec<f64>,
    /// The point with the best validation score.
    pub kept: Option<Vec<f64>>,
    /// The flat gradient in natural units that the last evaluation left.
    pub flat: Vec<f64>,
    /// The error of sums over remote rows, if there was one; after an error the objective has no value.
    pub error: Option<Error>,
}

impl Place {
    pub fn new(model: LatentModel) -> Self {
        let (free, natural) = (FreeVector::new(&model.descriptors()), model.natural());
        Place { model, free, natural, kept: None, flat: Vec::new(), error: None }
    }

    /// Returns the free, unconstrained vector of the current parameters.
    pub fn start(&self) -> Vec<f64> {
        self.free.pack(&self.natural)
    }

    /// Returns the free vector of parameters in natural units.
    pub fn pack(&self, natural: &[f64]) -> Vec<f64> {
        self.free.pack(natural)
    }

    /// Returns the indices, in the free vector, of the values that users can name: all except
    /// inducing inputs. If there are more than `most` values, those of kernels and means are left
    /// out too.
    pub fn named(&self, most: usize) -> Vec<usize> {
        let (descriptors, first) = (self.model.descriptors(), self.model.layer_values());
        let all = || self.free.indices().enumerate().filter(|(_, index)| descriptors[*index].is_named());
        let kept = all().count() > most;
        all().filter(|(_, index)| !kept || *index >= first).map(|(place, _)| place).collect()
    }

    /// Returns the index, in the free vector, of the natural value with this index, if it is free.
    pub fn free_place(&self, index: usize) -> Option<usize> {
        self.free.indices().position(|free| free == index)
    }

    /// Returns the natural values at `theta`.
    pub fn natural_at(&self, theta: &[f64]) -> Vec<f64> {
        let mut natural = self.natural.clone();
        self.free.unpack(theta, &mut natural);
        natural
    }

    /// Returns the grouped effects at `theta`.
    pub fn effects_at(&self, theta: &[f64]) -> Effects {
        let (mut likelihood, mut effects) = (self.model.likelihood.clone(), self.model.effects.clone());
        self.model.read_components(&self.natural_at(theta), &mut likelihood, &mut effects);
        effects
    }

    /// Returns `theta` with the values of other factors of grouped effects.
    pub fn with_effects(&self, theta: &[f64], effects: &Effects) -> Vec<f64> {
        let (mut natural, mut values) = (self.natural_at(theta), Vec::new());
        effects.for_each_parameter(&mut |p| values.extend_from_slice(&p.values));
        let first = natural.len() - values.len();
        natural[first..].copy_from_slice(&values);
        self.free.pack(&natural)
    }

    /// Moves to `theta`; returns `None` if the model cannot be evaluated there.
    pub(crate) fn move_to(&mut self, theta: &[f64]) -> Option<()> {
        self.free.unpack(theta, &mut self.natural);
        if !self.natural.iter().all(|x| x.is_finite()) {
            return None;
        }
        self.model.set_natural(&self.natural).ok()
    }

    /// Converts the flat gradient to the free vector, and adds the gradient of the priors; returns their penalty.
    pub fn pull_back(&self, gradient: &mut [f64]) -> f64 {
        self.free.pull_back(&self.natural, &self.flat, gradient)
    }

    /// Returns the penalty of the priors at `theta`.
    pub fn prior_terms(&self, theta: &[f64]) -> f64 {
        self.free.penalty_at(theta, &self.natural)
    }
}
