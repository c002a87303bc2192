//! A poll function can interrupt a minimisation at any point, and the resumed minimisation gives
//! the same result bit for bit.

use super::{Rosenbrock, limits};
use sparsegp::ErrorKind;
use sparsegp::checkpoint::{Checkpoint, Identity};
use sparsegp::hyper::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Returns Rosenbrock's function in four dimensions with a drift, so that any state that is not restored changes the result.
fn drifting() -> Rosenbrock {
    Rosenbrock { drift: 1e-9, best_scored: Some(0.7), ..Rosenbrock::beyond(1.1) }
}

fn patient(epochs: usize) -> Limits {
    Limits { patience: usize::MAX, ..limits(epochs) }
}

/// A minimisation by one of the solvers, from the same start.
type Minimize = fn(&mut Rosenbrock, &mut Monitor<'_>) -> Outcome;

/// A solver, and the interval of its checkpoints. L-BFGS saves no state when it is interrupted within a line search, so every state is
/// written.
#[derive(Clone, Copy)]
struct Solver {
    minimize: Minimize,
    every: Option<Duration>,
}

fn by_lbfgs(objective: &mut Rosenbrock, monitor: &mut Monitor<'_>) -> Outcome {
    let options = LbfgsOptions { first_step: 5.0, memory: 5, ..LbfgsOptions::default() };
    minimize_lbfgs(objective, vec![-1.2, 1.0, -0.5, 2.0], 1.0, options, monitor)
}

fn by_adam(objective: &mut Rosenbrock, monitor: &mut Monitor<'_>) -> Outcome {
    let options = AdamOptions { rate: 0.3, decay_share: 0.5 };
    minimize_adam(objective, vec![-1.2, 1.0, -0.5, 2.0], 1.0, options, monitor)
}

/// The complete result of a minimisation, except for times.
type Found = (Vec<u64>, [usize; 3], StopReason, Rosenbrock);

fn found(outcome: &Outcome, records: &[Record], objective: Rosenbrock) -> Found {
    let traced = records.iter().flat_map(|r| [Some(r.objective), r.validation_nll]).flatten();
    let numbers = outcome.theta.iter().copied().chain([outcome.value]).chain(traced);
    let counts = [outcome.iterations, outcome.evaluations, outcome.rollbacks];
    (numbers.map(f64::to_bits).collect(), counts, outcome.reason, objective)
}

fn identity() -> Identity {
    vec![("test".into(), "interruption".into())]
}

/// Minimises with a poll that requests an interruption once, at its `yes`-th call; resumes from the
/// checkpoint if there is one. Returns the result, or `None` after an interruption, and the number
/// of calls.
fn attempt(by: Solver, path: &Path, epochs: usize, yes: usize) -> (Option<Found>, usize) {
    let Solver { minimize, every } = by;
    let mut checkpoint = Checkpoint::new(path, identity(), every);
    if path.exists() {
        checkpoint = checkpoint.resume(path).expect("a checkpoint");
    }
    let asked = AtomicUsize::new(0);
    let poll = || asked.fetch_add(1, Ordering::Relaxed) + 1 == yes;
    let mut ignore = |_: &Event| {};
    let mut session = Session::new(&mut ignore).with_poll(&poll).with_checkpoint(&mut checkpoint);
    let mut monitor = session.monitor(patient(epochs));
    let mut objective = drifting();
    let outcome = minimize(&mut objective, &mut monitor);
    let interrupted = outcome.reason == StopReason::Interrupted;
    let checked = monitor.check();
    assert!(!interrupted || checked.is_err(), "an interruption is remembered");
    assert!(checked.is_ok() || checked.is_err_and(|error| error.kind() == ErrorKind::Interrupted));
    let result = (!interrupted).then(|| found(&outcome, monitor.records(), objective));
    (result, asked.into_inner())
}

/// Interrupts a minimisation at each of its polls, of which there are more than `least`, resumes
/// it, and compares the results.
fn check(by: Solver, epochs: usize, least: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (whole, most) = attempt(by, &path("whole"), epochs, usize::MAX);
    let whole = whole.expect("nobody interrupts");
    assert!(most > least, "asked {most} times in {epochs} epochs");
    let mut interrupted = 0;
    for yes in 1..=most {
        let path = path(&format!("{yes}"));
        let (first, asked) = attempt(by, &path, epochs, yes);
        assert_eq!(asked, first.as_ref().map_or(yes, |_| asked), "there are no polls after an interruption");
        if first.is_none() {
            interrupted += 1;
            let (second, _) = attempt(by, &path, epochs, usize::MAX);
            assert_eq!(
                second.expect("nobody interrupts"),
                whole,
                "interrupted when asked for the {yes}-th time"
            );
        }
    }
    assert!(interrupted + 2 >= most, "{interrupted} interruptions of {most}");
    // Repeated interruptions, each after more polls than the last: a resumed fit repeats the line search that was interrupted.
    let (path, mut attempts) = (path("again"), 0);
    let last = loop {
        attempts += 1;
        if let (Some(last), _) = attempt(by, &path, epochs, 9 + 2 * attempts) {
            break last;
        }
    };
    assert_eq!(last, whole, "after {attempts} attempts");
    assert!(attempts > 3);
}

#[test]
fn lbfgs_resumes_after_an_interruption_at_any_trial_point() {
    check(Solver { minimize: by_lbfgs, every: Some(Duration::ZERO) }, 20, 2 * 20);
}

#[test]
fn adam_resumes_from_any_step() {
    check(Solver { minimize: by_adam, every: None }, 60, 60);
}

#[test]
fn a_flag_interrupts_a_fit_within_an_iteration() {
    let (flag, epochs) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut raise = |event: &Event| {
        let Event::Epoch { record, .. } = event else { return };
        epochs.store(record.epoch, Ordering::Relaxed);
        flag.store(record.epoch == 3, Ordering::Relaxed);
    };
    let mut session = Session::new(&mut raise).with_interrupt(&flag);
    let mut monitor = session.monitor(patient(40));
    let outcome = by_lbfgs(&mut drifting(), &mut monitor);
    assert_eq!((outcome.reason, outcome.iterations), (StopReason::Interrupted, 3));
    // The interruption is remembered after the flag is cleared.
    flag.store(false, Ordering::Relaxed);
    assert!(monitor.nested(limits(1)).is_interrupted());
    drop(monitor);
    assert!(session.silent().is_interrupted() && session.check().is_err());
}

#[test]
fn a_session_can_be_sent_to_another_thread() {
    fn sent<T: Send>(_: &T) {}
    let mut ignore = |_: &Event| {};
    let mut session = Session::new(&mut ignore);
    sent(&session);
    sent(&session.monitor(limits(1)));
    sent(&Adam::new(vec![0.0], AdamOptions { rate: 0.1, decay_share: 0.0 }));
    sent(&EpochMean::default());
}
