//! Data files in and out: every kind of bad input, round trips, and streams that equal the whole.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use faer::Mat;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use sparsegp::Error;
use sparsegp::kernels::Dimension;
use sparsegp_tables::schema::{Feature, Schema, SchemaOptions, UnseenColumn, UnseenLevels};
use sparsegp_tables::tables::{
    Column, PredictedRows, PredictedTable, PredictionWriter, Table, read_csv, read_table,
};
use sparsegp_testkit::parquet::Cells;
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

fn options(target: &str) -> SchemaOptions {
    SchemaOptions { target: target.into(), ..SchemaOptions::default() }
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
    let error = train(text, &options("y")).err().unwrap_or_else(|| panic!("accepted: {text:?}"));
    assert_eq!(error.exit_code(), 3, "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    error.to_string()
}

/// A row of a matrix.
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
fn excluded_columns_may_hold_anything() {
    let text = "a,junk,y\n1,,1\n2,inf,2\n3,x,4\n";
    assert!(refused(text).contains("column 'junk'"));
    let excluded = SchemaOptions { exclude: vec!["junk".into()], ..options("y") };
    let (schema, x, y) = train(text, &excluded).unwrap();
    assert_eq!((schema.dims(), x.nrows(), y), (1, 3, vec![1.0, 2.0, 4.0]));
    let chosen = SchemaOptions { features: Some(vec!["a".into()]), ..options("y") };
    assert_eq!(train(text, &chosen).unwrap().0, schema);
}

#[test]
fn categories_become_ordered_codes_or_one_input_each() {
    let text = "colour,size,flag,y\nred,10,true,1\nblue,9,FALSE,2\nred,10,True,3\n";
    let declared = SchemaOptions { categorical: vec!["size".into()], ..options("y") };
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
fn columns_match_by_name_in_any_order_and_others_are_ignored() {
    let (schema, x, _) = train("a,c,y\n1,u,1\n2,v,2\n", &options("y")).unwrap();
    let other = csv("extra,c,a\n?,v,2\njunk,u,1\n").unwrap();
    let again = schema.design(&other, UnseenLevels::Error).unwrap();
    assert_eq!(input_row(&again, 0), input_row(&x, 1));
    assert_eq!(input_row(&again, 1), input_row(&x, 0));
    assert_eq!(schema.target(&other).unwrap(), None);
    let missing = schema.design(&csv("c,aa\nu,1\n").unwrap(), UnseenLevels::Error).unwrap_err();
    assert_eq!(missing.to_string(), "f.csv: there is no column named 'a'");
    assert_eq!(missing.advice().as_deref(), Some("did you mean 'aa'?"));
    let missing = schema.design(&csv("q,aa\nu,1\n").unwrap(), UnseenLevels::Error).unwrap_err();
    assert_eq!(missing.to_string(), "f.csv: 2 columns the model needs are absent: 'a', 'c'");
}

#[test]
fn unseen_levels_are_refused_or_get_separate_codes() {
    let declared = SchemaOptions { categorical: vec!["k".into()], ..options("y") };
    let (schema, ..) = train("c,k,y\nu,1,1\nv,2,2\n", &declared).unwrap();
    let text = csv("c,k\nu,2.0\nw,1\n").unwrap();
    let error = schema.design(&text, UnseenLevels::Error).unwrap_err().to_string();
    assert_eq!(
        error,
        "f.csv: row 2 (line 3), column 'c': found \"w\", expected a category seen in training: 'u', 'v'"
    );
    let x = schema.design(&text, UnseenLevels::New).unwrap();
    assert_eq!((input_row(&x, 0), input_row(&x, 1)), (vec![0.0, 1.0], vec![2.0, 0.0]));
    let several = csv("c,k\nw,7\nx,8\nw,1\n").unwrap();
    let x = schema.design(&several, UnseenLevels::New).unwrap();
    let codes: Vec<Vec<f64>> = (0..3).map(|row| input_row(&x, row)).collect();
    assert_eq!(codes, [[2.0, 2.0], [3.0, 3.0], [2.0, 0.0]], "different levels differ");
    let found = schema.unseen_levels(&several).unwrap();
    assert_eq!(
        UnseenColumn::told("f.csv", &found).unwrap(),
        "f.csv: levels that do not occur in the training data: 'c' (3 rows, such as 'w', 'x') and 'k' (2 rows, such as '7', '8'); each is treated as a new level, unlike all others"
    );
    let number = csv("c,k\nu,2\nv,3\n").unwrap();
    let error = schema.design(&number, UnseenLevels::Error).unwrap_err().to_string();
    assert!(
        error.ends_with("column 'k': found \"3\", expected a category seen in training: '1', '2'"),
        "{error}"
    );
    let missing = csv("c,k\n,2\n").unwrap();
    let error = schema.design(&missing, UnseenLevels::Error).unwrap_err().to_string();
    assert_eq!(
        error,
        "f.csv: row 1 (line 2), column 'c': the value is missing, expected a category seen in training: 'u', 'v'"
    );
    let x = schema.design(&missing, UnseenLevels::New).unwrap();
    assert!(x[(0, 0)] > 1.0 && x[(0, 1)] == 1.0);
    // In linear models, all inputs of a level that training did not see are 0.
    let linear = SchemaOptions { drop_first: true, categorical: vec!["k".into()], ..options("y") };
    let (schema, ..) = train("c,k,y\nu,1,1\nv,2,2\n", &linear).unwrap();
    assert_eq!(input_row(&schema.design(&text, UnseenLevels::New).unwrap(), 1), [0.0, 0.0]);
}

#[test]
fn a_target_to_predict_may_be_missing_in_some_rows() {
    let (schema, ..) = train("a,y\n1,1\n2,2\n", &options("y")).unwrap();
    let some = csv("a,y\n1,\n2,5\n").unwrap();
    let values = schema.target_where_known(&some).unwrap().unwrap();
    assert!(values[0].is_nan() && values[1] == 5.0);
    assert!(schema.target(&some).is_err());
    let infinite = csv("a,y\n1,\n2,inf\n").unwrap();
    assert!(
        schema.target_where_known(&infinite).unwrap_err().to_string().contains("row 2 (line 3), column 'y'")
    );
}

#[test]
fn text_with_a_different_value_in_nearly_every_row_is_left_out_at_any_size() {
    for count in [30, 10_900, 25_000] {
        let rows = (0..count).map(|i| format!("package{i},{},{}\n", i * 7 % 23, i % 5)).collect::<String>();
        let table = csv(&format!("name,x,y\n{rows}")).unwrap();
        let numbers = SchemaOptions { numbers: true, ..options("y") };
        let (schema, warnings) = Schema::infer(&table, &numbers).unwrap();
        assert_eq!(schema.input_names(), ["x"]);
        let left_out =
            "f.csv: column left out: 'name' (a different value in nearly every row); ⟨keep name⟩ keeps it";
        assert_eq!(warnings, [left_out], "{count}");
    }
    // The only column is kept.
    let rows = (0..5).map(|i| format!("id{i},{i}\n")).collect::<String>();
    let numbers = SchemaOptions { numbers: true, ..options("y") };
    let (_, warnings) = Schema::infer(&csv(&format!("name,y\n{rows}")).unwrap(), &numbers).unwrap();
    assert_eq!(
        warnings,
        ["f.csv: column 'name' has a different category in every row; it is likely an identifier"]
    );
}

#[test]
fn the_rarest_of_too_many_categories_are_one() {
    // 500 categories of 20 rows come last but one; 12,000 categories have 2 rows each.
    let rare = (0..24_000).map(|i| format!("rare{},{}\n", i / 2, i % 7));
    let common = (0..10_000).map(|i| format!("rare{},{}\n", i % 500, i % 7));
    let text = "c,y\n".to_owned() + &rare.chain(common).collect::<String>();
    for (drop_first, known) in [(false, 10_000), (true, 1000)] {
        let asked =
            SchemaOptions { numbers: true, drop_first, categorical: vec!["c".into()], ..options("y") };
        let (schema, warnings) = Schema::infer(&csv(&text).unwrap(), &asked).unwrap();
        assert_eq!(
            warnings,
            ["f.csv: the rarest categories are treated as one: 'c' (more than 10000 categories)"]
        );
        let Feature::Categorical { levels, .. } = &schema.features()[0] else { panic!("no categories") };
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
    let asked = SchemaOptions { categorical: vec!["id".into()], numbers: true, ..options("y") };
    let (schema, x, _) = train(&text, &asked).unwrap();
    assert_eq!((0..6).map(|row| x[(row, 0)]).collect::<Vec<_>>(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let Feature::Categorical { levels, .. } = &schema.features()[0] else { panic!("no categories") };
    assert_eq!(*levels, ids.clone().map(|id| id.to_string()).collect::<Vec<_>>());
    // A float that was rounded from one of them is none of them.
    let rounded = csv("id\n1.2345678901234568e18\n").unwrap();
    assert!(schema.design(&rounded, UnseenLevels::Error).is_err());
    // Nanoseconds are numbers, also with a missing cell and with a time to split by.
    let times = (0..6).map(|k| format!("{},{}\n", 1_700_000_000_000_000_000u64 + k * 1_000_000_000, k));
    let text = "id,y\n".to_owned() + &times.collect::<String>() + ",7\n";
    let (schema, x, _) = train(&text, &SchemaOptions { numbers: true, ..options("y") }).unwrap();
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
    // Padding is not part of the data; other bytes are an error.
    for tail in [&[0; 700][..], &[0; 3]] {
        let padded = [&packed, tail].concat();
        assert_eq!(numbers(&read_csv("f", Cursor::new(padded)).unwrap(), "a").len(), 5000);
    }
    let padded_members = [&gzip(b"a,y\n1,2\n")[..], &[0; 9], &gzip(b"3,4\n")].concat();
    assert_eq!(numbers(&read_csv("f", Cursor::new(padded_members)).unwrap(), "a"), [1.0, 3.0]);
    for tail in [&b"x"[..], b"more text than a header of gzip has"] {
        let error = read_csv("f", Cursor::new([&packed, tail].concat())).unwrap_err().to_string();
        assert!(error.contains("after row 5000: bytes that are not compressed follow"), "{error}");
    }
    let mut damaged = packed.clone();
    damaged[packed.len() - 6] ^= 1;
    let error = read_csv("f", Cursor::new(damaged)).unwrap_err().to_string();
    assert!(error.contains("reading failed"), "{error}");
}

/// The inputs and targets of a file read in blocks, one vector per row.
fn streamed(path: &Path, schema: &Schema, block_rows: usize) -> Result<Vec<(Vec<f64>, f64)>, Error> {
    let mut rows = Vec::new();
    for block in schema.open(path, block_rows)? {
        let block = block?;
        assert!(block.rows() <= block_rows && block.first_row() == rows.len());
        let x = schema.design(&block, UnseenLevels::Error)?;
        let y = schema.target(&block)?.unwrap();
        rows.extend((0..block.rows()).map(|row| (input_row(&x, row), y[row])));
    }
    Ok(rows)
}

#[test]
fn a_stream_equals_the_whole_in_csv_and_parquet() {
    let n = 100;
    let category = |i: usize| ["1", "red", "2.0"][i * 7 % 5 % 3];
    let text = "skipped,a,c,y\n".to_owned()
        + &(0..n).map(|i| format!("x{i},{}.5,{},{i}\n", i * 31 % 17, category(i))).collect::<String>();
    let declared =
        SchemaOptions { categorical: vec!["c".into()], exclude: vec!["skipped".into()], ..options("y") };
    let (schema, x, y) = train(&text, &declared).unwrap();
    let whole: Vec<(Vec<f64>, f64)> = (0..n).map(|row| (input_row(&x, row), y[row])).collect();
    let columns = [
        Cells::Int64((0..n as i64).map(Some).collect()),
        Cells::text((0..n).map(|i| Some(category(i)))),
        Cells::Float((0..n).map(|i| Some((i * 31 % 17) as f32 + 0.5)).collect()),
    ];
    let fields = "optional int64 y; optional binary c (UTF8); optional float a;";
    let parquet = sparsegp_testkit::parquet::file(fields, &columns, (n, 13));
    let (_csv, csv_path) = file("f.csv", &text);
    let (_parquet, parquet_path) = file("f.parquet", parquet);
    for path in [&csv_path, &parquet_path] {
        for block_rows in [1, 7, 50, 100, 1000] {
            assert_eq!(streamed(path, &schema, block_rows).unwrap(), whole, "{block_rows}");
        }
    }
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

#[test]
fn a_model_of_text_and_one_of_numbers_agree_on_categories() {
    let declared = SchemaOptions { categorical: vec!["k".into()], ..options("y") };
    let (schema, ..) = train("k,y\n2.0,1\n10,2\n-0,3\n", &declared).unwrap();
    let Some(Feature::Categorical { levels, .. }) = schema.features().first() else {
        panic!("not categorical")
    };
    assert_eq!(levels, &["0", "2", "10"]);
    let mixed = csv("k\n2\nodd\n1e1\n-0.0\n").unwrap();
    let x = schema.design(&mixed, UnseenLevels::New).unwrap();
    let codes: Vec<f64> = (0..4).map(|r| x[(r, 0)]).collect();
    assert_eq!(codes, [1.0, 3.0, 2.0, 0.0]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_csv("f", Cursor::new(bytes));
    }

    #[test]
    fn any_near_csv_trains_to_finite_inputs_or_is_refused_in_one_line(
        text in "a,y(,[bc\"]{1,2})?\n([0-9a?\", .einfNA-]{0,9}[,\n]){0,30}"
    ) {
        match train(&text, &options("y")) {
            Ok((schema, x, y)) => {
                prop_assert_eq!((x.nrows(), x.ncols()), (y.len(), schema.dims()));
                prop_assert!((0..x.nrows()).all(|row| input_row(&x, row).iter().all(|v| v.is_finite())));
            }
            Err(error) => prop_assert!(error.exit_code() == 3 && !error.to_string().contains('\n')),
        }
    }

    #[test]
    fn damaged_gzip_never_panics(at in 0usize..2000, flip in 1u8..=255, cut: bool) {
        let mut bytes = gzip("a,y\n1,2\n".repeat(9).as_bytes());
        let at = at % bytes.len();
        bytes[at] ^= flip;
        if cut {
            bytes.truncate(at);
        }
        let _ = read_csv("f", Cursor::new(bytes));
    }
}
