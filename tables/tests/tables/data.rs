//! Data files in and out: every kind of bad input, round trips, and streams that equal the whole.

use super::common::*;
use sparsegp::Error;
use std::fs;
use std::io::{Cursor, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

/// A folder with one file in it.
fn file(name: &str, bytes: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn csv(text: &str) -> Result<Table, Error> {
    read_csv("f.csv", Cursor::new(text.to_owned().into_bytes()))
}

/// The schema, inputs and target of a training text.
fn train(text: &str, options: &SchemaOptions) -> Result<(Schema, Mat<f64>, Vec<f64>), Error> {
    let table = csv(text)?;
    let (schema, _) = Schema::infer(&table, options)?;
    let x = schema.design(&table, UnseenLevels::Error)?;
    let y = schema.target(&table)?.unwrap();
    Ok((schema, x, y))
}

/// Returns the message of training on a text, which must fail with a data error.
fn refused(text: &str) -> String {
    let error = train(text, &target("y")).err().unwrap_or_else(|| panic!("accepted: {text:?}"));
    assert_eq!(error.exit_code(), 3, "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    error.to_string()
}

fn input_row(x: &Mat<f64>, row: usize) -> Vec<f64> {
    x.row(row).iter().copied().collect()
}

fn numbers(table: &Table, name: &str) -> Vec<f64> {
    match table.column(name) {
        Some(Column::Number(values)) => values.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn bad_csv_is_refused_with_file_row_and_column() {
    for (text, expected) in [
        ("", "f.csv is empty, expected a header row and data"),
        ("\n\n", "f.csv is empty, expected a header row and data"),
        ("a,y\n", "f.csv: has a header but no rows of data"),
        ("a,y\n1,2\n", "f.csv: has 1 row of data, expected at least 2"),
        ("a,y\n1,2\n3\n", "f.csv: row 2 (line 3) has 1 fields, expected 2 as in the header"),
        ("a,y\n1,2\n3,4,5\n", "f.csv: row 2 (line 3) has 3 fields, expected 2 as in the header"),
        ("a\0,y\n1,2\n", "f.csv: is not a text file, expected CSV or Parquet"),
        ("a,y\n1,\n2,\n", "f.csv: the target 'y' is missing in every row"),
        ("a,y\n1,\n2,3\n", "f.csv: has 1 row of data, expected at least 2"),
        ("a,y\n1,2\n-inf,3\n", "f.csv: row 2 (line 3), column 'a': found -inf, expected a finite number"),
        ("a,y\n1,2\n1e999,3\n", "f.csv: row 2 (line 3), column 'a': found inf, expected a finite number"),
        ("a,y\n1,2\n2,inf\n", "f.csv: row 2 (line 3), column 'y': found inf, expected a finite number"),
        ("a,y\n1,2\nx1,3\n2,4\n", "f.csv: row 2 (line 3), column 'a': found \"x1\", expected a number"),
        ("a,y\n1,2\n2,low\n", "f.csv: row 2 (line 3), column 'y': found \"low\", expected a number"),
        ("a,y\n1,2\n2,2\n3,2.0\n", "f.csv: the target 'y' is 2 in every row, expected values that vary"),
        (
            "a,y\n1,1e300\n2,-1e300\n",
            "f.csv: the target 'y' ranges from -1e300 to 1e300, whose squares a 64-bit float cannot hold",
        ),
        (
            "a,y\n1,1e-200\n2,2e-200\n",
            "f.csv: the target 'y' ranges from 1e-200 to 2e-200, whose squares a 64-bit float cannot hold",
        ),
        ("a,Y\n1,2\n2,3\n", "f.csv: there is no column named 'y'"),
        ("y\n1\n2\n", "f.csv: no feature is left besides the target 'y'"),
    ] {
        assert_eq!(refused(text), expected, "{text:?}");
    }
}

#[test]
fn unusual_but_valid_csv_is_read() {
    let table =
        csv("\u{feff}\"a, b\" ,y,note\r\n1,2,\"x \"\"q\"\"\nz\"\r\n\r\n 3 ,-4.5e1,\r\n\r\n   \r\n").unwrap();
    assert_eq!(table.rows(), 2);
    assert_eq!(numbers(&table, "a, b"), [1.0, 3.0]);
    assert_eq!(numbers(&table, "y"), [2.0, -45.0]);
    let Some(Column::Text(note)) = table.column("note") else { panic!("not text") };
    assert_eq!((note.get(0), note.get(1)), (Some("x \"q\"\nz"), None));
    assert_eq!(table.place(1, "y"), "f.csv: row 2 (line 5), column 'y'");
}

#[test]
fn categories_become_ordered_codes_or_one_input_each() {
    let text = "colour,size,flag,y\nred,10,true,1\nblue,9,FALSE,2\nred,10,True,3\n";
    let declared = SchemaOptions { categorical: vec!["size".into()], ..target("y") };
    let (schema, x, _) = train(text, &declared).unwrap();
    assert_eq!(schema.input_names(), ["colour", "size", "flag"]);
    let levels = Dimension::Category { levels: 2 };
    assert_eq!(schema.dimensions(), [levels, levels, Dimension::Number]);
    let expected = [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]];
    for (row, expected) in expected.iter().enumerate() {
        assert_eq!(input_row(&x, row), expected);
    }
    let (fewer, x, _) = train(text, &SchemaOptions { drop_first: true, ..declared }).unwrap();
    assert_eq!(fewer.input_names(), ["colour=red", "size=10", "flag"]);
    assert_eq!(fewer.dimensions(), []);
    assert_eq!(input_row(&x, 1), [0.0, 0.0, 0.0]);
    let json = serde_json::to_string(&schema).unwrap();
    assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), schema);
}

#[test]
fn the_rarest_of_too_many_categories_are_one() {
    // 500 categories of 20 rows come last but one; 12,000 categories have 2 rows each.
    let rare = (0..24_000).map(|i| format!("rare{},{}\n", i / 2, i % 7));
    let common = (0..10_000).map(|i| format!("rare{},{}\n", i % 500, i % 7));
    let text = "c,y\n".to_owned() + &rare.chain(common).collect::<String>();
    for (drop_first, known) in [(false, 10_000), (true, 1000)] {
        let asked = SchemaOptions { numbers: true, drop_first, categorical: vec!["c".into()], ..target("y") };
        let (schema, warnings) = Schema::infer(&csv(&text).unwrap(), &asked).unwrap();
        assert_eq!(
            warnings,
            ["f.csv: the rarest categories are treated as one: 'c' (more than 10000 categories)"]
        );
        let FeatureKind::Categorical { levels, .. } = &schema.features()[0].kind else {
            panic!("no categories")
        };
        assert_eq!((levels.len(), levels.last().map(String::as_str)), (known, Some("(others)")));
        assert!((0..500).all(|i| levels.contains(&format!("rare{i}"))));
        // Rare and new categories have the same inputs, and common ones their own.
        let new = csv("c\nrare11999\nnever seen\nrare7\n").unwrap();
        let x = schema.design(&new, UnseenLevels::Error).unwrap();
        assert_eq!(input_row(&x, 0), input_row(&x, 1));
        assert_ne!(input_row(&x, 0), input_row(&x, 2));
        assert_eq!(schema.unseen_levels(&new).unwrap(), []);
    }
}

#[test]
fn quotation_marks_alone_are_a_row_of_a_single_column() {
    let table = csv("y\n1\n\"\"\n\n3\n  \n\"\"\r\n\r\n\" \"\n5").unwrap();
    let values: Vec<Option<f64>> =
        table.numbers("y").unwrap().iter().map(|y| (!y.is_nan()).then_some(*y)).collect();
    assert_eq!(values, [Some(1.0), None, Some(3.0), None, None, Some(5.0)]);
    assert_eq!(table.place(3, "y"), "f.csv: row 4 (line 7), column 'y'");
    assert_eq!(csv("a,b\n1,2\n\"\"\n3,4\n").unwrap().rows(), 2);
}

#[test]
fn whole_numbers_beyond_floats_are_distinct_levels_and_still_numbers() {
    let ids = (0..6).map(|k| 1_234_567_890_123_456_780u64 + k);
    let text = "id,y\n".to_owned() + &ids.clone().map(|id| format!("{id},{}\n", id % 3)).collect::<String>();
    let asked = SchemaOptions { categorical: vec!["id".into()], numbers: true, ..target("y") };
    let (schema, x, _) = train(&text, &asked).unwrap();
    assert_eq!((0..6).map(|row| x[(row, 0)]).collect::<Vec<_>>(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let FeatureKind::Categorical { levels, .. } = &schema.features()[0].kind else { panic!("no categories") };
    assert_eq!(*levels, ids.clone().map(|id| id.to_string()).collect::<Vec<_>>());
    // A float that was rounded from one of them is none of them.
    let rounded = csv("id\n1.2345678901234568e18\n").unwrap();
    assert!(schema.design(&rounded, UnseenLevels::Error).is_err());
    // Nanoseconds are numbers, also with a missing cell and with a time to split by.
    let times = (0..6).map(|k| format!("{},{}\n", 1_700_000_000_000_000_000u64 + k * 1_000_000_000, k));
    let text = "id,y\n".to_owned() + &times.collect::<String>() + ",7\n";
    let (schema, x, _) = train(&text, &SchemaOptions { numbers: true, ..target("y") }).unwrap();
    assert_eq!(schema.input_names(), ["id", "id is missing"]);
    assert_eq!(x[(1, 0)] - x[(0, 0)], 1e9);
    // 2^53 is exact, and 2^53 + 1 is not.
    let table = csv("a,b\n9007199254740992,9007199254740993\n-9007199254740992,1\n").unwrap();
    assert!(matches!(table.column("a"), Some(Column::Number(_))));
    assert!(matches!(table.column("b"), Some(Column::Text(text)) if text.get(0) == Some("9007199254740993")));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn gzip_is_read_whatever_its_name_and_refused_when_truncated() {
    let text: String =
        "a,y\n".to_owned() + &(0..5000).map(|i| format!("{i},{}\n", i * i % 977)).collect::<String>();
    let plain = csv(&text).unwrap();
    let packed = gzip(text.as_bytes());
    for name in ["f.csv.gz", "f.csv"] {
        let (_folder, path) = file(name, &packed);
        let table = read_table(&path).unwrap();
        assert_eq!(table.columns(), plain.columns());
    }
    let two_members = [gzip(b"a,y\n1,2\n"), gzip(b"3,4\n")].concat();
    assert_eq!(numbers(&read_csv("f", Cursor::new(two_members)).unwrap(), "a"), [1.0, 3.0]);
    for end in [packed.len() / 2, packed.len() - 4] {
        let (_folder, path) = file("f.csv.gz", &packed[..end]);
        let error = read_table(&path).unwrap_err().to_string();
        assert!(error.contains("the compressed data end early after row"), "{error}");
    }
    // Other bytes after the compressed data are an error.
    for tail in [&b"x"[..], b"more text than a header of gzip has"] {
        let error = read_csv("f", Cursor::new([&packed, tail].concat())).unwrap_err().to_string();
        assert!(error.contains("after row 5000"), "{error}");
    }
    let mut damaged = packed.clone();
    damaged[packed.len() - 6] ^= 1;
    let error = read_csv("f", Cursor::new(damaged)).unwrap_err().to_string();
    assert!(error.contains("reading failed"), "{error}");
}

#[test]
fn predictions_read_back_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["mean", "q0.05", "log_density"].map(String::from);
    let table =
        || PredictedTable { leading: vec![("key".into(), true)], numbers: names.to_vec(), csv_safe: false };
    let row = |i: usize| [1.0 / (i as f64 + 3.0), 1e300 * i as f64, if i == 2 { f64::NAN } else { -5e-324 }];
    for name in ["p.csv", "p.PARQUET"] {
        let path = folder.path().join(name);
        let mut writer = PredictionWriter::create(&path, table()).unwrap();
        for block in 0..4 {
            let rows = block * 5000..(block + 1) * 5000;
            let keys = rows.clone().map(|i| (i % 3 > 0).then(|| i % 3 - 1));
            let leading = vec![Column::of_labels(&["a, b".into(), "ü".into()], keys)];
            let numbers = rows.clone().flat_map(row).collect();
            writer.write_rows(&PredictedRows { leading, numbers, rows: rows.len() }).unwrap();
        }
        assert!(!path.exists());
        writer.finish().unwrap();
        let table = read_table(&path).unwrap();
        assert_eq!(table.rows(), 20_000);
        let Some(Column::Text(keys)) = table.column("key") else { panic!("not text") };
        assert!((0..20_000).all(|i| keys.get(i) == [None, Some("a, b"), Some("ü")][i % 3]));
        for (column, name) in names.iter().enumerate() {
            let read = numbers(&table, name);
            for (i, value) in read.into_iter().enumerate() {
                let written = row(i)[column];
                assert!(value == written || (value.is_nan() && written.is_nan()), "{name} {i}: {value}");
            }
        }
    }
    let error = PredictionWriter::create(&folder.path().join("p.txt"), table()).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    drop(PredictionWriter::create(&folder.path().join("q.csv"), table()).unwrap());
    drop(PredictionWriter::create(&folder.path().join("q.parquet"), table()).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

proptest! {
    #[test]
    fn any_near_csv_trains_to_finite_inputs_or_is_refused_in_one_line(
        text in "a,y(,[bc\"]{1,2})?\n([0-9a?\", .einfNA-]{0,9}[,\n]){0,30}"
    ) {
        match train(&text, &target("y")) {
            Ok((schema, x, y)) => {
                prop_assert_eq!((x.nrows(), x.ncols()), (y.len(), schema.dims()));
                prop_assert!((0..x.nrows()).all(|row| input_row(&x, row).iter().all(|v| v.is_finite())));
            }
            Err(error) => prop_assert!(error.exit_code() == 3 && !error.to_string().contains('\n')),
        }
    }
}
