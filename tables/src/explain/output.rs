//! The numbers of a prediction that are explained, at many inputs.

use faer::MatRef;
use rayon::prelude::*;
use sparsegp::likelihood::TargetKind;
use sparsegp::model::{Model, Predictions};

/// The kind of number that is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The predictive mean, in units of the target; for ordered levels the index of the level.
    Mean,
    /// The probability of a class, by its position among the target's classes.
    Probability(usize),
    /// The latent function, on the scale of the link.
    Latent,
}

impl Scale {
    /// Returns the scales that are explained: the mean, the probability of the positive class of
    /// two, or the probabilities of the `most` classes that are most probable on average over the
    /// predictions `rows`, the most probable first.
    pub(super) fn all(model: &Model, rows: &Predictions, most: usize) -> Vec<Scale> {
        let likelihood = &model.latent().likelihood;
        match likelihood.target_kind() {
            TargetKind::Binary => vec![Scale::Probability(1)],
            TargetKind::Class if likelihood.levels() <= most => {
                (0..likelihood.levels()).map(Scale::Probability).collect()
            }
            TargetKind::Class => {
                let shares = mean_probabilities(rows);
                let mut classes: Vec<usize> = (0..shares.len()).collect();
                classes.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]));
                classes.truncate(most);
                classes.into_iter().map(Scale::Probability).collect()
            }
            _ => vec![Scale::Mean],
        }
    }

    /// Returns the index of the latent function on which the number mainly depends; `None` if there
    /// is no such function.
    pub(super) fn function(self, model: &Model) -> Option<usize> {
        match (self, model.latent().likelihood.target_kind()) {
            (Scale::Probability(class), TargetKind::Class) => {
                (class < model.latent().processes()).then_some(class)
            }
            _ => Some(0),
        }
    }
}

/// Returns true if the predictive mean is the latent mean in units of the target.
pub(super) fn is_linear(model: &Model) -> bool {
    let likelihood = &model.latent().likelihood;
    likelihood.gaussian_noise().is_some()
        && likelihood.scales_target()
        && model.scaling().target_map().is_none()
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(super) fn mean_probabilities(rows: &Predictions) -> Vec<f64> {
    let all: Vec<Vec<f64>> = (0..rows.rows()).into_par_iter().map(|row| rows.probabilities(row)).collect();
    let classes = all.first().map_or(0, Vec::len);
    let mean = |class: usize| all.iter().map(|row| row[class]).sum::<f64>() / all.len() as f64;
    (0..classes).map(mean).collect()
}

/// Returns the number that `scale` selects for every row of predictions.
pub(super) fn values(model: &Model, predictions: &Predictions, scale: Scale) -> Vec<f64> {
    let several = model.latent().likelihood.target_kind() == TargetKind::Class;
    let value = |row: usize| match scale {
        // The probability of one class takes a fraction of the time of all probabilities.
        Scale::Probability(class) if several => predictions.log_density(row, class as f64).exp(),
        Scale::Mean | Scale::Probability(_) => predictions.row(row).mean,
        Scale::Latent => predictions.latent(row, 0).0,
    };
    (0..predictions.rows()).into_par_iter().map(value).collect()
}

/// Returns the number that `scale` selects at inputs in original units (`n × D`), all with the same
/// exposure.
pub(super) fn at(model: &Model, x: MatRef<'_, f64>, exposure: f64, scale: Scale) -> Vec<f64> {
    if scale == Scale::Latent || (scale == Scale::Mean && is_linear(model)) {
        let means = model.latent_means(x);
        return match scale {
            Scale::Mean => means.into_iter().map(|mean| model.scaling().unscale_mean(mean)).collect(),
            _ => means,
        };
    }
    let exposure = if exposure == 1.0 { Vec::new() } else { vec![exposure; x.nrows()] };
    values(model, &model.predict_rows(x, exposure), scale)
}
