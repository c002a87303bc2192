"""Dask collections as partitions of matching rows: blocks, their sizes and columns."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np

from .. import _tables
from . import _tasks


def is_frame(values) -> bool:
    """True for a dask dataframe or series, without importing dask.dataframe."""
    return hasattr(values, "npartitions") and hasattr(values, "divisions") and hasattr(values, "_meta")


class Partitions:
    """The partitions of X, with the targets and weights of their rows. Partitions without rows are ignored."""

    def __init__(self, X, y, exposure, weights, run):
        X = _whole_rows(X)
        self.frame = is_frame(X)
        given = {"y": y, "exposure": exposure, "sample_weight": weights}
        columns = {name: _column(values, name) for name, values in given.items() if values is not None}
        blocks, sizes = {"X": _blocks(X)}, {"X": _sizes(X)}
        for name, values in columns.items():
            blocks[name], sizes[name] = _blocks(values), _sizes(values)
            if len(blocks[name]) != len(blocks["X"]):
                raise ValueError(
                    f"{name} has {len(blocks[name])} partitions, X has {len(blocks['X'])}, expected the same rows in each"
                )
        unknown = [name for name in blocks if sizes[name] is None]
        if unknown:
            lengths = [dask.delayed(_tasks.length, pure=False)(block) for name in unknown for block in blocks[name]]
            found = iter(run(lengths))
            for name in unknown:
                sizes[name] = [next(found) for _ in blocks[name]]
        for name in columns:
            for part, (own, rows) in enumerate(zip(sizes[name], sizes["X"])):
                if own != rows:
                    raise ValueError(f"partition {part}: {name} has {own} rows, X has {rows}, expected the same rows in each")
        self.sizes = sizes["X"]
        if not sum(self.sizes):
            raise ValueError("X has no rows in any partition, expected at least 2")
        self.first = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)
        self.names, self.kinds = _columns(X)
        self.meta = X._meta if self.frame else None
        nothing = [None] * len(self.sizes)
        rows = zip(blocks["X"], *(blocks.get(name, nothing) for name in given))
        self._blocks = [_tasks.Block(*row) for row in rows]

    def __len__(self) -> int:
        return len(self.sizes)

    def with_rows(self):
        """Returns the number, the first row and the block of every partition that has rows."""
        for part, (size, first, block) in enumerate(zip(self.sizes, self.first, self._blocks)):
            if size:
                yield part, int(first), block


def _whole_rows(X):
    """Returns X with all columns in each partition."""
    if is_frame(X):
        return X
    if not isinstance(X, da.Array):
        raise TypeError(
            f"X is of type {type(X).__name__}, expected a dask array or dataframe; for other types use the estimators of sparsegp without Dask"
        )
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions, expected 2: a row per datum")
    return X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})


def _column(values, name: str):
    """Returns a dask vector, also from a matrix with one column."""
    if is_frame(values):
        if getattr(values, "ndim", 1) == 2:
            if len(values.columns) != 1:
                raise ValueError(f"{name} has {len(values.columns)} columns, expected 1: several targets are for DaskSparseGPMultiOutputRegressor")
            return values[values.columns[0]]
        return values
    if not isinstance(values, da.Array):
        raise TypeError(f"{name} is of type {type(values).__name__}, expected a dask array or series like X")
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} has shape {values.shape}, expected a vector: several targets are for DaskSparseGPMultiOutputRegressor")
    return values


def _blocks(values) -> list:
    return list(np.ravel(values.to_delayed()))


def _sizes(values) -> list | None:
    """Returns the number of rows of every partition, or None if the numbers are unknown."""
    if is_frame(values) or any(np.isnan(size) for size in values.chunks[0]):
        return None
    return [int(size) for size in values.chunks[0]]


def _columns(X) -> tuple[list, dict | None]:
    """Returns the names of the columns, and for a dataframe the kind of values of each column."""
    if not is_frame(X):
        if np.isnan(X.shape[1]):
            raise ValueError("X has an unknown number of columns, expected a known number: call X.compute_chunk_sizes()")
        return _tables.default_names(int(X.shape[1])), None
    names = _tables.frame_names(X._meta)
    for name, dtype in zip(names, X._meta.dtypes):
        if getattr(dtype, "ordered", False) and "__UNKNOWN_CATEGORIES__" in dtype.categories:
            raise ValueError(f"column {name!r} has unknown ordered categories, expected known categories: call X.categorize()")
    return names, {name: _tasks.kind(dtype) for name, dtype in zip(names, X._meta.dtypes)}
