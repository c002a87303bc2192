"""Draws of latent functions as callables: values at new rows given those at rows evaluated before; no fitting."""

from __future__ import annotations

import numpy as np


class FunctionDraws:
    """Functions drawn from a posterior whose mean and covariance at rows of inputs ``joint`` gives; see ``sample_f``."""

    def __init__(self, joint, n_samples: int, seed):
        if n_samples < 1:
            raise ValueError(f"n_samples is {n_samples}, expected at least 1")
        self._joint = joint
        self._random = np.random.default_rng(seed)
        self._rows = None
        self._values = np.empty((0, n_samples))

    def __call__(self, X) -> np.ndarray:
        """The values of every function at rows of inputs, of shape (n, n_samples)."""
        # 0.0 is added so that −0 and 0 are one row.
        X = np.atleast_2d(np.asarray(X, dtype=np.float64)) + 0.0
        old = np.empty((0, X.shape[1])) if self._rows is None else self._rows
        rows, places = np.unique(np.vstack([old, X]), axis=0, return_index=True)
        fresh = np.sort(places[places >= len(old)]) - len(old)
        if len(fresh):
            self._draw(old, X[fresh])
        known = {row.tobytes(): i for i, row in enumerate(self._rows)}
        return self._values[[known[row.tobytes()] for row in X]]

    def _draw(self, old: np.ndarray, new: np.ndarray) -> None:
        """Draws values at new rows given those at the old ones: ``f | f_old ~ N(m + K (f_old - m_old), C - K C_old Kᵀ)``."""
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
    """Functions of several outputs, drawn together: ``offsets[p] + Σ_l weights[p, l] · processes[l]``."""

    def __init__(self, processes: list, weights: np.ndarray, offsets: np.ndarray):
        self._processes, self._weights, self._offsets = processes, weights, offsets

    def __call__(self, X) -> np.ndarray:
        """The values of every function at rows of inputs, of shape (n, outputs, n_samples)."""
        values = np.stack([process(X) for process in self._processes], axis=1)
        return self._offsets[:, None] + np.einsum("pl,nls->nps", self._weights, values)


def _solve(covariance: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``C⁻¹ B`` where C may be singular: along directions that are known already nothing is left to say."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-10 * values[-1]
    return vectors[:, kept] @ ((vectors[:, kept].T @ right) / values[kept, None])


def _root(covariance: np.ndarray, scale: float) -> np.ndarray:
    """``R`` with ``R Rᵀ = C``; what is below rounding of the prior's scale is nothing."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    return vectors * np.sqrt(np.where(values > 1e-12 * scale, values, 0.0))
