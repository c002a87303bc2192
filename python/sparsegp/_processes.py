"""The estimators of sparse Gaussian processes for numbers, classes and counts, with their parameters; the engine does the
work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from sklearn.utils.metaestimators import available_if

from . import _exposures
from ._classification import Classification
from ._documentation import documented
from ._regression import Regression
from ._targets import named_target
from ._types import Array, Callback, ClassWeight, Column, Hyper, HyperPosterior, InputWarp, Mean, Objective, Rows, Seed, TargetWarp, Texts
from .kernels import Kernel
from .likelihoods import CustomLikelihood


class _Parameters:
    """The parameters of sparse Gaussian processes."""

    def __init__(
        self,
        kernel: str | Kernel | None = None,
        *,
        likelihood: str | CustomLikelihood | None = None,
        objective: Objective | None = None,
        beta: float | Literal["auto"] | Sequence[float] = 1.0,
        n_inducing: int | Literal["auto"] | None = None,
        neighbours: int | Literal["auto", "none"] | None = None,
        auto: str | Sequence[str] = "all",
        warp_inputs: InputWarp | None = None,
        warp_target: TargetWarp | None = None,
        mean: Mean = None,
        cv: Any = None,
        hyper: Hyper | None = None,
        hyper_posterior: HyperPosterior | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        epochs: int | None = None,
        max_seconds: float | None = None,
        tolerance: float | None = None,
        validation_fraction: float | None = None,
        patience: int | None = None,
        restarts: int | None = None,
        start: Texts = None,
        fix: Texts = None,
        bounds: Texts = None,
        prior: Texts = None,
        tie: Texts = None,
        standardize: bool = True,
        keep: Texts = None,
        exclude: Texts = None,
        categorical: Texts = None,
        ordered: Mapping[str, Sequence[Any]] | None = None,
        places: Sequence[str] | None = None,
        plane: Sequence[str] | None = None,
        unseen: Literal["new", "error"] = "new",
        conformal: bool = False,
        options: dict[str, Any] | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
        n_threads: int | None = None,
        random_state: Seed = None,
    ) -> None:
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
        self.cv = cv
        self.hyper = hyper
        self.hyper_posterior = hyper_posterior
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.max_seconds = max_seconds
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.restarts = restarts
        self.start = start
        self.fix = fix
        self.bounds = bounds
        self.prior = prior
        self.tie = tie
        self.standardize = standardize
        self.keep = keep
        self.exclude = exclude
        self.categorical = categorical
        self.ordered = ordered
        self.places = places
        self.plane = plane
        self.unseen = unseen
        self.conformal = conformal
        self.options = options
        self.callbacks = callbacks
        self.verbose = verbose
        self.n_threads = n_threads
        self.random_state = random_state


def _has_levels(estimator: Any) -> bool:
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
        The choices by held-out rows, the notes for the user, and all results of the fit.
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
    def predict_proba(self, X: Rows, groups: Column = None, *, offset: Column = None) -> Array:
        """Predict the probability of every ordered level (``likelihood="ordinal"``).

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        ndarray of shape (n, number of levels)
            In the order of the levels.
        """
        model, table = self._prediction_table(X, offset=offset, groups=groups)
        return model.predict(table, ["probabilities"], threads=self.n_threads)[0]


@documented
class SparseGPClassifier(Classification, _Parameters):
    """Sparse Gaussian process classification, of two or more classes.

    Parameters
    ----------
    {parameters}
    class_weight : dict or "balanced", optional
        Weights of the classes, as in scikit-learn: a dict, or ``"balanced"`` for weights inversely proportional to the frequencies.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    kernel_, hyperparameters_, inducing_points_ :
        The tuned model.
    objective_, history_, n_iter_, log_marginal_likelihood_bounds_ :
        The course of the training.
    choices_, warnings_, document_ :
        The choices by held-out rows, the notes for the user, and all results of the fit.
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

    def __init__(
        self,
        kernel: str | Kernel | None = None,
        *,
        likelihood: str | CustomLikelihood | None = None,
        objective: Objective | None = None,
        beta: float | Literal["auto"] | Sequence[float] = 1.0,
        n_inducing: int | Literal["auto"] | None = None,
        neighbours: int | Literal["auto", "none"] | None = None,
        auto: str | Sequence[str] = "all",
        warp_inputs: InputWarp | None = None,
        warp_target: TargetWarp | None = None,
        mean: Mean = None,
        cv: Any = None,
        hyper: Hyper | None = None,
        hyper_posterior: HyperPosterior | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        epochs: int | None = None,
        max_seconds: float | None = None,
        tolerance: float | None = None,
        validation_fraction: float | None = None,
        patience: int | None = None,
        restarts: int | None = None,
        start: Texts = None,
        fix: Texts = None,
        bounds: Texts = None,
        prior: Texts = None,
        tie: Texts = None,
        standardize: bool = True,
        keep: Texts = None,
        exclude: Texts = None,
        categorical: Texts = None,
        ordered: Mapping[str, Sequence[Any]] | None = None,
        places: Sequence[str] | None = None,
        plane: Sequence[str] | None = None,
        unseen: Literal["new", "error"] = "new",
        options: dict[str, Any] | None = None,
        class_weight: ClassWeight = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
        n_threads: int | None = None,
        random_state: Seed = None,
    ) -> None:
        super().__init__(
            kernel,
            likelihood=likelihood,
            objective=objective,
            beta=beta,
            n_inducing=n_inducing,
            neighbours=neighbours,
            auto=auto,
            warp_inputs=warp_inputs,
            warp_target=warp_target,
            mean=mean,
            cv=cv,
            hyper=hyper,
            hyper_posterior=hyper_posterior,
            batch_size=batch_size,
            learning_rate=learning_rate,
            epochs=epochs,
            max_seconds=max_seconds,
            tolerance=tolerance,
            validation_fraction=validation_fraction,
            patience=patience,
            restarts=restarts,
            start=start,
            fix=fix,
            bounds=bounds,
            prior=prior,
            tie=tie,
            standardize=standardize,
            keep=keep,
            exclude=exclude,
            categorical=categorical,
            ordered=ordered,
            places=places,
            plane=plane,
            unseen=unseen,
            options=options,
            callbacks=callbacks,
            verbose=verbose,
            n_threads=n_threads,
            random_state=random_state,
        )
        self.class_weight = class_weight


@documented
class SparseGPCountRegressor(Regression, _Parameters):
    """Sparse Gaussian process regression of counts, with exposures, or of successes in trials.

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
        The choices by held-out rows, the notes for the user, and all results of the fit.
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
    _kinds = ("count", "censored count", "trials")

    def fit(
        self,
        X: Rows,
        y: Column,
        sample_weight: Column = None,
        groups: Any = None,
        *,
        exposure: Column = None,
        offset: Any = None,
        trials: Column = None,
        censored: Column = None,
        other_ends: Column = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs: an array of numbers, or a pandas, polars or Arrow table, whose columns of text are categories.
        y : array-like of shape (n,)
            The counts: whole numbers, 0 or more.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses.
        groups : str, list of str or array-like of shape (n,), optional
            Grouped (random) effects in addition to the function. A string is a formula with columns of the table ``X``: ``"school"``,
            ``"days | subject"``, ``"days || subject"`` for independent effects, ``"batch/cask"``. An array or a series contains the level
            of each row; pass one to :meth:`predict` too.
        exposure : array-like of shape (n,), optional
            The factor by which each row's rate is multiplied: time at risk, area, … Predictions need it too.
        offset : str, list of str or array-like of shape (n,) or (n, functions), optional
            Known additions to the latent function in each row: names of columns of the table ``X``, or numbers, which predictions need
            too. They are logarithms of rates, or on the scale of another link. A likelihood of several functions needs one for each.
        trials : array-like of shape (n,), optional
            The number of trials of which each count is the number of successes; predictions need it too. The likelihood is then
            ``"binomial"`` or ``"beta-binomial"``.
        censored, other_ends : array-like of shape (n,), optional
            Which counts are censored, or the other ends of their intervals; see :meth:`SparseGPRegressor.fit`. Both ends belong to an
            interval. The likelihood is then ``"poisson-censored"`` or ``"negative-binomial-censored"``.

        Returns
        -------
        self
        """
        exposure, censored = _exposures.given(exposure, trials), _exposures.censored_or_ends(censored, other_ends)
        return self._fit(X, named_target(y, numeric=True), sample_weight, exposure, groups, offset, censored)

    def partial_fit(
        self,
        X: Rows,
        y: Column,
        sample_weight: Column = None,
        *,
        exposure: Column = None,
        forget: float = 0.0,
        offset: Any = None,
        trials: Column = None,
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
            The counts.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses.
        exposure : array-like of shape (n,), optional
            The factor by which each row's rate is multiplied.
        forget : float, default=0.0
            The share of the information from earlier rows to forget: 0 keeps all of it, 1 keeps only the hyper-parameters.
        offset : str, list of str or array-like of shape (n,) or (n, functions), optional
            Known additions to the latent function, as in :meth:`fit`.
        trials : array-like of shape (n,), optional
            The number of trials of each row, as in :meth:`fit`.
        censored, other_ends : array-like of shape (n,), optional
            Which counts are censored, or the other ends of their intervals, as in :meth:`fit`.

        Returns
        -------
        self
        """
        exposure, censored = _exposures.given(exposure, trials), _exposures.censored_or_ends(censored, other_ends)
        return self._partial_fit(X, named_target(y, numeric=True), sample_weight, exposure, forget, offset, censored)

    def score(
        self,
        X: Rows,
        y: Column,
        sample_weight: Column = None,
        exposure: Column = None,
        *,
        offset: Column = None,
        trials: Column = None,
        censored: Column = None,
        other_ends: Column = None,
    ) -> float:
        """The coefficient of determination R² of the predicted means; with censored counts, the concordance as in
        :meth:`SparseGPRegressor.score`.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The counts.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses.
        exposure : array-like of shape (n,), optional
            Exposures, for a model that was fitted with them.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.
        trials : array-like of shape (n,), optional
            Numbers of trials, for a model that was fitted with them.
        censored, other_ends : array-like of shape (n,), optional
            Which counts are censored, or the other ends of their intervals, as in :meth:`fit`.

        Returns
        -------
        float
        """
        known = {"exposure": exposure, "offset": offset, "trials": trials}
        return self._score(X, y, sample_weight, _exposures.censored_or_ends(censored, other_ends), **known)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


__all__ = ["SparseGPRegressor", "SparseGPClassifier", "SparseGPCountRegressor"]
