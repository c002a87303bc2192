"""The base of all estimators, which fits a model of the engine to rows and returns its predictions and results."""

from __future__ import annotations

import json
import warnings
from functools import partial
from os import PathLike
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, validate_data

from . import _exposures, _means, _offsets, _sparsegp, _tables
from ._attributes import FittedAttributes
from ._functions import ExactDraws, FunctionDraws
from ._options import custom_of, custom_parts, engine_options, seed_of
from ._progress import Progress, listener
from ._stored import Stored
from ._types import Array, Column, Rows, Seed


class Estimator(FittedAttributes, Stored):
    """An estimator around a model of the engine."""

    n_features_in_: int
    feature_names_in_: NDArray[Any]
    #: Classifiers and linear models lack this parameter.
    conformal: bool = False

    #: Arguments of the engine that are not parameters.
    _given: dict[str, Any] = {}

    #: The kinds of target of saved models of this class, and True if the models are linear.
    _kinds: tuple = tuple("real,measured,censored,positive,lifetime,amount,unit interval,share,ordinal,count,censored count,trials".split(","))
    _linear = False

    def _engine_params(self) -> dict:
        params = self.get_params(deep=False)
        # The columns of an own mean are inputs, beside a constant.
        return {**params, "mean": "constant"} if _means.is_own(params.get("mean")) else params

    # From rows to tables.

    def _rows(self, X, *, reset: bool):
        """Returns the table of ``X``, validated as in scikit-learn, and True if ``X`` is an array, whose columns are all kept."""
        X = _tables.unmasked(X)
        if reset:
            self._arrays = not _tables.is_named(X)
        elif _tables.is_pandas(X) and self._takes_arrays(X.shape[1]):
            # A frame for a model of an array is used as an array of its columns in their order.
            X = X.to_numpy(dtype=np.float64, na_value=np.nan)
        if not _tables.is_named(X):
            # A broadcast or sparse array may have more cells than fit into memory.
            if getattr(X, "ndim", None) == 2 and (isinstance(X, np.ndarray) or hasattr(X, "toarray")):
                _sparsegp.check_room(*X.shape)
            least = 2 if reset else 1
            checks = {"dtype": np.float64, "accept_sparse": True, "ensure_all_finite": "allow-nan", "ensure_min_samples": least}
            wholes = X if getattr(getattr(X, "dtype", None), "kind", "O") in "iu" else None
            X = validate_data(self, X, reset=reset, **checks)
            X = X.toarray() if hasattr(X, "toarray") else X
            names = getattr(self, "feature_names_in_", None)
            if isinstance(wholes, np.ndarray) and _tables.has_long_wholes(X):
                columns = zip(names if names is not None else _tables.default_names(X.shape[1]), wholes.T)
                columns = [(name, _tables.column(values, name)) for name, values in columns]
                return _sparsegp.Table.of_columns("X", columns).called("X"), True
            return _tables.matrix_table(X, names).called("X"), True
        table = _tables.named_table(X).called("X", _tables.row_labels(X))
        if _tables.is_pandas(X):
            more = self.__dict__.get("_columns", {}) if self.__dict__.get("_loaded") else {}
            if not reset and (more.get("group_columns") or more.get("offset")):  # Files lack the order of the frame.
                X = X[[name for name in self.feature_names_in_ if name in X.columns]]
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif reset:
            self.feature_names_in_ = np.array(table.names, dtype=object)
            self.n_features_in_ = len(table.names)
        if len(table) < (2 if reset else 1):
            raise ValueError(f"Found array with {len(table)} sample(s) while a minimum of {2 if reset else 1} is required.")
        return table, False

    def _takes_arrays(self, columns: int) -> bool:
        """True if the model was fitted to an array of this many columns."""
        return self.__dict__.get("_arrays", "feature_names_in_" not in self.__dict__) and columns == self.__dict__.get("n_features_in_")

    def _column_of(self, values, table, name: str) -> np.ndarray:
        """Returns numbers with one entry per row, such as exposures, as an array."""
        values = np.asarray(_tables.unmasked(values), dtype=np.float64)
        if values.ndim != 1 or len(values) != len(table):
            raise ValueError(f"{name} has shape {values.shape}, expected ({len(table)},)")
        return values

    def _exposure_column(self, exposure, table):
        """Returns the column of exposures or trials of rows to predict or to learn from, if the model has one and it is given."""
        role, values = _exposures.unwrapped(exposure)
        known = next((one for one in ("trials", "noise_std") if self._columns[one] is not None), "exposure")
        name = self._columns[known]
        if values is None:
            if name is not None and name not in table.names and known != "noise_std":
                raise ValueError(f"the model was fitted with {known}, but {known} is not given: predictions need it too")
            return []
        if name is None or role != known:
            raise ValueError(f"{role} is given, but the model was fitted without {role}")
        return [(name, ("number", self._column_of(values, table, role)))]

    def _prediction_table(
        self, X, *, y=None, targets=(), exposure=None, offset=None, weights=None, groups=None, censored=None
    ):
        """Returns the model, and the table of rows to predict or to learn from, with columns of targets and weights if
        they are given: ``y``, or named columns of several targets."""
        model = self._fitted()
        own = self.__dict__.get("_group_column")
        if groups is not None and self.__dict__.get("_loaded") and len(self._columns["group_columns"]) == 1:
            own = self._columns["group_columns"][0]
            X = X.assign(**{own: np.asarray(groups)}) if _tables.is_pandas(X) and own not in X.columns else X
        if self.__dict__.get("_loaded") and _tables.is_pandas(X):
            X, offset = _offsets.assigned(X, offset, self._columns["offset"])
        table, _ = self._rows(X, reset=False)
        if groups is not None and own is None:
            raise ValueError("groups is given, but the model was not fitted with an array of groups")
        if groups is None and own is not None:
            raise ValueError("the model was fitted with groups, but groups is not given: predictions need it too")
        if own is not None and own not in table.names:
            check_consistent_length(np.empty(len(table)), groups)
            table = table.with_columns(_sparsegp.Table.of_columns("groups", [(own, _tables.column(groups, own))]))
        if "_mean" in self.__dict__:
            scores = self._mean.scores(X)
            table = table.with_columns(_sparsegp.Table.of_columns("mean", self._mean.columns(scores)))
        self._tell_unseen(model, table)
        names, more = self._columns, []
        more.extend(self._exposure_column(exposure, table))
        more.extend(_offsets.prediction_columns(offset, len(table), names["offset"], table.names))
        if y is not None:
            check_consistent_length(np.empty(len(table)), y)
            targets = [(names["target"], self._target_column(y))]
            if censored is not None:
                more.extend(_exposures.censored_columns(censored, targets[0][1][1], names))
        more.extend(targets)
        if names["weights"] is not None and targets:
            weights = np.ones(len(table)) if weights is None else self._column_of(weights, table, "sample_weight")
            more.append((names["weights"], ("number", weights)))
        elif weights is not None and not np.all(np.asarray(weights) == 1.0):
            raise ValueError("sample_weight is given, but the model was fitted without sample_weight")
        if more:
            table = table.with_columns(_sparsegp.Table.of_columns("y", more))
        return model, table

    def _tell_unseen(self, model, table):
        """Warns of levels of categories that training did not see, or refuses them."""
        # Estimators that an earlier version pickled lack this parameter.
        unseen = getattr(self, "unseen", "new")
        if unseen not in ("new", "error"):
            raise ValueError(f"unseen is {unseen!r}, expected 'new' or 'error'")
        told = model.unseen_levels(table)
        if told is not None and unseen == "error":
            found, _, _ = told.rpartition("; ")
            raise ValueError(f"{found}; unseen='new' treats each as a new level, unlike all others")
        if told is not None:
            warnings.warn(told, UserWarning, stacklevel=4)

    def _tell_left_out(self):
        """Warns of columns that were left out automatically."""
        for told in self._document["fit"]["warnings"]:
            if " left out: " in told:
                warnings.warn(told, UserWarning, stacklevel=5)

    # Fitting.

    def _fit(self, X, y, sample_weight=None, exposure=None, groups=None, offset=None, censored=None, **given):
        """Fits the model, with more options; ``y`` was checked by the caller."""
        self.__dict__.pop("_model", None)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        own = self._given_options()
        # Numbers may be shares or amounts with exact ends, which the engine recognises unless it is asked for a regression.
        continuous = own.get("task") == "regression"
        options, betas = engine_options(self._engine_params(), **{**own, **given, **({"task": None} if continuous else {})})
        known = (exposure, groups, offset, censored)
        table, columns = self._training_table(X, y, self._named_targets, sample_weight, *known)
        columns["continuous"] = continuous
        given = {"betas": betas, "conformal": self.conformal}
        model = self._heard(lambda hearing: _sparsegp.fit(table, columns, options, **given, **hearing))
        self._take_model(model, **custom_parts(self._engine_params()))
        self._tell_left_out()
        return self

    def _fit_outputs(self, X, y, names, sample_weight, groups, sharing):
        """Fits a model to every column of ``y``, whose cells may be missing. Returns copies of this estimator with the models, and the
        structure that the models share."""
        if isinstance(self.beta, (str, list, tuple)):
            raise ValueError(f"beta is {self.beta!r}, expected a number: held-out rows choose beta only for a single target")
        if self.conformal:
            raise ValueError("conformal is True, which is for a single target")
        if _means.is_own(self.mean):
            raise ValueError(f"mean is {self.mean!r}, which is for a single target: expected 'constant', 'zero' or 'trees'")
        options, _ = engine_options(self._engine_params(), **self._given_options())

        def targets(y, taken):
            found = []
            for i, name in enumerate(names):
                found.append((_tables.free_name(name, taken | {name for name, _ in found}), ("number", y[:, i].copy())))
            return found

        table, columns = self._training_table(X, y, targets, sample_weight, groups=groups)
        models, sharing = self._heard(
            lambda hearing: _sparsegp.fit_outputs(table, columns, columns["targets"], options, sharing=sharing, **hearing)
        )
        copies = [self._copy_with(model) for model in models]
        copies[0]._tell_left_out()
        return copies, sharing

    def _copy_with(self, model):
        """Returns an estimator with the same parameters and columns, and another model."""
        copy = clone(self)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(copy, name, getattr(self, name))
        copy._take_model(model, **custom_parts(copy._engine_params()))
        return copy

    def _heard(self, work):
        """Runs work of the engine with listeners, and shows its progress if ``verbose``."""
        progress = Progress() if self.verbose else None
        try:
            hear = listener(progress, self.callbacks or ())
            return work({"custom": custom_of(self._engine_params()), "listener": hear, "threads": self.n_threads})
        finally:
            if progress is not None:
                progress.close()

    def _training_table(self, X, y, targets, sample_weight=None, exposure=None, groups=None, offset=None, censored=None):
        """Returns the table of rows with targets, exposures, offsets and weights, and the roles of its columns. Rows of weight 0
        are left out. ``targets`` makes named columns from ``y``, given the names that are already used."""
        self.__dict__.pop("_mean", None)
        table, keep_all = self._rows(X, reset=True)
        check_consistent_length(np.empty(len(table)), y)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(_tables.unmasked(sample_weight), np.empty((len(table), 1)), ensure_non_negative=True)
        rows = None if weights is None or np.all(weights > 0) else weights > 0
        if rows is not None:
            X = _tables.take_rows(X, rows)
            table, keep_all = self._rows(X, reset=True)
            y, weights = _tables.take_rows(y, rows), weights[rows]
            exposure = _exposures.taken(exposure, rows)
            censored = _exposures.censored_rows(censored, rows)
            groups = groups if _tables.is_formula(groups) else _tables.take_rows(groups, rows)
            offset = offset if _tables.is_formula(offset) else _tables.take_rows(offset, rows)
        more = targets(y, set(table.names))
        named = [name for name, _ in more]
        taken = {*table.names, *named}
        columns = {
            "target": named[0],
            "targets": named,
            **dict.fromkeys(("exposure", "trials", "noise_std", "censored", "lower", "upper", "weights")),
            "keep": table.names if keep_all else _tables.names_of(self.keep),
            "exclude": _tables.names_of(self.exclude),
            **_tables.category_columns(X, self.categorical, self.ordered),
            **_tables.place_columns(self),
            "groups": _tables.names_of(groups) if _tables.is_formula(groups) else [],
            "positive_label": self._positive_label(),
        }
        self.__dict__.pop("_group_column", None), self.__dict__.pop("_loaded", None)
        if not _tables.is_formula(groups):
            check_consistent_length(np.empty(len(table)), groups)
            self._group_column = _tables.free_name("group", taken)
            columns["groups"] = [self._group_column]
            more.append((self._group_column, _tables.column(groups, self._group_column)))
            taken.add(self._group_column)
        role, values = _exposures.unwrapped(exposure)
        if values is not None:
            columns[role] = _tables.free_name(role, taken)
            more.append((columns[role], ("number", self._column_of(values, table, role))))
        if censored is not None:
            used = {*taken, *(name for name, _ in more)}
            roles = ("lower", "upper") if isinstance(censored, _exposures.Ends) else ("censored",)
            columns.update({role: _tables.free_name(role, used) for role in roles})
            more.extend(_exposures.censored_columns(censored, more[0][1][1], columns))
        columns["offset"], new = _offsets.training_columns(offset, len(table), taken)
        more.extend(new)
        if weights is not None and not np.all(weights == 1.0):
            columns["weights"] = _tables.free_name("weight", taken)
            more.append((columns["weights"], ("number", weights)))
        if _means.is_own(getattr(self, "mean", None)):
            if columns["offset"] and hasattr(self.mean, "fit"):
                raise ValueError(f"mean is {self.mean!r}, which cannot take offset into account: leave one of both out")
            self._mean, scores = _means.fitted(self.mean, X, y, self.cv, weights, taken)
            more.extend(self._mean.columns(scores))
            columns["keep"] = [*columns["keep"], *self._mean.names]
        labels = _tables.row_labels(X)
        return table.with_columns(_sparsegp.Table.of_columns("y", more)).called("X, y", labels), columns

    def _named_targets(self, y, taken):
        return [(_tables.free_name(self._target_name(y), taken), self._training_target(y))]

    def _partial_fit(self, X, y, sample_weight, exposure=None, forget=0.0, offset=None, censored=None):
        """Fits the model, or updates a fitted model with new rows."""
        if "_model" not in self.__dict__:
            # A model with neighbours would keep the rows of all calls, and does not support sample weights.
            open_to_choice = not self._linear and self.neighbours is None
            given = {"neighbours": "none"} if open_to_choice else {}
            return self._fit(X, y, sample_weight, exposure, offset=offset, censored=censored, **given)
        known = {"exposure": exposure, "offset": offset, "censored": censored}
        model, table = self._prediction_table(X, y=y, weights=sample_weight, **known)
        (updated,) = _sparsegp.update_outputs([model], table, float(forget), threads=self.n_threads)
        self._take_model(updated, **self._own)
        return self

    def _given_options(self) -> dict:
        return dict(self._given)

    def _positive_label(self):
        return None

    def _target_name(self, y) -> str:
        name = getattr(y, "name", None)
        return name if isinstance(name, str) and name else "y"

    def _take_model(self, model, kernels=(), likelihoods=()) -> None:
        self._model = model
        self._own = {"kernels": list(kernels), "likelihoods": list(likelihoods)}
        self._columns = model.columns()
        self._document = json.loads(model.document())

    # The fitted model.

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def report(
        self,
        path: str | PathLike[str],
        X_test: Rows = None,
        y_test: Column = None,
        exposure: Column = None,
        *,
        offset: Column = None,
        trials: Column = None,
    ) -> None:
        """Write a report of the fit with figures, as one self-contained HTML file.

        Parameters
        ----------
        path : str or path-like
            The file. A failed call leaves no partial file.
        X_test : array-like or table of shape (n, d), optional
            Rows that the model was not fitted to. Without them the report has no figures of test rows, relevance,
            partial dependence or the function.
        y_test : array-like of shape (n,), optional
            The targets of these rows. Without them the rows are used only for partial dependence and the function. For
            comparison, the report also scores the training rows, the best constant and a linear model, unless the model was loaded
            or updated after its fit, or the training rows have more than four million numbers.
        exposure : array-like of shape (n,), optional
            The exposures of these rows, for counts that were fitted with exposures.
        offset : array-like of shape (n,) or (n, functions), optional
            The offsets of these rows, for models that were fitted with an array of them.
        trials : array-like of shape (n,), optional
            The numbers of trials of these rows, for models that were fitted with them.
        """
        exposure = _exposures.given(exposure, trials)
        model, table = self._fitted(), None
        if X_test is not None:
            model, table = self._prediction_table(X_test, y=y_test, exposure=exposure, offset=offset)
        elif any(given is not None for given in (y_test, exposure, offset)):
            raise ValueError("y_test, exposure, trials or offset is given without X_test, expected their rows in X_test")
        rows = "" if X_test is None else ", X_test" if y_test is None else ", X_test, y_test"
        model.report(path, f"{self!r}.fit(X, y).report({str(path)!r}{rows})", table, threads=self.n_threads)

    # Predictions.

    @overload
    def predict_f(
        self, X: Rows, full_cov: bool = False, return_gradient: Literal[False] = False, *, offset: Column = None
    ) -> tuple[Array, Array]: ...
    @overload
    def predict_f(
        self, X: Rows, full_cov: Literal[False] = False, *, return_gradient: Literal[True], offset: Column = None
    ) -> tuple[Array, Array, Array, Array]: ...
    def predict_f(
        self, X: Rows, full_cov: bool = False, return_gradient: bool = False, *, offset: Column = None
    ) -> Any:
        """Predict the function: the target without its noise, in units of the target. For a warped target it is the curve
        around which the noise varies, also in units of the target; for classes it is the latent function, which has no unit.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        full_cov : bool, default=False
            Return the covariance of all rows (at most 2000 rows) instead of variances.
        return_gradient : bool, default=False
            Also return the gradients of mean and variance with respect to the inputs. This cannot be combined with ``full_cov`` or with
            ``warp_inputs``. The gradient for a category is 0.
        offset : array-like of shape (n,) or (n, functions), optional
            The known additions to the function, which are part of it, for models that were fitted with an array of them.

        Returns
        -------
        mean : ndarray of shape (n,), or (n, functions) for models of several latent functions
        variance : ndarray of the same shape, or of shape (n, n)
        mean_gradient, variance_gradient : ndarray of shape (n, inputs)
            With ``return_gradient``; with several functions, the gradients of the first one.
        """
        model, table = self._prediction_table(X, exposure=self._unit_exposure(X), offset=offset)
        if full_cov and return_gradient:
            raise ValueError("full_cov and return_gradient cannot both be True")
        if full_cov:
            return _sparsegp.joint_at(model, _sparsegp.design(model, table), threads=self.n_threads)
        (latent,) = model.predict(table, ["latent"], threads=self.n_threads)
        half = latent.shape[1] // 2
        mean, variance = latent[:, :half], latent[:, half:]
        found = (mean[:, 0].copy(), variance[:, 0].copy()) if half == 1 else (mean.copy(), variance.copy())
        return (*found, *_sparsegp.slopes(model, table, threads=self.n_threads)[2:]) if return_gradient else found

    def sample_f(self, n_samples: int = 1, random_state: Seed = 0) -> FunctionDraws:
        """Draw functions from the posterior, in units of the target. They can be evaluated repeatedly at any rows, and
        differentiated.

        Each function is an exact draw of the inducing variables, and a pathwise draw of the residual with random features
        (Wilson et al. 2021), which the neighbours, if any, correct. Its value at any row is exactly normal, with the mean
        and the variance of the posterior; correlations of residuals are approximate. Linear models and kernels without random
        features (``wendland``, ``white``, custom kernels) give exact draws at rows instead: at most 2000 different rows
        over all calls, and no gradients.

        Parameters
        ----------
        n_samples : int, default=1
            The number of functions.
        random_state : int, RandomState or None, default=0
            The random seed.

        Returns
        -------
        callable
            Takes inputs of shape (n, d) and returns an ndarray of shape (n, n_samples). Its method ``gradient`` takes
            the same inputs and returns an ndarray of shape (n, inputs, n_samples).

        Examples
        --------
        >>> import numpy as np
        >>> from sparsegp import SparseGPRegressor
        >>> X = np.linspace(0, 10, 200)[:, None]
        >>> model = SparseGPRegressor("rbf", n_inducing=20, auto="none").fit(X, np.sin(X[:, 0]))
        >>> functions = model.sample_f(3)
        >>> functions(X).shape, functions.gradient(X).shape
        ((200, 3), (200, 1, 3))
        """
        return self._function_draws(n_samples, random_state, 0)

    def _function_draws(self, n_samples: int, random_state: Seed, output: int) -> FunctionDraws:
        """Returns draws of the function, or of one of several outputs."""
        model, count, seed = self._fitted(), int(n_samples), seed_of(random_state)
        if count < 1:
            raise ValueError(f"n_samples is {count}, expected at least 1")
        functions = _sparsegp.functions(model, count, seed, output, threads=self.n_threads)
        if functions is None:
            joint = partial(_sparsegp.joint_at, model, threads=self.n_threads)
            functions = ExactDraws(joint, count, [seed, output])
        return FunctionDraws(self._design, functions, self.n_threads, len(self._columns["inputs"]))

    def _design(self, X: Rows) -> Array:
        """Returns the inputs of the model at rows, with offsets of 0 unless the rows are a table with columns of offsets."""
        exposure = self._unit_exposure(X)
        offset = _offsets.zero_if_absent(X, self._columns["offset"])
        model, table = self._prediction_table(X, exposure=exposure, offset=offset)
        return _sparsegp.design(model, table)

    def _unit_exposure(self, X):
        """Returns exposures of 1, for results that do not depend on exposures; None for a model without exposures."""
        self._fitted()
        trials = self._columns["trials"] is not None
        if self._columns["exposure"] is None and not trials:
            return None
        ones = np.ones(len(X) if hasattr(X, "__len__") else X.shape[0])
        return _exposures.given(None, ones) if trials else ones

    def log_density(
        self,
        X: Rows,
        y: Column,
        exposure: Column = None,
        *,
        offset: Column = None,
        trials: Column = None,
        censored: Column = None,
        other_ends: Column = None,
    ) -> Array:
        """The log predictive density of each target, or for discrete targets and intervals its log probability.

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
        censored, other_ends : array-like of shape (n,), optional
            Which targets are censored, or the other ends of their intervals, for models that were fitted with either.

        Returns
        -------
        ndarray of shape (n,)
        """
        exposure = _exposures.given(exposure, trials)
        censored = _exposures.censored_or_ends(censored, other_ends)
        model, table = self._prediction_table(X, y=y, exposure=exposure, offset=offset, censored=censored)
        return model.predict(table, ["log_density"], threads=self.n_threads)[0][:, 0].copy()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags
