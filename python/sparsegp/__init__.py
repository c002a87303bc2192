"""Sparse Gaussian processes that feel like scikit-learn, on a Rust engine.

``SparseGPRegressor``, ``SparseGPClassifier`` and ``SparseGPCountRegressor`` are estimators of numbers, classes and counts,
``SparseGPMultiOutputRegressor`` of several targets at once; ``BayesianLinearRegressor`` and ``BayesianLinearClassifier`` are linear models with coefficients. Importing the package is quick:
scikit-learn is imported with the first estimator. ``sparsegp.kernels`` has kernels that add and multiply and the base of kernels
written in Python, ``sparsegp.likelihoods`` that of likelihoods, ``sparsegp.testing`` what checks them, ``sparsegp.metrics`` scorers,
``sparsegp.plot`` figures; ``SVGP`` is for training loops of one's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._sparsegp import FitError, __version__

if TYPE_CHECKING:
    from . import kernels, likelihoods, metrics, plot, testing
    from ._compare import Comparison, compare
    from ._linear import BayesianLinearClassifier, BayesianLinearRegressor
    from ._outputs import SparseGPMultiOutputRegressor
    from ._processes import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor
    from ._svgp import SVGP

_WHERE = {
    "SparseGPRegressor": "._processes",
    "SparseGPClassifier": "._processes",
    "SparseGPCountRegressor": "._processes",
    "SparseGPMultiOutputRegressor": "._outputs",
    "BayesianLinearRegressor": "._linear",
    "BayesianLinearClassifier": "._linear",
    "SVGP": "._svgp",
    "Comparison": "._compare",
    "compare": "._compare",
}

_MODULES = ("kernels", "likelihoods", "metrics", "plot", "testing")

__all__ = ["FitError", "__version__", *_WHERE, *_MODULES]


def __getattr__(name: str):
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
