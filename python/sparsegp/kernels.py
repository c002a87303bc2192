"""Kernels as objects that add and multiply, evaluate at arrays and print as the text that ``kernel=`` and the command line take.

>>> from sparsegp.kernels import RBF, Periodic
>>> k = 2.0 * RBF(lengthscales=0.5)[0] + Periodic(period=1.0)[0] * RBF()[0]
>>> str(k)
'constant(variance=2.0) * rbf(lengthscales=0.5)[0] + periodic(period=1.0)[0] * rbf[0]'
>>> k([[0.0], [1.0]]).shape
(2, 2)

A kernel carries constraints on its hyper-parameters, which the estimator applies:

>>> k = RBF().bounds("lengthscales", upper=5.0) + Periodic().fix("period", 1.0)
>>> k
Sum('rbf + periodic', bounds=['kernel.rbf.lengthscales=,5.0'], fix=['kernel.periodic.period=1.0'])

:class:`CustomKernel` is for kernels written in Python.
"""

from ._custom import Parameter
from ._custom_kernel import CustomKernel
from ._kernel_classes import (
    Additive,
    ArcCosine,
    Changepoint,
    Constant,
    Coregion,
    Cosine,
    Hamming,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    RBF,
    RationalQuadratic,
    SpectralMixture,
    SquaredExponential,
    Warp,
    Wendland,
    White,
)
from ._kernels import Kernel, Product, Selection, Sum

__all__ = [
    "CustomKernel",
    "Kernel",
    "Parameter",
    "Sum",
    "Product",
    "Selection",
    "Additive",
    "ArcCosine",
    "Changepoint",
    "Constant",
    "Coregion",
    "Cosine",
    "Hamming",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Polynomial",
    "RBF",
    "RationalQuadratic",
    "SpectralMixture",
    "SquaredExponential",
    "Warp",
    "Wendland",
    "White",
]
