//! The properties of an update rule, and all of its options.

use super::diagonal::DiagonalRule;
use super::{DataGradient, Guard, Normal, StepInfo, UpdateRule};
use std::fmt;

/// Creates a rule for full covariances, for a q of this dimension.
type Build = fn(&Normal, &RuleOptions) -> Box<dyn UpdateRule>;

/// Takes one step of a rule for diagonal covariances: fills the candidate, given the gradient, β and the step.
type DiagonalStep = fn(&mut DiagonalRule, &DataGradient<'_>, f64, f64) -> StepInfo;

/// The properties of a rule, which determine the options that apply to it.
pub struct Rule {
    /// Its name in options.
    pub word: &'static str,
    /// True if its steps are mixing weights, at most 1.
    pub(crate) mixes: bool,
    /// True if a reparameterised gradient may include the gradient of the entropy, false if the
    /// rule adds the entropy itself.
    pub(crate) entropy_gradient: bool,
    /// True if the rule accepts "sticking the landing" gradients. A rule that computes the whole
    /// entropy itself cannot use them.
    pub(crate) sticks_the_landing: bool,
    /// The guards that can keep its steps valid, the default first; empty for rules that need no
    /// guard.
    pub guards: &'static [Guard],
    /// True if it projects q to bounds.
    pub projects: bool,
    /// True if it uses the smoothness of the negative log joint.
    pub(crate) takes_smoothness: bool,
    /// True if the smoothness bounds the factor of S from below, in addition to giving steps their unit.
    pub(crate) floors_at_smoothness: bool,
    /// The default step, in units of 1/𝓜 for rules that use the smoothness; if `None`, the learning
    /// rate of hyper-parameters.
    pub(crate) default_step: Option<f64>,
    /// True if the rule for diagonal covariances needs moments of the gradient, like Adam.
    pub(super) keeps_moments: bool,
    pub(super) build: Build,
    pub(super) diagonal: DiagonalStep,
}

impl Rule {
    /// Creates a rule that needs no guard, takes the learning rate of hyper-parameters, and has none of the other properties.
    pub(super) const fn new(word: &'static str, build: Build, diagonal: DiagonalStep) -> Rule {
        Rule {
            word,
            mixes: false,
            entropy_gradient: false,
            sticks_the_landing: false,
            guards: &[],
            projects: false,
            takes_smoothness: false,
            floors_at_smoothness: false,
            default_step: None,
            keeps_moments: false,
            build,
            diagonal,
        }
    }
}

/// Two rules are equal if their names are.
impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.word == other.word
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

/// All options of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleOptions {
    /// The rule.
    pub rule: &'static Rule,
    /// The guard that keeps natural-gradient steps positive definite (ngd, sr-vn).
    pub guard: Guard,
    /// The range of the eigenvalues of S (projected-ngvi); the eigenvalues of the prior's covariance are 1.
    pub bounds: (f64, f64),
    /// The least values of the coordinates of m (projected-ngvi on diagonal covariances); empty for none.
    pub lower: Vec<f64>,
    /// The smoothness 𝓜 of the negative log joint (proj-sgd and relative steps); if `None`, the
    /// largest curvature observed so far. For diagonal covariances the observed curvature is the
    /// largest diagonal entry, which is too small for steps in m if features are correlated.
    pub smoothness: Option<f64>,
    /// True if the steps of gradient rules (bw-gd, prox-sgd, proj-sgd) are in units of 1/𝓜.
    pub relative: bool,
}
