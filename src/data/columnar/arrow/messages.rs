//! The messages of an Arrow stream or file, one after the other ("Arrow Columnar Format", IPC); no columns.

use std::io::{BufReader, Error, Read, Result, Seek};

use super::flat::{Table, Vector};
use crate::data::columnar::codec::Codec;

/// The first bytes of an Arrow file: two more, then a stream, then a footer that repeats where its batches are.
pub(in crate::data::columnar) const FILE_MAGIC: &[u8] = b"ARROW1";

/// What every message begins with, so a stream too.
pub(in crate::data::columnar) const CONTINUATION: [u8; 4] = [0xff; 4];

/// The versions of the format that are read, counted from 0.
const VERSIONS: std::ops::RangeInclusive<i16> = 3..=4;

/// Messages read from front to back.
pub(super) struct Messages<R> {
    input: BufReader<R>,
    /// Whether the mark of the next message was read.
    marked: bool,
    ended: bool,
}

/// A message, whose body comes next in the input.
pub(super) struct Message {
    description: Vec<u8>,
    body: u64,
}

/// What a message says.
pub(super) enum Header<'a> {
    Schema(Table<'a>),
    Dictionary { id: i64, delta: bool, batch: BatchHeader<'a> },
    Batch(BatchHeader<'a>),
}

/// Where the columns of a batch are in its body.
pub(super) struct BatchHeader<'a> {
    pub(super) rows: usize,
    pub(super) codec: Option<Codec>,
    /// Rows and missing values of every column, nested ones included.
    pub(super) nodes: Option<Vector<'a>>,
    /// The start and the length of every buffer.
    pub(super) buffers: Option<Vector<'a>>,
    /// The number of buffers of text of every column of views.
    pub(super) view_buffers: Option<Vector<'a>>,
}

pub(super) fn damaged(what: &str) -> Error {
    Error::other(what.to_owned())
}

/// So many bytes, in memory that grows with what is there.
fn exactly(input: &mut impl Read, count: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(count).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == count { Ok(bytes) } else { Err(damaged("it ends early")) }
}

impl<R: Read> Messages<R> {
    /// Begins to read a stream, or the stream that a file holds.
    pub(super) fn new(input: R) -> Result<Messages<R>> {
        let mut input = BufReader::with_capacity(1 << 16, input);
        let first = exactly(&mut input, 4)?;
        let marked = first == CONTINUATION;
        if !marked && ![first, exactly(&mut input, 4)?].concat().starts_with(FILE_MAGIC) {
            return Err(damaged("it begins with other bytes"));
        }
        Ok(Messages { input, marked, ended: false })
    }

    /// The next message; the body of the one before must have been read or skipped.
    pub(super) fn next(&mut self) -> Result<Option<Message>> {
        if self.ended {
            return Ok(None);
        }
        if !std::mem::take(&mut self.marked) {
            let mut mark = Vec::new();
            (&mut self.input).take(4).read_to_end(&mut mark)?;
            if !mark.is_empty() && mark != CONTINUATION {
                return Err(damaged("the mark of a message is damaged"));
            }
            self.ended = mark.is_empty();
        }
        let length = if self.ended { 0 } else { u32::from_le_bytes(self.four()?) };
        if length == 0 {
            self.ended = true;
            return Ok(None);
        }
        let description = exactly(&mut self.input, u64::from(length))?;
        let body = Table::root(&description).map_or(0, |message| message.i64(3).unwrap_or(0));
        let body = u64::try_from(body).map_err(|_| damaged("the length of a message is negative"))?;
        Ok(Some(Message { description, body }))
    }

    fn four(&mut self) -> Result<[u8; 4]> {
        let mut four = [0; 4];
        self.input.read_exact(&mut four).map_err(|_| damaged("it ends early"))?;
        Ok(four)
    }

    pub(super) fn body(&mut self, message: &Message) -> Result<Vec<u8>> {
        exactly(&mut self.input, message.body)
    }

    /// Reads past a body.
    pub(super) fn skip(&mut self, message: &Message) -> Result<()> {
        let skipped = std::io::copy(&mut (&mut self.input).take(message.body), &mut std::io::sink())?;
        if skipped == message.body { Ok(()) } else { Err(damaged("it ends early")) }
    }
}

impl<R: Read + Seek> Messages<R> {
    /// Goes past a body without reading it, even past the end of the input.
    pub(super) fn pass(&mut self, message: &Message) -> Result<()> {
        let length = i64::try_from(message.body).map_err(|_| damaged("a message is too long"))?;
        self.input.seek_relative(length)
    }
}

impl Message {
    /// The length of the description.
    pub(super) fn len(&self) -> usize {
        self.description.len()
    }

    /// The version of the format, counted from 0.
    pub(super) fn version(&self) -> i16 {
        Table::root(&self.description).and_then(|message| message.i16(0)).unwrap_or(0)
    }

    pub(super) fn header(&self) -> Result<Header<'_>> {
        let message = Table::root(&self.description).ok_or_else(|| damaged("a message is damaged"))?;
        if !VERSIONS.contains(&self.version()) {
            return Err(damaged(&format!(
                "it has version {} of the format, expected 4 or 5",
                i32::from(self.version()) + 1
            )));
        }
        let header = message.table(2).ok_or_else(|| damaged("a message is damaged"))?;
        match message.u8(1) {
            Some(1) => Ok(Header::Schema(header)),
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

impl<'a> BatchHeader<'a> {
    fn new(batch: Table<'a>) -> Result<BatchHeader<'a>> {
        let rows = usize::try_from(batch.i64(0).unwrap_or(0));
        let codec =
            match batch.table(3).map(|compression| (compression.u8(0).unwrap_or(0), compression.u8(1))) {
                None => None,
                Some((0, None | Some(0))) => Some(Codec::Lz4Frame),
                Some((1, None | Some(0))) => Some(Codec::Zstd),
                Some(_) => return Err(damaged("its compression is not known, expected lz4, zstd or none")),
            };
        Ok(BatchHeader {
            rows: rows.map_err(|_| damaged("the number of rows of a batch is negative"))?,
            codec,
            nodes: batch.vector(1, 16),
            buffers: batch.vector(2, 16),
            view_buffers: batch.vector(4, 8),
        })
    }
}
