"""Kernels as objects that add and multiply, evaluate at arrays and print as the text that ``kernel=`` and the command line take.

>>> from sparsegp.kernels import RBF, Periodic
>>> k = 2.0 * RBF(lengthscales=0.5)[0] + Periodic(period=1.0)[0] * RBF()[0]
>>> str(k)
'constant(variance=2.0) * rbf(lengthscales=0.5)[0] + periodic(period=1.0)[0] * rbf[0]'
>>> k([[0.0], [1.0]]).shape
(2, 2)
"""

from __future__ import annotations

import numbers

import numpy as np

from . import _sparsegp

_SUM, _PRODUCT, _PRIMARY = range(3)


class Kernel:
    """A kernel in the text grammar of ``kernel=``.

    Values that are given are where training starts; others are found from the data.

    Parameters
    ----------
    text : str
        The kernel, such as ``"matern52(ard) + periodic[0] * rbf[0]"``.
    """

    def __init__(self, text: str):
        self.text = str(text)
        self._binding = _SUM

    @classmethod
    def _of(cls, text: str, binding: int) -> Kernel:
        kernel = cls(text)
        kernel._binding = binding
        return kernel

    def _inside(self, binding: int) -> str:
        """The text as an operand of an operation that binds so tightly."""
        return self.text if self._binding >= binding else f"({self.text})"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Kernel({self.text!r})"

    def __eq__(self, other) -> bool:
        return isinstance(other, Kernel) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __add__(self, other) -> Kernel:
        return self._of(f"{self._inside(_SUM)} + {_operand(other)._inside(_SUM)}", _SUM)

    def __radd__(self, other) -> Kernel:
        return _operand(other) + self

    def __mul__(self, other) -> Kernel:
        return self._of(f"{self._inside(_PRODUCT)} * {_operand(other)._inside(_PRODUCT)}", _PRODUCT)

    def __rmul__(self, other) -> Kernel:
        return _operand(other) * self

    def __getitem__(self, columns) -> Kernel:
        """The kernel of some columns: names, numbers, or slices of numbers."""
        columns = columns if isinstance(columns, (tuple, list)) else (columns,)
        return self._of(f"{self._inside(_PRIMARY)}[{','.join(map(_column, columns))}]", _PRIMARY)

    def __call__(self, X, Y=None) -> np.ndarray:
        """The covariances of the rows of ``X`` (n × d) with those of ``Y`` (m × d), or among themselves."""
        X = _points(X)
        Y = None if Y is None else _points(Y)
        return self._at(X).covariance(X, Y)

    def diag(self, X) -> np.ndarray:
        """The variance at every row of ``X``."""
        X = _points(X)
        return self._at(X).diagonal(X)

    def parameters(self, dims: int = 1) -> dict:
        """The values by name, as ``fix=``, ``bounds=`` and ``prior=`` call them behind ``kernel.``, for points of ``dims`` columns."""
        return _sparsegp.Kernel(self.text, int(dims)).values()

    def _at(self, X):
        return _sparsegp.Kernel(self.text, X.shape[1])


def _points(X) -> np.ndarray:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions, expected 2: a row per point")
    return X


def _column(column) -> str:
    if isinstance(column, slice):
        if column.step is not None or column.start is None or column.stop is None:
            raise ValueError("columns are sliced as [first:end]")
        return f"{column.start}:{column.stop}"
    return str(column)


def _operand(value) -> Kernel:
    if isinstance(value, Kernel):
        return value
    if isinstance(value, numbers.Real):
        return Constant(variance=float(value))
    raise TypeError(f"{value!r} is no kernel and no number")


def _named(name: str, about: str):
    """A function that writes a kernel of this name."""

    def make(*flags: str, **values) -> Kernel:
        options = [*flags, *(f"{key}={_value(value)}" for key, value in values.items() if value is not None)]
        options = [option.removesuffix("=True") for option in options if not option.endswith("=False")]
        return Kernel._of(f"{name}({', '.join(options)})" if options else name, _PRIMARY)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{about}. Options as in the grammar of kernels: ``ard=True`` and values by name."
    return make


def _value(value) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    return f"[{', '.join(repr(float(one)) for one in value)}]"


def _around(name: str, about: str):
    """A function that writes a word around kernels."""

    def make(*kernels, **values) -> Kernel:
        inside = [*(_operand(kernel).text for kernel in kernels), *(f"{k}={_value(v)}" for k, v in values.items())]
        return Kernel._of(f"{name}({', '.join(inside)})", _PRIMARY)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = about
    return make


SquaredExponential = RBF = _named("rbf", "The squared exponential kernel")
Matern12 = _named("matern12", "The Matérn kernel with ν = 1/2")
Matern32 = _named("matern32", "The Matérn kernel with ν = 3/2")
Matern52 = _named("matern52", "The Matérn kernel with ν = 5/2")
RationalQuadratic = _named("rational_quadratic", "The rational quadratic kernel")
Wendland = _named("wendland", "Wendland's kernels of compact support (``smoothness=``)")
Periodic = _named("periodic", "The periodic kernel (``period=``)")
Cosine = _named("cosine", "The cosine kernel")
SpectralMixture = _named("spectral_mixture", "The spectral mixture kernel (``components=``)")
Additive = _named("additive", "All interactions of up to ``order=`` columns")
Linear = _named("linear", "The linear kernel")
Polynomial = _named("polynomial", "The polynomial kernel (``degree=``)")
ArcCosine = _named("arccosine", "The arc-cosine kernel (``order=``)")
Constant = _named("constant", "A constant (``variance=``)")
White = _named("white", "White noise (``variance=``)")
Coregion = _named("coregion", "The kernel between levels of a category or outputs (``rank=``)")
Hamming = _named("hamming", "How many categories differ")
Changepoint = _around("changepoint", "One kernel after the other along the first column selected (``locations=``, ``steepness=``).")
Warp = _around("warp", "A kernel of inputs that are bent by trained monotone maps.")

__all__ = [
    "Kernel",
    "SquaredExponential",
    "RBF",
    "Matern12",
    "Matern32",
    "Matern52",
    "RationalQuadratic",
    "Wendland",
    "Periodic",
    "Cosine",
    "SpectralMixture",
    "Additive",
    "Linear",
    "Polynomial",
    "ArcCosine",
    "Constant",
    "White",
    "Coregion",
    "Hamming",
    "Changepoint",
    "Warp",
]
