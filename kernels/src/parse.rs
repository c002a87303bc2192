//! The text form of kernels: `matern52(ard) + periodic * rbf[0:2]` to a kernel.
//!
//! ```text
//! sum      = product { "+" product }
//! product  = selected { "*" selected }
//! selected = primary { "[" range { "," range } "]" }
//! range    = index | index ":" index                      columns counted from 0, the end not included
//! primary  = "(" sum ")" | around "(" sum { "," sum } { "," option } ")" | name [ "(" [ option { "," option } ] ")" ]
//! around   = "scale" | "warp" | "changepoint"             one kernel inside; of changepoint, two or more
//! option   = flag | key "=" ( number | "[" number { "," number } "]" )
//! ```
//!
//! | name | options |
//! | --- | --- |
//! | `rbf` (`squared_exponential`), `matern12`, `matern32`, `matern52` | `ard`, `variance`, `lengthscales` |
//! | `rational_quadratic` (`rq`) | `ard`, `variance`, `lengthscales`, `alpha` |
//! | `wendland` | `ard`, `smoothness` (1), `variance`, `lengthscales` |
//! | `periodic` | `ard`, `ard_period`, `variance`, `lengthscales`, `period` |
//! | `cosine` | `ard`, `variance`, `lengthscales` |
//! | `spectral_mixture` | `components` (2), `weights`, `frequencies`, `bandwidths` |
//! | `additive` | `order` (2, or 1 for one column), `variances`, `lengthscales` |
//! | `linear` | `ard`, `variance` |
//! | `polynomial` | `ard`, `degree` (2), `variance`, `offset` |
//! | `arccosine` | `ard`, `order` (1), `variance`, `weight_variances`, `bias_variance` |
//! | `hamming` | `ard`, `variance`, `lengthscales` |
//! | `coregion` (`index`) | `rank` (1), `weights`, `variances` |
//! | `constant`, `white`, `scale(…)` | `variance` |
//! | `warp(…)` | `left_slopes`, `right_slopes` |
//! | `changepoint(…, …)`, along the first selected column | `locations`, `steepness` |
//!
//! `ard` gives every selected dimension a separate value (so does a list of values). Values that
//! are not given are 1 until [`Kernel::initialise`] sets them; given values stay.
//!
//! **Identifiability.** Only one factor of a product can carry its scale, so the variance of every
//! factor but the first is fixed (at 1, or at the value given), and so are variances inside
//! `scale(…)`: see [`Kernel::fix_scale`]. If such a factor is a sum, the variance of its first term
//! is fixed. A polynomial, or a linear kernel with one variance per dimension, has no overall scale
//! to fix and stays free.
//!
//! Custom kernels are added as an [`Entry`] with [`Grammar::with`], or as a closure with
//! [`Grammar::with_made`].

use crate::built_in::BUILT_IN;
use crate::changepoint::Changepoint;
use crate::compose::{Combination, Operation, Scale};
use crate::entry::{Entry, Make, Named, Options, ParseError, Setting, error};
use crate::kernel::Kernel;
use crate::mapped::{ActiveDims, Warped};
use std::sync::Arc;

/// The maximum depth of nested parentheses and selections, far more than any use needs, and few
/// enough not to overflow the stack.
const MAX_DEPTH: usize = 64;
/// The maximum number of pieces of a kernel.
const MAX_PIECES: usize = 1000;
/// The names that are followed by kernels in parentheses.
const AROUND: [&str; 3] = ["scale", "warp", "changepoint"];

/// The kernels that can be written by name: the built-in kernels, and added ones.
#[derive(Clone, Debug)]
pub struct Grammar {
    kernels: Vec<Named>,
}

impl Default for Grammar {
    fn default() -> Self {
        Grammar { kernels: BUILT_IN.iter().copied().map(Named::from).collect() }
    }
}

/// The reason why an [`Entry`] cannot be part of a grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// A name that could not be read back.
    #[error(
        "'{0}' is not a valid name for a kernel: expected a letter, then letters, digits and underscores"
    )]
    Malformed(String),
    /// A name that another kernel has.
    #[error("'{0}' is the name of another kernel: choose another one")]
    Taken(String),
}

impl Grammar {
    /// Returns the grammar with one more kernel.
    ///
    /// # Errors
    /// If the entry has no name, or a name that is not a word or belongs to another kernel.
    pub fn with(self, entry: Entry) -> Result<Grammar, NameError> {
        self.with_named(entry.into())
    }

    /// Returns the grammar with one more kernel, which `make` builds for a given number of columns.
    /// Unlike an [`Entry`], which is a constant, `make` can be a closure. The kernel's
    /// [expression](Kernel::expression) has to be `name`. Values that are [given](crate::Parameter::given),
    /// as in the constructors of this crate, are starting values on the scale the model sees.
    ///
    /// # Errors
    /// As for [`Grammar::with`].
    ///
    /// ```
    /// use sparsegp_kernels::{Grammar, Stationary};
    /// use std::sync::Arc;
    ///
    /// let starts = [0.3, 0.7];
    /// let made = Grammar::default().with_made("smooth", Arc::new(move |_| Box::new(Stationary::rbf(starts[0], &starts[1..]))))?;
    /// assert!(made.parse("smooth(lengthscales=2) + linear", 1).is_ok());
    /// assert!(made.parse("smooth(ard)", 1).is_err_and(|error| error.column == 8));
    /// # Ok::<(), sparsegp_kernels::NameError>(())
    /// ```
    pub fn with_made(self, name: &str, make: Make) -> Result<Grammar, NameError> {
        let build = Arc::new(move |options: &Options<'_>| Ok(make(options.dims())));
        self.with_named(Named { names: vec![name.to_owned()], build })
    }

    fn with_named(mut self, kernel: Named) -> Result<Grammar, NameError> {
        if kernel.names.is_empty() {
            return Err(NameError::Malformed(String::new()));
        }
        kernel.names.iter().try_for_each(|name| self.check_name(name))?;
        self.kernels.push(kernel);
        Ok(self)
    }

    fn check_name(&self, name: &str) -> Result<(), NameError> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !(name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(word)) {
            return Err(NameError::Malformed(name.to_owned()));
        }
        if self.knows(name) {
            return Err(NameError::Taken(name.to_owned()));
        }
        Ok(())
    }

    /// Returns true if a name belongs to a kernel.
    pub fn knows(&self, name: &str) -> bool {
        AROUND.contains(&name) || self.named(name).is_some()
    }

    /// Returns the names that expressions use, in the order in which kernels were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|kernel| kernel.names[0].as_str())
    }

    fn named(&self, name: &str) -> Option<&Named> {
        self.kernels.iter().find(|kernel| kernel.names.iter().any(|own| own == name))
    }

    /// Reads a kernel for points with `dims` columns.
    ///
    /// # Errors
    /// As for [`parse`].
    pub fn parse(&self, text: &str, dims: usize) -> Result<Box<dyn Kernel>, ParseError> {
        let mut parser = Parser { grammar: self, text: text.chars().collect(), at: 0, pieces: 0 };
        let node = parser.sum(0)?;
        if parser.peek().is_some() {
            return parser.expected("'+', '*', '[' or the end");
        }
        self.build(node, dims)
    }

    fn kernels(&self) -> String {
        let names: Vec<&str> = self.names().collect();
        format!("a kernel: {}, {}(...) or (...)", names.join(", "), AROUND.join("(...), "))
    }

    fn build(&self, node: Node, dims: usize) -> Result<Box<dyn Kernel>, ParseError> {
        match node {
            Node::Leaf { at, name, settings } => {
                let Some(kernel) = self.named(&name) else {
                    let message = format!("'{name}' is not known; expected {}", self.kernels());
                    return Err(ParseError { column: at + 1, message, unknown: Some(name) });
                };
                kernel.kernel(&Options::new(at, &name, &settings, dims))
            }
            Node::Combination { operation, children } => {
                let mut built = Vec::with_capacity(children.len());
                for child in children {
                    let mut child = self.build(child, dims)?;
                    if operation == Operation::Product && !built.is_empty() {
                        child.fix_scale();
                    }
                    built.push(child);
                }
                Ok(Box::new(Combination::new(operation, built)))
            }
            Node::Around { at, name, inner, settings } => {
                let inner: Result<Vec<_>, _> = inner.into_iter().map(|node| self.build(node, dims)).collect();
                around(&Options::new(at, name, &settings, dims), inner?)
            }
            Node::Active { inner, ranges } => {
                let columns = columns(ranges, dims)?;
                let inner = self.build(*inner, columns.len())?;
                Ok(Box::new(ActiveDims::new(columns, inner)))
            }
        }
    }
}

/// Reads a kernel for points with `dims` columns.
///
/// # Errors
/// If the text does not follow the grammar, a number is out of range, or a column does not exist.
///
/// ```
/// let kernel = sparsegp_kernels::parse("matern52(ard) + periodic(period=7) * rbf[0:2]", 3)?;
/// assert_eq!(kernel.expression(), "matern52(ard) + periodic * rbf[0:2]");
/// assert_eq!(kernel.parameter_names()[..2], ["matern52.variance", "matern52.lengthscales"]);
/// assert!(sparsegp_kernels::parse("rbf +", 3).is_err_and(|error| error.column == 6));
/// # Ok::<(), sparsegp_kernels::ParseError>(())
/// ```
pub fn parse(text: &str, dims: usize) -> Result<Box<dyn Kernel>, ParseError> {
    Grammar::default().parse(text, dims)
}

/// A kernel as written, before the number of columns it sees is known.
enum Node {
    Leaf { at: usize, name: String, settings: Vec<Setting> },
    Combination { operation: Operation, children: Vec<Node> },
    Around { at: usize, name: &'static str, inner: Vec<Node>, settings: Vec<Setting> },
    Active { inner: Box<Node>, ranges: Vec<Range> },
}

struct Range {
    at: usize,
    first: usize,
    end: usize,
}

struct Parser<'a> {
    grammar: &'a Grammar,
    text: Vec<char>,
    at: usize,
    pieces: usize,
}

impl Parser<'_> {
    /// The next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        while self.text.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += found as usize;
        found
    }

    fn require(&mut self, wanted: char) -> Result<(), ParseError> {
        if self.accept(wanted) { Ok(()) } else { self.expected(&format!("'{wanted}'")) }
    }

    fn expected<T>(&mut self, what: &str) -> Result<T, ParseError> {
        match self.peek() {
            Some(found) => error(self.at, format!("expected {what}, found '{found}'")),
            None => error(self.at, format!("expected {what}, found the end")),
        }
    }

    /// Reads the longest run of characters that `belongs` accepts; it also receives the previous character.
    fn run(&mut self, belongs: impl Fn(Option<char>, char) -> bool) -> String {
        let mut run = String::new();
        while let Some(&c) = self.text.get(self.at) {
            if !belongs(run.chars().last(), c) {
                break;
            }
            run.push(c);
            self.at += 1;
        }
        run
    }

    /// Returns true if a word comes next, after spaces.
    fn begins_word(&mut self) -> bool {
        self.peek().is_some_and(|c| c.is_ascii_alphabetic())
    }

    fn word(&mut self) -> (usize, String) {
        (self.at, self.run(|_, c| c.is_ascii_alphanumeric() || c == '_'))
    }

    fn number(&mut self) -> Result<f64, ParseError> {
        self.peek();
        let start = self.at;
        let text = self.run(|before, c| match c {
            '+' | '-' => before.is_none_or(|before| matches!(before, 'e' | 'E')),
            _ => c.is_ascii_alphanumeric() || c == '.',
        });
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            Ok(_) => error(start, format!("{text} is not a finite number")),
            Err(_) if text.is_empty() => self.expected("a number"),
            Err(_) => error(start, format!("expected a number, found '{text}'")),
        }
    }

    fn index(&mut self) -> Result<usize, ParseError> {
        self.peek();
        let start = self.at;
        let digits = self.run(|_, c| c.is_ascii_digit());
        match digits.parse() {
            Ok(index) => Ok(index),
            Err(_) if digits.is_empty() => self.expected("a column number"),
            Err(_) => error(start, format!("there is no column {digits}")),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, ParseError> {
        if depth < MAX_DEPTH {
            Ok(depth + 1)
        } else {
            error(self.at, format!("more than {MAX_DEPTH} levels of parentheses and selections"))
        }
    }

    fn sum(&mut self, depth: usize) -> Result<Node, ParseError> {
        self.combination(Operation::Sum, '+', depth, Self::product)
    }

    fn product(&mut self, depth: usize) -> Result<Node, ParseError> {
        self.combination(Operation::Product, '*', depth, Self::selected)
    }

    fn combination(
        &mut self,
        operation: Operation,
        operator: char,
        depth: usize,
        child: fn(&mut Self, usize) -> Result<Node, ParseError>,
    ) -> Result<Node, ParseError> {
        let first = child(self, depth)?;
        let mut children = vec![first];
        while self.accept(operator) {
            children.push(child(self, depth)?);
        }
        match children.len() {
            1 => Ok(children.swap_remove(0)),
            _ => Ok(Node::Combination { operation, children }),
        }
    }

    fn selected(&mut self, mut depth: usize) -> Result<Node, ParseError> {
        let mut node = self.primary(depth)?;
        while self.accept('[') {
            depth = self.deeper(depth)?;
            let ranges = self.list(']', Self::range)?;
            node = Node::Active { inner: Box::new(node), ranges };
        }
        Ok(node)
    }

    /// Reads one or more items separated by commas, and the closing character.
    fn list<T>(
        &mut self,
        close: char,
        item: fn(&mut Self) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        let mut items = vec![item(self)?];
        while !self.accept(close) {
            if !self.accept(',') {
                return self.expected(&format!("',' or '{close}'"));
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn range(&mut self) -> Result<Range, ParseError> {
        self.peek();
        let at = self.at;
        let first = self.index()?;
        let end = if self.accept(':') { self.index()? } else { first.saturating_add(1) };
        if first < end {
            Ok(Range { at, first, end })
        } else {
            error(at, format!("{first}:{end} selects nothing"))
        }
    }

    fn primary(&mut self, depth: usize) -> Result<Node, ParseError> {
        let depth = self.deeper(depth)?;
        self.pieces += 1;
        if self.pieces > MAX_PIECES {
            return error(self.at, format!("more than {MAX_PIECES} pieces"));
        }
        if self.accept('(') {
            let inner = self.sum(depth)?;
            self.require(')')?;
            return Ok(inner);
        }
        if !self.begins_word() {
            return self.expected(&self.grammar.kernels());
        }
        let (at, name) = self.word();
        if let Some(name) = AROUND.into_iter().find(|&around| around == name) {
            return self.around(at, name, depth);
        }
        let settings =
            if self.accept('(') && !self.accept(')') { self.list(')', Self::setting)? } else { Vec::new() };
        Ok(Node::Leaf { at, name, settings })
    }

    /// Reads kernels in parentheses after a name, then options.
    fn around(&mut self, at: usize, name: &'static str, depth: usize) -> Result<Node, ParseError> {
        self.require('(')?;
        let mut inner = vec![self.sum(depth)?];
        let mut settings = Vec::new();
        while !self.accept(')') {
            if !self.accept(',') {
                return self.expected("',' or ')'");
            }
            // A word that is not the name of a kernel starts an option.
            let before = self.at;
            let is_kernel =
                self.begins_word() && self.grammar.knows(&self.word().1) || self.peek() == Some('(');
            self.at = before;
            if is_kernel && settings.is_empty() {
                inner.push(self.sum(depth)?);
            } else {
                settings.push(self.setting()?);
            }
        }
        Ok(Node::Around { at, name, inner, settings })
    }

    fn setting(&mut self) -> Result<Setting, ParseError> {
        if !self.begins_word() {
            return self.expected("an option");
        }
        let (at, key) = self.word();
        let values = if !self.accept('=') {
            Vec::new()
        } else if self.accept('[') {
            self.list(']', Self::number)?
        } else {
            vec![self.number()?]
        };
        Ok(Setting { at, key, values })
    }
}

/// Builds the kernel with the given options around the inner kernels.
fn around(options: &Options<'_>, mut inner: Vec<Box<dyn Kernel>>) -> Result<Box<dyn Kernel>, ParseError> {
    let (mut kernel, parameters): (Box<dyn Kernel>, &[&str]) = match (options.name, inner.len()) {
        ("changepoint", 2..) => (Box::new(Changepoint::new(inner)), &["locations", "steepness"]),
        ("changepoint", _) => return error(options.at, "'changepoint' takes two kernels or more"),
        ("warp", 1) => {
            let kernel = Warped::new(options.dims.max(1), inner.remove(0));
            (Box::new(kernel), &["left_slopes", "right_slopes"])
        }
        (_, 1) => {
            inner[0].fix_scale();
            (Box::new(Scale::from_data(inner.remove(0))), &["variance"])
        }
        (name, _) => return error(options.at, format!("'{name}' takes one kernel")),
    };
    options.apply(kernel.as_mut(), parameters)?;
    Ok(kernel)
}

/// Returns the columns of some ranges; each column must exist and occur once.
fn columns(ranges: Vec<Range>, dims: usize) -> Result<Vec<usize>, ParseError> {
    let mut columns = Vec::new();
    for Range { at, first, end } in ranges {
        if end > dims {
            let last = end - 1;
            return error(at, format!("there is no column {last}, only {dims}, counted from 0"));
        }
        if let Some(twice) = (first..end).find(|d| columns.contains(d)) {
            return error(at, format!("column {twice} is selected twice"));
        }
        columns.extend(first..end);
    }
    Ok(columns)
}
