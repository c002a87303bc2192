//! Reading a path as tables, whole or block by block, also ahead of the consumer, and the size of its numbers before it is read.

use super::column::{Column, ColumnBuilder};
use super::columnar;
use super::csv::CsvRows;
use super::format::{FIRST_BYTES, GZIP, RowSource, is_parquet, unreadable};
use super::marker::Markers;
use super::table::{Lines, NamedColumn, Table, absent, interval_name, quoted};
use flate2::bufread::MultiGzDecoder;
use sparsegp::error::{Error, Result};
use sparsegp::files::open_input;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle};

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
    /// The columns of the ends of the target, if it has no column of its own; see [`Table::with_interval`].
    pub interval: Option<[&'a str; 2]>,
}

/// Returns the number of rows of each row group of a Parquet file; `None` for files that can be read in only one order.
pub(crate) fn groups_of(path: &Path) -> Result<Option<Vec<usize>>> {
    Input::open(path)?.row_groups()
}

/// An input with its name in messages and its first bytes.
pub(super) struct Input {
    name: String,
    /// The file, unless the input can be read only once.
    pub file: Option<File>,
    pub first: Vec<u8>,
    /// The whole input, from its beginning.
    pub whole: Box<dyn Read + Send>,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: &Path) -> Result<Input> {
        if path == Path::new("-") {
            return Input::of("standard input", Box::new(std::io::stdin()));
        }
        let name = path.display().to_string();
        let file = open_input(path, &name)?;
        let copy = file.try_clone().map_err(|error| unreadable(&name, &error))?;
        let input = Input::of(&name, Box::new(copy))?;
        let is_named_parquet = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"));
        if is_named_parquet && !input.is_parquet()? {
            return Err(Error::data(format!("{name}: not a Parquet file, although its name ends like one")));
        }
        Ok(Input { file: path.is_file().then_some(file), ..input })
    }

    fn of(name: &str, mut input: Box<dyn Read + Send>) -> Result<Input> {
        let mut first = Vec::new();
        let read = (&mut input).take(FIRST_BYTES).read_to_end(&mut first);
        read.map_err(|error| unreadable(name, &error))?;
        let whole = Box::new(Cursor::new(first.clone()).chain(input));
        Ok(Input { name: name.to_owned(), file: None, first, whole })
    }

    fn is_parquet(&self) -> Result<bool> {
        is_parquet(&self.name, &self.first)
    }

    /// Returns the number of rows of each row group of a Parquet file; `None` for other files and pipes.
    pub fn row_groups(&self) -> Result<Option<Vec<usize>>> {
        match &self.file {
            Some(file) if self.is_parquet()? => columnar::row_groups(&self.name, file).map(Some),
            _ => Ok(None),
        }
    }

    /// Starts to read the rows, of which the wanted columns are needed.
    fn rows(self, wanted: &dyn Fn(&str) -> bool, how: How<'_>) -> Result<Box<dyn RowSource>> {
        let is_parquet = self.is_parquet()?;
        let Input { name, file, first, whole } = self;
        if is_parquet && how.delimiter.is_some() {
            return Err(Error::usage(format!(
                "{name}: found a Parquet file, but ⟨delimiter⟩ is for CSV only"
            )));
        }
        if is_parquet {
            return columnar::open(&name, file, whole, wanted, how.groups);
        }
        let text: Box<dyn Read + Send> = if first.starts_with(GZIP) {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, whole)))
        } else {
            whole
        };
        Ok(Box::new(CsvRows::open(&name, text, how.delimiter)?))
    }
}

/// Reads a whole table from CSV text, which may be gzip-compressed, or from the bytes of a Parquet file; messages call it `source`.
///
/// # Errors
///
/// As for [`read_table`].
pub fn read_csv(source: &str, input: impl Read + Send + 'static) -> Result<Table> {
    let input = Input::of(source, Box::new(input))?;
    whole(TableBlocks::of(input, usize::MAX, &|_| true, How::default())?)
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
    /// The names of all columns, with that of a target without a column of its own.
    names: Vec<String>,
    interval: Option<[String; 2]>,
    missing: Markers,
    block_rows: usize,
    any: bool,
    done: bool,
}

impl TableBlocks {
    /// Opens a file (or `-`) to read the wanted columns.
    pub(crate) fn new(
        path: &Path,
        block_rows: usize,
        wanted: &dyn Fn(&str) -> bool,
        how: How<'_>,
    ) -> Result<TableBlocks> {
        TableBlocks::of(Input::open(path)?, block_rows, wanted, how)
    }

    fn of(
        input: Input,
        block_rows: usize,
        wanted: &dyn Fn(&str) -> bool,
        how: How<'_>,
    ) -> Result<TableBlocks> {
        let source = input.name.clone();
        let wanted = |name: &str| wanted(name) || how.interval.is_some_and(|ends| ends.contains(&name));
        let read = |name: &str| wanted(name) || how.copied.iter().any(|copied| copied == name);
        let rows = input.rows(&read, how)?;
        let names = &rows.head().names;
        let mut builders: Vec<Option<ColumnBuilder>> =
            names.iter().map(|name| wanted(name).then(|| ColumnBuilder::new(true, false))).collect();
        for name in how.copied {
            let Some(place) = names.iter().position(|known| known == name) else {
                return Err(absent(&source, "column", name, names.iter().map(String::as_str)));
            };
            if let Some(data_type) = rows.head().unsupported.get(&place) {
                return Err(Error::data(format!(
                    "{source}: column {} has type {data_type}, which cannot be copied to the output",
                    quoted(name)
                )));
            }
            builders[place] = Some(ColumnBuilder::new(wanted(name), true));
        }
        let (copied, missing) = (how.copied.to_vec(), Markers::new(how.missing));
        let (block_rows, mut names) = (block_rows.max(1), names.clone());
        let has = |end: &&str| names.iter().any(|name| name == end);
        let interval = how.interval.filter(|ends| ends.iter().all(has));
        let joined = interval.map(interval_name).filter(|name| !names.contains(name));
        names.extend(joined);
        let interval = interval.map(|ends| ends.map(str::to_owned));
        let (any, done) = (false, false);
        Ok(TableBlocks { source, rows, builders, copied, names, interval, missing, block_rows, any, done })
    }

    /// Accepts a file with only a header, which gives no blocks.
    pub fn or_none(self) -> TableBlocks {
        TableBlocks { any: true, ..self }
    }

    /// The name of the file in messages.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names of all columns of the file, in order, including columns that are skipped, and of a target without a column of its own.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the next block; empty at the end of the file.
    fn block(&mut self) -> Result<Table> {
        let mut lines = Lines::default();
        let rows = self.rows.fill(&mut self.builders, &mut lines, self.block_rows)?;
        let (head, first) = (self.rows.head(), self.rows.head().row - rows);
        let (mut columns, mut copies) = (Vec::new(), Vec::new());
        for (index, builder) in self.builders.iter_mut().enumerate() {
            let Some(builder) = builder else { continue };
            let is_time = head.times.contains(&index);
            let timed = |column: Column| if is_time { column.into_time() } else { column };
            let named = |column| NamedColumn { name: head.names[index].clone(), column };
            copies.extend(builder.finish_copy().map(|column| named(timed(column))));
            let values = match head.unsupported.get(&index) {
                Some(&data_type) => Some(Column::Unsupported { data_type: data_type.to_owned(), rows }),
                None => builder.finish().map(timed),
            };
            columns.extend(values.map(|column| named(self.missing.without(column))));
        }
        let place = |copy: &NamedColumn| self.copied.iter().position(|name| *name == copy.name);
        copies.sort_by_key(place);
        let ends = self.interval.as_ref().map(|ends| ends.each_ref().map(String::as_str));
        let table = Table::from_block(self.source.clone(), columns, rows, first, lines).with_interval(ends);
        Ok(table.with_notes(head.decimal_comma.as_deref(), &head.notes).with_copies(copies))
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

/// An iterator whose items a thread makes ahead of time, up to a fixed number.
///
/// If it is dropped early, the thread ends after its current item, which may take long if it waits for a pipe.
pub struct Ahead<T> {
    items: Receiver<T>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> Ahead<T> {
    /// Starts the thread, which calls `next` until it returns `None`. Up to `most` finished items (at least one) wait for the consumer.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn new(most: usize, mut next: impl FnMut() -> Option<T> + Send + 'static) -> Result<Ahead<T>> {
        let (sender, receiver) = sync_channel(most.max(1));
        let make = move || {
            while let Some(item) = next() {
                // Without a receiver, no further items are needed.
                if sender.send(item).is_err() {
                    break;
                }
            }
        };
        let thread = Builder::new().name("sparsegp-reader".to_owned()).spawn(make);
        let thread =
            thread.map_err(|error| Error::data(format!("the reading thread cannot be started: {error}")))?;
        Ok(Ahead { items: receiver, thread })
    }

    /// Waits for the current item of the thread, and ends it.
    pub(crate) fn stop(self) {
        // Without its receiver the thread cannot hand over its next item and ends.
        drop(self.items);
        let _ = self.thread.join();
    }
}

impl<T> Iterator for Ahead<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.items.recv().ok()
    }
}

/// The number of bytes of text to examine for the length of lines.
const SAMPLE_BYTES: usize = 8 << 20;

/// The maximum number of bytes in memory per byte of text: a number takes at least two bytes of text, with
/// its comma, and eight bytes in memory.
const BYTES_PER_TEXT_BYTE: u64 = 4;

/// The maximum compression ratio of gzip.
const MOST_COMPRESSION: u64 = 1032;

/// Estimates the numbers of rows and bytes of some columns of a file. Returns `None` if the size is unknown or certainly below `least`
/// bytes.
///
/// Parquet files state their number of rows. For text, if the size of the file alone does not decide, the lines of the first 8
/// MiB (uncompressed) are counted. Unreadable files return `None`; reading them reports the error.
pub fn large_size(
    path: &Path,
    delimiter: Option<u8>,
    wanted: &dyn Fn(&str) -> bool,
    least: u64,
) -> Option<(u64, u64)> {
    let size = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let input = Input::open(path).ok()?;
    let rows = match input.row_groups().ok()? {
        Some(groups) => groups.iter().map(|&rows| rows as u64).sum(),
        None => text_rows(input, size, least)?,
    };
    let columns = column_names(path, delimiter).ok()??.iter().filter(|name| wanted(name)).count() as u64;
    let bytes = rows.saturating_mul(columns).saturating_mul(8);
    (bytes >= least).then_some((rows, bytes))
}

/// Estimates the number of rows of a text file of `size` bytes; `None` if its numbers are certainly smaller than `least` bytes.
fn text_rows(input: Input, size: u64, least: u64) -> Option<u64> {
    let compressed = input.first.starts_with(GZIP);
    let most = size.saturating_mul(BYTES_PER_TEXT_BYTE * if compressed { MOST_COMPRESSION } else { 1 });
    if most < least {
        return None;
    }
    // Reads are small, so that the position in the file exceeds the decompressed bytes only slightly.
    let mut text = BufReader::with_capacity(1 << 12, input.whole);
    let (lines, ended) =
        if compressed { count_lines(&mut MultiGzDecoder::new(text))? } else { count_lines(&mut text)? };
    let share = if ended { 1.0 } else { input.file?.stream_position().ok()? as f64 / size as f64 };
    Some((lines as f64 / share.max(f64::MIN_POSITIVE)) as u64)
}

/// Returns the number of line ends in the first bytes of a text, and true if these are the whole text.
fn count_lines(text: &mut dyn Read) -> Option<(u64, bool)> {
    let (mut lines, mut seen) = (0, 0);
    let mut buffer = vec![0; 1 << 16];
    while seen < SAMPLE_BYTES {
        let read = text.read(&mut buffer).ok()?;
        if read == 0 {
            return Some((lines, true));
        }
        lines += buffer[..read].iter().filter(|&&byte| byte == b'\n').count() as u64;
        seen += read;
    }
    Some((lines, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs::File;
    use std::io::Write;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn items_come_in_order_and_the_thread_ends_with_its_taker() {
        let mut numbers = 0..5;
        assert_eq!(
            Ahead::new(2, move || numbers.next()).expect("a thread").collect::<Vec<_>>(),
            [0, 1, 2, 3, 4]
        );
        let made = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&made);
        let endless = Ahead::new(3, move || Some(counter.fetch_add(1, Ordering::SeqCst)));
        let mut endless = endless.expect("a thread");
        assert_eq!(endless.next(), Some(0));
        endless.stop();
        // One item taken, three waiting, one in progress.
        assert!(made.load(Ordering::SeqCst) <= 5);
    }

    #[test]
    fn rows_of_text_are_estimated_within_a_few_percent() {
        // Lines of slowly growing length, 4 MB of them.
        let mut text = String::from("a,b,c\n");
        for row in 0..200_000 {
            text.push_str(&format!("{row},{}.5,{}\n", row % 7919, (row * 7) % 1013));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (plain, packed) = (folder.path().join("t.csv"), folder.path().join("t.csv.gz"));
        std::fs::write(&plain, &text).expect("written");
        let mut encoder = GzEncoder::new(File::create(&packed).expect("a file"), Compression::fast());
        encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish().map(|_| ())).expect("written");
        for path in [&plain, &packed] {
            let wanted = |name: &str| name != "b";
            let (rows, bytes) = large_size(path, None, &wanted, 1 << 18).expect("large");
            assert!((rows as f64 / 2e5 - 1.0).abs() < 0.1, "{rows}");
            assert_eq!(bytes, 16 * rows);
            assert_eq!(large_size(path, None, &wanted, 1 << 30), None);
        }
        assert_eq!(large_size(folder.path(), None, &|_| true, 0), None);
        assert_eq!(large_size(&folder.path().join("absent"), None, &|_| true, 0), None);
        let columns = folder.path().join("semicolons.csv");
        std::fs::write(&columns, "a;b,c;d\n1;2;3\n").expect("written");
        let wanted = |name: &str| name == "b,c";
        assert_eq!(large_size(&columns, Some(b';'), &wanted, 0).map(|(_, bytes)| bytes), Some(16));
    }
}
