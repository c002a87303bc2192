//! The dialect of a CSV text, found from its beginning: encoding, delimiter of columns, decimal mark, and the names of the columns.

use super::table::quoted;
use super::written::{Mark, mark};
use ::csv::{ByteRecord, ReaderBuilder};
use std::collections::HashSet;
use std::io::{Cursor, Read};

/// The number of bytes of the text to examine.
const SAMPLE_BYTES: u64 = 1 << 16;

/// The number of records to examine.
const SAMPLE_RECORDS: usize = 500;

/// The maximum number of title lines, and of rows below the column names that distinguish these from a title.
const MOST_TITLES: usize = 20;
const ROWS_BELOW: usize = 2;

/// The possible delimiters; if several fit, the first one is chosen.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dialect {
    /// The delimiter of columns.
    pub delimiter: u8,
    /// A cell with a decimal comma, if numbers have one.
    pub decimal_comma: Option<String>,
    /// True if the first line states the delimiter, as spreadsheets write it (`sep=;`).
    pub says_delimiter: bool,
    /// The lines above the column names, which hold a title or remarks.
    pub titles: Vec<String>,
    /// The layout of the column names.
    pub layout: Layout,
    /// The encoding, if it is not UTF-8.
    pub encoding: Option<&'static str>,
}

/// The rest of a text whose reading failed: one error.
struct Failed(Option<std::io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Finds the dialect of a text, and returns it with an input that repeats the whole text; a given delimiter is used.
pub(super) fn sample(input: Box<dyn Read + Send>, delimiter: Option<u8>) -> (Dialect, Box<dyn Read + Send>) {
    let (mut head, mut rest) = begin(input);
    let order = ByteOrder::of(&head);
    if let Some(order) = order {
        (head, rest) = begin(Box::new(Utf16::new(Cursor::new(head).chain(rest), order)));
    }
    if head.contains(&b'\r') && !head.contains(&b'\n') {
        head.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        rest = Box::new(LineFeeds(rest));
    }
    let all = (head.len() as u64) < SAMPLE_BYTES;
    let end = if all { head.len() } else { head.iter().rposition(|&byte| byte == b'\n').unwrap_or(0) };
    let dialect = Dialect { encoding: order.map(|_| "UTF-16"), ..Dialect::of(&head[..end], delimiter) };
    (dialect, Box::new(Cursor::new(head).chain(rest)))
}

/// Returns the first bytes of an input, and the rest of the input. The reader that reaches the end of the first bytes gets the error, if
/// the rest could not be read.
fn begin(mut input: Box<dyn Read + Send>) -> (Vec<u8>, Box<dyn Read + Send>) {
    let mut head = Vec::new();
    match (&mut input).take(SAMPLE_BYTES).read_to_end(&mut head) {
        Ok(_) => (head, input),
        Err(error) => (head, Box::new(Failed(Some(error)))),
    }
}

impl Dialect {
    fn of(head: &[u8], delimiter: Option<u8>) -> Dialect {
        let (said, head) = said_delimiter(head);
        let (titles, head) = titles(head, delimiter.or(said));
        let delimiter = delimiter.or(said).unwrap_or_else(|| delimiter_of(head));
        let records = records(head, delimiter);
        Dialect {
            delimiter,
            decimal_comma: decimal_comma(&records, delimiter),
            says_delimiter: said.is_some(),
            titles,
            layout: Layout::of(&records),
            encoding: None,
        }
    }
}

/// Returns the delimiter of a first line such as `sep=;`, and the text after that line.
fn said_delimiter(head: &[u8]) -> (Option<u8>, &[u8]) {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let end = text.iter().position(|&byte| byte == b'\n').unwrap_or(text.len());
    let line = text[..end].strip_suffix(b"\r").unwrap_or(&text[..end]);
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match line {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] => (Some(*delimiter), &text[end..]),
        _ => (None, head),
    }
}

/// Returns the title lines above the column names, and the text after them. A title line has one cell while the lines below have several,
/// or begins with `#`. There is no title if the next line does not hold names, or if too few lines follow.
fn titles(head: &[u8], delimiter: Option<u8>) -> (Vec<String>, &[u8]) {
    let given = delimiter.map(|delimiter| [delimiter]);
    let marks: &[u8] = given.as_ref().map_or(&DELIMITERS, |given| given);
    let cells = |line: &[u8]| 1 + line.iter().filter(|byte| marks.contains(byte)).count();
    let filled = |line: &[u8]| {
        let end = line.iter().rposition(|byte| !byte.is_ascii_whitespace() && !marks.contains(byte));
        cells(&line[..end.map_or(0, |end| end + 1)])
    };
    let mut lines = head.split_inclusive(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let (mut titles, mut next) = (Vec::new(), lines.next());
    while let Some(line) = next.filter(|_| titles.len() <= MOST_TITLES) {
        next = lines.next();
        let remark = line.starts_with(b"#") && next.is_some_and(|next| cells(next) != cells(line));
        if filled(line) > 1 && !remark {
            let after: Vec<&[u8]> = next.into_iter().chain(lines).take(ROWS_BELOW).collect();
            let names = line
                .split(|byte| marks.contains(byte))
                .all(|name| std::str::from_utf8(name).is_ok_and(|name| name.trim().parse::<f64>().is_err()));
            if !titles.is_empty()
                && names
                && after.len() == ROWS_BELOW
                && after.iter().all(|row| filled(row) > 1)
            {
                let start = line.as_ptr().addr() - head.as_ptr().addr();
                return (titles, &head[start..]);
            }
            break;
        }
        titles.push(String::from_utf8_lossy(line.trim_ascii()).into_owned());
    }
    (Vec::new(), head)
}

/// Returns the first records, header first, without blank lines.
fn records(head: &[u8], delimiter: u8) -> Vec<ByteRecord> {
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter).from_reader(head);
    let records = reader.byte_records().map_while(Result::ok);
    records
        .filter(|record| record.iter().any(|field| !field.trim_ascii().is_empty()))
        .take(SAMPLE_RECORDS)
        .collect()
}

/// Returns the delimiter with the most columns in the header and the most records of that length.
fn delimiter_of(head: &[u8]) -> u8 {
    let line =
        head.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let candidates: Vec<u8> = DELIMITERS.into_iter().filter(|mark| line.contains(mark)).collect();
    match candidates.as_slice() {
        [] => return b',',
        [only] => return *only,
        _ => {}
    }
    let mut best = (b',', (0.0, 0));
    for delimiter in candidates {
        let records = records(head, delimiter);
        let fields = records.first().map_or(0, ByteRecord::len);
        let alike = records.iter().filter(|record| record.len() == fields).count();
        let score = (alike as f64 / records.len().max(1) as f64, fields);
        if fields > 1 && (score.0 > best.1.0 || (score.0 == best.1.0 && score.1 > best.1.1)) {
            best = (delimiter, score);
        }
    }
    best.0
}

/// Returns a cell with a decimal comma, if some cells have one and none has a decimal point. If every comma could also separate thousands,
/// the commas are decimal only if semicolons separate columns.
fn decimal_comma(records: &[ByteRecord], delimiter: u8) -> Option<String> {
    let (mut comma, mut either) = (None, None);
    for field in records.iter().skip(1).flatten() {
        let Some(text) = std::str::from_utf8(field).ok() else { continue };
        match mark(text) {
            Mark::Point => return None,
            Mark::Comma if comma.is_none() => comma = Some(text.trim().to_owned()),
            Mark::Either if delimiter == b';' && text.contains(',') && either.is_none() => {
                either = Some(text.trim().to_owned());
            }
            _ => {}
        }
    }
    comma.or(either)
}

/// The name of the column of row names, which R writes without a name in the header.
const ROW_NAMES: &str = "rownames";

/// The minimum number of records that show row names; with fewer, an extra field counts as a mistake.
const FEWEST_RECORDS: usize = 3;

/// The layout of columns that the first records of a text show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// True if each record begins with a row name that the header lacks.
    row_names: bool,
    /// The number of unnamed columns without values at the end of the header.
    empty: usize,
}

fn is_blank(field: &[u8]) -> bool {
    field.trim_ascii().is_empty()
}

impl Layout {
    /// Finds the layout in these records, the header first.
    pub(super) fn of(records: &[ByteRecord]) -> Layout {
        let Some((header, rows)) = records.split_first() else { return Layout::default() };
        let unnamed = header.iter().rev().take_while(|field| is_blank(field)).count();
        let is_empty =
            |back: &usize| rows.iter().all(|row| row.get(header.len() - 1 - back).is_none_or(is_blank));
        let longer = rows.iter().all(|row| row.len() == header.len() + 1);
        let last = |row: &ByteRecord| row.get(header.len()).is_some_and(|field| !is_blank(field));
        let firsts: HashSet<&[u8]> = rows.iter().filter_map(|row| row.get(0)).collect();
        let distinct = firsts.len() == rows.len();
        Layout {
            row_names: rows.len() >= FEWEST_RECORDS && longer && distinct && rows.iter().any(last),
            empty: (0..unnamed).take_while(is_empty).count(),
        }
    }

    /// Returns distinct names of all columns, made from the names in the header, and notes about the changes.
    pub(super) fn names(&self, mut header: Vec<String>) -> (Vec<String>, Vec<String>) {
        let mut notes = Vec::new();
        header.truncate(header.len().saturating_sub(self.empty).max(1));
        if self.row_names {
            header.insert(0, ROW_NAMES.to_owned());
            notes.push(format!(
                "the header has one name fewer than the rows have fields: the first column is named '{ROW_NAMES}'"
            ));
        }
        for (place, name) in header.iter_mut().enumerate() {
            if name.is_empty() {
                *name = format!("Unnamed: {place}");
            }
        }
        let mut taken: HashSet<String> = header.iter().cloned().collect();
        let (mut seen, mut renamed) = (HashSet::new(), Vec::new());
        for name in &mut header {
            if seen.insert(name.clone()) {
                continue;
            }
            let free = (2..).map(|number| format!("{name}_{number}")).find(|other| !taken.contains(other));
            let free = free.unwrap_or_default();
            renamed.push(format!("{} is {}", quoted(name), quoted(&free)));
            taken.insert(free.clone());
            *name = free;
        }
        if !renamed.is_empty() {
            notes.push(format!("repeated column names were changed: {}", renamed.join(", ")));
        }
        (header, notes)
    }
}

/// The number of UTF-16 units to decode at once.
const UNITS: usize = 1 << 14;

/// The number of byte pairs that show UTF-16 without a byte order mark, and the share of them that must have one zero.
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
        let are_zero = |place: usize| {
            let shown = pairs.clone().filter(|pair| pair[place] == 0 && pair[1 - place] != 0).count();
            shown as f64 > SHARE * pairs.len() as f64
        };
        [(ByteOrder::Little, 1), (ByteOrder::Big, 0)]
            .into_iter()
            .find(|(_, zero)| are_zero(*zero))
            .map(|(order, _)| order)
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
    fn delimiters_and_decimal_marks_are_found() {
        let of = |text: &str| {
            let Dialect { delimiter, decimal_comma, .. } = Dialect::of(text.as_bytes(), None);
            (char::from(delimiter), decimal_comma)
        };
        let plain = |delimiter: char| (delimiter, None);
        assert_eq!(of("a,b\n1,2\n"), plain(','));
        assert_eq!(of("a;b\n1;2\n"), plain(';'));
        assert_eq!(of("a\tb\n1,5\t2\n"), ('\t', Some("1,5".into())));
        assert_eq!(of("a|b\n1|2\n"), plain('|'));
        assert_eq!(of("a\n1\n"), plain(','));
        assert_eq!(of("a;b\n3,14;2\n1.000;1\n"), (';', Some("3,14".into())));
        assert_eq!(of("a;b\n3,14;2.5\n"), plain(';'));
        assert_eq!(of("a;b\n1,234;2\n"), (';', Some("1,234".into())));
        assert_eq!(of("a,b\n\"1,234\",2\n"), plain(','));
        assert_eq!(of("a,b\n\"1,5\",\"2,25\"\n"), (',', Some("1,5".into())));
        // If the header has both marks, the rows below it decide.
        assert_eq!(of("price (net, EUR);sold\n3,5;2\n4;1\n"), (';', Some("3,5".into())));
        assert_eq!(of("a,b;c\n1,2\n3,4\n"), plain(','));
        assert_eq!(Dialect::of(b"a;b,c\n1;2,3\n", Some(b';')).delimiter, b';');
        assert_eq!(of("sep=;\na,b;c\n1,5;2\n"), (';', Some("1,5".into())));
        assert_eq!(of("\u{feff}\"sep=|\"\r\na,b|c\r\n1|2\r\n"), plain('|'));
        assert!(!Dialect::of(b"sep=1,b\n1,2\n", None).says_delimiter);
    }

    #[test]
    fn titles_are_lines_of_one_cell_above_names() {
        let of = |text: &str| Dialect::of(text.as_bytes(), None).titles.join(" / ");
        assert_eq!(of("Sales of 2020\n\na;b\n1;2\n3;4\n"), "Sales of 2020");
        assert_eq!(
            of("# made by R, on Monday\nby region,,\na,b,c\n1,2,3\n3,4,5\n"),
            "# made by R, on Monday / by region,,"
        );
        for none in [
            "a\n1\n2\n3\n",
            "a,b\n1,2\n3,4\n",
            "#a,b\n1,2\n3,4\n",
            "a\n1,2\n3,4\n5,6\n",
            "t\na,b\n1,2\n",
            "a,,\n1,2,3\n4,5,6\n7,8,9\n",
        ] {
            assert_eq!(of(none), "", "{none}");
        }
        assert_eq!(Dialect::of(b"t\na;b\n1;2\n3;4\n", None).delimiter, b';');
    }

    fn names(lines: &[&str]) -> (Vec<String>, usize) {
        let records: Vec<ByteRecord> =
            lines.iter().map(|line| line.split(',').map(str::as_bytes).collect()).collect();
        let header = lines[0].split(',').map(str::to_owned).collect();
        let (names, notes) = Layout::of(&records).names(header);
        (names, notes.len())
    }

    #[test]
    fn every_column_gets_a_name() {
        let of = |lines: &[&str]| {
            let (names, notes) = names(lines);
            (names.join(" "), notes)
        };
        assert_eq!(of(&["a,b", "1,2"]), ("a b".into(), 0));
        assert_eq!(of(&[",a,b", "0,1,2"]), ("Unnamed: 0 a b".into(), 0));
        assert_eq!(of(&["a,,b", "0,1,2"]), ("a Unnamed: 1 b".into(), 0));
        // Delimiters after the last column, and a last column that has no name.
        assert_eq!(of(&["a,b,,", "1,2,,", "1,2,,"]), ("a b".into(), 0));
        assert_eq!(of(&["a,b,", "1,2", "1,2"]), ("a b".into(), 0));
        assert_eq!(of(&["a,b,", "1,2,3"]), ("a b Unnamed: 2".into(), 0));
        assert_eq!(of(&["a,a,a_2,a", "1,2,3,4"]), ("a a_3 a_2 a_4".into(), 1));
    }

    #[test]
    fn names_of_rows_are_those_of_r() {
        let first = |lines: &[&str]| names(lines).0[0].clone();
        assert_eq!(first(&["a,b", "x,1,2", "y,1,2", "z,1,2"]), "rownames");
        // A delimiter after the last column, names that repeat, few rows, rows of another length.
        assert_eq!(first(&["a,b", "1,2,", "2,2,", "3,1,"]), "a");
        assert_eq!(first(&["a,b", "1,2,3", "1,2,4", "2,1,3"]), "a");
        assert_eq!(first(&["a,b", "1,2,3"]), "a");
        assert_eq!(first(&["a,b", "1,2,3", "2,2,3", "3,2"]), "a");
    }

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
