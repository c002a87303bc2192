"""Forecasts of series in time. The engine fits and scores the models; this module converts frames."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from . import _sparsegp, _tables
from ._types import Seed, Texts

#: The numbers of a score of a number of steps ahead.
_SCORES = ("mase", "smape", "crps", "coverage", "forecasts")


class Forecaster(BaseEstimator):
    """Forecasts of series in time, by mixtures of two Gaussian processes with weak priors on every scale.

    Times may be irregular, and targets may be missing. Forecasts from earlier times of each series weigh its two models, set the width of its
    intervals, and score the forecasts beside simple methods.

    Parameters
    ----------
    time : str
        The column of times: dates or numbers.
    target : str
        The column to forecast.
    by : str, optional
        The column that separates several series, which are forecast one by one.
    known : str or list of str, optional
        Columns whose future values are known. The rows to forecast are then the rows of the frame after the last value of the target.
    holidays : str, optional
        A column with the names of holidays, missing on other days. Its future values must be known, too.
    seasons : list of float, optional
        Lengths of seasons in steps; ``[]`` for none. By default day, week and year for dates, and a length found by autocorrelation for
        numbers.
    counts : bool, default=False
        True for counts, which have a negative binomial distribution.
    origins : int, default=3
        The number of earlier times from which each series is also forecast.
    window : int, default=600
        The maximum number of values of each series that the models see: of longer series the last ones, and as many spread over the earlier
        ones.
    n_threads : int, optional
        The number of threads; all cores by default.
    random_state : int, RandomState or None
        The random seed of draws.

    Attributes
    ----------
    scores_ : dict of str to dict of ndarray
        After ``predict``: for ``"sparsegp"``, ``"seasonal naive"``, ``"drift"`` and ``"ETS"``, the scores of forecasts from earlier times
        by the number of steps ahead: ``mase``, ``smape``, ``crps``, ``coverage`` and the number of ``forecasts``.

    Examples
    --------
    >>> import numpy as np, pandas
    >>> from sparsegp import Forecaster
    >>> step = np.arange(60)
    >>> frame = pandas.DataFrame({"step": step, "sales": 100 + step + 10 * np.sin(2 * np.pi * step / 12)})
    >>> forecaster = Forecaster(time="step", target="sales", seasons=[12]).fit(frame)
    >>> forecast = forecaster.predict(12)
    >>> list(forecast.columns), len(forecast)
    (['step', 'mean', 'median', 'lower', 'upper'], 12)
    >>> bool(abs(forecast["median"].iloc[0] - 160) < 2)
    True
    """

    def __init__(
        self,
        time: str = "time",
        target: str = "y",
        *,
        by: str | None = None,
        known: Texts = None,
        holidays: str | None = None,
        seasons: Sequence[float] | None = None,
        counts: bool = False,
        origins: int = 3,
        window: int = 600,
        n_threads: int | None = None,
        random_state: Seed = None,
    ) -> None:
        self.time = time
        self.target = target
        self.by = by
        self.known = known
        self.holidays = holidays
        self.seasons = seasons
        self.counts = counts
        self.origins = origins
        self.window = window
        self.n_threads = n_threads
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Forecaster:
        """Read the series of a frame.

        The models are fitted by ``predict``, because the earlier times from which they are judged depend on the horizon.

        Parameters
        ----------
        X : pandas, polars or Arrow table
            The columns named by the parameters, a row per time and series.
        y : None
            Ignored.

        Returns
        -------
        Forecaster
        """
        if not _tables.is_named(X):
            raise TypeError(f"X is {type(X).__name__}, expected a table with named columns, such as a pandas.DataFrame")
        table = _tables.named_table(X)
        wanted = [self.time, self.target, *(name for name in (self.by, self.holidays) if name), *_tables.names_of(self.known)]
        for name in wanted:
            if name not in table.names:
                raise ValueError(f"X has no column {name!r}; the columns are {', '.join(map(repr, table.names))}")
        self.table_ = table
        self._pandas = _tables.is_pandas(X)
        return self

    def predict(self, horizon: int, *, quantiles: Sequence[float] = (), draws: int = 0) -> Any:
        """Forecast the next times of every series.

        Parameters
        ----------
        horizon : int
            The number of steps.
        quantiles : list of float, optional
            Quantiles to add as columns ``q0.05``, ….
        draws : int, default=0
            The number of draws to add as columns ``draw0``, …. Each draw is joint over the times of a series.

        Returns
        -------
        pandas.DataFrame or dict of ndarray
            A row per series and time: the series, the time, ``mean``, ``median``, and ``lower`` and ``upper``, the ends of the 95 %
            interval. A frame if ``fit`` was given a pandas frame, otherwise a dict of arrays.
        """
        check_is_fitted(self, "table_")
        if any(not 0 < p < 1 for p in quantiles):
            raise ValueError(f"quantiles contains {next(p for p in quantiles if not 0 < p < 1)}, expected numbers between 0 and 1")
        forecasts, scores, notes = _sparsegp.forecast(
            self.table_, self._settings(horizon, draws), [float(p) for p in quantiles], threads=self.n_threads
        )
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        self.scores_ = {
            method: {name: np.array([step[place] for step in steps]) for place, name in enumerate(_SCORES)}
            for method, steps in scores.items()
        }
        return self._shown(forecasts, quantiles, draws)

    def _settings(self, horizon: int, draws: int) -> dict[str, Any]:
        """The options of the engine."""
        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else check_random_state(self.random_state).randint(2**31)
        return {
            "time": self.time, "target": self.target, "by": self.by, "horizon": int(horizon),
            "known": _tables.names_of(self.known), "holidays": self.holidays,
            "seasons": None if self.seasons is None else [float(steps) for steps in self.seasons],
            "counts": bool(self.counts), "origins": int(self.origins), "window": int(self.window),
            "draws": int(draws), "seed": int(seed),
        }

    def _shown(self, forecasts: list[Any], quantiles: Sequence[float], draws: int) -> Any:
        """The forecasts as a frame or as arrays."""
        names = ["mean", "median", "lower", "upper", *(f"q{p:g}" for p in quantiles), *(f"draw{draw}" for draw in range(draws))]
        columns: dict[str, NDArray[Any]] = {}
        if self.by is not None:
            columns[self.by] = np.array([name for name, _, times, _ in forecasts for _ in times], dtype=object)
        times = np.array([time for _, _, times, _ in forecasts for time in times])
        dates = any(dates for _, dates, _, _ in forecasts)
        columns[self.time] = np.round(times * 1e6).astype("datetime64[us]") if dates else times
        numbers = np.array([row for _, _, _, rows in forecasts for row in rows])
        columns |= {name: numbers[:, place] for place, name in enumerate(names)}
        if not self._pandas:
            return columns
        import pandas

        return pandas.DataFrame(columns)


__all__ = ["Forecaster"]
