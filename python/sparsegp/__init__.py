"""Sparse Gaussian processes with the interface of scikit-learn and a Rust engine.

Estimators:

- ``SparseGPRegressor``, ``SparseGPClassifier`` and ``SparseGPCountRegressor`` predict numbers, classes and counts,
  ``SparseGPSurvivalRegressor`` censored times.
- ``SparseGPMultiOutputRegressor`` predicts several targets at once.
- ``BayesianLinearRegressor`` and ``BayesianLinearClassifier`` are linear models with coefficients.
- ``SVGP`` is a model for training loops that you write yourself.

Functions and modules:

- ``Forecaster`` forecasts series in time, with scores of forecasts from earlier times.
- ``compare`` compares objectives on held-out rows; ``grid`` makes points to predict on.
- ``sparsegp.kernels`` contains kernels that you can add and multiply, and the base class of your own kernels.
- ``sparsegp.likelihoods`` contains the base class of your own likelihoods; ``sparsegp.testing`` checks your kernels and likelihoods.
- ``sparsegp.metrics`` contains scorers, ``sparsegp.plot`` figures, and ``sparsegp.guarantees`` bounds on update rules.

Importing the package is quick: scikit-learn is imported with the first estimator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._sparsegp import FitError, __version__

if TYPE_CHECKING:
    from . import guarantees as guarantees, kernels as kernels, likelihoods as likelihoods, metrics as metrics, plot as plot, testing as testing
    from ._compare import Comparison as Comparison, compare as compare
    from ._forecast import Forecaster as Forecaster
    from ._maps import grid as grid
    from ._linear import BayesianLinearClassifier as BayesianLinearClassifier, BayesianLinearRegressor as BayesianLinearRegressor
    from ._outputs import SparseGPMultiOutputRegressor as SparseGPMultiOutputRegressor
    from ._processes import SparseGPClassifier as SparseGPClassifier, SparseGPCountRegressor as SparseGPCountRegressor, SparseGPRegressor as SparseGPRegressor
    from ._survival import SparseGPSurvivalRegressor as SparseGPSurvivalRegressor
    from ._svgp import SVGP as SVGP

_WHERE = {
    "SparseGPRegressor": "._processes",
    "SparseGPClassifier": "._processes",
    "SparseGPCountRegressor": "._processes",
    "SparseGPMultiOutputRegressor": "._outputs",
    "SparseGPSurvivalRegressor": "._survival",
    "BayesianLinearRegressor": "._linear",
    "BayesianLinearClassifier": "._linear",
    "SVGP": "._svgp",
    "Forecaster": "._forecast",
    "Comparison": "._compare",
    "compare": "._compare",
    "grid": "._maps",
}

_MODULES = ("guarantees", "kernels", "likelihoods", "metrics", "plot", "testing")

__all__ = ["FitError", "__version__", *_WHERE, *_MODULES]


if not TYPE_CHECKING:
    # Names that are absent stay errors for type checkers.

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _MODULES:
            return import_module(f".{name}", __name__)
        if name not in _WHERE:
            raise AttributeError(f"module 'sparsegp' has no attribute {name!r}")
        value = getattr(import_module(_WHERE[name], __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
