//! Tables as they come: each awkward file with the line that a fit says about it, in memory and from disk alike, and new rows that are
//! read as the training rows were.

#[path = "common/parquet.rs"]
mod parquet_file;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use parquet_file::Cells;
use sparsegp::Error;
use sparsegp::hyper::Session;
use sparsegp::model::Warning;
use sparsegp::options::{FitOptions, ModelKind, StepOptions};
use sparsegp::schema::{SchemaOptions, UnseenLevels};
use sparsegp::tables::{Table, read_csv, read_table};
use sparsegp::tabular::{FileFitRequest, FitRequest, TableModel, fit_file, fit_table};
use tempfile::TempDir;

fn columns() -> SchemaOptions {
    SchemaOptions { target: "y".into(), ..SchemaOptions::default() }
}

fn options() -> FitOptions {
    FitOptions {
        model: ModelKind::Glm,
        epochs: Some(3),
        steps: StepOptions { batch_size: 50, ..StepOptions::default() },
        ..FitOptions::default()
    }
}

fn file(name: &str, bytes: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    (folder, path)
}

/// What a fit says about the data, and the rows it holds out for testing.
type Told = (Vec<String>, Vec<usize>);

/// A fit in memory.
fn in_memory(path: &Path, columns: &SchemaOptions, test: f64) -> Result<(TableModel, Told), Error> {
    let table = read_table(path)?;
    let (options, start) = (&options(), None);
    let request =
        FitRequest { table: &table, columns, options, test_fraction: test, start, keep_posterior: false };
    let fit = fit_table(&request, &mut |_| {})?;
    let rows = fit.test.map(|part| part.rows).unwrap_or_default();
    let said = said(path, &fit.model);
    Ok((fit.model, (said, rows)))
}

/// A fit from disk.
fn from_disk(path: &Path, columns: &SchemaOptions, test: f64) -> Result<(TableModel, Told), Error> {
    let (options, start) = (&options().by_batches(), None);
    let request =
        FileFitRequest { path, columns, options, test_fraction: test, start, buffer_rows: Some(100) };
    let fit = fit_file(&request, &mut |_| {}, &mut Session::new(&mut |_| {}))?;
    let parts = fit.test_parts()?.map(|part| part.map(|part| part.rows));
    let rows = parts.collect::<Result<Vec<_>, _>>()?.concat();
    let said = said(path, &fit.model);
    Ok((fit.model, (said, rows)))
}

/// What is said of the data, the file by the name of f.
fn said(path: &Path, model: &TableModel) -> Vec<String> {
    let texts = model.summary().warnings.iter().filter_map(|warning| match warning {
        Warning::Data { text } => Some(text.replace(&path.display().to_string(), "f")),
        _ => None,
    });
    texts.collect()
}

/// The model in memory and what both fits say, which is the same; fails where they differ in their inputs.
fn fitted_with(path: &Path, columns: &SchemaOptions, test: f64) -> (TableModel, Told) {
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

/// The same of a text.
fn fitted(text: &str) -> (TableModel, Vec<String>) {
    let (_folder, path) = file("f.csv", text);
    let (model, (said, _)) = fitted_with(&path, &columns(), 0.0);
    (model, said)
}

/// The error of both fits.
fn refused(text: &str, columns: &SchemaOptions) -> String {
    let (_folder, path) = file("f.csv", text);
    let memory = in_memory(&path, columns, 0.2).map(|_| ()).expect_err("refused in memory");
    let disk = from_disk(&path, columns, 0.2).map(|_| ()).expect_err("refused from disk");
    assert_eq!(memory.to_string(), disk.to_string());
    assert!(!memory.to_string().contains('\n'));
    memory.to_string().replace(&path.display().to_string(), "f")
}

fn csv(text: &str) -> Table {
    read_csv("new", Cursor::new(text.to_owned().into_bytes())).expect("a table")
}

/// The inputs of new rows.
fn inputs(model: &TableModel, text: &str) -> Result<Vec<Vec<f64>>, Error> {
    let table = csv(text);
    let x = model.schema().design(&table, UnseenLevels::Error)?;
    Ok((0..x.nrows()).map(|row| x.row(row).iter().copied().collect()).collect())
}

/// Rows of cells that a function of the row writes, under a header.
fn rows(header: &str, count: usize, cells: impl Fn(usize) -> String) -> String {
    let lines: String = (0..count).map(|row| format!("{}\n", cells(row))).collect();
    format!("{header}\n{lines}")
}

/// A number that looks random, between 0 and 1.
fn noise(row: usize) -> f64 {
    ((row as f64 + 1.0) * 78.233).sin() * 43_758.545
        - (((row as f64 + 1.0) * 78.233).sin() * 43_758.545).floor()
}

#[test]
fn missing_inputs_take_the_mean_and_an_input_says_where() {
    let text = rows("a,b,c,y", 120, |row| {
        let a = if row % 10 == 3 { "NA".to_owned() } else { format!("{}", row % 7) };
        let c = ["red", "", "blue"][row % 3];
        format!("{a},{},{c},{}", noise(row), 2.0 + noise(row + 500))
    });
    let (model, said) = fitted(&text);
    assert_eq!(
        said,
        [
            "f: cells are missing: in 'a' (12) they take the mean, and an input 'a is missing' says where; in 'c' (40) they are a \
          category of their own"
        ]
    );
    assert_eq!(
        model.schema().input_names(),
        ["a", "a is missing", "b", "c=red", "c is missing"],
        "a linear model leaves the first category out"
    );
    let present: Vec<f64> = (0..120).filter(|row| row % 10 != 3).map(|row| (row % 7) as f64).collect();
    let mean = present.iter().sum::<f64>() / present.len() as f64;
    let b = (0..120).map(noise).sum::<f64>() / 120.0;
    let new = "a,b,c\n,0.5,red\n2,,NA\n";
    let x = inputs(&model, new).expect("inputs");
    for (found, expected) in x.concat().iter().zip([mean, 1.0, 0.5, 1.0, 0.0, 2.0, 0.0, b, 0.0, 1.0]) {
        assert!((found - expected).abs() < 1e-12, "{x:?}");
    }
    assert_eq!(model.schema().silent_gaps(&csv(new)), [("b", 1)]);
    let predictions = model.predict(&csv(new), UnseenLevels::Error).expect("predictions");
    assert!(predictions.row(1).mean.is_finite());
}

#[test]
fn cells_missing_in_test_rows_alone_make_no_input() {
    let (_folder, path) = file(
        "f.csv",
        rows("a,b,y", 60, |row| format!("{},{},{}", noise(row), noise(row + 99), noise(row + 7))),
    );
    let (_, (_, test)) = fitted_with(&path, &columns(), 0.2);
    let text = rows("a,b,y", 60, |row| {
        let a = if row == test[0] { String::new() } else { noise(row).to_string() };
        format!("{a},{},{}", noise(row + 99), noise(row + 7))
    });
    std::fs::write(&path, text).expect("written");
    let (model, (_, again)) = fitted_with(&path, &columns(), 0.2);
    assert_eq!((model.schema().input_names(), again), (vec!["a".to_owned(), "b".to_owned()], test));
}

#[test]
fn rows_without_a_target_are_left_out_and_rows_keep_their_numbers() {
    let text = rows("a,y", 100, |row| {
        let y = if row % 5 == 0 { String::new() } else { noise(row + 7).to_string() };
        // What such rows hold otherwise does not matter.
        let a = if row == 50 { "oops".to_owned() } else { noise(row).to_string() };
        format!("{a},{y}")
    });
    let (_folder, path) = file("f.csv", &text);
    let (model, (said, test)) = fitted_with(&path, &columns(), 0.25);
    assert_eq!(said, ["f: 20 of 100 rows have no target 'y' and are left out"]);
    assert_eq!((model.training_rows(), test.len()), (60, 20));
    assert!(test.iter().all(|row| row % 5 != 0));
    let bad = text.replace(&format!("{},{}\n", noise(78), noise(85)), &format!("inf,{}\n", noise(85)));
    assert_eq!(
        refused(&bad, &columns()),
        "f: row 79 (line 80), column 'a': found inf, expected a finite number"
    );
    let none = rows("a,y", 20, |row| format!("{},NA", noise(row)));
    assert_eq!(refused(&none, &columns()), "f: the target 'y' is missing in every row");
}
