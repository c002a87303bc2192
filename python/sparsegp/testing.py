"""Checks that find mistakes in kernels and likelihoods written in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _sparsegp
from ._custom import engine_custom
from .kernels import Kernel
from .likelihoods import CustomLikelihood

__all__ = ["check_kernel", "check_likelihood"]


def check_kernel(
    kernel: Kernel, X: ArrayLike | None = None, Y: ArrayLike | None = None, *, columns: int = 2
) -> None:
    """Check all requirements on a kernel at two sets of points.

    Covariances must be symmetric and positive semi-definite, with the variances as diagonal. Gradients must agree with finite
    differences to seven digits. The text of the kernel must parse to the same kernel.

    Parameters
    ----------
    kernel : Kernel or str
        The kernel, such as an object of a subclass of :class:`~sparsegp.kernels.CustomKernel`.
    X, Y : array-like of shape (n, d) and (m, d), optional
        Points, all of them distinct and of order 1 in units of the kernel's lengthscales; random by default.
    columns : int, default=2
        The number of columns of the random points.

    Raises
    ------
    AssertionError
        If a requirement is violated. The message names the first violated requirement, and where it was violated.

    Examples
    --------
    >>> from sparsegp.kernels import Periodic, RBF
    >>> from sparsegp.testing import check_kernel
    >>> check_kernel(RBF()[0] * Periodic(period=2.0) + 0.5)
    """
    kernel = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    random = np.random.default_rng(0)
    X = random.normal(size=(9, columns)) if X is None else np.asarray(X, dtype=np.float64)
    Y = random.normal(size=(7, X.shape[1])) if Y is None else np.asarray(Y, dtype=np.float64)
    _refuse(kernel, kernel._at(X.shape[1]).check(X, Y))


def check_likelihood(likelihood: CustomLikelihood, y: ArrayLike, exposure: ArrayLike | None = None) -> None:
    """Check all requirements on a likelihood written in Python at some targets.

    Derivatives must agree with finite differences. Expectations must agree with slow integration, which fails if ``width`` is too
    large. Mean, variance and distribution function must agree with the density and with draws. The check takes some seconds.

    Parameters
    ----------
    likelihood : CustomLikelihood
        The likelihood.
    y : array-like of shape (n,)
        Three or four targets that are plausible for latent values within ±5.
    exposure : array-like of shape (n,), optional
        Their exposures, for counts.

    Raises
    ------
    AssertionError
        If a requirement is violated. The message names the first violated requirement, and where it was violated.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsegp.likelihoods import CustomLikelihood
    >>> from sparsegp.testing import check_likelihood
    >>> class CauchyLink(CustomLikelihood):
    ...     "Class 1 with the probability ½ + arctan(f)/π."
    ...     name = "cauchy_link"
    ...     target = "binary"
    ...     width = 0.7
    ...     def log_density(self, y, f):
    ...         return np.log(0.5 + np.arctan((2 * y - 1) * f) / np.pi)
    ...     def derivatives(self, y, f):
    ...         side = 2 * y - 1
    ...         first = side / (np.pi * (1 + f**2) * (0.5 + np.arctan(side * f) / np.pi))
    ...         return first, -first * (2 * f / (1 + f**2) + first)
    >>> check_likelihood(CauchyLink(), [0.0, 1.0])
    """
    if not isinstance(likelihood, CustomLikelihood):
        raise TypeError(f"{likelihood!r} is not a CustomLikelihood; the tests of sparsegp check the built-in likelihoods")
    y = np.asarray(y, dtype=np.float64)
    exposure = np.ones(len(y)) if exposure is None else np.asarray(exposure, dtype=np.float64)
    custom = engine_custom(likelihoods=[likelihood])
    violation = _sparsegp.check_likelihood(custom, likelihood.name, list(zip(y.tolist(), exposure.tolist(), strict=True)))
    if violation is not None and any(words in violation for words in ("E log p", "log E p")):
        violation += f" (if the density is right, width = {likelihood.width!r} is too large for the quadrature)"
    _refuse(likelihood, violation or _difference_of_arrays(likelihood, y, exposure))


def _difference_of_arrays(likelihood: CustomLikelihood, y: np.ndarray, exposure: np.ndarray) -> str | None:
    """Returns a message if a method returns different numbers for arrays ``y`` and ``f``, as in fits, and for single targets."""
    own = {name: start[0] for name, start, *_ in likelihood._described(1)}
    targets, f = np.repeat(y, 3), np.tile([-1.0, 0.2, 1.5], len(y))
    counts = {"exposure": np.repeat(exposure, 3)} if likelihood.target == "count" else {}
    rows = range(len(f))
    single = [{name: value[i] for name, value in counts.items()} | own for i in rows]
    together = likelihood._value_and_slope(targets, f, own | counts)
    each = [likelihood._value_and_slope(targets[i], f[i : i + 1], single[i]) for i in rows]
    for name, many, ones in zip(("log_density", "derivatives"), together, zip(*each)):
        if not np.allclose(many, np.concatenate(ones), equal_nan=True):
            return f"{name} of an array y differs from the result for single targets"
    if own:
        weights = np.linspace(0.5, 1.5, len(f))
        ones = sum(likelihood._own_gradient(targets[i], f[i : i + 1], weights[i : i + 1], single[i]) for i in rows)
        if not np.allclose(likelihood._own_gradient(targets, f, weights, own | counts), ones, equal_nan=True):
            return "gradient of an array y differs from the result for single targets"
    return None


def _refuse(what: Any, violation: str | None) -> None:
    if violation is not None:
        raise AssertionError(f"{type(what).__name__}: {violation}")
