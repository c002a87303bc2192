//! Uniform samples of the rows of a stream, kept as cells until the meaning of the columns is known; no numbers of inputs.

use std::collections::HashMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::column::{Column, ColumnBuilder};
use super::random::{Purpose, generator};
use super::table::{Lines, NamedColumn, Table};

/// Some rows of a file.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Which rows, counted from 0, in rising order.
    pub rows: Vec<usize>,
    /// Their cells.
    pub table: Table,
}

/// A uniform sample without replacement of the rows offered so far (Vitter 1985, algorithm R).
#[derive(Debug)]
pub(crate) struct Reservoir {
    most: usize,
    offered: usize,
    random: ChaCha8Rng,
    rows: Vec<usize>,
    columns: Vec<Cells>,
}

/// The cells of one column, by their place in the sample.
#[derive(Debug)]
struct Cells {
    name: String,
    numbers: Vec<f64>,
    texts: HashMap<usize, String>,
}

impl Reservoir {
    /// Room for `most` rows; samples of one seed with other numbers are independent.
    pub(crate) fn new(most: usize, seed: u64, number: u64) -> Reservoir {
        let random = generator(seed, Purpose::Sample, number);
        Reservoir { most, offered: 0, random, rows: Vec::new(), columns: Vec::new() }
    }

    /// The number of rows that were offered.
    pub(crate) fn offered(&self) -> usize {
        self.offered
    }

    /// Offers a row of a table, counted from 0 within it.
    pub(crate) fn offer(&mut self, table: &Table, row: usize) {
        let place = if self.offered < self.most {
            self.rows.push(0);
            self.offered
        } else {
            self.random.random_range(0..=self.offered)
        };
        self.offered += 1;
        if place >= self.most {
            return;
        }
        self.rows[place] = table.first_row() + row;
        if self.columns.is_empty() {
            let cells = |named: &NamedColumn| Cells {
                name: named.name.clone(),
                numbers: Vec::new(),
                texts: HashMap::new(),
            };
            self.columns = table.columns().iter().map(cells).collect();
        }
        for (cells, named) in self.columns.iter_mut().zip(table.columns()) {
            cells.set(place, &named.column, row);
        }
    }

    /// The sample; `None` when no row was offered.
    pub(crate) fn finish(self, source: &str) -> Option<Sample> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_unstable_by_key(|&place| self.rows[place]);
        let columns = self.columns.into_iter().map(|cells| cells.column(&order)).collect();
        let rows: Vec<usize> = order.iter().map(|&place| self.rows[place]).collect();
        let table = Table::from_block(source.to_owned(), columns, rows.len(), 0, Lines::default());
        (!rows.is_empty()).then_some(Sample { rows, table })
    }
}

impl Cells {
    fn set(&mut self, place: usize, column: &Column, row: usize) {
        let mut number = f64::NAN;
        self.texts.remove(&place);
        match column {
            Column::Number(values) => number = values[row],
            Column::Text(text) => {
                self.texts.extend(text.get(row).map(|text| (place, text.to_owned())));
            }
            // Nothing can be made of such a column, whose use is refused.
            Column::Unsupported { .. } => {}
        }
        if place < self.numbers.len() {
            self.numbers[place] = number;
        } else {
            self.numbers.push(number);
        }
    }

    fn column(self, order: &[usize]) -> NamedColumn {
        let mut builder = ColumnBuilder::default();
        for place in order {
            match self.texts.get(place) {
                Some(text) => builder.push_text(text),
                None => builder.push_number(self.numbers[*place]),
            }
        }
        NamedColumn { name: self.name, column: builder.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of 7 rows whose number is the row and whose text says so in every third row.
    fn block(first: usize) -> Table {
        let numbers = Column::Number((first..first + 7).map(|row| row as f64).collect());
        let words: Vec<String> = (first..first + 7)
            .map(|row| if row % 3 == 0 { format!("row {row}") } else { row.to_string() })
            .collect();
        let words = Column::from_text(words.iter().map(|word| Some(word.as_str())));
        let named = |name: &str, column| NamedColumn { name: name.into(), column };
        Table::from_block(
            "t".into(),
            vec![named("n", numbers), named("w", words)],
            7,
            first,
            Lines::default(),
        )
    }

    fn sample(most: usize, seed: u64, blocks: usize) -> Sample {
        let mut reservoir = Reservoir::new(most, seed, 0);
        for first in (0..blocks).map(|block| 7 * block) {
            let table = block(first);
            (0..7).for_each(|row| reservoir.offer(&table, row));
        }
        assert_eq!(reservoir.offered(), 7 * blocks);
        reservoir.finish("t").expect("rows")
    }

    #[test]
    fn cells_stay_with_their_rows_whatever_their_type() {
        for seed in 0..20 {
            let Sample { rows, table } = sample(10, seed, 8);
            assert!(rows.len() == 10 && rows.windows(2).all(|pair| pair[0] < pair[1]));
            let numbers: Vec<f64> = rows.iter().map(|&row| row as f64).collect();
            assert_eq!(table.columns()[0].column, Column::Number(numbers));
            let Column::Text(words) = &table.columns()[1].column else { continue };
            for (place, &row) in rows.iter().enumerate() {
                let word = if row % 3 == 0 { format!("row {row}") } else { row.to_string() };
                assert_eq!(words.get(place), Some(word.as_str()));
            }
        }
        let all = sample(100, 0, 2);
        assert_eq!(all.rows, (0..14).collect::<Vec<_>>());
        assert!(Reservoir::new(3, 0, 0).finish("t").is_none());
    }

    #[test]
    fn every_row_is_as_likely_as_the_others() {
        let mut counts = [0.0; 28];
        for seed in 0..2000 {
            sample(7, seed, 4).rows.into_iter().for_each(|row| counts[row] += 1.0);
        }
        // Each is drawn with probability 1/4: 500 times, with a standard deviation of 19.4.
        assert!(counts.iter().all(|count| (count - 500.0f64).abs() < 5.0 * 19.4), "{counts:?}");
    }
}
