//! Settings of single hyper-parameter values on top of what their parameters say: ranges, priors, fixed, tied; no text.

use super::constraints::{BoundsFor, FixFor, NamePattern, PriorFor, Tie, stem};
use super::vector::Descriptor;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use sparsegp_kernels::{Prior, Transform};
use std::collections::BTreeMap;
use std::fmt;

/// Where the prior of a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Belief {
    /// The weak prior that nobody asked for.
    Default(Prior),
    /// Asked for.
    Given(Prior),
    /// It was said that there is none.
    Flat,
}

impl Belief {
    fn prior(self) -> Option<Prior> {
        match self {
            Belief::Default(prior) | Belief::Given(prior) => Some(prior),
            Belief::Flat => None,
        }
    }
}

/// What is said about one value; what is not said is as its parameter has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setting {
    /// The range within its bounds.
    pub transform: Option<Transform>,
    /// Its prior.
    pub belief: Option<Belief>,
    /// Whether it was fixed.
    pub fixed: bool,
    /// The group of values that are one free number.
    pub tie: Option<usize>,
}

/// Settings by full name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Overlay {
    settings: BTreeMap<String, Setting>,
}

impl Overlay {
    /// What is said about a value.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// Puts the settings on top of what `descriptors` say.
    pub fn apply(&self, descriptors: &mut [Descriptor]) {
        if self.settings.is_empty() {
            return;
        }
        for descriptor in named_mut(descriptors) {
            let Some(setting) = self.settings.get(&descriptor.name) else { continue };
            descriptor.transform = setting.transform.unwrap_or(descriptor.transform);
            descriptor.prior = setting.belief.map_or(descriptor.prior, Belief::prior);
            descriptor.fixed |= setting.fixed;
            descriptor.tie = setting.tie;
        }
    }

    /// Replaces the weak priors by these, where nothing was said.
    pub fn set_default_priors(&mut self, priors: impl IntoIterator<Item = (String, Prior)>) {
        for setting in self.settings.values_mut() {
            setting.belief = setting.belief.filter(|belief| !matches!(belief, Belief::Default(_)));
        }
        for (name, prior) in priors {
            self.settings.entry(name).or_default().belief.get_or_insert(Belief::Default(prior));
        }
        self.settings.retain(|_, setting| *setting != Setting::default());
    }

    /// Whether every setting is of one of these values and its numbers make sense.
    pub fn suits(&self, descriptors: &[Descriptor]) -> bool {
        let sound = |setting: &Setting| {
            let (lower, upper) = setting.transform.map_or((0.0, 1.0), Transform::range);
            lower < upper && setting.belief.and_then(Belief::prior).is_none_or(Prior::is_proper)
        };
        self.settings
            .iter()
            .all(|(name, setting)| sound(setting) && named(descriptors).any(|d| d.name == *name))
    }
}

/// The descriptors of values with names of their own: all but the inducing inputs, which come last.
fn named(descriptors: &[Descriptor]) -> impl Iterator<Item = &Descriptor> + Clone {
    descriptors.iter().take_while(|d| d.is_named())
}

fn named_mut(descriptors: &mut [Descriptor]) -> impl Iterator<Item = &mut Descriptor> {
    descriptors.iter_mut().take_while(|d| d.is_named())
}

/// The share of the range at which a start outside its bounds is put inside.
const START_SHARE: f64 = 0.1;

/// Constraints being put into effect: settings so far, what the parameters themselves say, and the values.
pub(super) struct Imposing<'a> {
    overlay: &'a mut Overlay,
    own: &'a [Descriptor],
    values: &'a mut [f64],
}

impl<'a> Imposing<'a> {
    pub(super) fn new(overlay: &'a mut Overlay, own: &'a [Descriptor], values: &'a mut [f64]) -> Self {
        Imposing { overlay, own, values }
    }

    pub(super) fn bound(&mut self, bounds: &BoundsFor) -> Result<()> {
        let (lower, upper) =
            (bounds.lower.unwrap_or(f64::NEG_INFINITY), bounds.upper.unwrap_or(f64::INFINITY));
        for index in self.free("--bounds", bounds, &bounds.name)? {
            let own = self.own[index].transform;
            let transform = own.within(lower, upper).ok_or_else(|| {
                Error::usage(format!(
                    "--bounds {bounds}: {} is {} anyway",
                    self.own[index].name,
                    range_words(own)
                ))
            })?;
            // Said again, as by a fit that goes on from another: a value that training brought to the edge stays.
            if self.setting(index).transform.replace(transform) != Some(transform) {
                self.values[index] = transform.inside(self.values[index], START_SHARE);
            }
        }
        Ok(())
    }

    pub(super) fn fix(&mut self, fix: &FixFor) -> Result<()> {
        for index in self.find("--fix", fix, &fix.name)? {
            if let Some(value) = fix.value {
                let (name, transform) = (&self.own[index].name, self.transform(index));
                if !transform.admits(value) {
                    return Err(Error::usage(format!(
                        "--fix {fix}: the value is outside the range of {name}, which is {}",
                        range_words(transform)
                    )));
                }
                self.values[index] = value;
            }
            self.setting(index).fixed = true;
        }
        Ok(())
    }

    pub(super) fn tie(&mut self, tie: &Tie) -> Result<()> {
        let mut members: Vec<usize> = Vec::new();
        for name in &tie.names {
            let found = self.find("--tie", tie, name)?;
            members.extend(found.into_iter().filter(|index| !members.contains(index)).collect::<Vec<_>>());
        }
        // Ties of ties are one: whoever is tied to a member already comes along.
        let groups: Vec<usize> = members.iter().filter_map(|&index| self.group(index)).collect();
        let along = (0..self.own.len()).take_while(|&index| self.own[index].is_named());
        let along = along.filter(|&index| self.group(index).is_some_and(|group| groups.contains(&group)));
        members.extend(along.filter(|index| !members.contains(index)).collect::<Vec<_>>());
        let [first, rest @ ..] = &members[..] else { return Ok(()) };
        if rest.is_empty() {
            return Err(Error::usage(format!(
                "--tie {tie}: there is only one such value, {}, expected at least two",
                self.own[*first].name
            )));
        }
        let mut said = members.iter().filter_map(|&index| self.asked_belief(index));
        let belief = said.next();
        if said.any(|other| Some(other) != belief) {
            return Err(Error::usage(format!("--tie {tie}: the values have different priors"))
                .hint("one free number has one prior: give it with --prior once they are tied"));
        }
        let group = 1 + self.overlay.settings.values().filter_map(|s| s.tie).max().unwrap_or(0);
        for &index in &members {
            self.values[index] = self.values[*first];
            let setting = self.setting(index);
            setting.tie = Some(group);
            setting.belief = belief;
        }
        Ok(())
    }

    pub(super) fn believe(&mut self, prior: &PriorFor) -> Result<()> {
        for index in self.free("--prior", prior, &prior.name)? {
            let (lower, _) = self.transform(index).range();
            if lower < 0.0 && prior.prior.is_some_and(Prior::needs_positive) {
                return Err(Error::usage(format!(
                    "--prior {prior}: the prior is of positive numbers, but {} may be negative",
                    self.own[index].name
                ))
                .hint("use normal(mean,sd), or --bounds with a lower end of 0 or above"));
            }
            let belief = Some(prior.prior.map_or(Belief::Flat, Belief::Given));
            match self.group(index) {
                None => self.setting(index).belief = belief,
                // The values are one number, which has one prior.
                group => {
                    let tied = self.overlay.settings.values_mut().filter(|setting| setting.tie == group);
                    tied.for_each(|setting| setting.belief = belief);
                }
            }
        }
        Ok(())
    }

    /// Refuses tied values that cannot be one number: of different ranges, or some fixed and some not.
    pub(super) fn check_ties(&self) -> Result<()> {
        for (first, descriptor) in named(self.own).enumerate() {
            let Some(group) = self.group(first) else { continue };
            for other in (first + 1..self.own.len()).take_while(|&i| self.own[i].is_named()) {
                if self.group(other) != Some(group) {
                    continue;
                }
                let names = format!("{} and {}", descriptor.name, self.own[other].name);
                let (a, b) = (self.transform(first), self.transform(other));
                if a != b {
                    let (a, b) = (range_words(a), range_words(b));
                    return Err(Error::usage(format!("--tie: {names} have different ranges: {a}, and {b}"))
                        .hint("give both the same --bounds"));
                }
                if self.is_fixed(first) != self.is_fixed(other)
                    || (self.is_fixed(first) && self.values[first] != self.values[other])
                {
                    return Err(Error::usage(format!(
                        "--tie: {names} are one number, but only one of them is fixed, or at another value"
                    ))
                    .hint("fix all tied values at one value, or none"));
                }
            }
        }
        Ok(())
    }

    fn setting(&mut self, index: usize) -> &mut Setting {
        self.overlay.settings.entry(self.own[index].name.clone()).or_default()
    }

    fn group(&self, index: usize) -> Option<usize> {
        self.overlay.setting(&self.own[index].name)?.tie
    }

    fn asked_belief(&self, index: usize) -> Option<Belief> {
        let belief = self.overlay.setting(&self.own[index].name)?.belief;
        belief.filter(|belief| !matches!(belief, Belief::Default(_)))
    }

    fn transform(&self, index: usize) -> Transform {
        let own = &self.own[index];
        self.overlay.setting(&own.name).and_then(|s| s.transform).unwrap_or(own.transform)
    }

    fn is_fixed(&self, index: usize) -> bool {
        let own = &self.own[index];
        own.fixed || self.overlay.setting(&own.name).is_some_and(|setting| setting.fixed)
    }

    /// The values that a name means.
    fn find(&self, option: &str, text: &dyn fmt::Display, name: &NamePattern) -> Result<Vec<usize>> {
        let found: Vec<usize> =
            named(self.own).enumerate().filter(|(_, d)| name.matches(&d.name)).map(|(i, _)| i).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let error = Error::usage(format!("{option} {text}: there is no hyper-parameter '{name}'"));
        Err(if named(self.own).next().is_none() {
            error.hint("this model has no hyper-parameters")
        } else {
            error.hint(format!("the names are {}", known_names(self.own)))
        })
    }

    /// Those of them that are trained.
    fn free(&self, option: &str, text: &dyn fmt::Display, name: &NamePattern) -> Result<Vec<usize>> {
        let mut found = self.find(option, text, name)?;
        found.retain(|&index| !self.is_fixed(index));
        if found.is_empty() {
            return Err(Error::usage(format!("{option} {text}: '{name}' is fixed, so this has no effect"))
                .hint("leave one of the two out"));
        }
        Ok(found)
    }
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

/// The names of all values, numbered ones in one piece.
fn known_names(descriptors: &[Descriptor]) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut last: Option<&str> = None;
    for descriptor in named(descriptors) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hyper::Constraints;

    fn descriptor(name: &str, transform: Transform) -> Descriptor {
        Descriptor { name: name.into(), transform, prior: None, fixed: false, tie: None, unit: 1.0 }
    }

    fn own() -> Vec<Descriptor> {
        let mut own: Vec<Descriptor> = ["kernel.variance", "kernel.lengthscales.0", "kernel.lengthscales.1"]
            .map(|name| descriptor(name, Transform::POSITIVE))
            .into();
        own.push(descriptor("mean.constant", Transform::Identity));
        own.push(descriptor("likelihood.noise_variance", Transform::Positive { lower: 1e-6 }));
        own.push(descriptor("inducing.0.0", Transform::Identity));
        own
    }

    /// The descriptors and values after constraints, one per line: `fix NAME=VALUE`, ….
    fn impose(lines: &str) -> Result<(Vec<Descriptor>, Vec<f64>)> {
        let mut constraints = Constraints::default();
        for line in lines.lines() {
            let (option, text) = line.trim().split_once(' ').expect("an option and its text");
            match option {
                "bounds" => constraints.bounds.push(text.parse()?),
                "fix" => constraints.fix.push(text.parse()?),
                "tie" => constraints.ties.push(text.parse()?),
                _ => constraints.priors.push(text.parse()?),
            }
        }
        let (mut overlay, own, mut values) = (Overlay::default(), own(), vec![1.0, 2.0, 3.0, 0.5, 0.1, 7.0]);
        constraints.impose(&mut overlay, &own, &mut values)?;
        assert!(overlay.suits(&own));
        let mut descriptors = own;
        overlay.apply(&mut descriptors);
        Ok((descriptors, values))
    }

    #[test]
    fn settings_are_of_single_values() {
        let (seen, values) = impose(
            "fix kernel.lengthscales.1=5\nfix mean.constant\nbounds *.noise_variance=,0.05\nprior *.lengthscales=gamma(2,1)",
        )
        .expect("constraints");
        assert_eq!(
            seen.iter().map(|d| d.fixed).collect::<Vec<_>>(),
            [false, false, true, true, false, false]
        );
        assert_eq!(values[..4], [1.0, 2.0, 5.0, 0.5]);
        assert_eq!(seen[4].transform, Transform::Bounded { lower: 1e-6, upper: 0.05 }, "the floor is kept");
        assert!(seen[4].transform.admits(values[4]), "the start moved inside: {}", values[4]);
        assert_eq!(seen[1].prior, Some(Prior::Gamma { shape: 2.0, rate: 1.0 }));
        assert_eq!((seen[0].prior, seen[2].prior, seen[4].prior), (None, None, None));
    }

    #[test]
    fn bounds_said_again_leave_values_on_their_edge() {
        let bounds = vec!["kernel.variance=1,2".parse().expect("bounds")];
        let (constraints, own) = (Constraints { bounds, ..Constraints::default() }, own());
        let (mut overlay, mut values) = (Overlay::default(), vec![1.0; 6]);
        constraints.impose(&mut overlay, &own, &mut values).expect("constraints");
        assert_eq!(values[0], 1.1);
        values[0] = 2.0;
        constraints.impose(&mut overlay, &own, &mut values).expect("constraints");
        assert_eq!(values[0], 2.0);
    }

    #[test]
    fn ties_join_groups_share_priors_and_start_at_the_first() {
        let (seen, values) = impose(
            "tie kernel.lengthscales.1,kernel.lengthscales.0\ntie kernel.variance,kernel.lengthscales.0\nprior kernel.variance=halfcauchy(1)",
        )
        .expect("constraints");
        assert_eq!(values[..3], [1.0, 1.0, 1.0]);
        assert!(seen[..3].iter().all(|d| d.tie == seen[0].tie && d.prior == seen[0].prior));
        assert!(seen[0].tie.is_some() && seen[0].prior.is_some() && seen[3].tie.is_none());
    }

    #[test]
    fn default_priors_stand_back() {
        let (mut overlay, own, mut values) = (Overlay::default(), own(), vec![1.0; 6]);
        let priors = ["kernel.variance=none", "kernel.lengthscales.0=gamma(3,1)"];
        let priors = priors.iter().map(|text| text.parse().expect("prior")).collect();
        let constraints = Constraints { priors, ..Constraints::default() };
        constraints.impose(&mut overlay, &own, &mut values).expect("constraints");
        let weak = Prior::LogNormal { mu: 0.0, sigma: 3.0 };
        let of = |overlay: &Overlay| {
            let mut seen = own.clone();
            overlay.apply(&mut seen);
            seen.iter().map(|d| d.prior).collect::<Vec<_>>()
        };
        overlay.set_default_priors(own[..3].iter().map(|d| (d.name.clone(), weak)));
        let given = Some(Prior::Gamma { shape: 3.0, rate: 1.0 });
        assert_eq!(of(&overlay)[..3], [None, given, Some(weak)]);
        overlay.set_default_priors([]);
        assert_eq!(of(&overlay)[..3], [None, given, None]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_names() {
        for (lines, words) in [
            ("fix kernel.nothing=1", "no hyper-parameter 'kernel.nothing'"),
            ("fix inducing.0.0=1", "no hyper-parameter 'inducing.0.0'"),
            ("fix kernel.variance=-1", "outside the range of kernel.variance, which is above 0"),
            ("bounds kernel.variance=-2,-1", "kernel.variance is above 0 anyway"),
            ("bounds kernel.variance=2,3\nfix kernel.variance=4", "between 2 and 3"),
            ("prior mean.constant=gamma(1,1)", "may be negative"),
            ("tie kernel.variance", "only one such value"),
            ("tie kernel.variance,mean.constant", "above 0, and any number"),
            ("fix kernel.lengthscales.0=1\ntie *.lengthscales", "only one of them is fixed"),
        ] {
            let error = impose(lines).expect_err(lines);
            assert!(error.to_string().contains(words), "{lines}: {error}");
        }
        let hint = impose("fix x=1").expect_err("refused").advice().map(str::to_owned);
        let names = "the names are kernel.variance, kernel.lengthscales.0 to .1, mean.constant, likelihood.noise_variance";
        assert_eq!(hint.as_deref(), Some(names));
    }

    #[test]
    fn settings_without_an_effect_are_refused() {
        let (mut overlay, mut own, mut values) = (Overlay::default(), own(), vec![1.0; 6]);
        own[0].fixed = true;
        for constraints in [
            Constraints {
                bounds: vec!["kernel.variance=0.1,".parse().expect("bounds")],
                ..Default::default()
            },
            Constraints {
                priors: vec!["kernel.variance=none".parse().expect("prior")],
                ..Default::default()
            },
        ] {
            let error = constraints.impose(&mut overlay, &own, &mut values).expect_err("no effect");
            assert!(error.to_string().contains("is fixed, so this has no effect"), "{error}");
        }
    }
}
