"""Scorers of whole predictive distributions, for everything in scikit-learn that takes ``scoring=``; no distributions."""

from __future__ import annotations

import numpy as np

__all__ = ["neg_log_predictive_density", "neg_crps"]


def _at_its_end(estimator, X):
    """The last step of a pipeline, with the inputs as it gets them."""
    while hasattr(estimator, "steps"):
        if len(estimator.steps) > 1:
            X = estimator[:-1].transform(X)
        estimator = estimator.steps[-1][1]
    return estimator, X


def neg_log_predictive_density(estimator, X, y, **others) -> float:
    """The negative of the loss −log p(y | x), averaged over rows: greater is better, as for all of scikit-learn's ``neg_`` scorers.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted estimator of this package, or a pipeline that ends with one.
    X : array-like or table of shape (n, d)
        The inputs.
    y : array-like of shape (n,)
        The targets.
    **others
        What else ``log_density`` takes, such as ``exposure``.

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
    estimator, X = _at_its_end(estimator, X)
    return float(np.mean(estimator.log_density(X, y, **others)))


def neg_crps(estimator, X, y, **others) -> float:
    """The negative of the mean continuous ranked probability score, in units of the target: greater is better.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted regressor of this package, or a pipeline that ends with one.
    X : array-like or table of shape (n, d)
        The inputs.
    y : array-like of shape (n,)
        The targets.
    **others
        What else ``crps`` takes, such as ``exposure``.

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
    estimator, X = _at_its_end(estimator, X)
    return -float(np.mean(estimator.crps(X, y, **others)))
