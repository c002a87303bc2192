//! Replaces `columnar` in a build without the feature `parquet`: every function returns an error
//! that names the feature.

use super::format::{PredictedTable, RowSource, RowWriter};
use sparsegp::error::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

const FEATURE: &str = "the feature `parquet` of the crate sparsegp-tables";

pub(super) fn open(
    source: &str,
    _file: Option<File>,
    _input: Box<dyn Read + Send>,
    _wanted: &dyn Fn(&str) -> bool,
    _groups: Option<&[usize]>,
) -> Result<Box<dyn RowSource>> {
    Err(unread(source))
}

pub(super) fn row_groups(source: &str, _file: &File) -> Result<Vec<usize>> {
    Err(unread(source))
}

pub(super) fn writer(path: &Path, _columns: &PredictedTable) -> Result<Box<dyn RowWriter>> {
    Err(Error::usage(format!("{}: writing a Parquet file needs {FEATURE}", path.display()))
        .hint("build with it, or give a name ending in .csv"))
}

fn unread(source: &str) -> Error {
    Error::data(format!("{source}: found a Parquet file, expected CSV text; reading it needs {FEATURE}"))
        .hint("build with it, or save the table as CSV")
}

#[cfg(test)]
mod tests {
    use crate::tables::{PredictedTable, PredictionWriter, large_size, read_csv, read_table};
    use sparsegp::error::ErrorKind;

    #[test]
    fn columnar_files_are_refused_in_words_and_never_read_as_text() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["t.parquet", "t.csv"] {
            let path = folder.path().join(name);
            std::fs::write(&path, b"PAR1....\nx,y\n1,2\n").expect("written");
            for error in [read_table(&path), read_csv("input", std::fs::File::open(&path).expect("a file"))] {
                let error = error.expect_err("refused");
                let text = error.to_string();
                assert_eq!(error.kind(), ErrorKind::Data);
                assert!(text.contains("found a Parquet file") && text.contains("`parquet`"), "{text}");
            }
            assert_eq!(large_size(&path, None, &|_| true, 0), None);
        }
        let path = folder.path().join("p.parquet");
        let error = PredictionWriter::create(&path, PredictedTable::default()).expect_err("refused");
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("`parquet`"), "{error}");
        assert!(!path.exists());
    }
}
