"""Scorers of whole predictive distributions, for everything in scikit-learn that takes ``scoring=``; no distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._types import Column, Rows

__all__ = ["neg_log_predictive_density", "neg_crps"]


def _scored(estimator, name, X, y, others):
    """A score of every row by the estimator inside pipelines, searches and transformed targets, in the units of ``y``."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            if len(estimator.steps) > 1:
                X = estimator[:-1].transform(X)
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "regressor_") and hasattr(estimator, "transformer_"):
            return _of_transformed(estimator, name, X, y, others)
        else:
            return getattr(estimator, name)(X, y, **others)


def _of_transformed(estimator, name, X, y, others):
    """A score of a ``TransformedTargetRegressor``: densities by the slope of its transformation, CRPS by quantiles."""
    column = np.asarray(y, dtype=np.float64).reshape(-1, 1)
    transformed = estimator.transformer_.transform(column)[:, 0]
    if name == "log_density":
        step = 1e-6 * (np.abs(column) + np.std(column) + 1e-300)
        slope = (estimator.transformer_.transform(column + step) - estimator.transformer_.transform(column - step)) / (2 * step)
        return _scored(estimator.regressor_, name, X, transformed, others) + np.log(np.abs(slope[:, 0]))
    levels = (np.arange(200) + 0.5) / 200
    quantiles = _inner(estimator.regressor_, X).predict(_inside(estimator.regressor_, X), quantiles=levels, **others)[1]
    quantiles = np.column_stack([estimator.transformer_.inverse_transform(one[:, None])[:, 0] for one in quantiles.T])
    # The CRPS is twice the mean of the pinball losses over all levels (Gneiting & Raftery 2007).
    apart = column - quantiles
    return 2 * np.mean(np.maximum(levels * apart, (levels - 1) * apart), axis=1)


def _inner(estimator, X):
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def _inside(estimator, X):
    return estimator[:-1].transform(X) if hasattr(estimator, "steps") and len(estimator.steps) > 1 else X


def neg_log_predictive_density(estimator: Any, X: Rows, y: Column, **others: Any) -> float:
    """The negative of the loss −log p(y | x), averaged over rows: greater is better, as for all of scikit-learn's ``neg_`` scorers.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted estimator of this package, a pipeline that ends with one, or a search or ``TransformedTargetRegressor`` around it.
    X : array-like or table of shape (n, d)
        The inputs.
    y : array-like of shape (n,)
        The targets.
    **others
        Further arguments of ``log_density``, such as ``exposure``.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from sparsegp import BayesianLinearRegressor
    >>> from sparsegp.metrics import neg_log_predictive_density
    >>> X = np.arange(60.0)[:, None]
    >>> y = 2 * X[:, 0] + np.sin(X[:, 0])
    >>> model = BayesianLinearRegressor(likelihood="gaussian")
    >>> scores = cross_val_score(model, X, y, scoring=neg_log_predictive_density, cv=3)
    >>> scores.shape
    (3,)
    """
    return float(np.mean(_scored(estimator, "log_density", X, y, others)))


def neg_crps(estimator: Any, X: Rows, y: Column, **others: Any) -> float:
    """The negative of the mean continuous ranked probability score, in units of the target: greater is better.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted regressor of this package, a pipeline that ends with one, or a search or ``TransformedTargetRegressor`` around it.
    X : array-like or table of shape (n, d)
        The inputs.
    y : array-like of shape (n,)
        The targets.
    **others
        Further arguments of ``crps``, such as ``exposure``.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import BayesianLinearRegressor
    >>> from sparsegp.metrics import neg_crps
    >>> X = np.arange(60.0)[:, None]
    >>> y = 2 * X[:, 0] + np.sin(X[:, 0])
    >>> model = BayesianLinearRegressor(likelihood="gaussian").fit(X, y)
    >>> bool(-1.0 < neg_crps(model, X, y) < 0.0)
    True
    """
    return -float(np.mean(_scored(estimator, "crps", X, y, others)))

