//! `--restarts`: short fits compare several starts and repeatedly drop the worse half; then the fit continues from the best.

use super::within;
use crate::data::{Purpose, generator};
use crate::error::{Error, ErrorKind, Result};
use crate::hyper::{Session, Stage, stem};
use crate::model::{LatentPrior, Restart, Score, Search};
use crate::options::{FitOptions, LossKind, ObjectiveKind, Plan};
use crate::training::rows::TrainingData;
use crate::training::run::{Fitted, Job, fit_from};
use crate::training::start::{Prototype, Start, initial_model};
use rand::RngExt;
use sparsegp_kernels::Transform;
use std::cmp::{Ordering, Reverse};
use std::time::Instant;

/// Starting values are drawn between a tenth and ten times those from the data, …
const SPREAD: f64 = 10.0;

/// … and in addition the values of one parameter, such as lengthscales, within a factor of two.
const SPREAD_WITHIN: f64 = 2.0;

/// The length of the first short fit: iterations of L-BFGS, or of the warm start before an epoch of mini-batches. Each later one is twice
/// as long.
const FIRST_BUDGET: usize = 10;

/// The share of a time limit that all short fits together may take.
const TIME_SHARE: f64 = 0.5;

/// Starts with their results so far.
struct Starts {
    candidates: Vec<Candidate>,
    last_error: Option<Error>,
}

struct Candidate {
    model: LatentPrior,
    report: Restart,
}

impl Candidate {
    /// Returns the sort key, lowest for the best start: starts without failure first, then most rounds first, then the lowest last score,
    /// then the lowest number.
    fn rank(&self) -> (bool, Reverse<usize>, f64, usize) {
        let Restart { scores, error, start, .. } = &self.report;
        let score = scores.last().copied().flatten().unwrap_or(f64::INFINITY);
        (error.is_some(), Reverse(scores.len()), score, *start)
    }
}

/// Fits from the best of several starts. If the fit from a start fails, the next best start is used.
pub(in crate::training) fn fit_restarted(
    data: TrainingData<'_>,
    options: &FitOptions,
    prototype: &Prototype,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let started = Instant::now();
    let mut starts = choose_start(data, options, prototype, session)?;
    loop {
        let start = starts.best()?;
        let options = within(options, started);
        let plan = Plan::new(&options, &start.model.likelihood, data.train.len())?;
        match fit_from(start, &Job { rows: &data, plan: &plan, fresh: true }, session) {
            Ok(mut fitted) => {
                fitted.search = Search { restarts: starts.into_report(), ..Search::default() };
                return Ok(fitted);
            }
            Err(error) if error.kind() == ErrorKind::Fit => starts.reject(error),
            Err(error) => return Err(error),
        }
    }
}

/// Compares the number of starts in the options by short fits (successive halving: Jamieson & Talwalkar 2016). All fits have the seed of
/// the options, and so the same subsets and batches.
///
/// # Errors
///
/// Errors about the options or the data; numerical failures count as bad scores.
fn choose_start(
    data: TrainingData<'_>,
    options: &FitOptions,
    prototype: &Prototype,
    session: &mut Session<'_>,
) -> Result<Starts> {
    let candidates = (0..options.restarts).map(|start| candidate(data, options, prototype, start));
    let mut starts = Starts { candidates: candidates.collect::<Result<_>>()?, last_error: None };
    let rungs: Vec<usize> = rungs(options.restarts).collect();
    let fits = rungs.iter().sum::<usize>() as f64;
    let seconds = options.max_seconds.map(|seconds| TIME_SHARE * seconds / fits);
    for (rung, &left) in rungs.iter().enumerate() {
        let short = FitOptions { max_seconds: seconds, ..short(options, rung) };
        for index in 0..left {
            let start = starts.candidates[index].report.start;
            let (round, rounds) = (rung + 1, rungs.len());
            session.enter(Stage::Restart { start, number: index + 1, of: left, round, rounds });
            starts.advance(index, data, &short, &mut session.silent().without_intervals())?;
        }
        starts.sort();
    }
    Ok(starts)
}

/// Returns the number of remaining starts for each round of short fits, down to one.
fn rungs(starts: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(starts), |left| Some(left.div_ceil(2))).take_while(|&left| left > 1)
}

/// Creates start number `start`: the start from the data, with other inducing inputs and, except
/// for number 0, other hyper-parameters.
fn candidate(
    data: TrainingData<'_>,
    options: &FitOptions,
    prototype: &Prototype,
    start: usize,
) -> Result<Candidate> {
    let seed = options.seed.wrapping_add(start as u64);
    let seeded = FitOptions { seed, ..options.clone() };
    let plan = Plan::new(&seeded, &prototype.likelihood, data.train.len())?;
    let mut model = initial_model(data.train, &plan, prototype)?;
    // The perturbation respects fixed, tied and bounded values.
    model.constrain(&options.constraints, options.has_default_priors())?;
    if start > 0 {
        perturb(&mut model, seed);
    }
    let report = Restart { start, seed, scores: Vec::new(), error: None, chosen: false };
    Ok(Candidate { model, report })
}

/// Multiplies every positive trained value by a random factor. The larger part of the factor is the same for all values of a parameter.
fn perturb(model: &mut LatentPrior, seed: u64) {
    let mut random = generator(seed, Purpose::Restart, 0);
    let mut factor = |spread: f64| (spread.ln() * random.random_range(-1.0..1.0)).exp();
    let (mut last, mut common) = (String::new(), 1.0);
    model.change_values(|descriptor, value| {
        let (Transform::Positive { lower }, false) = (descriptor.transform, descriptor.fixed) else {
            return value;
        };
        let name = stem(&descriptor.name).unwrap_or(&descriptor.name).to_owned();
        let own = if name == last { factor(SPREAD_WITHIN) } else { 1.0 };
        if name != last {
            (last, common) = (name, factor(SPREAD));
        }
        lower + (value - lower) * common * own
    });
}

/// Returns the options of the short fits of a round.
fn short(options: &FitOptions, rung: usize) -> FitOptions {
    let budget = FIRST_BUDGET << rung;
    // The square loss has no scale for comparing starts, because its amplitude comes from the evidence.
    let objective = match options.objective.loss() {
        LossKind::Square => FitOptions { objective: ObjectiveKind::Vfe, beta: 1.0, ..options.clone() },
        _ => options.clone(),
    };
    let epochs = if options.is_collapsed() { budget } else { 1 << rung };
    FitOptions {
        epochs: Some(epochs.min(options.epoch_limit())),
        warm_start: options.warm_start.min(budget),
        restarts: 1,
        ..objective
    }
}

impl Starts {
    /// Runs a short fit from the end of the last one of a candidate.
    fn advance(
        &mut self,
        index: usize,
        data: TrainingData<'_>,
        short: &FitOptions,
        session: &mut Session<'_>,
    ) -> Result<()> {
        let candidate = &mut self.candidates[index];
        if candidate.report.error.is_some() {
            candidate.report.scores.push(None);
            return Ok(());
        }
        let start = Start { model: candidate.model.clone(), q: None };
        let plan = Plan::new(short, &start.model.likelihood, data.train.len())?;
        match fit_from(start, &Job { rows: &data, plan: &plan, fresh: true }, session) {
            Ok(fitted) => {
                let score = score(&fitted, data, plan.loss);
                if score.is_none() {
                    candidate.report.error = Some("the score is not finite".into());
                }
                candidate.report.scores.push(score);
                candidate.model = fitted.model;
            }
            Err(error) if error.kind() == ErrorKind::Fit => {
                candidate.report.scores.push(None);
                candidate.report.error = Some(error.to_string());
                self.last_error = Some(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sorts from best to worst.
    fn sort(&mut self) {
        self.candidates.sort_by(|a, b| a.rank().partial_cmp(&b.rank()).unwrap_or(Ordering::Equal));
    }

    /// Returns the best start that has not failed.
    fn best(&mut self) -> Result<Start> {
        self.sort();
        match self.candidates.first_mut().filter(|best| best.report.error.is_none()) {
            Some(best) => {
                best.report.chosen = true;
                Ok(Start { model: best.model.clone(), q: None })
            }
            None => Err(self.last_error.take().unwrap_or_else(|| Error::fit("no start has a finite score"))),
        }
    }

    /// Drops the best start.
    fn reject(&mut self, error: Error) {
        if let Some(best) = self.candidates.first_mut() {
            best.report.chosen = false;
            best.report.error = Some(error.to_string());
        }
        self.last_error = Some(error);
    }

    /// Returns all starts by their numbers.
    fn into_report(mut self) -> Vec<Restart> {
        self.candidates.sort_by_key(|candidate| candidate.report.start);
        self.candidates.into_iter().map(|candidate| candidate.report).collect()
    }
}

/// Returns the score that compares short fits.
fn score(fitted: &Fitted, data: TrainingData<'_>, loss: LossKind) -> Option<f64> {
    let score = match data.validation {
        Some(validation) => fitted.posterior.score(validation, Score::of(loss)),
        None => fitted.summary.objective,
    };
    score.is_finite().then_some(score)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collapsed::Dataset;
    use faer::Mat;

    /// Starts with these scores, of which some failed.
    fn starts(scores: &[&[f64]], failed: &[usize]) -> Starts {
        let (x, y) = (Mat::from_fn(20, 1, |i, _| i as f64), (0..20).map(f64::from).collect::<Vec<_>>());
        let data = TrainingData::of(Dataset::of(x.as_ref(), &y));
        let candidates = scores.iter().enumerate().map(|(start, scores)| {
            let prototype = Prototype::of(&FitOptions::default(), 1, 0).expect("a kernel");
            let mut candidate = candidate(data, &FitOptions::default(), &prototype, start).expect("a start");
            candidate.report.scores = scores.iter().map(|&score| Some(score)).collect();
            candidate.report.error = failed.contains(&start).then(|| "singular".to_owned());
            candidate
        });
        Starts { candidates: candidates.collect(), last_error: None }
    }

    fn chosen(starts: Starts) -> Vec<usize> {
        let report = starts.into_report();
        report.iter().filter(|restart| restart.chosen).map(|restart| restart.start).collect()
    }

    #[test]
    fn the_best_start_has_not_failed_and_has_most_rounds_then_the_lowest_score() {
        let scores: &[&[f64]] = &[&[2.0, 1.5], &[0.5], &[3.0, 1.0], &[1.0, 0.1]];
        let mut all = starts(scores, &[]);
        assert!(all.best().is_ok());
        assert_eq!(chosen(all), [3]);
        let mut rest = starts(scores, &[3]);
        assert!(rest.best().is_ok());
        // The final fits from the best start and from the next best one fail too.
        rest.reject(Error::fit("first"));
        assert!(rest.best().is_ok());
        rest.reject(Error::fit("second"));
        assert!(rest.best().is_ok());
        assert_eq!(chosen(rest), [1]);
        let mut none = starts(scores, &[0, 1, 2, 3]);
        assert_eq!(none.best().map(|_| ()).expect_err("all failed").exit_code(), 4);
    }
}
