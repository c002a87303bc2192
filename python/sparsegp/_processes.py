"""Estimators of sparse Gaussian processes: their parameters, targets and predictions; the engine does the work."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from . import _tables
from ._base import Estimator, checked_target, documented
from ._options import seed_of


class _Parameters:
    """The parameters of sparse Gaussian processes."""

    def __init__(
        self,
        kernel=None,
        *,
        likelihood=None,
        objective=None,
        beta=1.0,
        n_inducing=None,
        neighbours=None,
        auto="all",
        warp_inputs=None,
        warp_target=None,
        mean=None,
        hyper=None,
        batch_size=None,
        learning_rate=None,
        epochs=None,
        max_seconds=None,
        tolerance=None,
        validation_fraction=None,
        patience=None,
        restarts=None,
        fix=None,
        bounds=None,
        prior=None,
        tie=None,
        standardize=True,
        categorical=None,
        options=None,
        callbacks=None,
        verbose=False,
        n_threads=None,
        random_state=None,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.objective = objective
        self.beta = beta
        self.n_inducing = n_inducing
        self.neighbours = neighbours
        self.auto = auto
        self.warp_inputs = warp_inputs
        self.warp_target = warp_target
        self.mean = mean
        self.hyper = hyper
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.max_seconds = max_seconds
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.restarts = restarts
        self.fix = fix
        self.bounds = bounds
        self.prior = prior
        self.tie = tie
        self.standardize = standardize
        self.categorical = categorical
        self.options = options
        self.callbacks = callbacks
        self.verbose = verbose
        self.n_threads = n_threads
        self.random_state = random_state


class Regression(RegressorMixin, Estimator):
    """What estimators of numbers share."""

    _task = "regression"

    def _given_options(self) -> dict:
        # A likelihood is for one kind of target, which is then known.
        return {**self._given, "task": self._task if self.likelihood is None else None}

    def _target_column(self, y):
        return "number", np.asarray(checked_target(y, numeric=True), dtype=np.float64)

    _training_target = _target_column

    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs: an array of numbers, or a pandas, polars or Arrow table, whose columns of text are categories.
        y : array-like of shape (n,)
            The targets.
        sample_weight : array-like of shape (n,), optional
            How much each row counts. A row of weight 2 is two rows.

        Returns
        -------
        self
        """
        return self._fit(X, _series(y, numeric=True), sample_weight)

    def _first_level(self) -> float:
        """What the engine's codes of ordered levels begin with."""
        levels = self._columns["levels"]
        return float(levels[0]) if levels and self._columns["kind"] == "ordinal" else 0.0

    def predict(self, X, return_std=False, return_cov=False, quantiles=None, exposure=None):
        """Predict the target.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        return_std : bool, default=False
            Whether the standard deviation of the target, noise included, is wanted.
        return_cov : bool, default=False
            Whether the covariance of the targets of all rows is wanted (Gaussian noise, at most 2000 rows).
        quantiles : sequence of float, optional
            Probabilities whose quantiles of the target are wanted.
        exposure : array-like of shape (n,), optional
            Exposures, for counts that were fitted with them.

        Returns
        -------
        mean : ndarray of shape (n,)
            The mean of the target; alone where nothing else is wanted.
        std : ndarray of shape (n,)
            With ``return_std``.
        cov : ndarray of shape (n, n)
            With ``return_cov``.
        quantiles : ndarray of shape (n, number of quantiles)
            With ``quantiles``.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be True")
        model, table = self._prediction_table(X, exposure=exposure)
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
        return answer[0] if len(answer) == 1 else tuple(answer)

    def _covariance(self, model, table):
        noise = model.noise_variance()
        if noise is None or self._columns["warped"]:
            raise ValueError("return_cov=True needs the gaussian likelihood and a target that is not warped")
        covariance = model.joint(table, threads=self.n_threads)[1]
        covariance[np.diag_indices_from(covariance)] += noise
        return covariance

    def sample_y(self, X, n_samples=1, random_state=0, exposure=None):
        """Draw targets: at every row a latent function, then a target around it, each row by itself.

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

        Returns
        -------
        ndarray of shape (n, n_samples)
        """
        model, table = self._prediction_table(X, exposure=exposure)
        draws = model.draws(table, int(n_samples), seed_of(random_state), threads=self.n_threads)
        return draws + self._first_level()

    def crps(self, X, y, exposure=None):
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

    def pit(self, X, y, exposure=None):
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


class Classification(ClassifierMixin, Estimator):
    """What estimators of classes share."""

    _given = {"task": "classification"}
    _kinds = ("binary", "class")

    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs: an array of numbers, or a pandas, polars or Arrow table, whose columns of text are categories.
        y : array-like of shape (n,)
            The classes, two or more, of any type.
        sample_weight : array-like of shape (n,), optional
            How much each row counts. A row of weight 2 is two rows.

        Returns
        -------
        self
        """
        y = _series(y, numeric=False)
        if y is not None:
            check_classification_targets(np.asarray(y))
        return self._fit(X, y, sample_weight)

    def _training_target(self, y):
        labels = np.asarray(y)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 classes in the data, got 1 class")
        return _tables.classes_column(labels, self.classes_, codes)

    def _positive_label(self):
        return _tables._label(self.classes_[1]) if len(self.classes_) == 2 else None

    def _target_column(self, y):
        labels = checked_target(y, numeric=False)
        unseen = np.setdiff1d(labels, self.classes_)
        if len(unseen):
            raise ValueError(f"y contains previously unseen labels: {list(unseen[:5])}")
        return _tables.classes_column(labels, self.classes_, np.searchsorted(self.classes_, labels))

    def _take_model(self, model) -> None:
        super()._take_model(model)
        if "classes_" not in self.__dict__:
            self.classes_ = _classes_of(self._columns["levels"])
        self._places = _tables.class_places(self._columns["levels"], self.classes_)

    def predict(self, X):
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        model, table = self._prediction_table(X)
        (labels,) = model.predict(table, ["label"], threads=self.n_threads)
        place = np.empty(len(self.classes_), dtype=np.int64)
        place[self._places] = np.arange(len(self.classes_))
        return self.classes_[place[labels[:, 0].astype(np.int64)]]

    def predict_proba(self, X):
        """Predict the probability of every class.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.

        Returns
        -------
        ndarray of shape (n, number of classes)
            In the order of ``classes_``.
        """
        model, table = self._prediction_table(X)
        return model.predict(table, ["probabilities"], threads=self.n_threads)[0][:, self._places]

    def predict_log_proba(self, X):
        """Predict the logarithm of the probability of every class.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.

        Returns
        -------
        ndarray of shape (n, number of classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X):
        """What decides between the classes: the log odds of the second of two, the log probabilities of more.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.

        Returns
        -------
        ndarray of shape (n,) or (n, number of classes)
        """
        logs = self.predict_log_proba(X)
        return logs if logs.shape[1] > 2 else logs[:, 1] - logs[:, 0]

    def sample_y(self, X, n_samples=1, random_state=0):
        """Draw classes, each row by itself.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        n_samples : int, default=1
            The number of draws.
        random_state : int, RandomState or None, default=0
            The seed.

        Returns
        -------
        ndarray of shape (n, n_samples)
        """
        model, table = self._prediction_table(X)
        draws = model.draws(table, int(n_samples), seed_of(random_state), threads=self.n_threads).astype(np.int64)
        place = np.empty(len(self.classes_), dtype=np.int64)
        place[self._places] = np.arange(len(self.classes_))
        return self.classes_[place[draws]]


def _has_levels(estimator) -> bool:
    estimator._fitted()
    return estimator._columns["kind"] == "ordinal"


@documented
class SparseGPRegressor(Regression, _Parameters):
    """Sparse Gaussian process regression.

    The target is any real number, unless ``likelihood`` is one of positive numbers (``"gamma"``), of numbers between 0 and 1
    (``"beta-logit"``) or of ordered levels (``"ordinal"``), among others.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    kernel_, hyperparameters_, inducing_points_, noise_variance_ :
        The tuned model.
    objective_, history_, n_iter_, log_marginal_likelihood_bounds_ :
        The course of the training.
    choices_, warnings_, document_ :
        What was decided by held-out rows, what a user should know, and everything.
    n_features_in_, feature_names_in_ :
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import SparseGPRegressor
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(37 * X[:, 0])
    >>> model = SparseGPRegressor("rbf", n_inducing=20, auto="none").fit(X, y)
    >>> mean, std = model.predict([[1.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 0.1), bool(0.03 < std[0] < 0.2)
    (True, True)
    >>> model.predict([[1.5]], quantiles=[0.05, 0.95])[1].shape
    (1, 2)
    """

    @available_if(_has_levels)
    def predict_proba(self, X):
        """Predict the probability of every ordered level (``likelihood="ordinal"``).

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.

        Returns
        -------
        ndarray of shape (n, number of levels)
            In the order of the levels.
        """
        model, table = self._prediction_table(X)
        return model.predict(table, ["probabilities"], threads=self.n_threads)[0]


@documented
class SparseGPClassifier(Classification, _Parameters):
    """Sparse Gaussian process classification, of two or more classes.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    kernel_, hyperparameters_, inducing_points_ :
        The tuned model.
    objective_, history_, n_iter_, log_marginal_likelihood_bounds_ :
        The course of the training.
    choices_, warnings_, document_ :
        What was decided by held-out rows, what a user should know, and everything.
    n_features_in_, feature_names_in_ :
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import SparseGPClassifier
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> y = np.where(np.sin(X[:, 0]) > 0, "up", "down")
    >>> model = SparseGPClassifier("rbf", n_inducing=20, auto="none").fit(X, y)
    >>> model.predict([[1.5], [4.5]]).tolist()
    ['up', 'down']
    >>> model.predict_proba([[1.5]]).shape
    (1, 2)
    """


@documented
class SparseGPCountRegressor(Regression, _Parameters):
    """Sparse Gaussian process regression of counts, with exposures.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    kernel_, hyperparameters_, inducing_points_ :
        The tuned model.
    objective_, history_, n_iter_, log_marginal_likelihood_bounds_ :
        The course of the training.
    choices_, warnings_, document_ :
        What was decided by held-out rows, what a user should know, and everything.
    n_features_in_, feature_names_in_ :
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import SparseGPCountRegressor
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> years = np.where(X[:, 0] < 5, 1.0, 3.0)
    >>> y = np.round(years * (3 + 2 * np.sin(X[:, 0])))
    >>> model = SparseGPCountRegressor("rbf", likelihood="poisson", n_inducing=20, auto="none").fit(X, y, exposure=years)
    >>> one, two = model.predict([[2.0]], exposure=[1.0]), model.predict([[2.0]], exposure=[2.0])
    >>> bool(abs(two[0] / one[0] - 2) < 1e-6)
    True
    """

    _task = "count"
    _kinds = ("count",)

    def fit(self, X, y, sample_weight=None, *, exposure=None):
        """Fit the model.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs: an array of numbers, or a pandas, polars or Arrow table, whose columns of text are categories.
        y : array-like of shape (n,)
            The counts: whole numbers, 0 or more.
        sample_weight : array-like of shape (n,), optional
            How much each row counts.
        exposure : array-like of shape (n,), optional
            What the rate of each row is multiplied by: time at risk, area, … Predictions need it too.

        Returns
        -------
        self
        """
        return self._fit(X, _series(y, numeric=True), sample_weight, exposure)

    def score(self, X, y, sample_weight=None, exposure=None):
        """The coefficient of determination R² of the predicted means.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The counts.
        sample_weight : array-like of shape (n,), optional
            How much each row counts.
        exposure : array-like of shape (n,), optional
            Exposures, for a model that was fitted with them.

        Returns
        -------
        float
        """
        from sklearn.metrics import r2_score

        return r2_score(y, self.predict(X, exposure=exposure), sample_weight=sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _series(y, *, numeric: bool):
    """A checked target that keeps the name it came with."""
    if y is None:
        return None
    name = getattr(y, "name", None)
    checked = checked_target(y, numeric=numeric)
    return checked if not isinstance(name, str) or not name else _Named(checked, name)


class _Named(np.ndarray):
    """A target with a name."""

    def __new__(cls, values, name):
        array = np.asarray(values).view(cls)
        array.name = name
        return array

    def __array_finalize__(self, other):
        self.name = getattr(other, "name", None)


def _classes_of(levels) -> np.ndarray:
    """Classes of a saved model: numbers where all are, else texts."""
    if set(levels) <= {"true", "false", "True", "False"}:
        return np.array([False, True])
    try:
        values = np.array([float(level) for level in levels])
    except ValueError:
        return np.array(sorted(levels))
    return np.sort(values.astype(np.int64) if np.all(values == np.round(values)) else values)


def _probabilities(quantiles) -> list:
    levels = [float(level) for level in np.atleast_1d(quantiles)]
    if not all(0.0 < level < 1.0 for level in levels):
        raise ValueError(f"quantiles are {levels}, expected probabilities between 0 and 1")
    return levels


__all__ = ["SparseGPRegressor", "SparseGPClassifier", "SparseGPCountRegressor"]
