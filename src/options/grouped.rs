//! Checks of the options that are combined with grouped effects.

use super::check::{first_of, refuse_if};
use super::fit::FitOptions;
use super::words::{Hyper, ModelKind, ObjectiveKind};
use crate::data::{InputWarp, TargetWarp};
use crate::effects::EffectTerm;
use crate::error::{Error, Result};

/// The maximum number of effects that one dense matrix couples: in every evaluation without neighbours; at the end of the training with
/// neighbours, whose hyper-parameters are trained on a part of many levels.
const MOST_COUPLED: usize = 6000;
const MOST_BESIDE_NEIGHBOURS: usize = 12_000;

impl FitOptions {
    /// Refuses options that grouped effects cannot be combined with.
    pub(super) fn check_groups(&self) -> Result<()> {
        if self.effects.is_empty() {
            return Ok(());
        }
        let (kind, gaussian) = (self.likelihood_kind(), self.likelihood_kind().has_gaussian_noise());
        let default = FitOptions::default();
        let prior = (self.prior_mean, self.prior_variance) != (default.prior_mean, default.prior_variance);
        let by_batches = !matches!(self.hyper, None | Some(Hyper::Collapsed | Hyper::Fixed));
        let known = match self.objective {
            ObjectiveKind::Elbo => true,
            ObjectiveKind::Vfe | ObjectiveKind::Fitc => self.neighbours.is_none(),
            ObjectiveKind::DlmLog => self.neighbours.is_some(),
            ObjectiveKind::DlmSquare => false,
        };
        let other = [
            (kind.is_joint(), format!("⟨likelihood {kind}⟩")),
            (!known, format!("⟨objective {}⟩", self.objective)),
            (self.reml && !gaussian, format!("⟨reml⟩ with ⟨likelihood {kind}⟩")),
            (self.reml && self.beta != 1.0, "⟨reml⟩ with ⟨beta⟩".to_owned()),
            (self.estimator.is_sampled(), format!("⟨estimator {}⟩", self.estimator)),
            (self.growth.is_some(), "⟨inducing auto⟩".to_owned()),
            (by_batches, format!("⟨hyper {}⟩", self.hyper_mode())),
            (self.warp_inputs != InputWarp::None, "⟨warp_inputs⟩".to_owned()),
            (self.warp_target != TargetWarp::None, "⟨warp_target⟩".to_owned()),
            (self.model == ModelKind::Glm && prior, "⟨prior_variance⟩".to_owned()),
        ];
        let Some(name) = first_of(other) else { return self.check_coupled() };
        let hint = if by_batches {
            "grouped effects solve for q on all rows at every step: leave ⟨hyper⟩ out, or use fixed"
        } else {
            "grouped effects need a likelihood of one latent function and ⟨objective elbo⟩; or Gaussian noise and vfe or fitc; or ⟨neighbours⟩ and dlm-log"
        };
        Err(Error::usage(format!("{name} cannot be combined with ⟨group⟩")).hint(hint))
    }

    /// Returns the number of effects of all groupings except the largest, which one dense matrix couples in a fit without neighbours.
    pub fn coupled_effects(&self) -> usize {
        let sizes = || self.effects.iter().map(EffectTerm::coefficients);
        sizes().sum::<usize>() - sizes().max().unwrap_or(0)
    }

    /// Refuses more effects than fit in one dense matrix. Without neighbours the largest grouping is eliminated and does not count.
    fn check_coupled(&self) -> Result<()> {
        let (coupled, which, most) = match self.neighbours {
            Some(_) => (
                self.effects.iter().map(EffectTerm::coefficients).sum(),
                "groupings beside ⟨neighbours⟩",
                MOST_BESIDE_NEIGHBOURS,
            ),
            None => (self.coupled_effects(), "groupings other than the largest", MOST_COUPLED),
        };
        refuse_if(coupled > most, || {
            Error::usage(format!("the {which} have {coupled} effects in total, expected at most {most}"))
                .hint("leave a ⟨group⟩ out, or merge rare levels")
        })
    }
}
