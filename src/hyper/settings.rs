//! Settings of single hyper-parameter values, which override those of their parameters: ranges,
//! priors, fixed, tied.

use super::vector::Descriptor;
use serde::{Deserialize, Serialize};
use sparsegp_kernels::{Prior, Transform};
use std::collections::{BTreeMap, HashSet};

/// The origin of the prior of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub(crate) enum PriorChoice {
    /// The weak default prior.
    Default(Prior),
    /// A prior that the user gave.
    Given(Prior),
    /// The user removed the prior.
    Flat,
}

impl PriorChoice {
    fn prior(self) -> Option<Prior> {
        match self {
            PriorChoice::Default(prior) | PriorChoice::Given(prior) => Some(prior),
            PriorChoice::Flat => None,
        }
    }
}

/// The settings of one value; unset ones are those of its parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ValueSetting {
    /// The range, limited by the bounds.
    pub transform: Option<Transform>,
    /// The prior; in files it is called `belief`.
    #[serde(rename = "belief")]
    pub prior: Option<PriorChoice>,
    /// True if the value is fixed.
    pub fixed: bool,
    /// The group of values that are tied to one free number.
    pub tie: Option<usize>,
}

/// Settings by full name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ValueSettings {
    pub(super) by_name: BTreeMap<String, ValueSetting>,
}

impl ValueSettings {
    /// Returns the settings of a value.
    pub(crate) fn setting(&self, name: &str) -> Option<&ValueSetting> {
        self.by_name.get(name)
    }

    /// Applies the settings to `descriptors`.
    pub(crate) fn apply(&self, descriptors: &mut [Descriptor]) {
        if self.by_name.is_empty() {
            return;
        }
        for descriptor in descriptors.iter_mut().filter(|descriptor| descriptor.is_named()) {
            let Some(setting) = self.by_name.get(&descriptor.name) else { continue };
            descriptor.transform = setting.transform.unwrap_or(descriptor.transform);
            descriptor.prior = setting.prior.map_or(descriptor.prior, PriorChoice::prior);
            descriptor.fixed |= setting.fixed;
            descriptor.tie = setting.tie;
        }
    }

    /// Replaces the default priors, except for values whose prior the user set.
    pub(crate) fn set_default_priors(&mut self, priors: impl IntoIterator<Item = (String, Prior)>) {
        for setting in self.by_name.values_mut() {
            setting.prior = setting.prior.filter(|prior| !matches!(prior, PriorChoice::Default(_)));
        }
        for (name, prior) in priors {
            self.by_name.entry(name).or_default().prior.get_or_insert(PriorChoice::Default(prior));
        }
        self.by_name.retain(|_, setting| *setting != ValueSetting::default());
    }

    /// Returns true if every setting belongs to one of these values and has valid numbers.
    pub(crate) fn suits(&self, descriptors: &[Descriptor]) -> bool {
        let sound = |setting: &ValueSetting| {
            let (lower, upper) = setting.transform.map_or((0.0, 1.0), Transform::range);
            lower < upper && setting.prior.and_then(PriorChoice::prior).is_none_or(Prior::is_proper)
        };
        let names: HashSet<&str> = named(descriptors).map(|(_, d)| d.name.as_str()).collect();
        self.by_name.iter().all(|(name, setting)| sound(setting) && names.contains(name.as_str()))
    }
}

/// Returns the descriptors of all named values (all except inducing inputs), with their indices.
pub(crate) fn named(descriptors: &[Descriptor]) -> impl Iterator<Item = (usize, &Descriptor)> + Clone {
    descriptors.iter().enumerate().filter(|(_, descriptor)| descriptor.is_named())
}

/// A range in words.
pub(crate) fn range_words(transform: Transform) -> String {
    match transform {
        Transform::Identity => "any number".to_owned(),
        Transform::Positive { lower } => format!("above {lower}"),
        Transform::Below { upper } => format!("below {upper}"),
        Transform::Bounded { lower, upper } => format!("between {lower} and {upper}"),
    }
}
