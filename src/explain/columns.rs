//! The columns that explanations describe, each of one input or several; no predictions.

use std::ops::Range;

/// A column of the data with the inputs that it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputColumn {
    /// The name of the column.
    pub name: String,
    /// Its inputs, counted from 0.
    pub inputs: Range<usize>,
    /// The kind of its inputs.
    pub kind: InputKind,
}

/// The kind of the inputs of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// The number itself, followed by an indicator of a missing value if cells were missing in training.
    Number,
    /// The code of a category.
    Codes {
        /// The names of the categories, in the order of their codes.
        names: Vec<String>,
    },
    /// One input for each category, 1 in its rows and 0 elsewhere. A row with 0 everywhere belongs to the first name if that category has
    /// no input.
    Categories {
        /// The names, one for each input, preceded by the name of the category without input.
        names: Vec<String>,
        /// True if the first category has no input.
        first_is_none: bool,
    },
    /// The years since the first training row, and phases of periods.
    Date,
    /// The coordinates of a place, which only mean something together; partial dependence has no curve along them.
    Place,
}

impl InputColumn {
    /// A number.
    pub fn number(name: &str, input: usize) -> InputColumn {
        InputColumn { name: name.to_owned(), inputs: input..input + 1, kind: InputKind::Number }
    }

    /// The inputs of every category that a row may have, with its name; empty for other kinds.
    pub(super) fn categories(&self) -> Vec<(String, Vec<f64>)> {
        let (names, first_is_none) = match &self.kind {
            InputKind::Codes { names } => {
                let category = |(code, name): (usize, &String)| (name.clone(), vec![code as f64]);
                return names.iter().enumerate().map(category).collect();
            }
            InputKind::Categories { names, first_is_none } => (names, first_is_none),
            InputKind::Number | InputKind::Date | InputKind::Place => return Vec::new(),
        };
        let skipped = usize::from(*first_is_none);
        let category = |(index, name): (usize, &String)| {
            let mut inputs = vec![0.0; self.inputs.len()];
            if let Some(input) = index.checked_sub(skipped).and_then(|input| inputs.get_mut(input)) {
                *input = 1.0;
            }
            (name.clone(), inputs)
        };
        names.iter().enumerate().map(category).collect()
    }
}
