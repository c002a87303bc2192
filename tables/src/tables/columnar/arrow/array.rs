//! One column of an Arrow record batch: its buffers in the body, its cells as numbers or text; no messages.

use std::io::Result;
use std::ops::Range;

use bytes::Bytes;
use half::f16;

use super::messages::{BatchHeader, damaged};
use super::schema::{Kind, Shape};
use crate::tables::columnar::codec::Codec;
use crate::tables::columnar::decimal;

/// The maximum length in bytes of a text that its view contains.
const SHORT_VIEW: usize = 12;

/// A column of a batch whose buffers are long enough for its rows.
#[derive(Debug)]
pub(super) struct Array {
    kind: Kind,
    rows: usize,
    /// One bit for each row, 0 if the cell is missing; `None` if no cell is missing.
    present: Option<Bytes>,
    /// The numbers, offsets or views, in the order of the rows.
    cells: Bytes,
    texts: Vec<Bytes>,
}

/// A function that receives each number of a column.
type TakeNumber<'a> = &'a mut dyn FnMut(f64) -> Result<()>;
type TakeText<'a> = &'a mut dyn FnMut(&str) -> Result<()>;

/// A list of a batch's description.
type Integers<'a, const N: usize> = Box<dyn Iterator<Item = Option<[i64; N]>> + 'a>;

/// The columns of a batch, taken out of its body one after the other.
pub(super) struct Arrays<'a> {
    body: Bytes,
    rows: usize,
    codec: Option<Codec>,
    nodes: Integers<'a, 1>,
    buffers: Integers<'a, 2>,
    view_buffers: Integers<'a, 1>,
}

impl<'a> Arrays<'a> {
    pub(super) fn new(header: &BatchHeader<'a>, body: Bytes) -> Arrays<'a> {
        Arrays {
            body,
            rows: header.rows,
            codec: header.codec,
            nodes: Box::new(header.nodes.into_iter().flat_map(|nodes| nodes.integers(16))),
            buffers: Box::new(header.buffers.into_iter().flat_map(|buffers| buffers.integers(16))),
            view_buffers: Box::new(header.view_buffers.into_iter().flat_map(|counts| counts.integers(8))),
        }
    }

    /// Skips a column.
    pub(super) fn skip(&mut self, shape: Shape) -> Result<()> {
        let mut buffers = shape.buffers;
        for _ in 0..shape.views {
            buffers = buffers.saturating_add(self.view_buffers()?);
        }
        for _ in 0..shape.nodes {
            self.nodes.next().ok_or_else(|| damaged("a column is missing"))?;
        }
        for _ in 0..buffers {
            self.buffers.next().ok_or_else(|| damaged("a buffer is missing"))?;
        }
        Ok(())
    }

    /// Returns the next column.
    pub(super) fn next(&mut self, kind: Kind) -> Result<Array> {
        let [rows] = self.nodes.next().flatten().ok_or_else(|| damaged("a column is missing"))?;
        if usize::try_from(rows) != Ok(self.rows) {
            return Err(damaged("a column does not have the rows of its batch"));
        }
        let mut array =
            Array { kind, rows: self.rows, present: None, cells: Bytes::new(), texts: Vec::new() };
        if kind == Kind::Null {
            return Ok(array);
        }
        array.present = Some(self.buffer()?).filter(|bits| !bits.is_empty());
        array.cells = self.buffer()?;
        let texts = match kind {
            Kind::Text { .. } => 1,
            Kind::Views => self.view_buffers()?,
            _ => 0,
        };
        for _ in 0..texts {
            array.texts.push(self.buffer()?);
        }
        array.check()?;
        Ok(array)
    }

    fn view_buffers(&mut self) -> Result<usize> {
        let count = self.view_buffers.next().flatten().and_then(|[count]| usize::try_from(count).ok());
        count.ok_or_else(|| damaged("the number of buffers of a column is missing"))
    }

    fn buffer(&mut self) -> Result<Bytes> {
        let outside = || damaged("a buffer lies outside its batch");
        let [start, length] = self.buffers.next().flatten().ok_or_else(|| damaged("a buffer is missing"))?;
        let (start, length) =
            usize::try_from(start).ok().zip(usize::try_from(length).ok()).ok_or_else(outside)?;
        let end = start.checked_add(length).filter(|&end| end <= self.body.len()).ok_or_else(outside)?;
        let stored = self.body.slice(start..end);
        let (Some(codec), false) = (self.codec, stored.is_empty()) else { return Ok(stored) };
        // A compressed buffer begins with its uncompressed length, or with −1 if it is stored uncompressed after all.
        let (plain, packed) = stored.split_first_chunk().ok_or_else(|| damaged("a buffer is too short"))?;
        match i64::from_le_bytes(*plain) {
            -1 => Ok(stored.slice(plain.len()..)),
            plain => {
                let plain =
                    usize::try_from(plain).map_err(|_| damaged("the length of a buffer is negative"))?;
                let bytes = codec.decompress(packed, plain)?;
                if bytes.len() == plain { Ok(bytes.into()) } else { Err(damaged("a buffer is too short")) }
            }
        }
    }
}

impl Array {
    /// Checks that the buffers are long enough for the number of rows.
    fn check(&self) -> Result<()> {
        let bits = |rows: usize| rows.div_ceil(8);
        let needed = match self.kind {
            _ if self.rows == 0 => Some(0),
            Kind::Null => Some(0),
            Kind::Boolean => Some(bits(self.rows)),
            Kind::Integer { bytes, .. }
            | Kind::Float { bytes }
            | Kind::Decimal { bytes, .. }
            | Kind::Instant { bytes, .. } => self.rows.checked_mul(bytes),
            Kind::Text { offset_bytes } => self.rows.checked_add(1).and_then(|n| n.checked_mul(offset_bytes)),
            Kind::Views => self.rows.checked_mul(16),
        };
        let long_enough = needed.is_some_and(|needed| self.cells.len() >= needed)
            && self.present.as_ref().is_none_or(|present| present.len() >= bits(self.rows));
        if long_enough { Ok(()) } else { Err(damaged("a buffer is too short for the rows")) }
    }

    /// Returns true if the column has no buffer whose length confirms the number of rows.
    pub(super) fn is_unbacked(&self) -> bool {
        self.kind == Kind::Null
    }

    fn is_present(&self, row: usize) -> bool {
        self.present.as_ref().is_none_or(|bits| bit(bits, row))
    }

    /// Passes the numbers in some rows to `take`, with NaN for a missing cell.
    pub(super) fn numbers(&self, rows: Range<usize>, take: TakeNumber<'_>) -> Result<()> {
        match self.kind {
            Kind::Null | Kind::Text { .. } | Kind::Views => rows.map(|_| f64::NAN).try_for_each(take),
            Kind::Boolean => rows
                .map(|row| if self.is_present(row) { f64::from(bit(&self.cells, row)) } else { f64::NAN })
                .try_for_each(take),
            Kind::Integer { bytes: 1, signed: true } => {
                self.fixed(rows, take, |b| f64::from(i8::from_le_bytes(b)))
            }
            Kind::Integer { bytes: 1, .. } => self.fixed(rows, take, |b| f64::from(u8::from_le_bytes(b))),
            Kind::Integer { bytes: 2, signed: true } => {
                self.fixed(rows, take, |b| f64::from(i16::from_le_bytes(b)))
            }
            Kind::Integer { bytes: 2, .. } => self.fixed(rows, take, |b| f64::from(u16::from_le_bytes(b))),
            Kind::Integer { bytes: 4, signed: true } => {
                self.fixed(rows, take, |b| f64::from(i32::from_le_bytes(b)))
            }
            Kind::Integer { bytes: 4, .. } => self.fixed(rows, take, |b| f64::from(u32::from_le_bytes(b))),
            Kind::Integer { signed: true, .. } => self.fixed(rows, take, |b| i64::from_le_bytes(b) as f64),
            Kind::Integer { .. } => self.fixed(rows, take, |b| u64::from_le_bytes(b) as f64),
            Kind::Instant { bytes: 4, unit } => {
                self.fixed(rows, take, |b| unit.seconds(f64::from(i32::from_le_bytes(b))))
            }
            Kind::Instant { unit, .. } => {
                self.fixed(rows, take, |b| unit.seconds(i64::from_le_bytes(b) as f64))
            }
            Kind::Float { bytes: 2 } => self.fixed(rows, take, |b| f16::from_le_bytes(b).to_f64()),
            Kind::Float { bytes: 4 } => self.fixed(rows, take, |b| f64::from(f32::from_le_bytes(b))),
            Kind::Float { .. } => self.fixed(rows, take, f64::from_le_bytes),
            Kind::Decimal { bytes, scale } => {
                let mut digits = [0; decimal::MOST_BYTES];
                for row in rows {
                    let cell = self.cells.get(row * bytes..(row + 1) * bytes).unwrap_or_default();
                    digits.iter_mut().zip(cell.iter().rev()).for_each(|(to, from)| *to = *from);
                    let value = decimal::of_bytes(&digits[..cell.len()], scale);
                    take(value.filter(|_| self.is_present(row)).unwrap_or(f64::NAN))?;
                }
                Ok(())
            }
        }
    }

    fn fixed<const N: usize>(
        &self,
        rows: Range<usize>,
        take: TakeNumber<'_>,
        value: impl Fn([u8; N]) -> f64,
    ) -> Result<()> {
        let (cells, _) = self.cells.as_chunks::<N>();
        for (row, cell) in rows.clone().zip(cells.get(rows).unwrap_or_default()) {
            take(if self.is_present(row) { value(*cell) } else { f64::NAN })?;
        }
        Ok(())
    }

    /// Passes the texts in some rows to `take`, with an empty text for a missing cell.
    pub(super) fn texts(&self, rows: Range<usize>, take: TakeText<'_>) -> Result<()> {
        for row in rows {
            let bytes = if self.is_present(row) { self.text(row) } else { Some(&[][..]) };
            let bytes = bytes.ok_or_else(|| damaged("a text lies outside its buffer"))?;
            take(std::str::from_utf8(bytes).map_err(|_| damaged("the text is not UTF-8"))?)?;
        }
        Ok(())
    }

    fn text(&self, row: usize) -> Option<&[u8]> {
        match self.kind {
            Kind::Text { offset_bytes: 4 } => {
                let (offsets, _) = self.cells.as_chunks();
                let offset = |row: usize| usize::try_from(i32::from_le_bytes(*offsets.get(row)?)).ok();
                self.texts.first()?.get(offset(row)?..offset(row + 1)?)
            }
            Kind::Text { .. } => {
                let (offsets, _) = self.cells.as_chunks();
                let offset = |row: usize| usize::try_from(i64::from_le_bytes(*offsets.get(row)?)).ok();
                self.texts.first()?.get(offset(row)?..offset(row + 1)?)
            }
            Kind::Views => {
                let view = self.cells.as_chunks::<16>().0.get(row)?;
                let part = |at: usize| {
                    let part = view.get(at..at + 4)?.try_into().ok()?;
                    usize::try_from(i32::from_le_bytes(part)).ok()
                };
                let length = part(0)?;
                if length <= SHORT_VIEW {
                    return view.get(4..4 + length);
                }
                let start = part(12)?;
                self.texts.get(part(8)?)?.get(start..start.checked_add(length)?)
            }
            _ => None,
        }
    }
}

fn bit(bits: &[u8], index: usize) -> bool {
    bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}
