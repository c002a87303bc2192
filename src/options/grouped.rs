//! Checks of the options that are combined with grouped effects.

use super::fit::FitOptions;
use super::refuse::{first_of, refuse_if};
use super::words::{ModelKind, ObjectiveKind};
use crate::data::{InputWarp, TargetWarp};
use crate::effects::EffectTerm;
use crate::error::{Error, Result};

/// The maximum number of effects that one dense matrix couples: in every evaluation in closed form; in every step on q, which couples all of
/// them; at the end of the training with neighbours, whose hyper-parameters are trained on a part of many levels.
const MOST_COUPLED: usize = 6000;
pub(crate) const MOST_IN_STEPS: usize = 3000;
const MOST_BESIDE_NEIGHBOURS: usize = 12_000;

impl FitOptions {
    /// Refuses options that grouped effects cannot be combined with.
    pub(super) fn check_groups(&self) -> Result<()> {
        if self.effects.is_empty() {
            return Ok(());
        }
        let (kind, eliminates) = (self.likelihood_kind(), self.eliminates_effects());
        let likelihood_of_reml = eliminates && kind.has_gaussian_noise();
        let default = FitOptions::default();
        let prior = (self.prior_mean, self.prior_variance) != (default.prior_mean, default.prior_variance);
        let other = [
            (
                self.reml && !likelihood_of_reml,
                format!("⟨reml⟩ with ⟨likelihood {kind}⟩ and ⟨objective {}⟩", self.objective),
            ),
            (self.reml && self.beta != 1.0, "⟨reml⟩ with ⟨beta⟩".to_owned()),
            (
                self.neighbours.is_some()
                    && matches!(self.objective, ObjectiveKind::DlmSquare | ObjectiveKind::Fitc),
                format!("⟨objective {}⟩ with ⟨neighbours⟩", self.objective),
            ),
            (self.warp_inputs != InputWarp::None, "⟨warp_inputs⟩".to_owned()),
            (self.warp_target != TargetWarp::None, "⟨warp_target⟩".to_owned()),
            (self.model == ModelKind::Glm && prior && eliminates, "⟨prior_variance⟩".to_owned()),
        ];
        let Some(name) = first_of(other) else { return self.check_coupled() };
        Err(Error::usage(format!("{name} cannot be combined with ⟨group⟩")).hint("leave one of the two out"))
    }

    /// Returns the number of effects of all groupings except the largest, which one dense matrix couples in a fit without neighbours.
    pub fn coupled_effects(&self) -> usize {
        let sizes = || self.effects.iter().map(EffectTerm::coefficients);
        sizes().sum::<usize>() - sizes().max().unwrap_or(0)
    }

    /// Refuses more effects than fit in one dense matrix. In closed form the largest grouping is eliminated and does not count.
    fn check_coupled(&self) -> Result<()> {
        let all = self.effects.iter().map(EffectTerm::coefficients).sum();
        let (coupled, which, most) = if self.neighbours.is_some() {
            (all, "groupings beside ⟨neighbours⟩", MOST_BESIDE_NEIGHBOURS)
        } else if self.eliminates_effects() {
            (self.coupled_effects(), "groupings other than the largest", MOST_COUPLED)
        } else {
            (all, "groupings of a fit by steps on q", MOST_IN_STEPS)
        };
        refuse_if(coupled > most, || {
            Error::usage(format!("the {which} have {coupled} effects in total, expected at most {most}"))
                .hint("leave a ⟨group⟩ out, or merge rare levels")
        })
    }
}
