//! The entries of likelihoods with several functions in the list of likelihoods: names, targets and constructors.

use super::joint::{
    BetaPrecise, GammaShaped, GaussianHeteroskedastic, JointLikelihood, NegativeBinomialDispersed, Softmax,
    StudentTHeteroskedastic, ZeroAltered,
};
use super::{Build, Entry, LikelihoodKind, TargetKind};

const fn entry(
    name: &'static str,
    target: TargetKind,
    build: fn(usize) -> Box<dyn JointLikelihood>,
) -> Entry {
    Entry { kind: LikelihoodKind::new(name, target).with_several_functions(), build: Build::Joint(build) }
}

pub(super) const SOFTMAX: Entry =
    entry("softmax", TargetKind::Class, |classes| Box::new(Softmax::new(classes)));

pub(super) const GAUSSIAN_NOISE: Entry =
    entry("gaussian-heteroskedastic", TargetKind::Real, |_| Box::new(GaussianHeteroskedastic::new()));

pub(super) const STUDENT_NOISE: Entry =
    entry("student-t-heteroskedastic", TargetKind::Real, |_| Box::new(StudentTHeteroskedastic::new()));

pub(super) const DISPERSED: Entry =
    entry("negative-binomial-dispersed", TargetKind::Count, |_| Box::new(NegativeBinomialDispersed::new()));

pub(super) const SHAPED: Entry =
    entry("gamma-shaped", TargetKind::Positive, |_| Box::new(GammaShaped::new()));

pub(super) const PRECISE: Entry =
    entry("beta-precise", TargetKind::UnitInterval, |_| Box::new(BetaPrecise::new()));

pub(super) const INFLATED_POISSON: Entry =
    entry("zero-inflated-poisson", TargetKind::Count, |_| Box::new(ZeroAltered::inflated_poisson()));

pub(super) const INFLATED_BINOMIAL: Entry =
    entry("zero-inflated-negative-binomial", TargetKind::Count, |_| {
        Box::new(ZeroAltered::inflated_negative_binomial(0.5))
    });

pub(super) const HURDLE_POISSON: Entry =
    entry("hurdle-poisson", TargetKind::Count, |_| Box::new(ZeroAltered::hurdle_poisson()));

pub(super) const HURDLE_BINOMIAL: Entry = entry("hurdle-negative-binomial", TargetKind::Count, |_| {
    Box::new(ZeroAltered::hurdle_negative_binomial(0.5))
});
