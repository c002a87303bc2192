//! Cells of text in columns of numbers: the first few of them with their places, and how many there are; one error for all.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::tables::marker::marker;
use crate::tables::table::{Table, shown};
use crate::tables::written;

/// The most cells that an error names.
const MOST_NAMED: usize = 3;

/// The cells of a column that hold text other than numbers and markers of missing cells.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct BadCells {
    /// The rows of the first few, with their places and texts in words.
    first: Vec<(usize, String)>,
    count: usize,
}

impl BadCells {
    /// Whether a text that is no plain number can be no number at all.
    pub(super) fn is_bad(text: &str) -> bool {
        marker(text).is_none() && [false, true].iter().all(|&comma| written::parse(text, comma).is_none())
    }

    pub(super) fn push(&mut self, table: &Table, row: usize, name: &str, text: &str) {
        self.count += 1;
        if self.first.len() < MOST_NAMED {
            self.first.push((table.row(row), format!("{}: {}", table.cell(row, name), shown(text))));
        }
    }

    /// Takes in the cells of later rows, or of another column.
    pub(super) fn merge(&mut self, other: BadCells) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.sort_by_key(|(row, _)| *row);
        self.first.truncate(MOST_NAMED);
    }

    /// The error for several cells of a table; nothing for one, which has an error of its own.
    pub(super) fn error(&self, source: &str) -> Option<Error> {
        if self.count < 2 {
            return None;
        }
        let mut named: Vec<&str> = self.first.iter().map(|(_, words)| words.as_str()).collect();
        let more = self.count - named.len();
        let more = format!("{more} more");
        if self.count > named.len() {
            named.push(&more);
        }
        Some(Error::data(format!(
            "{source}: {} cells hold text, expected numbers: {}",
            self.count,
            named.join("; ")
        )))
    }
}
