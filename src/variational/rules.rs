//! The list of the update rules by name, their properties and options, and the construction of a rule.

use super::diagonal::DiagonalRule;
use super::limits::{clip, usable};
use super::research::{cholesky_descent, projected, wasserstein};
use super::{
    DataGradient, Factor, Family, Guard, Matrix, Normal, Schedule, StepInfo, UpdateRule, adam,
    clip_eigenvalues, natural, projected_natural, square_root,
};
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
            #[doc(hidden)]
            pub const ALL: &'static [QUpdate] = &[$(QUpdate::$name),+];

            /// The names of all rules; the first is the default.
            #[doc(hidden)]
            pub const WORDS: &'static [&'static str] = &[$($file::$rule.word),+];

            /// Returns the properties of the rule.
            #[doc(hidden)]
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
    #[doc(hidden)]
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

/// Creates a rule for full covariances, for a q of this dimension.
type Build = fn(&Normal, &RuleOptions) -> Box<dyn UpdateRule>;

/// Takes one step of a rule for diagonal covariances: fills the candidate, given the gradient, β and the step.
type DiagonalStep = fn(&mut DiagonalRule, &DataGradient<'_>, f64, f64) -> StepInfo;

/// The properties of a rule, which determine the options that apply to it.
#[doc(hidden)]
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
#[doc(hidden)]
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

/// The update rules of the posteriors of a model, one for each latent process.
#[doc(hidden)]
pub struct Rules(Vec<Box<dyn UpdateRule>>);

/// The rule of a single process.
impl<R: UpdateRule + 'static> From<R> for Rules {
    fn from(rule: R) -> Self {
        Rules(vec![Box::new(rule)])
    }
}

impl From<Box<dyn UpdateRule>> for Rules {
    fn from(rule: Box<dyn UpdateRule>) -> Self {
        Rules(vec![rule])
    }
}

impl From<Vec<Box<dyn UpdateRule>>> for Rules {
    fn from(rules: Vec<Box<dyn UpdateRule>>) -> Self {
        Rules(rules)
    }
}

impl Rules {
    /// Creates the rule of `options` for each posterior.
    pub fn of_all(options: &RuleOptions, q: &[Normal]) -> Self {
        Rules(q.iter().map(|q| options.build(q)).collect())
    }

    pub(crate) fn of(&mut self, process: usize) -> &mut dyn UpdateRule {
        self.0[process].as_mut()
    }

    /// Moves all of `q` from the same point, given the gradient of each process. Returns the smallest step that was taken, 0 only if none
    /// was taken, and the number of times that steps were shrunk.
    pub(crate) fn step<'g>(
        &mut self,
        q: &mut [Normal],
        gradient: &dyn Fn(usize) -> DataGradient<'g>,
        beta: f64,
        step: f64,
    ) -> StepInfo {
        let mut all = StepInfo { step: f64::INFINITY, rollbacks: 0 };
        for (process, (rule, q)) in self.0.iter_mut().zip(q).enumerate() {
            let info = rule.step(q, gradient(process), beta, step);
            all.rollbacks += info.rollbacks;
            if info.step > 0.0 {
                all.step = all.step.min(info.step);
            }
        }
        StepInfo { step: if all.step.is_finite() { all.step } else { 0.0 }, ..all }
    }

    /// Resets the state of all rules to match `q`, after `q` was changed by other code.
    pub fn restart(&mut self, q: &[Normal]) {
        self.0.iter_mut().zip(q).for_each(|(rule, q)| rule.restart(q));
    }

    /// Returns the factor of S that the rule of a single process moves.
    pub fn factor(&self) -> Option<Factor<'_>> {
        match &self.0[..] {
            [rule] => rule.factor(),
            _ => None,
        }
    }

    pub(crate) fn state(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|rule| rule.state()).collect()
    }

    /// Continues from the states of all rules; returns false if they do not suit.
    pub(crate) fn restore(&mut self, states: &[Vec<u8>]) -> bool {
        self.0.len() == states.len() && self.0.iter_mut().zip(states).all(|(rule, state)| rule.restore(state))
    }
}
