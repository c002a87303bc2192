//! Parquet files that other programs wrote: every type, codec and encoding, from disk and from pipes, and with damage at every byte.

use std::fs;
use std::io::{Cursor, Seek, Write};
use std::path::{Path, PathBuf};

use super::told::file;
use sparsegp_tables::tables::{Column, Table, large_size, read_csv, read_table};
use sparsegp_testkit::{self as testkit, parquet::Cells};

/// Returns the path of a file that pyarrow wrote.
fn written(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn numbers(table: &Table, name: &str) -> Vec<Option<f64>> {
    let values = table.numbers(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    values.iter().map(|value| (!value.is_nan()).then_some(*value)).collect()
}

fn texts(table: &Table, name: &str) -> Vec<Option<String>> {
    match table.column(name) {
        Some(Column::Text(text)) => (0..table.rows()).map(|row| text.get(row).map(str::to_owned)).collect(),
        other => panic!("{name} is {other:?}"),
    }
}

/// The columns of `NUMBERS` in `make.py`: the first row, the third and the last; the second one is missing.
const NUMBERS: [(&str, f64, f64, f64); 15] = [
    ("i8", 1.0, -3.0, 127.0),
    ("u8", 0.0, 255.0, 7.0),
    ("i16", 1.0, -32768.0, 127.0),
    ("u16", 0.0, 65535.0, 7.0),
    ("i32", 1.0, -2147483648.0, 127.0),
    ("u32", 0.0, 4294967295.0, 7.0),
    ("i64", 1.0, -9007199254740992.0, 127.0),
    ("u64", 0.0, 18446744073709551615.0, 7.0),
    ("f16", 0.5, f64::NEG_INFINITY, 65504.0),
    ("f32", 0.1f32 as f64, f64::INFINITY, -2.5),
    ("bool", 1.0, 0.0, 1.0),
    ("decimal9", 1.5, -0.25, 9999999.99),
    ("decimal18", 1.5, -0.25, 99999999999999.9999),
    ("decimal38", 1.5, -0.25, 1234567890123456789012345678.0123456789),
    ("decimal76", 1.5, -0.25, 1e55),
];

const TEXT: [Option<&str>; 4] = [Some("red"), None, Some("a longer text than a view holds"), Some("ü")];

/// Checks the columns that all files of types have.
fn check_types(table: &Table) {
    assert_eq!(table.rows(), 4);
    for (name, first, third, last) in NUMBERS {
        assert_eq!(numbers(table, name), [Some(first), None, Some(third), Some(last)], "{name}");
    }
    // Floats do not hold this number, and true and false are spelled as in CSV files.
    assert_eq!(texts(table, "u64")[2].as_deref(), Some("18446744073709551615"));
    assert_eq!(texts(table, "bool")[2].as_deref(), Some("false"));
    assert_eq!(numbers(table, "f64"), [Some(0.1), None, Some(5e-324), None]);
    assert_eq!(
        texts(table, "digits"),
        ["1", "2", "", "03"].map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()))
    );
    assert_eq!(numbers(table, "nothing"), [None; 4]);
    for name in ["text", "large_text", "dictionary"] {
        assert_eq!(texts(table, name), TEXT.map(|cell| cell.map(str::to_owned)), "{name}");
    }
    assert_eq!(table.column("date"), Some(&Column::Time(vec![1_577_923_200.0; 4])));
    assert_eq!(table.column("timestamp"), Some(&Column::Time(vec![1_577_934_245.0; 4])));
    for name in ["date", "time", "binary", "list", "struct", "map"] {
        check_unsupported(table, name, name);
    }
}

fn check_unsupported(table: &Table, name: &str, data_type: &str) {
    let error = table.numbers(name).unwrap_err().to_string();
    let expected = format!("column '{name}' has type {data_type}, expected numbers, text or true/false");
    assert!(error.ends_with(&expected), "{error}");
    assert_eq!(table.column(name).map(Column::len), Some(table.rows()));
}

#[test]
fn parquet_columns_of_every_type_are_read() {
    for name in ["types.parquet", "types_old.parquet"] {
        let table = read_table(&written(name)).unwrap();
        check_types(&table);
        assert_eq!(numbers(&table, "required"), [1.0, 2.0, 3.0, 4.0].map(Some), "{name}");
    }
}

/// The files in `make.py` with the same rows as `rows`.
fn files_of_rows() -> Vec<String> {
    let codecs = ["snappy", "gzip", "brotli", "lz4", "zstd"];
    let mut names: Vec<String> = codecs
        .iter()
        .flat_map(|codec| ["v1", "v2"].map(|version| format!("{codec}_{version}.parquet")))
        .collect();
    names.extend(["plain", "delta", "lengths"].map(|encoding| format!("encoding_{encoding}.parquet")));
    names.push("polars.parquet".to_owned());
    names
}

#[test]
fn every_codec_encoding_and_batch_gives_the_same_rows() {
    let keep: Vec<Option<usize>> = (0..300).map(|i| (i % 7 != 3).then_some(i)).collect();
    for name in files_of_rows() {
        let table = read_table(&written(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let whole: Vec<Option<f64>> = keep.iter().map(|i| i.map(|i| i as f64)).collect();
        assert_eq!(numbers(&table, "whole"), whole, "{name}");
        let quarter: Vec<Option<f64>> = keep.iter().map(|i| i.map(|i| i as f64 / 4.0)).collect();
        assert_eq!(numbers(&table, "quarter"), quarter, "{name}");
        let letters = |i: usize| format!("category {}", ["a", "b", "c", "d", "e"][i % 5]);
        let text: Vec<Option<String>> = keep.iter().map(|i| i.map(letters)).collect();
        assert_eq!(texts(&table, "text"), text, "{name}");
        assert_eq!(large_size(&written(&name), None, &|name| name != "text", 0), Some((300, 4800)), "{name}");
    }
}

#[test]
fn formats_are_recognised_by_the_first_bytes_and_damaged_files_are_refused() {
    let message = |name: &str, bytes: &[u8]| {
        let (_folder, path) = file(name, bytes);
        read_table(&path).map(|table| table.rows()).map_err(|error| {
            assert_eq!(error.exit_code(), 3);
            error.to_string().split_once(name).map_or(String::new(), |(_, message)| message.to_owned())
        })
    };
    let parquet = fs::read(written("zstd_v1.parquet")).unwrap();
    for name in ["f.data", "f.csv"] {
        assert_eq!(message(name, &parquet), Ok(300));
    }
    assert_eq!(
        message("f.parquet", b"a,y\n1,2\n"),
        Err(": not a Parquet file, although its name ends like one".into())
    );
    for arrow in [b"ARROW1\0\0".as_slice(), &[0xff; 8]] {
        let bytes = [arrow, b"\na,y\n1,2\n"].concat();
        let found = ": found an Arrow file, expected CSV or Parquet";
        assert_eq!(message("f.arrow", &bytes), Err(found.into()));
        let error = read_csv("standard input", Cursor::new(bytes)).unwrap_err();
        assert_eq!(error.to_string(), format!("standard input{found}"));
    }
    let cut = |bytes: &[u8], end: usize| message("f.data", &bytes[..end]).unwrap_err();
    assert!(cut(&parquet, parquet.len() - 20).starts_with(": not a readable Parquet file: "));
    assert_eq!(read_csv("standard input", Cursor::new(parquet)).unwrap().rows(), 300);
    let empty = testkit::parquet::file("optional int32 a;", &[], (0, 1));
    assert_eq!(message("f.data", &empty), Err(": has a header but no rows of data".into()));
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_column() {
    let cells = ["x".into(), vec![0xff].into()].map(Some).to_vec();
    let bytes = testkit::parquet::file("optional binary a (UTF8);", &[Cells::Bytes(cells)], (2, 2));
    let (_folder, path) = file("f", bytes);
    let error = read_table(&path).unwrap_err().to_string();
    assert!(error.contains("column 'a': ") && error.contains("the text is not UTF-8"), "{error}");
}

/// Overwrites the contents of a file. The file is not truncated first, because file systems flush a truncated and rewritten file to disk at
/// once, which is slow.
fn rewrite(file: &mut fs::File, bytes: &[u8]) {
    file.rewind()
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| file.set_len(bytes.len() as u64))
        .unwrap();
}

/// Calls `read` with the bytes of a file, changed or cut at every position.
fn damaged(name: &str, flips: &[u8], mut read: impl FnMut(&[u8]) -> Result<Table, sparsegp::Error>) {
    let mut bytes = fs::read(written(name)).unwrap();
    let mut check = |bytes: &[u8]| {
        if let Err(error) = read(bytes) {
            assert!(error.exit_code() == 3 && !error.to_string().contains('\n'), "{name}: {error}");
        }
    };
    for at in 0..bytes.len() {
        for flip in flips {
            bytes[at] ^= flip;
            check(&bytes);
            bytes[at] ^= flip;
        }
        if at % 5 == 0 {
            check(&bytes[..at]);
        }
    }
}

#[test]
fn damaged_parquet_files_give_a_table_or_a_one_line_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    let mut file = fs::File::create(&path).unwrap();
    let flips: [(&str, &[u8]); 3] = [
        ("encoding_delta.parquet", &[0x01, 0xff]),
        ("zstd_v2.parquet", &[0x80]),
        ("types_old.parquet", &[0xff]),
    ];
    for (name, flips) in flips {
        damaged(name, flips, |bytes| {
            rewrite(&mut file, bytes);
            read_table(&path)
        });
    }
}

#[test]
fn a_fit_reads_parquet_from_disk_and_from_a_pipe() {
    let work = testkit::program::Work::empty();
    let name = "zstd_v1.parquet";
    fs::copy(written(name), work.path(name)).unwrap();
    let base = "--target quarter --inducing 10 --max-steps 5 --json --quiet";
    let disk = work.run(&format!("fit {name} {base}")).json();
    let piped = work.run_with_input(&format!("fit - {base}"), &fs::read(written(name)).unwrap()).json();
    assert_eq!(disk["data"]["rows"], 300);
    assert_eq!(disk["fit"]["objective"], piped["fit"]["objective"]);
}
