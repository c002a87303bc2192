//! Gives up automatic choices step by step, for fits that fail with all of them.

use super::settled;
use super::trial::Judged;
use crate::error::{Error, ErrorKind};
use crate::latent::Jitter;
use crate::model::{Choice, Choices, Warning};
use crate::options::{FitOptions, Part};
use crate::training::run::Fitted;
use std::sync::Arc;

/// The settings that are given up together, in this order. Settings that the user gave are never given up.
const RUNGS: [&[Part]; 3] = [
    &[Part::Objective, Part::Neighbours],
    &[Part::WarpInputs, Part::WarpTarget],
    &[Part::Likelihood, Part::Kernel],
];

const MORE_JITTER: Jitter = Jitter::Relative(1e-4);

/// Options with every setting chosen, and the choices that can still be given up if a fit fails.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The options to fit with.
    pub options: FitOptions,
    /// The options before anything was decided.
    pub(super) asked: FitOptions,
    choices: Option<Choices>,
    /// The choices that were given up, in words, and the error of the first fit.
    given_up: Vec<String>,
    error: Option<String>,
    /// The best short fit.
    pub(super) best: Option<Arc<Judged>>,
}

impl Chosen {
    /// Creates options as the user gave them, without choices to give up.
    pub fn as_asked(options: FitOptions) -> Chosen {
        Chosen {
            asked: options.clone(),
            options,
            choices: None,
            given_up: Vec::new(),
            error: None,
            best: None,
        }
    }

    /// Creates the options that were chosen. `asked` are the options before the choice.
    pub(super) fn new(asked: &FitOptions, options: FitOptions, choices: Option<Choices>) -> Chosen {
        Chosen { asked: asked.clone(), choices, ..Chosen::as_asked(options) }
    }

    /// Adds a choice that was made after the others, with the options that it changed.
    pub fn then(mut self, choice: Choice, options: Option<FitOptions>) -> Chosen {
        self.options = options.unwrap_or(self.options);
        if let Some(choices) = &mut self.choices {
            choices.seconds += choice.tried.iter().map(|one| one.seconds).sum::<f64>();
            choices.parts.push(choice);
        }
        self
    }

    /// Gives up the next choices because a fit failed with `error`. Returns false if the error is not numerical, or nothing is left to give
    /// up.
    pub fn give_up(&mut self, error: &Error) -> bool {
        if error.kind() != ErrorKind::Fit || self.asked.open.is_empty() {
            return false;
        }
        let Some((options, words)) = self.next_rung() else { return false };
        self.error.get_or_insert_with(|| error.to_string());
        self.given_up.push(words);
        self.options = FitOptions { found: Vec::new(), ..options };
        true
    }

    fn next_rung(&self) -> Option<(FitOptions, String)> {
        let given_up = |parts: &[Part]| {
            let open = parts.iter().filter(|&&part| self.asked.open.contains(part));
            let options =
                open.fold(self.options.clone(), |options, &part| options.with_part_of(part, &self.asked));
            let changed: Vec<String> = parts
                .iter()
                .filter(|&&part| options.word_of(part) != self.options.word_of(part))
                .map(|&part| format!("{part} {}", options.word_of(part)))
                .collect();
            (!changed.is_empty() && options.validate().is_ok()).then(|| (options, changed.join(" and ")))
        };
        let of_jitter = || {
            let more = FitOptions { jitter: MORE_JITTER, ..self.options.clone() };
            (self.options.jitter == Jitter::DEFAULT).then(|| (more, "⟨jitter 0.0001⟩".to_owned()))
        };
        RUNGS.into_iter().find_map(given_up).or_else(of_jitter)
    }

    /// Returns the final choices, and a warning if some were given up.
    fn into_record(self) -> (Option<Choices>, Option<Warning>) {
        // Without short fits, too, the posterior of hyper-parameters may differ from what was asked.
        let averages = self.options.word_of(Part::HyperPosterior) != self.asked.word_of(Part::HyperPosterior);
        let open = averages && self.asked.open.contains(Part::HyperPosterior);
        let choices = self.choices.or_else(|| open.then(Choices::default));
        let choices = choices.map(|choices| settled(choices, &self.asked, &self.options));
        let warning =
            self.error.map(|error| Warning::FellBack { error, instead: self.given_up.join(", then ") });
        (choices, warning)
    }
}

impl Fitted {
    /// Adds the choices before the fit, and the reasons for dropped choices.
    #[doc(hidden)]
    pub fn decided_by(&mut self, mut chosen: Chosen) {
        chosen.options.hyper_posterior = self.hyper_posterior();
        let (choices, warning) = chosen.into_record();
        self.summary.warnings.extend(warning);
        let Some(choices) = choices else { return };
        let of_neighbours = choices.parts.iter().any(|choice| choice.part == Part::Neighbours);
        for warning in &mut self.summary.warnings {
            if let Warning::LooseBound { without_neighbours, .. } = warning {
                *without_neighbours = of_neighbours;
            }
        }
        self.search.choices = Some(choices);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{InputWarp, TargetWarp};
    use crate::options::Open;

    fn chosen(open: Open) -> Chosen {
        let asked = FitOptions { open, ..FitOptions::default() };
        let options = FitOptions {
            open: Open::NOTHING,
            kernel: "matern32(ard)".into(),
            warp_inputs: InputWarp::NormalScores,
            warp_target: TargetWarp::Softplus,
            ..asked.with_neighbours(50)
        };
        Chosen::new(&asked, options, None)
    }

    #[test]
    fn choices_are_given_up_one_rung_at_a_time_and_then_jitter_is_raised() {
        let mut all = chosen(Open::EVERYTHING);
        let error = Error::fit("no value");
        assert!(!all.give_up(&Error::data("a bad row")), "only numerical errors");
        assert!(all.give_up(&error) && all.options.neighbours.is_none());
        assert_eq!(all.options.warp_inputs, InputWarp::NormalScores);
        assert!(all.give_up(&Error::fit("again")) && all.options.warp_target == TargetWarp::None);
        assert!(all.give_up(&error) && all.options.kernel == FitOptions::default().kernel);
        assert!(all.give_up(&error) && all.options.jitter == MORE_JITTER);
        assert!(!all.give_up(&error));
        let Some(Warning::FellBack { error, instead }) = all.into_record().1 else { panic!("a warning") };
        assert_eq!(error, "no value");
        assert!(
            instead.starts_with("neighbours none, then warp-inputs none and warp-target none"),
            "{instead}"
        );
    }

    #[test]
    fn options_that_the_user_set_are_never_given_up() {
        let open = Open::EVERYTHING.without(&[Part::Neighbours, Part::WarpInputs]);
        let mut some = chosen(open);
        while some.give_up(&Error::fit("no value")) {}
        assert_eq!((some.options.neighbours, some.options.warp_inputs), (Some(50), InputWarp::NormalScores));
        assert_eq!(some.options.warp_target, TargetWarp::None);
        assert!(!chosen(Open::NOTHING).give_up(&Error::fit("no value")));
    }
}
