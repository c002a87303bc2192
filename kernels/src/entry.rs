//! The definition behind a name of the text grammar: how a kernel is built from the options written with it; no grammar.

use crate::kernel::Kernel;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A problem in the text of a kernel, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct ParseError {
    /// The character where the problem starts, counted from 1.
    pub column: usize,
    /// The expectation, or the mismatch.
    pub message: String,
    /// The unknown name of a kernel, if that is the problem.
    pub unknown: Option<String>,
}

pub(crate) fn error<T>(at: usize, message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError { column: at + 1, message: message.into(), unknown: None })
}

/// Makes a kernel from the options written behind its name.
pub type Build = fn(&Options<'_>) -> Result<Box<dyn Kernel>, ParseError>;

/// A kernel's place in a [`Grammar`](crate::Grammar): its names, the options it takes and how it is made.
///
/// Every kernel of the crate has one beside its formulae; a kernel from outside is entered the same way:
///
/// ```
/// use sparsegp_kernels::{Entry, Grammar, Stationary};
///
/// let smooth = Entry {
///     names: &["smooth"],
///     flags: &["ard"],
///     arguments: &[],
///     parameters: &["variance", "lengthscales"],
///     build: |options| Ok(Box::new(Stationary::rbf(1.0, &options.ones("lengthscales", "ard")))),
/// };
/// let grammar = Grammar::default().with(smooth)?;
/// assert!(grammar.parse("periodic * smooth(ard, variance=0.5)[0:2]", 3).is_ok());
/// assert!(grammar.parse("smooth(alpha=2)", 1).is_err_and(|error| error.column == 8));
/// assert!(grammar.with(smooth).is_err(), "the name is taken");
/// # Ok::<(), sparsegp_kernels::NameError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Entry {
    /// The names it may be written by, the first one being that of [`Kernel::expression`].
    pub names: &'static [&'static str],
    /// The options that take no value, such as `ard`.
    pub flags: &'static [&'static str],
    /// The options with a value that `build` reads itself, such as a degree.
    pub arguments: &'static [&'static str],
    /// The parameters whose starting values may be given, by their [names](crate::Parameter::name).
    pub parameters: &'static [&'static str],
    /// Builds the kernel; parameters without a given start may have any value. It reads flags and arguments. The caller then refuses other
    /// options and sets the given values of parameters.
    pub build: Build,
}

impl Entry {
    /// The name that expressions come back with.
    pub fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    /// The kernel that `options` ask for.
    pub(crate) fn kernel(&self, options: &Options<'_>) -> Result<Box<dyn Kernel>, ParseError> {
        let mut kernel = (self.build)(options)?;
        options.apply(kernel.as_mut(), [self.flags, self.arguments, self.parameters])?;
        Ok(kernel)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.name()).finish()
    }
}

/// Builds a kernel for points of a number of columns; its parameters may have any value.
pub type Make = Arc<dyn Fn(usize) -> Box<dyn Kernel> + Send + Sync>;

/// A kernel that entered a grammar at run time: a name and a constructor. The starting values of all its parameters can be given.
#[derive(Clone)]
pub(crate) struct Made {
    pub name: String,
    pub make: Make,
}

impl Made {
    /// The kernel that `options` ask for.
    pub fn kernel(&self, options: &Options<'_>) -> Result<Box<dyn Kernel>, ParseError> {
        let mut kernel = (self.make)(options.dims);
        let mut names = Vec::new();
        kernel.for_each_parameter(&mut |parameter| names.push(parameter.name.clone()));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        options.apply(kernel.as_mut(), [&[], &[], &names])?;
        Ok(kernel)
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Made").field(&self.name).finish()
    }
}

/// `key` or `key=values`.
pub(crate) struct Setting {
    pub at: usize,
    pub key: String,
    pub values: Vec<f64>,
}

/// The options written behind a kernel's name, and the number of columns the kernel sees.
pub struct Options<'a> {
    pub(crate) at: usize,
    pub(crate) name: &'a str,
    pub(crate) settings: &'a [Setting],
    pub(crate) dims: usize,
}

impl Options<'_> {
    /// The number of columns of the points that the kernel sees.
    pub fn dims(&self) -> usize {
        self.dims
    }

    fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key == key)
    }

    /// Returns true if an option is present, with or without a value.
    pub fn flag(&self, key: &str) -> bool {
        self.setting(key).is_some()
    }

    /// Returns the numbers given as `key=…`; empty if the option is absent or has no value.
    pub fn values(&self, key: &str) -> &[f64] {
        self.setting(key).map_or(&[], |setting| &setting.values)
    }

    /// Returns a whole number given as `key=…`, or `default` if it is absent.
    ///
    /// # Errors
    /// At the option, if it is not one whole number within the range.
    pub fn integer(&self, key: &str, default: u32, range: RangeInclusive<u32>) -> Result<u32, ParseError> {
        let Some(setting) = self.setting(key) else { return Ok(default) };
        let found = range.clone().find(|&value| setting.values == [f64::from(value)]);
        match found {
            Some(value) => Ok(value),
            None => {
                let (low, high) = (range.start(), range.end());
                error(setting.at, format!("'{key}' is a whole number from {low} to {high}"))
            }
        }
    }

    /// Returns a value of 1 for parameter `key`, or one value per dimension if `flag` or a list of values asks for them.
    pub fn ones(&self, key: &str, flag: &str) -> Vec<f64> {
        let each = self.values(key).len() > 1 || self.flag(flag);
        vec![1.0; if each { self.dims.max(1) } else { 1 }]
    }

    /// Returns the error that refuses an option, or the whole kernel if the option is absent.
    pub fn refusal(&self, key: &str, message: impl Into<String>) -> ParseError {
        let at = self.setting(key).map_or(self.at, |setting| setting.at);
        ParseError { column: at + 1, message: message.into(), unknown: None }
    }

    /// Checks every option, which is one of the flags, arguments and parameters, and sets the parameters it names.
    pub(crate) fn apply(&self, kernel: &mut dyn Kernel, allowed: [&[&str]; 3]) -> Result<(), ParseError> {
        for (i, Setting { at, key, values }) in self.settings.iter().enumerate() {
            let is = |keys: &[&str]| keys.contains(&key.as_str());
            let [flag, argument, parameter] = allowed.map(is);
            if !(flag || argument || parameter) {
                let (name, allowed) = (self.name, allowed.concat().join(", "));
                return error(*at, format!("'{name}' has no option '{key}'; expected one of {allowed}"));
            }
            if self.settings[..i].iter().any(|earlier| earlier.key == *key) {
                return error(*at, format!("'{key}' is given twice"));
            }
            if argument {
                continue;
            }
            if flag != values.is_empty() {
                let wanted = if values.is_empty() { "needs a value" } else { "takes no value" };
                return error(*at, format!("'{key}' {wanted}"));
            }
            if parameter {
                set(kernel, key, values, *at)?;
            }
        }
        Ok(())
    }
}

/// Sets the first parameter called `key`. The parameters of a kernel come before those of kernels inside it.
fn set(kernel: &mut dyn Kernel, key: &str, values: &[f64], at: usize) -> Result<(), ParseError> {
    let mut outcome = Ok(());
    let mut done = false;
    kernel.for_each_parameter_mut(&mut |parameter| {
        if done || parameter.name != key {
            return;
        }
        done = true;
        let (count, (low, high)) = (parameter.values.len(), parameter.transform.range());
        if values.len() != 1 && values.len() != count {
            let given = values.len();
            outcome = error(at, format!("'{key}' has {given} values for {count} dimensions"));
        } else if let Some(value) = values.iter().find(|&&value| !parameter.transform.admits(value)) {
            outcome = error(at, format!("'{key}' must be {}, not {value}", range_words(low, high)));
        } else {
            let slots = parameter.values.iter_mut().enumerate();
            slots.for_each(|(d, slot)| *slot = values[d % values.len()]);
            parameter.given = true;
        }
    });
    outcome
}

/// Returns the required range of the values of a parameter, in words.
fn range_words(low: f64, high: f64) -> String {
    match (low, high) {
        (0.0, f64::INFINITY) => "positive".to_owned(),
        (low, high) => format!("between {low} and {high}"),
    }
}
