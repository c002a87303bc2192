"""The base of estimators of numbers: targets, moments, quantiles, draws and scores of predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from . import _exposures, _sparsegp
from ._base import Estimator
from ._options import seed_of
from ._targets import checked_target, named_target
from ._types import Array, Column, Rows, Seed


class Regression(RegressorMixin, Estimator):
    """The base of estimators of numbers."""

    _task = "regression"

    def _given_options(self) -> dict[str, Any]:
        # Every likelihood belongs to one kind of target, so a likelihood determines the task.
        return {**self._given, "task": self._task if self.likelihood is None else None}

    def _target_column(self, y):
        return "number", np.asarray(checked_target(y, numeric=True), dtype=np.float64)

    _training_target = _target_column

    def fit(
        self,
        X: Rows,
        y: Column,
        sample_weight: Column = None,
        groups: Any = None,
        *,
        offset: Any = None,
        noise_std: Column = None,
        censored: Column = None,
        other_ends: Column = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs: an array of numbers, or a pandas, polars or Arrow table, whose columns of text are categories.
        y : array-like of shape (n,)
            The targets.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses: a row of weight 2 counts as two rows.
        groups : str, list of str or array-like of shape (n,), optional
            Grouped (random) effects in addition to the function. A string is a formula with columns of the table ``X``: ``"school"``,
            ``"days | subject"``, ``"days || subject"`` for independent effects, ``"batch/cask"``. An array or a series contains the level
            of each row; pass one to :meth:`predict` too.
        offset : str, list of str or array-like of shape (n,) or (n, functions), optional
            Known additions to the latent function in each row: names of columns of the table ``X``, or numbers, which predictions need
            too. They are in units of the target, or on the scale of the link, such as log rates. A likelihood of several functions needs one for each.
        noise_std : array-like of shape (n,), optional
            The known standard error of each target, in its units: its square adds to the variance of the noise, like ``alpha`` of
            scikit-learn. The likelihood is then ``"gaussian-known-noise"`` or ``"student-t-known-noise"``; with
            ``likelihood="gaussian-known-noise-only"`` or ``"student-t-known-noise-only"`` there is no other noise.
        censored : array-like of shape (n,), optional
            Which targets are only known to lie beyond ``y``: True, 1 or ``"right"`` for those above it, ``"left"`` for those below it, False,
            0 or ``"none"`` for known ones. The likelihood is then ``"weibull"``, ``"log-normal"`` or ``"log-logistic"``, for times above 0,
            or with ``likelihood="gaussian"`` that of any numbers. ``"student-t"``, ``"gamma"``, ``"exponential"``, ``"poisson"`` and
            ``"negative-binomial"`` take censored targets too; a censored count is ``y`` or beyond.
        other_ends : array-like of shape (n,), optional
            Instead of ``censored``, the other end of the interval that contains each target and begins or ends at ``y``: ``inf`` or ``-inf``
            without another end, NaN for a known target. For targets cut off at a largest value ``cap``:
            ``np.where(y >= cap, np.inf, np.nan)``.

        Returns
        -------
        self
        """
        censored = _exposures.censored_or_ends(censored, other_ends)
        known = {"exposure": _exposures.given(None, noise_std=noise_std), "offset": offset, "censored": censored}
        return self._fit(X, named_target(y, numeric=True), sample_weight, groups=groups, **known)

    def partial_fit(
        self,
        X: Rows,
        y: Column,
        sample_weight: Column = None,
        *,
        forget: float = 0.0,
        offset: Any = None,
        noise_std: Column = None,
        censored: Column = None,
        other_ends: Column = None,
    ) -> Self:
        """Fit the model, or update a fitted model with new rows; its kernel, likelihood and inducing inputs stay the same.

        With Gaussian noise, calls with the parts of a data set give the posterior of all its rows; with other noise, an
        approximation of it. The first call uses no neighbours unless the parameter ``neighbours`` is set, because a
        model with neighbours keeps every row that it learns from and does not support sample weights.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The targets.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses.
        forget : float, default=0.0
            The share of the information from earlier rows to forget: 0 keeps all of it, 1 keeps only the hyper-parameters.
        offset : str, list of str or array-like of shape (n,) or (n, functions), optional
            Known additions to the latent function, as in :meth:`fit`.
        noise_std : array-like of shape (n,), optional
            The known standard error of each target, as in :meth:`fit`.
        censored, other_ends : array-like of shape (n,), optional
            Which targets are censored, or the other ends of their intervals, as in :meth:`fit`.

        Returns
        -------
        self
        """
        known = {"offset": offset, "censored": _exposures.censored_or_ends(censored, other_ends)}
        exposure = _exposures.given(None, noise_std=noise_std)
        return self._partial_fit(X, named_target(y, numeric=True), sample_weight, exposure, forget, **known)

    def _first_level(self) -> float:
        """The lowest ordered level, which is added to the engine's codes 0, 1, …; 0 for other targets."""
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
        offset: Column = None,
        trials: Column = None,
        noise_std: Column = None,
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
        offset: Column = None,
        trials: Column = None,
        noise_std: Column = None,
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
        offset: Column = None,
        trials: Column = None,
        noise_std: Column = None,
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
        offset: Column = None,
        trials: Column = None,
        noise_std: Column = None,
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
        offset: Column = None,
        trials: Column = None,
        noise_std: Column = None,
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
        offset: Column = None,
        trials: Column = None,
        noise_std: Column = None,
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
        offset: Column = None,
        trials: Column = None,
        noise_std: Column = None,
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
        offset: Column = None,
        trials: Column = None,
        noise_std: Column = None,
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
        offset: Column = None,
        trials: Column = None,
        noise_std: Column = None,
    ) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        return_std : bool, default=False
            Return the standard deviation of the target, noise included.
        return_cov : bool, default=False
            Return the covariance of the targets of all rows (likelihoods of one latent function, at most 2000 rows).
        quantiles : sequence of float, optional
            Probabilities between 0 and 1; the quantiles of the target at these probabilities are returned.
        exposure : array-like of shape (n,), optional
            Exposures, for counts that were fitted with them.
        return_gradient : bool, default=False
            Also return the gradient of the mean with respect to the inputs and, with ``return_std``, the gradient of the standard
            deviation. This cannot be combined with ``warp_inputs``. The gradient for a category is 0.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.
        trials : array-like of shape (n,), optional
            Numbers of trials, for models that were fitted with them: the mean and the quantiles are then numbers of successes.
        noise_std : array-like of shape (n,), optional
            Known standard errors of the targets to predict, for models that were fitted with them. Without them, the predicted targets have no
            known noise.

        Returns
        -------
        mean : ndarray of shape (n,)
            The mean of the target. It is returned alone, not in a tuple, unless another argument adds a result.
        std : ndarray of shape (n,)
            With ``return_std``.
        cov : ndarray of shape (n, n)
            With ``return_cov``.
        quantiles : ndarray of shape (n, number of quantiles)
            With ``quantiles``.
        mean_gradient : ndarray of shape (n, inputs)
            With ``return_gradient``: in units of the target per unit of each input. The inputs are the columns of an array, or
            ``input_names_`` for a table.
        std_gradient : ndarray of shape (n, inputs)
            With ``return_gradient`` and ``return_std``.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True")
        exposure = _exposures.given(exposure, trials, noise_std)
        model, table = self._prediction_table(X, exposure=exposure, offset=offset, groups=groups)
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
        return _sparsegp.target_covariance(model, table, threads=self.n_threads)

    def sample_y(
        self,
        X: Rows,
        n_samples: int = 1,
        random_state: Seed = 0,
        exposure: Column = None,
        joint: bool = True,
        *,
        offset: Column = None,
        trials: Column = None,
    ) -> Array:
        """Draw targets: first the function jointly at all rows, then a target at every row given the function.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        n_samples : int, default=1
            The number of draws.
        random_state : int, RandomState or None, default=0
            The random seed.
        exposure : array-like of shape (n,), optional
            Exposures, for counts that were fitted with them.
        joint : bool, default=True
            Draw the function jointly at all rows. If False, it is drawn independently at every row, which is faster. Joint draws of linear
            models and of kernels without random features (see :meth:`sample_f`) take at most 2000 rows.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.
        trials : array-like of shape (n,), optional
            Numbers of trials, for models that were fitted with them.

        Returns
        -------
        ndarray of shape (n, n_samples)
        """
        exposure = _exposures.given(exposure, trials)
        model, table = self._prediction_table(X, exposure=exposure, offset=offset)
        draw = partial(_sparsegp.draws_together, model) if joint else model.draws
        draws = draw(table, int(n_samples), seed_of(random_state), threads=self.n_threads)
        return draws + self._first_level()

    def score(
        self, X: Rows, y: Column, sample_weight: Column = None, *, censored: Column = None, other_ends: Column = None
    ) -> float:
        """The coefficient of determination R² of the predicted means; with censored targets, the concordance instead.

        The concordance is the share of pairs of rows with a known order whose predicted means are in this order, as in scikit-survival. A
        model that was fitted with censored targets needs ``censored`` or ``other_ends`` here too.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The targets.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' errors in R².
        censored, other_ends : array-like of shape (n,), optional
            Which targets are censored, or the other ends of their intervals, as in :meth:`fit`.

        Returns
        -------
        float
        """
        return self._score(X, y, sample_weight, _exposures.censored_or_ends(censored, other_ends))

    def _score(self, X, y, sample_weight, censored, exposure=None, offset=None, trials=None) -> float:
        self._fitted()
        if censored is None and (self._columns["censored"] is not None or self._columns["lower"] is not None):
            raise ValueError(
                "the model was fitted with censored targets, so score needs censored or other_ends (all False or all NaN for known targets)"
            )
        if censored is not None:
            known = {"exposure": _exposures.given(exposure, trials), "offset": offset}
            model, table = self._prediction_table(X, y=y, censored=censored, **known)
            report = json.loads(model.scores(table, threads=self.n_threads))
            if report["r2"] is None:
                if sample_weight is not None:
                    raise ValueError("sample_weight is given, but the concordance has no weights")
                return float("nan") if report["concordance"] is None else report["concordance"]
        return float(r2_score(y, self.predict(X, exposure=exposure, offset=offset, trials=trials), sample_weight=sample_weight))

    def crps(
        self, X: Rows, y: Column, exposure: Column = None, *, offset: Column = None, trials: Column = None
    ) -> Array:
        """The continuous ranked probability score of each target, in its units; smaller is better.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The targets.
        exposure : array-like of shape (n,), optional
            Exposures, for counts that were fitted with them.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.
        trials : array-like of shape (n,), optional
            Numbers of trials, for models that were fitted with them.

        Returns
        -------
        ndarray of shape (n,)
        """
        exposure = _exposures.given(exposure, trials)
        model, table = self._prediction_table(X, y=y, exposure=exposure, offset=offset)
        return model.predict(table, ["crps"], threads=self.n_threads)[0][:, 0].copy()

    def pit(
        self, X: Rows, y: Column, exposure: Column = None, *, offset: Column = None, trials: Column = None
    ) -> Array:
        """The probability integral transform of each target: P(Y < y) and P(Y ≤ y). It is uniform if the predictions are calibrated.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The targets.
        exposure : array-like of shape (n,), optional
            Exposures, for counts that were fitted with them.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.
        trials : array-like of shape (n,), optional
            Numbers of trials, for models that were fitted with them.

        Returns
        -------
        ndarray of shape (n, 2)
            The two columns are equal unless targets are discrete.
        """
        exposure = _exposures.given(exposure, trials)
        model, table = self._prediction_table(X, y=y, exposure=exposure, offset=offset)
        return model.pit(table, threads=self.n_threads)


def _probabilities(quantiles) -> list:
    levels = [float(level) for level in np.atleast_1d(quantiles)]
    if not all(0.0 < level < 1.0 for level in levels):
        raise ValueError(f"quantiles are {levels}, expected probabilities between 0 and 1")
    return levels
