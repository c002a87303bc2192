//! Checks of a finished fit for what a user should know, each with its evidence; no training, no words.

use super::geometry::{Crowding, Neighbours, irrelevant, sample, spread};
use super::outcome::TakenBack;
use super::row_buffer::RowBuffer;
use crate::collapsed::Dataset;
use crate::data::Moments;
use crate::hyper::{Outcome, Record, StopReason};
use crate::latent::{InducingLayer, Jitter};
use crate::likelihood::{Gaussian, Likelihood, TargetKind};
use crate::model::{Input, LatentModel, Posterior, Score, Warning};
use crate::options::{HyperOptimizer, LossKind, Plan};
use crate::quadrature::Integrator;
use sparsegp_kernels::Scratch;

/// Above this condition number of `K_uu` fewer than six digits of the weights are left.
const ILL_CONDITIONED: f64 = 1e10;

/// The share of inducing inputs that may repeat others before that is worth a word.
const DUPLICATE_SHARE: f64 = 0.1;

/// An input is irrelevant when crossing its range changes f by less than this share of the variance that f has over the
/// rows: by less than a hundredth of its standard deviation.
const IRRELEVANT_SHARE: f64 = 1e-4;

/// Rows are memorised when the median correlation with the nearest neighbour is below this.
const MEMORISED: f64 = 0.2;

/// The share of the steps that may be taken back before that is worth a word.
const TAKEN_BACK_SHARE: f64 = 0.2;

/// Counts whose variance exceeds that of Poisson counts by this factor want another distribution.
const OVERDISPERSED: f64 = 1.5;

/// The most training rows that losses and dispersions are averaged over.
const MOST_TRAINING_ROWS: usize = 2000;

/// The difference of validation and training NLL that looks like overfitting, in nats and in standard errors.
const OVERFITTED: (f64, f64) = (0.5, 3.0);

/// Training was not over when the objective fell by more than this, in nats per datum, over its last epochs.
const STILL_FALLING: f64 = 0.01;

/// So many of them.
const LAST_EPOCHS: usize = 10;

/// Bounds on the log evidence are loose when they are so many nats per datum apart.
const LOOSE: f64 = 0.2;

/// What diagnosis knows of a finished fit.
pub(super) struct FitFacts<'a> {
    pub model: &'a LatentModel,
    pub posterior: &'a Posterior,
    /// Training rows to look at.
    pub train: Dataset<'a>,
    pub validation: Option<Dataset<'a>>,
    pub plan: &'a Plan,
    pub outcome: &'a Outcome,
    pub taken_back: TakenBack,
    pub trace: &'a [Record],
    /// The evidence between its bounds, where both are known.
    pub evidence: Option<(f64, f64)>,
}

/// The absolute jitter in use.
pub(super) fn absolute_jitter(model: &LatentModel) -> f64 {
    let Some(layer) = model.layer().inducing() else { return 0.0 };
    match layer.used_jitter() {
        Jitter::Absolute(jitter) => jitter,
        Jitter::Relative(ratio) => {
            let z = layer.z();
            let mut diag = vec![0.0; z.nrows()];
            layer.kernel().diag(z, &mut diag, &mut Scratch::new());
            ratio * diag.iter().sum::<f64>() / diag.len().max(1) as f64
        }
    }
}

/// Warnings about a finished fit.
pub(super) fn diagnose(fit: &FitFacts<'_>) -> Vec<Warning> {
    let noise = about_noise(fit);
    let learned = !matches!(noise, Some(Warning::NoiseExplainsAll { .. }));
    let mut warnings: Vec<Warning> = noise.into_iter().collect();
    if let Some(layer) = fit.model.layer().inducing() {
        warnings.extend(about_inducing_inputs(layer));
        if learned {
            warnings.extend(about_lengthscales(fit, layer));
        }
    }
    warnings.extend(about_dispersion(fit));
    warnings.extend(about_overfitting(fit));
    warnings.extend(about_steps(fit));
    warnings.extend(about_the_end(fit));
    warnings.extend(about_evidence(fit));
    warnings
}

fn about_noise(fit: &FitFacts<'_>) -> Option<Warning> {
    let noise = fit.model.likelihood.gaussian_noise().filter(|_| fit.plan.loss != LossKind::Square)?;
    let variance = Moments::of(fit.train.targets.y.iter().copied()).variance()?;
    if noise > 0.98 * variance {
        let sparse = fit.model.layer().inducing().is_some();
        return Some(Warning::NoiseExplainsAll { share: noise / variance, sparse });
    }
    (noise < 2.0 * Gaussian::NOISE_FLOOR).then_some(Warning::NoiseAtFloor { noise })
}

fn about_inducing_inputs(layer: &InducingLayer) -> Option<Warning> {
    if layer.z().nrows() == 0 {
        return None;
    }
    let condition = layer.condition_estimate().min(f64::MAX);
    let raised = layer.used_jitter() != layer.jitter();
    let crowding = Crowding::of(layer.kernel(), layer.z());
    let inducing = layer.z().nrows();
    if raised || condition > ILL_CONDITIONED {
        let raised_to = match layer.used_jitter() {
            Jitter::Relative(ratio) if raised => Some(ratio),
            _ => None,
        };
        return Some(Warning::IllConditioned {
            condition,
            raised_to,
            close_pairs: crowding.close_pairs,
            inducing,
        });
    }
    let many = crowding.duplicates > 1 && crowding.duplicates as f64 > DUPLICATE_SHARE * inducing as f64;
    many.then_some(Warning::NearDuplicates {
        duplicates: crowding.duplicates,
        inducing,
        closest: crowding.closest,
    })
}

fn about_lengthscales(fit: &FitFacts<'_>, layer: &InducingLayer) -> Vec<Warning> {
    let train = fit.train;
    let mut warnings = Vec::new();
    let f = fit.posterior.means(sample(train, MOST_TRAINING_ROWS).as_ref());
    let spread = Moments::of(f).variance().filter(|variance| *variance > 0.0);
    // Columns of grouped effects are not the kernel's.
    let train = Dataset { x: train.x.subcols(0, layer.z().ncols()), ..train };
    if let Some(variance) = spread {
        let irrelevant = irrelevant(layer.kernel(), train, IRRELEVANT_SHARE * variance);
        let inputs: Vec<Input> = irrelevant.into_iter().map(|index| Input { index, name: None }).collect();
        if !inputs.is_empty() {
            warnings.push(Warning::Irrelevant { inputs });
        }
    }
    if let Some(neighbours) = Neighbours::of(layer.kernel(), train).filter(|n| n.correlation < MEMORISED) {
        let input = Input { index: neighbours.input, name: None };
        warnings.push(Warning::Memorised { input, correlation: neighbours.correlation });
    }
    warnings
}

/// The variance of counts over what Poisson counts of the fitted rates would have: `mean (y − μ_y)²/v_y` over training rows,
/// with the predictive mean and variance of y.
fn about_dispersion(fit: &FitFacts<'_>) -> Option<Warning> {
    let likelihood = fit.model.likelihood.one()?;
    if !has_poisson_variance(likelihood) {
        return None;
    }
    let some = some_rows(fit.train);
    let rows = some.data();
    let marginals = fit.posterior.marginals(rows.x);
    let mut integrator = Integrator::new(None);
    let ratios = (0..rows.len()).map(|i| {
        let at = rows.targets.at(i);
        let marginal = (marginals.mean[i], marginals.variance[i]);
        let (mean, variance) = likelihood.predictive_moments(marginal, at.exposure, &mut integrator);
        (at.y - mean).powi(2) / variance
    });
    let moments = Moments::of(ratios.filter(|ratio| ratio.is_finite()));
    let dispersion = moments.mean()?;
    let error = (moments.variance()? / moments.count() as f64).sqrt();
    (dispersion > OVERDISPERSED && dispersion - 3.0 * error > 1.0)
        .then_some(Warning::Overdispersed { dispersion })
}

/// Whether counts have their mean for a variance, given f.
fn has_poisson_variance(likelihood: &dyn Likelihood) -> bool {
    let (mean, variance) = likelihood.conditional_moments(0.0, 1.0);
    likelihood.target_kind() == TargetKind::Count && (variance / mean - 1.0).abs() < 1e-12
}

/// At most [`MOST_TRAINING_ROWS`] of the training rows, evenly.
fn some_rows(train: Dataset<'_>) -> RowBuffer {
    let rows = spread(train.len(), MOST_TRAINING_ROWS);
    let mut some = RowBuffer::new(train, rows.len());
    some.take(train, &rows);
    some
}

/// Mean and squared standard error of the losses of a data set.
fn mean_loss(posterior: &Posterior, data: Dataset<'_>) -> Option<(f64, f64)> {
    let moments = Moments::of(posterior.losses(data, Score::LogLoss));
    let count = moments.count() as f64;
    Some((moments.mean()?, moments.variance()? / (count - 1.0).max(1.0)))
}

fn about_overfitting(fit: &FitFacts<'_>) -> Option<Warning> {
    let validation = fit.validation.filter(|_| fit.plan.loss != LossKind::Square)?;
    let (training, error) = mean_loss(fit.posterior, some_rows(fit.train).data())?;
    let (validation, other) = mean_loss(fit.posterior, validation)?;
    let error = (error + other).sqrt();
    let difference = validation - training;
    (difference > OVERFITTED.0 && difference > OVERFITTED.1 * error && difference.is_finite())
        .then_some(Warning::Overfitted { training, validation, error })
}

fn about_steps(fit: &FitFacts<'_>) -> Vec<Warning> {
    let TakenBack { hyper, q, mixed } = fit.taken_back;
    let of = fit.outcome.evaluations;
    let many = |count: usize| count > 2 && count as f64 > TAKEN_BACK_SHARE * of as f64;
    let adam = fit.plan.hyper.solver == HyperOptimizer::Adam;
    let mut warnings = Vec::new();
    // Line searches try points that they may well come back from; every failure of Adam costs half the rate for good.
    if if adam { hyper > 0 } else { many(hyper) } {
        warnings.push(Warning::HyperSteps { count: hyper, of, halved: adam });
    }
    if many(q) {
        warnings.push(Warning::QSteps { count: q, of });
    }
    if let Some(mixed) = mixed.filter(|mixed| mixed.fallen_back) {
        warnings.push(Warning::TooRough { disagreement: mixed.disagreement });
    }
    warnings
}

fn about_the_end(fit: &FitFacts<'_>) -> Option<Warning> {
    match fit.outcome.reason {
        StopReason::NoProgress => Some(Warning::NoProgress),
        StopReason::MaxEpochs if fit.plan.epochs_by_default => {
            let (last, others) = fit.trace.split_last()?;
            let before = others[others.len().saturating_sub(LAST_EPOCHS)..].first()?;
            let (fall, epochs) = (before.objective - last.objective, last.epoch - before.epoch);
            (fall > STILL_FALLING).then_some(Warning::EpochLimit { fall, epochs })
        }
        _ => None,
    }
}

fn about_evidence(fit: &FitFacts<'_>) -> Option<Warning> {
    let (lower, upper) = fit.evidence?;
    let inducing = fit.model.layer().inducing()?.z().nrows();
    let gap = (upper - lower) / fit.train.len() as f64;
    (gap > LOOSE).then_some(Warning::LooseBound { gap, inducing, without_neighbours: false })
}
