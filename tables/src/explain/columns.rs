//! The columns that explanations describe, each of one input or several.

use faer::MatRef;
use std::ops::Range;

/// A column of the data with its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputColumn {
    /// The name of the column.
    pub name: String,
    /// Its inputs, counted from 0.
    pub inputs: Range<usize>,
    /// The input behind those of f that repeats the number, if it has slopes that vary by group.
    pub slope: Option<usize>,
    /// The kind of its inputs.
    pub kind: InputKind,
}

/// The kind of the inputs of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// The number itself, followed by an indicator of a missing value if cells were missing in training.
    Number,
    /// The code of a category, or of a level of a grouping.
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
    /// The coordinates of a place, which have a meaning only together, so partial dependence has no
    /// curve along them.
    Place,
}

impl InputColumn {
    /// Creates a column with a single input, which is a number.
    pub fn number(name: &str, input: usize) -> InputColumn {
        InputColumn { name: name.to_owned(), inputs: input..input + 1, slope: None, kind: InputKind::Number }
    }

    /// All inputs that change with the column.
    pub(super) fn all_inputs(&self) -> impl Iterator<Item = usize> + use<> {
        self.inputs.clone().chain(self.slope)
    }

    fn names(&self) -> &[String] {
        match &self.kind {
            InputKind::Codes { names } | InputKind::Categories { names, .. } => names,
            InputKind::Number | InputKind::Date | InputKind::Place => &[],
        }
    }

    /// Returns the name and the inputs of every category that a row may have; empty for other
    /// kinds.
    pub(super) fn categories(&self) -> Vec<(String, Vec<f64>)> {
        let inputs = |category: usize| match self.kind {
            InputKind::Categories { first_is_none, .. } => {
                let own = category.checked_sub(usize::from(first_is_none));
                (0..self.inputs.len()).map(|input| f64::from(u8::from(own == Some(input)))).collect()
            }
            _ => vec![category as f64],
        };
        self.names().iter().enumerate().map(|(category, name)| (name.clone(), inputs(category))).collect()
    }

    /// Returns the name of the category of a row with these inputs of the column; `None` for a
    /// level that has no category, and for other kinds.
    pub fn category(&self, inputs: &[f64]) -> Option<&str> {
        self.names().get(self.category_index(inputs)?).map(String::as_str)
    }

    fn category_index(&self, inputs: &[f64]) -> Option<usize> {
        match &self.kind {
            InputKind::Codes { names } => {
                let code = inputs.first().filter(|code| **code >= 0.0).map(|&code| code as usize);
                code.filter(|code| *code < names.len())
            }
            InputKind::Categories { first_is_none, .. } => {
                let skipped = usize::from(*first_is_none);
                let found = inputs.iter().position(|&input| input == 1.0).map(|input| input + skipped);
                found.or(first_is_none.then_some(0))
            }
            InputKind::Number | InputKind::Date | InputKind::Place => None,
        }
    }

    /// Returns the at most `most` categories with the most rows, in the order of the column.
    pub(super) fn most_frequent(&self, rows: MatRef<'_, f64>, most: usize) -> Vec<usize> {
        let mut counts = vec![0usize; self.names().len()];
        for row in 0..rows.nrows() {
            let inputs: Vec<f64> = self.inputs.clone().map(|input| rows[(row, input)]).collect();
            if let Some(count) = self.category_index(&inputs).and_then(|category| counts.get_mut(category)) {
                *count += 1;
            }
        }
        let mut order: Vec<usize> = (0..counts.len()).collect();
        // A stable sort keeps the order of categories with equal counts.
        order.sort_by_key(|&category| std::cmp::Reverse(counts[category]));
        order.truncate(most);
        order.sort_unstable();
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;

    fn names() -> Vec<String> {
        ["a", "b", "c", "d"].map(str::to_owned).to_vec()
    }

    #[test]
    fn the_most_frequent_categories_are_found_by_code_and_by_indicator() {
        let codes = Mat::from_fn(6, 1, |row, _| [3.0, 1.0, 3.0, 1.0, 2.0, 9.0][row]);
        let column = InputColumn {
            name: String::new(),
            inputs: 0..1,
            slope: None,
            kind: InputKind::Codes { names: names() },
        };
        assert_eq!(column.most_frequent(codes.as_ref(), 2), [1, 3]);
        assert_eq!(column.most_frequent(codes.as_ref(), 3), [1, 2, 3]);
        assert_eq!(column.most_frequent(codes.as_ref(), 9), [0, 1, 2, 3]);
        // Three rows of the first category, which has no input, two of the last, and one of the third.
        let kind = InputKind::Categories { names: names(), first_is_none: true };
        let column = InputColumn { name: String::new(), inputs: 0..3, slope: None, kind };
        let last = |row: usize, input: usize| (row > 3 && input == 2) || (row == 1 && input == 1);
        let rows = Mat::from_fn(6, 3, |row, input| f64::from(u8::from(last(row, input))));
        assert_eq!(column.most_frequent(rows.as_ref(), 2), [0, 3]);
    }
}
