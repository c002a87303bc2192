//! Reading of CSV text into column builders, one record at a time, and writing of rows as CSV.

use std::borrow::Cow;
use std::io::{ErrorKind, Read};

use ::csv::{ByteRecord, ReaderBuilder, Terminator};

use super::column::ColumnBuilder;
use super::dialect::Layout;
use super::dialect::sample;
use super::dialect::windows_1252;
use super::format::{Head, RowSource};
use super::table::{Lines, quoted, shown};
use super::written::with_point;
use sparsegp::error::{Error, Result};

/// Returns the text with an apostrophe before it if a spreadsheet would run it, quoted or not, as a formula.
/// Numbers stay unchanged.
pub fn safe_cell(text: &str) -> Cow<'_, str> {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.trim().parse::<f64>().is_err() {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The first bytes of a ZIP archive, the format of spreadsheet files.
const ZIP: &[u8] = b"PK\x03\x04";

/// Formats rows of cells as CSV.
pub fn csv_text(header: &[String], rows: impl Iterator<Item = Vec<String>>) -> Result<String> {
    let failed =
        |error: &dyn std::fmt::Display| Error::data(format!("the results cannot be written: {error}"));
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(header).map_err(|error| failed(&error))?;
    for row in rows {
        writer.write_record(row).map_err(|error| failed(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|error| failed(&error))
}

pub(crate) struct CsvRows {
    source: String,
    records: Records,
    head: Head,
    /// True if a cell was not UTF-8.
    foreign: bool,
}

/// The records of a CSV text that are not blank, with the line on which each begins.
struct Records {
    reader: ::csv::Reader<Box<dyn Read + Send>>,
    record: ByteRecord,
    line: u64,
    /// True if the text has one column, so that a line with only quotation marks is a row with a missing cell.
    is_one_column: bool,
}

/// The maximum length of a line in bytes; a text with longer lines is not a table.
const LONGEST_LINE: usize = 1 << 28;

/// A line that follows the text. It cannot be part of a text, because its bytes are neither UTF-8 nor Windows-1252. If it is read as a part
/// of a field, the quotation mark before that field is never closed.
const AFTER_TEXT: &[u8] = b"\x81\xff\x81";

/// A text whose lines have a limited length.
struct LimitedLines<R> {
    input: R,
    /// The number of bytes since the last line feed.
    line_bytes: usize,
}

impl<R: Read> Read for LimitedLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.line_bytes = match buffer[..count].iter().rposition(|&byte| byte == b'\n') {
            Some(place) => count - 1 - place,
            None => self.line_bytes + count,
        };
        if self.line_bytes > LONGEST_LINE {
            let what = format!("a line is longer than {} MiB", LONGEST_LINE >> 20);
            return Err(std::io::Error::new(ErrorKind::InvalidData, what));
        }
        Ok(count)
    }
}

impl Records {
    fn new(input: Box<dyn Read + Send>, delimiter: u8) -> Records {
        // The line of a record is known exactly only if line feed is the only terminator and the last record has one. A carriage return
        // before it stays at the end of the last field, and is trimmed as white space.
        let end = [b"\n", AFTER_TEXT, b"\n"].concat();
        let text = LimitedLines { input, line_bytes: 0 }.chain(std::io::Cursor::new(end));
        let input: Box<dyn Read + Send> = Box::new(text);
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .terminator(Terminator::Any(b'\n'))
            .buffer_capacity(1 << 16)
            .from_reader(input);
        Records { reader, record: ByteRecord::new(), line: 0, is_one_column: false }
    }

    /// Refuses a text that ends within a field, because its quotation mark is never closed.
    fn check_quotes(&self, source: &str) -> Result<()> {
        let field = self.record.iter().next_back().unwrap_or_default();
        if !field.trim_ascii_end().ends_with(AFTER_TEXT) {
            return Ok(());
        }
        const SHOWN: usize = 20;
        let line = self.reader.position().line().saturating_sub(line_feeds(field));
        let text = String::from_utf8_lossy(field);
        let start: String = text.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
        Err(Error::data(format!(
            "{source}: the quotation mark before {start:?} (line {line}) is never closed, so all text after it is one field"
        ))
        .hint("close the quotation mark, or double it where it is part of the text"))
    }

    /// Reads the next record; returns `false` at the end. Lines of white space are skipped, and lines of quoted white space if the text
    /// has several columns.
    fn next(&mut self) -> ::csv::Result<bool> {
        loop {
            let (start, first) = (self.reader.position().byte(), self.reader.position().line());
            if !self.reader.read_byte_record(&mut self.record)? || self.record.as_slice() == AFTER_TEXT {
                return Ok(false);
            }
            if self.record.len() == 1 && self.record[0].trim_ascii().is_empty() {
                // Besides the field and the line feeds around it, only quotation marks can have been read.
                let (end, last) = (self.reader.position().byte(), self.reader.position().line());
                let plain = self.record[0].len() as u64 + (last - first) - line_feeds(&self.record[0]);
                if !self.is_one_column || end - start == plain {
                    continue;
                }
            }
            let within = line_feeds(self.record.as_slice());
            self.line = self.reader.position().line().saturating_sub(1 + within);
            return Ok(true);
        }
    }
}

impl CsvRows {
    /// Reads the header. Without a given delimiter, it is found in the first lines.
    pub(crate) fn open(source: &str, input: Box<dyn Read + Send>, delimiter: Option<u8>) -> Result<CsvRows> {
        let (dialect, input) = sample(input, delimiter);
        let mut records = Records::new(input, dialect.delimiter);
        for _ in 0..1 + usize::from(dialect.says_delimiter) + dialect.titles.len() {
            if !records.next().map_err(|error| read_error(source, 0, &error))? {
                return Err(Error::data(format!("{source} is empty, expected a header row and data")));
            }
        }
        let encoding = dialect.encoding.map(|encoding| format!("{source}: the text is {encoding}"));
        let head =
            Head { decimal_comma: dialect.decimal_comma, notes: Vec::from_iter(encoding), ..Head::default() };
        let mut rows = CsvRows { source: source.to_owned(), records, head, foreign: false };
        if let Some(first) = dialect.titles.first() {
            let lines = dialect.titles.len();
            let what = if lines == 1 { "1 line is".to_owned() } else { format!("{lines} lines are") };
            rows.head
                .notes
                .push(format!("{source}: {what} skipped above the column names: {}", shown(first)));
        }
        rows.head.names = rows.header(&dialect.layout)?;
        rows.records.is_one_column = rows.head.names.len() == 1;
        Ok(rows)
    }

    /// Returns the names of the columns; the current record is the header.
    fn header(&mut self, layout: &Layout) -> Result<Vec<String>> {
        let header = &self.records.record;
        if header.iter().any(|field| field.contains(&0))
            || header.get(0).is_some_and(|field| field.starts_with(ZIP))
        {
            return Err(Error::data(format!("{}: is not a text file, expected CSV or Parquet", self.source))
                .hint("save a spreadsheet as CSV"));
        }
        self.records.check_quotes(&self.source)?;
        let header = &self.records.record;
        let mut names = Vec::with_capacity(header.len());
        for (index, field) in header.iter().enumerate() {
            let place = || format!("{}: the name of column {}", self.source, index + 1);
            let name = text_of(field, place, &mut self.foreign, &mut self.head.notes)?;
            names.push(name.trim().to_owned());
        }
        let (names, notes) = layout.names(names);
        self.head.notes.extend(notes.into_iter().map(|note| format!("{}: {note}", self.source)));
        Ok(names)
    }

    fn check_length(&self, line: u64) -> Result<()> {
        let (found, expected) = (self.records.record.len(), self.head.names.len());
        // Delimiters after the last column do not separate columns.
        let after = || self.records.record.iter().skip(expected).all(|field| field.trim_ascii().is_empty());
        if found == expected || (found > expected && after()) {
            return Ok(());
        }
        let (source, row) = (&self.source, self.head.row);
        let error = Error::data(format!(
            "{source}: row {} (line {line}) has {found} fields, expected {expected} as in the header",
            row + 1
        ));
        let open_quote = self.records.record.iter().any(|field| field.contains(&b'\n'));
        Err(match (expected, row) {
            (1, 0) => {
                error.hint("if the file begins with a title, remove the lines above the names of the columns")
            }
            _ if open_quote => error.hint("a quotation mark in this row may never be closed"),
            _ => error,
        })
    }
}

impl RowSource for CsvRows {
    fn head(&self) -> &Head {
        &self.head
    }

    fn fill(
        &mut self,
        builders: &mut [Option<ColumnBuilder>],
        lines: &mut Lines,
        most: usize,
    ) -> Result<usize> {
        let mut rows = 0;
        while rows < most
            && self.records.next().map_err(|error| read_error(&self.source, self.head.row, &error))?
        {
            let line = self.records.line;
            self.records.check_quotes(&self.source)?;
            self.check_length(line)?;
            lines.push(line);
            for ((field, builder), name) in
                self.records.record.iter().zip(builders.iter_mut()).zip(&self.head.names)
            {
                let Some(builder) = builder else { continue };
                let place = || {
                    let (source, row) = (&self.source, self.head.row + 1);
                    format!("{source}: row {row} (line {line}), column {}", quoted(name))
                };
                let text = text_of(field, place, &mut self.foreign, &mut self.head.notes)?;
                match self.head.decimal_comma {
                    None => builder.push_text(&text),
                    Some(_) => builder.push_text_as(&text, &with_point(&text)),
                }
            }
            rows += 1;
            self.head.row += 1;
        }
        Ok(rows)
    }
}

fn line_feeds(text: &[u8]) -> u64 {
    text.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Returns the text of a field. A field that is not UTF-8 is decoded as Windows-1252, and a note is added about the first one.
fn text_of<'a>(
    field: &'a [u8],
    place: impl Fn() -> String,
    known: &mut bool,
    notes: &mut Vec<String>,
) -> Result<Cow<'a, str>> {
    if let Ok(text) = std::str::from_utf8(field) {
        return Ok(Cow::Borrowed(text));
    }
    let text = windows_1252(field).ok_or_else(|| {
        Error::data(format!("{}: the text is neither UTF-8 nor Windows-1252", place()))
            .hint("save the file as UTF-8 text")
    })?;
    if !std::mem::replace(known, true) {
        notes.push(format!(
            "{}: the text is not UTF-8 and is read as Windows-1252 (Latin-1): {}",
            place(),
            shown(&text)
        ));
    }
    Ok(Cow::Owned(text))
}

/// Creates the error of a read that failed after `row` whole rows.
fn read_error(source: &str, row: usize, error: &::csv::Error) -> Error {
    match error.kind() {
        ::csv::ErrorKind::Io(io) if io.kind() == std::io::ErrorKind::UnexpectedEof => Error::data(format!(
            "{source}: the compressed data end early after row {row}; the file is truncated"
        )),
        ::csv::ErrorKind::Io(io) => Error::data(format!("{source}: reading failed after row {row}: {io}")),
        _ => Error::data(format!("{source}: reading failed after row {row}: {error}")),
    }
}
