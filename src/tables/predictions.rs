//! Predictions streamed to CSV or Parquet, one row at a time; no models.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::column::number_text;
use super::columnar;
use super::format::RowWriter;
use crate::error::{Error, Result};
use crate::files::{AtomicFile, write_error};

/// Blocks of rows that wait to be written by another thread.
const BLOCKS_BEHIND: usize = 2;

/// Writes rows of numbers under named columns to a file that appears once [`finish`](Self::finish) returns.
///
/// Numbers read back as the same numbers; NaN (not known) is an empty cell in CSV and a null in Parquet. Memory does not
/// grow with the rows beyond one group of rows that Parquet encodes together.
#[derive(Debug)]
pub struct PredictionWriter {
    columns: usize,
    writer: Box<dyn RowWriter>,
}

#[derive(Debug)]
struct CsvWriter {
    path: PathBuf,
    writer: ::csv::Writer<AtomicFile>,
}

impl CsvWriter {
    fn create(path: &Path, columns: &[String]) -> Result<Box<dyn RowWriter>> {
        let mut writer = ::csv::Writer::from_writer(AtomicFile::create(path)?);
        writer.write_record(columns).map_err(|error| write_error(path, &error))?;
        Ok(Box::new(CsvWriter { path: path.to_owned(), writer }))
    }
}

impl RowWriter for CsvWriter {
    fn write_row(&mut self, values: &[f64]) -> Result<()> {
        let cells = values.iter().map(|&value| match value {
            value if value.is_nan() => "".into(),
            value => number_text(value),
        });
        for cell in cells {
            self.writer.write_field(cell.as_ref()).map_err(|error| write_error(&self.path, &error))?;
        }
        self.writer.write_record(None::<&[u8]>).map_err(|error| write_error(&self.path, &error))
    }

    fn finish(self: Box<Self>) -> Result<AtomicFile> {
        self.writer.into_inner().map_err(|error| write_error(&self.path, &error.error()))
    }
}

impl PredictionWriter {
    /// Begins a file whose ending, `.csv` or `.parquet` (with the feature `parquet`), names the format; `columns` are the names of the
    /// columns.
    ///
    /// # Errors
    ///
    /// When the ending is another one, or the file cannot be created.
    pub fn create(path: &Path, columns: &[String]) -> Result<PredictionWriter> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let writer = match ending.as_deref() {
            Some("csv") => CsvWriter::create(path, columns)?,
            Some("parquet") => columnar::writer(path, columns)?,
            _ => {
                return Err(Error::usage(format!(
                    "{}: predictions go to a file ending in .csv or .parquet",
                    path.display()
                )));
            }
        };
        Ok(PredictionWriter { columns: columns.len(), writer })
    }

    /// Adds a row, one value per column.
    ///
    /// # Errors
    ///
    /// When the disk is full.
    ///
    /// # Panics
    ///
    /// When there are more or fewer values than columns.
    pub fn write_row(&mut self, values: &[f64]) -> Result<()> {
        assert_eq!(values.len(), self.columns, "one value per column");
        self.writer.write_row(values)
    }

    /// Hands the writer to a thread, so that encoding and writing take place beside the making of further rows.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn behind(mut self) -> Result<WriterBehind> {
        let (blocks, incoming) = sync_channel::<Vec<f64>>(BLOCKS_BEHIND);
        let write = move || {
            for block in incoming {
                block.chunks_exact(self.columns.max(1)).try_for_each(|row| self.write_row(row))?;
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
    blocks: Option<SyncSender<Vec<f64>>>,
    thread: Option<JoinHandle<Result<PredictionWriter>>>,
}

impl WriterBehind {
    /// Adds rows, the values of one after those of the other.
    ///
    /// # Errors
    ///
    /// When rows before could not be written.
    pub fn write_rows(mut self, rows: Vec<f64>) -> Result<WriterBehind> {
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
