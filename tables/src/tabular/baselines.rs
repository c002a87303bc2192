//! Baselines for the test scores of a finished fit: scores of its training rows, a constant and a linear model. The fit itself stays
//! unchanged.

use super::fit::FitRequest;
use super::held_out::{Shares, split_table};
use super::model::TableModel;
use super::rows::TableRows;
use crate::schema::TargetEncoding;
use rand::seq::SliceRandom;
use sparsegp::data::{Affine, Purpose, Scaling, generator};
use sparsegp::error::Result;
use sparsegp::functions::normal;
use sparsegp::hyper::Session;
use sparsegp::likelihood::{
    Bernoulli, Gaussian, LikelihoodKind, NegativeBinomial, Observation, ObservationModel, Ordinal, Poisson,
    Softmax, Task,
};
use sparsegp::likelihood::{BetaBinomial, Binomial, OrderedBeta, TargetKind, ZeroAltered};
use sparsegp::metrics::{Compared, Metrics};
use sparsegp::model::ConstantModel;
use sparsegp::objective::Targets;
use sparsegp::options::{FitOptions, Hyper, ModelKind};
use sparsegp::training::{TrainingData, fit_arrays_in, scaling_of};

/// The maximum number of training rows that are scored.
const TRAINING_FIGURES: usize = 4096;

/// The maximum number of inputs of a linear baseline.
const LINEAR_INPUTS: usize = 200;

/// The maximum number of training rows of a linear baseline.
const LINEAR_ROWS: usize = 20_000;

/// The maximum number of effects of groupings other than the largest in a linear baseline.
const LINEAR_EFFECTS: usize = 500;

/// For a linear baseline without a closed-form posterior, which is solved many times: the maximum of nD², and the minimum number of rows.
const LINEAR_WORK: (usize, usize) = (100_000_000, 2000);

/// The maximum number of iterations on the hyper-parameters of such a baseline, which has at most two.
const LINEAR_ROUNDS: usize = 10;

/// Baselines for test scores.
pub struct Baselines {
    /// Scores of training rows, each predicted as if it were new; `None` if they are unavailable.
    pub training: Option<Metrics>,
    /// The distribution that does not depend on the inputs.
    pub constant: Constant,
    /// A linear model of the same inputs, with the same groupings; `None` if the model is linear itself or has many inputs, if its likelihood has another scale than the
    /// offsets, if no linear model could be fitted, or if the time limit is over.
    pub linear: Option<TableModel>,
}

impl Baselines {
    /// Fits the baselines of a model, on a sample of its training rows. An interruption skips the remaining baselines.
    ///
    /// # Errors
    ///
    /// If the rows do not suit a linear model.
    pub fn of(sample: &TrainingSample, model: &TableModel, session: &mut Session<'_>) -> Result<Baselines> {
        Ok(Baselines {
            training: sample.figures(model),
            constant: Constant::of(model.schema().encoding(), sample.all.observations()),
            linear: sample.linear(model, session)?,
        })
    }
}

/// A random sample of training rows; its first rows form a smaller sample.
pub struct TrainingSample {
    /// The rows, in original units.
    rows: TableRows,
    /// The indices of the rows among all training rows.
    places: Vec<u32>,
    /// All training rows, without their inputs.
    all: TableRows,
}

impl TrainingSample {
    /// Returns the rows, in random order.
    pub fn rows(&self) -> &TableRows {
        &self.rows
    }

    /// Draws the training rows that the baselines need.
    ///
    /// # Errors
    ///
    /// If the table does not suit the model.
    pub fn draw(request: &FitRequest<'_>, model: &TableModel) -> Result<TrainingSample> {
        let (schema, options) = (model.schema(), model.options());
        let table = request.table.with_values(schema.target_name());
        let table = &*table.read(&schema.readings, &|_| true)?;
        let shares = Shares::of(request.test_fraction, options);
        let train = split_table(table, request.columns.split.as_ref(), shares)?.train;
        let all = TableRows::without_inputs(schema, table)?.part(train);
        let mut places: Vec<u32> = (0..all.rows.len() as u32).collect();
        places.shuffle(&mut generator(options.seed, Purpose::Baselines, 0));
        places.truncate(linear_rows(model).unwrap_or(0).max(TRAINING_FIGURES));
        let drawn: Vec<usize> = places.iter().map(|&place| all.rows[place as usize]).collect();
        let rows = TableRows::of(schema, &table.take(&drawn))?;
        Ok(TrainingSample { rows, places, all })
    }

    /// Returns the number of values in memory: the inputs of the sample and the targets of all rows.
    pub fn numbers(&self) -> usize {
        self.rows.inputs().nrows() * self.rows.inputs().ncols() + self.all.targets.len()
    }

    fn first(&self, most: usize) -> TableRows {
        self.rows.part((0..most.min(self.rows.targets.len())).collect())
    }

    fn figures(&self, model: &TableModel) -> Option<Metrics> {
        let few = self.first(TRAINING_FIGURES);
        let predictions = match model.neighbours() {
            Some(_) => {
                // The indices do not apply to a model that was fitted to another number of rows.
                let same = self.all.targets.len() == model.training_rows();
                let places = self.places.get(..few.targets.len()).filter(|_| same)?;
                model.predict_left_out(places, few.inputs(), few.exposure.clone())?
            }
            None => model.predict_part(&few),
        };
        let mut metrics = Metrics::new(model.task());
        let predictions = predictions.with_other_ends(&few.other_ends);
        predictions.compare(&few.targets).iter().for_each(|row| metrics.push(row));
        Some(metrics)
    }

    /// Fits the linear model, with the likelihood of the fit's target, or Gaussian noise for all targets of numbers except counts.
    fn linear(&self, model: &TableModel, session: &mut Session<'_>) -> Result<Option<TableModel>> {
        let Some(most) = linear_rows(model).filter(|_| !session.is_late()) else { return Ok(None) };
        let train = self.first(most).without_codes(model.schema());
        let (options, schema) = (linear_options(model), model.schema().without_codes());
        let scaling = scaling_of(&options, train.inputs(), &train.targets)?;
        let options = options.with_units_of(&scaling);
        let scaled = train.scaled(&scaling);
        let levels = schema.encoding().levels().len();
        let data = TrainingData { levels, ..TrainingData::of(scaled.dataset()) };
        let options = options.decided_for(train.targets.len());
        let session = &mut session.until(None, 1.0).without_intervals();
        Ok(match fit_arrays_in(data, &options, None, session) {
            Ok(fitted) => {
                let rows = train.targets.len();
                Some(TableModel::of(fitted, schema, scaling, &options, rows, Vec::new()))
            }
            // A baseline is optional, so its failure does not end the fit.
            Err(_) => None,
        })
    }
}

/// Returns the maximum number of rows of the linear baseline of a model, or `None` if it has no such baseline.
fn linear_rows(model: &TableModel) -> Option<usize> {
    let inputs = model.schema().without_codes().dims();
    let coupled = model.options().coupled_effects();
    let unsuited = model.model_kind() == ModelKind::Glm || !offsets_suit_linear(model);
    if inputs > LINEAR_INPUTS || coupled > LINEAR_EFFECTS || unsuited {
        return None;
    }
    let closed = linear_likelihood(model).has_gaussian_noise();
    let worth = (LINEAR_WORK.0 / (inputs * inputs).max(1)).max(LINEAR_WORK.1);
    Some(if closed { LINEAR_ROWS } else { LINEAR_ROWS.min(worth) })
}

/// Returns true if the offsets of a model, if it has any, mean the same in its linear baseline. The Gaussian baseline of other likelihoods of
/// numbers has one function, in units of the target.
fn offsets_suit_linear(model: &TableModel) -> bool {
    let likelihood = &model.latent().likelihood;
    let in_units = likelihood.scales_target() && model.scaling().target_map().is_none();
    let offsets = model.schema().offset_names().len();
    offsets == 0 || model.task() != Task::Regression || (in_units && offsets == 1)
}

fn linear_likelihood(model: &TableModel) -> LikelihoodKind {
    let own = LikelihoodKind::of(&*model.latent().likelihood);
    let kind = own.target_kind();
    match model.task() {
        // Densities of a Gaussian cannot be compared with probabilities of exact zeros and ones, or of intervals.
        Task::Regression if kind.has_ends() || kind.is_censored() || kind == TargetKind::Measured => own,
        Task::Regression => LikelihoodKind::Gaussian,
        Task::Classification | Task::Count | Task::Ordinal => own,
    }
}

fn linear_options(model: &TableModel) -> FitOptions {
    let likelihood = linear_likelihood(model);
    let effects = model.options().effects.clone();
    // Grouped effects of one function have a closed form, or sites.
    let steps = !likelihood.has_gaussian_noise() && (effects.is_empty() || likelihood.is_joint());
    let alternating = steps.then_some(Hyper::Alternating);
    FitOptions {
        model: ModelKind::Glm,
        effects,
        offsets: model.schema().offset_names().len(),
        likelihood: Some(likelihood),
        hyper: alternating,
        epochs: alternating.map(|_| LINEAR_ROUNDS),
        seed: model.options().seed,
        registry: model.options().registry.clone(),
        ..FitOptions::default()
    }
}

/// The best distribution of a task that does not depend on the inputs, from moments: a Gaussian with the mean and variance of the training
/// rows; the best distribution of censored targets; the shares of classes or levels; counts with the mean rate, negative binomial if they vary more than Poisson counts. Unlike exposures, offsets are inputs, so it ignores them.
pub struct Constant {
    model: ConstantModel,
    task: Task,
    rows: usize,
}

impl Constant {
    fn of(encoding: &TargetEncoding, targets: Targets<'_>) -> Constant {
        let (likelihood, f) = match encoding.task() {
            _ if encoding.kind() == TargetKind::Trials => successes(targets),
            _ if encoding.kind() == TargetKind::Amount => amounts(targets),
            _ if encoding.kind() == TargetKind::Share => shares_with_ends(targets),
            _ if encoding.kind().is_censored() => super::censored::constant(encoding.kind(), targets),
            Task::Regression => (Gaussian::new(1.0).into(), vec![0.0]),
            Task::Classification => classes(&shares(targets, encoding.levels().len().max(2))),
            Task::Ordinal => (levels(&shares(targets, encoding.levels().len())).into(), vec![0.0]),
            Task::Count => counts(targets),
        };
        let standard = likelihood.scales_target() && !encoding.kind().is_censored();
        let target = if standard { moments(targets) } else { Affine::IDENTITY };
        let scaling = Scaling::linear(Vec::new(), target);
        Constant {
            model: ConstantModel::new(likelihood, &f, scaling),
            task: encoding.task(),
            rows: targets.y.len(),
        }
    }

    /// Returns its name: `the mean`, `the class shares`, `the level shares` or `the mean rate`.
    pub fn name(&self) -> &'static str {
        match self.task {
            Task::Regression => "the mean",
            Task::Classification => "the class shares",
            Task::Ordinal => "the level shares",
            Task::Count => "the mean rate",
        }
    }

    /// Returns the name of its likelihood.
    pub fn likelihood(&self) -> &'static str {
        self.model.likelihood()
    }

    /// Returns the number of training rows behind it.
    pub fn training_rows(&self) -> usize {
        self.rows
    }

    /// Compares it with targets in original units.
    pub fn compare(&self, targets: Targets<'_>) -> Vec<Compared> {
        let predictions = self.model.predict(targets.len(), targets.exposure.to_owned());
        predictions.with_other_ends(targets.other_ends).compare(targets.y)
    }
}

fn moments(targets: Targets<'_>) -> Affine {
    let total = targets.total_weight();
    let mean_of = |value: &dyn Fn(f64) -> f64| {
        (0..targets.y.len()).map(|i| targets.weight(i) / total * value(targets.y[i])).sum::<f64>()
    };
    let shift = mean_of(&|y| y);
    let variance = mean_of(&|y| (y - shift).powi(2));
    Affine { shift, scale: if variance > 0.0 { variance.sqrt() } else { 1.0 } }
}

/// Returns the weighted shares of codes; a code without rows counts as half a row, so that no code has probability 0.
fn shares(targets: Targets<'_>, codes: usize) -> Vec<f64> {
    let mut shares = vec![0.0; codes];
    for (i, &y) in targets.y.iter().enumerate() {
        if let Some(share) = shares.get_mut(y as usize) {
            *share += targets.weight(i);
        }
    }
    shares.iter_mut().for_each(|share| *share = share.max(0.5));
    let total: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= total);
    shares
}

/// Creates the model of two or more classes with these shares.
fn classes(shares: &[f64]) -> (ObservationModel, Vec<f64>) {
    match *shares {
        [zero, _] => (Bernoulli::Probit.into(), vec![-normal::quantile(zero)]),
        _ => (Softmax::new(shares.len()).into(), shares.iter().map(|share| share.ln()).collect()),
    }
}

/// Returns the edges between which a standard normal variable has these shares.
fn levels(shares: &[f64]) -> Ordinal {
    let mut below = 0.0;
    let edges = shares[..shares.len().saturating_sub(1)].iter().map(|share| {
        below += share;
        normal::quantile(below)
    });
    Ordinal::with_edges(&edges.collect::<Vec<f64>>(), 1.0)
}

/// Returns the mean probability of success and, if shares vary more than binomial ones, the precision `Σ w n (n − 1) p (1 − p)/(Σ w ((y − np)² −
/// np (1 − p))) − 1`.
fn successes(targets: Targets<'_>) -> (ObservationModel, Vec<f64>) {
    let rows = || (0..targets.y.len()).map(|i| (targets.weight(i), targets.at(i)));
    let total: f64 = rows().map(|(weight, at)| weight * at.exposure).sum();
    let p = (rows().map(|(weight, at)| weight * at.y).sum::<f64>() + 0.5) / (total + 1.0);
    let excess = |(weight, at): (f64, Observation)| {
        weight * ((at.y - at.exposure * p).powi(2) - at.exposure * p * (1.0 - p))
    };
    let pairs = |(weight, at): (f64, Observation)| weight * at.exposure * (at.exposure - 1.0) * p * (1.0 - p);
    let precision = rows().map(pairs).sum::<f64>() / rows().map(excess).sum::<f64>() - 1.0;
    let likelihood = if precision > 0.0 { BetaBinomial::new(precision).into() } else { Binomial.into() };
    (likelihood, vec![log_odds(p)])
}

fn log_odds(p: f64) -> f64 {
    (p / (1.0 - p)).ln()
}

/// Returns the weighted share of the rows whose target satisfies a condition, with half a row added on either side.
fn share_of(targets: Targets<'_>, is: impl Fn(f64) -> bool) -> f64 {
    let rows = (0..targets.y.len()).filter(|&i| is(targets.y[i]));
    (rows.map(|i| targets.weight(i)).sum::<f64>() + 0.5) / (targets.total_weight() + 1.0)
}

/// Returns the weighted mean and variance of the targets that satisfy a condition; `None` if fewer than two differ.
fn moments_of(targets: Targets<'_>, is: impl Fn(f64) -> bool) -> Option<(f64, f64)> {
    let rows =
        || (0..targets.y.len()).filter(|&i| is(targets.y[i])).map(|i| (targets.weight(i), targets.y[i]));
    let total: f64 = rows().map(|(weight, _)| weight).sum();
    let mean = rows().map(|(weight, y)| weight * y).sum::<f64>() / total;
    let variance = rows().map(|(weight, y)| weight * (y - mean).powi(2)).sum::<f64>() / total;
    (variance > 0.0).then_some((mean, variance))
}

/// Returns the share of zeros, and the gamma distribution of the other amounts with their mean and variance.
fn amounts(targets: Targets<'_>) -> (ObservationModel, Vec<f64>) {
    let (mean, variance) = moments_of(targets, |y| y > 0.0).unwrap_or((1.0, 1.0));
    let shape = mean * mean / variance;
    let zero = log_odds(share_of(targets, |y| y == 0.0));
    (ZeroAltered::hurdle_gamma(shape).into(), vec![(mean / shape).ln(), zero])
}

/// Returns the shares of both ends, and the beta distribution between them with the mean and the variance of its targets.
fn shares_with_ends(targets: Targets<'_>) -> (ObservationModel, Vec<f64>) {
    let (mean, variance) = moments_of(targets, |y| y > 0.0 && y < 1.0).unwrap_or((0.5, 0.05));
    let precision = (mean * (1.0 - mean) / variance - 1.0).max(0.01);
    let f = log_odds(mean);
    let low = f + log_odds(share_of(targets, |y| y == 0.0));
    let high = f - log_odds(share_of(targets, |y| y == 1.0));
    (OrderedBeta::new(low, (high - low).max(0.01), precision).into(), vec![f])
}

/// Returns the mean rate and, if counts vary more than Poisson counts, `α = Σ w ((y − em)² − em) / Σ w (em)²`, where e are exposures.
fn counts(targets: Targets<'_>) -> (ObservationModel, Vec<f64>) {
    let rows = || (0..targets.y.len()).map(|i| (targets.weight(i), targets.at(i)));
    let events: f64 = rows().map(|(weight, at)| weight * at.y).sum();
    let exposed: f64 = rows().map(|(weight, at)| weight * at.exposure).sum();
    let rate = events / exposed;
    let excess = |(weight, at): (f64, Observation)| {
        let mean = at.exposure * rate;
        weight * ((at.y - mean).powi(2) - mean)
    };
    let squares: f64 = rows().map(|(weight, at)| weight * (at.exposure * rate).powi(2)).sum();
    let alpha = rows().map(excess).sum::<f64>() / squares;
    let likelihood = if alpha > 0.0 { NegativeBinomial::new(alpha).into() } else { Poisson::Exp.into() };
    (likelihood, vec![rate.ln()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparsegp::likelihood::TargetKind;
    use statrs::function::gamma::ln_gamma;

    fn nll(constant: &Constant, targets: &[f64], exposure: &[f64]) -> f64 {
        let mut metrics = Metrics::new(constant.task);
        let targets = Targets { exposure, ..Targets::of(targets) };
        constant.compare(targets).iter().for_each(|row| metrics.push(row));
        metrics.report().nll.expect("a finite NLL")
    }

    fn constant(kind: TargetKind, levels: usize, targets: Targets<'_>) -> Constant {
        let levels = (0..levels).map(|level| level.to_string()).collect();
        Constant::of(&TargetEncoding { kind, levels }, targets)
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found}, expected {expected}");
    }

    #[test]
    fn numbers_have_the_gaussian_of_their_moments() {
        let train = [1e3, 1e3 + 2.0, 1e3 + 7.0];
        let found = constant(TargetKind::Real, 0, Targets::of(&train));
        let (mean, variance) = (1e3 + 3.0, (9.0 + 1.0 + 16.0) / 3.0);
        let expected =
            |y: f64| 0.5 * ((std::f64::consts::TAU * variance).ln() + (y - mean).powi(2) / variance);
        close(nll(&found, &[1e3 + 5.0, 1e3], &[]), 0.5 * (expected(1e3 + 5.0) + expected(1e3)));
        let twice = Targets { weights: &[2.0, 1.0, 1.0], ..Targets::of(&train) };
        close(found.compare(Targets::of(&[0.0]))[0].mean, mean);
        close(constant(TargetKind::Positive, 0, twice).compare(Targets::of(&[0.0]))[0].mean, 1e3 + 2.25);
    }

    #[test]
    fn classes_and_levels_have_their_shares() {
        let train = [0.0, 1.0, 1.0, 1.0];
        let found = constant(TargetKind::Binary, 2, Targets::of(&train));
        close(nll(&found, &[0.0, 1.0], &[]), -0.5 * (0.25_f64.ln() + 0.75_f64.ln()));
        let train = [0.0, 2.0, 2.0, 1.0, 2.0];
        let expected = -(0.2_f64.ln() + 0.2_f64.ln() + 0.6_f64.ln()) / 3.0;
        for kind in [TargetKind::Ordinal, TargetKind::Class] {
            let found = constant(kind, 3, Targets::of(&train));
            close(nll(&found, &[0.0, 1.0, 2.0], &[]), expected);
            assert_eq!(found.compare(Targets::of(&[0.0]))[0].most_probable, 2.0);
        }
        // A level without training rows is improbable, not impossible.
        let found = constant(TargetKind::Ordinal, 4, Targets::of(&train));
        close(nll(&found, &[3.0], &[]), -(0.5_f64 / 5.5).ln());
    }

    #[test]
    fn counts_have_their_mean_rate_and_dispersion() {
        let (train, exposure) = ([2.0, 3.0, 7.0], [1.0, 1.0, 2.0]);
        let targets = Targets { exposure: &exposure, ..Targets::of(&train) };
        let found = constant(TargetKind::Count, 0, targets);
        assert_eq!((found.likelihood(), found.name()), ("poisson", "the mean rate"));
        let log = |y: f64, mean: f64| y * mean.ln() - mean - ln_gamma(y + 1.0);
        close(nll(&found, &[4.0], &[3.0]), -log(4.0, 9.0));

        let train = [0.0, 0.0, 1.0, 11.0];
        let found = constant(TargetKind::Count, 0, Targets::of(&train));
        assert_eq!(found.likelihood(), "negative-binomial");
        // Mean 3, variance 21.5 = 3 + 9α.
        let (mean, shape): (f64, f64) = (3.0, 9.0 / 18.5);
        let expected = ln_gamma(2.0 + shape) - ln_gamma(shape) - ln_gamma(3.0)
            + shape * (shape / (shape + mean)).ln()
            + 2.0 * (mean / (shape + mean)).ln();
        close(nll(&found, &[2.0], &[]), -expected);
        close(found.compare(Targets::of(&[2.0]))[0].mean, mean);
    }
}
