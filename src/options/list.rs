//! The one list of the options of a fit: what each is called and which fits it is for; no values, no checks.

/// The fits that an option has an effect on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// All fits, unless a separate check refuses the option.
    Any,
    /// Fits whose q takes steps on mini-batches.
    Steps,
    /// Sparse Gaussian processes.
    Sparse,
    /// Linear models.
    Linear,
    /// Linear models whose q takes steps on mini-batches.
    LinearSteps,
}

/// An option of a fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its name in Python and, with `-` for `_`, on the command line.
    pub name: &'static str,
    pub effect: Effect,
}

const fn option(name: &'static str, effect: Effect) -> Entry {
    Entry { name, effect }
}

/// All options, in the order in which messages name the first of several.
pub(super) const OPTIONS: [Entry; 58] = [
    option("task", Effect::Any),
    option("likelihood", Effect::Any),
    option("model", Effect::Any),
    option("prior_mean", Effect::Linear),
    option("prior_variance", Effect::Linear),
    option("reml", Effect::Linear),
    option("objective", Effect::Any),
    option("beta", Effect::Any),
    option("hyper", Effect::Any),
    option("hyper_optimizer", Effect::Any),
    option("estimator", Effect::Any),
    option("quadrature_nodes", Effect::Any),
    option("kernel", Effect::Sparse),
    option("mean", Effect::Any),
    option("inducing", Effect::Sparse),
    option("inducing_tolerance", Effect::Any),
    option("max_inducing", Effect::Any),
    option("inducing_init", Effect::Sparse),
    option("fix_inducing", Effect::Sparse),
    option("neighbours", Effect::Sparse),
    option("keep_rows", Effect::Any),
    option("keep_single", Effect::Any),
    option("warp_inputs", Effect::Sparse),
    option("warp_target", Effect::Sparse),
    option("standardize", Effect::Any),
    option("auto", Effect::Any),
    option("jitter", Effect::Sparse),
    option("family", Effect::Steps),
    option("q_update", Effect::Steps),
    option("q_step", Effect::Steps),
    option("q_guard", Effect::Steps),
    option("q_average", Effect::Steps),
    option("q_bounds", Effect::Steps),
    option("q_nonnegative", Effect::LinearSteps),
    option("q_smoothness", Effect::Steps),
    option("polish", Effect::Steps),
    option("learning_rate", Effect::Steps),
    option("batch_size", Effect::Steps),
    option("batch_schedule", Effect::Steps),
    option("sample_schedule", Effect::Steps),
    option("max_steps", Effect::Steps),
    option("precision", Effect::Steps),
    option("warm_start", Effect::Sparse),
    option("start", Effect::Any),
    option("fix", Effect::Any),
    option("bounds", Effect::Any),
    option("prior", Effect::Any),
    option("tie", Effect::Any),
    option("default_priors", Effect::Sparse),
    option("epochs", Effect::Any),
    option("max_seconds", Effect::Any),
    option("tolerance", Effect::Any),
    option("stop_at", Effect::Any),
    option("stop_range", Effect::Any),
    option("patience", Effect::Any),
    option("validation_fraction", Effect::Any),
    option("restarts", Effect::Any),
    option("seed", Effect::Any),
];

/// The names of the options that have one of these effects.
pub(super) fn names_of(effects: &'static [Effect]) -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().filter(|option| effects.contains(&option.effect)).map(|option| option.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::FitOptions;
    use serde_json::{Map, json};
    use std::collections::BTreeSet;

    /// The fields that users give by other options.
    const OTHERWISE: [&str; 3] = ["constraints", "growth", "open"];

    #[test]
    fn every_field_of_the_options_is_in_the_list_once() {
        let json = serde_json::to_value(FitOptions::default()).expect("options as JSON");
        let names: BTreeSet<&str> = OPTIONS.iter().map(|option| option.name).collect();
        assert_eq!(names.len(), OPTIONS.len());
        let fields = json.as_object().expect("fields").keys().map(String::as_str);
        let missing: Vec<&str> =
            fields.filter(|name| !OTHERWISE.contains(name) && !names.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_option_of_the_list_is_read() {
        for Entry { name, .. } in OPTIONS {
            let values = Map::from_iter([(name.to_owned(), json!({ "no": "value" }))]);
            let error = FitOptions::named(&values, &[]).expect_err(name);
            assert!(error.options().contains(&name.to_owned()), "{name}: {error}");
        }
    }
}
