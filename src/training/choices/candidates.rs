//! The candidate values of each unset option, and the options that the search starts from.

use super::trial::FEWEST_ROWS;
use crate::data::{InputWarp, TargetWarp};
use crate::likelihood::{HIGHEST_WHOLE, LikelihoodKind, TargetKind};
use crate::options::{FitOptions, ModelKind, ObjectiveKind, Open, Part, Plan};
use crate::training::rows::TrainingData;
use crate::training::start::Prototype;
use std::collections::HashSet;

/// The kernel that the search starts from: rough enough for most tables.
const FIRST_KERNEL: &str = "matern32(ard)";

/// The alternatives: two smoother kernels, a rougher one, …
pub(super) const KERNELS: [&str; 3] = ["matern52(ard)", "rbf(ard)", "matern12(ard)"];

/// … and one with a linear term in all columns.
pub(super) const WITH_LINES: &str = "matern32(ard) + linear";

/// Returns the options with a linear term in all columns beside their kernel and beside the smoothest one, if their kernel has no other
/// terms.
pub(super) fn with_lines(options: &FitOptions, _: usize) -> Vec<FitOptions> {
    let (kernel, smoothest) = (options.kernel.as_str(), KERNELS[1]);
    if kernel != FIRST_KERNEL && !KERNELS.contains(&kernel) {
        return Vec::new();
    }
    let kernels = [kernel].into_iter().chain((kernel != smoothest).then_some(smoothest));
    kernels.map(|kernel| FitOptions { kernel: format!("{kernel} + linear"), ..options.clone() }).collect()
}

/// Returns the options with one lengthscale for all columns, if their kernel has one for each of several: few rows cannot tell so many apart.
pub(super) fn isotropic(options: &FitOptions, columns: usize) -> Vec<FitOptions> {
    let kernel = options.kernel.strip_suffix(" + linear").unwrap_or(&options.kernel);
    let known = kernel == FIRST_KERNEL || KERNELS.contains(&kernel);
    let kernel = options.kernel.replace("(ard)", "");
    (known && columns > 1).then(|| FitOptions { kernel, ..options.clone() }).into_iter().collect()
}

/// The minimum number of rows per column for a linear term: with fewer rows it overfits, and so few held-out rows do not show it.
const ROWS_A_LINE: usize = 5;

/// The number of neighbours in a short fit, whose time grows with its third power, …
pub(super) const FEW_NEIGHBOURS: usize = 20;

/// … and the other numbers of neighbours with which the same short fit is judged.
pub(super) const COUNTS: [usize; 2] = [50, 100];

/// Likelihoods that model zeros separately are tried if more than this share of the counts or amounts is 0.
const ZEROS: f64 = 0.05;

/// Targets with fewer distinct values are treated as levels: a density that narrows around the
/// levels has an ever lower loss, which says nothing about the noise. For small tables the limit is
/// half the number of rows.
const DIFFERENT: usize = 50;

/// Whole numbers with zeros may be counts if their largest is above this; smaller ones may be levels.
const WIDE: f64 = 30.0;

/// Neighbours are a candidate up to this number of rows, because a model with neighbours stores its
/// rows.
const MOST_KEPT: usize = 1_000_000;

/// Returns the options that the search starts from.
pub(super) fn base(options: &FitOptions, open: Open) -> FitOptions {
    let mut base = FitOptions { open: Open::NOTHING, ..options.with_automatic_posterior() };
    if open.contains(Part::Likelihood) {
        let kind = options.likelihood_kind();
        base.likelihood = Some(match kind {
            LikelihoodKind::Poisson => LikelihoodKind::NegativeBinomial,
            LikelihoodKind::PoissonCensored => LikelihoodKind::NegativeBinomialCensored,
            kind => kind,
        });
    }
    if open.contains(Part::Kernel) {
        base.kernel = FIRST_KERNEL.into();
    }
    // A short fit with neighbours takes ten times as long as one without, so neighbours are tried
    // after the earlier options are decided.
    if base.neighbours.is_none() { base.without_neighbours() } else { base }
}

/// Returns the alternative values of a part, each as options for a fit.
pub(super) fn values(
    part: Part,
    options: &FitOptions,
    TrainingData { train: data, levels, .. }: TrainingData<'_>,
) -> Vec<FitOptions> {
    let kind = options.likelihood_kind();
    let with = |change: &dyn Fn(&mut FitOptions)| {
        let mut value = options.clone();
        change(&mut value);
        value
    };
    let values = match part {
        Part::Likelihood => likelihoods(kind, options.model, data.targets.y)
            .filter(|_| data.len() >= FEWEST_ROWS)
            .chain(likelihoods_of_counts(options, data.targets.y).iter().copied())
            .chain(likelihoods_of_amounts(options, data.targets.y).iter().copied())
            .map(|kind| {
                // The warp of the target is kept, so likelihoods that do not allow a warp are
                // dropped below.
                let options = if kind.is_joint() { &options.without_neighbours() } else { options };
                FitOptions { likelihood: Some(kind), ..options.clone() }
            })
            .collect(),
        Part::WarpInputs => vec![with(&|value| value.warp_inputs = InputWarp::NormalScores)],
        Part::WarpTarget
            if kind.target_kind() == TargetKind::Real && data.targets.y.iter().all(|&y| y > 0.0) =>
        {
            vec![with(&|value| value.warp_target = TargetWarp::Softplus)]
        }
        Part::WarpTarget => Vec::new(),
        // A kernel can be judged only with hyper-parameters trained for it, and short fits with
        // sites do not train them.
        Part::Kernel if options.neighbours.is_some() && !kind.has_gaussian_noise() => Vec::new(),
        Part::Kernel => {
            let lines = (data.len() >= ROWS_A_LINE * data.x.ncols()).then(|| WITH_LINES.to_owned());
            KERNELS
                .into_iter()
                .map(str::to_owned)
                .chain(lines)
                .chain(with_effects(options))
                .map(|kernel| with(&|value| value.kernel.clone_from(&kernel)))
                .collect()
        }
        Part::Neighbours if data.len() <= MOST_KEPT => vec![options.with_neighbours(FEW_NEIGHBOURS)],
        // Without neighbours direct losses are minimised by mini-batches, which short fits cannot judge.
        Part::Objective if options.neighbours.is_some() => {
            vec![with(&|value| value.objective = ObjectiveKind::DlmLog)]
        }
        // `Search::decide_inducing` compares a short fit with half of its inducing inputs.
        // The rows with another mean have other inputs, so `judge_inputs` compares them.
        // The final fit computes the posterior of its hyper-parameters.
        Part::Mean | Part::Neighbours | Part::Objective | Part::Inducing | Part::HyperPosterior => Vec::new(),
    };
    let can_be_fitted = |value: &FitOptions| {
        let prototype = Prototype::of(value, data.x.ncols() - value.offsets, levels);
        prototype.and_then(|prototype| Plan::new(value, &prototype.likelihood, data.len())).is_ok()
    };
    values.into_iter().filter(|value| value != options && can_be_fitted(value)).collect()
}

/// Returns the kernel in which every level of a category has an effect that adds to the rest, with
/// a variance for each category.
fn with_effects(options: &FitOptions) -> Option<String> {
    let inputs = options.dimensions.iter().enumerate().filter(|(_, dimension)| dimension.is_category());
    let inputs: Vec<String> = inputs.map(|(input, _)| input.to_string()).collect();
    let effects = if inputs.len() > 1 { "linear(ard)" } else { "linear" };
    (!inputs.is_empty()).then(|| format!("{FIRST_KERNEL} + {effects}[{}]", inputs.join(", ")))
}

/// Returns other likelihoods for the same kind of target. Likelihoods of several functions are for Gaussian processes only, and for counts
/// only if many are zero.
fn likelihoods(kind: LikelihoodKind, model: ModelKind, y: &[f64]) -> impl Iterator<Item = LikelihoodKind> {
    let all: &[LikelihoodKind] = match kind.target_kind() {
        TargetKind::Real if kind == LikelihoodKind::Gaussian && model == ModelKind::Gp && !has_levels(y) => {
            &[LikelihoodKind::StudentT, LikelihoodKind::GaussianHeteroskedastic]
        }
        TargetKind::Count if kind == LikelihoodKind::NegativeBinomial => &[
            LikelihoodKind::Poisson,
            LikelihoodKind::ZeroInflatedPoisson,
            LikelihoodKind::ZeroInflatedNegativeBinomial,
            LikelihoodKind::HurdleNegativeBinomial,
        ],
        TargetKind::Trials if kind == LikelihoodKind::Binomial => &[LikelihoodKind::BetaBinomial],
        TargetKind::Measured if kind == LikelihoodKind::GaussianKnownNoise => {
            &[LikelihoodKind::StudentTKnownNoise]
        }
        TargetKind::Measured if kind == LikelihoodKind::GaussianKnownNoiseOnly => {
            &[LikelihoodKind::StudentTKnownNoiseOnly]
        }
        TargetKind::Lifetime if kind == LikelihoodKind::Weibull => {
            &[LikelihoodKind::LogNormal, LikelihoodKind::LogLogistic]
        }
        TargetKind::CensoredCount if kind == LikelihoodKind::NegativeBinomialCensored => {
            &[LikelihoodKind::PoissonCensored]
        }
        TargetKind::Binary if kind == LikelihoodKind::BernoulliProbit => &[LikelihoodKind::BernoulliLogit],
        _ => &[],
    };
    let zeros = y.iter().filter(|&&y| y == 0.0).count() as f64;
    let joint =
        model == ModelKind::Gp && (kind.target_kind() != TargetKind::Count || zeros > ZEROS * y.len() as f64);
    all.iter().copied().filter(move |kind| joint || !kind.is_joint())
}

/// Returns likelihoods of counts for numbers that may be counts, if the user did not ask for numbers. Their log probabilities are
/// comparable with the log densities of other likelihoods, which are densities per unit count.
fn likelihoods_of_counts(options: &FitOptions, y: &[f64]) -> &'static [LikelihoodKind] {
    match asked_for_nothing(options) && may_be_counts(y) {
        true => &[LikelihoodKind::NegativeBinomial, LikelihoodKind::HurdleNegativeBinomial],
        false => &[],
    }
}

fn asked_for_nothing(options: &FitOptions) -> bool {
    options.task.is_none() && options.likelihood_kind() == LikelihoodKind::Gaussian
}

/// Returns likelihoods of amounts with exact zeros for numbers that may be such amounts, if the user did not ask for numbers. The losses of
/// other likelihoods are made comparable: see [`Trials::losses`](super::trial::Trials).
fn likelihoods_of_amounts(options: &FitOptions, y: &[f64]) -> &'static [LikelihoodKind] {
    match asked_for_nothing(options) && options.model == ModelKind::Gp && may_be_amounts(y) {
        true => &[LikelihoodKind::HurdleGamma, LikelihoodKind::Tweedie],
        false => &[],
    }
}

/// Returns true if targets are numbers of 0 or more, a clear share of them exactly 0, and the others neither whole numbers nor few distinct ones.
pub(super) fn may_be_amounts(y: &[f64]) -> bool {
    let positive: Vec<f64> = y.iter().copied().filter(|&y| y != 0.0).collect();
    let zeros = y.len() - positive.len();
    zeros as f64 > ZEROS * y.len() as f64
        && positive.iter().all(|&y| y > 0.0)
        && positive.iter().any(|y| y.fract() != 0.0)
        && !has_levels(&positive)
}

/// Returns true if targets are whole numbers from 0 to more than [`WIDE`], with more than few distinct values.
pub(super) fn may_be_counts(y: &[f64]) -> bool {
    let whole = y.iter().all(|&y| y >= 0.0 && y.fract() == 0.0 && y <= HIGHEST_WHOLE);
    whole && y.contains(&0.0) && y.iter().any(|&y| y > WIDE) && !has_levels(y)
}

/// Returns true if targets have few distinct values.
fn has_levels(y: &[f64]) -> bool {
    let different: HashSet<u64> = y.iter().map(|y| y.to_bits()).collect();
    different.len() < DIFFERENT.min(y.len() / 2)
}
