//! The solvers on functions with a known minimum and with regions that cannot be evaluated, and the
//! stopping rules.

use crate::prelude::*;

fn limits(epochs: usize) -> Limits {
    Limits {
        epochs,
        steps: None,
        seconds: None,
        tolerance: 0.0,
        window: 10,
        range: None,
        plateaus: 0,
        patience: 5,
        target: None,
    }
}

/// Rosenbrock's function, not finite where `x₀ > wall`.
#[derive(Clone, Debug, PartialEq)]
struct Rosenbrock {
    wall: f64,
    evaluations: Vec<Vec<f64>>,
}

impl Rosenbrock {
    fn beyond(wall: f64) -> Rosenbrock {
        Rosenbrock { wall, evaluations: Vec::new() }
    }
}

impl HyperObjective for Rosenbrock {
    fn value_and_gradient(&mut self, x: &[f64], gradient: &mut [f64]) -> f64 {
        self.evaluations.push(x.to_vec());
        if x[0] > self.wall {
            return f64::NAN;
        }
        gradient.fill(0.0);
        let mut value = 0.0;
        for j in 1..x.len() {
            let (a, b) = (1.0 - x[j - 1], x[j] - x[j - 1] * x[j - 1]);
            gradient[j - 1] += -2.0 * a - 400.0 * x[j - 1] * b;
            gradient[j] += 200.0 * b;
            value += a * a + 100.0 * b * b;
        }
        value
    }
}

fn lbfgs(objective: &mut Rosenbrock, start: [f64; 2], options: LbfgsOptions) -> Outcome {
    let mut ignore = |_: &Event| {};
    let mut monitor = Monitor::new(limits(500), &mut ignore);
    minimize_lbfgs(objective, start.to_vec(), 1.0, options, &mut monitor)
}

#[test]
fn lbfgs_finds_the_minimum_and_never_evaluates_a_point_twice_in_a_row() {
    let mut objective = Rosenbrock::beyond(f64::INFINITY);
    let outcome = lbfgs(&mut objective, [-1.2, 1.0], LbfgsOptions::default());
    assert!(outcome.theta.iter().all(|x| (x - 1.0).abs() < 1e-4), "{outcome:?}");
    assert_eq!(outcome.evaluations, objective.evaluations.len());
    assert!(objective.evaluations.windows(2).all(|w| w[0] != w[1]));
}

#[test]
fn lbfgs_survives_points_that_cannot_be_evaluated() {
    // The first steepest-descent step from here leads far beyond the wall.
    let mut objective = Rosenbrock::beyond(1.02);
    let options = LbfgsOptions { first_step: 5.0, ..LbfgsOptions::default() };
    let outcome = lbfgs(&mut objective, [-1.2, 1.0], options);
    assert!(outcome.rollbacks > 0, "the wall was met: {outcome:?}");
    assert!(outcome.value < 1e-4, "{outcome:?}");
    // A start beyond the wall is reported.
    let mut objective = Rosenbrock::beyond(-5.0);
    let outcome = lbfgs(&mut objective, [0.0; 2], LbfgsOptions::default());
    assert!(outcome.value.is_nan() && outcome.reason == StopReason::NoProgress);
    assert_eq!(outcome.theta, vec![0.0, 0.0]);
}

/// A quadratic bowl with alternating noise, not finite beyond `wall`.
struct Bowl {
    wall: f64,
    step: usize,
    kept: Vec<f64>,
    scores: Vec<f64>,
}

impl HyperObjective for Bowl {
    fn steps_per_epoch(&self) -> usize {
        10
    }

    fn value_and_gradient(&mut self, x: &[f64], gradient: &mut [f64]) -> f64 {
        self.step += 1;
        if x[0] > self.wall {
            return f64::NAN;
        }
        let noise = if self.step.is_multiple_of(2) { 0.3 } else { -0.3 };
        gradient[0] = 2.0 * (x[0] - 3.0) + noise;
        (x[0] - 3.0).powi(2)
    }

    fn validate(&mut self, _x: &[f64]) -> Option<f64> {
        self.scores.pop()
    }

    fn keep(&mut self, x: &[f64]) {
        self.kept = x.to_vec();
    }
}

impl Bowl {
    fn new(wall: f64) -> Bowl {
        Bowl { wall, step: 0, kept: Vec::new(), scores: Vec::new() }
    }

    /// Minimises by Adam for at most 60 epochs; returns the outcome and the number of epochs.
    fn adam(&mut self, rate: f64, decay_share: f64) -> (Outcome, usize) {
        let mut ignore = |_: &Event| {};
        let mut monitor = Monitor::new(limits(60), &mut ignore);
        let options = AdamOptions { rate, decay_share };
        (minimize_adam(self, vec![0.0], 1.0, options, &mut monitor), monitor.records().len())
    }
}

#[test]
fn adam_walks_to_the_minimum() {
    let (outcome, epochs) = Bowl::new(f64::INFINITY).adam(0.1, 0.5);
    assert!((outcome.theta[0] - 3.0).abs() < 0.02, "{outcome:?}");
    assert_eq!((outcome.reason, outcome.iterations, epochs), (StopReason::MaxEpochs, 600, 60));
}

#[test]
fn adam_steps_back_from_points_that_cannot_be_evaluated() {
    let (outcome, _) = Bowl::new(2.0).adam(0.3, 0.0);
    assert!(outcome.rollbacks > 0 && outcome.theta[0] > 1.0, "{outcome:?}");
    assert_eq!(Bowl::new(-1.0).adam(0.3, 0.0).0.reason, StopReason::NoProgress);
}

#[test]
fn validation_decides_what_is_kept_and_when_to_stop() {
    // The best score comes in the third epoch; patience is five epochs.
    let scores = vec![9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 1.0, 2.0, 3.0];
    let mut bowl = Bowl { scores, ..Bowl::new(f64::INFINITY) };
    let (outcome, epochs) = bowl.adam(0.1, 0.0);
    assert_eq!((outcome.reason, epochs), (StopReason::EarlyStop, 8));
    assert!(bowl.kept[0] < outcome.theta[0], "the third epoch's point, not the last one's");
}

#[test]
fn the_stopping_test_is_smoothed_and_counts_plateaus() {
    let mut ignore = |_: &Event| {};
    let rules = Limits { tolerance: 1e-3, plateaus: 1, window: 4, ..limits(1000) };
    let mut monitor = Monitor::new(rules, &mut ignore);
    // Alternating noise far above the tolerance, on a slope: progress.
    for t in 0..40 {
        let noise = if t % 2 == 0 { 0.5 } else { -0.5 };
        monitor.record(-0.1 * f64::from(t) + noise, None);
    }
    assert_eq!((monitor.plateaus(), monitor.stopped()), (0, None));
    // The same noise on a constant level: one plateau is allowed, the second ends the fit.
    let mut epochs = 0;
    while monitor.stopped().is_none() {
        let noise = if epochs % 2 == 0 { 0.5 } else { -0.5 };
        monitor.record(-4.0 + noise, None);
        epochs += 1;
    }
    assert_eq!((monitor.plateaus(), monitor.stopped()), (2, Some(StopReason::Converged)));
    assert!((12..=24).contains(&epochs), "{epochs} epochs");
}

#[test]
fn time_limits_and_target_scores_end_a_fit_between_epochs() {
    let mut ignore = |_: &Event| {};
    let timed = Limits { seconds: Some(0.0), ..limits(1000) };
    let mut monitor = Monitor::new(timed, &mut ignore);
    monitor.look_around(None);
    assert_eq!(monitor.stopped(), Some(StopReason::MaxSeconds));
    let mut monitor = Monitor::new(timed, &mut ignore);
    monitor.record(1.0, None);
    assert_eq!(monitor.stopped(), Some(StopReason::MaxSeconds));
    let mut monitor = Monitor::new(Limits { target: Some(0.5), ..limits(1000) }, &mut ignore);
    monitor.record(0.6, None);
    monitor.record(0.4, Some(0.7));
    assert_eq!(monitor.stopped(), None, "the validation score counts where there is one");
    monitor.record(0.6, Some(0.5));
    assert_eq!(monitor.stopped(), Some(StopReason::TargetReached));
}
