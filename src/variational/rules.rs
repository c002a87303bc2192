//! The list of the update rules by name, and the construction of a rule from its options.

use super::diagonal::DiagonalRule;
use super::limits::{clip, usable};
use super::research::{cholesky_descent, projected, wasserstein};
use super::rule::{Rule, RuleOptions};
use super::{Family, Guard, Matrix, Normal, Schedule, UpdateRule, clip_eigenvalues};
use super::{adam, natural, projected_natural, square_root};
use crate::error::{Error, Result};
use crate::words::{either, stored_as_text};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Declares the list of the rules: variants of [`QUpdate`] with the properties of each rule.
macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $name:ident = $file:ident::$rule:ident),+ $(,)?) => {
        /// The rule that updates q(w).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[non_exhaustive]
        pub enum QUpdate { $($(#[doc = $doc])+ $name),+ }

        impl QUpdate {
            /// Every rule.
            pub const ALL: &'static [QUpdate] = &[$(QUpdate::$name),+];

            /// The names of all rules; the first is the default.
            pub const WORDS: &'static [&'static str] = &[$($file::$rule.word),+];

            /// Returns the properties of the rule.
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
    ProxSgd = cholesky_descent::PROX_SGD,
    /// Projected gradients in a symmetric factor (Domke, Gower & Garrigos 2023).
    ProjSgd = projected::RULE,
    /// Natural gradients with projection on bounded covariances (Guilmeau, Hendrikx & Forbes 2026).
    ProjectedNgvi = projected_natural::RULE,
    /// Bures–Wasserstein gradients (Lambert et al. 2022).
    BwGd = wasserstein::RULE,
    /// Gradients in the Cholesky factor, its diagonal clamped (Wu & Gardner 2024).
    Sgd = cholesky_descent::SGD,
}

stored_as_text!(QUpdate);

impl QUpdate {
    /// Returns the names of the rules with a property, such as `prox-sgd, proj-sgd or bw-gd`.
    pub fn those(states: impl Fn(&Rule) -> bool) -> String {
        let rules = Self::ALL.iter().map(|update| update.rule()).filter(|rule| states(rule));
        let words: Vec<&str> = rules.map(|rule| rule.word).collect();
        either(&words)
    }

    /// Returns the default schedule of steps, given the learning rate of hyper-parameters.
    pub(crate) fn default_schedule(self, learning_rate: f64) -> Schedule {
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

/// The rule with its defaults.
impl From<QUpdate> for RuleOptions {
    fn from(update: QUpdate) -> Self {
        RuleOptions::of(update)
    }
}

impl RuleOptions {
    /// Returns the default options of a rule.
    pub fn of(update: QUpdate) -> Self {
        RuleOptions {
            rule: update.rule(),
            guard: Guard::Trust,
            bounds: (1e-4, 1e4),
            lower: Vec::new(),
            smoothness: None,
            relative: false,
        }
    }

    /// Returns the posterior nearest to `q` that satisfies the constraints of the rule
    /// (projected-ngvi), or `q` itself.
    pub(crate) fn admit(&self, q: Normal) -> Normal {
        if !self.rule.projects {
            return q;
        }
        let (low, high) = usable(self.bounds.0, self.bounds.1);
        let admitted = match &q.cov {
            Matrix::Full(cov) => clip_eigenvalues(cov.as_ref(), low, high)
                .and_then(|cov| Normal::new(q.mean.clone(), cov).ok()),
            Matrix::Diagonal(variances) => {
                let bounded = q.mean.iter().enumerate();
                let mean = bounded.map(|(j, m)| self.lower.get(j).map_or(*m, |least| m.max(*least)));
                let variances = variances.iter().map(|s| clip(*s, low, high));
                Normal::diagonal(mean.collect(), variances.collect()).ok()
            }
        };
        admitted.unwrap_or(q)
    }

    /// Returns the posteriors nearest to `q` that satisfy the constraints of the rule.
    pub(crate) fn admit_all(&self, q: &[Normal]) -> Vec<Normal> {
        q.iter().map(|q| self.admit(q.clone())).collect()
    }

    /// Creates the rule for posteriors of the family and dimension of `q`.
    pub fn build(&self, q: &Normal) -> Box<dyn UpdateRule> {
        if q.family() == Family::Diagonal {
            return Box::new(DiagonalRule::new(q, self));
        }
        (self.rule.build)(q, self)
    }
}
