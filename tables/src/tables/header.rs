//! The names of the columns of a CSV text: the names in the header, completed and made distinct.

use std::collections::HashSet;

use ::csv::ByteRecord;

use super::table::quoted;

/// The name of the column of row names, which R writes without a name in the header.
const ROW_NAMES: &str = "rownames";

/// The minimum number of records that show row names; with fewer, an extra field counts as a mistake.
const FEWEST_RECORDS: usize = 3;

/// The layout of columns that the first records of a text show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// True if each record begins with a row name that the header lacks.
    row_names: bool,
    /// The number of unnamed columns without values at the end of the header.
    empty: usize,
}

fn is_blank(field: &[u8]) -> bool {
    field.trim_ascii().is_empty()
}

impl Layout {
    /// Finds the layout in these records, the header first.
    pub(super) fn of(records: &[ByteRecord]) -> Layout {
        let Some((header, rows)) = records.split_first() else { return Layout::default() };
        let unnamed = header.iter().rev().take_while(|field| is_blank(field)).count();
        let is_empty =
            |back: &usize| rows.iter().all(|row| row.get(header.len() - 1 - back).is_none_or(is_blank));
        let longer = rows.iter().all(|row| row.len() == header.len() + 1);
        let last = |row: &ByteRecord| row.get(header.len()).is_some_and(|field| !is_blank(field));
        let firsts: HashSet<&[u8]> = rows.iter().filter_map(|row| row.get(0)).collect();
        let distinct = firsts.len() == rows.len();
        Layout {
            row_names: rows.len() >= FEWEST_RECORDS && longer && distinct && rows.iter().any(last),
            empty: (0..unnamed).take_while(is_empty).count(),
        }
    }

    /// Returns distinct names of all columns, made from the names in the header, and notes about the changes.
    pub(super) fn names(&self, mut header: Vec<String>) -> (Vec<String>, Vec<String>) {
        let mut notes = Vec::new();
        header.truncate(header.len().saturating_sub(self.empty).max(1));
        if self.row_names {
            header.insert(0, ROW_NAMES.to_owned());
            notes.push(format!(
                "the header has one name fewer than the rows have fields: the first column is named '{ROW_NAMES}'"
            ));
        }
        for (place, name) in header.iter_mut().enumerate() {
            if name.is_empty() {
                *name = format!("Unnamed: {place}");
            }
        }
        let mut taken: HashSet<String> = header.iter().cloned().collect();
        let (mut seen, mut renamed) = (HashSet::new(), Vec::new());
        for name in &mut header {
            if seen.insert(name.clone()) {
                continue;
            }
            let free = (2..).map(|number| format!("{name}_{number}")).find(|other| !taken.contains(other));
            let free = free.unwrap_or_default();
            renamed.push(format!("{} is {}", quoted(name), quoted(&free)));
            taken.insert(free.clone());
            *name = free;
        }
        if !renamed.is_empty() {
            notes.push(format!("repeated column names were changed: {}", renamed.join(", ")));
        }
        (header, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lines: &[&str]) -> (Vec<String>, usize) {
        let records: Vec<ByteRecord> =
            lines.iter().map(|line| line.split(',').map(str::as_bytes).collect()).collect();
        let header = lines[0].split(',').map(str::to_owned).collect();
        let (names, notes) = Layout::of(&records).names(header);
        (names, notes.len())
    }

    #[test]
    fn every_column_gets_a_name() {
        let of = |lines: &[&str]| {
            let (names, notes) = names(lines);
            (names.join(" "), notes)
        };
        assert_eq!(of(&["a,b", "1,2"]), ("a b".into(), 0));
        assert_eq!(of(&[",a,b", "0,1,2"]), ("Unnamed: 0 a b".into(), 0));
        assert_eq!(of(&["a,,b", "0,1,2"]), ("a Unnamed: 1 b".into(), 0));
        // Delimiters after the last column, and a last column that has no name.
        assert_eq!(of(&["a,b,,", "1,2,,", "1,2,,"]), ("a b".into(), 0));
        assert_eq!(of(&["a,b,", "1,2", "1,2"]), ("a b".into(), 0));
        assert_eq!(of(&["a,b,", "1,2,3"]), ("a b Unnamed: 2".into(), 0));
        assert_eq!(of(&["a,a,a_2,a", "1,2,3,4"]), ("a a_3 a_2 a_4".into(), 1));
    }

    #[test]
    fn names_of_rows_are_those_of_r() {
        let first = |lines: &[&str]| names(lines).0[0].clone();
        assert_eq!(first(&["a,b", "x,1,2", "y,1,2", "z,1,2"]), "rownames");
        // A delimiter after the last column, names that repeat, few rows, rows of another length.
        assert_eq!(first(&["a,b", "1,2,", "2,2,", "3,1,"]), "a");
        assert_eq!(first(&["a,b", "1,2,3", "1,2,4", "2,1,3"]), "a");
        assert_eq!(first(&["a,b", "1,2,3"]), "a");
        assert_eq!(first(&["a,b", "1,2,3", "2,2,3", "3,2"]), "a");
    }
}
