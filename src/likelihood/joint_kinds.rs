//! What the list of likelihoods says of those with several functions: their words, targets and how they are made.

use super::joint::Softmax;
use super::{Build, Entry, LikelihoodKind, TargetKind};

pub(super) const SOFTMAX: Entry = Entry {
    kind: LikelihoodKind::new("softmax", TargetKind::Class).with_several_functions(),
    build: Build::Joint(|classes| Box::new(Softmax::new(classes))),
};
