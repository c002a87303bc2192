//! Helpers that fit small files in memory and from disk, and assert that both fits print the same notes about the data.

use sparsegp::Result;
use sparsegp::hyper::Session;
use sparsegp::model::Warning;
use sparsegp::options::{FitOptions, ModelKind, StepOptions};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tables::{Table, read_csv, read_table_with};
use sparsegp_tables::tabular::{
    FileFit, FileFitRequest, FitRequest, TableFit, TableModel, fit_file, fit_table,
};
use sparsegp_testkit::program::Work;
use std::io::Cursor;

/// Reads a table with the name `new`.
pub fn csv(text: &str) -> Table {
    read_csv("new", Cursor::new(text.to_owned().into_bytes())).expect("a table")
}

pub fn columns() -> SchemaOptions {
    SchemaOptions { target: "y".into(), ..SchemaOptions::default() }
}

fn options() -> FitOptions {
    let steps = StepOptions { batch_size: 50, ..StepOptions::default() };
    FitOptions { model: ModelKind::Glm, epochs: Some(3), steps, ..FitOptions::default() }
}

/// Fits the rows of a file from disk, and asserts that the fit states the memory that it needs.
pub fn from_disk(request: &FileFitRequest<'_>) -> Result<FileFit> {
    let mut heard = None;
    let fit = fit_file(request, &mut |plan| heard = Some(*plan), &mut Session::new(&mut |_| {}))?;
    assert_eq!(heard, Some(fit.plan));
    Ok(fit)
}

pub fn in_memory(request: &FileFitRequest<'_>) -> Result<TableFit> {
    let FileFitRequest { path, columns, options, test_fraction, start, .. } = *request;
    let table = read_table_with(path, columns.delimiter, &columns.missing)?;
    let request = FitRequest { test_fraction, start, ..FitRequest::new(&table, columns, options) };
    fit_table(&request, &mut |_| {})
}

/// Returns the models and test rows of fits to the file `f.csv` in memory and from disk.
fn fits(work: &Work, columns: &SchemaOptions, test_fraction: f64) -> [Result<(TableModel, Vec<usize>)>; 2] {
    let (path, memory, batches) = (&work.path("f.csv"), &options(), &options().by_batches());
    let (start, shuffle_buffer) = (None, Some(100));
    let request = FileFitRequest { path, columns, options: batches, test_fraction, start, shuffle_buffer };
    let of_disk = |fit: FileFit| {
        let rows = fit.test_parts()?.map(|part| part.map(|part| part.rows)).collect::<Result<Vec<_>>>()?;
        Ok((fit.model, rows.concat()))
    };
    let of_memory = |fit: TableFit| (fit.model, fit.test.map(|part| part.rows).unwrap_or_default());
    let memory = in_memory(&FileFitRequest { options: memory, ..request }).map(of_memory);
    [memory, from_disk(&request).and_then(of_disk)]
}

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
    let [(memory, rows), (disk, same_rows)] =
        fits(work, columns, test_fraction).map(|fit| fit.expect("a fit"));
    assert_eq!(memory.schema().input_names(), disk.schema().input_names());
    assert_eq!(memory.schema().features(), disk.schema().features());
    let told = notes(&memory);
    assert_eq!((&rows, &told), (&same_rows, &notes(&disk)));
    let read = TableModel::from_bytes("model", &memory.to_bytes().expect("a model file")).expect("a model");
    assert_eq!(read.schema(), memory.schema());
    (read, told, rows)
}

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
    let [memory, disk] = fits(&Work::with("f.csv", text), columns, 0.2)
        .map(|fit| fit.map(|_| ()).expect_err("refused").to_string());
    assert_eq!(memory, disk);
    assert!(memory.contains(words) && !memory.contains('\n'), "{memory}");
}

pub fn noise(row: usize) -> f64 {
    (((row as f64 + 1.0) * 78.233).sin() * 43_758.545).rem_euclid(1.0)
}
