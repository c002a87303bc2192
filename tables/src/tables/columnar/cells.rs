//! The types of the columns of a Parquet file, and the transfer of their cells to column builders.

use crate::tables::column::ColumnBuilder;
use crate::tables::instant::DAY;
use ::parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{AsBytes, DataType};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::Type;
use half::f16;
use num_bigint::BigInt;

/// The reading of the stored values of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// Numbers as they are; true and false are 1 and 0.
    Number,
    /// Integers without a sign.
    Unsigned,
    /// Integers times `10^(−scale)`.
    Decimal(i32),
    /// Numbers of 16 bits.
    Half,
    /// Instants: the number × the first value / the second value is the seconds since 1970.
    Instant(f64, f64),
    Text,
}

impl Kind {
    fn number(self, stored: i64) -> f64 {
        match self {
            Kind::Instant(times, over) => stored as f64 * times / over,
            Kind::Decimal(scale) => scaled(stored, scale),
            _ => stored as f64,
        }
    }
}

/// Returns the reading of a column; fails with the name of an unsupported type.
pub(super) fn kind(field: &Type) -> std::result::Result<Kind, &'static str> {
    let info = field.get_basic_info();
    let Type::PrimitiveType { physical_type, scale, type_length, .. } = field else {
        return Err(annotated(info.logical_type_ref(), info.converted_type(), 0).err().unwrap_or("struct"));
    };
    if info.has_repetition() && info.repetition() == Repetition::REPEATED {
        return Err("list");
    }
    match (*physical_type, annotated(info.logical_type_ref(), info.converted_type(), *scale)) {
        (Physical::BOOLEAN | Physical::FLOAT | Physical::DOUBLE, _) => Ok(Kind::Number),
        // INT96 was used for timestamps before Parquet had a type for them.
        (Physical::INT96, annotated) if !matches!(annotated, Ok(Kind::Decimal(_))) => {
            Ok(Kind::Instant(1.0, 1e6))
        }
        (_, Err(name)) => Err(name),
        (_, Ok(kind)) => {
            let suits = match *physical_type {
                Physical::INT32 | Physical::INT64 => !matches!(kind, Kind::Half | Kind::Text),
                Physical::FIXED_LEN_BYTE_ARRAY => kind == Kind::Half && *type_length == 2,
                Physical::BYTE_ARRAY => kind == Kind::Text,
                _ => false,
            };
            if suits || matches!(kind, Kind::Decimal(_)) { Ok(kind) } else { Err("binary") }
        }
    }
}

/// Returns the reading that the logical type asks for, or the older converted type if there is no logical one; fails with the name of a
/// type that is neither a number nor text.
fn annotated(
    logical: Option<&LogicalType>,
    converted: ConvertedType,
    scale: i32,
) -> std::result::Result<Kind, &'static str> {
    use ConvertedType as C;
    use LogicalType as L;
    let integer = |signed: bool| if signed { Kind::Number } else { Kind::Unsigned };
    Ok(match (logical, converted) {
        // All cells are missing.
        (Some(L::Unknown), _) | (None, C::NONE) => Kind::Number,
        (Some(L::Integer(integer_type)), _) => integer(integer_type.is_signed),
        (None, C::INT_8 | C::INT_16 | C::INT_32 | C::INT_64) => integer(true),
        (None, C::UINT_8 | C::UINT_16 | C::UINT_32 | C::UINT_64) => integer(false),
        (Some(L::Decimal(decimal)), _) => Kind::Decimal(decimal.scale),
        (None, C::DECIMAL) => Kind::Decimal(scale),
        (Some(L::Float16), _) => Kind::Half,
        (Some(L::String | L::Json | L::Enum), _) | (None, C::UTF8 | C::JSON | C::ENUM) => Kind::Text,
        (Some(L::Date), _) | (None, C::DATE) => Kind::Instant(DAY, 1.0),
        (Some(L::Timestamp(timestamp)), _) => Kind::Instant(
            1.0,
            match timestamp.unit {
                TimeUnit::MILLIS => 1e3,
                TimeUnit::MICROS => 1e6,
                TimeUnit::NANOS => 1e9,
            },
        ),
        (None, C::TIMESTAMP_MILLIS) => Kind::Instant(1.0, 1e3),
        (None, C::TIMESTAMP_MICROS) => Kind::Instant(1.0, 1e6),
        (Some(L::Time(_)), _) | (None, C::TIME_MILLIS | C::TIME_MICROS) => return Err("time"),
        (None, C::INTERVAL) => return Err("interval"),
        (Some(L::Uuid), _) => return Err("uuid"),
        (Some(L::List), _) | (None, C::LIST) => return Err("list"),
        (Some(L::Map), _) | (None, C::MAP | C::MAP_KEY_VALUE) => return Err("map"),
        (Some(L::Variant(_)), _) => return Err("variant"),
        (Some(L::Geometry(_) | L::Geography(_)), _) => return Err("geometry"),
        (Some(L::Bson | L::File | L::_Unknown { .. }), _) | (None, C::BSON) => return Err("binary"),
    })
}

/// Reads up to `count` cells of a column into its builder; returns the number of cells read.
pub(super) fn read_cells(
    reader: &mut ColumnReader,
    kind: Kind,
    count: usize,
    builder: &mut ColumnBuilder,
) -> Result<usize> {
    use ColumnReader as R;
    match (reader, kind) {
        (R::BoolColumnReader(cells), _) => each(cells, count, |cell| {
            builder.push_text(cell.map_or("", |&value| if value { "true" } else { "false" }));
            Ok(())
        }),
        (R::Int32ColumnReader(cells), Kind::Unsigned) => {
            numbers(cells, count, builder, |&v| Some(f64::from(v.cast_unsigned())))
        }
        (R::Int32ColumnReader(cells), kind) => {
            numbers(cells, count, builder, |&v| Some(kind.number(v.into())))
        }
        (R::Int64ColumnReader(cells), Kind::Unsigned) => {
            wholes(cells, count, builder, |&v| Some(v.cast_unsigned()))
        }
        (R::Int64ColumnReader(cells), Kind::Number | Kind::Decimal(0)) => {
            wholes(cells, count, builder, |&v| Some(v))
        }
        (R::Int64ColumnReader(cells), kind) => numbers(cells, count, builder, |&v| Some(kind.number(v))),
        (R::FloatColumnReader(cells), _) => numbers(cells, count, builder, |&v| Some(f64::from(v))),
        (R::DoubleColumnReader(cells), _) => numbers(cells, count, builder, |&v| Some(v)),
        (R::ByteArrayColumnReader(cells), Kind::Text) => each(cells, count, |cell| {
            let text = cell.map_or(Ok(""), |bytes| std::str::from_utf8(bytes.data()));
            builder.push_text(text.map_err(|_| problem("the text is not UTF-8"))?);
            Ok(())
        }),
        (R::ByteArrayColumnReader(cells), Kind::Decimal(scale)) => decimals(cells, count, builder, scale),
        (R::FixedLenByteArrayColumnReader(cells), Kind::Decimal(scale)) => {
            decimals(cells, count, builder, scale)
        }
        (R::FixedLenByteArrayColumnReader(cells), Kind::Half) => {
            numbers(cells, count, builder, |v| Some(f16::from_le_bytes(v.data().try_into().ok()?).to_f64()))
        }
        (R::Int96ColumnReader(cells), Kind::Instant(times, over)) => {
            numbers(cells, count, builder, |v| Some(v.to_micros() as f64 * times / over))
        }
        (R::Int96ColumnReader(_) | R::ByteArrayColumnReader(_) | R::FixedLenByteArrayColumnReader(_), _) => {
            Err(problem("its type is not the one that the file states"))
        }
    }
}

pub(super) fn problem(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// Reads cells as numbers; `value` returns `None` for a cell that is not a number.
fn numbers<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    builder: &mut ColumnBuilder,
    value: impl Fn(&T::T) -> Option<f64>,
) -> Result<usize> {
    each(reader, count, |cell| {
        let number = cell.map_or(Some(f64::NAN), &value);
        builder.push_number(number.ok_or_else(|| problem("a number has too many bytes"))?);
        Ok(())
    })
}

/// Reads cells as whole numbers; `value` returns `None` for a cell with too many bytes.
fn wholes<T: DataType, W: TryInto<i64> + ToString + Clone>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    builder: &mut ColumnBuilder,
    value: impl Fn(&T::T) -> Option<W>,
) -> Result<usize> {
    each(reader, count, |cell| {
        let Some(cell) = cell else {
            builder.push_number(f64::NAN);
            return Ok(());
        };
        let whole = value(cell).ok_or_else(|| problem("a number has too many bytes"))?;
        match whole.clone().try_into().ok().filter(|small: &i64| small.unsigned_abs() <= EXACT) {
            Some(small) => builder.push_number(small as f64),
            None => builder.push_text(&whole.to_string()),
        }
        Ok(())
    })
}

/// Reads cells as decimals: integers in two's complement times `10^(−scale)`.
fn decimals<T: DataType<T: AsBytes>>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    builder: &mut ColumnBuilder,
    scale: i32,
) -> Result<usize> {
    match scale {
        0 => wholes(reader, count, builder, |v| whole(v.as_bytes())),
        _ => numbers(reader, count, builder, |v| of_bytes(v.as_bytes(), scale)),
    }
}

/// Passes up to `count` cells to `take`, `None` for a missing one; returns the number of cells.
fn each<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    mut take: impl FnMut(Option<&T::T>) -> Result<()>,
) -> Result<usize> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let (rows, present, _) = reader.read_records(count, Some(&mut levels), None, &mut values)?;
    if present == rows {
        values.iter().try_for_each(|value| take(Some(value)))?;
        return Ok(rows);
    }
    // In a column that is not nested, the level is 1 for a value and 0 for a missing cell.
    let mut values = values.iter();
    levels.iter().try_for_each(|&level| take(if level == 0 { None } else { values.next() }))?;
    Ok(rows)
}

/// Integers below this magnitude are exact as 64-bit floats.
pub(super) const EXACT: u64 = 1 << 53;

/// Powers of ten up to this one are exact as 64-bit floats.
const EXACT_POWER: u32 = 22;

/// The longest unscaled value of a decimal, in bytes: 76 digits.
const MOST_BYTES: usize = 32;

/// Returns `unscaled · 10^(−scale)`, rounded once.
pub(super) fn scaled(unscaled: i64, scale: i32) -> f64 {
    if unscaled.unsigned_abs() < EXACT && scale.unsigned_abs() <= EXACT_POWER {
        // Both operands are exact, so the operation rounds only once.
        let power = 10f64.powi(scale.abs());
        return if scale >= 0 { unscaled as f64 / power } else { unscaled as f64 * power };
    }
    nearest(&unscaled, scale)
}

/// Like [`scaled`], for an unscaled value in two's complement, most significant byte first; `None` beyond [`MOST_BYTES`].
pub(super) fn of_bytes(unscaled: &[u8], scale: i32) -> Option<f64> {
    let unscaled = whole(unscaled)?;
    Some(i64::try_from(&unscaled).map_or_else(|_| nearest(&unscaled, scale), |small| scaled(small, scale)))
}

/// Returns a whole number in two's complement, most significant byte first; `None` beyond [`MOST_BYTES`].
pub(super) fn whole(bytes: &[u8]) -> Option<BigInt> {
    (bytes.len() <= MOST_BYTES).then(|| BigInt::from_signed_bytes_be(bytes))
}

/// Converts through text, because the text parser rounds once for any number of digits.
fn nearest(unscaled: &dyn std::fmt::Display, scale: i32) -> f64 {
    format!("{unscaled}e{}", -i64::from(scale)).parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_rounded_once() {
        assert_eq!((scaled(150, 2), scaled(-25, 2), scaled(7, -3), scaled(0, 9)), (1.5, -0.25, 7000.0, 0.0));
        assert_eq!((scaled(1, 30), scaled(5, -300)), (1e-30, 5e300));
        let text = |unscaled: i128, scale: i32| format!("{unscaled}e-{scale}").parse().ok();
        assert_eq!(Some(scaled(i64::MIN, 18)), text(i64::MIN.into(), 18));
        for unscaled in
            [12345678901234567890123456789i128, -99999999999999999999999999999999999999, i128::MIN]
        {
            assert_eq!(of_bytes(&unscaled.to_be_bytes(), 9), text(unscaled, 9));
        }
        assert_eq!(of_bytes(&[], 2), Some(0.0));
        assert_eq!(of_bytes(&[0xff, 0x6a], 2), Some(-1.5));
        let wide = [&[0x80][..], &[0; 31]].concat();
        assert_eq!(of_bytes(&wide, 0), Some(-(2f64.powi(255))));
        assert_eq!(of_bytes(&[0; 33], 0), None);
    }
}
