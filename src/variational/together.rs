//! The rules of several posteriors that are moved together, one for each latent process.

use super::{DataGradient, Factor, Normal, RuleOptions, StepInfo, UpdateRule};

/// The update rules of the posteriors of a model, one for each latent process.
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

    /// Returns the rule of a process.
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

    /// Returns the states of all rules, for a checkpoint.
    pub(crate) fn state(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|rule| rule.state()).collect()
    }

    /// Continues from the states of all rules; returns false if they do not suit.
    pub(crate) fn restore(&mut self, states: &[Vec<u8>]) -> bool {
        self.0.len() == states.len() && self.0.iter_mut().zip(states).all(|(rule, state)| rule.restore(state))
    }
}
