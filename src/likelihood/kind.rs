//! A likelihood by name: the facts that a fit needs before the likelihood is built.

use super::joint::JointLikelihood;
use super::{Likelihood, ObservationModel, TargetKind};
use serde::{Serialize, Serializer};
use std::fmt;

/// The kind of a likelihood: its name, its targets, and the facts that a fit needs before there is a likelihood.
///
/// The built-in kinds are constants, and are serialised as their names. A custom likelihood has the kind from [`LikelihoodKind::of`],
/// which a [`Registry`](crate::Registry) finds by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LikelihoodKind {
    name: &'static str,
    target_kind: TargetKind,
    scales_target: bool,
    has_gaussian_noise: bool,
    is_joint: bool,
}

/// Builds a likelihood for targets with a number of ordered levels or classes (ignored for other targets).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Build {
    /// A likelihood with one latent function.
    One(fn(usize) -> Box<dyn Likelihood>),
    /// A likelihood with several latent functions.
    Joint(fn(usize) -> Box<dyn JointLikelihood>),
}

impl Build {
    /// Builds the likelihood.
    pub fn make(self, levels: usize) -> ObservationModel {
        match self {
            Build::One(build) => build(levels).into(),
            Build::Joint(build) => build(levels).into(),
        }
    }
}

/// A line of the list of likelihoods; the file of each likelihood defines its own.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub kind: LikelihoodKind,
    pub build: Build,
}

impl LikelihoodKind {
    /// Creates the kind of a likelihood with this name and kind of target, with defaults for all other facts.
    pub const fn new(name: &'static str, target_kind: TargetKind) -> Self {
        let scales_target = matches!(target_kind, TargetKind::Real);
        LikelihoodKind { name, target_kind, scales_target, has_gaussian_noise: false, is_joint: false }
    }

    /// Adds the fact that the likelihood has normal noise around f.
    pub(super) const fn with_gaussian_noise(self) -> Self {
        LikelihoodKind { has_gaussian_noise: true, ..self }
    }

    /// Adds the fact that the likelihood has several latent functions.
    pub(super) const fn with_several_functions(self) -> Self {
        LikelihoodKind { is_joint: true, ..self }
    }

    /// Returns the kind of a likelihood.
    pub fn of(likelihood: &ObservationModel) -> Self {
        LikelihoodKind {
            name: likelihood.name(),
            target_kind: likelihood.target_kind(),
            scales_target: likelihood.scales_target(),
            has_gaussian_noise: likelihood.gaussian_noise().is_some(),
            is_joint: likelihood.joint().is_some(),
        }
    }

    /// Returns the name in options and model files.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The targets it is defined on.
    pub const fn target_kind(self) -> TargetKind {
        self.target_kind
    }

    /// Returns true if the target is standardised: location and scale of f then absorb it.
    pub fn scales_target(self) -> bool {
        self.scales_target
    }

    /// Returns true if it has several latent functions.
    pub fn is_joint(self) -> bool {
        self.is_joint
    }

    /// Returns true if it has a [noise variance](Likelihood::gaussian_noise), so that the best q has a closed form.
    pub fn has_gaussian_noise(self) -> bool {
        self.has_gaussian_noise
    }
}

impl fmt::Display for LikelihoodKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Serialize for LikelihoodKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}
