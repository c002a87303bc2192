//! A grid of points as blocks of a table: every combination of the values of some columns.

use std::collections::HashSet;
use std::str::FromStr;

use super::column::Column;
use super::table::{NamedColumn, Table, quoted};
use sparsegp::error::{Error, Result};

/// The distance, in steps, by which the last value of a range may exceed its end, so that rounded steps do not exclude the end.
const BEYOND: f64 = 1e-6;

/// Every combination of the values of some columns. The values of the last column change fastest.
///
/// ```
/// use sparsegp_tables::tables::Grid;
///
/// let grid: Grid = "lon=-96:-95:0.5,lat=34:36:1,month=7".parse()?;
/// assert_eq!(grid.words(), "lon 3 × lat 3 × month 1 = 9 points");
/// let table = grid.block(2, 2)?;
/// assert_eq!(*table.numbers("lon")?, [-96.0, -95.5]);
/// assert_eq!(*table.numbers("lat")?, [36.0, 34.0]);
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The columns.
    pub axes: Vec<Axis>,
}

/// A column of a grid with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The name of the column.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// The values of a column of a grid.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Evenly spaced numbers.
    Range(Steps),
    /// One text, such as a category or a date.
    Text(String),
}

impl Values {
    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        match self {
            Values::Range(steps) => steps.count,
            Values::Text(_) => 1,
        }
    }
}

/// `count` numbers at the distance `step`, from `start` on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// The first number.
    pub start: f64,
    /// The distance from a number to the next.
    pub step: f64,
    /// The number of numbers.
    pub count: u64,
    /// True if the numbers are in the opposite order. They are the same numbers bit for bit.
    pub reversed: bool,
}

impl Steps {
    /// Returns the number with this index.
    pub fn number(&self, index: u64) -> f64 {
        self.at(self.position(index))
    }

    /// Returns the position of a number, in steps from `start`.
    fn position(&self, index: u64) -> f64 {
        (if self.reversed { self.count - 1 - index } else { index }) as f64
    }

    fn at(&self, position: f64) -> f64 {
        self.start + self.step * position
    }
}

impl FromStr for Axis {
    type Err = String;

    /// Reads `NAME=START:STOP:STEP` or `NAME=VALUE`.
    fn from_str(text: &str) -> std::result::Result<Axis, String> {
        let wrong = || format!("found '{text}', expected NAME=START:STOP:STEP or NAME=VALUE");
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        let (name, values) = (name.trim().to_owned(), values.trim());
        if name.is_empty() || values.is_empty() {
            return Err(wrong());
        }
        let numbers: Option<Vec<f64>> = values
            .split(':')
            .map(|word| word.trim().parse().ok().filter(|number: &f64| number.is_finite()))
            .collect();
        let values = match numbers.as_deref() {
            None => Values::Text(values.to_owned()),
            Some(&[value]) => Values::Range(Steps { start: value, step: 1.0, count: 1, reversed: false }),
            Some(&[start, stop, step]) => range(&name, start, stop, step)?,
            Some(_) => return Err(wrong()),
        };
        Ok(Axis { name, values })
    }
}

/// Returns the numbers from `start` up to `stop`, with `stop` if the distance is a multiple of the step.
fn range(name: &str, start: f64, stop: f64, step: f64) -> std::result::Result<Values, String> {
    let steps = ((stop - start) / step + BEYOND).floor();
    if step == 0.0 || !(0.0..1e18).contains(&steps) {
        return Err(format!("{name}: {start} to {stop} cannot be reached in steps of {step}"));
    }
    Ok(Values::Range(Steps { start, step, count: steps as u64 + 1, reversed: false }))
}

impl FromStr for Grid {
    type Err = Error;

    /// Reads columns with their values, separated by commas.
    fn from_str(text: &str) -> Result<Grid> {
        let wrong = |words: String| Error::usage(format!("⟨grid⟩: {words}"));
        let axes =
            text.split(',').map(|axis| axis.trim().parse()).collect::<std::result::Result<Vec<Axis>, _>>();
        let axes = axes.map_err(wrong)?;
        let mut names = HashSet::new();
        if let Some(axis) = axes.iter().find(|axis| !names.insert(&axis.name)) {
            return Err(wrong(format!("the column {} is given twice", quoted(&axis.name))));
        }
        let points = axes.iter().try_fold(1u64, |points, axis| points.checked_mul(axis.values.count()));
        points
            .map(|_| Grid { axes })
            .ok_or_else(|| wrong("there are more points than can be counted".to_owned()))
    }
}

impl Grid {
    /// The names of the columns.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| axis.name.as_str())
    }

    /// The number of points.
    pub fn points(&self) -> u64 {
        self.axes.iter().map(|axis| axis.values.count()).product()
    }

    /// The number of values of each column, and the number of points.
    pub fn words(&self) -> String {
        let axes: Vec<String> =
            self.axes.iter().map(|axis| format!("{} {}", axis.name, axis.values.count())).collect();
        format!("{} = {} points", axes.join(" × "), self.points())
    }

    /// Returns the points `first..first + rows` that exist, as a table. Its columns are also its
    /// [copies](Table::copies).
    ///
    /// # Errors
    ///
    /// None that a parsed grid could cause.
    pub fn block(&self, first: u64, rows: usize) -> Result<Table> {
        let table = self.cells(first, rows, 1)?;
        let copies = table.columns().to_vec();
        Ok(table.from_row(usize::try_from(first).unwrap_or(usize::MAX)).with_copies(copies))
    }

    /// Returns the number of points that represent the cell around a point, with `parts` points in every
    /// direction that has a range. Returns `None` if the number exceeds `usize`.
    pub fn points_of_cell(&self, parts: usize) -> Option<usize> {
        let divided = self.axes.iter().filter(|axis| axis.values.count() > 1).count();
        parts.checked_pow(divided as u32)
    }

    /// Returns the points that represent the cells around the points `first..first + cells`, evenly spaced
    /// and cell after cell. A cell is one step of every range wide, with the point in its centre.
    ///
    /// # Errors
    ///
    /// None that a parsed grid could cause.
    pub fn cells(&self, first: u64, cells: usize, parts: usize) -> Result<Table> {
        let end = self.points().min(first.saturating_add(cells as u64));
        let per_cell = self.points_of_cell(parts).unwrap_or(usize::MAX) as u64;
        let rows = first.min(end) * per_cell..end * per_cell;
        let (mut outer, mut inner) = (self.points(), per_cell);
        let mut columns = Vec::with_capacity(self.axes.len());
        for Axis { name, values } in &self.axes {
            outer /= values.count();
            let column = match values {
                Values::Range(steps) => {
                    let parts = if steps.count > 1 { parts as u64 } else { 1 };
                    inner /= parts;
                    let value = |row: u64| {
                        let (centre, part) =
                            (row / per_cell / outer % steps.count, row % per_cell / inner % parts);
                        steps.at(steps.position(centre) + (part as f64 + 0.5) / parts as f64 - 0.5)
                    };
                    Column::Number(rows.clone().map(value).collect())
                }
                Values::Text(text) => {
                    let of_rows = std::iter::repeat_n(Some(0), (rows.end - rows.start) as usize);
                    Column::of_labels(std::slice::from_ref(text), of_rows)
                }
            };
            columns.push(NamedColumn { name: name.clone(), column });
        }
        Table::new("the grid", columns)
    }

    /// Returns all points in blocks of at most this number of rows.
    pub fn blocks(self, rows: usize) -> impl Iterator<Item = Result<Table>> {
        (0..self.points()).step_by(rows.max(1)).map(move |first| self.block(first, rows.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends_and_the_last_column_changes_fastest() {
        let grid: Grid = "a=0:0.3:0.1, b=2:1:-0.5, c=x y".parse().expect("a grid");
        assert_eq!(grid.points(), 12);
        let whole = grid.block(0, 100).expect("a table");
        let a = whole.numbers("a").expect("numbers");
        assert!((a[11] - 0.3).abs() < 1e-15 && a[..3] == [0.0; 3]);
        assert_eq!(whole.numbers("b").expect("numbers")[..4], [2.0, 1.5, 1.0, 2.0]);
        let blocks: Vec<Table> = grid.clone().blocks(5).collect::<Result<_>>().expect("blocks");
        assert_eq!(blocks.iter().map(Table::rows).collect::<Vec<_>>(), [5, 5, 2]);
        let joined: Vec<f64> =
            blocks.iter().flat_map(|block| block.numbers("a").expect("numbers").into_owned()).collect();
        assert_eq!(joined, *a);
        assert_eq!(grid.block(12, 5).expect("no rows").rows(), 0);
    }

    #[test]
    fn cells_lie_around_their_points_and_follow_each_other() {
        let grid: Grid = "a=0:1:1,c=7,b=10:14:2".parse().expect("a grid");
        assert_eq!(grid.points_of_cell(2), Some(4));
        let cells = grid.cells(1, 2, 2).expect("a table");
        assert_eq!(*cells.numbers("a").expect("numbers"), [-0.25, -0.25, 0.25, 0.25].repeat(2));
        assert_eq!(*cells.numbers("b").expect("numbers"), [11.5, 12.5, 11.5, 12.5, 13.5, 14.5, 13.5, 14.5]);
        assert_eq!(*cells.numbers("c").expect("numbers"), [7.0; 8]);
        let centres = grid.cells(0, 6, 1).expect("a table");
        let points = grid.block(0, 6).expect("a table");
        for name in ["a", "b", "c"] {
            assert_eq!(centres.numbers(name).expect("numbers"), points.numbers(name).expect("numbers"));
        }
    }

    #[test]
    fn a_value_is_a_number_or_a_text_and_mistakes_are_named() {
        let grid: Grid = "when=2020-01-01T10:20,n=7".parse().expect("a grid");
        assert!(matches!(grid.block(0, 1).expect("a table").column("when"), Some(Column::Text(_))));
        for (text, words) in [
            ("lon", "expected NAME=START:STOP:STEP"),
            ("lon=1:2", "expected NAME=START:STOP:STEP"),
            ("lon=", "expected NAME=START:STOP:STEP"),
            ("lon=0:1:-1", "cannot be reached in steps of -1"),
            ("lon=0:1:0", "cannot be reached in steps of 0"),
            ("lon=1,lat=2,lon=3", "'lon' is given twice"),
            ("a=0:1e12:1,b=0:1e12:1", "more points than can be counted"),
        ] {
            let error = text.parse::<Grid>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
