//! Parquet files that other programs wrote: every type, codec and encoding, from disk and from pipes, and with damage at every byte.

use std::fs;
use std::io::{Cursor, Seek, Write};
use std::path::{Path, PathBuf};

use sparsegp_tables::tables::{Column, Table, large_size, read_csv, read_table};
use sparsegp_testkit::parquet::{self, Cells};
use sparsegp_testkit::program::Work;

fn written(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn numbers(table: &Table, name: &str) -> Vec<Option<f64>> {
    let values = table.numbers(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    values.iter().map(|value| (!value.is_nan()).then_some(*value)).collect()
}

fn texts<'a>(table: &'a Table, name: &str) -> Vec<Option<&'a str>> {
    match table.column(name) {
        Some(Column::Text(text)) => (0..table.rows()).map(|row| text.get(row)).collect(),
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

#[test]
fn parquet_columns_of_every_type_are_read() {
    for name in ["types.parquet", "types_old.parquet"] {
        let table = read_table(&written(name)).unwrap();
        assert_eq!(table.rows(), 4);
        for (name, first, third, last) in NUMBERS {
            assert_eq!(numbers(&table, name), [Some(first), None, Some(third), Some(last)], "{name}");
        }
        assert_eq!(numbers(&table, "f64"), [Some(0.1), None, Some(5e-324), None]);
        assert_eq!(numbers(&table, "nothing"), [None; 4]);
        assert_eq!(numbers(&table, "required"), [1.0, 2.0, 3.0, 4.0].map(Some), "{name}");
        // Floats do not hold this number, and true and false are spelled as in CSV files.
        assert_eq!(texts(&table, "u64")[2], Some("18446744073709551615"));
        assert_eq!(texts(&table, "bool")[2], Some("false"));
        assert_eq!(texts(&table, "digits"), [Some("1"), Some("2"), None, Some("03")]);
        for name in ["text", "large_text", "dictionary"] {
            assert_eq!(texts(&table, name), TEXT, "{name}");
        }
        assert_eq!(table.column("date"), Some(&Column::Time(vec![1_577_923_200.0; 4])));
        assert_eq!(table.column("timestamp"), Some(&Column::Time(vec![1_577_934_245.0; 4])));
        for name in ["date", "time", "binary", "list", "struct", "map"] {
            let error = table.numbers(name).unwrap_err().to_string();
            let expected = format!("column '{name}' has type {name}, expected numbers, text or true/false");
            assert!(error.ends_with(&expected), "{error}");
            assert_eq!(table.column(name).map(Column::len), Some(4));
        }
    }
}

#[test]
fn every_codec_encoding_and_batch_gives_the_same_rows() {
    // The files in `make.py` with the same rows as `rows`.
    let codecs =
        ["snappy_v1", "snappy_v2", "gzip_v1", "gzip_v2", "brotli_v1", "brotli_v2", "lz4_v1", "lz4_v2"];
    let others = ["zstd_v1", "zstd_v2", "encoding_plain", "encoding_delta", "encoding_lengths", "polars"];
    let keep = || (0..300).map(|i| (i % 7 != 3).then_some(i));
    let whole: Vec<_> = keep().map(|i| i.map(|i| i as f64)).collect();
    let quarter: Vec<_> = keep().map(|i| i.map(|i| i as f64 / 4.0)).collect();
    let letters = ["category a", "category b", "category c", "category d", "category e"];
    let text: Vec<_> = keep().map(|i| i.map(|i: usize| letters[i % 5])).collect();
    for name in codecs.iter().chain(&others) {
        let path = written(&format!("{name}.parquet"));
        let table = read_table(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            (numbers(&table, "whole"), numbers(&table, "quarter")),
            (whole.clone(), quarter.clone()),
            "{name}"
        );
        assert_eq!(texts(&table, "text"), text, "{name}");
        assert_eq!(large_size(&path, None, &|name| name != "text", 0), Some((300, 4800)), "{name}");
    }
}

#[test]
fn formats_are_recognised_by_the_first_bytes_and_damaged_files_are_refused() {
    let message = |name: &str, bytes: &[u8]| {
        let work = Work::with(name, bytes);
        read_table(&work.path(name)).map(|table| table.rows()).map_err(|error| {
            assert_eq!(error.exit_code(), 3);
            error.to_string().split_once(name).map_or(String::new(), |(_, message)| message.to_owned())
        })
    };
    let parquet = fs::read(written("zstd_v1.parquet")).unwrap();
    for name in ["f.data", "f.csv"] {
        assert_eq!(message(name, &parquet), Ok(300));
    }
    let [arrow, stream] =
        [b"ARROW1\0\0".as_slice(), &[0xff; 8]].map(|start| [start, b"\na,y\n1,2\n"].concat());
    let empty = parquet::file("optional int32 a;", &[], (0, 1));
    let cells = ["x".into(), vec![0xff].into()].map(Some).to_vec();
    let latin = parquet::file("optional binary a (UTF8);", &[Cells::Bytes(cells)], (2, 2));
    for (name, bytes, words) in [
        ("f.parquet", &b"a,y\n1,2\n"[..], "not a Parquet file, although its name ends like one"),
        ("f.arrow", &arrow, "found an Arrow file, expected CSV or Parquet"),
        ("f.arrow", &stream, "found an Arrow file, expected CSV or Parquet"),
        ("f.data", &parquet[..parquet.len() - 20], "not a readable Parquet file: "),
        ("f.data", &empty, "has a header but no rows of data"),
        ("f.data", &latin, "column 'a': "),
        ("f.data", &latin, "the text is not UTF-8"),
    ] {
        let found = message(name, bytes).unwrap_err();
        assert!(found.contains(words), "{found}");
    }
    let piped = |bytes: &[u8]| read_csv("standard input", Cursor::new(bytes.to_vec()));
    assert!(piped(&arrow).unwrap_err().to_string().starts_with("standard input: found an Arrow file"));
    assert_eq!(piped(&parquet).unwrap().rows(), 300);
}

/// Writes a file. It is not truncated first, because file systems flush a truncated and rewritten file to disk at once, which is slow.
fn rewrite(file: &mut fs::File, bytes: &[u8]) {
    let written = file.rewind().and_then(|()| file.write_all(bytes));
    written.and_then(|()| file.set_len(bytes.len() as u64)).unwrap();
}

/// Each file is changed or cut at every position.
#[test]
fn damaged_parquet_files_give_a_table_or_a_one_line_error() {
    let work = Work::empty();
    let path = work.path("f");
    let mut file = fs::File::create(&path).unwrap();
    for (name, flips) in [
        ("encoding_delta.parquet", &[0x01, 0xff][..]),
        ("zstd_v2.parquet", &[0x80]),
        ("types_old.parquet", &[0xff]),
    ] {
        let mut bytes = fs::read(written(name)).unwrap();
        let mut check = |bytes: &[u8]| {
            rewrite(&mut file, bytes);
            if let Err(error) = read_table(&path) {
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
}

#[test]
fn a_fit_reads_parquet_from_disk_and_from_a_pipe() {
    let bytes = fs::read(written("zstd_v1.parquet")).unwrap();
    let work = Work::with("t.parquet", &bytes);
    let options = "--target quarter --inducing 10 --max-steps 5 --json --quiet";
    let disk = work.run(&format!("fit t.parquet {options}")).json();
    let piped = work.run_with_input(&format!("fit - {options}"), &bytes).json();
    assert_eq!(disk["data"]["rows"], 300);
    assert_eq!(disk["fit"]["objective"], piped["fit"]["objective"]);
}
