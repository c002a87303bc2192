//! The definition behind a name of the text grammar: how a kernel is built from the options written
//! with it.

use crate::kernel::Kernel;
use crate::parameter::range_words;
use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A problem in the text of a kernel, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct ParseError {
    /// The character where the problem starts, counted from 1.
    pub column: usize,
    /// The message: what was expected, or what does not fit.
    pub message: String,
    /// The unknown name of a kernel, if that is the problem.
    pub unknown: Option<String>,
}

pub(crate) fn error<T>(at: usize, message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError { column: at + 1, message: message.into(), unknown: None })
}

/// A function that builds a kernel from the options written after its name.
pub type Build = fn(&Options<'_>) -> Result<Box<dyn Kernel>, ParseError>;

/// The definition of a kernel in a [`Grammar`](crate::Grammar): its names and its
/// constructor.
///
/// Other crates add their kernels as this crate does:
///
/// ```
/// use sparsegp_kernels::{Entry, Grammar, Stationary};
///
/// let smooth = Entry {
///     names: &["smooth"],
///     build: |options| Ok(Box::new(Stationary::rbf(1.0, &options.ones("lengthscales", "ard")))),
/// };
/// let grammar = Grammar::default().with(smooth)?;
/// assert!(grammar.parse("periodic * smooth(ard, variance=0.5)[0:2]", 3).is_ok());
/// assert!(grammar.parse("smooth(alpha=2)", 1).is_err_and(|error| error.column == 8));
/// assert!(grammar.with(smooth).is_err(), "the name is taken");
/// # Ok::<(), sparsegp_kernels::NameError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The names of the kernel in expressions; [`Kernel::expression`] writes the first one.
    pub names: &'static [&'static str],
    /// Builds the kernel; it only needs to read flags and arguments. Parameters can have any value. The caller then refuses options that were
    /// not read and are no [names](crate::Parameter::name) of parameters, and sets the given values of parameters.
    pub build: Build,
}

/// A function that builds a kernel for points with the given number of columns; its parameters can
/// have any value.
pub type Make = Arc<dyn Fn(usize) -> Box<dyn Kernel> + Send + Sync>;

type BuildNamed = dyn Fn(&Options<'_>) -> Result<Box<dyn Kernel>, ParseError> + Send + Sync;

/// A kernel of a grammar: its names, and a function or closure that builds it.
#[derive(Clone)]
pub(crate) struct Named {
    pub names: Vec<String>,
    pub build: Arc<BuildNamed>,
}

impl Named {
    /// Builds the kernel with the given options.
    pub fn kernel(&self, options: &Options<'_>) -> Result<Box<dyn Kernel>, ParseError> {
        let mut kernel = (self.build)(options)?;
        let names: Vec<String> = kernel.parameters().iter().map(|parameter| parameter.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        options.apply(kernel.as_mut(), &names)?;
        Ok(kernel)
    }
}

impl From<Entry> for Named {
    fn from(entry: Entry) -> Named {
        let build = move |options: &Options<'_>| {
            let mut kernel = (entry.build)(options)?;
            // Only the text gives values.
            kernel.for_each_parameter_mut(&mut |parameter| parameter.given = false);
            Ok(kernel)
        };
        Named { names: entry.names.iter().map(|&name| name.to_owned()).collect(), build: Arc::new(build) }
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Named").field(&self.names).finish()
    }
}

/// One option, `key` or `key=values`.
pub(crate) struct Setting {
    pub at: usize,
    pub key: String,
    pub values: Vec<f64>,
}

/// The options written after a kernel's name, and the number of columns the kernel sees.
pub struct Options<'a> {
    pub(crate) at: usize,
    pub(crate) name: &'a str,
    settings: &'a [Setting],
    pub(crate) dims: usize,
    /// The flags, and the options with a value, that the kernel has read.
    read: RefCell<[Vec<String>; 2]>,
}

impl<'a> Options<'a> {
    pub(crate) fn new(at: usize, name: &'a str, settings: &'a [Setting], dims: usize) -> Options<'a> {
        Options { at, name, settings, dims, read: RefCell::default() }
    }

    /// The number of columns of the points that the kernel sees.
    pub fn dims(&self) -> usize {
        self.dims
    }

    fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key == key)
    }

    /// Returns true if an option that takes no value, such as `ard`, is present.
    pub fn flag(&self, key: &str) -> bool {
        self.read.borrow_mut()[0].push(key.to_owned());
        self.setting(key).is_some()
    }

    /// Returns the numbers given as `key=…`; empty if the option is absent or has no value.
    pub fn values(&self, key: &str) -> &[f64] {
        self.read.borrow_mut()[1].push(key.to_owned());
        self.setting(key).map_or(&[], |setting| &setting.values)
    }

    /// Returns a whole number given as `key=…`, or `default` if it is absent.
    ///
    /// # Errors
    /// Returns an error at the position of the option if its value is not one whole number within
    /// the range.
    pub fn integer(&self, key: &str, default: u32, range: RangeInclusive<u32>) -> Result<u32, ParseError> {
        self.read.borrow_mut()[1].push(key.to_owned());
        let Some(setting) = self.setting(key) else { return Ok(default) };
        let (low, high) = (*range.start(), *range.end());
        let found = range.clone().find(|&value| setting.values == [f64::from(value)]);
        let wrong = || error(setting.at, format!("'{key}' must be a whole number from {low} to {high}"));
        found.map_or_else(wrong, Ok)
    }

    /// Returns starting values of 1 for parameter `key`: one per dimension if `flag` is set or a
    /// list of values is given, otherwise one.
    pub fn ones(&self, key: &str, flag: &str) -> Vec<f64> {
        let listed = self.setting(key).is_some_and(|setting| setting.values.len() > 1);
        let each = self.flag(flag) || listed;
        vec![1.0; if each { self.dims.max(1) } else { 1 }]
    }

    /// Returns an error at the position of an option, or of the kernel if the option is absent.
    pub fn refusal(&self, key: &str, message: impl Into<String>) -> ParseError {
        let at = self.setting(key).map_or(self.at, |setting| setting.at);
        ParseError { column: at + 1, message: message.into(), unknown: None }
    }

    /// Checks that every option was read or is one of the parameters, and sets the given parameters.
    pub(crate) fn apply(&self, kernel: &mut dyn Kernel, parameters: &[&str]) -> Result<(), ParseError> {
        let [flags, arguments] = &*self.read.borrow();
        for (i, Setting { at, key, values }) in self.settings.iter().enumerate() {
            let (flag, argument) = (flags.contains(key), arguments.contains(key));
            let parameter = parameters.contains(&key.as_str());
            if !(flag || argument || parameter) {
                let known =
                    flags.iter().chain(arguments).map(String::as_str).chain(parameters.iter().copied());
                let (name, known) = (self.name, known.collect::<Vec<_>>().join(", "));
                return error(*at, format!("'{name}' has no option '{key}'; expected one of {known}"));
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

/// Sets the first parameter called `key`. A kernel visits its own parameters before those of inner
/// kernels.
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
