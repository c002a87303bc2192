//! Checks of a finished fit that lead to warnings, each with its evidence.

use super::geometry::{Crowding, Neighbours, irrelevant, sample, spread};
use super::rows::{RowBuffer, TrainingData};
use super::run::{Job, TakenBack, fit_from};
use super::start::{Prototype, Start, initial_model};
use crate::collapsed::Dataset;
use crate::data::{Moments, Purpose, generator};
use crate::hyper::{Outcome, Record, Session, StopReason};
use crate::latent::{InducingLayer, Jitter, whiten};
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{LatentMarginal, Observation, OneFunction, Row, TargetKind};
use crate::linalg::symmetric_eigen;
use crate::model::{Input, LatentModel, Posterior, Score, Warning};
use crate::options::{FitOptions, HyperOptimizer, LossKind, ObjectiveKind, Plan, Way};
use crate::variational::Guard;
use faer::Mat;
use rand::seq::SliceRandom;
use sparsegp_kernels::Scratch;

/// The condition number of `K_uu` above which fewer than six digits of the weights are accurate.
const ILL_CONDITIONED: f64 = 1e10;

/// The noise variance, in units of the target's variance, below which the inputs may give the target away.
const NEARLY_EXACT: f64 = 2e-6;

/// The relative jitter of an exact GP that needs no warning.
const TOLERATED_JITTER: f64 = 1e-6;

/// The share of duplicate inducing inputs above which a warning is due.
const DUPLICATE_SHARE: f64 = 0.1;

/// An input is irrelevant if crossing its range changes f by less than this share of the variance of f over the rows, which is a hundredth
/// of its standard deviation.
const IRRELEVANT_SHARE: f64 = 1e-4;

/// Rows are memorised if the median correlation with the nearest neighbour is below this.
const MEMORISED: f64 = 0.2;

/// The share of rolled-back steps above which a warning is due.
const TAKEN_BACK_SHARE: f64 = 0.2;

/// The variance of counts, relative to Poisson counts, above which another distribution is suggested.
const OVERDISPERSED: f64 = 1.5;

/// The maximum number of training rows that losses and dispersions are averaged over.
const MOST_TRAINING_ROWS: usize = 2000;

/// The difference of validation and training NLL that suggests overfitting, in nats and in standard errors.
const OVERFITTED: (f64, f64) = (0.5, 3.0);

/// Training was unfinished if the objective fell by more than this, in nats per row, over its last epochs.
const STILL_FALLING: f64 = 0.01;

/// The number of last epochs that are considered.
const LAST_EPOCHS: usize = 10;

/// Bounds on the log evidence are loose if they differ by this many nats per row.
const LOOSE: f64 = 0.2;

/// The facts about a finished fit.
pub(super) struct FitFacts<'a> {
    pub model: &'a LatentModel,
    pub posterior: &'a Posterior,
    /// The training rows to examine.
    pub train: Dataset<'a>,
    pub validation: Option<Dataset<'a>>,
    pub plan: &'a Plan,
    pub outcome: &'a Outcome,
    pub taken_back: TakenBack,
    pub trace: &'a [Record],
    /// The lower and the upper bound on the evidence, if both are known.
    pub evidence: Option<(f64, f64)>,
    /// The mode of a noise variance that was replaced by its expectation.
    pub noise_mode: Option<f64>,
}

pub(super) fn absolute_jitter(model: &LatentModel) -> f64 {
    let Some(layer) = model.layer().inducing() else { return 0.0 };
    match layer.used_jitter {
        Jitter::Absolute(jitter) => jitter,
        Jitter::Relative(ratio) => {
            let z = layer.z();
            let mut diag = vec![0.0; z.nrows()];
            layer.kernel().diag(z, &mut diag, &mut Scratch::new());
            ratio * diag.iter().sum::<f64>() / diag.len().max(1) as f64
        }
    }
}

/// Returns the warnings about a finished fit.
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
    let open = fit.noise_mode.map(|mode| Warning::OpenNoise { mode, expected: noise });
    open.or((noise < NEARLY_EXACT).then_some(Warning::NoiseAtFloor { noise }))
}

fn about_inducing_inputs(layer: &InducingLayer) -> Option<Warning> {
    // The noise keeps the equations of an exact GP well-conditioned, however close its rows are.
    let exact = layer.jitter() == Jitter::EXACT && layer.relative_jitter() <= TOLERATED_JITTER;
    if layer.z().nrows() == 0 || exact {
        return None;
    }
    let condition = layer.condition_estimate().min(f64::MAX);
    let raised = layer.used_jitter != layer.jitter();
    let crowding = Crowding::of(layer.kernel(), layer.z());
    let inducing = layer.z().nrows();
    if raised || condition > ILL_CONDITIONED {
        let raised_to = match layer.used_jitter {
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
    // The kernel does not see the columns of grouped effects.
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

/// Warns if the variance of counts exceeds that of Poisson counts with the fitted rates: `mean (y − μ_y)²/v_y` over training rows, with
/// the predictive mean and variance of y.
fn about_dispersion(fit: &FitFacts<'_>) -> Option<Warning> {
    let likelihood = fit.model.likelihood.one()?;
    if !has_poisson_variance(likelihood) {
        return None;
    }
    let some = some_rows(fit.train);
    let rows = some.data();
    let marginals = fit.posterior.marginals(rows.x).with_offsets(rows.targets.offsets);
    let mut integrator = Integrator::new(None);
    let ratios = (0..rows.len()).map(|i| {
        let at = rows.targets.at(i);
        let latent = LatentMarginal::new(marginals.mean[i], marginals.variance[i]);
        let (mean, variance) = likelihood.predictive_moments(Row::new(at, latent), &mut integrator);
        (at.y - mean).powi(2) / variance
    });
    let moments = Moments::of(ratios.filter(|ratio| ratio.is_finite()));
    let dispersion = moments.mean()?;
    let error = (moments.variance()? / moments.count() as f64).sqrt();
    (dispersion > OVERDISPERSED && dispersion - 3.0 * error > 1.0)
        .then_some(Warning::Overdispersed { dispersion })
}

/// Returns true if the variance of counts, given f, equals their mean.
fn has_poisson_variance(likelihood: &dyn OneFunction) -> bool {
    let (mean, variance) = likelihood.conditional_moments(Observation::of(1.0), 0.0);
    likelihood.target_kind() == TargetKind::Count && (variance / mean - 1.0).abs() < 1e-12
}

/// Returns at most [`MOST_TRAINING_ROWS`] training rows, evenly spaced.
fn some_rows(train: Dataset<'_>) -> RowBuffer {
    RowBuffer::taken(train, &spread(train.len(), MOST_TRAINING_ROWS))
}

/// Returns mean and squared standard error of the losses of a data set.
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
    let TakenBack { hyper, q } = fit.taken_back;
    let of = fit.outcome.evaluations;
    let many = |count: usize| count > 2 && count as f64 > TAKEN_BACK_SHARE * of as f64;
    let adam = fit.plan.solver == HyperOptimizer::Adam;
    let mut warnings = Vec::new();
    // Rejected points are normal in a line search, but every failed step of Adam halves the
    // learning rate for good.
    if if adam { hyper > 0 } else { many(hyper) } {
        warnings.push(Warning::HyperSteps { count: hyper, of, halved: adam });
    }
    match &fit.plan.way {
        Way::Batches
            if fit.plan.options.steps.q_guard == Guard::None
                && q > 0
                && fit.outcome.reason == StopReason::NoProgress =>
        {
            warnings.push(Warning::Refused { proven: proven_step(fit, fit.plan.options.beta) });
        }
        _ if many(q) => warnings.push(Warning::QSteps { count: q, of }),
        _ => {}
    }
    warnings
}

/// Returns the step `ρ = β/(LΛ)` of plain SR-VN from the prior that has a proof of convergence (Kumar et al. 2025, Theorem 2), for convex losses
/// whose second derivatives are at most c.
///
/// S stays between β/𝓜 and Λ = 1 with `𝓜 = β + c λ_max(Σ w_i a_i a_iᵀ)`, so `L = 𝓜 + β/(β/𝓜) = 2𝓜`. If there are more than
/// [`MOST_TRAINING_ROWS`], the sum over the rows is an estimate.
fn proven_step(fit: &FitFacts<'_>, beta: f64) -> Option<f64> {
    let (_, most) = fit.model.likelihood.one()?.loss_curvature().filter(|(least, _)| *least >= 0.0)?;
    let some = some_rows(fit.train);
    let (rows, layer) = (some.data(), fit.model.layer());
    let (m, n) = (layer.dim(), rows.len());
    let (mut raw, mut features) = (Mat::zeros(m, n), Mat::zeros(m, n));
    let (mut base, mut offset) = (vec![0.0; n], vec![0.0; n]);
    layer.features(rows.x, raw.as_mut(), &mut base, &mut offset, &mut Scratch::new());
    whiten(layer, raw.as_ref(), features.as_mut());
    for (i, a) in features.col_iter_mut().enumerate() {
        let share = rows.targets.weight(i) * fit.train.len() as f64 / n as f64;
        a.iter_mut().for_each(|a| *a *= share.sqrt());
    }
    let (values, _) = symmetric_eigen((&features * features.transpose()).as_ref())?;
    let smoothness = beta + most * values.last().copied().unwrap_or(0.0);
    Some(beta / (2.0 * smoothness)).filter(|step| step.is_finite())
}

fn about_the_end(fit: &FitFacts<'_>) -> Option<Warning> {
    let lbfgs = fit.plan.solver == HyperOptimizer::Lbfgs;
    match fit.outcome.reason {
        // After some steps, rounding ends the line searches of L-BFGS at the optimum, too.
        StopReason::NoProgress if fit.outcome.iterations == 0 || !lbfgs => Some(Warning::NoProgress),
        StopReason::MaxEpochs if fit.plan.options.epochs.is_none() => {
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
    let layer = fit.model.layer().inducing().filter(|layer| layer.jitter() != Jitter::EXACT)?;
    let inducing = layer.z().nrows();
    let gap = (upper - lower) / fit.train.len() as f64;
    (gap > LOOSE).then_some(Warning::LooseBound { gap, inducing, without_neighbours: false })
}

/// The number of parts. Each part is left out once.
const PARTS: usize = 5;

/// The maximum number of epochs of a short fit.
const EPOCHS: usize = 50;

/// The minimum number of rows, …
const FEWEST_ROWS: usize = 50;

/// … and the number of rows for every trained number from which on overfitting is unlikely.
const ROWS_A_NUMBER: usize = 10;

/// The difference from the ELBO, in standard errors, that shows worse predictions.
const SURE: f64 = 2.0;

/// Warns if short fits by the square loss predict rows that were left out worse than short fits by the ELBO do. Fits with validation rows
/// see overfitting themselves, and fits with a time limit are not checked, because the short fits together take as long as a fit.
pub(super) fn about_square_loss(
    data: &TrainingData<'_>,
    plan: &Plan,
    (options, prototype): (&FitOptions, &Prototype),
    session: &mut Session<'_>,
) -> Option<Warning> {
    let n = data.train.len();
    let numbers = options.inducing_for(n) * (1 + usize::from(!options.fix_inducing) * data.train.x.ncols());
    let applies = plan.loss == LossKind::Square && matches!(plan.way, Way::Collapsed(_)) && plan.trains;
    let has_limits = data.validation.is_some() || plan.limits.seconds.is_some();
    if !applies || has_limits || n < FEWEST_ROWS || n >= ROWS_A_NUMBER * numbers {
        return None;
    }
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(&mut generator(options.seed, Purpose::Choices, 0));
    let (mut own, mut rises, mut training) = (Moments::default(), Moments::default(), [0.0; 2]);
    for part in 0..PARTS {
        let (held, rest): (Vec<_>, Vec<_>) = (0..n).partition(|i| i % PARTS == part);
        let [rest, held] = [rest, held]
            .map(|part| RowBuffer::taken(data.train, &Vec::from_iter(part.into_iter().map(|i| rows[i]))));
        let short = FitOptions { epochs: Some(plan.limits.epochs.min(EPOCHS)), ..options.clone() };
        let square = errors_of(&short, prototype, [&rest, &held], session)?;
        let short = FitOptions { objective: ObjectiveKind::Elbo, beta: 1.0, ..short };
        let elbo = errors_of(&short, prototype, [&rest, &held], session)?;
        for (sum, [of_rest, _]) in training.iter_mut().zip([&square, &elbo]) {
            *sum += of_rest.iter().sum::<f64>();
        }
        for (square, elbo) in square[1].iter().zip(&elbo[1]) {
            own.push(*square);
            rises.push(square - elbo);
        }
    }
    let (square, rise) = (own.mean()?, rises.mean()?);
    let warning =
        || Warning::SquareLoss { ratio: square / (square - rise), training: training[0] / training[1] };
    (rise > SURE * rises.standard_error()?).then(warning)
}

/// Returns the squared errors of the rows of a fit and of left-out rows, times their weights; `None` if the fit fails or is interrupted.
fn errors_of(
    options: &FitOptions,
    prototype: &Prototype,
    [rest, held]: [&RowBuffer; 2],
    session: &mut Session<'_>,
) -> Option<[Vec<f64>; 2]> {
    let rows = TrainingData { validation: None, ..TrainingData::of(rest.data()) };
    let plan = Plan::new(options, &prototype.likelihood, rest.y.len()).ok()?;
    let model = initial_model(rest.data(), &plan, prototype).ok()?;
    let job = Job { rows: &rows, plan: &plan, fresh: true };
    let fitted = fit_from(Start { model, q: None }, &job, &mut session.aside()).ok()?;
    let errors = |rows: &RowBuffer| {
        let Dataset { x, targets } = rows.data();
        let means = fitted.posterior.means(x);
        let error = |(i, mean): (usize, &f64)| (targets.y[i] - mean).powi(2) * targets.weight(i);
        means.iter().enumerate().map(error).collect()
    };
    Some([errors(rest), errors(held)])
}
