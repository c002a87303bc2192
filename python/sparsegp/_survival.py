"""The estimator of times until an event, known or censored, in the manner of scikit-survival."""

from __future__ import annotations

import json
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from . import _sparsegp
from ._documentation import documented
from ._processes import SparseGPRegressor
from ._types import Array, Column, Rows


@documented
class SparseGPSurvivalRegressor(SparseGPRegressor):
    """Sparse Gaussian process regression of times until an event, known or censored on the right.

    The logarithm of the time is a Gaussian process plus noise (an accelerated failure time model); ``likelihood`` is ``"weibull"``, which
    has proportional hazards too, ``"log-normal"`` or ``"log-logistic"``. Held-out rows choose it by default.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    unique_times_ : ndarray
        The times of events in the training rows, in order.
    kernel_, hyperparameters_, choices_, warnings_, document_ :
        As for ``SparseGPRegressor``.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import SparseGPSurvivalRegressor
    >>> X = np.linspace(0, 2, 120)[:, None]
    >>> times = np.exp(X[:, 0]) * (0.5 + np.arange(120) % 7 / 6)
    >>> y = np.array([(t < 5, min(t, 5.0)) for t in times], dtype=[("event", bool), ("time", float)])
    >>> model = SparseGPSurvivalRegressor("rbf", n_inducing=10, auto="none").fit(X, y)
    >>> survival = model.predict_survival_function([[0.1], [1.9]], times=[1.0, 4.0])
    >>> survival.shape, bool(survival[0, 1] < survival[1, 1]), model.score(X, y) > 0.7
    ((2, 2), True, True)
    """

    _kinds = ("lifetime", "censored")

    def fit(self, X: Rows, y: Any, sample_weight: Column = None, groups: Any = None, *, offset: Any = None) -> Self:  # type: ignore[override]
        """Fit the model.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : structured array or DataFrame of shape (n,)
            Two fields or columns: a boolean, true where the event was observed, and the time of the event or of the end of observation.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses.
        groups : str, list of str or array-like of shape (n,), optional
            Grouped (random) effects, such as frailties of hospitals; see :meth:`SparseGPRegressor.fit`.
        offset : str, list of str or array-like of shape (n,), optional
            Known additions to the logarithm of the time.

        Returns
        -------
        self
        """
        event, time = events_and_times(y)
        super().fit(X, time, sample_weight, groups, offset=offset, censored=~event)
        self.unique_times_ = np.unique(time[event])
        return self

    def predict_survival_function(
        self, X: Rows, times: Any = None, *, groups: Column = None, offset: Column = None
    ) -> Array:
        """Predict the probability that the event comes after each of some times.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        times : array-like, optional
            The times; ``unique_times_`` by default.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        ndarray of shape (n, number of times)
        """
        return self._at("survival", X, times, groups, offset)

    def predict_cumulative_hazard_function(
        self, X: Rows, times: Any = None, *, groups: Column = None, offset: Column = None
    ) -> Array:
        """Predict the cumulative hazard ``-log P(T > t)``.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        times : array-like, optional
            The times; ``unique_times_`` by default.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        ndarray of shape (n, number of times)
        """
        with np.errstate(divide="ignore"):
            return -np.log(self._at("survival", X, times, groups, offset))

    def predict_hazard(self, X: Rows, times: Any = None, *, groups: Column = None, offset: Column = None) -> Array:
        """Predict the hazard, the density of the time divided by the probability of a later one.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        times : array-like, optional
            The times; ``unique_times_`` by default.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        ndarray of shape (n, number of times)
        """
        return self._at("hazard", X, times, groups, offset)

    def _at(self, what, X, times, groups, offset):
        if times is None:
            self._fitted()
            if not hasattr(self, "unique_times_"):
                raise ValueError("times is not given, and a model read from a file has no times of events")
            times = self.unique_times_
        times = [float(time) for time in np.atleast_1d(times)]
        if not np.all(np.isfinite(times)):
            raise ValueError(f"times are {times}, expected finite numbers")
        model, table = self._prediction_table(X, offset=offset, groups=groups)
        return model.predict(table, [(what, times)], threads=self.n_threads)[0]

    def scores(self, X: Rows, y: Any, *, groups: Column = None, offset: Column = None) -> dict[str, float]:
        """Score the predictions of times.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : structured array or DataFrame of shape (n,)
            The events and times, as for :meth:`fit`.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        dict
            ``nll``: minus the mean log probability of what is known. ``concordance``: the share of pairs in the right order.
            ``integrated_brier``: the Brier score, averaged over times between the first and the last decile of the events.
            ``survival_gap``: the largest distance between the Kaplan–Meier curve of the probability integral transforms and that of calibrated
            predictions. The last three need censored rows, and are absent without them.
        """
        event, time = events_and_times(y)
        self._fitted()
        if self._columns["censored"] is None:
            raise ValueError("the model was fitted without a column that says which times are censored, so events cannot be scored")
        model, table = self._prediction_table(X, y=time, offset=offset, groups=groups, censored=~event)
        report = json.loads(model.scores(table, threads=self.n_threads))
        names = ("nll", "concordance", "integrated_brier", "survival_gap")
        return {name: report[name] for name in names if report[name] is not None}

    def score(self, X: Rows, y: Any, sample_weight: None = None, *, groups: Column = None, offset: Column = None) -> float:  # type: ignore[override]
        """Return the concordance: the share of pairs of rows with a known order whose predicted means are in this order.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : structured array or DataFrame of shape (n,)
            The events and times, as for :meth:`fit`.
        sample_weight : None
            Not supported.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        float
        """
        if sample_weight is not None:
            raise ValueError("sample_weight is given, but the concordance has no weights")
        scores = self.scores(X, y, groups=groups, offset=offset)
        return scores.get("concordance", float("nan"))


def events_and_times(y: Any) -> tuple[NDArray[np.bool_], Array]:
    """Returns where events were observed, and the times, from a structured array or a table of two columns."""
    names = getattr(getattr(y, "dtype", None), "names", None) or getattr(y, "columns", None)
    if names is None or len(names) != 2:
        found = f"of shape {np.shape(y)}" if names is None else f"with the fields {', '.join(map(str, names))}"
        raise ValueError(f"y is {found}, expected two fields: a boolean (true for an event) and a time")
    columns = [np.asarray(y[name]) for name in names]
    booleans = [column for column in columns if column.dtype.kind == "b"]
    others = [column for column in columns if column.dtype.kind in "iuf"]
    if len(booleans) != 1 or len(others) != 1:
        kinds = " and ".join(str(column.dtype) for column in columns)
        raise ValueError(f"y has fields of types {kinds}, expected a boolean (true for an event) and a number (the time)")
    return booleans[0], others[0].astype(np.float64)


__all__ = ["SparseGPSurvivalRegressor"]
