//! Text that is not UTF-8: UTF-16 and lone carriage returns, recognised in the first bytes, and
//! cells in Windows-1252.

use std::io::{Cursor, Read};

/// The number of UTF-16 units to decode at once.
const UNITS: usize = 1 << 14;

/// The number of byte pairs that show UTF-16 without a byte order mark.
const PAIRS: usize = 64;
const SHARE: f64 = 0.75;

/// The characters of Windows-1252 from 0x80 to 0x9f, where it differs from Latin-1; � stands for the five bytes without a character.
const WINDOWS: &str = "€�‚ƒ„…†‡ˆ‰Š‹Œ�Ž��‘’“”•–—˜™š›œ�žŸ";

/// Decodes Windows-1252 (of which Latin-1 is a part); returns `None` if a byte has no character.
pub(super) fn windows_1252(bytes: &[u8]) -> Option<String> {
    let character = |&byte: &u8| match byte {
        0x80..=0x9f => WINDOWS.chars().nth(usize::from(byte - 0x80)).filter(|&known| known != '�'),
        0 => None,
        _ => Some(char::from(byte)),
    };
    bytes.iter().map(character).collect()
}

/// The order of the two bytes of a unit of UTF-16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Returns the byte order of a text with these first bytes, if it is UTF-16: from the byte order mark, or from the zeros of ASCII
    /// characters.
    pub(super) fn of(first: &[u8]) -> Option<ByteOrder> {
        match first {
            [0xff, 0xfe, ..] => return Some(ByteOrder::Little),
            [0xfe, 0xff, ..] => return Some(ByteOrder::Big),
            _ => {}
        }
        let pairs = first.chunks_exact(2).take(PAIRS);
        let share = |zero: usize| {
            let shown = pairs.clone().filter(|pair| pair[zero] == 0 && pair[1 - zero] != 0).count();
            shown as f64 / pairs.len().max(1) as f64
        };
        if share(1) > SHARE {
            Some(ByteOrder::Little)
        } else if share(0) > SHARE {
            Some(ByteOrder::Big)
        } else {
            None
        }
    }

    fn unit(self, pair: [u8; 2]) -> u16 {
        match self {
            ByteOrder::Little => u16::from_le_bytes(pair),
            ByteOrder::Big => u16::from_be_bytes(pair),
        }
    }
}

/// A UTF-16 text as UTF-8 without a byte order mark. Invalid units are replaced.
pub(super) struct Utf16<R> {
    input: R,
    order: ByteOrder,
    decoded: Cursor<Vec<u8>>,
    /// The first half of a character whose second half is still to come.
    half: Option<u16>,
    started: bool,
}

impl<R: Read> Utf16<R> {
    pub(super) fn new(input: R, order: ByteOrder) -> Utf16<R> {
        Utf16 { input, order, decoded: Cursor::default(), half: None, started: false }
    }

    /// Decodes the next units; returns `false` at the end.
    fn decode(&mut self) -> std::io::Result<bool> {
        let mut bytes = Vec::with_capacity(2 * UNITS);
        (&mut self.input).take(2 * UNITS as u64).read_to_end(&mut bytes)?;
        let mut units: Vec<u16> = self.half.take().into_iter().collect();
        units.extend(bytes.chunks_exact(2).map(|pair| self.order.unit([pair[0], pair[1]])));
        if units.is_empty() {
            return Ok(false);
        }
        if !bytes.is_empty() {
            self.half = units.pop_if(|unit| (0xd800..0xdc00).contains(unit));
        }
        let mut text: String = char::decode_utf16(units).map(|read| read.unwrap_or('\u{fffd}')).collect();
        if !std::mem::replace(&mut self.started, true) && text.starts_with('\u{feff}') {
            text.remove(0);
        }
        self.decoded = Cursor::new(text.into_bytes());
        Ok(true)
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let read = self.decoded.read(buffer)?;
            if read > 0 || buffer.is_empty() || !self.decode()? {
                return Ok(read);
            }
        }
    }
}

/// A text whose lines end in lone carriage returns, converted to line feeds.
pub(super) struct LineFeeds<R>(pub R);

impl<R: Read> Read for LineFeeds<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        buffer[..read].iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_is_recognised_and_read_in_both_orders_with_and_without_a_mark() {
        let text = format!("name,höhe\n{}𝄞,1\n", "é€a".repeat(20_000));
        for (order, mark) in [(ByteOrder::Little, true), (ByteOrder::Big, true), (ByteOrder::Big, false)] {
            let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
            let bytes: Vec<u8> = match order {
                ByteOrder::Little => units.flat_map(u16::to_le_bytes).collect(),
                ByteOrder::Big => units.flat_map(u16::to_be_bytes).collect(),
            };
            assert_eq!(ByteOrder::of(&bytes[..if mark { 8 } else { 20 }]), Some(order));
            let mut read = String::new();
            Utf16::new(bytes.as_slice(), order).read_to_string(&mut read).expect("text");
            assert!(read == text, "{order:?} {mark}");
        }
        // A half character and half a unit at the end are no reason to stop.
        let mut read = String::new();
        Utf16::new([0x61, 0, 0x00, 0xd8, 7].as_slice(), ByteOrder::Little)
            .read_to_string(&mut read)
            .expect("text");
        assert_eq!(read, "a\u{fffd}");
        for plain in [&b"a,b\n1,2\n"[..], "é,ü\n".as_bytes(), b"", b"a"] {
            assert_eq!(ByteOrder::of(plain), None);
        }
    }

    #[test]
    fn windows_1252_has_latin_1_and_a_few_signs() {
        assert_eq!(windows_1252(b"\x80 5, caf\xe9 \x96 \xff"), Some("€ 5, café – ÿ".into()));
        assert_eq!(windows_1252(b"a\x81"), None);
        assert_eq!(windows_1252(b"a\x00"), None);
    }

    #[test]
    fn carriage_returns_become_line_feeds() {
        let mut read = String::new();
        LineFeeds(b"a\r1\r".as_slice()).read_to_string(&mut read).expect("text");
        assert_eq!(read, "a\n1\n");
    }
}
