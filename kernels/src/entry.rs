//! What stands behind a name of the text grammar: how a kernel is made from the options written with it; no grammar.

use crate::kernel::Kernel;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What is wrong with a kernel's text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct ParseError {
    /// The character where the problem starts, counted from 1.
    pub column: usize,
    /// What was expected or what does not fit.
    pub message: String,
    /// The name that stands for no kernel, where that is the problem.
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
    /// Makes the kernel, parameters without a given start being as they like. It reads flags and arguments; that nothing else
    /// was written, and the values of parameters, are seen to afterwards.
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

/// Makes a kernel for points of so many columns, its parameters being as they like.
pub type Make = Arc<dyn Fn(usize) -> Box<dyn Kernel> + Send + Sync>;

/// A kernel that entered a grammar while a program runs: a name and what makes it. Starting values of all its parameters may be given.
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

    /// Whether an option is there, with or without a value.
    pub fn flag(&self, key: &str) -> bool {
        self.setting(key).is_some()
    }

    /// The numbers given as `key=…`, none where the option is absent or has no value.
    pub fn values(&self, key: &str) -> &[f64] {
        self.setting(key).map_or(&[], |setting| &setting.values)
    }

    /// A whole number given as `key=…`, `default` where it is absent.
    ///
    /// # Errors
    /// At the option, if it is anything but one whole number of the range.
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

    /// A value of 1 for parameter `key`, or one per dimension where `flag` or a list of values asks for them.
    pub fn ones(&self, key: &str, flag: &str) -> Vec<f64> {
        let each = self.values(key).len() > 1 || self.flag(flag);
        vec![1.0; if each { self.dims.max(1) } else { 1 }]
    }

    /// The error that an option, or the kernel as a whole where that option is absent, is refused with.
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

/// Sets the first parameter called `key`: one of the kernel's own, which come before those of kernels inside it.
fn set(kernel: &mut dyn Kernel, key: &str, values: &[f64], at: usize) -> Result<(), ParseError> {
    let mut outcome = Ok(());
    let mut done = false;
    kernel.for_each_parameter_mut(&mut |parameter| {
        if done || parameter.name != key {
            return;
        }
        done = true;
        let count = parameter.values.len();
        if values.len() != 1 && values.len() != count {
            let given = values.len();
            outcome = error(at, format!("'{key}' has {given} values for {count} dimensions"));
        } else if let Some(value) = values.iter().find(|&&value| !parameter.transform.admits(value)) {
            outcome =
                error(at, format!("'{key}' must be {}, not {value}", range(parameter.transform.range())));
        } else {
            let slots = parameter.values.iter_mut().enumerate();
            slots.for_each(|(d, slot)| *slot = values[d % values.len()]);
            parameter.given = true;
        }
    });
    outcome
}

/// What a parameter's values have to be.
fn range((low, high): (f64, f64)) -> String {
    match (low, high) {
        (0.0, f64::INFINITY) => "positive".to_owned(),
        (low, high) => format!("between {low} and {high}"),
    }
}
