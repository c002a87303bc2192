"""Offsets, known additions to the latent functions of rows, as columns of tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _tables
from ._types import Array


def training_columns(offset: Any, rows: int, taken: set) -> tuple[list[str], list]:
    """Returns the names of the columns of offsets, and the new columns: none if ``offset`` names columns of the table, all if it
    is an array. ``taken`` has the names in use, and gets the new ones."""
    if _tables.is_formula(offset):
        return _tables.names_of(offset), []
    values = matrix(offset, rows)
    names = []
    for function in range(values.shape[1]):
        names.append(_tables.free_name("offset" if values.shape[1] == 1 else f"offset.{function}", taken))
        taken.add(names[-1])
    return names, _named(names, values)


def prediction_columns(offset: Any, rows: int, needed: list[str], present: list[str]) -> list:
    """Returns the columns of offsets that a table to predict lacks. The model needs the columns ``needed``, the table has ``present``."""
    absent = [name for name in dict.fromkeys(needed) if name not in present]
    if offset is not None and _tables.is_formula(offset):
        if _tables.names_of(offset) != list(needed):
            raise ValueError(f"offset is {offset!r}, expected {list(needed)} as in the fit")
        offset = None
    if offset is None:
        if absent:
            raise ValueError("the model was fitted with offset, but offset is not given: predictions need it too")
        return []
    if not needed:
        raise ValueError("offset is given, but the model was fitted without offset")
    if not absent:
        raise ValueError(f"offset is given, but X has its columns {', '.join(needed)}: leave one of both out")
    values = matrix(offset, rows)
    if values.shape[1] != len(absent):
        raise ValueError(f"offset has {values.shape[1]} columns, expected {len(absent)} as in the fit")
    return _named(absent, values)


def assigned(X: Any, offset: Any, needed: list[str]) -> tuple[Any, Any]:
    """Returns a pandas table with offsets as its columns, for a model from a file, which lists these columns with the inputs."""
    absent = [name for name in dict.fromkeys(needed) if name not in X.columns]
    if offset is None or not absent:
        return X, offset
    columns = prediction_columns(offset, len(X), absent, [])
    return X.assign(**{name: numbers for name, (_, numbers) in columns}), None


def zero_if_absent(X: Any, needed: list[str]) -> Array | None:
    """Returns offsets of 0 for results of the function itself; ``None`` if the table ``X`` has the columns of offsets, or the model has none."""
    absent = [name for name in dict.fromkeys(needed) if not _tables.is_named(X) or name not in _tables.named_table(X).names]
    if not absent:
        return None
    return np.zeros((len(X) if hasattr(X, "__len__") else X.shape[0], len(absent)))


def matrix(offset: Any, rows: int) -> Array:
    """Returns offsets as an array with a column for each function."""
    values = np.asarray(_tables.unmasked(offset), dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != rows or values.shape[1] == 0:
        raise ValueError(f"offset has shape {values.shape}, expected ({rows},) or ({rows}, number of functions)")
    return values


def _named(names: list[str], values: Array) -> list:
    return [(name, ("number", np.ascontiguousarray(values[:, k]))) for k, name in enumerate(names)]
