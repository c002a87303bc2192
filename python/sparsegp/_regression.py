"""The base of estimators of numbers: targets, moments, quantiles, draws and scores of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.base import RegressorMixin

from . import _sparsegp
from ._base import Estimator
from ._options import seed_of
from ._targets import checked_target, named_target
from ._types import Array, Column, Rows, Seed


class Regression(RegressorMixin, Estimator):
    """The base of estimators of numbers."""

    _task = "regression"

    def _given_options(self) -> dict[str, Any]:
        # A likelihood is for one kind of target, which is then known.
        return {**self._given, "task": self._task if self.likelihood is None else None}

    def _target_column(self, y):
        return "number", np.asarray(checked_target(y, numeric=True), dtype=np.float64)

    _training_target = _target_column

    def fit(self, X: Rows, y: Column, sample_weight: Column = None, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs: an array of numbers, or a pandas, polars or Arrow table, whose columns of text are categories.
        y : array-like of shape (n,)
            The targets.
        sample_weight : array-like of shape (n,), optional
            How much each row counts. A row of weight 2 is two rows.
        groups : str, list of str or array-like of shape (n,), optional
            Grouped (random) effects beside the function. Texts are formulae with columns of the table ``X``: ``"school"``,
            ``"days | subject"``, ``"days || subject"`` for independent effects, ``"batch/cask"``. An array or a series holds the level of
            each row, and :meth:`predict` takes one too.

        Returns
        -------
        self
        """
        return self._fit(X, named_target(y, numeric=True), sample_weight, groups=groups)

    def partial_fit(self, X: Rows, y: Column, sample_weight: Column = None, *, forget: float = 0.0) -> Self:
        """Fit the model, or let the fitted one learn from new rows: its kernel, likelihood and inducing inputs stay.

        With Gaussian noise the parts of a data set may come one after the other, and the end is the posterior of all rows; with
        other noise it is close to it. The first call chooses no neighbours, unless the parameter says so: a model with
        neighbours keeps every row that it learns from, and takes no sample weights.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The targets.
        sample_weight : array-like of shape (n,), optional
            How much each row counts.
        forget : float, default=0.0
            The share of what was known before that is forgotten: 0 for nothing, 1 for all but the hyper-parameters.

        Returns
        -------
        self
        """
        return self._partial_fit(X, named_target(y, numeric=True), sample_weight, forget=forget)

    def _first_level(self) -> float:
        """The prefix of the engine's codes of ordered levels."""
        levels = self._columns["levels"]
        return float(levels[0]) if levels and self._columns["kind"] == "ordinal" else 0.0

    @overload
    def predict(
        self,
        X: Rows,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        quantiles: None = None,
        exposure: Column = None,
        return_gradient: Literal[False] = False,
        groups: Column = None,
    ) -> Array: ...
    @overload
    def predict(
        self,
        X: Rows,
        return_std: Literal[True],
        return_cov: Literal[False] = False,
        quantiles: None = None,
        exposure: Column = None,
        return_gradient: Literal[False] = False,
        groups: Column = None,
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self,
        X: Rows,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        *,
        quantiles: Sequence[float] | Array,
        exposure: Column = None,
        return_gradient: Literal[False] = False,
        groups: Column = None,
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self,
        X: Rows,
        return_std: Literal[True],
        return_cov: Literal[False] = False,
        *,
        quantiles: Sequence[float] | Array,
        exposure: Column = None,
        return_gradient: Literal[False] = False,
        groups: Column = None,
    ) -> tuple[Array, Array, Array]: ...
    @overload
    def predict(
        self,
        X: Rows,
        return_std: Literal[False] = False,
        *,
        return_cov: Literal[True],
        quantiles: None = None,
        exposure: Column = None,
        return_gradient: Literal[False] = False,
        groups: Column = None,
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self,
        X: Rows,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        quantiles: None = None,
        exposure: Column = None,
        *,
        return_gradient: Literal[True],
        groups: Column = None,
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self,
        X: Rows,
        return_std: Literal[True],
        return_cov: Literal[False] = False,
        quantiles: None = None,
        exposure: Column = None,
        *,
        return_gradient: Literal[True],
        groups: Column = None,
    ) -> tuple[Array, Array, Array, Array]: ...
    @overload
    def predict(
        self,
        X: Rows,
        return_std: bool = False,
        return_cov: bool = False,
        quantiles: Sequence[float] | Array | None = None,
        exposure: Column = None,
        return_gradient: bool = False,
        groups: Column = None,
    ) -> Any: ...
    def predict(
        self,
        X: Rows,
        return_std: bool = False,
        return_cov: bool = False,
        quantiles: Sequence[float] | Array | None = None,
        exposure: Column = None,
        return_gradient: bool = False,
        groups: Column = None,
    ) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        return_std : bool, default=False
            Return the standard deviation of the target, noise included.
        return_cov : bool, default=False
            Return the covariance of the targets of all rows (likelihoods of one function, at most 2000 rows).
        quantiles : sequence of float, optional
            Probabilities whose quantiles of the target are wanted.
        exposure : array-like of shape (n,), optional
            Exposures, for counts that were fitted with them.
        return_gradient : bool, default=False
            Whether the gradient of the mean in the inputs is wanted, and with ``return_std`` that of the standard deviation.
            Categories have none; with ``warp_inputs`` there are none.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.

        Returns
        -------
        mean : ndarray of shape (n,)
            The mean of the target. It is returned alone unless more is asked for.
        std : ndarray of shape (n,)
            With ``return_std``.
        cov : ndarray of shape (n, n)
            With ``return_cov``.
        quantiles : ndarray of shape (n, number of quantiles)
            With ``quantiles``.
        mean_gradient : ndarray of shape (n, inputs)
            With ``return_gradient``: in units of the target per unit of each input. Inputs are the columns of an array, and
            ``input_names_`` of a table.
        std_gradient : ndarray of shape (n, inputs)
            With ``return_gradient`` and ``return_std``.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True")
        model, table = self._prediction_table(X, exposure=exposure, groups=groups)
        wanted: list = ["moments"]
        if quantiles is not None:
            wanted.append(_probabilities(quantiles))
        out = model.predict(table, wanted, threads=self.n_threads)
        first = self._first_level()
        answer = [out[0][:, 0] + first]
        if return_std:
            answer.append(np.sqrt(out[0][:, 1]))
        if return_cov:
            answer.append(self._covariance(model, table))
        if quantiles is not None:
            answer.append(out[1] + first)
        if return_gradient:
            mean_slope, variance_slope, *_ = _sparsegp.slopes(model, table, threads=self.n_threads)
            answer.append(mean_slope)
            if return_std:
                answer.append(0.5 * variance_slope / answer[1][:, None])
        return answer[0] if len(answer) == 1 else tuple(answer)

    def _covariance(self, model, table):
        return _sparsegp.target_joint(model, table, threads=self.n_threads)[1]

    def sample_y(
        self, X: Rows, n_samples: int = 1, random_state: Seed = 0, exposure: Column = None, joint: bool = True
    ) -> Array:
        """Draw targets: the function at all rows together, then a target around it at every row, as scikit-learn's do.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        n_samples : int, default=1
            The number of draws.
        random_state : int, RandomState or None, default=0
            The seed.
        exposure : array-like of shape (n,), optional
            Exposures, for counts that were fitted with them.
        joint : bool, default=True
            Whether the function is drawn at all rows together; otherwise at every row by itself, which is quicker. Linear models and
            kernels without random features (see :meth:`sample_f`) take at most 2000 rows together.

        Returns
        -------
        ndarray of shape (n, n_samples)
        """
        model, table = self._prediction_table(X, exposure=exposure)
        draw = partial(_sparsegp.draws_together, model) if joint else model.draws
        draws = draw(table, int(n_samples), seed_of(random_state), threads=self.n_threads)
        return draws + self._first_level()

    def crps(self, X: Rows, y: Column, exposure: Column = None) -> Array:
        """The continuous ranked probability score of each target, in its units; smaller is better.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The targets.
        exposure : array-like of shape (n,), optional
            Exposures, for counts that were fitted with them.

        Returns
        -------
        ndarray of shape (n,)
        """
        model, table = self._prediction_table(X, y=y, exposure=exposure)
        return model.predict(table, ["crps"], threads=self.n_threads)[0][:, 0].copy()

    def pit(self, X: Rows, y: Column, exposure: Column = None) -> Array:
        """For each target the predicted probability of less than it and of no more than it; uniform where predictions are right.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The targets.
        exposure : array-like of shape (n,), optional
            Exposures, for counts that were fitted with them.

        Returns
        -------
        ndarray of shape (n, 2)
            Twice the same number unless targets are discrete.
        """
        model, table = self._prediction_table(X, y=y, exposure=exposure)
        return model.pit(table, threads=self.n_threads)


def _probabilities(quantiles) -> list:
    levels = [float(level) for level in np.atleast_1d(quantiles)]
    if not all(0.0 < level < 1.0 for level in levels):
        raise ValueError(f"quantiles are {levels}, expected probabilities between 0 and 1")
    return levels
