//! From a path to tables: what kind of file it is, the whole of it or block by block; no meaning of columns.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::column::ColumnBuilder;
use super::csv::CsvRows;
use super::parquet::{ParquetRows, row_groups};
use super::schema::Schema;
use super::table::{Lines, NamedColumn, Table};
use crate::error::{Error, Result};

pub(super) const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// Reads a whole table: CSV, gzip-compressed CSV, Parquet, or CSV from standard input for `-`.
///
/// Gzip and Parquet are recognised by their first bytes, whatever the file's name. The type of each column is found over
/// the whole column; see [`Column`](super::Column).
///
/// # Errors
///
/// When the file cannot be opened, is empty, has a header only, ragged rows, names that are absent or given twice,
/// text that is not UTF-8, or is damaged; the message names the file and the row.
pub fn read_table(path: &Path) -> Result<Table> {
    whole(TableBlocks::new(path, usize::MAX, &|_| true, None)?)
}

/// The number of rows of each row group of a Parquet file; `None` for files of text, which can be read in one order only.
///
/// # Errors
///
/// When the file cannot be opened, or is Parquet that is damaged.
pub(crate) fn groups_of(path: &Path) -> Result<Option<Vec<usize>>> {
    let source = path.display().to_string();
    let unreadable = |error: std::io::Error| Error::data(format!("{source}: cannot be read: {error}"));
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.is_dir() {
        return Err(Error::data(format!("{source}: is a folder, expected a file")));
    }
    let (magic, _) = peek(&source, Box::new(file.try_clone().map_err(unreadable)?))?;
    if magic == PARQUET_MAGIC { row_groups(&source, &file).map(Some) } else { Ok(None) }
}

/// Reads a whole table from CSV text, which may be gzip-compressed; `source` is what messages call it.
///
/// # Errors
///
/// As for [`read_table`].
pub fn read_csv(source: &str, input: impl Read + Send + 'static) -> Result<Table> {
    let (magic, input) = peek(source, Box::new(input))?;
    whole(TableBlocks::from_text(source, &magic, input, usize::MAX, &|_| true)?)
}

/// The one block of a reader that makes blocks of any length.
fn whole(mut blocks: TableBlocks) -> Result<Table> {
    let source = blocks.source.clone();
    blocks.next().unwrap_or_else(|| Err(no_rows(&source)))
}

/// A file as consecutive tables of at most `block_rows` rows, in memory that does not grow with the file.
///
/// Iteration ends after the last row or the first error. A file without rows is an error, as for [`read_table`].
#[derive(Debug)]
pub struct TableBlocks {
    source: String,
    rows: Rows,
    builders: Vec<Option<ColumnBuilder>>,
    block_rows: usize,
    any: bool,
    done: bool,
}

/// Where rows come from.
enum Rows {
    Csv(Box<CsvRows>),
    Parquet(Box<ParquetRows>),
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Rows::Csv(_) => "Csv",
            Rows::Parquet(_) => "Parquet",
        })
    }
}

impl TableBlocks {
    /// Opens a file (or `-`) to read the features and the exposure of the schema, its target too where the file has one;
    /// other columns are skipped. `block_rows` is at least 1 (0 counts as 1).
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, is empty or has no readable header, or lacks a feature or the exposure of the
    /// schema.
    pub fn open(path: &Path, block_rows: usize, schema: &Schema) -> Result<TableBlocks> {
        let blocks = TableBlocks::new(path, block_rows, &|name| schema.uses(name), None)?;
        schema.check_columns(&blocks.source, blocks.names().iter().map(String::as_str))?;
        Ok(blocks)
    }

    /// Opens a file (or `-`) to read the columns that are wanted. The row groups of a Parquet file are read in the order of
    /// `groups`, where it is given, and blocks then have rows of one of them each.
    pub(crate) fn new(
        path: &Path,
        block_rows: usize,
        wanted: &dyn Fn(&str) -> bool,
        groups: Option<&[usize]>,
    ) -> Result<TableBlocks> {
        if path == Path::new("-") {
            let source = "standard input";
            let (magic, input) = peek(source, Box::new(std::io::stdin()))?;
            return TableBlocks::from_text(source, &magic, input, block_rows, wanted);
        }
        let source = path.display().to_string();
        let unreadable = |error: std::io::Error| Error::data(format!("{source}: cannot be read: {error}"));
        let mut file = File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err(Error::data(format!("{source}: is a folder, expected a file")));
        }
        let named_parquet = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("parquet"));
        let (magic, input) = peek(&source, Box::new(file.try_clone().map_err(unreadable)?))?;
        if named_parquet || magic == PARQUET_MAGIC {
            if magic != PARQUET_MAGIC {
                return Err(Error::data(format!("{source}: not a Parquet file, expected one by its name")));
            }
            file.rewind().map_err(unreadable)?;
            let (rows, builders) = ParquetRows::open(&source, file, block_rows.max(1), wanted, groups)?;
            return Ok(TableBlocks::with(source, Rows::Parquet(Box::new(rows)), builders, block_rows));
        }
        TableBlocks::from_text(&source, &magic, input, block_rows, wanted)
    }

    fn from_text(
        source: &str,
        magic: &[u8],
        input: Box<dyn Read + Send>,
        block_rows: usize,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<TableBlocks> {
        if magic == PARQUET_MAGIC {
            return Err(Error::data(format!("{source}: found Parquet, expected CSV text"))
                .hint("save it to a file and give the file's name"));
        }
        let input: Box<dyn Read + Send> = if magic.starts_with(GZIP_MAGIC) {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, input)))
        } else {
            input
        };
        let rows = CsvRows::open(source, input)?;
        let builders = rows.names().iter().map(|name| wanted(name).then(ColumnBuilder::default)).collect();
        Ok(TableBlocks::with(source.to_owned(), Rows::Csv(Box::new(rows)), builders, block_rows))
    }

    fn with(
        source: String,
        rows: Rows,
        builders: Vec<Option<ColumnBuilder>>,
        block_rows: usize,
    ) -> TableBlocks {
        TableBlocks { source, rows, builders, block_rows: block_rows.max(1), any: false, done: false }
    }

    /// What messages call the file.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names of all columns of the file, in order, including those that are skipped.
    pub fn names(&self) -> &[String] {
        match &self.rows {
            Rows::Csv(rows) => rows.names(),
            Rows::Parquet(rows) => rows.names(),
        }
    }

    /// The next block; empty at the end of the file.
    fn block(&mut self) -> Result<Table> {
        let mut lines = Lines::default();
        let (rows, after) = match &mut self.rows {
            Rows::Csv(csv) => (csv.fill(&mut self.builders, &mut lines, self.block_rows)?, csv.row()),
            Rows::Parquet(parquet) => (parquet.fill(&mut self.builders, self.block_rows)?, parquet.row()),
        };
        let finished: Vec<_> =
            self.builders.iter_mut().map(|builder| builder.as_mut().map(ColumnBuilder::finish)).collect();
        let columns = self.names().iter().zip(finished);
        let columns =
            columns.filter_map(|(name, column)| Some(NamedColumn { name: name.clone(), column: column? }));
        Ok(Table::from_block(self.source.clone(), columns.collect(), rows, after - rows, lines))
    }

    /// Whether a block of so many rows is the last one. Text that ended is not asked again, which would repeat an error or
    /// wait for more standard input; a short block of Parquet may be the end of a row group.
    fn is_last(&self, rows: usize) -> bool {
        match self.rows {
            Rows::Csv(_) => rows < self.block_rows,
            Rows::Parquet(_) => rows == 0,
        }
    }
}

impl Iterator for TableBlocks {
    type Item = Result<Table>;

    fn next(&mut self) -> Option<Result<Table>> {
        if self.done {
            return None;
        }
        let block = self.block();
        self.done = block.as_ref().map_or(true, |table| self.is_last(table.rows()));
        match block {
            Ok(table) if table.rows() == 0 => (!self.any).then(|| Err(no_rows(&self.source))),
            other => {
                self.any = true;
                Some(other)
            }
        }
    }
}

fn no_rows(source: &str) -> Error {
    Error::data(format!("{source}: has a header but no rows of data"))
}

/// The first four bytes (fewer in a shorter file) and the whole input again, bytes included.
fn peek(source: &str, mut input: Box<dyn Read + Send>) -> Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut magic = Vec::with_capacity(4);
    (&mut input)
        .take(4)
        .read_to_end(&mut magic)
        .map_err(|error| Error::data(format!("{source}: cannot be read: {error}")))?;
    let whole = Box::new(Cursor::new(magic.clone()).chain(input));
    Ok((magic, whole))
}
