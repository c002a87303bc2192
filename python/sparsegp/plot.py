"""Figures of fitted models with matplotlib: every function takes ``ax`` and returns Axes; no numbers of its own."""

from __future__ import annotations

import numpy as np

__all__ = ["fit", "calibration", "trace", "residuals", "comparison"]

#: The shades of bands, from the widest on.
_BANDS = ((0.95, 0.18), (0.5, 0.32))


def _axes(ax):
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'sparsegp[plot]'") from None
    return plt.subplots(layout="constrained")[1]


def _column(X, feature):
    """A column of an array or a table, and its name."""
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        names = list(getattr(X, "column_names", None) or X.columns)
        name = names[feature] if isinstance(feature, (int, np.integer)) else feature
        return np.asarray(X[name], dtype=np.float64), str(name)
    return np.asarray(X, dtype=np.float64)[:, feature], f"x{feature}"


def fit(model, X, y=None, *, feature=0, ax=None):
    """Plot the predictive mean with bands of 50 % and 95 %, along one input.

    Parameters
    ----------
    model : regressor
        A fitted regressor of this package.
    X : array-like or table of shape (n, d)
        The rows to plot at.
    y : array-like of shape (n,), optional
        Their targets.
    feature : int or str, default=0
        The input of the horizontal axis.
    ax : matplotlib Axes, optional
        Where to plot.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> import sparsegp.plot
    >>> X = np.linspace(0, 10, 100)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none").fit(X, y)
    >>> ax = sparsegp.plot.fit(model, X, y)
    >>> ax.get_xlabel()
    'x0'
    """
    ax = _axes(ax)
    along, name = _column(X, feature)
    levels = [level for mass, _ in _BANDS for level in (0.5 - mass / 2, 0.5 + mass / 2)]
    mean, quantiles = model.predict(X, quantiles=levels)
    order = np.argsort(along, kind="stable")
    for band, (mass, shade) in enumerate(_BANDS):
        low, high = quantiles[order, 2 * band], quantiles[order, 2 * band + 1]
        ax.fill_between(along[order], low, high, alpha=shade, color="C0", linewidth=0, label=f"{100 * mass:g} %")
    ax.plot(along[order], mean[order], color="C0", label="mean")
    if y is not None:
        ax.plot(along, np.asarray(y, dtype=np.float64), ".", color="0.2", markersize=3, label="data")
    ax.set_xlabel(name)
    ax.set_ylabel(model._columns["target"])
    ax.legend(frameon=False)
    return ax


def calibration(model, X, y, *, bins=10, ax=None):
    """Plot how often targets are where predictions say: observed against predicted probabilities.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package.
    X : array-like or table of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        Their targets.
    bins : int, default=10
        For classifiers the number of bins of the probability of the predicted class.
    ax : matplotlib Axes, optional
        Where to plot.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    if hasattr(model, "classes_"):
        proba = model.predict_proba(X)
        sure = proba.max(axis=1)
        right = model.classes_[proba.argmax(axis=1)] == np.asarray(y)
        place = np.minimum((sure * bins).astype(int), bins - 1)
        used = np.unique(place)
        ax.plot(
            [sure[place == bin].mean() for bin in used], [right[place == bin].mean() for bin in used], "o-", color="C0"
        )
        ax.set_xlabel("probability of the predicted class")
        ax.set_ylabel("share of right predictions")
        return ax
    pit = model.pit(X, y)
    levels = np.linspace(0, 1, 101)
    # A discrete target's jump counts by the part of it that is below the level.
    low, high = pit[:, :1], pit[:, 1:]
    width = np.where(high > low, high - low, 1.0)
    below = np.where(high > low, np.clip((levels - low) / width, 0.0, 1.0), levels >= high)
    ax.plot(levels, below.mean(axis=0), color="C0")
    ax.set_xlabel("predicted probability of less")
    ax.set_ylabel("observed share of rows")
    return ax


def trace(model, *, ax=None):
    """Plot the objective, and the score of validation rows where there are some, against epochs.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package.
    ax : matplotlib Axes, optional
        Where to plot.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    history = model.history_
    ax.plot(history["epoch"], history["objective"], color="C0", label="objective per row")
    if np.isfinite(history["validation_nll"]).any():
        ax.plot(history["epoch"], history["validation_nll"], color="C1", label="validation NLL")
        ax.legend(frameon=False)
    ax.set_xlabel("epoch")
    ax.set_ylabel("objective per row")
    return ax


def residuals(model, X, y, *, ax=None):
    """Plot standardised residuals against predicted means, with the lines that 95 % of them should be within.

    Parameters
    ----------
    model : regressor
        A fitted regressor of this package.
    X : array-like or table of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        Their targets.
    ax : matplotlib Axes, optional
        Where to plot.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    mean, std = model.predict(X, return_std=True)
    ax.axhline(0.0, color="0.6", linewidth=1)
    for line in (-1.96, 1.96):
        ax.axhline(line, color="0.6", linewidth=1, linestyle="--")
    ax.plot(mean, (np.asarray(y, dtype=np.float64) - mean) / std, ".", color="C0", markersize=3)
    ax.set_xlabel("predicted mean")
    ax.set_ylabel("residual / standard deviation")
    return ax


def comparison(compared, figure="nll", *, ax=None):
    """Plot a figure of test rows against the number of training rows, a line per objective.

    Parameters
    ----------
    compared : Comparison
        What :func:`sparsegp.compare` returned.
    figure : str, default="nll"
        The figure, by its name in the results.
    ax : matplotlib Axes, optional
        Where to plot.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    results = compared.results
    fits = np.array([role != "grid" for role in results["role"]])
    for word in dict.fromkeys(results["objective"].tolist()):
        own = fits & (results["objective"] == word)
        sizes = np.unique(results["train_size"][own])
        values = [results[figure][own & (results["train_size"] == size)] for size in sizes]
        error = [np.std(each, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else 0.0 for each in values]
        ax.errorbar(sizes, [np.mean(each) for each in values], yerr=error, marker="o", capsize=3, label=str(word))
    ax.set_xlabel("training rows")
    ax.set_ylabel(f"test {figure}")
    ax.legend(frameon=False)
    return ax
