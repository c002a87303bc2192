"""Writes the Parquet files of this folder: python make.py, with pyarrow 26 and polars 2.1 in Python 3.11."""

from decimal import Decimal
import datetime

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

NUMBERS = {
    "i8": (pa.int8(), [1, None, -3, 127]),
    "u8": (pa.uint8(), [0, None, 255, 7]),
    "i16": (pa.int16(), [1, None, -32768, 127]),
    "u16": (pa.uint16(), [0, None, 65535, 7]),
    "i32": (pa.int32(), [1, None, -2147483648, 127]),
    "u32": (pa.uint32(), [0, None, 4294967295, 7]),
    "i64": (pa.int64(), [1, None, -9007199254740993, 127]),
    "u64": (pa.uint64(), [0, None, 18446744073709551615, 7]),
    "f16": (pa.float16(), [0.5, None, float("-inf"), 65504.0]),
    "f32": (pa.float32(), [0.1, None, float("inf"), -2.5]),
    "f64": (pa.float64(), [0.1, None, 5e-324, float("nan")]),
    "bool": (pa.bool_(), [True, None, False, True]),
    "decimal9": (pa.decimal128(9, 2), [Decimal("1.50"), None, Decimal("-0.25"), Decimal("9999999.99")]),
    "decimal18": (pa.decimal128(18, 4), [Decimal("1.5"), None, Decimal("-0.25"), Decimal("99999999999999.9999")]),
    "decimal38": (pa.decimal128(38, 10), [Decimal("1.5"), None, Decimal("-0.25"), Decimal("1234567890123456789012345678.0123456789")]),
    "decimal76": (pa.decimal256(76, 20), [Decimal("1.5"), None, Decimal("-0.25"), Decimal("1e55")]),
}
TEXT = ["red", None, "a longer text than a view holds", "ü"]
DAY = datetime.date(2020, 1, 2)
MOMENT = datetime.datetime(2020, 1, 2, 3, 4, 5)
OTHERS = {
    "date": (pa.date32(), [DAY] * 4),
    "time": (pa.time64("us"), [MOMENT.time()] * 4),
    "timestamp": (pa.timestamp("us"), [MOMENT] * 4),
    "binary": (pa.binary(), [b"x"] * 4),
    "list": (pa.list_(pa.int32()), [[1, 2], None, [], [3]]),
    "struct": (pa.struct({"a": pa.int8(), "b": pa.utf8()}), [{"a": 1, "b": "x"}] * 4),
    "map": (pa.map_(pa.utf8(), pa.int8()), [[("k", 1)]] * 4),
}

def table(*columns):
    """The columns as a table."""
    return pa.table({name: pa.array(cells, kind) for part in columns for name, (kind, cells) in part.items()})


def texts():
    """Text of every type that Parquet knows, and no values at all."""
    text = pa.array(TEXT)
    return {
        "text": text,
        "large_text": pa.array(TEXT, pa.large_utf8()),
        "digits": pa.array(["1", "2.0", None, "03"]),
        "dictionary": text.dictionary_encode(),
        "nothing": pa.nulls(4),
    }


def parquet_types():
    """Every type that Parquet stores; decimals as integers in a second file, and older spellings of types."""
    columns = table(NUMBERS, OTHERS)
    for name, cells in texts().items():
        columns = columns.append_column(name, cells)
    required = pa.field("required", pa.int32(), nullable=False)
    columns = columns.append_column(required, pa.array([1, 2, 3, 4], pa.int32()))
    pq.write_table(columns, "types.parquet", compression="none", store_schema=False)
    pq.write_table(
        columns, "types_old.parquet", compression="none", store_schema=False, version="1.0",
        store_decimal_as_integer=True, use_deprecated_int96_timestamps=True, use_dictionary=False)


def rows():
    """Rows that every codec and encoding holds: row i has i, i / 4, the text of i mod 5, every seventh one missing."""
    keep = [None if i % 7 == 3 else i for i in range(300)]
    return pa.table({
        "whole": pa.array(keep, pa.int64()),
        "quarter": pa.array([i if i is None else i / 4 for i in keep], pa.float64()),
        "text": pa.array([i if i is None else "category " + "abcde"[i % 5] for i in keep]),
    })


def parquet_codecs():
    """The same rows in every codec and both versions of pages, and in every encoding."""
    for codec in ["snappy", "gzip", "brotli", "lz4", "zstd"]:
        for version in ["1.0", "2.0"]:
            pq.write_table(
                rows(), f"{codec}_v{version[0]}.parquet", compression=codec, data_page_version=version,
                row_group_size=200, store_schema=False, use_dictionary=["text"])
    plain = {"whole": "PLAIN", "quarter": "PLAIN", "text": "PLAIN"}
    delta = {"whole": "DELTA_BINARY_PACKED", "quarter": "BYTE_STREAM_SPLIT", "text": "DELTA_BYTE_ARRAY"}
    lengths = {**delta, "text": "DELTA_LENGTH_BYTE_ARRAY"}
    for name, encodings in [("plain", plain), ("delta", delta), ("lengths", lengths)]:
        pq.write_table(
            rows(), f"encoding_{name}.parquet", compression="zstd", use_dictionary=False, column_encoding=encodings,
            store_schema=False, data_page_size=500, write_batch_size=50)


def polars():
    """The rows of the codecs as polars writes them, with categories."""
    frame = pl.from_arrow(rows()).with_columns(pl.col("text").cast(pl.Categorical))
    frame.write_parquet("polars.parquet", compression="zstd")


if __name__ == "__main__":
    polars()
    parquet_types()
    parquet_codecs()
