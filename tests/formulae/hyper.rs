//! The solvers on functions with a known minimum and with regions that cannot be evaluated, and the
//! stopping rules.

use sparsegp::checkpoint::{decode, encode};
use sparsegp::hyper::*;

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

/// Rosenbrock's function in the plane, not finite where `x₀ > wall`.
struct Rosenbrock {
    wall: f64,
    evaluations: Vec<Vec<f64>>,
}

impl HyperObjective for Rosenbrock {
    fn value_and_gradient(&mut self, x: &[f64], gradient: &mut [f64]) -> f64 {
        self.evaluations.push(x.to_vec());
        if x[0] > self.wall {
            return f64::NAN;
        }
        let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
        gradient[0] = -2.0 * a - 400.0 * x[0] * b;
        gradient[1] = 200.0 * b;
        a * a + 100.0 * b * b
    }
}

#[test]
fn lbfgs_finds_the_minimum_and_never_evaluates_a_point_twice_in_a_row() {
    let mut objective = Rosenbrock { wall: f64::INFINITY, evaluations: Vec::new() };
    let mut ignore = |_: &Event| {};
    let mut monitor = Monitor::new(limits(500), &mut ignore);
    let outcome = minimize_lbfgs(&mut objective, vec![-1.2, 1.0], 1.0, LbfgsOptions::default(), &mut monitor);
    assert!(outcome.theta.iter().all(|x| (x - 1.0).abs() < 1e-4), "{outcome:?}");
    assert_eq!(outcome.evaluations, objective.evaluations.len());
    assert!(objective.evaluations.windows(2).all(|w| w[0] != w[1]));
}

#[test]
fn lbfgs_survives_points_that_cannot_be_evaluated() {
    // The first steepest-descent step from here leads far beyond the wall.
    let mut objective = Rosenbrock { wall: 1.02, evaluations: Vec::new() };
    let mut ignore = |_: &Event| {};
    let mut monitor = Monitor::new(limits(500), &mut ignore);
    let options = LbfgsOptions { first_step: 5.0, ..LbfgsOptions::default() };
    let outcome = minimize_lbfgs(&mut objective, vec![-1.2, 1.0], 1.0, options, &mut monitor);
    assert!(outcome.rollbacks > 0, "the wall was met: {outcome:?}");
    assert!(outcome.value < 1e-4, "{outcome:?}");
}

#[test]
fn lbfgs_reports_a_start_that_cannot_be_evaluated() {
    let mut objective = Rosenbrock { wall: -5.0, evaluations: Vec::new() };
    let mut ignore = |_: &Event| {};
    let mut monitor = Monitor::new(limits(10), &mut ignore);
    let outcome = minimize_lbfgs(&mut objective, vec![0.0, 0.0], 1.0, LbfgsOptions::default(), &mut monitor);
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

    fn state(&mut self) -> Vec<u8> {
        encode(&(self.step, &self.kept))
    }

    fn restore(&mut self, state: &[u8]) -> bool {
        decode(state).map(|(step, kept)| (self.step, self.kept) = (step, kept)).is_some()
    }
}

#[test]
fn adam_walks_to_the_minimum() {
    let mut bowl = Bowl { wall: f64::INFINITY, step: 0, kept: Vec::new(), scores: Vec::new() };
    let mut epochs = 0;
    let mut count = |_: &Event| epochs += 1;
    let mut monitor = Monitor::new(limits(60), &mut count);
    let options = AdamOptions { rate: 0.1, decay_share: 0.5 };
    let outcome = minimize_adam(&mut bowl, vec![0.0], 1.0, options, &mut monitor);
    assert!((outcome.theta[0] - 3.0).abs() < 0.02, "{outcome:?}");
    assert_eq!((outcome.reason, outcome.iterations, epochs), (StopReason::MaxEpochs, 600, 60));
}

#[test]
fn adam_steps_back_from_points_that_cannot_be_evaluated() {
    let mut bowl = Bowl { wall: 2.0, step: 0, kept: Vec::new(), scores: Vec::new() };
    let mut ignore = |_: &Event| {};
    let mut monitor = Monitor::new(limits(60), &mut ignore);
    let options = AdamOptions { rate: 0.3, decay_share: 0.0 };
    let outcome = minimize_adam(&mut bowl, vec![0.0], 1.0, options, &mut monitor);
    assert!(outcome.rollbacks > 0 && outcome.theta[0] > 1.0, "{outcome:?}");
    let hopeless = Bowl { wall: -1.0, step: 0, kept: Vec::new(), scores: Vec::new() };
    let mut bowl = hopeless;
    let mut monitor = Monitor::new(limits(60), &mut ignore);
    let outcome = minimize_adam(&mut bowl, vec![0.0], 1.0, options, &mut monitor);
    assert_eq!(outcome.reason, StopReason::NoProgress);
}

#[test]
fn validation_decides_what_is_kept_and_when_to_stop() {
    // The best score comes in the third epoch; patience is five epochs.
    let scores = vec![9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 1.0, 2.0, 3.0];
    let mut bowl = Bowl { wall: f64::INFINITY, step: 0, kept: Vec::new(), scores };
    let mut ignore = |_: &Event| {};
    let mut monitor = Monitor::new(limits(60), &mut ignore);
    let options = AdamOptions { rate: 0.1, decay_share: 0.0 };
    let outcome = minimize_adam(&mut bowl, vec![0.0], 1.0, options, &mut monitor);
    assert_eq!(outcome.reason, StopReason::EarlyStop);
    assert_eq!(monitor.records().len(), 8);
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
fn time_limits_end_a_fit_between_epochs() {
    let mut ignore = |_: &Event| {};
    let mut monitor = Monitor::new(Limits { seconds: Some(0.0), ..limits(1000) }, &mut ignore);
    monitor.look_around(None);
    assert_eq!(monitor.stopped(), Some(StopReason::MaxSeconds));
    let mut monitor = Monitor::new(Limits { seconds: Some(0.0), ..limits(1000) }, &mut ignore);
    monitor.record(1.0, None);
    assert_eq!(monitor.stopped(), Some(StopReason::MaxSeconds));
}

#[test]
fn a_target_score_ends_a_fit() {
    let mut ignore = |_: &Event| {};
    let mut monitor = Monitor::new(Limits { target: Some(0.5), ..limits(1000) }, &mut ignore);
    monitor.record(0.6, None);
    monitor.record(0.4, Some(0.7));
    assert_eq!(monitor.stopped(), None, "the validation score counts where there is one");
    monitor.record(0.6, Some(0.5));
    assert_eq!(monitor.stopped(), Some(StopReason::TargetReached));
}
