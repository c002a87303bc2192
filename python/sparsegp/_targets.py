"""Checks targets for the engine and keeps their names."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d

from ._tables import unmasked


def checked_target(y, *, numeric: bool) -> np.ndarray:
    """A target as a vector, with scikit-learn's messages."""
    y = column_or_1d(unmasked(y), warn=True)
    if numeric and y.dtype.kind == "O":
        y = y.astype(np.float64)
    if y.dtype.kind in "OUSTbM":
        return np.asarray(y)
    return check_array(y, ensure_2d=False, dtype="numeric", input_name="y", ensure_min_samples=1)


def named_target(y, *, numeric: bool):
    """A checked target with its name, if it has one."""
    if y is None:
        return None
    name = getattr(y, "name", None)
    checked = checked_target(y, numeric=numeric)
    return checked if not isinstance(name, str) or not name else _Named(checked, name)


class _Named(np.ndarray):
    """A target with a name."""

    def __new__(cls, values, name):
        array = np.asarray(values).view(cls)
        array.name = name
        return array

    def __array_finalize__(self, other):
        self.name = getattr(other, "name", None)
