"""Estimators on Dask collections: training on partitions wherever they are, lazy predictions.

``DaskSparseGPRegressor``, ``DaskSparseGPClassifier``, ``DaskSparseGPCountRegressor`` and ``DaskSparseGPMultiOutputRegressor`` are for dask
arrays and dataframes what the estimators of :mod:`sparsegp` are for arrays in memory, with the same parameters. Dask places the work,
repeats what a lost worker had and moves the bytes; needs ``pip install "sparsegp[dask]"``.
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
