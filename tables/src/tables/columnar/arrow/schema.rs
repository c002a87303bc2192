//! The columns of an Arrow schema: their types, and the number of buffers of each in a batch; no data.

use std::io::Result;

use super::flat::Table;
use super::messages::damaged;
use crate::tables::instant::DAY;

/// The maximum depth of nested types; deeper nesting counts as damage.
const MOST_DEPTH: usize = 32;

/// The first version, counted from 0, in which unions have no validity buffer.
const UNIONS_WITHOUT_VALIDITY: i16 = 4;

/// A column.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) cells: Cells,
    pub(super) shape: Shape,
}

/// The reading of the cells of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cells {
    Plain(Kind),
    /// Indices into a dictionary.
    Coded {
        codes: Kind,
        dictionary: i64,
        values: Kind,
    },
    /// An unsupported type, with its name.
    Unsupported(&'static str),
}

/// The reading of the bytes of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No bytes: every cell is missing.
    Null,
    Boolean,
    Integer {
        bytes: usize,
        signed: bool,
    },
    Float {
        bytes: usize,
    },
    Decimal {
        bytes: usize,
        scale: i32,
    },
    /// Instants since 1970 as integers, in this unit.
    Instant {
        bytes: usize,
        unit: Unit,
    },
    /// Text between offsets of this many bytes each.
    Text {
        offset_bytes: usize,
    },
    /// Text behind views, which contain it if it is short.
    Views,
}

/// The unit of instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Days,
    /// A second divided by this power of ten.
    Second(u8),
}

impl Unit {
    /// Converts a number of units to seconds.
    pub(super) fn seconds(self, count: f64) -> f64 {
        match self {
            Unit::Days => count * DAY,
            Unit::Second(power) => count / 10f64.powi(i32::from(power)),
        }
    }
}

/// The number of entries in the lists of a batch that belong to a column and all columns nested in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    pub(super) nodes: usize,
    pub(super) buffers: usize,
    pub(super) views: usize,
}

impl Kind {
    /// Returns true if the cells are text, and false if they are numbers.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Kind::Text { .. } | Kind::Views)
    }
}

/// Returns the columns of a schema in a message of `length` bytes.
pub(super) fn fields(schema: Table<'_>, version: i16, length: usize) -> Result<Vec<Field>> {
    if schema.i16(0).unwrap_or(0) != 0 {
        return Err(damaged("its numbers are big-endian, expected little-endian ones"));
    }
    let mut parser = Parser { version, left: length };
    let fields =
        schema.vector(1, 4).map(|fields| fields.tables().map(|field| parser.field(field, 0)).collect());
    fields.unwrap_or_else(|| Some(Vec::new())).ok_or_else(|| damaged("its schema is damaged"))
}

struct Parser {
    version: i16,
    /// The number of fields that may still follow. More fields than bytes mean that some are stored once and listed many times.
    left: usize,
}

impl Parser {
    fn field(&mut self, field: Option<Table<'_>>, depth: usize) -> Option<Field> {
        let field = field?;
        self.left = self.left.checked_sub(1)?;
        let name = field.text(0).unwrap_or("").to_owned();
        let (kind, mut shape) = self.described(field.u8(2)?, field.table(3)?)?;
        if let Some(dictionary) = field.table(4) {
            // The dictionary describes the nested types.
            let codes = dictionary.table(1).map_or(Ok(Kind::Integer { bytes: 4, signed: true }), integer);
            let cells = match (kind, codes) {
                (Ok(values), Ok(codes)) => {
                    Cells::Coded { codes, dictionary: dictionary.i64(0).unwrap_or(0), values }
                }
                (Err(name), _) | (_, Err(name)) => Cells::Unsupported(name),
            };
            return Some(Field { name, cells, shape: Shape { nodes: 1, buffers: 2, views: 0 } });
        }
        if let Some(children) = field.vector(5, 4) {
            if depth == MOST_DEPTH {
                return None;
            }
            for child in children.tables() {
                let Shape { nodes, buffers, views } = self.field(child, depth + 1)?.shape;
                shape.nodes += nodes;
                shape.buffers += buffers;
                shape.views += views;
            }
        }
        Some(Field { name, cells: kind.map_or_else(Cells::Unsupported, Cells::Plain), shape })
    }

    /// Returns the reading of a type (or the name of an unsupported one), and its shape without nested columns.
    ///
    /// The numbers are those of the union `Type` in the format's Schema.fbs.
    fn described(&self, tag: u8, of: Table<'_>) -> Option<(std::result::Result<Kind, &'static str>, Shape)> {
        let (kind, buffers, views) = match tag {
            1 => (Ok(Kind::Null), 0, 0),
            2 => (integer(of), 2, 0),
            3 => {
                let bytes = 2 << of.i16(0).unwrap_or(0).clamp(0, 2);
                (Ok(Kind::Float { bytes }), 2, 0)
            }
            4 | 19 => (Err("binary"), 3, 0),
            5 => (Ok(Kind::Text { offset_bytes: 4 }), 3, 0),
            6 => (Ok(Kind::Boolean), 2, 0),
            7 => (decimal(of), 2, 0),
            // Days in 32 bits, or milliseconds, which is the default.
            8 if of.i16(0) == Some(0) => (Ok(Kind::Instant { bytes: 4, unit: Unit::Days }), 2, 0),
            8 => (Ok(Kind::Instant { bytes: 8, unit: Unit::Second(3) }), 2, 0),
            9 => (Err("time"), 2, 0),
            10 => {
                let power = 3 * of.i16(0).unwrap_or(0).clamp(0, 3) as u8;
                (Ok(Kind::Instant { bytes: 8, unit: Unit::Second(power) }), 2, 0)
            }
            11 => (Err("interval"), 2, 0),
            12 | 21 => (Err("list"), 2, 0),
            13 => (Err("struct"), 1, 0),
            14 => {
                let validity = usize::from(self.version < UNIONS_WITHOUT_VALIDITY);
                let dense = usize::from(of.i16(0).unwrap_or(0) == 1);
                (Err("union"), validity + 1 + dense, 0)
            }
            15 => (Err("binary"), 2, 0),
            16 => (Err("list"), 1, 0),
            17 => (Err("map"), 2, 0),
            18 => (Err("duration"), 2, 0),
            20 => (Ok(Kind::Text { offset_bytes: 8 }), 3, 0),
            22 => (Err("run-end encoded"), 0, 0),
            23 => (Err("binary"), 2, 1),
            24 => (Ok(Kind::Views), 2, 1),
            25 | 26 => (Err("list"), 3, 0),
            _ => return None,
        };
        Some((kind, Shape { nodes: 1, buffers, views }))
    }
}

fn integer(of: Table<'_>) -> std::result::Result<Kind, &'static str> {
    match of.i32(0) {
        Some(bits @ (8 | 16 | 32 | 64)) => {
            Ok(Kind::Integer { bytes: bits as usize / 8, signed: of.u8(1).unwrap_or(0) != 0 })
        }
        _ => Err("an integer of unusual width"),
    }
}

fn decimal(of: Table<'_>) -> std::result::Result<Kind, &'static str> {
    match of.i32(2).unwrap_or(128) {
        bits @ (32 | 64 | 128 | 256) => {
            Ok(Kind::Decimal { bytes: bits as usize / 8, scale: of.i32(1).unwrap_or(0) })
        }
        _ => Err("a decimal of unusual width"),
    }
}
