"""Estimators on Dask collections: training on the workers that hold the partitions, and lazy predictions.

``DaskSparseGPRegressor``, ``DaskSparseGPClassifier``, ``DaskSparseGPCountRegressor`` and
``DaskSparseGPMultiOutputRegressor`` are the estimators of :mod:`sparsegp` for dask arrays and dataframes, with the same
parameters. Dask schedules the work, repeats the work of lost workers and transfers the data. Install the dependencies with
``pip install "sparsegp[dask]"``.
"""

from __future__ import annotations

try:
    import dask  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError(f"sparsegp.dask needs dask and distributed ({error}): pip install 'sparsegp[dask]'") from None

from ._estimators import DaskSparseGPClassifier, DaskSparseGPCountRegressor, DaskSparseGPRegressor
from ._outputs import DaskSparseGPMultiOutputRegressor

__all__ = ["DaskSparseGPClassifier", "DaskSparseGPCountRegressor", "DaskSparseGPMultiOutputRegressor", "DaskSparseGPRegressor"]
