//! Cells of text in columns of numbers: the first few with their positions, and the number of all. One error reports them.

use serde::{Deserialize, Serialize};

use crate::tables::marker::marker;
use crate::tables::table::{Table, shown};
use crate::tables::written;
use sparsegp::error::Error;

/// The most cells that an error names.
const MOST_NAMED: usize = 3;

/// The cells of a column that hold text other than numbers and markers of missing cells.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct BadCells {
    /// The first few, in the order of rows.
    first: Vec<BadCell>,
    count: usize,
}

/// One cell: its row in the file, its position in words, and its text as messages show it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct BadCell {
    row: usize,
    place: String,
    text: String,
}

impl BadCells {
    /// Returns true if a text that is not a plain number cannot be a number in any spelling.
    pub(super) fn is_bad(text: &str) -> bool {
        marker(text).is_none() && [false, true].iter().all(|&comma| written::parse(text, comma).is_none())
    }

    pub(super) fn push(&mut self, table: &Table, row: usize, name: &str, text: &str) {
        self.count += 1;
        if self.first.len() < MOST_NAMED {
            self.first.push(BadCell { row: table.row(row), place: table.cell(row, name), text: shown(text) });
        }
    }

    /// Adds the cells of later rows, or of another column.
    pub(super) fn merge(&mut self, other: BadCells) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.sort_by_key(|cell| cell.row);
        self.first.truncate(MOST_NAMED);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of cells and the text of the first one, in words.
    pub(super) fn words(&self) -> String {
        let text = self.first.first().map_or("", |cell| &cell.text);
        if self.count == 1 {
            format!("1 cell of text, {text},")
        } else {
            format!("{} cells of text such as {text}", self.count)
        }
    }

    /// Returns the error for several cells of a table; `None` for a single cell, which has a separate error.
    pub(super) fn error(&self, source: &str) -> Option<Error> {
        if self.count < 2 {
            return None;
        }
        let mut named: Vec<String> =
            self.first.iter().map(|cell| format!("{}: {}", cell.place, cell.text)).collect();
        if self.count > named.len() {
            named.push(format!("{} more", self.count - named.len()));
        }
        Some(Error::data(format!(
            "{source}: {} cells hold text, expected numbers: {}",
            self.count,
            named.join("; ")
        )))
    }
}
