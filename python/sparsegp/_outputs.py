"""The estimator of several targets: it contains a fitted estimator for each target, trained together or one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, check_consistent_length

from . import _sparsegp, _tables
from ._attributes import fitted_part
from ._base import Estimator
from ._custom import engine_custom
from ._functions import ExactDraws, MixedDraws, OutputFunctionDraws
from ._options import seed_of
from ._processes import SparseGPRegressor
from ._regression import Regression
from ._types import Array, Column, Rows, Seed
from .kernels import CustomKernel
from .likelihoods import CustomLikelihood


class SparseGPMultiOutputRegressor(RegressorMixin, BaseEstimator):
    """Sparse Gaussian process regression of several targets, which may share processes or a kernel.

    If a target is missing (NaN) in a row, the other targets of the row are still used.

    Parameters
    ----------
    estimator : SparseGPRegressor or another regressor of this package, optional
        The estimator whose parameters are used: kernel, inducing inputs and everything else. ``SparseGPRegressor()`` by default.
    outputs : str, optional
        The structure that the targets share: ``"own"`` (none: a model for each), ``"shared"`` (kernel and inducing inputs) or
        ``"mixed:L"`` (L processes that all targets mix: the linear model of coregionalisation). By default held-out training rows
        decide, or it is ``"own"`` if the estimator has ``auto="none"``.

    Attributes
    ----------
    estimators_ : list of estimators
        The fitted estimator of every target, with all attributes of a fit.
    target_names_ : list of str
        The names of the targets: the names of a table's columns, or else y0, y1, …
    outputs_ : str
        The structure that the targets share. Absent after loading a model.
    n_features_in_, feature_names_in_ :
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import SparseGPMultiOutputRegressor, SparseGPRegressor
    >>> X = np.linspace(0, 10, 100)[:, None]
    >>> Y = np.column_stack([np.sin(X[:, 0]), 2 * np.sin(X[:, 0]) + 1])
    >>> Y[50:, 1] = np.nan
    >>> how = SparseGPRegressor("rbf", n_inducing=20, auto="none")
    >>> model = SparseGPMultiOutputRegressor(how, outputs="mixed:1").fit(X, Y)
    >>> mean, std = model.predict([[8.0]], return_std=True)
    >>> mean.shape, bool(abs(mean[0, 1] - (2 * np.sin(8.0) + 1)) < 0.2)
    ((1, 2), True)
    """

    estimators_: list[Regression]
    target_names_: list[str]
    outputs_: str
    n_features_in_: int

    def __init__(self, estimator: Regression | None = None, *, outputs: str | None = None) -> None:
        self.estimator = estimator
        self.outputs = outputs

    def fit(self, X: Rows, y: Column, sample_weight: Column = None, groups: str | list[str] | None = None) -> Self:
        """Fit the models.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs: an array of numbers, or a pandas, polars or Arrow table, whose columns of text are categories.
        y : array-like or table of shape (n, targets)
            The targets: numbers, with NaN for a missing value.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses: a row of weight 2 counts as two rows.
        groups : str or list of str, optional
            Formulae of grouped effects with columns of ``X``, such as ``"school"`` or ``"days | subject"``. Every
            target has separate effects: ``estimators_[i].effects_``.

        Returns
        -------
        self
        """
        how = SparseGPRegressor() if self.estimator is None else clone(self.estimator)
        if not isinstance(how, Regression):
            raise TypeError(f"estimator is {how!r}, expected a regressor of sparsegp")
        if self.outputs is not None and not isinstance(self.outputs, str):
            raise TypeError(f"outputs is {self.outputs!r}, expected a string")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if not _tables.is_formula(groups):
            raise TypeError("groups is an array, expected formulae with names of columns for several targets")
        values, names = _columns_of(y)
        self.estimators_, self.outputs_ = how._fit_outputs(X, values, names, sample_weight, groups, self.outputs)
        return self._with(names)

    def partial_fit(self, X: Rows, y: Column, sample_weight: Column = None, *, forget: float = 0.0) -> Self:
        """Fit the models, or update the model of each target with the new rows that have the target; see ``SparseGPRegressor.partial_fit``.
        Targets that mix processes are updated together.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like or table of shape (n, targets)
            The targets.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses.
        forget : float, default=0.0
            The share of the information from earlier rows to forget: 0 keeps all of it, 1 keeps only the hyper-parameters.

        Returns
        -------
        self
        """
        if "estimators_" not in self.__dict__:
            return self.fit(X, y, sample_weight)
        columns = [("number", column.copy()) for _, column in self._known(X, y)]
        targets = [(estimator._columns["target"], column) for estimator, column in zip(self.estimators_, columns)]
        first, models = self.estimators_[0], [estimator._model for estimator in self.estimators_]
        _, table = first._prediction_table(X, targets=targets, weights=sample_weight)
        models = _sparsegp.update_outputs(models, table, float(forget), threads=first.n_threads)
        self.estimators_ = [estimator._copy_with(model) for estimator, model in zip(self.estimators_, models)]
        return self

    @overload
    def predict(
        self, X: Rows, return_std: Literal[False] = False, return_cov: Literal[False] = False, quantiles: None = None
    ) -> Array: ...
    @overload
    def predict(
        self, X: Rows, return_std: Literal[True], return_cov: Literal[False] = False, quantiles: None = None
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self, X: Rows, return_std: bool = False, return_cov: bool = False, quantiles: Sequence[float] | Array | None = None
    ) -> Any: ...
    def predict(
        self, X: Rows, return_std: bool = False, return_cov: bool = False, quantiles: Sequence[float] | Array | None = None
    ) -> Any:
        """Predict the targets.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        return_std : bool, default=False
            Return the standard deviations of the targets, noise included.
        return_cov : bool, default=False
            Return the covariance of each target at all rows (Gaussian noise, at most 2000 rows).
        quantiles : sequence of float, optional
            Probabilities between 0 and 1; the quantiles of the targets at these probabilities are returned.

        Returns
        -------
        mean : ndarray of shape (n, targets)
            The means. They are returned alone, not in a tuple, unless another argument adds a result.
        std : ndarray of shape (n, targets)
            With ``return_std``.
        cov : ndarray of shape (n, n, targets)
            With ``return_cov``.
        quantiles : ndarray of shape (n, targets, number of quantiles)
            With ``quantiles``.
        """
        wanted = {"return_std": return_std, "return_cov": return_cov, "quantiles": quantiles}
        answers = [estimator.predict(X, **wanted) for estimator in self._fitted()]
        if not isinstance(answers[0], tuple):
            return np.stack(answers, axis=1)
        axes = [1] + [1] * bool(return_std) + [2] * bool(return_cov) + [1] * (quantiles is not None)
        return tuple(np.stack(parts, axis=axis) for parts, axis in zip(zip(*answers), axes))

    def predict_f(self, X: Rows, full_output_cov: bool = False) -> tuple[Array, Array]:
        """Predict the functions: the targets without their noise.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        full_output_cov : bool, default=False
            Return the covariances between the functions at each row instead of variances. Functions that mix processes are
            correlated, others are independent.

        Returns
        -------
        mean : ndarray of shape (n, targets)
        variance : ndarray of the same shape, or of shape (n, targets, targets)
        """
        estimators = self._fitted()
        _, table = estimators[0]._prediction_table(X)
        models = [estimator._model for estimator in estimators]
        mean, covariances = _sparsegp.output_functions(models, table, threads=estimators[0].n_threads)
        covariances = covariances.reshape(len(mean), len(models), len(models))
        return mean, covariances if full_output_cov else np.einsum("npp->np", covariances).copy()

    def sample_y(self, X: Rows, n_samples: int = 1, random_state: Seed = 0) -> Array:
        """Draw targets, independently at each row. Targets that mix processes are drawn jointly, others independently.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        n_samples : int, default=1
            The number of draws.
        random_state : int, RandomState or None, default=0
            The random seed.

        Returns
        -------
        ndarray of shape (n, targets, n_samples)
        """
        estimators = self._fitted()
        _, table = estimators[0]._prediction_table(X)
        models, count = [estimator._model for estimator in estimators], int(n_samples)
        draws = _sparsegp.output_draws(models, table, count, seed_of(random_state), threads=estimators[0].n_threads)
        return draws.reshape(len(draws), len(models), count)

    def sample_f(self, n_samples: int = 1, random_state: Seed = 0) -> OutputFunctionDraws:
        """Draw the functions of all targets, which can be evaluated anywhere; see ``SparseGPRegressor.sample_f``.

        Functions that mix processes combine the same draws of these processes; other functions are independent.

        Parameters
        ----------
        n_samples : int, default=1
            The number of draws.
        random_state : int, RandomState or None, default=0
            The random seed.

        Returns
        -------
        callable
            Takes inputs of shape (n, d) and returns an ndarray of shape (n, targets, n_samples). Its method
            ``gradient`` takes the same inputs and returns an ndarray of shape (n, inputs, targets, n_samples).
        """
        estimators, seed = self._fitted(), seed_of(random_state)
        draws = [estimator._function_draws(n_samples, seed, place) for place, estimator in enumerate(estimators)]
        if all(isinstance(draw._functions, ExactDraws) for draw in draws):
            self._mix(draws, int(n_samples), seed)
        return OutputFunctionDraws(draws)

    def _mix(self, draws, n_samples, seed):
        """Replaces exact draws of outputs that mix processes by combinations of shared draws of the processes."""
        models = [estimator._model for estimator in self._fitted()]
        mixing = [model.mixing() for model in models]
        if any(mixed is None for mixed in mixing):
            return
        joints = [partial(_sparsegp.joint_at, models[0], process=process) for process in range(len(mixing[0][0]))]
        processes = [ExactDraws(joint, n_samples, [seed, place]) for place, joint in enumerate(joints)]
        for draw, (weights, offset) in zip(draws, mixing):
            draw._functions = MixedDraws(processes, np.array(weights), offset)

    def log_density(self, X: Rows, y: Column) -> Array:
        """The log predictive density of each target.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like or table of shape (n, targets)
            The targets.

        Returns
        -------
        ndarray of shape (n, targets)
            NaN where a target is missing.
        """
        return self._judged("log_density", X, y)

    def crps(self, X: Rows, y: Column) -> Array:
        """The continuous ranked probability score of each target, in its units; smaller is better.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like or table of shape (n, targets)
            The targets.

        Returns
        -------
        ndarray of shape (n, targets)
            NaN where a target is missing.
        """
        return self._judged("crps", X, y)

    def score(self, X: Rows, y: Column, sample_weight: Column = None) -> float:
        """The coefficient of determination R² of the predicted means, averaged over targets; missing targets are left out.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like or table of shape (n, targets)
            The targets.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses.

        Returns
        -------
        float
        """
        weights = None if sample_weight is None else np.asarray(sample_weight)
        mean = self.predict(X)
        scores = [
            r2_score(column[known], mean[known, p], sample_weight=None if weights is None else weights[known])
            for p, (known, column) in enumerate(self._known(X, y))
        ]
        return float(np.mean(scores))

    def save(self, path: str | PathLike[str]) -> None:
        """Save the models in one file that the command line and :meth:`load` read.

        Parameters
        ----------
        path : str or path-like
            The file. A failed call leaves no partial file.
        """
        _sparsegp.save_outputs([estimator._model for estimator in self._fitted()], path)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        kernels: Sequence[CustomKernel] = (),
        likelihoods: Sequence[CustomLikelihood] = (),
    ) -> Self:
        """Read models that :meth:`save` or the command line wrote.

        Parameters
        ----------
        path : str or path-like
            The file.
        kernels : sequence of CustomKernel, optional
            The kernels written in Python that the models use.
        likelihoods : sequence of CustomLikelihood, optional
            The likelihood written in Python that the models use.

        Returns
        -------
        estimator
            A fitted estimator, whose predictions equal those of the saved estimator bit for bit.
        """
        models = _sparsegp.load_outputs(path, engine_custom(kernels, likelihoods))
        kinds = [(model.columns()["kind"], model.kernel() is None) for model in models]
        for kind, linear in kinds:
            if kind not in SparseGPRegressor._kinds or linear:
                found = f"a {'linear model' if linear else 'sparse Gaussian process'} of a {kind} target"
                raise ValueError(f"{path}: holds {found}, which {cls.__name__} cannot load")
        loaded = cls()
        loaded.estimators_ = [SparseGPRegressor()._with_model(model, kernels, likelihoods) for model in models]
        return loaded._with([model.columns()["target"] for model in models])

    def _with(self, names):
        self.target_names_ = list(names)
        first = self.estimators_[0]
        self.n_features_in_ = first.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(first, "feature_names_in_"):
            self.feature_names_in_ = first.feature_names_in_
        return self

    def _fitted(self) -> list[Any]:
        return fitted_part(self, "estimators_")

    def _known(self, X, y):
        """Returns for each target the rows that have it, and its column."""
        values, _ = _columns_of(y)
        check_consistent_length(X, values)
        if values.shape[1] != len(self._fitted()):
            raise ValueError(f"y has {values.shape[1]} columns, expected {len(self.estimators_)}, one for each target of the fit")
        return [(~np.isnan(column), column) for column in values.T]

    def _judged(self, method, X, y):
        out = np.full((len(_columns_of(y)[0]), len(self._fitted())), np.nan)
        for p, (known, column) in enumerate(self._known(X, y)):
            if known.any():
                out[known, p] = getattr(self.estimators_[p], method)(_tables.take_rows(X, known), column[known])
        return out

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output, tags.target_tags.single_output = True, False
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


def _columns_of(y):
    """Returns the targets as a matrix, with NaN for missing targets, and their names."""
    names = None
    if _tables.is_named(y):
        names = _tables.frame_names(y) if _tables.is_pandas(y) else list(getattr(y, "column_names", None) or y.columns)
        cells = (y.iloc[:, i] if _tables.is_pandas(y) else y[name].to_numpy() for i, name in enumerate(names))
        y = np.column_stack([np.asarray(column, dtype=np.float64) for column in cells])
    values = check_array(_tables.unmasked(y), dtype=np.float64, ensure_all_finite="allow-nan", input_name="y")
    return values, [f"y{p}" for p in range(values.shape[1])] if names is None else [str(name) for name in names]


__all__ = ["SparseGPMultiOutputRegressor"]
