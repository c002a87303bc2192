"""Writes the Parquet and Arrow files of this folder: python make.py, with pyarrow 26 and polars 2.1 in Python 3.11."""

from decimal import Decimal
import datetime

import polars as pl
import pyarrow as pa
import pyarrow.ipc
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
ARROW_NUMBERS = {
    "decimal32": (pa.decimal32(9, 2), NUMBERS["decimal9"][1]),
    "decimal64": (pa.decimal64(18, 4), NUMBERS["decimal18"][1]),
}
ARROW_OTHERS = {
    "duration": (pa.duration("s"), [datetime.timedelta(seconds=1)] * 4),
    "interval": (pa.month_day_nano_interval(), [(1, 2, 3)] * 4),
    "large_binary": (pa.large_binary(), [b"x"] * 4),
    "binary_view": (pa.binary_view(), [b"a longer text than a view holds", None, b"x", b"y"]),
    "fixed_binary": (pa.binary(3), [b"xyz"] * 4),
    "large_list": (pa.large_list(pa.string_view()), [["a longer text than a view holds"], None, [], ["x"]]),
    "list_view": (pa.list_view(pa.int32()), [[1], None, [], [2, 3]]),
    "fixed_list": (pa.list_(pa.int32(), 2), [[1, 2]] * 4),
    "dictionary_in_struct": (
        pa.struct({"d": pa.dictionary(pa.int8(), pa.utf8())}), [{"d": "x"}, None, {"d": None}, {"d": "y"}]),
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


def arrow_types():
    """Every type of Arrow as a file and as a stream; the last column is found behind all others."""
    columns = table(NUMBERS, ARROW_NUMBERS, OTHERS, ARROW_OTHERS)
    for name, cells in texts().items():
        columns = columns.append_column(name, cells)
    numbers = pa.array([10, None, 20, 10], pa.int64()).dictionary_encode()
    codes = pa.array([0, None, 1, 0], pa.int8())
    dense = pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()), pa.array([0, 0, 1, 1], pa.int32()), [pa.array([1, 2]), pa.array(["x", "y"])])
    sparse = pa.UnionArray.from_sparse(
        pa.array([0, 1, 0, 1], pa.int8()), [pa.array([1, 2, 3, 4]), pa.array(["w", "x", "y", "z"])])
    more = {
        "view": pa.array(TEXT, pa.string_view()),
        "number_dictionary": numbers,
        "empty_dictionary": pa.DictionaryArray.from_arrays(pa.array([None, 0, None, None], pa.int8()), pa.nulls(1)),
        "small_codes": pa.DictionaryArray.from_arrays(codes, pa.array(["red", "green"], pa.string_view())),
        "dense_union": dense,
        "sparse_union": sparse,
        "runs": pa.RunEndEncodedArray.from_arrays([3, 4], [1, 2]),
        "last": pa.array([1.0, 2.0, 3.0, 4.0]),
    }
    for name, cells in more.items():
        columns = columns.append_column(name, cells)
    write(columns, "types.arrow", pa.ipc.new_file)
    write(columns, "types.arrows", pa.ipc.new_stream)


def write(columns, path, new, batch_rows=None, **options):
    """A table as an Arrow file or stream."""
    with new(path, columns.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(columns, max_chunksize=batch_rows)


def arrow_batches():
    """The rows of the codecs in batches of 64, plain and compressed, from slices of larger arrays, with a dictionary."""
    longer = pa.concat_tables([rows().slice(290), rows(), rows().slice(0, 5)]).combine_chunks()
    columns = longer.slice(10, 300)
    coded = columns.set_column(2, "text", columns["text"].dictionary_encode())
    viewed = columns.set_column(2, "text", columns["text"].cast(pa.string_view()))
    write(columns, "batches.arrow", pa.ipc.new_file, 64)
    write(coded, "dictionary.arrow", pa.ipc.new_file, 64)
    write(viewed, "views.arrows", pa.ipc.new_stream, 64)
    write(coded, "lz4.arrow", pa.ipc.new_file, 64, compression="lz4")
    write(coded, "zstd.arrows", pa.ipc.new_stream, 64, compression="zstd")
    # Dictionaries that grow, and that are replaced, from batch to batch.
    for name, deltas in [("growing", True), ("replaced", False)]:
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
        kind = pa.dictionary(pa.int32(), pa.utf8())
        schema = coded.schema.set(2, pa.field("text", kind))
        with pa.ipc.new_stream(f"{name}.arrows", schema, options=options) as writer:
            known = []
            for start in range(0, 300, 60):
                part = columns.slice(start, 60)
                cells = part["text"].to_pylist()
                if not deltas:
                    known = []
                known = known + [cell for cell in dict.fromkeys(cells) if cell is not None and cell not in known]
                codes = pa.array([None if cell is None else known.index(cell) for cell in cells], pa.int32())
                text = pa.DictionaryArray.from_arrays(codes, pa.array(known, pa.utf8()))
                arrays = [part["whole"].combine_chunks(), part["quarter"].combine_chunks(), text]
                writer.write_batch(pa.record_batch(arrays, schema=schema))


def regression():
    """A smooth function of two inputs and a category, with no value missing, for a fit."""
    x = [(37 * i % 401) / 100 for i in range(400)]
    z = [(91 * i % 97) / 50 for i in range(400)]
    c = ["low" if i % 3 else "high" for i in range(400)]
    y = [a * a / 4 - b + (0.5 if k == "low" else 0.0) for a, b, k in zip(x, z, c)]
    coded = pa.array(c).dictionary_encode()
    write(pa.table({"x": x, "z": pa.array(z, pa.float32()), "c": coded, "y": y}), "regression.arrow", pa.ipc.new_file, 150,
          compression="zstd")


def polars():
    """The rows of the codecs as polars writes them: a file that is no stream, categories, text as views."""
    frame = pl.from_arrow(rows()).with_columns(pl.col("text").cast(pl.Categorical))
    frame.write_ipc("polars.arrow", compression="zstd")
    frame.write_ipc_stream("polars.arrows")
    frame.write_parquet("polars.parquet", compression="zstd")


if __name__ == "__main__":
    polars()
    regression()
    parquet_types()
    parquet_codecs()
    arrow_types()
    arrow_batches()
