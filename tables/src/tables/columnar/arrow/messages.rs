//! The messages of an Arrow stream or file in order ("Arrow Columnar Format", IPC); no columns.

use std::fs::File;
use std::io::{BufReader, Error, Read, Result, Seek, SeekFrom};

use super::flat::{Table, Vector};
use super::schema::{Field, fields};
use crate::tables::columnar::MOST_ROWS;
use crate::tables::columnar::codec::Codec;
use crate::tables::format::{ARROW, ARROW_MESSAGE};

/// The length of the end of a file: the length of the footer, and the last bytes.
const FOOTER_END: u64 = 10;

/// The number of bytes to read from a file at once.
const BUFFER: usize = 1 << 16;

/// The supported versions of the format, counted from 0.
const VERSIONS: std::ops::RangeInclusive<i16> = 3..=4;

/// The source of messages.
pub(in crate::tables::columnar) enum Input {
    /// An input that can be read once, from front to back.
    Pipe(Box<dyn Read + Send>),
    /// A regular file.
    File(File),
}

/// A sequence of messages.
pub(super) struct Messages {
    input: Reader,
    /// True if the marker of the next message was already read.
    marked: bool,
    ended: bool,
}

enum Reader {
    Pipe(BufReader<Box<dyn Read + Send>>),
    /// A file that contains only a stream.
    Stream(BufReader<File>),
    /// A file with a footer, and the remaining positions of its messages, the next one last.
    File(BufReader<File>, Vec<u64>),
}

/// A message; its body follows in the input.
pub(super) struct Message {
    description: Vec<u8>,
    body: u64,
}

/// The contents of a message header.
pub(super) enum Header<'a> {
    /// The schema and the version of the format.
    Schema(Table<'a>, i16),
    Dictionary {
        id: i64,
        delta: bool,
        batch: BatchHeader<'a>,
    },
    Batch(BatchHeader<'a>),
}

/// The positions of the columns of a batch in its body.
pub(super) struct BatchHeader<'a> {
    pub(super) rows: usize,
    pub(super) codec: Option<Codec>,
    /// The number of rows and of missing values of every column, including nested ones.
    pub(super) nodes: Option<Vector<'a>>,
    /// The start and the length of every buffer.
    pub(super) buffers: Option<Vector<'a>>,
    /// The number of text buffers of every column of views.
    pub(super) view_buffers: Option<Vector<'a>>,
}

pub(super) fn damaged(what: &str) -> Error {
    Error::other(what.to_owned())
}

/// Reads exactly `count` bytes; memory grows with the bytes that are there.
fn exactly(input: &mut dyn Read, count: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(count).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == count { Ok(bytes) } else { Err(damaged("it ends early")) }
}

impl Messages {
    /// Reads up to the end of the schema.
    pub(super) fn open(input: Input) -> Result<(Messages, Vec<Field>)> {
        let (input, first) = match input {
            Input::Pipe(pipe) => {
                let mut pipe = BufReader::with_capacity(BUFFER, pipe);
                let first = exactly(&mut pipe, 4)?;
                (Reader::Pipe(pipe), first)
            }
            Input::File(file) => {
                let mut file = BufReader::with_capacity(BUFFER, file);
                file.rewind()?;
                let first = exactly(&mut file, 4)?;
                if first != ARROW_MESSAGE {
                    return Messages::of_footer(file);
                }
                (Reader::Stream(file), first)
            }
        };
        let mut messages = Messages { input, marked: first == ARROW_MESSAGE, ended: false };
        if !messages.marked {
            let magic = [first, exactly(messages.input(), 4)?].concat();
            if !magic.starts_with(ARROW) {
                return Err(damaged("it begins with other bytes"));
            }
        }
        let first = messages.next()?.ok_or_else(|| damaged("it has no schema"))?;
        let Header::Schema(schema, version) = first.header()? else {
            return Err(damaged("it has no schema"));
        };
        let fields = fields(schema, version, first.description.len())?;
        messages.skip(&first)?;
        Ok((messages, fields))
    }

    /// Reads the footer. Some writers store the schema only there.
    fn of_footer(mut file: BufReader<File>) -> Result<(Messages, Vec<Field>)> {
        let early = || damaged("it ends early");
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(end.checked_sub(FOOTER_END).ok_or_else(early)?))?;
        let last = exactly(&mut file, FOOTER_END)?;
        let (length, magic) = last.split_first_chunk::<4>().ok_or_else(early)?;
        let length = u64::from(u32::from_le_bytes(*length));
        let start = (end - FOOTER_END).checked_sub(length).filter(|_| magic == ARROW).ok_or_else(early)?;
        file.seek(SeekFrom::Start(start))?;
        let footer = exactly(&mut file, length)?;
        let lost = || damaged("its footer is damaged");
        let table = Table::root(&footer).ok_or_else(lost)?;
        let fields = fields(table.table(1).ok_or_else(lost)?, version(table)?, footer.len())?;
        // Dictionaries come before the batches that need them.
        let mut blocks = Vec::new();
        for list in [2, 3] {
            let first = blocks.len();
            for place in table.vector(list, 24).into_iter().flat_map(|list| list.integers::<1>(24)) {
                blocks.push(place.and_then(|[place]| u64::try_from(place).ok()).ok_or_else(lost)?);
            }
            if !blocks[first..].is_sorted_by(|a, b| a < b) {
                return Err(lost());
            }
        }
        blocks.reverse();
        Ok((Messages { input: Reader::File(file, blocks), marked: false, ended: false }, fields))
    }

    fn input(&mut self) -> &mut dyn Read {
        match &mut self.input {
            Reader::Pipe(pipe) => pipe,
            Reader::Stream(file) | Reader::File(file, _) => file,
        }
    }

    /// Returns the next message; the body of the previous one must have been read or skipped.
    pub(super) fn next(&mut self) -> Result<Option<Message>> {
        if self.ended {
            return Ok(None);
        }
        if let Reader::File(file, blocks) = &mut self.input {
            let Some(place) = blocks.pop() else { return Ok(None) };
            file.seek(SeekFrom::Start(place))?;
        }
        if !std::mem::take(&mut self.marked) {
            let mut mark = Vec::new();
            self.input().take(4).read_to_end(&mut mark)?;
            // Streams may end without an end mark.
            self.ended = mark.is_empty();
            if !self.ended && mark != ARROW_MESSAGE {
                return Err(damaged(match self.input {
                    Reader::Pipe(_) => {
                        "a message is missing; if this is an Arrow file and not a stream, save it to disk first"
                    }
                    _ => "a message is missing",
                }));
            }
        }
        let length = if self.ended { 0 } else { u32::from_le_bytes(self.four()?) };
        if length == 0 {
            self.ended = true;
            return match self.input {
                Reader::File(..) => Err(damaged("it ends early")),
                _ => Ok(None),
            };
        }
        let description = exactly(self.input(), u64::from(length))?;
        let body = Table::root(&description).map_or(0, |message| message.i64(3).unwrap_or(0));
        let body = u64::try_from(body).map_err(|_| damaged("the length of a message is negative"))?;
        Ok(Some(Message { description, body }))
    }

    fn four(&mut self) -> Result<[u8; 4]> {
        let mut four = [0; 4];
        self.input().read_exact(&mut four).map_err(|_| damaged("it ends early"))?;
        Ok(four)
    }

    pub(super) fn body(&mut self, message: &Message) -> Result<Vec<u8>> {
        exactly(self.input(), message.body)
    }

    /// Skips the body of a message.
    pub(super) fn skip(&mut self, message: &Message) -> Result<()> {
        let within = match &mut self.input {
            Reader::Pipe(pipe) => {
                std::io::copy(&mut pipe.take(message.body), &mut std::io::sink())? == message.body
            }
            Reader::Stream(file) => {
                file.seek_relative(i64::try_from(message.body).map_err(|_| damaged("it ends early"))?)?;
                file.stream_position()? <= file.get_ref().metadata()?.len()
            }
            // The footer says where the next one is.
            Reader::File(..) => true,
        };
        if within { Ok(()) } else { Err(damaged("it ends early")) }
    }
}

impl Message {
    pub(super) fn header(&self) -> Result<Header<'_>> {
        let message = Table::root(&self.description).ok_or_else(|| damaged("a message is damaged"))?;
        let version = version(message)?;
        let header = message.table(2).ok_or_else(|| damaged("a message is damaged"))?;
        match message.u8(1) {
            Some(1) => Ok(Header::Schema(header, version)),
            Some(2) => {
                let batch = header.table(1).ok_or_else(|| damaged("a dictionary is damaged"))?;
                let (id, delta) = (header.i64(0).unwrap_or(0), header.u8(2).unwrap_or(0) != 0);
                Ok(Header::Dictionary { id, delta, batch: BatchHeader::new(batch)? })
            }
            Some(3) => Ok(Header::Batch(BatchHeader::new(header)?)),
            _ => Err(damaged("it has messages that are not of a table")),
        }
    }
}

/// Returns the version of the format that a message or a footer states, counted from 0.
fn version(table: Table<'_>) -> Result<i16> {
    let version = table.i16(0).unwrap_or(0);
    if !VERSIONS.contains(&version) {
        let version = i32::from(version) + 1;
        return Err(damaged(&format!("it has version {version} of the format, expected 4 or 5")));
    }
    Ok(version)
}

impl<'a> BatchHeader<'a> {
    fn new(batch: Table<'a>) -> Result<BatchHeader<'a>> {
        let rows = batch.i64(0).unwrap_or(0);
        if !(0..=MOST_ROWS).contains(&rows) {
            return Err(damaged("the number of rows of a batch is damaged"));
        }
        let codec =
            match batch.table(3).map(|compression| (compression.u8(0).unwrap_or(0), compression.u8(1))) {
                None => None,
                Some((0, None | Some(0))) => Some(Codec::Lz4Frame),
                Some((1, None | Some(0))) => Some(Codec::Zstd),
                Some(_) => return Err(damaged("its compression is not known, expected lz4, zstd or none")),
            };
        Ok(BatchHeader {
            rows: rows as usize,
            codec,
            nodes: batch.vector(1, 16),
            buffers: batch.vector(2, 16),
            view_buffers: batch.vector(4, 8),
        })
    }
}
