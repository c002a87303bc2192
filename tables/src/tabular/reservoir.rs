//! Uniform samples of the rows of a stream, stored as cells until the meaning of the columns is
//! known.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::tables::column::{Column, number_cell, read_cell};
use crate::tables::table::{NamedColumn, Table};
use sparsegp::data::{Purpose, part_generator};
use sparsegp::error::{Error, Result};

/// A uniform sample without replacement of the rows offered so far (Vitter 1985, algorithm R).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reservoir {
    most: usize,
    offered: usize,
    /// The key of the random generator, and the number of words that were drawn.
    seed: u64,
    number: u64,
    part: u64,
    words: u64,
    #[serde(skip)]
    random: Option<ChaCha8Rng>,
    columns: Vec<SampledColumn>,
    rows: Vec<SampledRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SampledColumn {
    name: String,
    /// True if numbers are instants.
    time: bool,
}

/// The index of a row in the file, and its cells.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SampledRow {
    row: usize,
    cells: Vec<Cell>,
}

/// A cell; NaN if it is missing.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Cell {
    Number(f64),
    Text(Box<str>),
}

impl Reservoir {
    /// Creates an empty sample of at most `most` rows of part `part` of a file. Samples of the same seed with other numbers, or of other
    /// parts, are independent.
    pub(crate) fn new(most: usize, seed: u64, number: u64, part: u64) -> Reservoir {
        let (rows, columns) = (Vec::new(), Vec::new());
        Reservoir { most, offered: 0, seed, number, part, words: 0, random: None, rows, columns }
    }

    /// Draws the place of the next row among all rows offered so far.
    fn place(&mut self) -> usize {
        let Reservoir { seed, number, part, words, random, .. } = self;
        let random = random.get_or_insert_with(|| {
            let mut random = part_generator(*seed, Purpose::Sample, *number, *part);
            random.set_word_pos((*words).into());
            random
        });
        let place = random.random_range(0..=self.offered);
        // A row takes two words or a few more.
        *words = u64::try_from(random.get_word_pos()).unwrap_or(u64::MAX);
        place
    }

    /// Merges the reservoir of a later part: the result is a uniform sample of the rows offered to both.
    ///
    /// The number of rows that each part contributes to a uniform sample of both is hypergeometric, and these rows are a uniform sample of
    /// the part's sample (Brown & Haas 2006, "Techniques for warehousing of sample data", HRMerge). Rows are drawn one by one: the next
    /// row comes from a part with a probability proportional to the remaining rows of that part. The random numbers depend only on the
    /// seed, the number of the sample and the later part, which is the boundary of the merge.
    ///
    /// Fails if the samples have other columns, another size, seed or number, or if the part is not a later one. The reservoir is unchanged
    /// then.
    pub(crate) fn merge(&mut self, mut later: Reservoir) -> Result<()> {
        let names = |reservoir: &Reservoir| -> Vec<String> {
            reservoir.columns.iter().map(|column| column.name.clone()).collect()
        };
        let key = |reservoir: &Reservoir| (reservoir.most, reservoir.seed, reservoir.number);
        let columns = later.rows.is_empty() || self.rows.is_empty() || names(self) == names(&later);
        if !columns || key(self) != key(&later) {
            return Err(Error::data("two samples of rows differ in their columns, size or seed")
                .hint("take the samples of all parts with the same options"));
        }
        let Reservoir { seed, number, part, .. } = *self;
        if part >= later.part {
            let message = format!("part {} of a table cannot follow part {part}", later.part);
            return Err(Error::data(message).hint(
                "number the parts in the order of their rows, and merge each part into the parts before it",
            ));
        }
        let mut random = part_generator(seed, Purpose::Merge, number, later.part);
        let (mut left, mut of_later) = ([self.offered, later.offered], 0);
        for _ in 0..self.most.min(self.offered + later.offered) {
            let from_later = random.random_range(0..left[0] + left[1]) >= left[0];
            left[usize::from(from_later)] -= 1;
            of_later += usize::from(from_later);
        }
        let own = self.most.min(self.offered + later.offered) - of_later;
        self.keep(own, &mut random);
        later.keep(of_later, &mut random);
        self.offered += later.offered;
        if self.columns.is_empty() {
            self.columns = later.columns;
        }
        self.rows.extend(later.rows);
        Ok(())
    }

    /// Reduces the sample to a uniform sample of `count` rows.
    fn keep(&mut self, count: usize, random: &mut ChaCha8Rng) {
        if count == self.rows.len() {
            return;
        }
        let (chosen, _) = self.rows.partial_shuffle(random, count);
        self.rows = chosen.to_vec();
    }

    pub(crate) fn offered(&self) -> usize {
        self.offered
    }

    pub(crate) fn offer(&mut self, table: &Table, row: usize) {
        let place = if self.offered < self.most { self.offered } else { self.place() };
        self.offered += 1;
        if place >= self.most {
            return;
        }
        if self.columns.is_empty() {
            let column = |named: &NamedColumn| SampledColumn { name: named.name.clone(), time: false };
            self.columns = table.columns().iter().map(column).collect();
        }
        for (column, named) in self.columns.iter_mut().zip(table.columns()) {
            column.time |= matches!(named.column, Column::Time(_));
        }
        let cell = |named: &NamedColumn| match &named.column {
            Column::Number(values) | Column::Time(values) => Cell::Number(values[row]),
            Column::Text(text) => {
                text.get(row).map_or(Cell::Number(f64::NAN), |text| Cell::Text(text.into()))
            }
            // The use of such a column is refused elsewhere.
            Column::Unsupported { .. } => Cell::Number(f64::NAN),
        };
        let sampled = SampledRow { row: table.row(row), cells: table.columns().iter().map(cell).collect() };
        match self.rows.get_mut(place) {
            Some(replaced) => *replaced = sampled,
            None => self.rows.push(sampled),
        }
    }

    /// Returns the sample in the order of the file; `None` if no row was offered.
    pub(crate) fn finish(mut self, source: &str) -> Option<Table> {
        self.rows.sort_unstable_by_key(|sampled| sampled.row);
        let column = |(at, SampledColumn { name, time }): (usize, SampledColumn)| {
            let column = Column::of_cells(self.rows.iter().map(|sampled| match &sampled.cells[at] {
                Cell::Number(value) => number_cell(*value),
                Cell::Text(text) => read_cell(text),
            }));
            NamedColumn { name, column: if time { column.into_time() } else { column } }
        };
        let columns = self.columns.into_iter().enumerate().map(column).collect();
        let rows: Vec<usize> = self.rows.iter().map(|sampled| sampled.row).collect();
        (!rows.is_empty()).then(|| Table::of_rows(source.to_owned(), columns, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::table::Lines;

    /// The cell of a row in the column of text: "row" and the row in every third row, and otherwise the row alone.
    fn word(row: usize) -> String {
        if row.is_multiple_of(3) { format!("row {row}") } else { row.to_string() }
    }

    /// A block of 7 rows. The column of numbers holds the row.
    fn block(first: usize) -> Table {
        let numbers = Column::Number((first..first + 7).map(|row| row as f64).collect());
        let words: Vec<String> = (first..first + 7).map(word).collect();
        let words = Column::from_text(words.iter().map(|word| Some(word.as_str())));
        let named = |name: &str, column| NamedColumn { name: name.into(), column };
        let columns = vec![named("n", numbers), named("w", words)];
        Table::from_block("t".into(), columns, 7, first, Lines::default())
    }

    fn rows(sample: &Table) -> Vec<usize> {
        (0..sample.rows()).map(|row| sample.row(row)).collect()
    }

    /// Checks that every number, and every word if the second column is text, belongs to its row.
    fn assert_cells_of_their_rows(table: &Table) {
        let rows = rows(table);
        let numbers: Vec<f64> = rows.iter().map(|&row| row as f64).collect();
        assert_eq!(table.columns()[0].column, Column::Number(numbers));
        let Column::Text(words) = &table.columns()[1].column else { return };
        assert!(rows.iter().enumerate().all(|(place, &row)| words.get(place) == Some(&word(row))));
    }

    #[test]
    fn cells_stay_with_their_rows_whatever_their_type() {
        for seed in 0..20 {
            let sample = sample(10, seed, &[8], false);
            assert!(sample.rows() == 10 && rows(&sample).is_sorted_by(|a, b| a < b));
            assert_cells_of_their_rows(&sample);
        }
        let all = sample(100, 0, &[2], false);
        assert_eq!(rows(&all), (0..14).collect::<Vec<_>>());
        assert!(Reservoir::new(3, 0, 0, 0).finish("t").is_none());
    }

    /// Returns the merged sample of parts with these numbers of blocks. Parts are merged from the right; with `stored`, each is stored and
    /// read again after every block.
    fn sample(most: usize, seed: u64, parts: &[usize], stored: bool) -> Table {
        let mut first = 0;
        let mut reservoirs = Vec::new();
        for (part, blocks) in parts.iter().enumerate() {
            let mut reservoir = Reservoir::new(most, seed, 0, part as u64);
            for _ in 0..*blocks {
                let table = block(first);
                (0..7).for_each(|row| reservoir.offer(&table, row));
                first += 7;
                if stored {
                    let bytes = postcard::to_allocvec(&reservoir).expect("bytes");
                    reservoir = postcard::from_bytes(&bytes).expect("a reservoir");
                }
            }
            reservoirs.push(reservoir);
        }
        let merge = |later: Reservoir, mut earlier: Reservoir| {
            earlier.merge(later).expect("parts of one table");
            earlier
        };
        let all = reservoirs.into_iter().rev().reduce(merge).expect("a part");
        assert_eq!(all.offered(), first);
        all.finish("t").expect("rows")
    }

    /// `C(n, k)`.
    fn choose(n: usize, k: usize) -> f64 {
        (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
    }

    #[test]
    fn a_merged_sample_is_as_uniform_as_one_of_all() {
        const ROWS: usize = 42;
        let (most, runs) = (9, 4000);
        // How many of the 7 rows of a block are in the sample is hypergeometric; 4 and more are rare.
        let mut shares: Vec<f64> =
            (0..4).map(|k| choose(7, k) * choose(ROWS - 7, most - k) / choose(ROWS, most)).collect();
        shares.push(1.0 - shares.iter().sum::<f64>());
        for parts in [&[6][..], &[1, 5], &[4, 0, 2], &[0, 6, 0], &[1, 1, 1, 1, 1, 1], &[2, 3, 1]] {
            let (mut counts, mut blocks) = ([0.0; ROWS], [[0.0; 5]; 6]);
            for seed in 0..runs {
                let sample = rows(&sample(most, seed, parts, true));
                assert_eq!(sample.len(), most);
                let mut of_block = [0; 6];
                for row in sample {
                    counts[row] += 1.0;
                    of_block[row / 7] += 1;
                }
                of_block.iter().zip(&mut blocks).for_each(|(&k, counts)| counts[k.min(4)] += 1.0);
            }
            let distance = |counts: &[f64], expected: &dyn Fn(usize) -> f64| -> f64 {
                counts.iter().enumerate().map(|(i, n)| (n - expected(i)).powi(2) / expected(i)).sum()
            };
            // Drawing without replacement takes a share p off the variance of counts, whose sum is known: X² over
            // (1 − p) N/(N − 1) is χ² of N − 1 = 41 degrees of freedom, above 85 once in 10⁴ times.
            let share = most as f64 / ROWS as f64;
            let scale = (1.0 - share) * ROWS as f64 / (ROWS - 1) as f64;
            let statistic = distance(&counts, &|_| runs as f64 * share) / scale;
            assert!(statistic < 85.0, "{parts:?}: {statistic}");
            // χ² of 4 degrees of freedom is above 28 once in 10⁵ times.
            for counts in blocks {
                let statistic = distance(&counts, &|k| runs as f64 * shares[k]);
                assert!(statistic < 28.0, "{parts:?}: {statistic}");
            }
        }
    }

    #[test]
    fn a_stored_sample_continues_unchanged_and_keeps_its_cells() {
        for seed in 0..20 {
            assert_eq!(rows(&sample(10, seed, &[8], true)), rows(&sample(10, seed, &[8], false)));
            assert_cells_of_their_rows(&sample(10, seed, &[3, 4, 1], true));
        }
        assert_eq!(rows(&sample(100, 0, &[1, 2], true)), (0..21).collect::<Vec<_>>());
        let mut other = Reservoir::new(3, 0, 1, 0);
        assert!(other.merge(Reservoir::new(3, 0, 2, 1)).is_err());
        assert!(other.merge(Reservoir::new(3, 0, 1, 0)).is_err());
        assert!(other.merge(Reservoir::new(3, 0, 1, 1)).is_ok());
    }
}
