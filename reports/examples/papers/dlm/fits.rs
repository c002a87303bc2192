//! The fits of the learning curves, by the protocol of the paper.

use crate::paper::prelude::*;
use crate::raw::{Row, Unit};
use crate::results::SIZES;
use crate::sets::{Rows, SETS, Set};
use crate::{at_prior, untrained};
use sparsegp::error::ErrorKind;
use sparsegp::hyper::{StopRange, StopReason};
use sparsegp::options::{HyperOptimizer, MeanKind};
use sparsegp_tables::compare::Contender;

pub const LOG: [Contender; 4] =
    [Contender::Elbo, Contender::BetaElbo, Contender::DlmLog, Contender::DlmLogFixed];

const REGRESSION: [Contender; 3] = [Contender::Fitc, Contender::DlmSquare, Contender::DlmSquareFixed];

impl Set {
    pub fn objectives(&self) -> Vec<Contender> {
        let further = if self.is_regression() { &REGRESSION[..] } else { &[] };
        LOG.iter().chain(further).copied().collect()
    }
}

/// Returns n, n/2, n/4, … down to the first value of at most 0.01.
pub fn betas(n: usize) -> Vec<f64> {
    std::iter::successors(Some(n as f64), |beta| (*beta > 0.01).then_some(beta / 2.0)).collect()
}

pub fn is_square(objective: Contender) -> bool {
    objective.objective() == ObjectiveKind::DlmSquare
}

/// Returns a unit for every size, repeat and set. The repeats of cheap fits come first, because one repeat decides nothing.
pub fn units() -> impl Iterator<Item = Unit> {
    let unit = |set: &'static Set, n: usize, repeat: u64| Unit {
        name: format!("{}, {n} rows, repeat {repeat}", set.name),
        has: Box::new(move |row| row.set == set.name && (row.n, row.repeat) == (n, repeat)),
        fit: Box::new(move |paper| {
            Fits::new(paper, set, n, repeat)?.map_or(Ok(Vec::new()), |mut fits| fits.all())
        }),
    };
    let repeats = SIZES.into_iter().flat_map(|n| (0..5).map(move |repeat| (n, repeat)));
    repeats.flat_map(move |(n, repeat)| SETS.iter().map(move |set| unit(set, n, repeat)))
}

pub struct Fits<'a> {
    set: &'a Set,
    rows: Rows,
    repeat: u64,
    /// The model before training, from which all fits start.
    initial: LatentPrior,
    /// The model of the ELBO with β = 1, once it is fitted.
    elbo: Option<LatentPrior>,
}

impl<'a> Fits<'a> {
    /// Prepares the fits of a repeat; `None` without data.
    pub fn new(paper: &Paper, set: &'a Set, n: usize, repeat: u64) -> Result<Option<Fits<'a>>> {
        let Some(rows) = set.rows(paper, n, repeat)? else { return Ok(None) };
        let initial = untrained(&rows.train, &options(set, n, repeat))?;
        Ok(Some(Fits { set, rows, repeat, initial, elbo: None }))
    }

    pub fn all(&mut self) -> Result<Vec<Row>> {
        let mut found = Vec::new();
        for objective in self.set.objectives() {
            let betas = match objective {
                Contender::Elbo | Contender::Fitc => vec![1.0],
                _ => betas(self.rows.train.y.len()),
            };
            for beta in betas {
                found.push(self.one(objective, beta)?);
            }
        }
        Ok(found)
    }

    /// Fits one objective and scores it. A fit that fails has no scores.
    pub fn one(&mut self, objective: Contender, beta: f64) -> Result<Row> {
        let n = self.rows.train.y.len();
        let row = Row::of(self.set.name, n, self.repeat, objective, beta);
        let fitted = match self.fit(objective, beta) {
            Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
            Err(_) => return Ok(row),
            Ok(fitted) => fitted,
        };
        let (nll, error) = scores(&fitted.posterior, self.set.kind, &self.rows.test);
        let (score, nll) =
            if is_square(objective) { (Score::SquaredError, f64::NAN) } else { (Score::LogLoss, nll) };
        let validation = fitted.posterior.score(self.rows.validation.set(), score);
        let row = Row { validation, nll, error, ..row }.of_fit(&fitted);
        if objective == Contender::Elbo {
            self.elbo = Some(fitted.model);
        }
        Ok(row)
    }

    fn fit(&self, objective: Contender, beta: f64) -> Result<Fitted> {
        let n = self.rows.train.y.len();
        let is_fixed = matches!(objective, Contender::DlmLogFixed | Contender::DlmSquareFixed);
        let model = if is_fixed { self.elbo.as_ref() } else { Some(&self.initial) };
        let model = model.ok_or_else(|| Error::fit("the ELBO has not been fitted"))?.clone();
        let options =
            FitOptions { objective: objective.objective(), beta, ..options(self.set, n, self.repeat) };
        let closed = self.set.is_regression() && objective.objective() != ObjectiveKind::DlmLog;
        let options = match (is_fixed, closed) {
            (true, true) => FitOptions { hyper: Some(Hyper::Fixed), ..options },
            (false, true) => FitOptions {
                hyper: Some(Hyper::Collapsed),
                hyper_optimizer: Some(HyperOptimizer::Adam),
                ..options
            },
            _ if self.set.is_regression() => falling(by_adam(options, n, is_fixed)),
            _ => by_adam(options, n, is_fixed),
        };
        self.rows.train.fit(&options, Some(&at_prior(model)))
    }
}

fn options(set: &Set, n: usize, repeat: u64) -> FitOptions {
    let (epochs, range) = if set.is_regression() { (2500, 50) } else { (3000, 20) };
    FitOptions {
        likelihood: Some(set.likelihood()),
        kernel: "rbf".into(),
        mean: if set.kind == TargetKind::Binary { MeanKind::Constant } else { MeanKind::Zero },
        inducing: Some(set.inducing.min(n)),
        default_priors: false,
        standardize: false,
        warm_start: 0,
        learning_rate: 0.1,
        epochs: Some(epochs),
        stop_range: Some(StopRange { epochs: range, nats: 1e-4 }),
        seed: repeat,
        ..FitOptions::default()
    }
}

/// Returns options of Adam on q, in batches of this size; also on the hyper-parameters unless they are fixed.
pub fn by_adam(options: FitOptions, batch_size: usize, is_fixed: bool) -> FitOptions {
    let steps = StepOptions { q_update: QUpdate::Adam, polish: false, batch_size, ..StepOptions::default() };
    let hyper = Some(if is_fixed { Hyper::Fixed } else { Hyper::Joint });
    FitOptions { hyper, hyper_optimizer: Some(HyperOptimizer::Adam), steps, ..options }
}

/// Lets the step on q fall to a hundredth over all iterations, because steps of 0.1 keep the objective from settling.
fn falling(options: FitOptions) -> FitOptions {
    let (start, steps) = (options.learning_rate, options.epochs.unwrap_or(0));
    let q_step = Some(Schedule::WarmUp { start, end: start / 100.0, steps });
    FitOptions { steps: StepOptions { q_step, ..options.steps.clone() }, ..options }
}

/// Returns the NLL, and the squared error, the error rate or the mean relative error.
pub fn scores(posterior: &Posterior, kind: TargetKind, test: &Data) -> (f64, f64) {
    let f = posterior.marginals(test.x.transpose());
    let error = |i: usize| match kind {
        TargetKind::Real => (f.mean[i] - test.y[i]).powi(2),
        TargetKind::Binary => f64::from(u8::from((f.mean[i] > 0.0) != (test.y[i] > 0.5))),
        _ => ((f.mean[i] + f.variance[i] / 2.0).exp() - test.y[i]).abs() / test.y[i].max(1.0),
    };
    let n = test.y.len();
    let nll = posterior.score(test.set(), Score::LogLoss);
    (nll, (0..n).map(error).sum::<f64>() / n as f64)
}

impl Row {
    pub fn of_fit(self, fitted: &Fitted) -> Row {
        let summary = &fitted.summary;
        Row {
            iterations: summary.iterations,
            converged: summary.stop_reason == StopReason::Converged,
            seconds: summary.seconds,
            training: summary.objective,
            ..self
        }
    }
}
