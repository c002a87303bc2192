"""Bayesian linear models: their parameters and coefficients. Targets and predictions are those of the base classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ._classification import Classification
from ._documentation import PARAMETERS, filled, named_init
from ._regression import Regression
from ._types import Array, Callback, ClassWeight, Hyper, Mean, Objective, Seed, Texts
from .likelihoods import CustomLikelihood

T = TypeVar("T")


class _Parameters:
    """The parameters of linear models."""

    _shared = {"model": "glm"}
    _linear = True

    def __init__(
        self,
        *,
        likelihood: str | CustomLikelihood | None = None,
        objective: Objective | None = None,
        beta: float | Literal["auto"] | Sequence[float] = 1.0,
        prior_mean: float | None = None,
        prior_variance: float | None = None,
        mean: Mean = None,
        cv: Any = None,
        auto: str | Sequence[str] = "all",
        hyper: Hyper | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        epochs: int | None = None,
        max_seconds: float | None = None,
        tolerance: float | None = None,
        fix: Texts = None,
        bounds: Texts = None,
        prior: Texts = None,
        standardize: bool = True,
        keep: Texts = None,
        exclude: Texts = None,
        categorical: Texts = None,
        ordered: Mapping[str, Sequence[Any]] | None = None,
        unseen: Literal["new", "error"] = "new",
        options: dict[str, Any] | None = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
        n_threads: int | None = None,
        random_state: Seed = None,
    ) -> None:
        self.likelihood = likelihood
        self.objective = objective
        self.beta = beta
        self.prior_mean = prior_mean
        self.prior_variance = prior_variance
        self.mean = mean
        self.cv = cv
        self.auto = auto
        self.hyper = hyper
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.max_seconds = max_seconds
        self.tolerance = tolerance
        self.fix = fix
        self.bounds = bounds
        self.prior = prior
        self.standardize = standardize
        self.keep = keep
        self.exclude = exclude
        self.categorical = categorical
        self.ordered = ordered
        self.unseen = unseen
        self.options = options
        self.callbacks = callbacks
        self.verbose = verbose
        self.n_threads = n_threads
        self.random_state = random_state

    def _coefficients(self) -> tuple[Array, int]:
        """Returns the means of intercept and slopes, and the index of the first slope."""
        self._fitted()
        coefficients = self.document_["coefficients"]
        if self.document_["classes"] and len(self.document_["classes"]) > 2 and self._columns["kind"] == "class":
            raise AttributeError("a model of more than two classes has no coefficients of a single latent function")
        means = np.array([coefficient["mean"] for coefficient in coefficients])
        return means, len(means) - len(self._columns["inputs"])

    @property
    def coef_names_(self) -> NDArray[Any]:
        """The names of the inputs that the slopes multiply: columns, or ``column=category``."""
        self._fitted()
        return np.array(self._columns["inputs"], dtype=object)

    @property
    def coef_cov_(self) -> Array:
        """The posterior covariance of the slopes."""
        _, slopes = self._coefficients()
        covariance = self._fitted().coefficient_covariance()
        if covariance is None:
            raise AttributeError("the objective leaves the covariance of the coefficients undefined")
        return covariance[slopes:, slopes:]

    @property
    def coef_sd_(self) -> Array:
        """The posterior standard deviations of the slopes."""
        return np.sqrt(np.diag(self.coef_cov_))


_ABOUT = PARAMETERS.replace(PARAMETERS[: PARAMETERS.index("likelihood : str")], "")
for _name in ("hyper_posterior", "n_inducing", "neighbours", "warp_inputs", "warp_target", "validation_fraction", "patience", "restarts", "places", "plane"):
    _start = _ABOUT.index(f"    {_name} :")
    _end = _ABOUT.index("\n    ", _start)
    while _ABOUT[_end + 1 :].startswith("        "):
        _end = _ABOUT.index("\n    ", _end + 1)
    _ABOUT = _ABOUT[:_start] + _ABOUT[_end + 1 :]
_ABOUT = _ABOUT.replace("start, fix, bounds, prior, tie", "fix, bounds, prior")
_ABOUT = _ABOUT.replace("Starting values, fixed values, bounds, priors and ties", "Fixed values, bounds and priors").replace(
    "    standardize : bool",
    "    prior_mean, prior_variance : float, optional\n"
    "        The prior of every coefficient except the intercept, on standardised columns: N(0, 1) by default.\n"
    "    standardize : bool",
)


def _documented(cls: type[T]) -> type[T]:
    cls.__doc__ = filled(cls.__doc__ or "", {"{parameters}": _ABOUT})
    return named_init(cls)


@_documented
class BayesianLinearRegressor(_Parameters, Regression):
    """Bayesian linear regression, for any likelihood of numbers.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (number of inputs,)
        The posterior means of the slopes, per unit of each input.
    coef_cov_, coef_sd_ : ndarray
        Their posterior covariance and standard deviations.
    coef_names_ : ndarray
        The names of the inputs that the slopes multiply.
    intercept_ : float
        The value of the latent function at inputs of 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import BayesianLinearRegressor
    >>> X = np.arange(40.0).reshape(20, 2) % 7
    >>> y = 3 + 2 * X[:, 0] - X[:, 1] + 0.01 * np.sin(np.arange(20))
    >>> model = BayesianLinearRegressor(likelihood="gaussian").fit(X, y)
    >>> np.round(model.coef_, 1).tolist(), round(float(model.intercept_), 1)
    ([2.0, -1.0], 3.0)
    """

    def _given_options(self) -> dict:
        return {**super()._given_options(), **self._shared}

    @property
    def coef_(self) -> Array:
        """The posterior means of the slopes, per unit of each input."""
        means, slopes = self._coefficients()
        return means[slopes:]

    @property
    def intercept_(self) -> float:
        """The value of the latent function at inputs of 0."""
        means, slopes = self._coefficients()
        return float(means[0]) if slopes else 0.0


@_documented
class BayesianLinearClassifier(_Parameters, Classification):
    """Bayesian linear classification: logistic or probit regression of two classes, softmax of more.

    Parameters
    ----------
    {parameters}
    class_weight : dict or "balanced", optional
        Weights of the classes, as in scikit-learn: a dict, or ``"balanced"`` for weights inversely proportional to the frequencies.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    coef_ : ndarray of shape (1, number of inputs)
        The posterior means of the slopes, for two classes, per unit of each input.
    coef_cov_, coef_sd_ : ndarray
        Their posterior covariance and standard deviations.
    coef_names_ : ndarray
        The names of the inputs that the slopes multiply.
    intercept_ : ndarray of shape (1,)
        The value of the latent function at inputs of 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp import BayesianLinearClassifier
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.where(X[:, 0] + 0.7 * np.sin(20 * X[:, 0]) > 0, "ill", "healthy")
    >>> model = BayesianLinearClassifier(likelihood="bernoulli-logit").fit(X, y)
    >>> bool(model.coef_[0, 0] > 0), model.predict([[1.9]]).tolist()
    (True, ['ill'])
    """

    def __init__(
        self,
        *,
        likelihood: str | CustomLikelihood | None = None,
        objective: Objective | None = None,
        beta: float | Literal["auto"] | Sequence[float] = 1.0,
        prior_mean: float | None = None,
        prior_variance: float | None = None,
        mean: Mean = None,
        cv: Any = None,
        auto: str | Sequence[str] = "all",
        hyper: Hyper | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        epochs: int | None = None,
        max_seconds: float | None = None,
        tolerance: float | None = None,
        fix: Texts = None,
        bounds: Texts = None,
        prior: Texts = None,
        standardize: bool = True,
        keep: Texts = None,
        exclude: Texts = None,
        categorical: Texts = None,
        ordered: Mapping[str, Sequence[Any]] | None = None,
        unseen: Literal["new", "error"] = "new",
        options: dict[str, Any] | None = None,
        class_weight: ClassWeight = None,
        callbacks: Sequence[Callback] | None = None,
        verbose: bool | int = False,
        n_threads: int | None = None,
        random_state: Seed = None,
    ) -> None:
        super().__init__(
            likelihood=likelihood,
            objective=objective,
            beta=beta,
            prior_mean=prior_mean,
            prior_variance=prior_variance,
            mean=mean,
            cv=cv,
            auto=auto,
            hyper=hyper,
            batch_size=batch_size,
            learning_rate=learning_rate,
            epochs=epochs,
            max_seconds=max_seconds,
            tolerance=tolerance,
            fix=fix,
            bounds=bounds,
            prior=prior,
            standardize=standardize,
            keep=keep,
            exclude=exclude,
            categorical=categorical,
            ordered=ordered,
            unseen=unseen,
            options=options,
            callbacks=callbacks,
            verbose=verbose,
            n_threads=n_threads,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def _given_options(self) -> dict:
        return {**super()._given_options(), **self._shared}

    @property
    def coef_(self) -> Array:
        """The posterior means of the slopes, for two classes, per unit of each input."""
        means, slopes = self._coefficients()
        return means[None, slopes:]

    @property
    def intercept_(self) -> Array:
        """The value of the latent function at inputs of 0."""
        means, slopes = self._coefficients()
        return means[:1] if slopes else np.zeros(1)


__all__ = ["BayesianLinearRegressor", "BayesianLinearClassifier"]
