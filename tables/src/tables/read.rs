//! Reading a path as tables: the format of the file, the whole file or block by block.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use super::column::{Column, ColumnBuilder};
use super::columnar;
use super::csv::CsvRows;
use super::format::{FIRST_BYTES, GZIP, Opened, RowSource, is_named_parquet, is_parquet, unreadable};
use super::gzip::Gunzip;
use super::marker::Markers;
use super::table::{Lines, NamedColumn, Table, absent, quoted};
use sparsegp::error::{Error, Result};
use sparsegp::files::open_input;

/// Reads a whole table: CSV, plain or gzip-compressed, and with the feature `parquet` Parquet. `-` reads standard input, which
/// cannot be Parquet.
///
/// Every format except CSV is recognised by its first bytes, for any file name. The type of each column is found over the whole column;
/// see [`Column`](super::Column).
///
/// # Errors
///
/// When the file cannot be opened, is empty, has only a header, ragged rows, missing or repeated names, or text that is neither UTF-8,
/// UTF-16 nor Windows-1252, or is damaged; the message names the file and the row.
pub fn read_table(path: &Path) -> Result<Table> {
    read_table_with(path, None, &[])
}

/// Like [`read_table`], for a CSV file whose columns are separated by `delimiter` (`None` finds it in the first lines). The values `missing`
/// count as missing cells in every column, in addition to the usual ones.
///
/// # Errors
///
/// As for [`read_table`].
pub fn read_table_with(path: &Path, delimiter: Option<u8>, missing: &[String]) -> Result<Table> {
    let how = How { delimiter, missing, ..How::default() };
    whole(TableBlocks::new(path, usize::MAX, &|_| true, how)?)
}

/// Returns the names of a file's columns; `None` for standard input or a pipe, which cannot be read twice.
///
/// # Errors
///
/// As for [`read_table_with`], for the first lines of the file.
pub fn column_names(path: &Path, delimiter: Option<u8>) -> Result<Option<Vec<String>>> {
    if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(None);
    }
    let blocks = TableBlocks::new(path, 1, &|_| false, How { delimiter, ..How::default() })?;
    Ok(Some(blocks.names().to_vec()))
}

/// The order of reading, and the details of a CSV file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How<'a> {
    /// The order of a Parquet file's row groups; each block then has rows of a single group.
    pub groups: Option<&'a [usize]>,
    /// The character between columns; `None` finds it.
    pub delimiter: Option<u8>,
    /// Columns that are copied unchanged, even if they are not wanted otherwise.
    pub copied: &'a [String],
    /// Values that count as missing cells, in addition to the usual ones.
    pub missing: &'a [String],
}

/// Returns the number of rows of each row group of a Parquet file; `None` for files that can be read in only one order.
pub(crate) fn groups_of(path: &Path) -> Result<Option<Vec<usize>>> {
    let OpenedFile { source, file, first, .. } = OpenedFile::open(path)?;
    is_parquet(&source, &first)?.then(|| columnar::row_groups(&source, &file)).transpose()
}

/// A file with its name in messages, its first bytes, and the whole input from its beginning.
struct OpenedFile {
    source: String,
    file: File,
    first: Vec<u8>,
    input: Box<dyn Read + Send>,
}

impl OpenedFile {
    fn open(path: &Path) -> Result<OpenedFile> {
        let source = path.display().to_string();
        let file = open_input(path, &source)?;
        let copy = file.try_clone().map_err(|error| unreadable(&source, &error))?;
        let (first, input) = peek(&source, Box::new(copy))?;
        Ok(OpenedFile { source, file, first, input })
    }
}

/// Reads a whole table from CSV text, which may be gzip-compressed, or from the bytes of a Parquet file; messages call it `source`.
///
/// # Errors
///
/// As for [`read_table`].
pub fn read_csv(source: &str, input: impl Read + Send + 'static) -> Result<Table> {
    let (first, input) = peek(source, Box::new(input))?;
    whole(TableBlocks::of_input(source, &first, input, usize::MAX, &|_| true, None)?)
}

/// Creates a table from columns of text cells (`None` is a missing cell), which are read as in a CSV file; the values `missing` count as
/// missing cells too.
pub(crate) fn table_of_cells<'a>(
    source: &str,
    columns: impl Iterator<Item = &'a (String, Vec<Option<String>>)>,
    missing: &[String],
) -> Result<Table> {
    let markers = Markers::new(missing);
    let named = |(name, cells): &(String, Vec<Option<String>>)| NamedColumn {
        name: name.clone(),
        column: markers.without(Column::from_text(cells.iter().map(Option::as_deref))),
    };
    Table::new(source, columns.map(named).collect())
}

/// Returns the only block of a reader with unlimited block length.
fn whole(mut blocks: TableBlocks) -> Result<Table> {
    let source = blocks.source.clone();
    blocks.next().unwrap_or_else(|| Err(no_rows(&source)))
}

/// A file as consecutive tables of at most `block_rows` rows, in bounded memory.
///
/// Iteration ends after the last row or the first error. A file without rows is an error, as for [`read_table`].
pub struct TableBlocks {
    source: String,
    rows: Box<dyn RowSource>,
    builders: Vec<Option<ColumnBuilder>>,
    copied: Vec<String>,
    missing: Markers,
    block_rows: usize,
    any: bool,
    done: bool,
}

impl std::fmt::Debug for TableBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableBlocks").field("source", &self.source).finish_non_exhaustive()
    }
}

impl TableBlocks {
    /// Opens a file (or `-`) to read the wanted columns.
    pub(crate) fn new(
        path: &Path,
        block_rows: usize,
        wanted: &dyn Fn(&str) -> bool,
        how: How<'_>,
    ) -> Result<TableBlocks> {
        let read = |name: &str| wanted(name) || how.copied.iter().any(|copied| copied == name);
        if path == Path::new("-") {
            let source = "standard input";
            let (first, input) = peek(source, Box::new(std::io::stdin()))?;
            return TableBlocks::of_input(source, &first, input, block_rows, &read, how.delimiter)?
                .copying(wanted, how);
        }
        let OpenedFile { source, file, first, input } = OpenedFile::open(path)?;
        let blocks = match (is_parquet(&source, &first)?, is_named_parquet(path)) {
            (true, _) if how.delimiter.is_some() => {
                Err(Error::usage(format!("{source}: found a Parquet file, but ⟨delimiter⟩ is for CSV only")))
            }
            (true, _) if path.is_file() => {
                let opened = columnar::open(&source, file, &read, how.groups)?;
                Ok(TableBlocks::with(&source, opened, block_rows))
            }
            (false, true) => {
                Err(Error::data(format!("{source}: not a Parquet file, although its name ends like one")))
            }
            _ => TableBlocks::of_input(&source, &first, input, block_rows, &read, how.delimiter),
        };
        blocks?.copying(wanted, how)
    }

    /// Copies some columns, and reads some values as missing cells.
    fn copying(mut self, wanted: &dyn Fn(&str) -> bool, how: How<'_>) -> Result<TableBlocks> {
        for name in how.copied {
            let names = self.rows.names();
            let Some(place) = names.iter().position(|known| known == name) else {
                return Err(absent(&self.source, "column", name, names.iter().map(String::as_str)));
            };
            if let Some(data_type) = self.rows.unsupported(place) {
                return Err(Error::data(format!(
                    "{}: column {} has type {data_type}, which cannot be copied to the output",
                    self.source,
                    quoted(name)
                )));
            }
            self.builders[place] = Some(ColumnBuilder::copied(wanted(name)));
        }
        self.copied = how.copied.to_vec();
        self.missing = Markers::new(how.missing);
        Ok(self)
    }

    /// Accepts a file with only a header, which gives no blocks.
    pub fn or_none(self) -> TableBlocks {
        TableBlocks { any: true, ..self }
    }

    /// Reads an input from front to back. Its first bytes are `first`, which `input` still contains.
    fn of_input(
        source: &str,
        first: &[u8],
        input: Box<dyn Read + Send>,
        block_rows: usize,
        wanted: &dyn Fn(&str) -> bool,
        delimiter: Option<u8>,
    ) -> Result<TableBlocks> {
        if is_parquet(source, first)? {
            let opened = columnar::open_pipe(source, input, wanted)?;
            return Ok(TableBlocks::with(source, opened, block_rows));
        }
        let input: Box<dyn Read + Send> = if first.starts_with(GZIP) {
            Box::new(Gunzip::new(BufReader::with_capacity(1 << 16, input)))
        } else {
            input
        };
        let rows = CsvRows::open(source, input, delimiter)?;
        let builders = rows.names().iter().map(|name| wanted(name).then(ColumnBuilder::default)).collect();
        Ok(TableBlocks::with(source, Opened { rows: Box::new(rows), builders }, block_rows))
    }

    fn with(source: &str, Opened { rows, builders }: Opened, block_rows: usize) -> TableBlocks {
        let source = source.to_owned();
        let block_rows = block_rows.max(1);
        let (copied, missing) = (Vec::new(), Markers::default());
        TableBlocks { source, rows, builders, copied, missing, block_rows, any: false, done: false }
    }

    /// The name of the file in messages.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names of all columns of the file, in order, including columns that are skipped.
    pub fn names(&self) -> &[String] {
        self.rows.names()
    }

    /// Returns the next block; empty at the end of the file.
    fn block(&mut self) -> Result<Table> {
        let mut lines = Lines::default();
        let rows = self.rows.fill(&mut self.builders, &mut lines, self.block_rows)?;
        let first = self.rows.row() - rows;
        let (mut columns, mut copies) = (Vec::new(), Vec::new());
        for (index, builder) in self.builders.iter_mut().enumerate() {
            let Some(builder) = builder else { continue };
            let timed = |column: Column| if self.rows.is_time(index) { column.into_time() } else { column };
            let name = &self.rows.names()[index];
            copies.extend(
                builder.finish_copy().map(|column| NamedColumn { name: name.clone(), column: timed(column) }),
            );
            let column = match self.rows.unsupported(index) {
                Some(data_type) => Column::Unsupported { data_type: data_type.to_owned(), rows },
                None => timed(builder.finish()),
            };
            if builder.is_used() {
                columns.push(NamedColumn { name: name.clone(), column: self.missing.without(column) });
            }
        }
        let place = |copy: &NamedColumn| self.copied.iter().position(|name| *name == copy.name);
        copies.sort_by_key(place);
        let table = Table::from_block(self.source.clone(), columns, rows, first, lines);
        let table = table.with_decimal_comma(self.rows.decimal_comma()).with_copies(copies);
        Ok(table.with_notes(self.rows.notes().to_vec()))
    }
}

impl Iterator for TableBlocks {
    type Item = Result<Table>;

    fn next(&mut self) -> Option<Result<Table>> {
        if self.done {
            return None;
        }
        let block = self.block();
        self.done = block.as_ref().map_or(true, |table| table.rows() == 0);
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

/// Returns the first bytes, enough to tell the format, and the whole input including them.
fn peek(source: &str, mut input: Box<dyn Read + Send>) -> Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut first = Vec::new();
    let read = (&mut input).take(FIRST_BYTES).read_to_end(&mut first);
    read.map_err(|error| unreadable(source, &error))?;
    let whole = Box::new(Cursor::new(first.clone()).chain(input));
    Ok((first, whole))
}
