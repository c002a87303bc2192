//! Predictions streamed to CSV or Parquet, some rows at a time; no models.

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::column::{Column, number_text};
use super::columnar;
use super::csv::safe_cell;
use super::format::RowWriter;
use super::instant::exact;
use sparsegp::error::{Error, Result};
use sparsegp::files::{AtomicFile, write_error};

/// Blocks of rows that wait to be written by another thread.
const BLOCKS_BEHIND: usize = 2;

/// The columns of a file of predictions, with the names of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictedTable {
    /// Columns that come first, and whether they are of text rather than numbers.
    pub leading: Vec<(String, bool)>,
    /// Columns of numbers.
    pub numbers: Vec<String>,
    /// Whether an apostrophe is put before text in CSV that a spreadsheet would run as a formula.
    pub csv_safe: bool,
}

impl PredictedTable {
    /// The same table, whose text in CSV a spreadsheet takes for text or not.
    pub fn csv_safe(self, csv_safe: bool) -> PredictedTable {
        PredictedTable { csv_safe, ..self }
    }

    /// The names of all columns, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.leading.iter().map(|(name, _)| name).chain(&self.numbers).map(String::as_str)
    }
}

/// Some rows of predictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictedRows {
    /// The columns that come first.
    pub leading: Vec<Column>,
    /// The numbers of the others, those of a row one after the other.
    pub numbers: Vec<f64>,
    /// How many rows there are.
    pub rows: usize,
}

/// Writes rows under named columns to a file that appears once [`finish`](Self::finish) returns, or to a stream as they come.
///
/// Numbers read back as the same numbers; NaN (not known) and missing text are empty cells in CSV and nulls in Parquet. Memory does not
/// grow with the rows beyond one group of rows that Parquet encodes together.
#[derive(Debug)]
pub struct PredictionWriter {
    columns: PredictedTable,
    writer: Box<dyn RowWriter>,
}

#[derive(Debug)]
struct CsvWriter {
    name: PathBuf,
    writer: ::csv::Writer<AtomicFile>,
    safe: bool,
}

impl CsvWriter {
    fn begin(name: &Path, out: AtomicFile, columns: &PredictedTable) -> Result<Box<dyn RowWriter>> {
        let mut writer = ::csv::Writer::from_writer(out);
        let safe = columns.csv_safe;
        let names = columns.names().map(|name| if safe { safe_cell(name) } else { Cow::Borrowed(name) });
        let written = writer.write_record(names.map(|name| name.into_owned()));
        written.map_err(|error| write_error(name, &error))?;
        Ok(Box::new(CsvWriter { name: name.to_owned(), writer, safe }))
    }
}

/// A number as a cell, empty where it is not known.
fn cell(value: f64) -> Cow<'static, str> {
    if value.is_nan() { Cow::Borrowed("") } else { number_text(value) }
}

/// What stands in a column at a row.
pub(super) fn text_of(column: &Column, row: usize) -> Cow<'_, str> {
    match column {
        Column::Number(values) => cell(values[row]),
        Column::Text(text) => Cow::Borrowed(text.get(row).unwrap_or_default()),
        Column::Time(values) if values[row].is_nan() => Cow::Borrowed(""),
        Column::Time(values) => Cow::Owned(exact(values[row])),
        Column::Unsupported { .. } => Cow::Borrowed(""),
    }
}

impl RowWriter for CsvWriter {
    fn write_rows(&mut self, leading: &[Column], numbers: &[f64], rows: usize) -> Result<()> {
        let width = numbers.len() / rows.max(1);
        let failed = |error: ::csv::Error| write_error(&self.name, &error);
        for row in 0..rows {
            for column in leading {
                let text = text_of(column, row);
                let safe = self.safe && matches!(column, Column::Text(_));
                let text = if safe { safe_cell(&text) } else { text.as_ref().into() };
                self.writer.write_field(text.as_ref()).map_err(failed)?;
            }
            for &value in &numbers[row * width..(row + 1) * width] {
                self.writer.write_field(cell(value).as_ref()).map_err(failed)?;
            }
            self.writer.write_record(None::<&[u8]>).map_err(failed)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<AtomicFile> {
        self.writer.into_inner().map_err(|error| write_error(&self.name, &error.error()))
    }
}

impl PredictionWriter {
    /// Begins a file whose ending, `.csv` or `.parquet` (with the feature `parquet`), names the format.
    ///
    /// # Errors
    ///
    /// When the ending is another one, or the file cannot be created.
    pub fn create(path: &Path, columns: PredictedTable) -> Result<PredictionWriter> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let writer = match ending.as_deref() {
            Some("csv") => CsvWriter::begin(path, AtomicFile::create(path)?, &columns)?,
            Some("parquet") => columnar::writer(path, &columns)?,
            _ => {
                return Err(Error::usage(format!(
                    "{}: predictions go to a file ending in .csv or .parquet",
                    path.display()
                )));
            }
        };
        Ok(PredictionWriter { columns, writer })
    }

    /// CSV to a stream, which messages call `name`.
    ///
    /// # Errors
    ///
    /// When the header cannot be written.
    pub fn stream(
        name: &str,
        out: Box<dyn Write + Send>,
        columns: PredictedTable,
    ) -> Result<PredictionWriter> {
        let writer = CsvWriter::begin(Path::new(name), AtomicFile::stream(name, out), &columns)?;
        Ok(PredictionWriter { columns, writer })
    }

    /// Adds rows.
    ///
    /// # Errors
    ///
    /// When the disk is full.
    ///
    /// # Panics
    ///
    /// When there are more or fewer values than columns.
    pub fn write_rows(&mut self, rows: &PredictedRows) -> Result<()> {
        let PredictedRows { leading, numbers, rows } = rows;
        assert_eq!(leading.len(), self.columns.leading.len(), "one column each");
        assert!(leading.iter().all(|column| column.len() == *rows), "one value per row");
        assert_eq!(numbers.len(), rows * self.columns.numbers.len(), "one value per column");
        self.writer.write_rows(leading, numbers, *rows)
    }

    /// Hands the writer to a thread, so that encoding and writing take place beside the making of further rows.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn behind(mut self) -> Result<WriterBehind> {
        let (blocks, incoming) = sync_channel::<PredictedRows>(BLOCKS_BEHIND);
        let write = move || {
            for block in incoming {
                self.write_rows(&block)?;
            }
            Ok(self)
        };
        let thread = Builder::new().name("sparsegp-writer".to_owned()).spawn(write);
        let thread = thread.map_err(|error| Error::data(format!("no thread to write with: {error}")))?;
        Ok(WriterBehind { blocks: Some(blocks), thread: Some(thread) })
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    ///
    /// When the disk is full or the name cannot be taken; nothing is left behind then.
    pub fn finish(self) -> Result<()> {
        self.writer.finish()?.finish()
    }
}

/// A [`PredictionWriter`] on a thread of its own. Dropped before [`finish`](Self::finish), it leaves no file behind.
#[derive(Debug)]
pub struct WriterBehind {
    blocks: Option<SyncSender<PredictedRows>>,
    thread: Option<JoinHandle<Result<PredictionWriter>>>,
}

impl WriterBehind {
    /// Adds rows.
    ///
    /// # Errors
    ///
    /// When rows before could not be written.
    pub fn write_rows(mut self, rows: PredictedRows) -> Result<WriterBehind> {
        match self.blocks.as_ref().map(|blocks| blocks.send(rows)) {
            Some(Ok(())) => Ok(self),
            _ => Err(self.ended().err().unwrap_or_else(writer_stopped)),
        }
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    ///
    /// As for [`PredictionWriter::finish`].
    pub fn finish(mut self) -> Result<()> {
        self.ended()?.finish()
    }

    fn ended(&mut self) -> Result<PredictionWriter> {
        self.blocks = None;
        let thread = self.thread.take().ok_or_else(writer_stopped)?;
        thread.join().unwrap_or_else(|_| Err(writer_stopped()))
    }
}

impl Drop for WriterBehind {
    /// Waits for the thread, with which the unfinished file goes.
    fn drop(&mut self) {
        let _ = self.ended();
    }
}

fn writer_stopped() -> Error {
    Error::data("the thread that writes predictions has stopped; no partial file was left")
}
