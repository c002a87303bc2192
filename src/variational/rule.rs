//! The update rules by name: what each states of itself in its file, and what it can be told; no formulae.

use super::diagonal::DiagonalRule;
use super::projected_natural::{clip, usable};
use super::{DataGradient, Family, Guard, Matrix, Normal, Schedule, StepInfo, UpdateRule, clip_eigenvalues};
use super::{adam, natural, projected, projected_natural, proximal, square_root, wasserstein};
use crate::error::{Error, Result};
use crate::words::{either, stored_as_text};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a rule states of itself, which decides about the options that go with it.
pub struct Rule {
    /// What options call it.
    pub word: &'static str,
    /// Whether its steps are mixing weights, at most 1.
    pub mixes: bool,
    /// Whether it takes the entropy's part of a reparameterised gradient, instead of having that part without a gradient.
    pub entropy_gradient: bool,
    /// Whether gradients may stick the landing, which a rule that has the whole entropy itself cannot use.
    pub sticks_the_landing: bool,
    /// Whether a guard can keep its steps positive definite.
    pub takes_guard: bool,
    /// Whether it projects q to bounds.
    pub projects: bool,
    /// Whether it uses the smoothness of the negative log joint.
    pub takes_smoothness: bool,
    /// The step when none is given, in units of 1/𝓜 for rules that take the smoothness; the learning rate of
    /// hyper-parameters when absent.
    pub default_step: Option<f64>,
    /// Whether the rule for diagonal covariances moves a flat position by moments of its gradient.
    pub(super) keeps_moments: bool,
    /// Makes the rule for full covariances like that of q.
    pub(super) build: fn(&Normal, &RuleOptions) -> Box<dyn UpdateRule>,
    /// One step of the rule for diagonal covariances: fills the candidate, given the gradient, β and the step.
    pub(super) diagonal: fn(&mut DiagonalRule, &DataGradient<'_>, f64, f64) -> StepInfo,
}

/// The list of the rules: variants, their words and what they state.
macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $name:ident = $file:ident::$rule:ident),+ $(,)?) => {
        /// How q(w) is updated.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum QUpdate { $($(#[doc = $doc])+ $name),+ }

        impl QUpdate {
            /// Every rule.
            pub const ALL: &'static [QUpdate] = &[$(QUpdate::$name),+];

            /// The accepted words, the first one being the default.
            pub const WORDS: &'static [&'static str] = &[$($file::$rule.word),+];

            /// What the rule states of itself.
            pub const fn rule(self) -> &'static Rule {
                match self { $(QUpdate::$name => &$file::$rule),+ }
            }
        }
    };
}

rules! {
    /// Natural gradients (= variational Newton).
    Ngd = natural::RULE,
    /// Natural gradients on the Cholesky factor (Kumar, Möllenhoff, Khan & Lucchi 2025).
    SrVn = square_root::RULE,
    /// Adam on the mean and the Cholesky factor.
    Adam = adam::RULE,
    /// Proximal gradients in the Cholesky factor (Domke, Gower & Garrigos 2023).
    ProxSgd = proximal::RULE,
    /// Projected gradients in a symmetric factor (Domke, Gower & Garrigos 2023).
    ProjSgd = projected::RULE,
    /// Natural gradients with projection on bounded covariances (Guilmeau, Hendrikx & Forbes 2026).
    ProjectedNgvi = projected_natural::RULE,
    /// Bures–Wasserstein gradients (Lambert et al. 2022).
    BwGd = wasserstein::RULE,
}

stored_as_text!(QUpdate);

impl QUpdate {
    /// The words of the rules that state something, `prox-sgd, proj-sgd or bw-gd`.
    pub fn those(states: impl Fn(&Rule) -> bool) -> String {
        let rules = Self::ALL.iter().map(|update| update.rule()).filter(|rule| states(rule));
        let words: Vec<&str> = rules.map(|rule| rule.word).collect();
        either(&words)
    }

    /// The schedule of its steps when none is given, next to the learning rate of hyper-parameters.
    pub fn default_schedule(self, learning_rate: f64) -> Schedule {
        Schedule::Constant(self.rule().default_step.unwrap_or(learning_rate))
    }
}

impl fmt::Display for QUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule().word)
    }
}

impl FromStr for QUpdate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.iter().copied().find(|update| update.rule().word == text);
        let expected = || Error::usage(format!("q update '{text}' is not one of {}", Self::WORDS.join(", ")));
        known.ok_or_else(expected)
    }
}

/// Everything that a rule can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleOptions {
    /// Which rule.
    pub update: QUpdate,
    /// What keeps natural-gradient steps positive definite (ngd).
    pub guard: Guard,
    /// The range of the eigenvalues of S (projected-ngvi), the prior's being 1.
    pub bounds: (f64, f64),
    /// The least values of the coordinates of m (projected-ngvi on diagonal covariances); empty for none.
    pub lower: Vec<f64>,
    /// The smoothness 𝓜 of the negative log joint (proj-sgd and relative steps); the largest curvature met so far when absent.
    /// For diagonal covariances that is the largest diagonal entry, too small for steps in m where features are correlated.
    pub smoothness: Option<f64>,
    /// Whether the steps of gradient rules (bw-gd, prox-sgd, proj-sgd) are in units of 1/𝓜.
    pub relative: bool,
}

impl RuleOptions {
    /// The defaults of a rule.
    pub fn of(update: QUpdate) -> Self {
        RuleOptions {
            update,
            guard: Guard::Trust,
            bounds: (1e-4, 1e4),
            lower: Vec::new(),
            smoothness: None,
            relative: false,
        }
    }

    /// The posterior nearest to `q` that satisfies the constraints of the rule (projected-ngvi), or `q` itself.
    pub fn admit(&self, q: Normal) -> Normal {
        if !self.update.rule().projects {
            return q;
        }
        let (low, high) = usable(self.bounds);
        let admitted = match &q.cov {
            Matrix::Full(cov) => clip_eigenvalues(cov.as_ref(), low, high)
                .and_then(|cov| Normal::new(q.mean.clone(), cov).ok()),
            Matrix::Diagonal(variances) => {
                let bounded = q.mean.iter().enumerate();
                let mean = bounded.map(|(j, m)| self.lower.get(j).map_or(*m, |least| m.max(*least)));
                let variances = variances.iter().map(|s| clip(*s, (low, high)));
                Normal::diagonal(mean.collect(), variances.collect()).ok()
            }
        };
        admitted.unwrap_or(q)
    }

    /// The rule, for posteriors like `q`.
    pub fn build(&self, q: &Normal) -> Box<dyn UpdateRule> {
        if q.family() == Family::Diagonal {
            return Box::new(DiagonalRule::new(q, self));
        }
        (self.update.rule().build)(q, self)
    }
}
