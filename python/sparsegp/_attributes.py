"""The attributes of fitted estimators, which tell what a fit found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from . import _sparsegp
from ._options import PARAMETER_OF
from ._types import Array
from .kernels import Kernel


def fitted_part(estimator: Any, name: str) -> Any:
    """Returns an attribute that a fit sets, by its name; raises scikit-learn's error if the estimator is not fitted."""
    if name not in estimator.__dict__:
        raise NotFittedError(
            f"This {type(estimator).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
            "using this estimator."
        )
    return estimator.__dict__[name]


class FittedAttributes:
    """The attributes of a fitted estimator of one target."""

    _document: dict[str, Any]
    _columns: dict[str, Any]
    _own: dict[str, list]

    def _fitted(self) -> Any:
        return fitted_part(self, "_model")

    @property
    def document_(self) -> dict[str, Any]:
        """The metrics document of the fit: the options used, the metrics, the hyper-parameters and the trace."""
        self._fitted()
        return self._document

    @property
    def kernel_(self) -> Kernel | None:
        """The tuned kernel (the first of several), for inputs on the scale the model sees; None for linear models."""
        found = self._fitted().kernel()
        return None if found is None else Kernel._tuned(*found, custom=self._own["kernels"])

    @property
    def hyperparameters_(self) -> dict[str, float]:
        """Hyper-parameters by name, in units of columns and target. Lengthscales and periods have the unit of their
        input, whose name is in brackets; noise, mean and the variances of the terms of a sum have units of the target.
        Warped inputs and targets have no unit: their values stay on the scale that the model sees, as do all values of
        ``document_["hyperparameters"]`` and :class:`~sparsegp.kernels.Kernel`. In ``start=``, ``fix=``, ``bounds=`` and
        ``prior=``, names with a column in brackets have its unit."""
        return {name: value for name, value, _ in _sparsegp.hyperparameters(self._fitted())}

    @property
    def hyperparameter_intervals_(self) -> dict[str, tuple[float, float]]:
        """95 % intervals of ``hyperparameters_``; empty without their posterior (``hyper_posterior=``)."""
        return {name: (ends[0], ends[1]) for name, _, ends in _sparsegp.hyperparameters(self._fitted()) if ends}

    @property
    def input_names_(self) -> NDArray[Any]:
        """The names of the model's inputs (numbers, categories and the inputs derived from dates), in the order of gradients and
        ``inducing_points_``."""
        self._fitted()
        return np.array(self._columns["inputs"], dtype=object)

    @property
    def inducing_points_(self) -> Array | None:
        """The inducing inputs in original units, one per row; None for linear models."""
        return self._fitted().inducing_points()

    @property
    def noise_variance_(self) -> float | None:
        """The noise variance in squared units of the target. None if the noise is not Gaussian, or the target is warped: the variance
        then differs from row to row."""
        return self._fitted().noise_variance()

    @property
    def objective_(self) -> float:
        """The minimised objective per row."""
        return self.document_["fit"]["objective"]

    @property
    def history_(self) -> dict[str, Array]:
        """The trace of the training: arrays with an entry per epoch."""
        trace = self.document_["trace"]
        names = ("epoch", "seconds", "objective", "validation_nll")
        return {name: np.array([np.nan if row[name] is None else row[name] for row in trace]) for name in names}

    @property
    def warnings_(self) -> list[str]:
        """The warnings and notes about the fit."""
        return self.document_["fit"]["warnings"]

    @property
    def n_iter_(self) -> int:
        """The number of epochs of the training."""
        return self.document_["fit"]["epochs"]

    @property
    def choices_(self) -> dict[str, Any]:
        """The chosen parameters. An estimator with these parameters and yours repeats the fit without choosing again."""
        choices = (self.document_["fit"].get("choices") or {"parts": []})["parts"]
        chosen: dict = {"auto": "none"}
        for part in choices:
            value = next((tried["value"] for tried in part["tried"] if tried["chosen"]), part["tried"][0]["value"])
            name = part["part"].replace("-", "_")
            chosen[PARAMETER_OF.get(name, name)] = int(value) if value.isdigit() else value
        return chosen

    @property
    def log_marginal_likelihood_bounds_(self) -> tuple[float | None, float | None]:
        """A lower and an upper bound on the log evidence; None for a bound that is not known."""
        return self.document_["fit"]["elbo_sum"], self.document_["fit"]["evidence_upper_bound"]
