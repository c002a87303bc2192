//! The text form of kernels: `matern52(ard) + periodic * rbf[0:2]` to a kernel; no maths.
//!
//! ```text
//! sum      = product { "+" product }
//! product  = selected { "*" selected }
//! selected = primary { "[" range { "," range } "]" }
//! range    = index | index ":" index                      columns counted from 0, the end not included
//! primary  = "(" sum ")" | "scale" "(" sum { "," option } ")" | name [ "(" [ option { "," option } ] ")" ]
//! option   = flag | key "=" ( number | "[" number { "," number } "]" )
//! ```
//!
//! | name | options |
//! | --- | --- |
//! | `rbf` (`squared_exponential`), `matern12`, `matern32`, `matern52` | `ard`, `variance`, `lengthscales` |
//! | `rational_quadratic` (`rq`) | `ard`, `variance`, `lengthscales`, `alpha` |
//! | `periodic` | `ard`, `ard_period`, `variance`, `lengthscales`, `period` |
//! | `cosine` | `ard`, `variance`, `lengthscales` |
//! | `linear` | `ard`, `variance` |
//! | `polynomial` | `ard`, `degree` (2), `variance`, `offset` |
//! | `arccosine` | `ard`, `order` (1), `variance`, `weight_variances`, `bias_variance` |
//! | `constant`, `white`, `scale(…)` | `variance` |
//!
//! `ard` gives every selected dimension a value of its own (so does a list of values). Values that are not given
//! start at 1 and are set by [`Kernel::initialise`]; given ones stay.
//!
//! **Identifiability.** Only one factor of a product can carry its scale, so the variance of every factor but the
//! first is fixed (at 1, or at the value given), and so are variances inside `scale(…)`. Of a sum that is such a
//! factor, the variance of the first term is fixed. A polynomial, or a linear kernel with one variance per
//! dimension, has no overall scale to fix and stays free.

use crate::arc_cosine::ArcCosine;
use crate::compose::{ActiveDims, Combination, Operation, Scale};
use crate::dot_product::{Constant, Polynomial};
use crate::kernel::Kernel;
use crate::periodic::{Cosine, Periodic};
use crate::stationary::{Profile, Stationary};

/// Parentheses and selections may nest this deep, far beyond any use and far from the end of the stack.
const MAX_DEPTH: usize = 64;
/// A kernel may consist of this many pieces.
const MAX_PIECES: usize = 1000;

const NAMES: &str = "a kernel: rbf, matern12, matern32, matern52, rational_quadratic, periodic, cosine, linear, \
                     polynomial, arccosine, constant, white, scale(...) or (...)";

/// What is wrong with a kernel's text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {message}")]
pub struct ParseError {
    /// The character where the problem starts, counted from 1.
    pub column: usize,
    /// What was expected or what does not fit.
    pub message: String,
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
    let mut parser = Parser { text: text.chars().collect(), at: 0, pieces: 0 };
    let node = parser.sum(0)?;
    if parser.peek().is_some() {
        return parser.expected("'+', '*', '[' or the end");
    }
    node.build(dims, Role::Free)
}

/// A kernel as written, before the number of columns it sees is known.
enum Node {
    Leaf { at: usize, name: String, options: Vec<Setting> },
    Combination { operation: Operation, children: Vec<Node> },
    Scale { inner: Box<Node>, options: Vec<Setting> },
    Active { inner: Box<Node>, ranges: Vec<Range> },
}

/// `key` or `key=values`.
struct Setting {
    at: usize,
    key: String,
    values: Vec<f64>,
}

struct Range {
    at: usize,
    first: usize,
    end: usize,
}

/// Whether a kernel may carry the scale of the expression around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Free,
    Unscaled,
}

fn error<T>(at: usize, message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError { column: at + 1, message: message.into() })
}

struct Parser {
    text: Vec<char>,
    at: usize,
    pieces: usize,
}

impl Parser {
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

    /// The longest run of characters that `belongs` (told the character before it) accepts.
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

    fn word(&mut self, what: &str) -> Result<(usize, String), ParseError> {
        if !self.peek().is_some_and(|c| c.is_ascii_alphabetic()) {
            return self.expected(what);
        }
        Ok((self.at, self.run(|_, c| c.is_ascii_alphanumeric() || c == '_')))
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
        self.combination(Operation::Sum, '+', depth, Parser::product)
    }

    fn product(&mut self, depth: usize) -> Result<Node, ParseError> {
        self.combination(Operation::Product, '*', depth, Parser::selected)
    }

    fn combination(
        &mut self,
        operation: Operation,
        operator: char,
        depth: usize,
        child: fn(&mut Parser, usize) -> Result<Node, ParseError>,
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
            let ranges = self.list(']', Parser::range)?;
            node = Node::Active { inner: Box::new(node), ranges };
        }
        Ok(node)
    }

    /// One or more items between commas, and the closing character.
    fn list<T>(
        &mut self,
        close: char,
        item: fn(&mut Parser) -> Result<T, ParseError>,
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
        let (at, name) = self.word(NAMES)?;
        if name == "scale" {
            self.require('(')?;
            let inner = Box::new(self.sum(depth)?);
            let options = if self.accept(',') {
                self.list(')', Parser::setting)?
            } else {
                self.require(')')?;
                Vec::new()
            };
            return Ok(Node::Scale { inner, options });
        }
        let options =
            if self.accept('(') && !self.accept(')') { self.list(')', Parser::setting)? } else { Vec::new() };
        Ok(Node::Leaf { at, name, options })
    }

    fn setting(&mut self) -> Result<Setting, ParseError> {
        let (at, key) = self.word("an option")?;
        let values = if !self.accept('=') {
            Vec::new()
        } else if self.accept('[') {
            self.list(']', Parser::number)?
        } else {
            vec![self.number()?]
        };
        Ok(Setting { at, key, values })
    }
}

impl Node {
    fn build(self, dims: usize, role: Role) -> Result<Box<dyn Kernel>, ParseError> {
        match self {
            Node::Leaf { at, name, options } => build_leaf(at, &name, options, dims, role),
            Node::Combination { operation, children } => {
                let child_role = |i: usize| match operation {
                    Operation::Sum if i > 0 => Role::Free,
                    Operation::Product if i > 0 => Role::Unscaled,
                    _ => role,
                };
                let children =
                    children.into_iter().enumerate().map(|(i, child)| child.build(dims, child_role(i)));
                Ok(Box::new(Combination::new(operation, children.collect::<Result<_, _>>()?)))
            }
            Node::Scale { inner, options } => {
                let mut kernel = Scale::new(1.0, inner.build(dims, Role::Unscaled)?);
                apply_settings(&mut kernel, &options, "scale", &["variance"])?;
                fix_variance(&mut kernel, role);
                Ok(Box::new(kernel))
            }
            Node::Active { inner, ranges } => {
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
                let inner = inner.build(columns.len(), role)?;
                Ok(Box::new(ActiveDims::new(columns, inner)))
            }
        }
    }
}

/// Fixes the first parameter, a variance, of a kernel that may not carry the scale.
fn fix_variance(kernel: &mut dyn Kernel, role: Role) {
    let mut first = true;
    kernel.for_each_parameter_mut(&mut |parameter| {
        parameter.fixed |= first && role == Role::Unscaled;
        first = false;
    });
}

fn build_leaf(
    at: usize,
    name: &str,
    options: Vec<Setting>,
    dims: usize,
    role: Role,
) -> Result<Box<dyn Kernel>, ParseError> {
    let profile = match name {
        "rbf" | "squared_exponential" => Some(Profile::SquaredExponential),
        "matern12" => Some(Profile::Matern12),
        "matern32" => Some(Profile::Matern32),
        "matern52" => Some(Profile::Matern52),
        "rational_quadratic" | "rq" => Some(Profile::RationalQuadratic),
        _ => None,
    };
    let flag = |flag: &str| options.iter().any(|option| option.key == flag);
    // The starting values of a parameter that `ard_flag`, or a list of values, makes one per dimension.
    let ones = |key: &str, ard_flag: &str| {
        let listed = options.iter().any(|option| option.key == key && option.values.len() > 1);
        vec![1.0; if listed || flag(ard_flag) { dims.max(1) } else { 1 }]
    };
    let lengthscales = ones("lengthscales", "ard");
    let shared_variance = ones("variance", "ard");
    let (mut kernel, allowed): (Box<dyn Kernel>, &[&str]) = match (name, profile) {
        (_, Some(Profile::RationalQuadratic)) => (
            Box::new(Stationary::rational_quadratic(1.0, &lengthscales, 1.0)),
            &["ard", "variance", "lengthscales", "alpha"],
        ),
        (_, Some(profile)) => {
            (Box::new(Stationary::new(profile, 1.0, &lengthscales)), &["ard", "variance", "lengthscales"])
        }
        ("periodic", _) => (
            Box::new(Periodic::new(1.0, &lengthscales, &ones("period", "ard_period"))),
            &["ard", "ard_period", "variance", "lengthscales", "period"],
        ),
        ("cosine", _) => (Box::new(Cosine::new(1.0, &lengthscales)), &["ard", "variance", "lengthscales"]),
        ("linear", _) => (Box::new(Polynomial::linear(&shared_variance)), &["ard", "variance"]),
        ("polynomial", _) => {
            let degree = integer(&options, "degree", 2, 1, Polynomial::MAX_DEGREE)?;
            (
                Box::new(Polynomial::new(degree, &shared_variance, 1.0)),
                &["ard", "degree", "variance", "offset"],
            )
        }
        ("arccosine", _) => {
            let order = integer(&options, "order", 1, 0, ArcCosine::MAX_ORDER)?;
            (
                Box::new(ArcCosine::new(order, 1.0, &ones("weight_variances", "ard"), 1.0)),
                &["ard", "order", "variance", "weight_variances", "bias_variance"],
            )
        }
        ("constant", _) => (Box::new(Constant::new(1.0)), &["variance"]),
        ("white", _) => (Box::new(Constant::white(1.0)), &["variance"]),
        _ => return error(at, format!("'{name}' is not known; expected {NAMES}")),
    };
    apply_settings(kernel.as_mut(), &options, name, allowed)?;
    let scale_is_variance = name != "polynomial" && (name != "linear" || shared_variance.len() == 1);
    if scale_is_variance {
        fix_variance(kernel.as_mut(), role);
    }
    Ok(kernel)
}

/// A small whole number given as `key=…`.
fn integer(options: &[Setting], key: &str, default: u32, low: u32, high: u32) -> Result<u32, ParseError> {
    let Some(option) = options.iter().find(|option| option.key == key) else { return Ok(default) };
    let found = (low..=high).find(|&value| option.values == [f64::from(value)]);
    match found {
        Some(value) => Ok(value),
        None => error(option.at, format!("'{key}' is a whole number from {low} to {high}")),
    }
}

/// Checks every option of a kernel and sets the parameters it names.
fn apply_settings(
    kernel: &mut dyn Kernel,
    options: &[Setting],
    name: &str,
    allowed: &[&str],
) -> Result<(), ParseError> {
    for (i, Setting { at, key, values }) in options.iter().enumerate() {
        if !allowed.contains(&key.as_str()) {
            let allowed = allowed.join(", ");
            return error(*at, format!("'{name}' has no option '{key}'; expected one of {allowed}"));
        }
        if options[..i].iter().any(|earlier| earlier.key == *key) {
            return error(*at, format!("'{key}' is given twice"));
        }
        if matches!(key.as_str(), "degree" | "order") {
            continue;
        }
        if key.starts_with("ard") != values.is_empty() {
            let wanted = if values.is_empty() { "needs a value" } else { "takes no value" };
            return error(*at, format!("'{key}' {wanted}"));
        }
        let mut outcome = Ok(());
        let mut done = false;
        kernel.for_each_parameter_mut(&mut |parameter| {
            // The own parameter comes first: the kernel inside `scale` has names of its own.
            if done || parameter.name != *key {
                return;
            }
            done = true;
            let count = parameter.values.len();
            if values.len() != 1 && values.len() != count {
                let given = values.len();
                outcome = error(*at, format!("'{key}' has {given} values for {count} dimensions"));
            } else if let Some(value) = values.iter().find(|&&value| !parameter.transform.admits(value)) {
                outcome = error(*at, format!("'{key}' must be positive, not {value}"));
            } else {
                parameter
                    .values
                    .iter_mut()
                    .enumerate()
                    .for_each(|(d, slot)| *slot = values[d % values.len()]);
                parameter.given = true;
            }
        });
        outcome?;
    }
    Ok(())
}
