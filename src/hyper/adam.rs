//! Adam (Kingma & Ba 2015, algorithm 1), which goes back from points that cannot be evaluated; no objective, no loop.

use crate::checkpoint::{Archive, MOST};
use serde::{Deserialize, Serialize};

/// Settings of Adam.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamOptions {
    /// The learning rate.
    pub rate: f64,
    /// The share of all steps over which, at the end, the rate falls linearly to a hundredth; 0 for never.
    pub decay_share: f64,
}

/// What the rate of a step depends on besides the steps taken.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The most steps that will be taken.
    pub total_steps: usize,
    /// How often the objective was found not to progress.
    pub plateaus: usize,
}

/// What became of a value and gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The point moved along the gradient.
    Descended,
    /// Value or gradient were not finite: the point is the last one where they were, and the rate is halved.
    RolledBack,
    /// As [`Taken::RolledBack`], and there is no point to go on from: there was none yet, or too many steps failed in a row.
    Stuck,
}

/// A point that moves along the gradients it is given.
///
/// ```
/// use sparsegp::hyper::{Adam, AdamOptions, Pace};
///
/// // x² from x = 1.
/// let mut adam = Adam::new(vec![1.0], AdamOptions { rate: 0.05, decay_share: 0.5 });
/// while adam.steps() < 200 {
///     let x = adam.theta()[0];
///     adam.take(x * x, &[2.0 * x], Pace { total_steps: 200, plateaus: 0 });
/// }
/// assert!(adam.theta()[0].abs() < 1e-3);
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Adam {
    options: AdamOptions,
    theta: Vec<f64>,
    moments: AdamMoments,
    last_good: Option<Vec<f64>>,
    failures_in_a_row: usize,
    rollbacks: usize,
    shrink: f64,
    steps: usize,
}

impl Adam {
    /// After this many failures in a row there is nowhere to go.
    const MAX_FAILURES: usize = 20;

    /// What a plateau multiplies the rate by.
    const PLATEAU_CUT: f64 = 0.3;

    /// At `start`, with no steps taken.
    pub fn new(start: Vec<f64>, options: AdamOptions) -> Self {
        Adam {
            options,
            moments: AdamMoments::new(start.len()),
            theta: start,
            last_good: None,
            failures_in_a_row: 0,
            rollbacks: 0,
            shrink: 1.0,
            steps: 0,
        }
    }

    /// The point, at which the next value and gradient are wanted.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// The same, when no more steps are taken.
    pub(crate) fn into_theta(self) -> Vec<f64> {
        self.theta
    }

    /// Its settings.
    pub fn options(&self) -> AdamOptions {
        self.options
    }

    /// Steps taken, with those that failed.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Steps that failed.
    pub fn rollbacks(&self) -> usize {
        self.rollbacks
    }

    /// Takes one step with the value and gradient at [`Adam::theta`]. Neither has to be finite.
    pub fn take(&mut self, value: f64, gradient: &[f64], pace: Pace) -> Taken {
        let taken = if value.is_finite() && gradient.iter().all(|g| g.is_finite()) {
            self.descend(gradient, pace)
        } else {
            self.roll_back()
        };
        self.steps += 1;
        taken
    }

    fn descend(&mut self, gradient: &[f64], pace: Pace) -> Taken {
        self.failures_in_a_row = 0;
        match &mut self.last_good {
            Some(good) => good.copy_from_slice(&self.theta),
            none => *none = Some(self.theta.clone()),
        }
        let rate = self.rate(pace);
        self.moments.step(&mut self.theta, gradient, rate);
        Taken::Descended
    }

    fn roll_back(&mut self) -> Taken {
        self.failures_in_a_row += 1;
        self.rollbacks += 1;
        self.shrink *= 0.5;
        self.moments.reset();
        if let Some(good) = &self.last_good {
            self.theta.copy_from_slice(good);
        }
        let is_stuck = self.failures_in_a_row > Self::MAX_FAILURES || self.last_good.is_none();
        if is_stuck { Taken::Stuck } else { Taken::RolledBack }
    }

    /// The rate of the next step.
    fn rate(&self, pace: Pace) -> f64 {
        let AdamOptions { rate, decay_share } = self.options;
        let left = 1.0 - self.steps as f64 / (pace.total_steps as f64).max(1.0);
        let decay = if decay_share > 0.0 { (left / decay_share).clamp(0.01, 1.0) } else { 1.0 };
        rate * self.shrink * decay * Self::PLATEAU_CUT.powi(pace.plateaus as i32)
    }

    /// Whether it is of `n` numbers and these options, as what was read from a file has to be.
    pub(crate) fn suits(&self, n: usize, options: AdamOptions) -> bool {
        let counts = [self.failures_in_a_row, self.rollbacks, self.steps];
        counts.iter().all(|&count| count <= MOST)
            && self.options == options
            && self.theta.len() == n
            && self.moments.suits(n)
            && self.last_good.as_ref().is_none_or(|good| good.len() == n)
    }
}

/// Adam's running first and second moments of a gradient, with bias correction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AdamMoments {
    first: Vec<f64>,
    second: Vec<f64>,
    count: i32,
}

impl AdamMoments {
    /// β₁ and β₂.
    const DECAY: (f64, f64) = (0.9, 0.999);
    const EPSILON: f64 = 1e-8;

    /// Zero moments for `n` numbers.
    pub fn new(n: usize) -> Self {
        AdamMoments { first: vec![0.0; n], second: vec![0.0; n], count: 0 }
    }

    /// Takes in `gradient` and moves `x` by Adam's step with learning rate `rate`.
    pub fn step(&mut self, x: &mut [f64], gradient: &[f64], rate: f64) {
        self.count = self.count.saturating_add(1);
        let (b1, b2) = Self::DECAY;
        let (c1, c2) = (1.0 - b1.powi(self.count), 1.0 - b2.powi(self.count));
        let moments = self.first.iter_mut().zip(self.second.iter_mut());
        for ((x, g), (m, v)) in x.iter_mut().zip(gradient).zip(moments) {
            *m = b1 * *m + (1.0 - b1) * g;
            *v = b2 * *v + (1.0 - b2) * g * g;
            *x -= rate * (*m / c1) / ((*v / c2).sqrt() + Self::EPSILON);
        }
    }

    /// Whether they are of `n` numbers.
    fn suits(&self, n: usize) -> bool {
        self.first.len() == n && self.second.len() == n
    }

    /// Passes the moments through an archive; their number stays.
    pub(crate) fn archive(&mut self, archive: &mut Archive) {
        archive.numbers(&mut self.first);
        archive.numbers(&mut self.second);
        archive.value(&mut self.count);
    }

    /// Forgets everything, as after a roll-back.
    pub(crate) fn reset(&mut self) {
        self.first.fill(0.0);
        self.second.fill(0.0);
        self.count = 0;
    }
}
