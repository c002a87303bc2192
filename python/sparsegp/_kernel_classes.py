"""Every kernel of the grammar as a class with its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._kernels import _PRIMARY, Kernel, _operand, _value

#: One value for all columns, or one value per column.
Values: TypeAlias = float | Sequence[float] | NDArray[np.float64]


def _written(word: str, kernels: list[str], values: dict[str, Any]) -> str:
    """The text of a kernel with its options: the flags that are set, and the values that are given."""
    given = {name: value for name, value in values.items() if value is not None and value is not False}
    options = [name if value is True else f"{name}={_value(value)}" for name, value in given.items()]
    inside = ", ".join([*kernels, *options])
    return f"{word}({inside})" if inside else word


class _Named(Kernel):
    """A kernel with a name in the grammar, whose options are the arguments of the class."""

    _word = ""
    _binding = _PRIMARY

    @property
    def text(self) -> str:
        """The kernel in the text grammar."""
        return _written(self._word, [], {name: getattr(self, name) for name in self._arguments()})


class RBF(_Named):
    """The squared exponential kernel.

    Parameters
    ----------
    variance : float, optional
        The starting value of the function's variance.
    lengthscales : float or sequence of float, optional
        The starting value of the lengthscale, on the scale the model sees: one for all columns, or one for each.
    ard : bool, default=False
        Give every column its own lengthscale.
    """

    _word = "rbf"

    def __init__(self, *, variance: float | None = None, lengthscales: Values | None = None, ard: bool = False) -> None:
        self.variance = variance
        self.lengthscales = lengthscales
        self.ard = ard
        self._check()


class Matern12(_Named):
    """The Matérn kernel with ν = 1/2.

    Parameters
    ----------
    variance : float, optional
        The starting value of the function's variance.
    lengthscales : float or sequence of float, optional
        The starting value of the lengthscale, on the scale the model sees: one for all columns, or one for each.
    ard : bool, default=False
        Give every column its own lengthscale.
    """

    _word = "matern12"

    def __init__(self, *, variance: float | None = None, lengthscales: Values | None = None, ard: bool = False) -> None:
        self.variance = variance
        self.lengthscales = lengthscales
        self.ard = ard
        self._check()


class Matern32(_Named):
    """The Matérn kernel with ν = 3/2.

    Parameters
    ----------
    variance : float, optional
        The starting value of the function's variance.
    lengthscales : float or sequence of float, optional
        The starting value of the lengthscale, on the scale the model sees: one for all columns, or one for each.
    ard : bool, default=False
        Give every column its own lengthscale.
    """

    _word = "matern32"

    def __init__(self, *, variance: float | None = None, lengthscales: Values | None = None, ard: bool = False) -> None:
        self.variance = variance
        self.lengthscales = lengthscales
        self.ard = ard
        self._check()


class Matern52(_Named):
    """The Matérn kernel with ν = 5/2.

    Parameters
    ----------
    variance : float, optional
        The starting value of the function's variance.
    lengthscales : float or sequence of float, optional
        The starting value of the lengthscale, on the scale the model sees: one for all columns, or one for each.
    ard : bool, default=False
        Give every column its own lengthscale.
    """

    _word = "matern52"

    def __init__(self, *, variance: float | None = None, lengthscales: Values | None = None, ard: bool = False) -> None:
        self.variance = variance
        self.lengthscales = lengthscales
        self.ard = ard
        self._check()


class RationalQuadratic(_Named):
    """The rational quadratic kernel.

    Parameters
    ----------
    variance : float, optional
        The starting value of the function's variance.
    lengthscales : float or sequence of float, optional
        The starting value of the lengthscale, on the scale the model sees: one for all columns, or one for each.
    alpha : float, optional
        The starting value of the shape of the mixture of lengthscales.
    ard : bool, default=False
        Give every column its own lengthscale.
    """

    _word = "rational_quadratic"

    def __init__(self, *, variance: float | None = None, lengthscales: Values | None = None, alpha: float | None = None, ard: bool = False) -> None:
        self.variance = variance
        self.lengthscales = lengthscales
        self.alpha = alpha
        self.ard = ard
        self._check()


class Wendland(_Named):
    """Wendland's kernels of compact support.

    Parameters
    ----------
    smoothness : int, optional
        The number of derivatives of the function: 0, 1 (default) or 2.
    variance : float, optional
        The starting value of the function's variance.
    lengthscales : float or sequence of float, optional
        The starting value of the lengthscale, on the scale the model sees: one for all columns, or one for each.
    ard : bool, default=False
        Give every column its own lengthscale.
    """

    _word = "wendland"

    def __init__(self, *, smoothness: int | None = None, variance: float | None = None, lengthscales: Values | None = None, ard: bool = False) -> None:
        self.smoothness = smoothness
        self.variance = variance
        self.lengthscales = lengthscales
        self.ard = ard
        self._check()


class Periodic(_Named):
    """The periodic kernel.

    Parameters
    ----------
    period : float or sequence of float, optional
        The starting value of the period, on the scale the model sees: one for all columns, or one for each.
    variance : float, optional
        The starting value of the function's variance.
    lengthscales : float or sequence of float, optional
        The starting value of the lengthscale, on the scale the model sees: one for all columns, or one for each.
    ard : bool, default=False
        Give every column its own lengthscale.
    ard_period : bool, default=False
        Give every column its own period.
    """

    _word = "periodic"

    def __init__(self, *, period: Values | None = None, variance: float | None = None, lengthscales: Values | None = None, ard: bool = False, ard_period: bool = False) -> None:
        self.period = period
        self.variance = variance
        self.lengthscales = lengthscales
        self.ard = ard
        self.ard_period = ard_period
        self._check()


class Cosine(_Named):
    """The cosine kernel.

    Parameters
    ----------
    variance : float, optional
        The starting value of the function's variance.
    lengthscales : float or sequence of float, optional
        The starting value of the lengthscale, on the scale the model sees: one for all columns, or one for each.
    ard : bool, default=False
        Give every column its own lengthscale.
    """

    _word = "cosine"

    def __init__(self, *, variance: float | None = None, lengthscales: Values | None = None, ard: bool = False) -> None:
        self.variance = variance
        self.lengthscales = lengthscales
        self.ard = ard
        self._check()


class SpectralMixture(_Named):
    """The spectral mixture kernel.

    Parameters
    ----------
    components : int, optional
        The number of components.
    weights : float or sequence of float, optional
        The starting values of the weights.
    frequencies : float or sequence of float, optional
        The starting values of the frequencies.
    bandwidths : float or sequence of float, optional
        The starting values of the bandwidths.
    """

    _word = "spectral_mixture"

    def __init__(self, *, components: int | None = None, weights: Values | None = None, frequencies: Values | None = None, bandwidths: Values | None = None) -> None:
        self.components = components
        self.weights = weights
        self.frequencies = frequencies
        self.bandwidths = bandwidths
        self._check()


class Additive(_Named):
    """The additive kernel: all interactions of columns up to an order.

    Parameters
    ----------
    order : int, optional
        The highest order, 2 by default.
    variances : float or sequence of float, optional
        The starting values of the variance of every order.
    lengthscales : float or sequence of float, optional
        The starting value of the lengthscale, on the scale the model sees: one for all columns, or one for each.
    """

    _word = "additive"

    def __init__(self, *, order: int | None = None, variances: Values | None = None, lengthscales: Values | None = None) -> None:
        self.order = order
        self.variances = variances
        self.lengthscales = lengthscales
        self._check()


class Linear(_Named):
    """The linear kernel.

    Parameters
    ----------
    variance : float or sequence of float, optional
        The starting value of the variance of the slopes: one for all columns, or one for each.
    ard : bool, default=False
        Give every column its own variance.
    """

    _word = "linear"

    def __init__(self, *, variance: Values | None = None, ard: bool = False) -> None:
        self.variance = variance
        self.ard = ard
        self._check()


class Polynomial(_Named):
    """The polynomial kernel.

    Parameters
    ----------
    degree : int, optional
        The degree, 2 by default.
    variance : float or sequence of float, optional
        The starting value of the variance of the slopes: one for all columns, or one for each.
    offset : float, optional
        The starting value of the constant that is added to the inner product.
    ard : bool, default=False
        Give every column its own variance.
    """

    _word = "polynomial"

    def __init__(self, *, degree: int | None = None, variance: Values | None = None, offset: float | None = None, ard: bool = False) -> None:
        self.degree = degree
        self.variance = variance
        self.offset = offset
        self.ard = ard
        self._check()


class ArcCosine(_Named):
    """The arc-cosine kernel.

    Parameters
    ----------
    order : int, optional
        The order: 0, 1 or 2.
    variance : float, optional
        The starting value of the function's variance.
    weight_variances : float or sequence of float, optional
        The starting values of the variances of the weights.
    bias_variance : float, optional
        The starting value of the variance of the bias.
    ard : bool, default=False
        Give the weights of every column their own variance.
    """

    _word = "arccosine"

    def __init__(self, *, order: int | None = None, variance: float | None = None, weight_variances: Values | None = None, bias_variance: float | None = None, ard: bool = False) -> None:
        self.order = order
        self.variance = variance
        self.weight_variances = weight_variances
        self.bias_variance = bias_variance
        self.ard = ard
        self._check()


class Constant(_Named):
    """A constant function.

    Parameters
    ----------
    variance : float, optional
        The starting value of the function's variance.
    """

    _word = "constant"

    def __init__(self, *, variance: float | None = None) -> None:
        self.variance = variance
        self._check()


class White(_Named):
    """White noise.

    Parameters
    ----------
    variance : float, optional
        The starting value of the function's variance.
    """

    _word = "white"

    def __init__(self, *, variance: float | None = None) -> None:
        self.variance = variance
        self._check()


class Coregion(_Named):
    """The coregionalisation kernel, between the levels of a category or between outputs.

    Parameters
    ----------
    rank : int, optional
        The rank of the part that levels share, 1 by default.
    weights : float or sequence of float, optional
        The starting values of the weights of every level.
    variances : float or sequence of float, optional
        The starting values of the variance of the independent part of every level.
    """

    _word = "coregion"

    def __init__(self, *, rank: int | None = None, weights: Values | None = None, variances: Values | None = None) -> None:
        self.rank = rank
        self.weights = weights
        self.variances = variances
        self._check()


class Hamming(_Named):
    """The Hamming kernel, which depends on the number of columns whose categories differ.

    Parameters
    ----------
    variance : float, optional
        The starting value of the function's variance.
    lengthscales : float or sequence of float, optional
        The starting value of the lengthscale, on the scale the model sees: one for all columns, or one for each.
    ard : bool, default=False
        Give every column its own lengthscale.
    """

    _word = "hamming"

    def __init__(self, *, variance: float | None = None, lengthscales: Values | None = None, ard: bool = False) -> None:
        self.variance = variance
        self.lengthscales = lengthscales
        self.ard = ard
        self._check()


#: The squared exponential kernel under its longer name.
SquaredExponential = RBF


class Changepoint(Kernel):
    """A sequence of kernels along the first selected column, each changing into the next.

    Parameters
    ----------
    *kernels : Kernel
        The kernels, two or more.
    locations : float or sequence of float, optional
        The starting values of the locations at which each kernel changes into the next.
    steepness : float or sequence of float, optional
        The starting values of the steepness of the changes.
    """

    _binding, _first = _PRIMARY, 1

    def __init__(self, *kernels: Kernel | float, locations: Values | None = None, steepness: Values | None = None) -> None:
        self.kernels = tuple(_operand(kernel) for kernel in kernels)
        self.locations, self.steepness = locations, steepness
        self._check()

    def _operands(self) -> tuple[Kernel, ...]:
        return self.kernels

    @classmethod
    def _arguments(cls) -> list[str]:
        return ["kernels", "locations", "steepness"]

    @property
    def text(self) -> str:
        """The kernel in the text grammar."""
        values = {"locations": self.locations, "steepness": self.steepness}
        return _written("changepoint", [kernel.text for kernel in self.kernels], values)


class Warp(Kernel):
    """A kernel of inputs that trained monotone maps warp.

    Parameters
    ----------
    kernel : Kernel
        The kernel of the warped inputs.
    left_slopes, right_slopes : float or sequence of float, optional
        The starting values of the slopes of the maps far to the left and to the right.
    """

    _binding, _first = _PRIMARY, 1

    def __init__(self, kernel: Kernel | float, *, left_slopes: Values | None = None, right_slopes: Values | None = None) -> None:
        self.kernel = _operand(kernel)
        self.left_slopes, self.right_slopes = left_slopes, right_slopes
        self._check()

    def _operands(self) -> tuple[Kernel, ...]:
        return (self.kernel,)

    @property
    def text(self) -> str:
        """The kernel in the text grammar."""
        return _written("warp", [self.kernel.text], {"left_slopes": self.left_slopes, "right_slopes": self.right_slopes})
