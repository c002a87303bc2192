//! Adam (Kingma & Ba 2015, algorithm 1), with rollbacks from points that cannot be evaluated.

use crate::checkpoint::MOST;
use serde::{Deserialize, Serialize};

/// Settings of Adam.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct AdamOptions {
    /// The learning rate.
    pub rate: f64,
    /// The share of all steps over which, at the end, the rate falls linearly to a hundredth; 0 for never.
    pub decay_share: f64,
}

/// The inputs of the learning-rate schedule, except the number of steps taken.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Pace {
    /// The maximum number of steps.
    pub total_steps: usize,
    /// The number of plateaus of the objective.
    pub plateaus: usize,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Taken {
    /// The point moved along the gradient.
    Descended,
    /// Value or gradient were not finite. The point returns to the last point with finite values,
    /// and the rate is halved.
    RolledBack,
    /// Like [`Taken::RolledBack`], but there is no point to continue from: none was usable so far, or too many steps failed in a row.
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
#[doc(hidden)]
pub struct Adam {
    pub(crate) options: AdamOptions,
    pub(super) theta: Vec<f64>,
    moments: AdamMoments,
    last_good: Option<Vec<f64>>,
    failures_in_a_row: usize,
    pub(crate) rollbacks: usize,
    shrink: f64,
    steps: usize,
}

impl Adam {
    /// The number of failures in a row that ends the minimisation.
    const MAX_FAILURES: usize = 20;

    /// The factor by which a plateau reduces the rate.
    const PLATEAU_CUT: f64 = 0.3;

    /// The factor by which a rate that failures have halved grows again with every step that succeeds.
    const RECOVERY: f64 = 1.01;

    /// Starts at `start`, with no steps taken.
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

    /// Returns the current point, at which the next value and gradient have to be computed.
    pub fn theta(&self) -> &[f64] {
        &self.theta
    }

    /// Returns the number of steps taken, including failed ones.
    pub(crate) fn steps(&self) -> usize {
        self.steps
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
        self.shrink = (Self::RECOVERY * self.shrink).min(1.0);
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
        // The moments stay: without them the next step would move every coordinate by the whole rate, in the direction of noise.
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

    /// Returns true if the state, read from a file, has `n` numbers and these options.
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

    /// Updates the moments with `gradient`, and moves `x` by Adam's step with learning rate `rate`.
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

    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// Returns true if the moments have `n` numbers.
    pub(crate) fn suits(&self, n: usize) -> bool {
        self.first.len() == n && self.second.len() == n
    }

    /// Resets the moments, as after a rollback.
    pub(crate) fn reset(&mut self) {
        self.first.fill(0.0);
        self.second.fill(0.0);
        self.count = 0;
    }
}
