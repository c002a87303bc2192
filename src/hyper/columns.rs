//! Columns that constraints can name, and constraints in their units turned into constraints on the scale the model sees.

use super::constraints::NamePattern;
use crate::data::Scaling;
use crate::error::{Error, Result};
use std::fmt;

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
    pub fn without_target(mut self) -> Columns {
        self.target = None;
        self
    }

    /// Returns the names in words.
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
