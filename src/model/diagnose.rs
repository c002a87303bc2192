//! What a user should know about a fit: warnings with their evidence and the option to try; no training.

use super::latent::LatentModel;
use super::options::FitOptions;
use crate::collapsed::Dataset;
use crate::data::moments::Moments;
use crate::hyper::{Outcome, StopReason};
use crate::latent::Jitter;
use crate::likelihood::{Gaussian, LikelihoodKind};
use sparsegp_kernels::Scratch;

/// The absolute jitter in use.
pub(super) fn absolute_jitter(model: &LatentModel) -> f64 {
    let Some(layer) = model.layer.inducing() else { return 0.0 };
    match layer.used_jitter() {
        Jitter::Absolute(jitter) => jitter,
        Jitter::Relative(ratio) => {
            let z = layer.z();
            let mut diag = vec![0.0; z.nrows()];
            layer.kernel().diag(z, &mut diag, &mut Scratch::new());
            ratio * diag.iter().sum::<f64>() / diag.len() as f64
        }
    }
}

/// Warnings about a finished fit.
pub(super) fn diagnose(
    model: &LatentModel,
    train: Dataset<'_>,
    options: &FitOptions,
    outcome: &Outcome,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if model.likelihood.kind() == LikelihoodKind::Gaussian {
        warnings.extend(about_noise(model, train));
    }
    if let Some(layer) = model.layer.inducing().filter(|layer| layer.used_jitter() != layer.jitter()) {
        warnings.push(format!(
            "the jitter had to be raised from {:?} to {:?}: inducing inputs are nearly duplicates or lengthscales very long; try fewer --inducing",
            layer.jitter(),
            layer.used_jitter()
        ));
    }
    if outcome.rollbacks > 0 {
        warnings.push(format!("{} steps were taken back or shrunk", outcome.rollbacks));
    }
    if outcome.reason == StopReason::NoProgress {
        warnings.push(
            "training did not improve on its start, which was kept; try a smaller --learning-rate or --q-step, or --q-guard trust".into(),
        );
    }
    if outcome.reason == StopReason::MaxEpochs && options.epochs.is_none() {
        warnings.push("the epoch limit came before convergence; try more --epochs".into());
    }
    warnings
}

fn about_noise(model: &LatentModel, train: Dataset<'_>) -> Option<String> {
    let variance = Moments::of(train.targets.y.iter().copied()).variance()?;
    let mut noise = f64::NAN;
    model.likelihood.for_each_parameter(&mut |p| noise = p.values[0]);
    if noise > 0.98 * variance {
        let advice = match model.layer.inducing() {
            Some(_) => "try another --kernel or --seed",
            None => "try other columns, or --model gp",
        };
        return Some(format!(
            "the noise variance explains {:.1} % of the target's variance: the inputs were not found to predict it; {advice}",
            100.0 * noise / variance
        ));
    }
    (noise < 2.0 * Gaussian::NOISE_FLOOR).then(|| {
        format!(
            "the noise variance {noise:.1e} is at its floor: the target is a nearly exact function of the inputs, or of a column that gives it away; check with --exclude"
        )
    })
}
