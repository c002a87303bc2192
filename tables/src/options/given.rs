//! The names of the options that the user set, and the checks and defaults that depend on them.

use super::{Effect, Kind, find, names_of};
use sparsegp::error::{Error, Result};
use sparsegp::options::{FitOptions, Hyper, HyperOptimizer, ModelKind, ObjectiveKind, Open, Part, foreign};
use sparsegp::variational::QUpdate;
use std::collections::BTreeSet;

/// The names of the options that the user set. Options that are not set can be chosen automatically. An option that is set and has no
/// effect is refused, even if its value is the default.
#[derive(Clone, Debug, Default)]
pub struct Given(BTreeSet<String>);

impl<N: Into<String>> FromIterator<N> for Given {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Given {
        Given(names.into_iter().map(Into::into).collect())
    }
}

impl Given {
    /// Returns true if an option was set.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Returns the first of these options that was set, as messages spell it.
    fn first(&self, names: impl IntoIterator<Item = &'static str>) -> Option<String> {
        let name = names.into_iter().find(|name| self.has(name))?;
        let is_switch = find(name).is_some_and(|option| matches!(option.kind, Kind::Switch));
        // A switch is on by default, so it was set only if it is off.
        Some(if is_switch { format!("⟨{name} false⟩") } else { format!("⟨{name}⟩") })
    }

    /// Returns the parts of `all` that are chosen on held-out rows, which are those that the user did not set.
    pub fn open(&self, all: Open) -> Open {
        if self.has("from") || self.has("betas") {
            return Open::NOTHING;
        }
        let named = [
            (Part::Mean, self.has("mean")),
            (Part::Likelihood, self.has("likelihood")),
            (Part::Kernel, self.has("kernel")),
            // A kernel may have parameters, such as periods, in the units of the columns.
            (Part::WarpInputs, self.has("warp_inputs") || self.has("kernel")),
            (Part::WarpTarget, self.has("warp_target")),
            (Part::Neighbours, self.has("neighbours")),
            (Part::Objective, self.has("objective") || self.has("beta")),
            (Part::Inducing, self.has("inducing")),
            (Part::HyperPosterior, self.has("hyper_posterior")),
        ];
        let named = named.into_iter().filter_map(|(part, named)| named.then_some(part));
        all.without(&named.collect::<Vec<_>>())
    }

    /// Returns the first set option that has an effect only on mini-batches, as messages spell it. The learning rate also applies to Adam
    /// on all rows, and the warm start to the squared error.
    pub fn mini_batch_option(&self, options: &FitOptions) -> Option<String> {
        let has_rate = options.hyper_optimizer == Some(HyperOptimizer::Adam);
        let names = names_of(&[Effect::Steps, Effect::LinearSteps]);
        let names = names.filter(|name| !has_rate || *name != "learning_rate");
        let warm_start = || (options.objective != ObjectiveKind::DlmSquare).then_some("warm_start");
        self.first(names).or_else(|| self.first(warm_start()))
    }

    /// Returns the options for mini-batches if an option about mini-batches is set, even if there is a closed form. Otherwise returns the
    /// options unchanged.
    pub fn by_batches(&self, options: FitOptions) -> FitOptions {
        let wanted = options.objective == ObjectiveKind::Elbo && self.mini_batch_option(&options).is_some();
        if wanted { options.by_batches() } else { options }
    }

    /// Refuses options that have no effect on the kind of model or with the update rule.
    ///
    /// # Errors
    ///
    /// Returns a usage error that names the first such option.
    pub fn check(&self, options: &FitOptions) -> Result<()> {
        let foreigners: &'static [Effect] = match options.model {
            ModelKind::Gp => &[Effect::Linear, Effect::LinearSteps],
            ModelKind::Glm => &[Effect::Sparse],
        };
        if let Some(name) = self.first(names_of(foreigners)) {
            return Err(foreign(&name, options.model));
        }
        let about_growth = self.first(["inducing_tolerance", "max_inducing"]);
        if let Some(name) = about_growth.filter(|_| options.growth.is_none()) {
            return Err(Error::usage(format!("{name} has no effect without ⟨inducing auto⟩")));
        }
        let update = options.steps.q_update;
        if self.has("q_guard") && self.has("q_update") && update.rule().guards.is_empty() {
            let rules = QUpdate::those(|rule| !rule.guards.is_empty());
            return Err(Error::usage(format!("⟨q_guard⟩ is for ⟨q_update {rules}⟩, not {update}")));
        }
        Ok(())
    }

    /// Refuses options that have no effect on the objective and mode of hyper-parameters of these options.
    ///
    /// # Errors
    ///
    /// Returns a usage error that names the first such option.
    pub fn check_training(&self, options: &FitOptions) -> Result<()> {
        if let (true, Some(name)) = (options.is_collapsed(), self.mini_batch_option(options)) {
            let (objective, hyper) = (options.objective, options.hyper_mode());
            return Err(Error::usage(format!(
                "{name} is for mini-batches and has no effect on ⟨objective {objective}⟩ with ⟨hyper {hyper}⟩"
            ))
            .hint(format!("leave {name} out, or use ⟨objective elbo⟩ or dlm-log with ⟨hyper joint⟩")));
        }
        let moves_q = options.has_own_q() && options.neighbours.is_none();
        if options.hyper == Some(Hyper::Fixed) && options.hyper_optimizer.is_some() && !moves_q {
            return Err(Error::usage("⟨hyper_optimizer⟩ has no effect with ⟨hyper fixed⟩"));
        }
        if let (Some(Hyper::Fixed), Some(name)) = (options.hyper, options.constraints.about_training()) {
            return Err(Error::usage(format!(
                "{name} changes how hyper-parameters are trained and has no effect with ⟨hyper fixed⟩"
            ))
            .hint("leave ⟨hyper⟩ out, and use ⟨fix NAME=VALUE⟩ to fix single hyper-parameters"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_options_are_not_chosen_and_options_without_effect_are_refused() {
        let given: Given = ["kernel", "beta"].into_iter().collect();
        assert_eq!(
            given.open(Open::EVERYTHING).to_string(),
            "warp-target,likelihood,neighbours,inducing,mean,hyper-posterior"
        );
        assert_eq!(Given::from_iter(["betas"]).open(Open::EVERYTHING), Open::NOTHING);

        let glm = FitOptions { model: ModelKind::Glm, ..FitOptions::default() };
        let error = given.check(&glm).expect_err("a kernel of a linear model");
        assert_eq!(error.options(), ["kernel", "model", "model"]);
    }

    #[test]
    fn an_option_about_mini_batches_selects_mini_batches() {
        let given: Given = ["batch_size"].into_iter().collect();
        assert_eq!(given.by_batches(FitOptions::default()).hyper, Some(Hyper::Dual));
        assert_eq!(Given::default().by_batches(FitOptions::default()).hyper, None);

        let closed = FitOptions { objective: ObjectiveKind::Vfe, ..FitOptions::default() };
        assert!(Given::default().check_training(&closed).is_ok());
        let error = given.check_training(&closed).expect_err("no batches in a closed form");
        assert_eq!(error.options()[0], "batch_size");
    }
}
