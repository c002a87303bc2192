//! Helpers that fit small files in memory and from disk, and assert that both fits print the same notes about the data.

use sparsegp::Result;
use sparsegp::hyper::Session;
use sparsegp::model::Warning;
use sparsegp::options::{FitOptions, ModelKind, StepOptions};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tables::read_table_with;
use sparsegp_tables::tabular::{FileFitRequest, FitRequest, TableModel, fit_file, fit_table};
use sparsegp_testkit::program::Work;
use std::path::Path;

pub fn columns() -> SchemaOptions {
    SchemaOptions { target: "y".into(), ..SchemaOptions::default() }
}

fn options() -> FitOptions {
    let steps = StepOptions { batch_size: 50, ..StepOptions::default() };
    FitOptions { model: ModelKind::Glm, epochs: Some(3), steps, ..FitOptions::default() }
}

/// Fits the file in memory, and returns the model and the test rows.
fn in_memory(path: &Path, columns: &SchemaOptions, test_fraction: f64) -> Result<(TableModel, Vec<usize>)> {
    let table = read_table_with(path, columns.delimiter, &columns.missing)?;
    let options = options();
    let request = FitRequest { test_fraction, ..FitRequest::new(&table, columns, &options) };
    let fit = fit_table(&request, &mut |_| {})?;
    Ok((fit.model, fit.test.map(|part| part.rows).unwrap_or_default()))
}

/// Fits the file from disk, and returns the model and the test rows.
fn from_disk(path: &Path, columns: &SchemaOptions, test_fraction: f64) -> Result<(TableModel, Vec<usize>)> {
    let options = &options().by_batches();
    let request =
        FileFitRequest { path, columns, options, test_fraction, start: None, shuffle_buffer: Some(100) };
    let fit = fit_file(&request, &mut |_| {}, &mut Session::new(&mut |_| {}))?;
    let rows = fit.test_parts()?.map(|part| part.map(|part| part.rows)).collect::<Result<Vec<_>>>()?;
    Ok((fit.model, rows.concat()))
}

/// Returns the notes about the data.
fn notes(model: &TableModel) -> Vec<String> {
    let texts = model.summary().warnings.iter().filter_map(|warning| match warning {
        Warning::Data { text } => Some(text.clone()),
        _ => None,
    });
    texts.collect()
}

/// Fits the file `f.csv` in memory and from disk, asserts that both fits agree, and returns the model, the notes and the test rows.
pub fn fitted_with(
    work: &Work,
    columns: &SchemaOptions,
    test_fraction: f64,
) -> (TableModel, Vec<String>, Vec<usize>) {
    let path = work.path("f.csv");
    let (memory, rows) = in_memory(&path, columns, test_fraction).expect("a fit in memory");
    let (disk, same_rows) = from_disk(&path, columns, test_fraction).expect("a fit from disk");
    assert_eq!(memory.schema().input_names(), disk.schema().input_names());
    assert_eq!(memory.schema().features(), disk.schema().features());
    let told = notes(&memory);
    assert_eq!((&rows, &told), (&same_rows, &notes(&disk)));
    let read = TableModel::from_bytes("model", &memory.to_bytes().expect("a model file")).expect("a model");
    assert_eq!(read.schema(), memory.schema());
    (read, told, rows)
}

/// Asserts that each note has its words.
pub fn assert_told(told: &[String], words: &[&str]) {
    let agree = told.iter().zip(words).all(|(note, words)| note.contains(words));
    assert!(agree && told.len() == words.len(), "{words:#?} in {told:#?}");
}

/// Returns the model of a text, and asserts that each note of its fit has its words.
pub fn fitted(text: &str, words: &[&str]) -> TableModel {
    let (model, told, _) = fitted_with(&Work::with("f.csv", text), &columns(), 0.0);
    assert_told(&told, words);
    model
}

/// Asserts that the fits in memory and from disk fail with one error, which has these words.
pub fn refused(text: &str, columns: &SchemaOptions, words: &str) {
    let work = Work::with("f.csv", text);
    let path = work.path("f.csv");
    let memory = in_memory(&path, columns, 0.2).map(|_| ()).expect_err("refused in memory").to_string();
    let disk = from_disk(&path, columns, 0.2).map(|_| ()).expect_err("refused from disk").to_string();
    assert_eq!(memory, disk);
    assert!(memory.contains(words) && !memory.contains('\n'), "{memory}");
}

/// Returns a pseudo-random number between 0 and 1.
pub fn noise(row: usize) -> f64 {
    (((row as f64 + 1.0) * 78.233).sin() * 43_758.545).rem_euclid(1.0)
}
