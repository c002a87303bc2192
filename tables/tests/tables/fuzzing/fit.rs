//! Converts bytes to a small table of ugly columns, and fits it with default options: the result is an error about the
//! data, or a model that predicts.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use sparsegp::ErrorKind;
use sparsegp::likelihood::Task;
use sparsegp::options::{FitOptions, Open};
use sparsegp_tables::schema::{SchemaOptions, UnseenLevels};
use sparsegp_tables::tables::{Table, read_csv};
use sparsegp_tables::tabular::{FitRequest, fit_table};
use std::fmt::Write;
use std::io::Cursor;

/// The time limit of a fit in seconds.
const SECONDS: f64 = 1.0;

/// The most columns besides the target.
const MOST_COLUMNS: usize = 7;

/// Fits the table that the bytes describe with every option at its default. Returns false if its data are refused.
pub fn run(bytes: &[u8]) -> bool {
    let text = text(bytes);
    let table = read_csv("table", Cursor::new(text.into_bytes())).expect("a well-formed table");
    let columns = SchemaOptions { target: "y".to_owned(), ..SchemaOptions::default() };
    let options = FitOptions { open: Open::EVERYTHING, max_seconds: Some(SECONDS), ..FitOptions::default() };
    match fit_table(&FitRequest::new(&table, &columns, &options), &mut |_| {}) {
        Ok(fit) => {
            check(&fit.model, &table);
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Data, "{error}");
            false
        }
    }
}

/// Checks that predictions of the rows of the table are numbers.
fn check(model: &sparsegp_tables::tabular::TableModel, table: &Table) {
    let predictions = model.predict(table, UnseenLevels::New).expect("the model's own table");
    // Classes have probabilities and no mean.
    let classes = model.task() == Task::Classification;
    for row in 0..table.rows() {
        let prediction = predictions.row(row);
        let numbers = match classes {
            true => predictions.probabilities(row),
            false => vec![prediction.mean, prediction.variance],
        };
        assert!(!numbers.iter().any(|number| number.is_nan()), "row {row}: {numbers:?} {prediction:?}");
    }
}

/// Reads the plan of a table from the bytes. All bytes together seed the random values.
struct Source<'a> {
    plan: std::slice::Iter<'a, u8>,
    random: ChaCha8Rng,
}

impl Source<'_> {
    /// Returns the next number of the plan, below `below`; after the end of the plan, a random number.
    fn plan(&mut self, below: usize) -> usize {
        match self.plan.next() {
            Some(&byte) => usize::from(byte) % below,
            None => self.random(below),
        }
    }

    fn random(&mut self, below: usize) -> usize {
        self.random.random_range(0..below)
    }

    /// Returns a bell-shaped random number of standard deviation 1.
    fn bell(&mut self) -> f64 {
        (0..12).map(|_| self.random.random_range(-0.5..0.5)).sum()
    }
}

fn text(bytes: &[u8]) -> String {
    let random = ChaCha8Rng::from_seed(Sha256::digest(bytes).into());
    let mut source = Source { plan: bytes.iter(), random };
    let rows = [5, 20, 70, 130, 300][source.plan(5)];
    let count = 1 + source.plan(MOST_COLUMNS);
    let mut columns: Vec<Vec<String>> = Vec::new();
    for _ in 0..count {
        let next = column(&mut source, rows, columns.last());
        columns.push(next);
    }
    // Some rows repeat other rows, with the same or another target.
    let repeated = [0, 0, rows / 2, rows - 2][source.plan(4)];
    let again = source.plan(2) == 0;
    let mut target = target(&mut source, &columns);
    for row in 0..repeated {
        let from = source.random(3.min(rows));
        for column in &mut columns {
            column[row] = column[from].clone();
        }
        if again {
            target[row] = target[from].clone();
        }
    }
    let mut text: String = (0..count).map(|index| format!("c{index},")).collect();
    text.push_str("y\n");
    for row in 0..rows {
        for column in &columns {
            let _ = write!(text, "{},", column[row]);
        }
        let _ = writeln!(text, "{}", target[row]);
    }
    text
}

/// A column of one of many kinds, with missing cells or without.
fn column(source: &mut Source<'_>, rows: usize, before: Option<&Vec<String>>) -> Vec<String> {
    let kind = source.plan(16);
    let missing = [0, 0, 0, 10, 60, 95][source.plan(6)];
    let mut value = |row: usize| match kind {
        0 => source.bell().to_string(),
        1 => (if source.random(20) == 0 { source.bell().exp() } else { 0.0 }).to_string(),
        2 => "7".to_owned(),
        3 => (5.0 * source.bell()).exp().to_string(),
        4 => (1.0 / source.random.random_range(-1.0..1.0)).to_string(),
        5 => format!("{:e}", 1e-200 * source.bell()),
        6 => format!("{:e}", 1e200 * source.bell()),
        7 => (1e9 + 1e-3 * source.bell()).to_string(),
        8 => ["red", "green", "blue"][source.random(3)].to_owned(),
        9 => format!("level {}", source.random(rows)),
        10 => format!("only {row}"),
        11 => format!("20{:02}-{:02}-{:02}", source.random(30), 1 + source.random(12), 1 + source.random(28)),
        12 => before.map_or_else(|| row.to_string(), |before| before[row].clone()),
        13 => source.random(2).to_string(),
        14 => row.to_string(),
        _ => (10f64.powi(source.random(40) as i32 - 20) * source.bell()).to_string(),
    };
    let mut column: Vec<String> = (0..rows).map(&mut value).collect();
    for cell in &mut column {
        if source.random(100) < missing {
            cell.clear();
        }
    }
    column
}

/// A target that depends on the first column or on nothing.
fn target(source: &mut Source<'_>, columns: &[Vec<String>]) -> Vec<String> {
    let kind = source.plan(16);
    let first = &columns[0];
    let value = |(row, cell): (usize, &String)| {
        // A number that the first cell determines.
        let known = cell.parse::<f64>().ok().filter(|x| x.is_finite());
        let known = known.unwrap_or_else(|| cell.bytes().map(f64::from).sum::<f64>());
        let wave = (known % 100.0).sin();
        match kind {
            0 => (wave + 0.1 * source.bell()).to_string(),
            1 => wave.to_string(),
            2 => "3.5".to_owned(),
            3 => u8::from(wave > 0.0).to_string(),
            4 => u8::from(source.random(30) == 0).to_string(),
            5 => ["yes", "no"][usize::from(wave > 0.0)].to_owned(),
            6 => format!("class {}", source.random(4)),
            7 => format!("class {}", (row % 3) * usize::from(wave > 0.0)),
            8 => source.random(4).to_string(),
            9 => ((3.0 + 3.0 * wave).exp() as u64).to_string(),
            10 => (if source.random(5) == 0 { source.random(1000) } else { 0 }).to_string(),
            11 => (5.0 * source.bell()).exp().to_string(),
            12 => (1.0 / source.random.random_range(-1.0..1.0)).to_string(),
            13 => format!("{:e}", 1e150 * (wave + source.bell())),
            14 => format!("{:e}", 1e-150 * (wave + source.bell())),
            _ => format!("{}", 1e6 + f64::from(u8::from(source.random(50) == 0))),
        }
    };
    first.iter().enumerate().map(value).collect()
}
