//! Applies constraints: constraints by name become settings of single values, which override those of their parameters, or are refused.

use super::constraints::{BoundsFor, Columns, Constraints, FixFor, NamePattern, PriorFor, StartFor, Tie};
use super::vector::{Descriptor, stem};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use sparsegp_kernels::{Prior, Transform};
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// The distance from the edge, as a share of the range, at which a start outside its bounds is
/// moved inside.
const START_SHARE: f64 = 0.1;

impl Constraints {
    /// Applies the constraints: records them in `settings`, and moves `values` inside their bounds,
    /// to their fixed values, and together if they are tied. Starting values are only checked,
    /// because a fit that continues another one imposes its constraints again: see
    /// [`Constraints::start`]. `descriptors` describe the values with the previous `settings`;
    /// `lengths` has, for each of the first values, the inputs along which the value is a length.
    ///
    /// # Errors
    /// Usage errors for names without a match, values and priors outside a range, and settings without an effect.
    pub(crate) fn impose(
        &self,
        settings: &mut ValueSettings,
        descriptors: &[Descriptor],
        lengths: &[Vec<usize>],
        values: &mut [f64],
    ) -> Result<()> {
        let mut imposing = Imposing { settings, own: descriptors, lengths, columns: &self.columns, values };
        self.bounds.iter().try_for_each(|bounds| imposing.bound(bounds))?;
        self.fix.iter().try_for_each(|fix| imposing.fix(fix))?;
        self.tie.iter().try_for_each(|tie| imposing.tie(tie))?;
        self.prior.iter().try_for_each(|prior| imposing.set_prior(prior))?;
        self.start.iter().try_for_each(|start| imposing.check_start(start))?;
        imposing.check_ties()
    }

    /// Moves `values` to their starting values; the parameters are as for [`Constraints::impose`].
    pub(crate) fn start(
        &self,
        descriptors: &[Descriptor],
        lengths: &[Vec<usize>],
        values: &mut [f64],
    ) -> Result<()> {
        let settings = &mut ValueSettings::default();
        let imposing = Imposing { settings, own: descriptors, lengths, columns: &self.columns, values };
        for start in &self.start {
            let (found, unit) = imposing.find("⟨start⟩", start, &start.name)?;
            found.into_iter().for_each(|index| imposing.values[index] = start.value / unit);
        }
        Ok(())
    }
}

/// Constraints being applied: the settings so far, the descriptors of the parameters, the inputs along which each is a length, the columns
/// by name, and the values.
struct Imposing<'a> {
    settings: &'a mut ValueSettings,
    own: &'a [Descriptor],
    lengths: &'a [Vec<usize>],
    columns: &'a Columns,
    values: &'a mut [f64],
}

impl Imposing<'_> {
    fn bound(&mut self, bounds: &BoundsFor) -> Result<()> {
        let (found, unit) = self.free("⟨bounds⟩", bounds, &bounds.name)?;
        let end = |end: Option<f64>, none: f64| end.map_or(none, |end| end / unit);
        let (lower, upper) = (end(bounds.lower, f64::NEG_INFINITY), end(bounds.upper, f64::INFINITY));
        for index in found {
            let own = self.own[index].transform;
            let transform = own.within(lower, upper).ok_or_else(|| {
                Error::usage(format!(
                    "⟨bounds {bounds}⟩: the bounds leave no value for {}, which is {}",
                    self.own[index].name,
                    range_words(own)
                ))
            })?;
            // If a fit that continues another one repeats the bound, a value that training moved to the edge stays there.
            if self.setting(index).transform.replace(transform) != Some(transform) {
                self.values[index] = transform.inside(self.values[index], START_SHARE);
            }
        }
        Ok(())
    }

    /// Refuses a starting value of a fixed value, or outside its range.
    fn check_start(&self, start: &StartFor) -> Result<()> {
        let (found, unit) = self.free("⟨start⟩", start, &start.name)?;
        let option = format!("⟨start {start}⟩");
        found.into_iter().try_for_each(|index| self.check_range(index, start.value / unit, &option))
    }

    fn fix(&mut self, fix: &FixFor) -> Result<()> {
        let (found, unit) = self.find("⟨fix⟩", fix, &fix.name)?;
        for index in found {
            if let Some(value) = fix.value {
                self.check_range(index, value / unit, &format!("⟨fix {fix}⟩"))?;
                self.values[index] = value / unit;
            }
            self.setting(index).fixed = true;
        }
        Ok(())
    }

    /// Refuses a number outside the range of a value.
    fn check_range(&self, index: usize, value: f64, option: &str) -> Result<()> {
        let (name, transform) = (&self.own[index].name, self.transform(index));
        if !transform.admits(value) {
            return Err(Error::usage(format!(
                "{option}: the value is outside the range of {name}, which is {}",
                range_words(transform)
            )));
        }
        Ok(())
    }

    fn tie(&mut self, tie: &Tie) -> Result<()> {
        let mut members: Vec<usize> = Vec::new();
        for name in &tie.names {
            let (found, _) = self.find("⟨tie⟩", tie, name)?;
            members.extend(found.into_iter().filter(|index| !members.contains(index)).collect::<Vec<_>>());
        }
        // Ties are transitive: values that are already tied to a member join the group.
        let groups: Vec<usize> = members.iter().filter_map(|&index| self.group(index)).collect();
        let along = named(self.own).map(|(index, _)| index);
        let along = along.filter(|&index| self.group(index).is_some_and(|group| groups.contains(&group)));
        members.extend(along.filter(|index| !members.contains(index)).collect::<Vec<_>>());
        let [first, rest @ ..] = &members[..] else { return Ok(()) };
        if rest.is_empty() {
            return Err(Error::usage(format!(
                "⟨tie {tie}⟩: there is only one such value, {}, expected at least two",
                self.own[*first].name
            )));
        }
        let mut said = members.iter().filter_map(|&index| self.said_prior(index));
        let prior = said.next();
        if said.any(|other| Some(other) != prior) {
            return Err(Error::usage(format!("⟨tie {tie}⟩: the values have different priors"))
                .hint("tied values are one free number with one prior: set it with ⟨prior⟩"));
        }
        let group = 1 + self.settings.by_name.values().filter_map(|s| s.tie).max().unwrap_or(0);
        for &index in &members {
            self.values[index] = self.values[*first];
            let setting = self.setting(index);
            setting.tie = Some(group);
            setting.prior = prior;
        }
        Ok(())
    }

    fn set_prior(&mut self, prior: &PriorFor) -> Result<()> {
        let (found, unit) = self.free("⟨prior⟩", prior, &prior.name)?;
        for index in found {
            let (lower, _) = self.transform(index).range();
            if lower < 0.0 && prior.prior.is_some_and(Prior::needs_positive) {
                return Err(Error::usage(format!(
                    "⟨prior {prior}⟩: the prior is for positive numbers, but {} may be negative",
                    self.own[index].name
                ))
                .hint("use normal(mean,sd), or ⟨bounds⟩ with a lower end of 0 or above"));
            }
            let scaled = prior.prior.map(|prior| prior.scaled(1.0 / unit));
            let said = Some(scaled.map_or(PriorChoice::Flat, PriorChoice::Given));
            match self.group(index) {
                None => self.setting(index).prior = said,
                // The values are one number, which has one prior.
                group => {
                    let tied = self.settings.by_name.values_mut().filter(|setting| setting.tie == group);
                    tied.for_each(|setting| setting.prior = said);
                }
            }
        }
        Ok(())
    }

    /// Refuses tied values with different ranges, or of which only some are fixed.
    fn check_ties(&self) -> Result<()> {
        for (first, descriptor) in named(self.own) {
            let Some(group) = self.group(first) else { continue };
            for (other, _) in named(self.own) {
                if other <= first || self.group(other) != Some(group) {
                    continue;
                }
                let names = format!("{} and {}", descriptor.name, self.own[other].name);
                let (a, b) = (self.transform(first), self.transform(other));
                if a != b {
                    let (a, b) = (range_words(a), range_words(b));
                    return Err(Error::usage(format!("⟨tie⟩: {names} have different ranges: {a}, and {b}"))
                        .hint("give both the same ⟨bounds⟩"));
                }
                if self.is_fixed(first) != self.is_fixed(other)
                    || (self.is_fixed(first) && self.values[first] != self.values[other])
                {
                    return Err(Error::usage(format!(
                        "⟨tie⟩: {names} are tied, but only one of them is fixed, or they are fixed at different values"
                    ))
                    .hint("fix all tied values at one value, or none"));
                }
            }
        }
        Ok(())
    }

    fn setting(&mut self, index: usize) -> &mut ValueSetting {
        self.settings.by_name.entry(self.own[index].name.clone()).or_default()
    }

    fn group(&self, index: usize) -> Option<usize> {
        self.settings.setting(&self.own[index].name)?.tie
    }

    fn said_prior(&self, index: usize) -> Option<PriorChoice> {
        let prior = self.settings.setting(&self.own[index].name)?.prior;
        prior.filter(|prior| !matches!(prior, PriorChoice::Default(_)))
    }

    fn transform(&self, index: usize) -> Transform {
        let own = &self.own[index];
        self.settings.setting(&own.name).and_then(|s| s.transform).unwrap_or(own.transform)
    }

    fn is_fixed(&self, index: usize) -> bool {
        let own = &self.own[index];
        own.fixed || self.settings.setting(&own.name).is_some_and(|setting| setting.fixed)
    }

    /// Returns the values that match a name, and the size of 1 on the scale the model sees, in the unit of numbers given for them.
    fn find(&self, option: &str, text: &dyn fmt::Display, name: &NamePattern) -> Result<(Vec<usize>, f64)> {
        let mut found = named(self.own).filter(|(_, d)| name.matches(&d.name)).peekable();
        if found.peek().is_some() {
            let lengths = |index: usize| self.lengths.get(index).map_or(&[][..], Vec::as_slice);
            let found = found.map(|(index, d)| (index, d.name.as_str(), lengths(index)));
            return self.columns.chosen(option, text, name, found);
        }
        let error = Error::usage(format!("{option} {text}: there is no hyper-parameter '{name}'"));
        Err(if named(self.own).next().is_none() {
            error.hint("this model has no hyper-parameters")
        } else {
            error.hint(format!("the names are {}", known_names(self.own)))
        })
    }

    /// Returns the matching values that are not fixed, at least one, and the unit of numbers given
    /// for them.
    fn free(&self, option: &str, text: &dyn fmt::Display, name: &NamePattern) -> Result<(Vec<usize>, f64)> {
        let (mut found, unit) = self.find(option, text, name)?;
        found.retain(|&index| !self.is_fixed(index));
        if found.is_empty() {
            return Err(Error::usage(format!("{option} {text}: '{name}' is fixed, so this has no effect"))
                .hint("leave one of the two out"));
        }
        Ok((found, unit))
    }
}

/// Returns the names of all values; numbered values are listed as a range.
fn known_names(descriptors: &[Descriptor]) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut last: Option<&str> = None;
    for (_, descriptor) in named(descriptors) {
        let stem = stem(&descriptor.name);
        match (stem, names.last_mut()) {
            (Some(parameter), Some(name)) if last == stem => {
                let first = name.split(" to ").next().unwrap_or_default().to_owned();
                *name = format!("{first} to {}", &descriptor.name[parameter.len()..]);
            }
            _ => names.push(descriptor.name.clone()),
        }
        last = stem;
    }
    names.join(", ")
}

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

/// The settings of one value; its parameter has the unset ones.
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
#[doc(hidden)]
pub struct ValueSettings {
    pub(super) by_name: BTreeMap<String, ValueSetting>,
}

impl ValueSettings {
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
