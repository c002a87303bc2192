"""Grids of points to predict on, and maps of predictions at places with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._types import Rows

#: The margin of a map on every side of the rows, as a share of their range.
_MARGIN = 0.03


def grid(axes: Mapping[str, Any] | None = None, **more: Any) -> Any:
    """Return a pandas frame with every combination of the values of some columns; the last column changes fastest.

    Parameters
    ----------
    axes : dict, optional
        Columns by name, for names that are not valid Python identifiers.
    **more
        Columns by name: ``(start, stop, step)`` with both ends included, a list or array of values, or a single value.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> import sparsegp
    >>> frame = sparsegp.grid(lon=(-96, -95, 0.5), lat=[34, 36], month=7)
    >>> frame.shape, frame["lon"].tolist()
    ((6, 3), [-96.0, -96.0, -95.5, -95.5, -95.0, -95.0])
    """
    import pandas as pd

    columns = {**(axes or {}), **more}
    if not columns:
        raise ValueError("grid has no columns: give lon=(start, stop, step), for example")
    values = [_values(name, given) for name, given in columns.items()]
    places = np.indices([len(one) for one in values]).reshape(len(values), -1)
    return pd.DataFrame({name: one[place] for name, one, place in zip(columns, values, places)})


def _values(name: str, given: Any) -> np.ndarray:
    """The values of one column."""
    if not isinstance(given, tuple):
        return np.atleast_1d(np.asarray(given))
    if len(given) != 3:
        raise ValueError(f"{name} is {given!r}, expected (start, stop, step), a list of values or one value")
    start, stop, step = (float(value) for value in given)
    # The range includes its end, although steps are rounded.
    steps = np.floor((stop - start) / step + 1e-6) if step else -1
    if not steps >= 0:
        raise ValueError(f"{name}: {start} to {stop} cannot be reached in steps of {step}")
    return start + step * np.arange(int(steps) + 1)


def map(model: Any, X: Rows, *, points: int = 80, at: Mapping[str, Any] | None = None, ax: Any = None) -> Any:
    """Plot the predictive mean and standard deviation over the places of a model, side by side. Dots are the rows of ``X``.

    Parameters
    ----------
    model : regressor
        A fitted regressor with ``places`` or ``plane``.
    X : array-like or table of shape (n, d)
        The rows whose places the map covers.
    points : int, default=80
        The number of points along each side of the map.
    at : dict, optional
        Values of the other columns. The default is the row whose prediction is the median.
    ax : sequence of two matplotlib Axes, optional
        The axes to plot on; new ones by default.

    Returns
    -------
    numpy.ndarray of two matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np, pandas as pd
    >>> import sparsegp.plot
    >>> X = sparsegp.grid(lon=(0, 20, 2.0), lat=(40, 50, 2.0))
    >>> y = np.sin(X["lon"] / 5) + X["lat"] / 10
    >>> model = sparsegp.SparseGPRegressor("rbf(ard)", places=["lon", "lat"], n_inducing=20, auto="none").fit(X, y)
    >>> left, right = sparsegp.plot.map(model, X, points=20)
    >>> left.get_xlabel(), right.get_title()
    ('lon', 'standard deviation')
    """
    from .plot import _column, _names, _rows, _with_column

    place = model._columns["place"]
    if place is None:
        raise ValueError("a map needs a model with places: fit with places=[longitude, latitude] or plane=[x, y]")
    names, known = place[0], _names(X)
    (across, _), (up, _) = (_column(X, name) for name in names)
    x, y = (_span(values, points) for values in (across, up))
    predicted = np.asarray(model.predict(X))
    middle = int(np.argsort(predicted)[len(predicted) // 2])
    rows = _rows(X, np.full(points * points, middle))
    for name, values in [(names[0], np.tile(x, points)), (names[1], np.repeat(y, points)), *(at or {}).items()]:
        if name not in known:
            raise ValueError(f"at names {name!r}, expected one of {', '.join(known)}")
        rows = _with_column(rows, known.index(name), lambda old, values=values: np.broadcast_to(np.asarray(values), old.shape))
    mean, deviation = model.predict(rows, return_std=True)
    axes = _pair(ax)
    for one, values, title in zip(axes, (mean, deviation), ("mean", "standard deviation")):
        image = one.pcolormesh(x, y, np.asarray(values).reshape(points, points), shading="nearest")
        one.figure.colorbar(image, ax=one)
        one.plot(across, up, ".", color="black", markersize=1, alpha=0.4)
        one.set(title=title, xlabel=names[0], ylabel=names[1])
    return axes


def _span(values: np.ndarray, points: int) -> np.ndarray:
    """Points over the range of values, with a margin on both sides."""
    low, high = np.nanmin(values), np.nanmax(values)
    margin = _MARGIN * (high - low) if high > low else 0.5
    return np.linspace(low - margin, high + margin, points)


def _pair(ax: Any) -> np.ndarray:
    """Two Axes."""
    if ax is not None:
        pair = np.asarray(ax, dtype=object).ravel()
        if len(pair) != 2:
            raise ValueError(f"ax has {len(pair)} Axes, expected two: one for the mean and one for the standard deviation")
        return pair
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'sparsegp[plot]'") from None
    return plt.subplots(1, 2, layout="constrained", figsize=(10, 4))[1]
