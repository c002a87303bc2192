"""Draws of functions as callables: by the engine, or exact draws at a limited number of rows if the engine cannot draw
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class FunctionDraws:
    """Functions drawn from a posterior, which can be evaluated anywhere; made by ``sample_f``."""

    def __init__(self, design: Callable[[Any], Array], functions: Any, threads: int | None, inputs: int) -> None:
        self._design, self._functions, self._threads, self._inputs = design, functions, threads, inputs

    def __call__(self, X: Any) -> Array:
        """Evaluate the functions.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.

        Returns
        -------
        ndarray of shape (n, n_samples)
            In units of the target.
        """
        return self._functions.values(self._design(X), threads=self._threads)

    def gradient(self, X: Any) -> Array:
        """Differentiate the functions with respect to their inputs.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.

        Returns
        -------
        ndarray of shape (n, inputs, n_samples)
            In units of the target per unit of each input; 0 for categories. The inputs are the columns of an array, or
            ``input_names_`` for a table.
        """
        gradients = self._functions.gradients(self._design(X), threads=self._threads)
        # The columns after the inputs are offsets.
        return np.stack(gradients, axis=-1)[:, : self._inputs]


class ExactDraws:
    """Draws at rows, conditioned on the draws at rows evaluated before, for models whose functions the engine cannot draw: linear
    models and kernels without random features. ``joint`` gives mean and covariance at rows of inputs."""

    def __init__(self, joint: Callable[[Array], tuple[Any, Array]], n_samples: int, seed: Any) -> None:
        self._joint = joint
        self._random = np.random.default_rng(seed)
        self._rows: Array | None = None
        self._values = np.empty((0, n_samples))

    def values(self, X: Array, threads: int | None = None) -> Array:
        """The values of every function at rows of inputs, of shape (n, n_samples)."""
        # Adding 0.0 makes −0 and 0 the same row.
        X = X + 0.0
        old = np.empty((0, X.shape[1])) if self._rows is None else self._rows
        rows, places = np.unique(np.vstack([old, X]), axis=0, return_index=True)
        fresh = np.sort(places[places >= len(old)]) - len(old)
        if len(fresh):
            self._draw(old, X[fresh])
        assert self._rows is not None
        known = {row.tobytes(): i for i, row in enumerate(self._rows)}
        return self._values[[known[row.tobytes()] for row in X]]

    def gradients(self, X: Array, threads: int | None = None) -> list[Array]:
        """Raises an error: draws at rows have no gradient."""
        raise ValueError("the functions have no gradients: the model is linear, or its kernel has no random features")

    def _draw(self, old: Array, new: Array) -> None:
        """Draws values at new rows, conditioned on the values at the old rows: ``f | f_old ~ N(m + K (f_old - m_old), C - K C_old Kᵀ)``."""
        rows = np.vstack([old, new])
        mean, covariance = self._joint(rows)
        n = len(old)
        shift, left = np.zeros((len(new), 1)), covariance[n:, n:]
        if n:
            weights = _solve(covariance[:n, :n], covariance[:n, n:]).T
            shift = weights @ (self._values - mean[:n, None])
            left = left - weights @ covariance[:n, n:]
        root = _root(left, np.diag(covariance)[n:].max())
        noise = self._random.standard_normal((len(new), self._values.shape[1]))
        self._values = np.vstack([self._values, mean[n:, None] + shift + root @ noise])
        self._rows = rows


class OutputFunctionDraws:
    """Functions of several outputs, drawn together; made by ``sample_f``. Outputs that mix processes share their draws."""

    def __init__(self, outputs: list[FunctionDraws]) -> None:
        self._outputs = outputs

    def __call__(self, X: Any) -> Array:
        """The values of every function at rows of inputs, of shape (n, outputs, n_samples)."""
        return np.stack([output(X) for output in self._outputs], axis=1)

    def gradient(self, X: Any) -> Array:
        """The gradients with respect to the inputs at rows, of shape (n, inputs, outputs, n_samples)."""
        return np.stack([output.gradient(X) for output in self._outputs], axis=2)


class MixedDraws:
    """The functions of an output that mixes processes: ``offset + Σ_l weights[l] · processes[l]``, for :class:`ExactDraws`."""

    def __init__(self, processes: list[ExactDraws], weights: Array, offset: float) -> None:
        self._processes, self._weights, self._offset = processes, weights, offset

    def values(self, X: Array, threads: int | None = None) -> Array:
        """The values of every function at rows of inputs."""
        return self._offset + sum(weight * process.values(X) for weight, process in zip(self._weights, self._processes))

    def gradients(self, X: Array, threads: int | None = None) -> list[Array]:
        """Raises an error, because draws of the processes have no gradient."""
        return self._processes[0].gradients(X)


def _solve(covariance: Array, right: Array) -> Array:
    """Returns ``C⁻¹ B`` for a C that may be singular: directions of almost no variance, which the old rows determine, are
    left out."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-10 * values[-1]
    return vectors[:, kept] @ ((vectors[:, kept].T @ right) / values[kept, None])


def _root(covariance: Array, scale: float) -> Array:
    """Returns ``R`` with ``R Rᵀ = C``. Eigenvalues below rounding error, relative to the ``scale`` of the prior, count as 0."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    return vectors * np.sqrt(np.where(values > 1e-12 * scale, values, 0.0))
