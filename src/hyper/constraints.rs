//! Constraints on hyper-parameters by name: priors, bounds, starting, fixed and tied values, with
//! their text.

use super::vector::stem;
use crate::data::Scaling;
use crate::error::{Error, Result};
use crate::words::stored_as_text;
use serde::{Deserialize, Serialize};
use sparsegp_kernels::Prior;
use std::fmt;
use std::str::FromStr;

/// Names of hyper-parameter values: a full name (`kernel.lengthscales.0`), the name of a parameter for all of its values
/// (`kernel.lengthscales`), or either with `*` for any run of characters (`*.lengthscales`). A column in brackets
/// (`kernel.lengthscales[hour]`) selects the values that are lengths along that column, and numbers are then in units of the column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct NamePattern {
    pattern: String,
    column: Option<String>,
}

impl NamePattern {
    /// Returns true if the pattern matches this full name; the column is not compared.
    pub fn matches(&self, name: &str) -> bool {
        glob(self.pattern.as_bytes(), name.as_bytes())
            || stem(name).is_some_and(|stem| glob(self.pattern.as_bytes(), stem.as_bytes()))
    }

    /// The column in brackets.
    pub fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }

    /// The end of the name at the start of a text, which may hold a column in brackets.
    fn end(text: &str, stop: char) -> Option<usize> {
        let first = text.find(stop);
        match text.find('[').filter(|&open| first.is_none_or(|first| open < first)) {
            None => first,
            // Names of columns may hold brackets.
            Some(open) => {
                let last = format!("]{stop}");
                text[open..].find(&last).map(|close| open + close + 1)
            }
        }
    }

    /// Splits a text after the name at its start.
    fn split(text: &str, stop: char) -> Option<(&str, &str)> {
        NamePattern::end(text, stop).map(|end| (&text[..end], &text[end + stop.len_utf8()..]))
    }
}

/// Returns true if `text` matches `pattern`, where `*` stands for any run of characters.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The position to retry if the rest after the last star does not match: after the star, with
    // one more character matched by it.
    let mut retry = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((star, from)) = retry {
            (p, t) = (star, from + 1);
            retry = Some((star, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pattern)?;
        self.column.as_ref().map_or(Ok(()), |column| write!(f, "[{column}]"))
    }
}

impl FromStr for NamePattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let known = |c: char| c.is_ascii_alphanumeric() || "._*".contains(c);
        let (pattern, column) = match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
            Some((pattern, column)) if !column.is_empty() => (pattern, Some(column.to_owned())),
            _ => (text, None),
        };
        if pattern.is_empty() || !pattern.chars().all(known) {
            return Err(Error::usage(format!(
                "'{text}' is not the name of a hyper-parameter, expected a name like kernel.lengthscales.0, kernel.lengthscales[COLUMN] or *.variance"
            )));
        }
        Ok(NamePattern { pattern: pattern.to_owned(), column })
    }
}

stored_as_text!(NamePattern);

/// A prior for the values of a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PriorFor {
    /// The values that it applies to.
    pub(crate) name: NamePattern,
    /// The prior; `None` removes the prior.
    pub(crate) prior: Option<Prior>,
}

impl FromStr for PriorFor {
    type Err = Error;

    /// `NAME=DIST`.
    fn from_str(text: &str) -> Result<Self> {
        let expected = || format!("expected NAME=DIST with DIST one of {}, or none", Prior::FORMS);
        let (name, prior) = NamePattern::split(text, '=')
            .ok_or_else(|| Error::usage(format!("'{text}' has no '=': {}", expected())))?;
        let prior = match prior.trim() {
            "none" => None,
            prior => Some(prior.parse().map_err(|error| Error::usage(format!("{error}, or none")))?),
        };
        Ok(PriorFor { name: name.parse()?, prior })
    }
}

impl fmt::Display for PriorFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prior {
            Some(prior) => write!(f, "{}={prior}", self.name),
            None => write!(f, "{}=none", self.name),
        }
    }
}

stored_as_text!(PriorFor);

/// A range for the values of a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BoundsFor {
    /// The values that it applies to.
    pub(crate) name: NamePattern,
    /// The lower bound, if any.
    pub(crate) lower: Option<f64>,
    /// The upper bound, if any.
    pub(crate) upper: Option<f64>,
}

impl FromStr for BoundsFor {
    type Err = Error;

    /// `NAME=LO,HI`; either number may be left out.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::usage(format!(
                "'{text}' {why}, expected NAME=LO,HI with LO below HI; either may be left out, as in NAME=0.1,"
            ))
        };
        let (name, range) = NamePattern::split(text, '=').ok_or_else(|| wrong("has no '='"))?;
        let (lower, upper) = range.split_once(',').ok_or_else(|| wrong("has no ',' between two ends"))?;
        let end = |part: &str| match part.trim() {
            "" => Ok(None),
            part => part
                .parse()
                .ok()
                .filter(|x: &f64| x.is_finite())
                .map(Some)
                .ok_or_else(|| wrong("has a bound that is not a number")),
        };
        let (lower, upper) = (end(lower)?, end(upper)?);
        match (lower, upper) {
            (None, None) => Err(wrong("has neither LO nor HI")),
            (Some(lower), Some(upper)) if lower >= upper => Err(wrong("has a LO that is not below HI")),
            _ => Ok(BoundsFor { name: name.parse()?, lower, upper }),
        }
    }
}

impl fmt::Display for BoundsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
        write!(f, "{}={},{}", self.name, end(self.lower), end(self.upper))
    }
}

stored_as_text!(BoundsFor);

/// Values that training keeps fixed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FixFor {
    /// The values that it applies to.
    pub(crate) name: NamePattern,
    /// The value; `None` keeps the starting value.
    pub(crate) value: Option<f64>,
}

impl FromStr for FixFor {
    type Err = Error;

    /// `NAME=VALUE` or `NAME`.
    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = match NamePattern::split(text, '=') {
            None => (text, None),
            Some((name, value)) => (name, Some(finite(value, "NAME=VALUE or NAME")?)),
        };
        Ok(FixFor { name: name.parse()?, value })
    }
}

impl fmt::Display for FixFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{}={value}", self.name),
            None => self.name.fmt(f),
        }
    }
}

stored_as_text!(FixFor);

/// Values that training starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StartFor {
    /// The values that it applies to.
    pub(crate) name: NamePattern,
    /// The starting value.
    pub(crate) value: f64,
}

impl FromStr for StartFor {
    type Err = Error;

    /// `NAME=VALUE`.
    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = NamePattern::split(text, '=')
            .ok_or_else(|| Error::usage(format!("'{text}' has no '=', expected NAME=VALUE")))?;
        Ok(StartFor { name: name.parse()?, value: finite(value, "NAME=VALUE")? })
    }
}

impl fmt::Display for StartFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

stored_as_text!(StartFor);

/// Parses a finite number; `expected` is the form of the text around it.
fn finite(text: &str, expected: &str) -> Result<f64> {
    let number = text.trim().parse().ok().filter(|x: &f64| x.is_finite());
    number.ok_or_else(|| Error::usage(format!("'{text}' is not a number, expected {expected}")))
}

/// Values that are tied to one free number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tie {
    /// The values that are tied; they start at the value of the first one.
    pub(crate) names: Vec<NamePattern>,
}

impl FromStr for Tie {
    type Err = Error;

    /// `NAME,NAME,…`; a single name suffices if it matches several values.
    fn from_str(text: &str) -> Result<Self> {
        let (mut names, mut rest) = (Vec::new(), text);
        while let Some((name, behind)) = NamePattern::split(rest, ',') {
            names.push(name.parse()?);
            rest = behind;
        }
        names.push(rest.parse()?);
        Ok(Tie { names })
    }
}

impl fmt::Display for Tie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(","))
    }
}

stored_as_text!(Tie);

/// All constraints on hyper-parameters by name. Numbers are on the scale the model sees, or in units of the column that a name holds in
/// brackets. Later entries win over earlier ones.
///
/// ```
/// use sparsegp::hyper::Constraints;
/// use sparsegp::prelude::*;
///
/// let y: Vec<f64> = (0..50).map(|i| (0.3 * i as f64).sin()).collect();
/// let x: Vec<[f64; 1]> = (0..50).map(|i| [i as f64]).collect();
/// let constraints = Constraints {
///     // In units of column 0, and on the scale the model sees.
///     fix: vec!["kernel.lengthscales[0]=4".parse()?],
///     bounds: vec!["kernel.variance=0.5,2".parse()?],
///     ..Constraints::default()
/// };
/// let model = Fit::of(FitOptions { constraints, ..FitOptions::default() }).fit(&x, &y)?;
/// let lengthscale = &model.hyperparameters()[1];
/// assert!(lengthscale.fixed && (lengthscale.value.expect("a length") - 4.0).abs() < 1e-9);
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Constraints {
    /// Bounds; the parameter's own range, such as the floor of the noise variance, still applies.
    pub bounds: Vec<BoundsFor>,
    /// Starting values.
    #[serde(rename = "starts", alias = "start")]
    pub start: Vec<StartFor>,
    /// Fixed values.
    pub fix: Vec<FixFor>,
    /// Values that are tied to one free number.
    #[serde(rename = "ties", alias = "tie")]
    pub tie: Vec<Tie>,
    /// Priors, whose `−log p` is added to the objective in training (once for tied values).
    #[serde(rename = "priors", alias = "prior")]
    pub prior: Vec<PriorFor>,
    /// The columns that names can hold in brackets; empty for fits to arrays.
    #[serde(skip)]
    pub columns: Columns,
}

impl Constraints {
    /// Replaces alternative names of values by their full names; `names` has pairs of an alternative name and a full name.
    #[doc(hidden)]
    pub fn called(mut self, names: &[(String, String)]) -> Constraints {
        let of_starts = self.start.iter_mut().map(|start| &mut start.name);
        let of_fix = self.fix.iter_mut().map(|fix| &mut fix.name);
        let of_bounds = self.bounds.iter_mut().map(|bounds| &mut bounds.name);
        let of_priors = self.prior.iter_mut().map(|prior| &mut prior.name);
        let of_ties = self.tie.iter_mut().flat_map(|tie| &mut tie.names);
        for name in of_starts.chain(of_fix).chain(of_bounds).chain(of_priors).chain(of_ties) {
            let text = name.to_string();
            if let Some((_, own)) = names.iter().find(|(called, _)| *called == text) {
                *name = NamePattern { pattern: own.clone(), column: None };
            }
        }
        self
    }

    /// Creates constraints that only fix values by full name.
    #[doc(hidden)]
    pub fn fixing<'a>(values: impl IntoIterator<Item = (&'a str, f64)>) -> Result<Constraints> {
        let fix =
            values.into_iter().map(|(name, value)| Ok(FixFor { name: name.parse()?, value: Some(value) }));
        Ok(Constraints { fix: fix.collect::<Result<_>>()?, ..Constraints::default() })
    }

    /// Returns true if there are no constraints.
    pub(crate) fn is_empty(&self) -> bool {
        let Constraints { bounds, start, fix, tie, prior, columns: _ } = self;
        start.is_empty() && fix.is_empty() && bounds.is_empty() && tie.is_empty() && prior.is_empty()
    }

    /// Returns the first option that affects only training, and so has no effect on values that are not trained.
    #[doc(hidden)]
    pub fn about_training(&self) -> Option<&'static str> {
        let fixed_at_start = self.fix.iter().any(|fix| fix.value.is_none());
        [
            ("⟨prior⟩", !self.prior.is_empty()),
            ("⟨bounds⟩", !self.bounds.is_empty()),
            ("⟨tie⟩", !self.tie.is_empty()),
            ("⟨fix⟩ without a value", fixed_at_start),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }

    /// Refuses invalid numbers, which parsed text never contains.
    pub(crate) fn validate(&self) -> Result<()> {
        if let Some(prior) = self.prior.iter().find(|p| p.prior.is_some_and(|prior| !prior.is_proper())) {
            return Err(Error::usage(format!("⟨prior {prior}⟩: scales, shapes and rates must be above 0")));
        }
        let ends = |b: &BoundsFor| (b.lower.unwrap_or(f64::NEG_INFINITY), b.upper.unwrap_or(f64::INFINITY));
        let ordered = |b: &&BoundsFor| ends(b).0 < ends(b).1;
        if let Some(bounds) = self.bounds.iter().find(|bounds| !ordered(bounds)) {
            return Err(Error::usage(format!(
                "⟨bounds {bounds}⟩: expected two numbers, the smaller one first"
            )));
        }
        Ok(())
    }
}

/// A column or a place by name, with its inputs (none for the target), and the size, in its unit, of 1 on the scale the model sees; no
/// size if the column is warped.
#[derive(Clone, Debug, PartialEq)]
struct Column {
    name: String,
    inputs: Vec<usize>,
    size: Option<f64>,
}

/// The names and units of the inputs and of the target of a fit, and of places that several inputs make.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    inputs: Vec<Column>,
    target: Option<Column>,
}

/// The value that is a variance of a Gaussian target, and so has its unit squared.
const OF_TARGET: &str = "likelihood.noise_variance";

impl Columns {
    /// Names the inputs and the target; units are those of the rows, without scaling.
    pub fn named(inputs: Vec<String>, target: String) -> Columns {
        let column = |name, inputs| Column { name, inputs, size: Some(1.0) };
        let inputs = inputs.into_iter().enumerate().map(|(input, name)| column(name, vec![input]));
        Columns { inputs: inputs.collect(), target: Some(column(target, Vec::new())) }
    }

    /// Adds the name of a place whose coordinates are these inputs. Constraints name a place without regard to spaces.
    #[doc(hidden)]
    pub fn with_place(mut self, name: String, inputs: Vec<usize>) -> Columns {
        self.inputs.push(Column { name, inputs, size: Some(1.0) });
        self
    }

    /// Returns the columns, or the numbers of `d` inputs, counted from 0, as their names if no column has a name; the target is `y` then.
    pub(crate) fn or_numbers(self, d: usize) -> Columns {
        match self.inputs.is_empty() && self.target.is_none() {
            true => Columns::named((0..d).map(|input| input.to_string()).collect(), "y".to_owned()),
            false => self,
        }
    }

    /// Returns the columns with the units that follow from a scaling.
    pub(crate) fn scaled(mut self, scaling: &Scaling) -> Columns {
        for column in &mut self.inputs {
            // All coordinates of a place have the scale of the first.
            let first = column.inputs.first().filter(|&&input| !scaling.warps_input(input));
            column.size = first.and_then(|&input| scaling.inputs.get(input)).map(|affine| affine.scale);
        }
        if let Some(target) = &mut self.target {
            target.size = scaling.target_map().is_none().then_some(scaling.target.scale);
        }
        self
    }

    /// Returns the inputs alone, for fits of several targets in different units.
    #[doc(hidden)]
    pub fn without_target(mut self) -> Columns {
        self.target = None;
        self
    }

    fn names(&self, inputs: &[&str]) -> String {
        let target = self.target.as_ref().map(|target| format!("; the target is {}", target.name));
        format!("the inputs are {}{}", inputs.join(", "), target.unwrap_or_default())
    }

    /// Returns those of the values (pairs of a full name and the inputs along which the value is a
    /// length) that belong to the column in a name, with the size, in their unit, of 1 on the scale the model sees.
    ///
    /// # Errors
    /// A usage error for a column that does not exist, that has no unit, or that no value belongs to.
    pub(super) fn chosen<'a>(
        &self,
        option: &str,
        text: &dyn fmt::Display,
        name: &NamePattern,
        found: impl Iterator<Item = (usize, &'a str, &'a [usize])>,
    ) -> Result<(Vec<usize>, f64)> {
        let Some(called) = name.column() else {
            return Ok((found.map(|(index, ..)| index).collect(), 1.0));
        };
        let wrong = |why: String| Error::usage(format!("{option} {text}: {why}"));
        let spaceless = |name: &str| name.split(',').map(str::trim).collect::<Vec<_>>().join(",");
        let input = self.inputs.iter().find(|column| spaceless(&column.name) == spaceless(called));
        let target = self.target.as_ref().filter(|target| target.name == called);
        let Some(column) = input.or(target) else {
            let names: Vec<&str> = self.inputs.iter().map(|column| column.name.as_str()).collect();
            return Err(match names.is_empty() {
                true => wrong("the columns of this fit have no names".to_owned()),
                false => wrong(format!("there is no input '{called}'")).hint(self.names(&names)),
            });
        };
        let Some(size) = column.size else {
            return Err(wrong(format!("'{called}' is warped, so it has no unit"))
                .hint("leave the column out: numbers are then on the scale the model sees"));
        };
        let suits = |value: &str, inputs: &[usize]| match input {
            Some(column) => inputs == column.inputs,
            None => value == OF_TARGET,
        };
        let chosen: Vec<usize> =
            found.filter(|(_, value, inputs)| suits(value, inputs)).map(|(index, ..)| index).collect();
        match (chosen.is_empty(), input) {
            (false, Some(_)) => Ok((chosen, size)),
            (false, None) => Ok((chosen, size * size)),
            (true, Some(_)) => {
                let place = self.inputs.iter().find(|place| {
                    place.inputs.len() > 1 && column.inputs.iter().all(|input| place.inputs.contains(input))
                });
                let hint = match place.filter(|place| place.inputs != column.inputs) {
                    Some(place) => {
                        format!("the coordinates of a place have one lengthscale: [{}]", place.name)
                    }
                    None => "a kernel with (ard) has a lengthscale for every column".to_owned(),
                };
                Err(wrong(format!("the kernel has no value of this name for '{called}' alone")).hint(hint))
            }
            (true, None) => Err(wrong(format!("only {OF_TARGET} has the unit of '{called}'"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_values_parameters_and_stars() {
        let matches =
            |pattern: &str, name: &str| pattern.parse::<NamePattern>().expect(pattern).matches(name);
        for (pattern, name, want) in [
            ("kernel.lengthscales.0", "kernel.lengthscales.0", true),
            ("kernel.lengthscales.0", "kernel.lengthscales.01", false),
            ("kernel.lengthscales", "kernel.lengthscales.12", true),
            ("kernel.lengthscales", "kernel.rbf.lengthscales", false),
            ("kernel", "kernel.variance", false),
            ("*.lengthscales", "kernel.rbf.lengthscales.3", true),
            ("*.lengthscales", "kernel.lengthscales", true),
            ("kernel.*.variance", "kernel.rbf_2.variance", true),
            ("kernel.*.variance", "kernel.variance", false),
            ("*", "mean.constant", true),
            ("k*l.*s.1", "kernel.lengthscales.1", true),
            ("k*l.*s.1", "kernel.lengthscales.2", false),
            ("*ab", "aab", true),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} on {name}");
        }
        for text in ["", "a b", "kernel.[]", "kernel[0", "a=b"] {
            assert!(text.parse::<NamePattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn text_comes_back() {
        fn same<T: FromStr<Err = Error> + fmt::Display>(text: &str) {
            let parsed = text.parse::<T>().map(|value| value.to_string());
            assert_eq!(parsed, Ok(text.to_owned()));
        }
        same::<PriorFor>("kernel.variance=gamma(2,1.5)");
        same::<PriorFor>("*.lengthscales=none");
        same::<BoundsFor>("kernel.lengthscales=0.1,10");
        same::<BoundsFor>("kernel.lengthscales=0.1,");
        same::<BoundsFor>("kernel.lengthscales=,10");
        same::<FixFor>("kernel.variance=2");
        same::<FixFor>("kernel.variance");
        same::<StartFor>("kernel.lengthscales[a=b]=2");
        same::<Tie>("kernel.rbf.lengthscales.0,kernel.matern52.*");
        same::<FixFor>("kernel.lengthscales[a=b, [c]]=2");
        same::<BoundsFor>("kernel.lengthscales[hour]=0.1,10");
        same::<PriorFor>("kernel.lengthscales[a b]=gamma(2,1.5)");
        same::<Tie>("kernel.lengthscales[a,b],kernel.lengthscales[c]");
    }
}
