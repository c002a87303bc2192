"""Scorers of whole predictive distributions, for everything in scikit-learn that takes ``scoring=``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._types import Column, Rows

__all__ = ["SCORERS", "interval_coverage", "neg_coverage_error", "neg_crps", "neg_interval_score", "neg_log_predictive_density"]


def _layer(estimator, X):
    """Returns the estimator inside pipelines and searches, and the inputs that reach it."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            if len(estimator.steps) > 1:
                X = estimator[:-1].transform(X)
            estimator = estimator.steps[-1][1]
        else:
            return estimator, X


def _transforms_target(estimator) -> bool:
    return hasattr(estimator, "regressor_") and hasattr(estimator, "transformer_")


def _no_regressor(estimator, why):
    """Returns the error for an estimator that a scorer of regressors cannot score."""
    advice = "score classes by neg_log_predictive_density, or by scoring='neg_brier_score'"
    return TypeError(f"{type(estimator).__name__} {why}, expected a regressor of this package; {advice}")


def _scored(estimator, name, X, y, others):
    """Returns a score of every row by the estimator inside pipelines, searches and transformed targets, in the units of ``y``."""
    estimator, X = _layer(estimator, X)
    if _transforms_target(estimator):
        return _of_transformed(estimator, name, X, y, others)
    if not hasattr(estimator, name):
        raise _no_regressor(estimator, f"has no {name}")
    return getattr(estimator, name)(X, y, **others)


def _of_transformed(estimator, name, X, y, others):
    """Returns a score of a ``TransformedTargetRegressor``: densities use the slope of its transformation, and the CRPS
    uses quantiles."""
    column = np.asarray(y, dtype=np.float64).reshape(-1, 1)
    if name == "log_density":
        transformed = estimator.transformer_.transform(column)[:, 0]
        step = 1e-6 * (np.abs(column) + np.std(column) + 1e-300)
        slope = (estimator.transformer_.transform(column + step) - estimator.transformer_.transform(column - step)) / (2 * step)
        return _scored(estimator.regressor_, name, X, transformed, others) + np.log(np.abs(slope[:, 0]))
    levels = (np.arange(200) + 0.5) / 200
    # The CRPS is twice the mean of the pinball losses over all levels (Gneiting & Raftery 2007).
    apart = column - _quantiles(estimator, X, levels, others)
    return 2 * np.mean(np.maximum(levels * apart, (levels - 1) * apart), axis=1)


def _quantiles(estimator, X, levels, others):
    """Quantiles of the target, of shape (rows, levels), in its units."""
    estimator, X = _layer(estimator, X)
    if _transforms_target(estimator):
        inner = _quantiles(estimator.regressor_, X, levels, others)
        # A decreasing transformation reverses their order.
        return np.sort(np.column_stack([estimator.transformer_.inverse_transform(one[:, None])[:, 0] for one in inner.T]), axis=1)
    if not hasattr(estimator, "crps"):
        raise _no_regressor(estimator, "predicts no quantiles")
    return estimator.predict(X, quantiles=list(levels), **others)[1]


def _interval(estimator, X, y, level, others):
    """Returns the targets, and both ends of the central intervals with this probability."""
    if not 0 < level < 1:
        raise ValueError(f"level is {level!r}, expected a probability between 0 and 1")
    ends = _quantiles(estimator, X, (0.5 - 0.5 * level, 0.5 + 0.5 * level), others)
    y = np.asarray(y, dtype=np.float64)
    if y.ndim > 1 and y.shape[1] > 1 or ends.ndim > 2:
        raise ValueError("the target has several columns, expected one: score each output separately")
    return y.ravel(), ends[:, 0], ends[:, 1]


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


def neg_interval_score(estimator: Any, X: Rows, y: Column, *, level: float = 0.95, **others: Any) -> float:
    """The negative of the mean interval score of central intervals, in units of the target: greater is better.

    The interval score is the width of the interval, plus 2/(1 − level) times the distance of targets outside (Gneiting & Raftery
    2007, eq. 43). It rewards intervals that are narrow and hold the targets.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted regressor of this package, a pipeline that ends with one, or a search or ``TransformedTargetRegressor`` around it.
    X : array-like or table of shape (n, d)
        The inputs.
    y : array-like of shape (n,)
        The targets.
    level : float, default=0.95
        The probability of the interval; for another one in a search, pass ``functools.partial(neg_interval_score, level=0.8)``.
    **others
        Further arguments of ``predict``, such as ``exposure``.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import BayesianLinearRegressor
    >>> from sparsegp.metrics import neg_interval_score
    >>> X = np.arange(60.0)[:, None]
    >>> y = 2 * X[:, 0] + np.sin(X[:, 0])
    >>> model = BayesianLinearRegressor(likelihood="gaussian").fit(X, y)
    >>> bool(-10.0 < neg_interval_score(model, X, y) < 0.0)
    True
    """
    y, low, high = _interval(estimator, X, y, level, others)
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return -float(np.mean(high - low + 2 / (1 - level) * outside))


def interval_coverage(estimator: Any, X: Rows, y: Column, *, level: float = 0.95, **others: Any) -> float:
    """The share of targets inside central intervals, which should equal ``level``.

    Use it to report calibration, as in ``cross_validate``. A search that maximises it prefers intervals that are too
    wide; use :func:`neg_interval_score` in searches instead.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted regressor of this package, a pipeline that ends with one, or a search or ``TransformedTargetRegressor`` around it.
    X : array-like or table of shape (n, d)
        The inputs.
    y : array-like of shape (n,)
        The targets.
    level : float, default=0.95
        The probability of the interval; for another one in a search, pass ``functools.partial(interval_coverage, level=0.8)``.
    **others
        Further arguments of ``predict``, such as ``exposure``.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import BayesianLinearRegressor
    >>> from sparsegp.metrics import interval_coverage
    >>> X = np.arange(60.0)[:, None]
    >>> y = 2 * X[:, 0] + np.sin(X[:, 0])
    >>> model = BayesianLinearRegressor(likelihood="gaussian").fit(X, y)
    >>> bool(0.8 < interval_coverage(model, X, y) <= 1.0)
    True
    """
    y, low, high = _interval(estimator, X, y, level, others)
    return float(np.mean((low <= y) & (y <= high)))


def neg_coverage_error(estimator: Any, X: Rows, y: Column, *, level: float = 0.95, **others: Any) -> float:
    """The negative of the distance between ``level`` and the share of targets inside central intervals: greater is better.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted regressor of this package, a pipeline that ends with one, or a search or ``TransformedTargetRegressor`` around it.
    X : array-like or table of shape (n, d)
        The inputs.
    y : array-like of shape (n,)
        The targets.
    level : float, default=0.95
        The probability of the interval; for another one in a search, pass ``functools.partial(neg_coverage_error, level=0.8)``.
    **others
        Further arguments of ``predict``, such as ``exposure``.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import BayesianLinearRegressor
    >>> from sparsegp.metrics import neg_coverage_error
    >>> X = np.arange(60.0)[:, None]
    >>> y = 2 * X[:, 0] + np.sin(X[:, 0])
    >>> model = BayesianLinearRegressor(likelihood="gaussian").fit(X, y)
    >>> bool(-0.2 < neg_coverage_error(model, X, y) <= 0.0)
    True
    """
    return -abs(interval_coverage(estimator, X, y, level=level, **others) - level)


#: The scorers of regressors by name, to score several at once: ``cross_validate(model, X, y, scoring=SCORERS)``.
SCORERS: dict[str, Callable[..., float]] = {
    "neg_log_predictive_density": neg_log_predictive_density,
    "neg_crps": neg_crps,
    "neg_interval_score": neg_interval_score,
    "interval_coverage": interval_coverage,
    "neg_coverage_error": neg_coverage_error,
}
