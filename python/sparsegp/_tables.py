"""Converts arrays and pandas, polars and Arrow tables to tables of the engine."""

from __future__ import annotations

import io
import numbers
from typing import Any

import numpy as np

from . import _sparsegp


def is_pandas(X) -> bool:
    """Returns True for a pandas frame, without importing pandas."""
    return type(X).__module__.split(".")[0] == "pandas" and hasattr(X, "columns")


def is_named(X) -> bool:
    """Returns True for a table of named columns, and False for an array."""
    return is_pandas(X) or hasattr(X, "__arrow_c_stream__") and not isinstance(X, np.ndarray)


def unmasked(values: Any) -> Any:
    """Returns a masked array with missing values (NaN, NaT or None) in its masked cells, and other values unchanged."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return values.data
    if values.dtype.kind in "biuf":
        return values.astype(np.float64).filled(np.nan)
    if values.dtype.kind == "M":
        return values.filled(np.datetime64("NaT"))
    return np.where(np.ma.getmaskarray(values), None, values.data.astype(object))


def default_names(count: int) -> list[str]:
    """The names of the columns of an array: x0, x1, …"""
    return [f"x{i}" for i in range(count)]


def needed_names(features: list[str], grouped: list[str]) -> tuple[list[str], str | None]:
    """The columns that a saved model needs, and the name of the column of groups if it belongs to an array of groups beside an array."""
    count = len(features)
    if len(grouped) == 1 and features == default_names(count) and grouped != [f"x{count}"]:
        return features, grouped[0]
    return features + grouped, None


def matrix_table(X: np.ndarray, names=None) -> _sparsegp.Table:
    """The table of an array of numbers."""
    names = default_names(X.shape[1]) if names is None else list(names)
    return _sparsegp.Table.of_matrix("X", names, np.asarray(X, dtype=np.float64))


def named_table(X) -> _sparsegp.Table:
    """The table of a pandas, polars or Arrow table; text and categories become categories, as on the command line."""
    if not is_pandas(X):
        return _sparsegp.Table.of_parquet("X", _parquet_bytes(X))
    columns = [(name, column(X.iloc[:, i], name)) for i, name in enumerate(frame_names(X))]
    return _sparsegp.Table.of_columns("X", columns)


def category_columns(X, categorical, ordered) -> dict:
    """Returns the columns with categories and the columns with ordered levels: columns named by the user, and columns of
    such a type in a pandas frame."""
    categorical = names_of(categorical)
    levels = {name: [_label(level) for level in known] for name, known in dict(ordered or {}).items()}
    if is_pandas(X):
        named = {*categorical, *levels}
        for place, (name, dtype) in enumerate(zip(frame_names(X), X.dtypes)):
            if name in named or not (hasattr(dtype, "categories") or _holds_numbers_as_text(X.iloc[:, place])):
                continue
            if getattr(dtype, "ordered", False):
                levels[name] = [_label(level) for level in dtype.categories]
            else:
                categorical.append(name)
    return {"categorical": categorical, "ordered": list(levels.items())}


def place_columns(estimator) -> dict:
    """Returns the two columns of places on the sphere or in a plane, from the parameters of an estimator."""
    found = {}
    for parameter in ("places", "plane"):
        columns = getattr(estimator, parameter, None)
        if columns is not None and (len(columns) != 2 or not all(isinstance(name, str) for name in columns)):
            raise ValueError(f"{parameter} is {columns!r}, expected the names of two columns")
        found[parameter] = None if columns is None else tuple(columns)
    if None not in found.values():
        raise ValueError("places and plane exclude each other: give one of them")
    return found


#: The maximum number of distinct numeric texts in a categorical column.
_MOST_NUMBERS_AS_TEXT = 64


def _holds_numbers_as_text(values) -> bool:
    """Returns True for a column of a few distinct texts that are all numbers, such as numbers of cylinders if only some
    rows of a table are given."""
    if getattr(values.dtype, "kind", "O") != "O":
        return False
    known = set()
    for cell in values:
        if _is_missing(cell) or isinstance(cell, str) and cell in known:
            continue
        if not isinstance(cell, str) or len(known) == _MOST_NUMBERS_AS_TEXT or not _is_number(cell):
            return False
        known.add(cell)
    return bool(known)


def _is_number(text: str) -> bool:
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False


def names_of(columns) -> list[str]:
    """Names of columns. A single name may be given as a text."""
    return [columns] if isinstance(columns, str) else list(columns or [])


def row_labels(X):
    """Returns the row labels of a pandas frame; None if its rows are numbered from 0, as in arrays."""
    index = getattr(X, "index", None) if is_pandas(X) else None
    if index is None or (getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1):
        return None
    return [str(label) for label in index]


def frame_names(X) -> list[str]:
    """Returns the names of the columns of a pandas frame, or default names if some names are not texts."""
    names = list(X.columns)
    return names if all(isinstance(name, str) for name in names) else default_names(len(names))


def _parquet_bytes(X) -> bytes:
    """Returns the table as a Parquet file in memory, written by the library of the table, or otherwise by pyarrow or polars."""
    out = io.BytesIO()
    if hasattr(X, "write_parquet"):
        _refuse_durations(X.schema.items())
        X.write_parquet(out, compression="uncompressed")
        return out.getvalue()
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        try:
            import polars
        except ImportError:
            raise TypeError(
                f"a table of type {type(X).__name__} needs pyarrow or polars: install one of them"
            ) from None
        return _parquet_bytes(polars.DataFrame(X))
    table = pyarrow.RecordBatchReader.from_stream(X).read_all()
    _refuse_durations((field.name, field.type) for field in table.schema)
    try:
        pyarrow.parquet.write_table(table, out, compression="none", store_schema=False)
    except pyarrow.ArrowNotImplementedError as error:
        raise TypeError(f"the table has a column whose type Parquet does not support: {error}") from None
    return out.getvalue()


def _refuse_durations(types) -> None:
    """Refuses durations, which Parquet stores as numbers of an unknown unit."""
    for name, kind in types:
        if str(kind).lower().startswith("duration"):
            raise TypeError(f"column {name!r} holds durations, expected numbers, text, dates or true and false")


def column(values, name: str):
    """Returns a column in the form of the engine: ``(kind, numbers)``, ``(levels, codes)`` or a list of texts. The code of missing cells is -1."""
    values = unmasked(values)
    dtype = getattr(values, "dtype", None)
    if hasattr(values, "cat") and hasattr(dtype, "categories"):
        return _levels(values.cat.categories, np.asarray(values.cat.codes, dtype=np.int64))
    kind = getattr(dtype, "kind", "O")
    if kind == "M":
        times = np.asarray(values.dt.tz_convert("UTC").dt.tz_localize(None) if getattr(dtype, "tz", None) else values)
        times = times.astype("datetime64[us]")
        seconds = times.astype(np.int64) / 1e6
        return "time", np.where(np.isnat(times), np.nan, seconds)
    if kind == "m":
        raise TypeError(f"column {name!r} holds durations, expected numbers, text, dates or true and false")
    if kind == "c":
        raise ValueError(f"Complex data not supported: column {name!r}")
    if kind in "iuf":
        if hasattr(values, "to_numpy") and not isinstance(dtype, np.dtype):
            floats = values.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            floats = np.asarray(values, dtype=np.float64)
        return _whole_cells(values) if kind in "iu" and has_long_wholes(floats) else ("number", floats)
    return _text(list(values), name)


def has_long_wholes(values) -> bool:
    """Returns True if some whole numbers are beyond 2^53, where floats do not hold all of them."""
    return bool(np.any(np.abs(np.asarray(values, dtype=np.float64)) >= 2.0**53))


def _whole_cells(values) -> list:
    return [None if _is_missing(cell) else str(cell) for cell in values]


def _text(cells, name: str):
    """Returns a column of objects: numbers if all cells are numbers, otherwise distinct texts in the order of their first row."""
    known: dict[str, int] = {}
    codes = np.empty(len(cells), dtype=np.int64)
    plain = [cell for cell in cells if not _is_missing(cell)]
    if plain and all(isinstance(cell, numbers.Real) and not isinstance(cell, (bool, np.bool_)) for cell in plain):
        if has_long_wholes([cell for cell in plain if isinstance(cell, numbers.Integral)]):
            return _whole_cells(cells)
        return "number", np.array([np.nan if _is_missing(cell) else float(cell) for cell in cells])
    for row, cell in enumerate(cells):
        if _is_missing(cell):
            codes[row] = -1
            continue
        if isinstance(cell, (list, dict, set, np.ndarray)):
            raise TypeError(f"column {name!r} holds a {type(cell).__name__}, expected a string or a number")
        codes[row] = known.setdefault(str(cell), len(known))
    return list(known), codes


def _levels(categories, codes):
    """Returns categories as texts in the order of their first row, without categories that have no row."""
    texts = [_label(category) for category in categories]
    used, first = np.unique(codes[codes >= 0], return_index=True)
    order = used[np.argsort(first)]
    places = np.full(len(texts) + 1, -1, dtype=np.int64)
    places[order] = np.arange(len(order))
    return [texts[i] for i in order], places[codes]


def _label(value) -> str:
    """Returns the text of a category or class; numbers are written as the engine writes them."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, numbers.Real):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    return str(value)


def _is_missing(cell) -> bool:
    return cell is None or cell != cell or type(cell).__name__ in ("NAType", "NaTType")


def classes_column(y: np.ndarray, classes: np.ndarray, codes: np.ndarray):
    """Returns a column of classes. Numbers stay numbers, so the model is the same as from the command line."""
    if y.dtype.kind == "f" or y.dtype.kind in "iu" and not has_long_wholes(y):
        return "number", y.astype(np.float64)
    order = np.unique(codes, return_index=True)[1]
    order = codes[np.sort(order)]
    places = np.empty(len(classes), dtype=np.int64)
    places[order] = np.arange(len(order))
    return [_label(classes[i]) for i in order], places[codes]


def class_places(levels: list[str], classes: np.ndarray) -> np.ndarray:
    """The index of each class among the engine's levels."""
    if classes.dtype.kind == "f" or classes.dtype.kind in "iu" and not has_long_wholes(classes):
        known = {float(level): place for place, level in enumerate(levels)}
        return np.array([known[float(label)] for label in classes])
    if classes.dtype.kind == "b":
        # The engine writes true and false in small letters.
        levels, texts = [level.lower() for level in levels], [_label(label).lower() for label in classes]
    else:
        texts = [_label(label) for label in classes]
    known = {level: place for place, level in enumerate(levels)}
    return np.array([known[text] for text in texts])


def free_name(wanted: str, taken) -> str:
    """Returns ``wanted``, with underscores appended until it is unique."""
    while wanted in taken:
        wanted += "_"
    return wanted


def is_formula(groups: Any) -> bool:
    """Returns True for formulae with names of columns and for None, and False for arrays of levels."""
    texts = isinstance(groups, (list, tuple)) and all(isinstance(text, str) for text in groups)
    return groups is None or isinstance(groups, str) or texts


def take_rows(values, rows):
    """Some rows of an array or a table."""
    if hasattr(values, "tocsr"):
        return values.tocsr()[np.flatnonzero(rows)]
    if hasattr(values, "iloc"):
        return values.iloc[np.flatnonzero(rows)]
    if hasattr(values, "filter") and hasattr(values, "columns"):
        return values.filter(rows)
    return np.asarray(unmasked(values))[rows]
