//! Short fits to some of the training rows, and their losses on held-out rows, in the user's units.

use super::candidates::may_be_amounts;
use crate::collapsed::Dataset;
use crate::data::{Purpose, Scaling, generator};
use crate::error::{Error, Result};
use crate::hyper::{Descriptor, Session};
use crate::likelihood::TargetKind;
use crate::model::{LatentPrior, Model, Posterior, Tried, Warning};
use crate::options::{FitOptions, Hyper, HyperPosteriorKind, ModelKind, Plan};
use crate::quadrature::Integrator;
use crate::training::arrays::fit_arrays_in;
use crate::training::fit::scaling_of;
use crate::training::rows::{RowBuffer, TrainingData};
use crate::training::start::{Prototype, Start, initial_model};
use rand::seq::SliceRandom;
use sparsegp_kernels::Role;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// The limits for the number of rows of a short fit, which is an eighth of all rows.
const TRAINED_ON: (usize, usize) = (1000, 4000);

/// The maximum number of rows of a short fit that decides whether neighbours help a likelihood with sites. Neighbours help more if rows lie
/// closer together.
const CLOSE_ROWS: usize = 8000;

/// The number of epochs of a short fit.
struct Epochs {
    /// Fits with neighbours; earlier rounds are at most as long.
    beside: usize,
    /// Fits in closed form.
    closed: usize,
    /// Fits of several classes, in which every epoch solves for the q of all classes by many
    /// passes.
    classes: usize,
    /// Fits by mini-batches.
    batches: usize,
}

/// The epochs of the first short fit, …
const FIRST: Epochs = Epochs { beside: 8, closed: 30, classes: 6, batches: 15 };

/// … and of later short fits, which start from the hyper-parameters of an earlier one.
const LATER: Epochs = Epochs { beside: 6, closed: 20, classes: 3, batches: 10 };

/// The number of inducing inputs of a short fit with neighbours, and of one without.
pub(super) const INDUCING: (usize, usize) = (50, 100);

/// The maximum number of rows that are all inducing inputs of a short fit.
const EXACT_ROWS: usize = 250;

/// The number of epochs of a short fit of an exact GP, whose epochs are cheap. Without noise the optimum is far from the start.
const EXACT_EPOCHS: usize = 100;

/// The noise variance, in units of the variance of the targets, below which an exact GP needs hardly any noise, and below which its kernel
/// may nevertheless be too rough for the function.
const HARDLY_ANY: f64 = 1e-4;
const LITTLE: f64 = 1e-2;

/// A smaller model is preferred if its loss, in nats per row, is this close to that of a larger one.
pub(super) const NEGLIGIBLE: f64 = 0.002;

/// The difference of log evidences, in nats, that decides alone between kernels without noise.
const DECISIVE: f64 = 10.0;

/// The rows of short fits, in the user's units.
pub(super) struct Trials {
    train: RowBuffer,
    held: RowBuffer,
    /// Both together, if they are few enough for exact GPs.
    all: Option<RowBuffer>,
    levels: usize,
    /// True if only the held-out rows are missing from the rows to fit to.
    whole: bool,
    /// True if fits in the place of [`INDUCING`] have half of these inducing inputs.
    pub half: bool,
    /// True if zeros have a probability, so that likelihoods of numbers and of amounts with zeros are compared.
    zeros: bool,
}

/// The least log probability of a zero under a likelihood of numbers, so that losses are finite.
const LEAST_LOG: f64 = -700.0;

/// Options with the losses of their short fit on held-out rows.
#[derive(Debug)]
pub(super) struct Judged {
    pub options: FitOptions,
    model: Arc<Model>,
    losses: Losses,
    errors: Losses,
    /// The log evidence of the rows of an exact GP per row, on the scale of the short fit.
    evidence: Option<f64>,
    /// The log evidence per row of an exact GP with little noise fitted to all rows, on their scale.
    evidence_of_all: Option<f64>,
    /// A lower bound on it per row, if all rows are inducing inputs.
    bound: Option<f64>,
    seconds: f64,
}

impl Trials {
    /// Splits the rows at random into rows to fit to and held-out rows; `None` if there are too few rows, or all targets are equal.
    pub fn new(rows: TrainingData<'_>, seed: u64) -> Option<Trials> {
        Trials::of_at_most((rows.train.len() / 8).clamp(TRAINED_ON.0, TRAINED_ON.1), rows, seed)
    }

    /// Like [`new`](Self::new), with the same held-out rows but more rows to fit to.
    pub fn with_close_rows(rows: TrainingData<'_>, seed: u64) -> Option<Trials> {
        Trials::of_at_most(CLOSE_ROWS, rows, seed)
    }

    fn of_at_most(most: usize, rows: TrainingData<'_>, seed: u64) -> Option<Trials> {
        let TrainingData { train: data, levels, .. } = rows;
        let (train, held) = match held_out(data.len(), seed, 0, most) {
            None if data.len() >= FEWEST_EXACT => split_rows(data.len(), seed, 0, data.len()),
            parts => parts?,
        };
        let (train, held) = (RowBuffer::taken(data, &train), RowBuffer::taken(data, &held));
        let varies = train.y.iter().any(|&y| y != train.y[0]);
        let few = data.len() <= EXACT_ROWS && data.targets.weights.is_empty();
        let all = few.then(|| RowBuffer::of(data));
        let whole = train.y.len() + held.y.len() == data.len();
        varies.then_some(Trials { train, held, all, levels, whole, half: false, zeros: false })
    }

    /// Gives zeros a probability, if the likelihood is `open` and the targets may be amounts with exact zeros.
    pub fn with_zeros(self, open: bool) -> Trials {
        Trials { zeros: open && may_be_amounts(&self.train.y), ..self }
    }

    pub(super) fn has_zeros(&self) -> bool {
        self.zeros
    }

    pub(crate) fn train_rows(&self) -> usize {
        self.train.y.len()
    }

    pub(crate) fn held_rows(&self) -> usize {
        self.held.y.len()
    }

    /// Returns true if half of the inducing inputs can be tried, because neither the options nor the number of rows decide their number.
    pub fn can_halve(&self, options: &FitOptions) -> bool {
        leaves_inducing_open(options) && !self.has_few_rows(options)
    }

    /// Returns true if the rows are so few that a short fit without noise is as accurate as the fit will be.
    fn has_few_rows(&self, options: &FitOptions) -> bool {
        self.whole && options.is_exact_for(self.train_rows())
    }

    /// Makes a short fit with these options, and computes its losses on the held-out rows.
    ///
    /// # Errors
    ///
    /// As for a fit, and a fit error if the model gives a held-out target the probability 0.
    pub(crate) fn judge(
        &self,
        options: &FitOptions,
        from: Option<&Judged>,
        session: &mut Session<'_>,
    ) -> Result<Judged> {
        // Hyper-parameters of numbers have other units than those of counts.
        let from = from.filter(|from| from.kind() == options.likelihood_kind().target_kind());
        let (rows, started) = (self.train_rows(), Instant::now());
        let usual = if self.half { INDUCING.1 / 2 } else { INDUCING.1 };
        let inducing = if self.has_few_rows(options) { rows.clamp(usual, EXACT_ROWS) } else { usual };
        let short = short(options, rows, inducing, from.is_some());
        let model = Arc::new(self.fitted(&self.train, &short, from.map(|from| &*from.model), session)?);
        let (losses, errors) = self.losses(&model, model.posterior())?;
        let per_row = |model: &Model, rows: usize| model.summary().elbo_sum.map(|sum| sum / rows as f64);
        let all_rows = short.inducing == Some(rows) && self.train.data().targets.weights.is_empty();
        let bound = per_row(&model, rows).filter(|_| all_rows);
        let evidence = bound.filter(|_| short.is_exact_for(rows));
        let options = options.clone();
        let mut judged =
            Judged { options, losses, errors, evidence, evidence_of_all: None, bound, seconds: 0.0, model };
        if let Some(all) = self.all.as_ref().filter(|_| judged.has_less_noise_than(LITTLE)) {
            let n = all.y.len();
            let short = FitOptions { inducing: Some(n), ..short };
            judged.evidence_of_all = per_row(&self.fitted(all, &short, Some(&judged.model), session)?, n);
        }
        judged.seconds = started.elapsed().as_secs_f64();
        Ok(judged)
    }

    /// Fits to some rows, from the hyper-parameters of another fit if there is one.
    fn fitted(
        &self,
        rows: &RowBuffer,
        short: &FitOptions,
        from: Option<&Model>,
        session: &mut Session<'_>,
    ) -> Result<Model> {
        let scaling = scaling_of(short, rows.data().x, &rows.y)?;
        let short =
            FitOptions { hyper_posterior: HyperPosteriorKind::None, ..short.clone() }.with_units_of(&scaling);
        let mut rows = rows.clone();
        rows.scale(&scaling);
        let data = TrainingData { train: rows.data(), validation: None, levels: self.levels };
        let start = from.map(|from| self.start(data.train, &short, from.latent())).transpose()?;
        let fitted = fit_arrays_in(data, &short, start.as_ref(), &mut session.silent())?;
        Ok(fitted.into_model(scaling, &short, rows.y.len()))
    }

    /// Returns a start with the hyper-parameters of another fit, as far as their names are the
    /// same.
    fn start(&self, train: Dataset<'_>, options: &FitOptions, from: &LatentPrior) -> Result<Start> {
        let prototype = Prototype::of(options, train.x.ncols(), self.levels)?;
        let plan = Plan::new(options, &prototype.likelihood, train.len())?;
        let mut model = initial_model(train, &plan, &prototype)?;
        let values = from.descriptors().into_iter().zip(from.natural());
        let mut known: HashMap<String, f64> =
            values.map(|(descriptor, value)| (stem(&descriptor), value)).collect();
        // One lengthscale of all inputs says little of those of each, and the other way round.
        let lengthscales =
            |of: &LatentPrior| of.descriptors().iter().filter(|one| one.role.0 == Role::Lengthscale).count();
        let (own, others) = (lengthscales(from), lengthscales(&model));
        if own != others && own.min(others) == 1 {
            known.retain(|name, _| !name.contains("lengthscale"));
        }
        model.change_values(|descriptor, value| {
            let found = known.get(&stem(descriptor)).filter(|_| descriptor.is_named());
            found.copied().unwrap_or(value)
        });
        Ok(Start { model, q: None })
    }

    /// Returns the log loss of every held-out row, and its squared error, times the relative weight of the row.
    ///
    /// A likelihood of amounts gives exact zeros a probability, and the density of a likelihood of numbers at 0 grows without bound as its
    /// noise falls. If both are compared, the latter is read as cut off at 0: all its probability of 0 and below is that of a zero. Both then
    /// are densities of one measure, a length above 0 and a unit mass at 0, and no other reading gives numbers a higher probability of 0.
    fn losses(&self, model: &Model, posterior: &Posterior) -> Result<(Losses, Losses)> {
        let held = self.held.data();
        let predictions = model.predict_by(posterior, held.x, held.targets.exposure.to_vec());
        let predictions = predictions.with_other_ends(held.targets.other_ends);
        let mut rows = predictions.losses(held.targets.y);
        if self.zeros && predictions.kind() == TargetKind::Real {
            let tools = &mut Integrator::default();
            for (row, (density, _)) in
                rows.iter_mut().enumerate().filter(|(row, _)| held.targets.y[*row] == 0.0)
            {
                *density = predictions.cdf(row, 0.0, tools).ln().max(LEAST_LOG);
            }
        }
        let mean = held.targets.weights.iter().sum::<f64>() / held.len() as f64;
        for ((density, error), weight) in rows.iter_mut().zip(held.targets.weights) {
            *density *= weight / mean;
            *error *= weight / mean;
        }
        let losses: Vec<f64> = rows.iter().map(|row| -row.0).collect();
        if losses.iter().any(|loss| !loss.is_finite()) {
            return Err(Error::fit("the model gives the target of a held-out row the probability 0"));
        }
        Ok((Losses(losses), Losses(rows.iter().map(|row| row.1).collect())))
    }
}

impl Judged {
    /// The kind that the fit takes the targets for. Squared errors say little about numbers beside counts of a wide range: a few of the
    /// largest counts decide them.
    pub(crate) fn kind(&self) -> TargetKind {
        self.options.likelihood_kind().target_kind()
    }

    /// Returns true if the loss is hardly higher than that of a larger model.
    pub fn is_as_good_as(&self, larger: &Judged) -> bool {
        self.loss() <= larger.loss() + NEGLIGIBLE
    }

    pub(super) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Returns the mean log loss.
    pub fn loss(&self) -> f64 {
        self.losses.mean()
    }

    /// Returns true if `other` has a higher mean squared error, by more than this share and one standard error of the differences.
    pub(crate) fn has_less_error_than(&self, other: &Judged, share: f64) -> bool {
        let (fall, error) = self.errors.gain_of(&other.errors);
        -fall > (share * self.errors.mean()).max(error)
    }

    /// Returns the share by which the mean squared error of `other` is higher.
    pub(crate) fn error_rise_to(&self, other: &Judged) -> f64 {
        other.errors.mean() / self.errors.mean() - 1.0
    }

    /// Returns true if the short fit is an exact GP.
    pub fn is_exact(&self) -> bool {
        self.evidence.is_some()
    }

    /// Returns true if the short fit is an exact GP that needs hardly any noise: its rows say nothing about the distribution of noise.
    pub fn is_free_of_noise(&self) -> bool {
        self.has_less_noise_than(HARDLY_ANY)
    }

    fn has_less_noise_than(&self, most: f64) -> bool {
        let mode = self.model.summary().warnings.iter().find_map(|warning| match warning {
            Warning::OpenNoise { mode, .. } => Some(*mode),
            _ => None,
        });
        let noise = mode.or_else(|| self.model.latent().likelihood.gaussian_noise());
        self.is_exact() && noise.is_some_and(|noise| noise < most)
    }

    /// Returns the difference by which the loss of `other` is lower, with its standard error. If both are exact GPs of the same target, the
    /// loss is that of all rows: the log evidence is the sum of the log densities of the rows of the short fit, each given the earlier ones.
    /// A few held-out rows alone would not tell kernels apart. If a kernel needs hardly any noise, the evidence of all rows decides where it
    /// is clear: where kernels miss a function, fewer rows may have another optimum, and held-out losses are huge.
    pub fn gain_of(&self, other: &Judged) -> (f64, f64) {
        let (gain, error) = self.losses.gain_of(&other.losses);
        let is_same_target = self.options.warp_target == other.options.warp_target;
        let Some((own, others)) = self.evidence.zip(other.evidence).filter(|_| is_same_target) else {
            return (gain, error);
        };
        let (held, trained) = (self.losses.0.len() as f64, self.model.training_rows() as f64);
        let all = held + trained;
        let by_chance = |rows: f64| other.evidence_by_chance(rows) - self.evidence_by_chance(rows);
        let is_free = (self.is_free_of_noise() || other.is_free_of_noise())
            && self.options.warp_inputs == other.options.warp_inputs;
        if let Some((own, others)) = self.evidence_of_all.zip(other.evidence_of_all)
            && is_free
            && (others - own - by_chance(all)).abs() * all > DECISIVE
        {
            return (others - own - by_chance(all), 0.0);
        }
        let share = held / all;
        (share * gain + (1.0 - share) * (others - own - by_chance(trained)), share * error)
    }

    /// Returns the evidence, in nats per row, that the best values of the hyper-parameters gain by chance: one nat for each, and more if the rows
    /// are few (AICc, Hurvich & Tsai 1989).
    fn evidence_by_chance(&self, rows: f64) -> f64 {
        let count = self.model.latent().named_values().len() as f64;
        (count + count * (count + 1.0) / (rows - count - 1.0).max(1.0)) / rows
    }

    /// Returns true if the bound of a fit with other noise lies below the evidence of this exact GP. Where the kernel misses a function
    /// without noise, errors have heavy tails that say nothing about noise.
    pub fn has_more_evidence_than(&self, other: &Judged) -> bool {
        let alike = self.kind() == other.kind() && self.options.warp_target == other.options.warp_target;
        let bounds = self.evidence.zip(other.bound).filter(|_| alike && other.evidence.is_none());
        bounds.is_some_and(|(evidence, bound)| bound < evidence)
    }

    /// Returns the losses of the same fit with another number of neighbours.
    pub(crate) fn with_count(&self, count: usize, trials: &Trials) -> Option<Judged> {
        let started = Instant::now();
        let posterior = self.model.posterior().with_count(count)?;
        let (losses, errors) = trials.losses(&self.model, &posterior).ok()?;
        let options = self.options.with_neighbours(count);
        let seconds = started.elapsed().as_secs_f64();
        Some(Judged {
            options,
            model: Arc::clone(&self.model),
            losses,
            errors,
            evidence: None,
            evidence_of_all: None,
            bound: None,
            seconds,
        })
    }

    /// Returns the hyper-parameters of the fit by name, on another scale of the rows.
    pub fn hyperparameters(&self, scaling: &Scaling) -> Vec<(String, f64)> {
        let (model, own) = (self.model.latent(), self.model.scaling());
        let along = model.value_inputs();
        let change = |value: usize| match along.get(value).map(Vec::as_slice) {
            Some(&[input]) if !own.warps_input(input) => {
                own.inputs[input].scale / scaling.inputs[input].scale
            }
            _ => 1.0,
        };
        let values = model.named_values().into_iter().enumerate();
        values.map(|(value, (name, size))| (name, size * change(value))).collect()
    }

    /// Returns the record for users.
    pub fn tried(&self) -> Tried {
        Tried { loss: Some(self.loss()), seconds: self.seconds, ..Tried::default() }
    }
}

/// Returns true if the model has inducing inputs and the options say nothing about their number.
pub(super) fn leaves_inducing_open(options: &FitOptions) -> bool {
    options.model == ModelKind::Gp
        && options.neighbours.is_none()
        && options.inducing.is_none()
        && options.growth.is_none()
}

/// Returns the name of a hyper-parameter; that of a lengthscale of the only kernel is the same for all kernels.
fn stem(descriptor: &Descriptor) -> String {
    match descriptor.role {
        (Role::Lengthscale, index) if descriptor.name.starts_with("kernel.") => {
            format!("lengthscale {index}")
        }
        _ => descriptor.name.clone(),
    }
}

/// Returns the options of a short fit to `rows` rows, with at most `inducing` inducing inputs.
fn short(options: &FitOptions, rows: usize, inducing: usize, goes_on: bool) -> FitOptions {
    let Epochs { beside, closed, classes, batches } = if goes_on { LATER } else { FIRST };
    let exact = options.is_exact_for(rows) && rows <= EXACT_ROWS;
    let (epochs, inducing) = match options.neighbours {
        Some(_) => (beside, inducing.min(INDUCING.0)),
        None if exact && options.decided_for(rows).is_collapsed() => (EXACT_EPOCHS, inducing),
        None if options.decided_for(rows).is_collapsed() => (closed, inducing),
        None if options.likelihood_kind().target_kind() == TargetKind::Class => (classes, inducing),
        None => (batches, inducing),
    };
    let most = options.inducing.unwrap_or(inducing).min(inducing);
    // With neighbours, a non-Gaussian likelihood needs rounds of sites, which take a hundred times as long as a fit without neighbours.
    // Hyper-parameters found without neighbours are good enough to decide whether neighbours help.
    let keeps_values =
        goes_on && options.neighbours.is_some() && !options.likelihood_kind().has_gaussian_noise();
    FitOptions {
        hyper: if keeps_values { Some(Hyper::Fixed) } else { options.hyper },
        epochs: Some(options.epochs.unwrap_or(epochs).min(epochs)),
        // Linear models have no inducing inputs.
        inducing: (options.model == ModelKind::Gp).then_some(most.min(rows)),
        growth: None,
        restarts: 1,
        validation_fraction: 0.0,
        max_seconds: None,
        stop_at: None,
        stop_range: None,
        keep_rows: None,
        keep_single: false,
        ..options.clone()
    }
}

/// The minimum number of rows for holding some of them out.
pub(super) const FEWEST_ROWS: usize = 60;

/// The share of the rows that is held out, and the maximum number of held-out rows.
const HELD_OUT: (f64, usize) = (0.3, 2000);

/// The minimum number of rows for holding some of them out to decide between numbers and counts, whose losses differ by nats, …
pub(super) const FEWEST_COUNTS: usize = 20;

/// … and between the kernels of exact GPs, whose evidence counts more than the loss of held-out rows.
const FEWEST_EXACT: usize = 10;

/// Splits `n` rows at random; returns the indices of at most `most` rows to fit to and of the held-out rows, both sorted, or `None` if there
/// are too few rows. Splits with different `run`s are independent.
pub fn held_out(n: usize, seed: u64, run: u64, most: usize) -> Option<(Vec<usize>, Vec<usize>)> {
    (n >= FEWEST_ROWS).then(|| split_rows(n, seed, run, most))
}

/// Returns the rows of short fits whose rows lie close together, of `n` rows, and the held-out rows, like [`held_out`].
pub fn close_rows(n: usize, seed: u64) -> Option<(Vec<usize>, Vec<usize>)> {
    held_out(n, seed, 0, CLOSE_ROWS)
}

/// Like [`held_out`], for any number of rows.
pub(super) fn split_rows(n: usize, seed: u64, run: u64, most: usize) -> (Vec<usize>, Vec<usize>) {
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(&mut generator(seed, Purpose::Choices, run));
    let held = ((HELD_OUT.0 * n as f64) as usize).min(HELD_OUT.1);
    let mut train = rows.split_off(held);
    train.truncate(most);
    train.sort_unstable();
    rows.sort_unstable();
    (train, rows)
}

/// The log losses of held-out rows.
#[derive(Debug)]
pub struct Losses(pub Vec<f64>);

impl Losses {
    /// Returns the mean loss.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Returns the difference by which the mean of `other` is lower, with its standard error.
    pub fn gain_of(&self, other: &Losses) -> (f64, f64) {
        let n = self.0.len() as f64;
        let gains = || self.0.iter().zip(&other.0).map(|(own, other)| own - other);
        let mean = gains().sum::<f64>() / n;
        let variance = gains().map(|gain| (gain - mean).powi(2)).sum::<f64>() / n;
        (mean, (variance / n).sqrt())
    }
}
