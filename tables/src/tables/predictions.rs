//! Predictions written to CSV or Parquet block by block.

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::column::Column;
use super::columnar;
use super::csv::safe_cell;
use super::format::{PredictedTable, RowWriter, cell};
use sparsegp::error::{Error, Result};
use sparsegp::files::{AtomicFile, write_error};

/// The maximum number of blocks of rows that wait for the writing thread.
const BLOCKS_BEHIND: usize = 2;

/// A block of predictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictedRows {
    /// The leading columns.
    pub leading: Vec<Column>,
    /// The numbers of the other columns, row by row.
    pub numbers: Vec<f64>,
    /// The number of rows.
    pub rows: usize,
}

/// Writes rows under named columns to a file, which appears when [`finish`](Self::finish) returns, or to a stream immediately.
///
/// Numbers read back unchanged; NaN (unknown) and missing text are empty cells in CSV and nulls in Parquet. Memory does not grow with the
/// number of rows, beyond the group of rows that Parquet encodes together.
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

impl RowWriter for CsvWriter {
    fn write_rows(&mut self, leading: &[Column], numbers: &[f64], rows: usize) -> Result<()> {
        let width = numbers.len() / rows.max(1);
        let failed = |error: ::csv::Error| write_error(&self.name, &error);
        for row in 0..rows {
            for column in leading {
                let text = column.spelling(row).unwrap_or_default();
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
    /// Creates a file; its extension, `.csv` or `.parquet` (with the feature `parquet`), chooses the format.
    ///
    /// # Errors
    ///
    /// If the extension is a different one, or the file cannot be created.
    pub fn create(path: &Path, columns: PredictedTable) -> Result<PredictionWriter> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let writer = match ending.as_deref() {
            Some("csv") => CsvWriter::begin(path, AtomicFile::create(path)?, &columns)?,
            Some("parquet") => columnar::writer(path, &columns)?,
            _ => {
                return Err(Error::usage(format!(
                    "{}: expected a file name ending in .csv or .parquet",
                    path.display()
                )));
            }
        };
        Ok(PredictionWriter { columns, writer })
    }

    /// Writes rows with these columns in another format.
    pub fn of(writer: Box<dyn RowWriter>, columns: PredictedTable) -> PredictionWriter {
        PredictionWriter { columns, writer }
    }

    /// Writes CSV to a stream, which messages call `name`.
    ///
    /// # Errors
    ///
    /// If the header cannot be written.
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
    /// If the disk is full.
    ///
    /// # Panics
    ///
    /// If the number of values does not match the columns.
    pub fn write_rows(&mut self, rows: &PredictedRows) -> Result<()> {
        let PredictedRows { leading, numbers, rows } = rows;
        assert_eq!(leading.len(), self.columns.leading.len(), "one column each");
        assert!(leading.iter().all(|column| column.len() == *rows), "one value per row");
        assert_eq!(numbers.len(), rows * self.columns.numbers.len(), "one value per column");
        self.writer.write_rows(leading, numbers, *rows)
    }

    /// Moves the writer to a thread, so that encoding and writing run in parallel with the computation of further rows.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn behind(mut self) -> Result<WriterBehind> {
        let (blocks, incoming) = sync_channel::<PredictedRows>(BLOCKS_BEHIND);
        let write = move || {
            for block in incoming {
                self.write_rows(&block)?;
            }
            Ok(self)
        };
        let thread = Builder::new().name("sparsegp-writer".to_owned()).spawn(write);
        let thread =
            thread.map_err(|error| Error::data(format!("the writing thread cannot be started: {error}")))?;
        Ok(WriterBehind { blocks: Some(blocks), thread: Some(thread) })
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    ///
    /// If the disk is full or the file cannot be renamed; no file remains then.
    pub fn finish(self) -> Result<()> {
        self.writer.finish()?.finish()
    }
}

/// A [`PredictionWriter`] on a separate thread. If it is dropped before [`finish`](Self::finish), no file remains.
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
    /// If earlier rows could not be written.
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
    /// Waits for the thread, which removes the unfinished file.
    fn drop(&mut self) {
        let _ = self.ended();
    }
}

fn writer_stopped() -> Error {
    Error::data("the thread that writes predictions has stopped; no partial file remains")
}
