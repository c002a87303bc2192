//! `--neighbours auto`: whether nearest neighbours help, and how many, by the predictions of held-out rows; then the fit to all rows.

use crate::collapsed::Dataset;
use crate::data::{Purpose, generator};
use crate::error::{Error, ErrorKind, Result};
use crate::hyper::{Session, Stage};
use crate::model::{NeighbourPoint, Score, Search};
use crate::options::{FitOptions, Hyper, LossKind, Plan};
use crate::training::row_buffer::RowBuffer;
use crate::training::rows::TrainingData;
use crate::training::run::{Fitted, fit_from};
use crate::training::start::{Prototype, Start, initial_model};
use rand::seq::SliceRandom;

/// Numbers of neighbours that are tried, the most first: one fit serves them all.
const COUNTS: [usize; 3] = [100, 50, 20];

/// The share of the training rows that are held out where there are no validation rows, and the most of them.
const HELD_OUT: (f64, usize) = (0.1, 2000);

/// With fewer rows there is nothing to hold out.
const FEWEST_ROWS: usize = 50;

/// The share of its epochs that the fit without neighbours has to show what it can do.
const SHARE: usize = 4;

/// Fewer neighbours are as good when their score is this close, in nats or in shares of the squared error.
const NEGLIGIBLE: f64 = 0.005;

/// A fit that held-out rows have judged.
struct Judged {
    fitted: Fitted,
    points: Vec<NeighbourPoint>,
}

/// The fit with as many neighbours as held-out rows ask for, or with none.
pub(in crate::training) fn fit_beside(
    data: TrainingData<'_>,
    options: &FitOptions,
    prototype: &Prototype,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let n = data.train.len();
    let plain = options.without_neighbours();
    if n < FEWEST_ROWS {
        return fresh(data, &plain, prototype, session);
    }
    let (rest, held) = split(data, options.seed);
    let part = TrainingData {
        train: rest.as_ref().map_or(data.train, RowBuffer::data),
        validation: data.validation,
        levels: data.levels,
    };
    let judge = held.as_ref().map(RowBuffer::data).or(data.validation).unwrap_or(part.train);
    let few = FitOptions { epochs: Some(plain.epoch_limit().div_ceil(SHARE)), ..plain.clone() };
    let without = judged(part, &few, prototype, judge, session);
    let with = judged(part, &options.with_neighbours(COUNTS[0]), prototype, judge, session);
    let (without, with) = match (without, with) {
        (Ok(without), Ok(with)) => (without, with),
        (Err(error), _) | (_, Err(error)) if error.kind() != ErrorKind::Fit => return Err(error),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => return finish(data, options, one, Vec::new(), session),
        (Err(error), Err(_)) => return Err(error),
    };
    let (own, other) = if with.best() < without.best() { (with, without) } else { (without, with) };
    finish(data, options, own, other.points, session)
}

/// The training rows but for some, and those; neither where there are validation rows to judge by.
fn split(data: TrainingData<'_>, seed: u64) -> (Option<RowBuffer>, Option<RowBuffer>) {
    if data.validation.is_some() {
        return (None, None);
    }
    let n = data.train.len();
    let held = ((HELD_OUT.0 * n as f64).ceil() as usize).min(HELD_OUT.1);
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(&mut generator(seed, Purpose::Neighbours, 3));
    let taken = |rows: &mut [usize]| {
        rows.sort_unstable();
        let mut buffer = RowBuffer::new(data.train, rows.len());
        buffer.take(data.train, rows);
        Some(buffer)
    };
    let (held, rest) = rows.split_at_mut(held);
    (taken(rest), taken(held))
}

/// A fit from the data.
fn fresh(
    data: TrainingData<'_>,
    options: &FitOptions,
    prototype: &Prototype,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let plan = Plan::new(options, prototype.likelihood.as_ref(), data.train.len())?;
    let model = initial_model(data.train, &plan, prototype)?;
    fit_from(&data, &plan, Start { model, q: None }, true, session)
}

/// A fit from the data, and what held-out rows say of it with fewer and fewer neighbours.
fn judged(
    data: TrainingData<'_>,
    options: &FitOptions,
    prototype: &Prototype,
    held: Dataset<'_>,
    session: &mut Session<'_>,
) -> Result<Judged> {
    let counts: &[usize] = if options.neighbours.is_some() { &COUNTS } else { &[0] };
    session.enter(Stage::Neighbours { rows: data.train.len(), most: counts[0] });
    let fitted = fresh(data, options, prototype, session)?;
    let (score, seconds) = (Score::of(options.objective.loss()), fitted.summary.seconds);
    let point = |&count: &usize| {
        let score = match fitted.posterior.with_fewer(count) {
            Some(fewer) => fewer.score(held, score),
            None => fitted.posterior.score(held, score),
        };
        NeighbourPoint {
            neighbours: count,
            score: score.is_finite().then_some(score),
            seconds,
            chosen: false,
        }
    };
    let points: Vec<NeighbourPoint> = counts.iter().map(point).collect();
    if points.iter().all(|point| point.score.is_none()) {
        return Err(Error::fit("no prediction of the held-out rows is finite"));
    }
    Ok(Judged { points, fitted })
}

impl Judged {
    fn best(&self) -> f64 {
        self.points.iter().filter_map(|point| point.score).fold(f64::INFINITY, f64::min)
    }

    /// The fewest neighbours that are as good as any.
    fn enough(&self, squared: bool) -> usize {
        let best = self.best();
        let bound = if squared { best * (1.0 + NEGLIGIBLE) } else { best + NEGLIGIBLE };
        let good = self.points.iter().filter(|point| point.score.is_some_and(|score| score <= bound));
        good.map(|point| point.neighbours).min().unwrap_or(0)
    }
}

/// The fit to all rows from the better of the two: hyper-parameters are trained on but where a part of the rows was enough.
fn finish(
    data: TrainingData<'_>,
    options: &FitOptions,
    best: Judged,
    others: Vec<NeighbourPoint>,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let squared = options.objective.loss() == LossKind::Square;
    let count = best.enough(squared);
    let beside = best.fitted.posterior.neighbours().is_some();
    let options = if beside {
        let hyper = Some(Hyper::Fixed);
        FitOptions { hyper, ..options.with_neighbours(count) }
    } else {
        options.without_neighbours()
    };
    let Judged { fitted, points } = best;
    let plan = Plan::new(&options, fitted.model.likelihood.as_ref(), data.train.len())?;
    let trace = fitted.summary.trace.clone();
    let (seconds, epochs) = (fitted.summary.seconds, fitted.summary.epochs);
    let start = Start { model: fitted.model, q: None };
    let mut last = fit_from(&data, &plan, start, false, session)?;
    if beside {
        // The fit to all rows looked rows up; what it found hyper-parameters by came before.
        let own = last.summary.seconds;
        last.summary.trace = trace;
        (last.summary.seconds, last.summary.epochs) = (seconds + own, epochs);
        last.summary.stop_reason = fitted.summary.stop_reason;
    }
    let mut neighbours: Vec<NeighbourPoint> = points.into_iter().chain(others).collect();
    neighbours.iter_mut().for_each(|point| point.chosen = point.neighbours == count);
    neighbours.sort_by_key(|point| point.neighbours);
    last.search = Search { neighbours, ..Search::default() };
    Ok(last)
}
