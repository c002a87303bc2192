//! Columns by name in the text of a kernel: `matern32(ard)[age,income] * coregion[region]`; the grammar
//! itself accepts only numbers of inputs.

use super::{Feature, Schema};
use sparsegp::error::{Error, Result};
use sparsegp::hyper::Columns;
use sparsegp::options::{FitOptions, ModelKind, Open};
use std::convert::Infallible;
use std::ops::Range;

impl Schema {
    /// Returns the options with everything that the inputs of these columns determine: column names in the
    /// kernel become numbers of inputs, and the kind of each input, the grouped effects, the number of offsets
    /// and the names of the inputs are set.
    pub(crate) fn options_of(&self, options: FitOptions) -> Result<FitOptions> {
        if self.places().is_some() && options.model == ModelKind::Glm {
            return Err(Error::usage("⟨places⟩ and ⟨plane⟩ are for Gaussian processes, not for ⟨model glm⟩")
                .hint("leave them out: the columns are then two coefficients"));
        }
        // The name of a date becomes the numbers of all its inputs, and the names of a place those of its coordinates.
        let kernel = with_selections(&options.kernel, |inside| self.selection(inside))?;
        let mut options = FitOptions {
            kernel,
            dimensions: self.dimensions(),
            effects: self.effect_terms(),
            offsets: self.offset.len(),
            ..options
        };
        let mut inputs = self.input_names();
        inputs.truncate(self.feature_dims());
        let columns = Columns::named(inputs, self.target_name().to_owned());
        options.constraints.columns = match self.place_inputs() {
            Some((places, inputs)) => columns.with_place(places.name(), inputs.collect()),
            None => columns,
        };
        if self.groups().is_empty() {
            return Ok(options);
        }
        if options.model == ModelKind::Gp && self.feature_dims() == 0 {
            return Err(Error::usage("a Gaussian process needs an input besides the columns of ⟨group⟩")
                .hint("use ⟨model glm⟩ for grouped effects alone"));
        }
        // Short fits choose nothing here, because the alternatives that they try cannot be combined with
        // grouped effects.
        let options = FitOptions { open: Open::NOTHING, ..options };
        options.validate()?;
        Ok(options)
    }

    /// Returns the kernel's text with the names of columns in place of the numbers of their inputs, where a selection contains all inputs
    /// of its columns.
    pub fn kernel_in_names(&self, kernel: &str) -> String {
        let named = |inside: &str| {
            let names = numbers_of(inside).and_then(|inputs| self.names_of(&inputs));
            Ok::<String, Infallible>(names.unwrap_or_else(|| inside.to_owned()))
        };
        let Ok(text) = with_selections(kernel, named);
        text
    }

    /// Returns the names of the columns with these inputs; `None` if they are only a part of the inputs of a column, or if a name cannot
    /// be written in a kernel.
    fn names_of(&self, mut inputs: &[usize]) -> Option<String> {
        let mut names = Vec::new();
        while let Some(first) = inputs.first() {
            let (feature, own) = self.feature_inputs().find(|(_, own)| {
                !own.is_empty() && own.start == *first && inputs.starts_with(&own.clone().collect::<Vec<_>>())
            })?;
            names.extend(feature.selectors().iter().map(String::as_str));
            inputs = &inputs[own.len()..];
        }
        let plain = |name: &&str| {
            name.parse::<f64>().is_err() && name.trim() == *name && !name.contains(['[', ']', ',', ':'])
        };
        names.iter().all(plain).then(|| names.join(", "))
    }

    /// Returns the numbers of the inputs that a selection names.
    fn selection(&self, inside: &str) -> Result<String> {
        // Numbers and ranges of inputs, and lists of values.
        let number = |word: &str| word.trim().parse::<f64>().is_ok();
        if inside.split([',', ':']).all(|word| number(word) || word.trim().is_empty()) {
            return Ok(inside.to_owned());
        }
        let words: Vec<&str> = inside.split(',').map(str::trim).collect();
        let mut inputs: Vec<String> = Vec::new();
        for &word in &words {
            if !word.is_empty() && word.chars().all(|c| c.is_ascii_digit()) {
                inputs.push(word.to_owned());
                continue;
            }
            let is_named = |(feature, own): &(&Feature, Range<usize>)| {
                !own.is_empty() && feature.selectors().iter().any(|name| name == word)
            };
            let (feature, own) = self.feature_inputs().find(is_named).ok_or_else(|| {
                let names: Vec<&str> = self.features.iter().map(|feature| feature.name.as_str()).collect();
                let names = names.join(", ");
                Error::usage(format!("⟨kernel⟩: there is no input called '{word}', expected one of {names}"))
            })?;
            let columns = feature.selectors();
            if !columns.iter().all(|column| words.contains(&column.as_str())) {
                let (both, names) = (columns.join(","), columns.join(" and "));
                let found = format!("⟨kernel⟩: '{word}' alone is not an input");
                return Err(Error::usage(format!(
                    "{found}, because {names} are the coordinates of one place"
                ))
                .hint(format!("select both, as in matern32[{both}]")));
            }
            // The two columns of a place are replaced by its coordinates once.
            if columns[0] == word {
                inputs.extend(own.map(|input| input.to_string()));
            }
        }
        Ok(inputs.join(","))
    }
}

/// Returns the kernel's text with other contents of its brackets.
fn with_selections<E>(
    kernel: &str,
    of: impl Fn(&str) -> std::result::Result<String, E>,
) -> std::result::Result<String, E> {
    let mut rest = kernel;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once('[') {
        let Some((inside, after)) = after.split_once(']') else { break };
        text.push_str(before);
        text.push_str(&format!("[{}]", of(inside)?));
        rest = after;
    }
    Ok(text + rest)
}

/// Returns the numbers of a selection such as `2, 0` or `0:3`; `None` for other text.
fn numbers_of(selection: &str) -> Option<Vec<usize>> {
    let numbers = |word: &str| match word.split_once(':') {
        Some((from, to)) => Some((from.trim().parse().ok()?..to.trim().parse().ok()?).collect()),
        None => Some(vec![word.trim().parse().ok()?]),
    };
    let all: Option<Vec<Vec<usize>>> = selection.split(',').map(numbers).collect();
    all.map(|all| all.concat()).filter(|all| !all.is_empty())
}
