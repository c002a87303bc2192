"""Likelihoods written in Python: the distribution of the target given the latent function, as NumPy functions.

>>> import numpy as np
>>> from sparsegp import SparseGPRegressor
>>> from sparsegp.likelihoods import CustomLikelihood, Parameter
>>> class Logistic(CustomLikelihood):
...     "y = f + noise from the logistic distribution."
...     name = "logistic_noise"
...     target = "real"
...     hyperparameters = {"scale": Parameter()}
...     width = "scale"
...     def log_density(self, y, f, scale):
...         r = np.abs(y - f) / scale
...         return -r - 2 * np.log1p(np.exp(-r)) - np.log(scale)
...     def derivatives(self, y, f, scale):
...         t = np.tanh(0.5 * (y - f) / scale)
...         return t / scale, -0.5 * (1 - t**2) / scale**2
...     def gradient(self, y, f, scale):
...         r = (y - f) / scale
...         return {"scale": (r * np.tanh(0.5 * r) - 1) / scale}
...     def mean_and_variance(self, f, scale):
...         return f, (np.pi * scale) ** 2 / 3
...     def cdf(self, y, f, scale):
...         return 0.5 + 0.5 * np.tanh(0.5 * (y - f) / scale)
...     def start(self, y):
...         return {"scale": 0.3 * np.std(y) + 1e-6}
>>> X = np.linspace(0, 6, 60)[:, None]
>>> y = np.sin(X[:, 0]) + 0.1 * np.cos(47 * X[:, 0])
>>> model = SparseGPRegressor("rbf", likelihood=Logistic(), n_inducing=8, auto="none", epochs=20).fit(X, y)
>>> bool(0.01 < model.hyperparameters_["likelihood.scale"] < 0.2)
True
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._custom import Custom, Parameter

__all__ = ["CustomLikelihood", "Parameter"]

#: The kinds of target.
TARGETS = ("real", "positive", "unit interval", "count", "binary")


class CustomLikelihood(Custom):
    """A likelihood ``p(y | f)`` of one latent function, written in Python.

    A subclass declares its name and targets and defines the density with its derivatives; the engine integrates it. Pass an object as
    ``likelihood=`` to an estimator or :class:`~sparsegp.SVGP`, and again when you load a saved model (``likelihoods=[…]``).
    :func:`sparsegp.testing.check_likelihood` finds mistakes in a likelihood.

    The functions take ``y`` and ``f`` as numbers or arrays that broadcast, and every hyper-parameter as a keyword argument. For
    counts they also take ``exposure``. ``f`` is on the scale the model sees: real targets are standardised. The engine's
    threads call the methods one at a time. An exception in a method ends the fit, and ``fit`` raises it.

    Attributes
    ----------
    name : str
        The name in reports and model files.
    target : {"real", "positive", "unit interval", "count", "binary"}
        The values that targets may have.
    hyperparameters : dict of str to Parameter
        The parameters that training tunes, as numbers; empty by default.
    width : float or str, default=1.0
        The distance in f over which the log density changes its shape, such as the scale of noise, or the name of the
        hyper-parameter that is this distance. Quadrature places its nodes by this width: too small a width makes it slow, too
        large a width makes it inaccurate.

    Methods
    -------
    log_density(y, f, **hyperparameters)
        ``log p(y | f)``.
    derivatives(y, f, **hyperparameters)
        The first and second derivatives of the log density with respect to f.
    gradient(y, f, **hyperparameters)
        A dict of the derivatives of the log density with respect to every hyper-parameter; not needed without hyper-parameters.
    mean_and_variance(f, **hyperparameters)
        Mean and variance of y given f; not needed for binary targets.
    cdf(y, f, **hyperparameters)
        ``P(Y ≤ y | f)``; not needed for binary targets.

    Notes
    -----
    A fit calls these methods with arrays ``y`` and ``f`` of equal length, which contain quadrature nodes of many rows, so write them
    without branches on ``y``. ``cdf`` gets one ``y`` at a time.
    """

    target: str = "real"
    width: float | str = 1.0

    @property
    def _required(self):
        more = ("gradient",) if self.hyperparameters else ()
        return ("log_density", "derivatives", *more, *(() if self.target == "binary" else ("mean_and_variance", "cdf")))

    def start(self, y: NDArray[np.float64]) -> dict[str, float]:
        """Return starting values of hyper-parameters, computed from the targets on the scale the model sees.

        Parameters
        ----------
        y : ndarray of shape (n,)
            The targets.

        Returns
        -------
        dict of str to float
            Values of hyper-parameters. A parameter that is left out starts at its declared value.
        """
        return {}

    def sample(self, f: float, rng: np.random.Generator, **hyperparameters: float) -> float:
        """Draw y given f. A subclass may override this method. By default, the engine draws targets that are not binary
        by inversion of ``cdf``, which is slower.

        Parameters
        ----------
        f : float
            The value of the latent function.
        rng : numpy.random.Generator
            The source of randomness.
        **hyperparameters
            The values of the hyper-parameters.

        Returns
        -------
        float
        """
        return float(rng.random() < np.exp(self.log_density(1.0, f, **hyperparameters)))

    # The methods that the engine calls.

    def _described(self, columns: int) -> list:
        described = super()._described(columns)
        kind = type(self).__name__
        if self.target not in TARGETS:
            raise ValueError(f"{kind}.target is {self.target!r}, expected one of {', '.join(TARGETS)}")
        if any(parameter.per_column for parameter in self.hyperparameters.values()):
            raise ValueError(f"{kind}.hyperparameters has one per column, expected numbers: a likelihood does not depend on columns")
        if isinstance(self.width, str):
            if self.width not in self.hyperparameters:
                raise ValueError(f"{kind}.width is {self.width!r}, expected a number or the name of a hyper-parameter")
        elif not self.width > 0:
            raise ValueError(f"{kind}.width is {self.width!r}, expected a number above 0")
        return described

    def _value_and_slope(self, y, f, values):
        first, _ = self.derivatives(y, f, **values)
        return self._array(self.log_density(y, f, **values), f.shape, "log_density"), self._array(first, f.shape, "derivatives")

    def _curvature(self, y, f, values) -> float:
        return float(self.derivatives(y, f, **values)[1])

    def _own_gradient(self, y, f, weights, values):
        found = self.gradient(y, f, **values)
        missing = [name for name in self.hyperparameters if name not in found]
        if missing:
            raise ValueError(f"{type(self).__name__}.gradient returned nothing for {missing[0]!r}")
        return np.array([weights @ self._array(found[name], f.shape, "gradient") for name in self.hyperparameters])

    def _peak(self, y, pull, values) -> float:
        """Returns the f of the highest density under a normal prior of precision ``pull``."""

        def slope(f):
            return self._array(self.derivatives(y, f, **values)[0], f.shape, "derivatives") - pull * f

        real = self.target == "real"
        return _descent(slope, y if real else 0.0, 12.0 if real else 6.0)

    def _peaks(self, y, values):
        """Returns the f at which each target has its highest density."""
        values = {name: value[:, None] if np.ndim(value) else value for name, value in values.items()}

        def slopes(f):
            return self._array(self.derivatives(y[:, None], f, **values)[0], f.shape, "derivatives")

        real = self.target == "real"
        return _descents(slopes, y if real else np.zeros_like(y), 12.0 if real else 6.0)

    def _moments(self, f, values):
        if self.target == "binary":
            p = np.exp(self._array(self.log_density(1.0, f, **values), f.shape, "log_density"))
            return p, p * (1 - p)
        mean, variance = self.mean_and_variance(f, **values)
        return self._array(mean, f.shape, "mean_and_variance"), self._array(variance, f.shape, "mean_and_variance")

    def _cdf(self, y, f, values):
        if self.target == "binary":
            below = self._moments(f, values)[0]
            return np.zeros_like(f) if y < 0 else np.ones_like(f) if y >= 1 else 1 - below
        return self._array(self.cdf(y, f, **values), f.shape, "cdf")

    def _samples(self) -> bool:
        return self.target == "binary" or type(self).sample is not CustomLikelihood.sample

    def _sample(self, f, seed, values) -> float:
        return float(self.sample(f, np.random.default_rng(seed), **values))

    def _start(self, y, exposure, values):
        """Returns the constant f at which all targets together have the highest density, and the starting values of
        hyper-parameters."""
        if not len(y):
            return 0.0, []
        starts = {name: float(value) for name, value in dict(self.start(y)).items()}
        odd = [name for name in starts if name not in self.hyperparameters]
        if odd:
            raise ValueError(f"{type(self).__name__}.start names {odd[0]!r}, which is not a hyper-parameter")
        rows = slice(None, None, max(1, len(y) // 500))
        values = values | starts
        if self.target == "count":
            values["exposure"] = (exposure if len(exposure) else np.ones(len(y)))[rows, None]
        some = y[rows, None]

        def slope(f):
            f = f[None, :]
            return self._array(self.derivatives(some, f, **values)[0], (len(some), f.shape[1]), "derivatives").sum(0) - 0.1 * f[0]

        centre = float(np.mean(y)) if self.target == "real" else 0.0
        return _descent(slope, centre, 6.0), [(name, [value]) for name, value in starts.items()]


def _descent(slope, centre: float, reach: float) -> float:
    """Returns the peak of one function; see :func:`_descents`."""
    return float(_descents(lambda f: slope(f[0])[None, :], np.array([centre]), reach)[0])


def _descents(slopes, centres, reach: float):
    """Returns the peaks of functions with a single peak from their slopes, or a point near the end of the range for a
    function that does not fall.

    ``slopes`` takes one row of points for each function, and returns the slopes there.
    """
    each = np.arange(len(centres))
    with np.errstate(all="ignore"):
        grid = centres[:, None] + np.sinh(np.linspace(-reach, reach, 61))
        found = slopes(grid)
        rising, matters = found > 0, np.abs(found) > 1e-13
        last = _last(rising)
        falls = (~rising & (found < 0) & (np.arange(61) > last[:, None])).any(axis=1)
        # Without a rise the peak lies below the grid, and without a fall above it; the slope underflows before the peak
        # is reached.
        below = grid[each, np.maximum(np.argmax(matters, axis=1) - 1, 0)]
        above = grid[each, np.minimum(_last(matters) + 1, 60)]
        ends = np.where(rising.any(axis=1), above, below)
        ends = np.where(matters.any(axis=1), ends, centres)
        between = rising.any(axis=1) & matters.any(axis=1) & falls
        low, high = grid[each, np.maximum(last, 0)], grid[each, np.minimum(last + 1, 60)]
        open_ = between & (high - low > 1e-14 * np.maximum(1.0, np.abs(low)))
        while open_.any():
            grid = np.linspace(low, high, 33, axis=1)
            place = np.minimum(np.maximum(_last(slopes(grid) > 0), 0), 31)
            narrower = grid[each, place], grid[each, place + 1]
            moved = (narrower[0] != low) | (narrower[1] != high)
            low, high = (np.where(open_, new, old) for new, old in zip(narrower, (low, high)))
            open_ &= moved & (high - low > 1e-14 * np.maximum(1.0, np.abs(low)))
    return np.where(between, 0.5 * (low + high), ends)


def _last(flags):
    """Returns the index of the last true flag of each row, or −1 for a row without one."""
    return np.where(flags.any(axis=1), flags.shape[1] - 1 - np.argmax(flags[:, ::-1], axis=1), -1)
