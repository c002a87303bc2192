//! Parquet files, and all uses of their crates: rows in, read in blocks into column builders, and numbers out.

mod cells;
mod pages;
mod write;

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

use ::parquet::basic::Compression;
use ::parquet::column::reader::{ColumnReader, get_column_reader};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use ::parquet::file::reader::ChunkReader;
use bytes::Bytes;

use self::cells::{Kind, kind, read_cells};
use self::pages::PlainPages;
pub(super) use self::write::writer;
use super::column::ColumnBuilder;
use super::format::{Head, RowSource};
use super::table::{Lines, check_names, quoted};
use sparsegp::error::{Error, Result};

/// The maximum number of rows of a group, so that sums do not overflow.
const MOST_ROWS: i64 = 1 << 40;

/// The maximum number of rows decoded at once, so that reading a whole file does not hold it in memory twice.
const BATCH_ROWS: usize = 1 << 16;

/// A Parquet file, on disk or in memory, read once: from front to back, or by row groups in a given order.
struct ParquetRows<R> {
    source: String,
    file: Arc<R>,
    metadata: ParquetMetaData,
    head: Head,
    decoded: Vec<Decoded>,
    /// The row groups still to read, the next one last.
    groups: Vec<usize>,
    /// True if no block may span two groups.
    apart: bool,
    /// The columns of the current row group, in the order of `decoded`, and its rows still to read.
    readers: Vec<ColumnReader>,
    left: usize,
}

struct Decoded {
    /// The index of the column in the file.
    column: usize,
    /// The index of the column in a row group, where each part of a nested column counts.
    leaf: usize,
    kind: Kind,
}

/// Opens a file, or an input that can be read only once. Such an input is kept in memory as a whole, because its footer comes last. If
/// `groups` is given, row groups are read in this order, and no block spans two groups.
pub(super) fn open(
    source: &str,
    file: Option<File>,
    mut input: Box<dyn Read + Send>,
    wanted: &dyn Fn(&str) -> bool,
    groups: Option<&[usize]>,
) -> Result<Box<dyn RowSource>> {
    if let Some(file) = file {
        return begin(source, file, wanted, groups);
    }
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(|error| super::format::unreadable(source, &error))?;
    begin(source, Bytes::from(bytes), wanted, groups)
}

/// Reads the footer, and returns the rows, of which only the wanted columns are decoded.
fn begin<R: ChunkReader + Sync + 'static>(
    source: &str,
    file: R,
    wanted: &dyn Fn(&str) -> bool,
    groups: Option<&[usize]>,
) -> Result<Box<dyn RowSource>> {
    let length = file.len();
    let metadata = read_footer(source, &file)?;
    let schema = metadata.file_metadata().schema_descr();
    let fields = schema.root_schema().get_fields();
    let names: Vec<String> = fields.iter().map(|field| field.name().to_owned()).collect();
    if names.is_empty() {
        return Err(Error::data(format!("{source}: the file has no columns")));
    }
    check_names(source, names.iter().map(String::as_str))?;
    let mut leaf_of = vec![0; names.len()];
    for leaf in (0..schema.num_columns()).rev() {
        leaf_of[schema.get_column_root_idx(leaf)] = leaf;
    }
    let (mut head, mut decoded) = (Head { names, ..Head::default() }, Vec::new());
    for (column, field) in fields.iter().enumerate() {
        match kind(field) {
            Ok(kind) if wanted(field.name()) => decoded.push(Decoded { column, leaf: leaf_of[column], kind }),
            Ok(_) => {}
            Err(data_type) => drop(head.unsupported.insert(column, data_type)),
        }
    }
    let times = decoded.iter().filter(|decoded| matches!(decoded.kind, Kind::Instant(..)));
    head.times = times.map(|decoded| decoded.column).collect();
    check_chunks(source, &metadata, length, &head.names, &decoded)?;
    let count = metadata.num_row_groups();
    let mut order: Vec<usize> = groups.map_or_else(|| (0..count).collect(), <[usize]>::to_vec);
    // Indices out of range belong to another file that had the same name.
    order.retain(|&group| group < count);
    order.reverse();
    Ok(Box::new(ParquetRows {
        source: source.to_owned(),
        file: Arc::new(file),
        metadata,
        head,
        decoded,
        groups: order,
        apart: groups.is_some(),
        readers: Vec::new(),
        left: 0,
    }))
}

impl<R: ChunkReader + Sync + 'static> ParquetRows<R> {
    /// Opens the next row group; returns `false` at the end.
    fn next_group(&mut self) -> Result<bool> {
        let Some(index) = self.groups.pop() else { return Ok(false) };
        self.head.row = self.metadata.row_groups().iter().take(index).map(group_rows).sum();
        let group = self.metadata.row_group(index);
        self.left = group_rows(group);
        let reader = |decoded: &Decoded| {
            let chunk = group.column(decoded.leaf);
            let pages = PlainPages::new(Arc::clone(&self.file), chunk, self.left)?;
            Ok(get_column_reader(chunk.column_descr_ptr(), Box::new(pages)))
        };
        let readers: std::result::Result<_, ParquetError> =
            undamaged(&self.source, || self.decoded.iter().map(reader).collect())?;
        self.readers = readers.map_err(|error| unreadable(&self.source, &error))?;
        Ok(true)
    }

    /// Reads the next `count` rows of the current group into the builders.
    fn read(&mut self, builders: &mut [Option<ColumnBuilder>], count: usize) -> Result<()> {
        for (reader, decoded) in self.readers.iter_mut().zip(&self.decoded) {
            let Some(builder) = builders.get_mut(decoded.column).and_then(Option::as_mut) else { continue };
            let problem = match undamaged(&self.source, || read_cells(reader, decoded.kind, count, builder))?
            {
                Ok(rows) if rows == count => continue,
                Ok(rows) => format!("the column ends after {rows} more rows, expected {count}"),
                Err(error) => error.to_string(),
            };
            let (source, row, name) = (&self.source, self.head.row, quoted(&self.head.names[decoded.column]));
            return Err(Error::data(format!(
                "{source}: reading failed after row {row}, column {name}: {problem}"
            )));
        }
        Ok(())
    }
}

impl<R: ChunkReader + Sync + 'static> RowSource for ParquetRows<R> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn fill(
        &mut self,
        builders: &mut [Option<ColumnBuilder>],
        _lines: &mut Lines,
        most: usize,
    ) -> Result<usize> {
        let mut rows = 0;
        while rows < most {
            if self.left == 0 {
                if (self.apart && rows > 0) || !self.next_group()? {
                    break;
                }
                continue;
            }
            let mut count = self.left.min(most - rows);
            if !self.decoded.is_empty() {
                count = count.min(BATCH_ROWS);
            }
            self.read(builders, count)?;
            rows += count;
            self.head.row += count;
            self.left -= count;
        }
        Ok(rows)
    }
}

pub(super) fn row_groups(source: &str, file: &File) -> Result<Vec<usize>> {
    Ok(read_footer(source, file)?.row_groups().iter().map(group_rows).collect())
}

fn group_rows(group: &RowGroupMetaData) -> usize {
    group.num_rows().clamp(0, MOST_ROWS) as usize
}

fn read_footer(source: &str, file: &impl ChunkReader) -> Result<ParquetMetaData> {
    undamaged(source, || ParquetMetaDataReader::new().parse_and_finish(file))?
        .map_err(|error| unreadable(source, &error))
}

fn unreadable(source: &str, problem: &dyn std::fmt::Display) -> Error {
    Error::data(format!("{source}: not a readable Parquet file: {problem}"))
}

thread_local! {
    /// True while this thread runs the decoder.
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the decoder. On some damaged files the decoder panics; this function returns an error instead.
fn undamaged<T>(source: &str, decode: impl FnOnce() -> T) -> Result<T> {
    // The returned error is sufficient; the message of the panic would only precede it.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !DECODING.get() {
                others(panic);
            }
        }));
    });
    DECODING.set(true);
    // A reader that panicked is never used again: every caller stops at the error.
    let decoded = catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(false);
    decoded.map_err(|_| unreadable(source, &"its data are damaged"))
}

/// Refuses chunks on which the decoder would panic or return a less clear message: chunks outside the file, columns that a group lacks,
/// and unsupported codecs.
fn check_chunks(
    source: &str,
    metadata: &ParquetMetaData,
    length: u64,
    names: &[String],
    decoded: &[Decoded],
) -> Result<()> {
    let schema = metadata.file_metadata().schema_descr();
    for group in metadata.row_groups() {
        if group.num_columns() != schema.num_columns() || group.num_rows() < 0 {
            return Err(unreadable(source, &"a row group does not have the columns of the file"));
        }
        for (leaf, chunk) in group.columns().iter().enumerate() {
            let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
            let end = start.checked_add(chunk.compressed_size());
            if start < 0 || end.is_none_or(|end| end < start || end.unsigned_abs() > length) {
                let name = names.get(schema.get_column_root_idx(leaf)).map_or("", String::as_str);
                return Err(unreadable(source, &format!("column {} lies outside it", quoted(name))));
            }
        }
        for column in decoded {
            let compression = group.column(column.leaf).compression();
            if compression == Compression::LZO {
                let column = quoted(&names[column.column]);
                let expected = "expected snappy, gzip, lz4, brotli, zstd or none";
                let found = format!("{source}: column {column} is compressed with {compression}");
                return Err(Error::data(format!("{found}, {expected}"))
                    .hint("write the file again with snappy compression"));
            }
        }
    }
    Ok(())
}
