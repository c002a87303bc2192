"""The estimator of several targets on Dask. The estimator of one target fits each target separately, to the rows that have it."""

from __future__ import annotations

import dask.array as da
import numpy as np
from sklearn.base import RegressorMixin, clone

from .._attributes import fitted_part
from .._outputs import SparseGPMultiOutputRegressor
from ._estimators import DaskSparseGPRegressor, _DaskEstimator, _Numbers
from ._partitions import is_frame


class DaskSparseGPMultiOutputRegressor(RegressorMixin, _DaskEstimator):
    """Sparse Gaussian process regression of several targets on dask arrays and dataframes, a model for each.

    If a target is missing (NaN) in a row, the other targets of the row are still used.

    Parameters
    ----------
    estimator : DaskSparseGPRegressor or DaskSparseGPCountRegressor, optional
        The estimator whose parameters and cluster are used; ``DaskSparseGPRegressor()`` by default. Its ``checkpoint``
        is the prefix of a file name for each target.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted estimator of every target, with quantiles and all other methods.
    local_ : SparseGPMultiOutputRegressor
        The fitted estimator without Dask.
    """

    _more = ("estimator",)

    def __init__(self, estimator=None):
        self.estimator = estimator

    def fit(self, X, y, sample_weight=None):
        """Fit the models, one after the other.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs; columns of text are categories.
        y : dask array or dataframe of shape (n, targets)
            The targets, in the same partitions, with NaN for a missing value.
        sample_weight : dask array or series of shape (n,), optional
            The weights of the rows' losses.

        Returns
        -------
        self
        """
        how = DaskSparseGPRegressor() if self.estimator is None else self.estimator
        if not isinstance(how, _Numbers):
            raise TypeError(f"estimator is {how!r}, expected a regressor of sparsegp.dask")
        estimators, targets = [], _targets(y)
        for name, column in targets:
            estimator = clone(how)
            if how.checkpoint is not None:
                estimator.checkpoint = f"{how.checkpoint}.{name}"
            estimators.append(estimator._fit(*_known(column, X, column, sample_weight), target=name))
        local = SparseGPMultiOutputRegressor(how._of(**how._local_params()), outputs="own")
        local.estimators_, local.outputs_ = [estimator.local_ for estimator in estimators], "own"
        self.estimators_, self.local_ = estimators, local._with([name for name, _ in targets])
        return self

    def predict(self, X, return_std=False):
        """Predict the targets, lazily.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs.
        return_std : bool, default=False
            Return the standard deviations of the targets, noise included.

        Returns
        -------
        mean : dask array or dataframe of shape (n, targets)
            The means, in the partitions of X. They are returned alone, not in a tuple, unless another argument adds a
            result.
        std : dask array or dataframe of shape (n, targets)
            With ``return_std``.
        """
        targets = self._fitted().target_names_
        means, deviations = ([f"{what}_{name}" for name in targets] for what in ("mean", "std"))
        found = self._lazily(X, "predict", means + deviations, return_std=True)
        mean, std = (found[means], found[deviations]) if is_frame(X) else (found[:, : len(means)], found[:, len(means) :])
        return (mean, std) if return_std else mean

    def score(self, X, y, sample_weight=None) -> float:
        """The coefficient of determination R² of the predicted means, averaged over targets; missing targets are left out.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs.
        y : dask array or dataframe of shape (n, targets)
            The targets.
        sample_weight : dask array or series of shape (n,), optional
            The weights of the rows' losses.

        Returns
        -------
        float
        """
        estimators, targets = fitted_part(self, "estimators_"), _targets(y)
        if len(targets) != len(estimators):
            raise ValueError(f"y has {len(targets)} columns, expected {len(estimators)}, one for each target of the fit")
        scores = [
            estimator.score(*_known(column, X, column, sample_weight)) for estimator, (_, column) in zip(estimators, targets)
        ]
        return float(np.mean(scores))


def _targets(y) -> list:
    """Returns the name and the column of every target."""
    if is_frame(y) and getattr(y, "ndim", 1) == 2:
        return [(str(name), y[name]) for name in y.columns]
    if isinstance(y, da.Array) and y.ndim == 2 and not np.isnan(y.shape[1]):
        return [(f"y{p}", y[:, p]) for p in range(y.shape[1])]
    shape = f"shape {y.shape}" if isinstance(y, da.Array) else f"type {type(y).__name__}"
    raise ValueError(f"y is of {shape}, expected a dask dataframe or a dask array of two dimensions, with a column for each target")


def _known(column, *collections) -> list:
    """Returns the rows of collections at which a target is known. The collections have the same partitions."""
    return [None if values is None else _where(values, column) for values in collections]


def _where(values, column):
    if is_frame(values):
        return values.map_partitions(_rows_with, column, meta=values._meta, align_dataframes=False)
    return values[~da.isnan(column)]


def _rows_with(values, column):
    return values[column.notna().to_numpy()]
