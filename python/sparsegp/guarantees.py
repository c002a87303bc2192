"""Numerical bounds on the distance of q from the optimum, from theorems about update rules, each with its source.

Distances are in the squared units of the mean m and the factor C of S = C Cᵀ, divergences and objectives in nats.
Update rules change whitened coordinates, whose prior is N(0, I); ``Curvature.whitened`` gives the constants for steps
in these coordinates.

>>> import numpy as np
>>> from sparsegp.guarantees import Curvature, DistanceBound
>>> curvature = Curvature.logistic(np.eye(2), np.eye(2))
>>> curvature
Curvature(smoothness=1.25, strong_convexity=1)
>>> noise = curvature.noise_constant_energy(2)
>>> bound = DistanceBound(curvature, initial=1.0, noise=noise, floor=noise, gradient=1.0)
>>> bound.recursion(100) <= bound.at(100)
True
"""

from __future__ import annotations

from ._sparsegp import (
    ConjugateAsymptotic,
    ConjugateBound,
    ConvexBound,
    Curvature,
    DistanceBound,
    ProjectedBound,
    SquareRootRate,
    price_noise,
    square_root_step,
    square_root_step_bound,
)

__all__ = [
    "ConjugateAsymptotic",
    "ConjugateBound",
    "ConvexBound",
    "Curvature",
    "DistanceBound",
    "ProjectedBound",
    "SquareRootRate",
    "price_noise",
    "square_root_step",
    "square_root_step_bound",
]
