//! A likelihood by name: what a fit has to know of one before it is built.

use super::joint::JointLikelihood;
use super::{Likelihood, ObservationModel, TargetKind};
use serde::{Serialize, Serializer};
use std::fmt;

/// What options say of a likelihood, and what a fit asks of it before there is one: its name, the targets it is for.
///
/// The built-in ones are constants, and read and written as their names. A likelihood from outside has the kind that
/// [`LikelihoodKind::of`] it says, which a [`Registry`](crate::Registry) finds by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LikelihoodKind {
    name: &'static str,
    target_kind: TargetKind,
    scales_target: bool,
    has_gaussian_noise: bool,
    is_joint: bool,
}

/// Makes a likelihood for targets with so many ordered levels or classes (of no matter to other targets).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Build {
    /// One of one latent function.
    One(fn(usize) -> Box<dyn Likelihood>),
    /// One of several.
    Joint(fn(usize) -> Box<dyn JointLikelihood>),
}

impl Build {
    /// The likelihood.
    pub fn make(self, levels: usize) -> ObservationModel {
        match self {
            Build::One(build) => build(levels).into(),
            Build::Joint(build) => build(levels).into(),
        }
    }
}

/// A line of the list of likelihoods, which each of them states in its file.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub kind: LikelihoodKind,
    pub build: Build,
}

impl LikelihoodKind {
    /// A likelihood of this name that is defined on targets of this kind, with no more to say of itself than by default.
    pub const fn new(name: &'static str, target_kind: TargetKind) -> Self {
        let scales_target = matches!(target_kind, TargetKind::Real);
        LikelihoodKind { name, target_kind, scales_target, has_gaussian_noise: false, is_joint: false }
    }

    /// The same with normal noise around f.
    pub(super) const fn with_gaussian_noise(self) -> Self {
        LikelihoodKind { has_gaussian_noise: true, ..self }
    }

    /// The same with several latent functions.
    pub(super) const fn with_several_functions(self) -> Self {
        LikelihoodKind { is_joint: true, ..self }
    }

    /// What a likelihood says of itself.
    pub fn of(likelihood: &ObservationModel) -> Self {
        LikelihoodKind {
            name: likelihood.name(),
            target_kind: likelihood.target_kind(),
            scales_target: likelihood.scales_target(),
            has_gaussian_noise: likelihood.gaussian_noise().is_some(),
            is_joint: likelihood.joint().is_some(),
        }
    }

    /// What options and model files call it.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The targets it is defined on.
    pub const fn target_kind(self) -> TargetKind {
        self.target_kind
    }

    /// Whether the target is standardised: location and scale of f then absorb it.
    pub fn scales_target(self) -> bool {
        self.scales_target
    }

    /// Whether it observes several latent functions.
    pub fn is_joint(self) -> bool {
        self.is_joint
    }

    /// Whether it has a [noise variance](Likelihood::gaussian_noise), so that the best q has a closed form.
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
