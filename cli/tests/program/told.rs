//! Helpers that fit small files in memory and from disk, and assert that both fits print the same notes about the data.

use sparsegp::Error;
use sparsegp::hyper::Session;
use sparsegp::model::Warning;
use sparsegp::options::{FitOptions, ModelKind, StepOptions};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tables::read_table_with;
use sparsegp_tables::tabular::{FileFitRequest, FitRequest, TableModel, fit_file, fit_table};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub fn columns() -> SchemaOptions {
    SchemaOptions { target: "y".into(), ..SchemaOptions::default() }
}

pub fn options() -> FitOptions {
    FitOptions {
        model: ModelKind::Glm,
        epochs: Some(3),
        steps: StepOptions { batch_size: 50, ..StepOptions::default() },
        ..FitOptions::default()
    }
}

pub fn file(name: &str, bytes: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    (folder, path)
}

/// The notes of a fit about the data, and its test rows.
pub type Told = (Vec<String>, Vec<usize>);

/// Fits the file in memory.
pub fn in_memory(path: &Path, columns: &SchemaOptions, test: f64) -> Result<(TableModel, Told), Error> {
    let table = read_table_with(path, columns.delimiter, &columns.missing)?;
    let options = options();
    let request = FitRequest { test_fraction: test, ..FitRequest::new(&table, columns, &options) };
    let fit = fit_table(&request, &mut |_| {})?;
    let rows = fit.test.map(|part| part.rows).unwrap_or_default();
    let said = said(path, &fit.model);
    Ok((fit.model, (said, rows)))
}

/// Fits the file from disk.
pub fn from_disk(path: &Path, columns: &SchemaOptions, test: f64) -> Result<(TableModel, Told), Error> {
    let (options, start) = (&options().by_batches(), None);
    let request =
        FileFitRequest { path, columns, options, test_fraction: test, start, shuffle_buffer: Some(100) };
    let fit = fit_file(&request, &mut |_| {}, &mut Session::new(&mut |_| {}))?;
    let parts = fit.test_parts()?.map(|part| part.map(|part| part.rows));
    let rows = parts.collect::<Result<Vec<_>, _>>()?.concat();
    let said = said(path, &fit.model);
    Ok((fit.model, (said, rows)))
}

/// Returns the notes about the data, with `f` in place of the file name.
pub fn said(path: &Path, model: &TableModel) -> Vec<String> {
    let texts = model.summary().warnings.iter().filter_map(|warning| match warning {
        Warning::Data { text } => Some(text.replace(&path.display().to_string(), "f")),
        _ => None,
    });
    texts.collect()
}

/// Fits the file in memory and from disk, asserts that inputs and notes agree, and returns the model in memory and the notes.
pub fn fitted_with(path: &Path, columns: &SchemaOptions, test: f64) -> (TableModel, Told) {
    let (memory, told) = in_memory(path, columns, test).expect("a fit in memory");
    let (disk, also) = from_disk(path, columns, test).expect("a fit from disk");
    assert_eq!(memory.schema().input_names(), disk.schema().input_names());
    assert_eq!(memory.schema().features(), disk.schema().features());
    assert_eq!(told, also);
    let bytes = memory.to_bytes().expect("a model file");
    let read = TableModel::from_bytes("model", &bytes).expect("a model");
    assert_eq!(read.schema(), memory.schema());
    (read, told)
}

/// Like [`fitted_with`], for the text of a CSV file.
pub fn fitted(text: &str) -> (TableModel, Vec<String>) {
    let (_folder, path) = file("f.csv", text);
    let (model, (said, _)) = fitted_with(&path, &columns(), 0.0);
    (model, said)
}

/// Returns the error of the fits in memory and from disk, which must agree.
pub fn refused(text: &str, columns: &SchemaOptions) -> String {
    let (_folder, path) = file("f.csv", text);
    let memory = in_memory(&path, columns, 0.2).map(|_| ()).expect_err("refused in memory");
    let disk = from_disk(&path, columns, 0.2).map(|_| ()).expect_err("refused from disk");
    assert_eq!(memory.to_string(), disk.to_string());
    assert!(!memory.to_string().contains('\n'));
    memory.to_string().replace(&path.display().to_string(), "f")
}

/// Returns a pseudo-random number between 0 and 1.
pub fn noise(row: usize) -> f64 {
    ((row as f64 + 1.0) * 78.233).sin() * 43_758.545
        - (((row as f64 + 1.0) * 78.233).sin() * 43_758.545).floor()
}
