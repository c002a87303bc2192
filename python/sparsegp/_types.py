"""The types of public arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

#: Numeric results.
Array: TypeAlias = NDArray[np.float64]

#: Rows: an array, a sparse matrix, or a pandas, polars or Arrow table, whose types depend on what is installed.
Rows: TypeAlias = Any

#: Targets, weights or exposures.
Column: TypeAlias = Any

Seed: TypeAlias = int | np.integer[Any] | RandomState | None
Texts: TypeAlias = str | Sequence[str] | None
Callback: TypeAlias = Callable[[dict[str, Any]], object]
Objective: TypeAlias = Literal["elbo", "dlm-log", "dlm-square", "vfe", "fitc"]
Hyper: TypeAlias = Literal["joint", "dual", "alternating", "collapsed", "fixed"]
InputWarp: TypeAlias = Literal["none", "normal-scores"]
HyperPosterior: TypeAlias = Literal["none", "auto", "laplace"]
TargetWarp: TypeAlias = Literal["none", "log", "softplus"]
#: A word, an estimator with ``fit`` and ``predict``, or a function of the rows.
Mean: TypeAlias = Any
ClassWeight: TypeAlias = Mapping[Any, float] | Literal["balanced"] | None

__all__ = [
    "Array",
    "ArrayLike",
    "Callback",
    "ClassWeight",
    "Column",
    "Hyper",
    "HyperPosterior",
    "InputWarp",
    "Mean",
    "Objective",
    "Rows",
    "Seed",
    "TargetWarp",
    "Texts",
]
