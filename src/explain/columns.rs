//! The columns that explanations are about, each of one input or several; no predictions.

use std::ops::Range;

/// A column of the data with the inputs that it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputColumn {
    /// What it is called.
    pub name: String,
    /// Its inputs, counted from 0.
    pub inputs: Range<usize>,
    /// What its inputs are.
    pub kind: InputKind,
}

/// What the inputs of a column are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// The number itself, and after it, where cells were missing in training, whether this one is.
    Number,
    /// The code of a category.
    Codes {
        /// The names of the categories, in the order of their codes.
        names: Vec<String>,
    },
    /// One for each category, 1 where a row has it and 0 elsewhere. A row that has none of them is of the one that makes no input, if
    /// the first name is its.
    Categories {
        /// The names, one for each input, with the one that makes no input before them.
        names: Vec<String>,
        /// Whether the first makes no input.
        first_is_none: bool,
    },
    /// The years since the first training row, and phases of periods.
    Date,
}

impl InputColumn {
    /// A number.
    pub fn number(name: &str, input: usize) -> InputColumn {
        InputColumn { name: name.to_owned(), inputs: input..input + 1, kind: InputKind::Number }
    }

    /// The inputs of every category that some row may have, with its name; none for other kinds.
    pub(super) fn categories(&self) -> Vec<(String, Vec<f64>)> {
        let (names, first_is_none) = match &self.kind {
            InputKind::Codes { names } => {
                let category = |(code, name): (usize, &String)| (name.clone(), vec![code as f64]);
                return names.iter().enumerate().map(category).collect();
            }
            InputKind::Categories { names, first_is_none } => (names, first_is_none),
            InputKind::Number | InputKind::Date => return Vec::new(),
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
