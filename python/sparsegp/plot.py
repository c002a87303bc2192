"""Figures of fitted models with matplotlib: every function takes ``ax`` and returns Axes; numbers come from the estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._maps import map
from ._types import Column, Rows, Seed

__all__ = [
    "fit",
    "calibration",
    "trace",
    "residuals",
    "relevance",
    "partial_dependence",
    "decision_regions",
    "map",
    "noise",
    "comparison",
]

#: The probabilities of the bands and their shades, widest band first.
_BANDS = ((0.95, 0.18), (0.5, 0.32))


def _axes(ax):
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'sparsegp[plot]'") from None
    return plt.subplots(layout="constrained")[1]


def _is_table(X) -> bool:
    return hasattr(X, "columns") or hasattr(X, "column_names")


def _names(X) -> list:
    """Returns the names of the columns of an array or a table."""
    if _is_table(X):
        return [str(name) for name in (getattr(X, "column_names", None) or X.columns)]
    return [f"x{place}" for place in range(np.shape(X)[1])]


def _cells(X, feature):
    """A column of an array or a table, and its name."""
    names = _names(X)
    if not isinstance(feature, (int, np.integer)) and str(feature) not in names:
        raise ValueError(f"there is no input {feature!r}, expected one of {', '.join(names)}")
    place = feature if isinstance(feature, (int, np.integer)) else names.index(str(feature))
    if not -len(names) <= place < len(names):
        raise ValueError(f"there is no input {feature}, X has {len(names)}")
    if not _is_table(X):
        return np.asarray(X, dtype=np.float64)[:, place], names[place]
    return np.asarray(X[X.columns[place] if hasattr(X, "iloc") else names[place]]), names[place]


def _column(X, feature):
    """A column of an array or a table as numbers, and its name."""
    column, name = _cells(X, feature)
    return np.asarray(column, dtype=np.float64), name


def _rows(X, places):
    """Some rows of an array or a table."""
    if hasattr(X, "iloc"):
        return X.iloc[places]
    if hasattr(X, "take"):
        return X.take(places, axis=0) if isinstance(X, np.ndarray) else X.take(places)
    return X[places] if _is_table(X) else np.asarray(X)[places]


def _some(X, most: int):
    """Returns at most ``most`` rows, evenly spaced."""
    count = X.shape[0] if hasattr(X, "shape") else len(X)
    return X if count <= most else _rows(X, np.linspace(0, count - 1, most).astype(int))


def _with_column(X, place: int, change):
    """A copy of an array or a table with one column changed."""
    if hasattr(X, "isetitem"):
        X = X.copy()
        X.isetitem(place, change(X.iloc[:, place].to_numpy()))
        return X
    if hasattr(X, "with_columns"):
        old = X.to_series(place)
        return X.with_columns(type(old)(old.name, change(old.to_numpy())))
    if hasattr(X, "set_column"):
        values = change(X.column(place).to_numpy())
        return X.set_column(place, X.column_names[place], [values])
    X = np.array(X, dtype=np.float64)
    X[:, place] = change(X[:, place])
    return X


def fit(model: Any, X: Rows, y: Column = None, *, feature: int | str = 0, ax: Any = None) -> Any:
    """Plot the predictive mean with bands of 50 % and 95 %, along one input. Further inputs stay at their values in the row whose
    input is the median.

    Parameters
    ----------
    model : regressor
        A fitted regressor of this package.
    X : array-like or table of shape (n, d)
        The rows to plot at.
    y : array-like of shape (n,), optional
        The targets of these rows.
    feature : int or str, default=0
        The input of the horizontal axis.
    ax : matplotlib Axes, optional
        The axes to plot on; new ones by default.

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
    line, rows = along, X
    if len(_names(X)) > 1:
        # With several inputs, the other inputs stay at the values of the middle row, because the means of different
        # rows would not form a line.
        line = np.linspace(np.nanmin(along), np.nanmax(along), 200)
        place = feature if isinstance(feature, (int, np.integer)) else _names(X).index(str(feature))
        middle = np.full(len(line), np.argsort(along, kind="stable")[len(along) // 2])
        rows = _with_column(_rows(X, middle), place % len(_names(X)), lambda _: line)
    mean, quantiles = model.predict(rows, quantiles=levels)
    order = np.argsort(line, kind="stable")
    for band, (mass, shade) in enumerate(_BANDS):
        low, high = quantiles[order, 2 * band], quantiles[order, 2 * band + 1]
        ax.fill_between(line[order], low, high, alpha=shade, color="C0", linewidth=0, label=f"{100 * mass:g} %")
    ax.plot(line[order], mean[order], color="C0", label="mean")
    if y is not None:
        ax.plot(along, np.asarray(y, dtype=np.float64), ".", color="0.2", markersize=3, label="data")
    ax.set_xlabel(name)
    ax.set_ylabel(model._columns["target"])
    ax.legend(frameon=False)
    return ax


def calibration(model: Any, X: Rows, y: Column, *, bins: int = 10, ax: Any = None) -> Any:
    """Plot observed against predicted probabilities; calibrated predictions lie on the diagonal.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package.
    X : array-like or table of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        The targets of these rows.
    bins : int, default=10
        For classifiers, the number of bins of the predicted probability.
    ax : matplotlib Axes, optional
        The axes to plot on; new ones by default.

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
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
    >>> model = sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none").fit(X, y)
    >>> sparsegp.plot.calibration(model, X, y).get_ylabel()
    'observed share of rows'
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
    # The jump of a discrete target counts with the share of the jump below the level.
    low, high = pit[:, :1], pit[:, 1:]
    width = np.where(high > low, high - low, 1.0)
    below = np.where(high > low, np.clip((levels - low) / width, 0.0, 1.0), levels >= high)
    ax.plot(levels, below.mean(axis=0), color="C0")
    ax.set_xlabel("predicted probability of less")
    ax.set_ylabel("observed share of rows")
    return ax


def trace(model: Any, *, ax: Any = None) -> Any:
    """Plot the objective, and the score of validation rows if there are any, against epochs.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package.
    ax : matplotlib Axes, optional
        The axes to plot on; new ones by default.

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
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
    >>> model = sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none").fit(X, y)
    >>> sparsegp.plot.trace(model).get_xlabel()
    'epoch'
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


def residuals(model: Any, X: Rows, y: Column, *, ax: Any = None) -> Any:
    """Plot standardised residuals against predicted means; 95 % of them should lie between the dashed lines.

    Parameters
    ----------
    model : regressor
        A fitted regressor of this package.
    X : array-like or table of shape (n, d)
        The rows.
    y : array-like of shape (n,)
        The targets of these rows.
    ax : matplotlib Axes, optional
        The axes to plot on; new ones by default.

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
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
    >>> model = sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none").fit(X, y)
    >>> sparsegp.plot.residuals(model, X, y).get_xlabel()
    'predicted mean'
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


def relevance(model: Any, X: Rows = None, y: Column = None, *, repeats: int = 5, random_state: Seed = 0, ax: Any = None) -> Any:
    """Plot the relevance of each input: its inverse lengthscale, or the rise of the loss when its values are permuted.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package.
    X : array-like or table of shape (n, d), optional
        Rows, preferably rows that the model was not fitted to. With them, the relevance of an input is the rise of the mean NLL
        when its values are permuted among the rows. Without them, it is the inverse lengthscale on the scale the model sees.
    y : array-like of shape (n,), optional
        The targets of these rows.
    repeats : int, default=5
        The number of permutations. Bars show the means and lines the standard deviations over them.
    random_state : int, default=0
        The seed of the permutations.
    ax : matplotlib Axes, optional
        The axes to plot on; new ones by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> import sparsegp.plot
    >>> X = np.random.default_rng(0).uniform(0, 5, (100, 2))
    >>> model = sparsegp.SparseGPRegressor("rbf(ard)", n_inducing=20, auto="none").fit(X, np.sin(X[:, 1]))
    >>> [bool(bar.get_width() > 0.5) for bar in sparsegp.plot.relevance(model).patches]
    [False, True]
    >>> ax = sparsegp.plot.relevance(model, X, np.sin(X[:, 1]))
    >>> ax.get_xlabel()
    'rise of the mean NLL'
    """
    ax = _axes(ax)
    if X is None:
        names, heights, error = *_inverse_lengthscales(model), None
        ax.set_xlabel("1 / lengthscale")
    elif y is None:
        raise ValueError("relevance by permutation needs y too")
    else:
        names, random = _names(X), np.random.default_rng(random_state)
        before = np.mean(model.log_density(X, y))

        def loss(place):
            order = random.permutation(len(y))
            return before - np.mean(model.log_density(_with_column(X, place, lambda column: column[order]), y))

        losses = np.array([[loss(place) for _ in range(repeats)] for place in range(len(names))])
        heights, error = losses.mean(axis=1), losses.std(axis=1)
        ax.set_xlabel("rise of the mean NLL")
    ax.barh(np.arange(len(names)), heights, xerr=error, color="C0")
    ax.set_yticks(np.arange(len(names)), names)
    ax.invert_yaxis()
    return ax


def _inverse_lengthscales(model):
    """Returns the names of inputs, and for each the largest inverse lengthscale among the pieces of the kernel."""
    names, kernel = model._columns["inputs"], model.kernel_
    pieces: dict = {}
    for name, value in (kernel.parameters if kernel is not None else {}).items():
        piece, dot, _ = name.partition("lengthscales")
        if dot:
            pieces.setdefault(piece, []).append(value)
    found = [1 / np.array(values) for values in pieces.values() if len(values) == len(names)]
    if not found:
        raise ValueError("the kernel has no lengthscale for every input: give X and y for relevance by permutation")
    return names, np.max(found, axis=0)


def partial_dependence(model: Any, X: Rows, feature: int | str = 0, *, points: int = 40, mass: float = 0.9, rows: int = 200, ax: Any = None) -> Any:
    """Plot how predictions depend on one input: in every row the input takes each value in turn, and predictions are averaged over rows.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package.
    X : array-like or table of shape (n, d)
        The rows.
    feature : int or str, default=0
        The input.
    points : int, default=40
        The number of values of a numeric input, from its minimum to its maximum. For a category, every level is used.
    mass : float, default=0.9
        The probability of the intervals. For regressors, the ends of the intervals of the target are averaged over
        rows. For classifiers, an interval contains this share of the predicted probabilities of the rows.
    rows : int, default=200
        The maximum number of rows to average over, evenly spaced in ``X``.
    ax : matplotlib Axes, optional
        The axes to plot on; new ones by default.

    Returns
    -------
    matplotlib Axes
        With the predicted mean or, for classifiers, the probability of the last class in ``classes_``.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> import sparsegp.plot
    >>> X = np.random.default_rng(0).uniform(0, 5, (100, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "above", "below")
    >>> model = sparsegp.SparseGPClassifier("rbf", n_inducing=15, auto="none").fit(X, y)
    >>> sparsegp.plot.partial_dependence(model, X, 0, points=10).get_ylabel()
    'probability of below'
    """
    ax = _axes(ax)
    column, name = _cells(X, feature)
    place = _names(X).index(name)
    X = _some(X, rows)
    is_number = column.dtype.kind in "iuf"
    values = np.linspace(column.min(), column.max(), points) if is_number else np.unique(column.astype(str))
    ends = [0.5 - mass / 2, 0.5 + mass / 2]

    def at(value):
        table = _with_column(X, place, lambda cells: np.full(len(cells), value))
        if hasattr(model, "classes_"):
            proba = model.predict_proba(table)[:, -1]
            return proba.mean(), *np.quantile(proba, ends)
        mean, quantiles = model.predict(table, quantiles=ends)
        return mean.mean(), *quantiles.mean(axis=0)

    mean, low, high = np.array([at(value) for value in values]).T
    if is_number:
        ax.fill_between(values, low, high, alpha=_BANDS[0][1], color="C0", linewidth=0, label=f"{100 * mass:g} %")
        ax.plot(values, mean, color="C0", label="mean over rows")
    else:
        ax.errorbar(values, mean, yerr=np.abs([mean - low, high - mean]), fmt="o", capsize=3, label=f"mean and {100 * mass:g} %")
    ax.set_xlabel(name)
    ax.set_ylabel(f"probability of {model.classes_[-1]}" if hasattr(model, "classes_") else model._columns["target"])
    ax.legend(frameon=False)
    return ax


def decision_regions(model: Any, X: Rows, y: Column = None, *, features: tuple[int | str, int | str] = (0, 1), points: int = 80, ax: Any = None) -> Any:
    """Plot the predicted class over two inputs, darker for higher probabilities. Other inputs keep their values in the middle row.

    Parameters
    ----------
    model : classifier
        A fitted classifier of this package.
    X : array-like or table of shape (n, d)
        The rows.
    y : array-like of shape (n,), optional
        Their classes.
    features : pair of int or str, default=(0, 1)
        The inputs of the axes, both of them numbers.
    points : int, default=80
        The number of values of each input.
    ax : matplotlib Axes, optional
        The axes to plot on; new ones by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> import sparsegp.plot
    >>> X = np.random.default_rng(0).uniform(0, 5, (100, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "above", "below")
    >>> model = sparsegp.SparseGPClassifier("rbf", n_inducing=15, auto="none").fit(X, y)
    >>> ax = sparsegp.plot.decision_regions(model, X, y, points=20)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['above', 'below']
    """
    ax = _axes(ax)
    (across, x_name), (up, y_name) = (_column(X, feature) for feature in features)
    names = _names(X)
    grids = [np.linspace(column.min(), column.max(), points) for column in (across, up)]
    mesh = [part.ravel() for part in np.meshgrid(*grids)]
    # The row in the middle of the two inputs, so that the other inputs have values that occur in the data.
    middle = np.argmin(sum(((column - np.median(column)) / (np.ptp(column) or 1.0)) ** 2 for column in (across, up)))
    table = _rows(X, np.full(points * points, middle))
    for name, values in zip((x_name, y_name), mesh):
        table = _with_column(table, names.index(name), lambda cells, values=values: values)
    proba = model.predict_proba(table)
    winner, surest = proba.argmax(axis=1), proba.max(axis=1)
    chance = 1 / len(model.classes_)
    shape, extent = (points, points), (grids[0][0], grids[0][-1], grids[1][0], grids[1][-1])
    for place, label in enumerate(model.classes_):
        alpha = np.where(winner == place, 0.1 + 0.5 * (surest - chance) / (1 - chance), 0.0).reshape(shape)
        colour = np.full(shape, place)
        kwargs = {"cmap": "tab10", "vmin": 0, "vmax": 9, "interpolation": "nearest"}
        ax.imshow(colour, alpha=alpha, origin="lower", extent=extent, aspect="auto", **kwargs)
        own = np.zeros(len(across), bool) if y is None else np.asarray(y) == label
        ax.plot(across[own], up[own], ".", color=f"C{place}", markersize=4, label=str(label))
    ax.set_xlabel(x_name)
    ax.set_ylabel(y_name)
    ax.legend(frameon=False)
    return ax


#: Likelihoods of a target that is a function plus noise.
_ADDS_NOISE = ("gaussian", "student-t", "gaussian-heteroskedastic", "student-t-heteroskedastic")


def noise(model: Any, X: Rows, *, feature: int | str = 0, ax: Any = None) -> Any:
    """Plot the standard deviation of the noise along one input: the variation of the target around the function.

    Parameters
    ----------
    model : regressor
        A fitted regressor whose target is a function plus noise, which may vary (``likelihood="gaussian-heteroskedastic"``).
    X : array-like or table of shape (n, d)
        The rows to plot at.
    feature : int or str, default=0
        The input of the horizontal axis.
    ax : matplotlib Axes, optional
        The axes to plot on; new ones by default.

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
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
    >>> model = sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none").fit(X, y)
    >>> bool(0.03 < sparsegp.plot.noise(model, X).lines[0].get_ydata()[0] < 0.2)
    True
    """
    likelihood = model.document_["config"]["likelihood"]
    if likelihood not in _ADDS_NOISE:
        raise ValueError(f"the likelihood is {likelihood}, which adds no noise to a function, expected one of {', '.join(_ADDS_NOISE)}")
    ax = _axes(ax)
    along, name = _column(X, feature)
    total, latent = model.predict(X, return_std=True)[1] ** 2, model.predict_f(X)[1]
    # If there are several functions, the first one is the mean, on the scale the model sees.
    known = latent if latent.ndim == 1 else latent[:, 0] * model._fitted().unscaled_variance(1.0)
    order = np.argsort(along, kind="stable")
    ax.plot(along[order], np.sqrt(np.maximum(total - known, 0.0))[order], color="C0")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel(name)
    ax.set_ylabel(f"noise of {model._columns['target']}")
    return ax


def comparison(compared: Any, figure: str = "nll", *, ax: Any = None) -> Any:
    """Plot a metric of test rows against the number of training rows, with a line per objective.

    Parameters
    ----------
    compared : Comparison
        The result of :func:`sparsegp.compare`.
    figure : str, default="nll"
        The metric, by its name in the results.
    ax : matplotlib Axes, optional
        The axes to plot on; new ones by default.

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
    >>> found = sparsegp.compare(X, np.sin(X[:, 0]), ["vfe", "fitc"], options={"inducing": 8, "epochs": 5})
    >>> sparsegp.plot.comparison(found).get_ylabel()
    'test nll'
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
