"""The base class of kernels written in Python: the methods that a subclass defines and that the engine calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._custom import Custom
from ._kernels import _PRIMARY, Kernel


class CustomKernel(Custom, Kernel):
    """A kernel written in Python: its values and gradients as NumPy functions.

    A subclass declares its name and hyper-parameters, and defines ``covariance`` and ``gradient``. You can add and multiply its
    objects like other kernels. Pass an object as ``kernel=`` to an estimator or :class:`~sparsegp.SVGP`, and again when you load a
    saved model (``kernels=[…]``). :func:`sparsegp.testing.check_kernel` finds mistakes in a kernel.

    The methods receive points as arrays of shape (n, d), on the scale the model sees: inputs are standardised. Hyper-parameters are
    keyword arguments: numbers, or arrays of shape (d,). The engine's threads call the methods one at a time. An exception in a
    method ends the fit, and ``fit`` raises it.

    Attributes
    ----------
    name : str
        The name in texts, reports and model files.
    hyperparameters : dict of str to Parameter
        The hyper-parameters that training tunes.

    Methods
    -------
    covariance(X, Y, **hyperparameters)
        The covariances of the rows of X with the rows of Y, of shape (n, m). The kernel must be symmetric: k(x, y) = k(y, x).
    gradient(X, Y, W, **hyperparameters)
        The gradient of ``np.sum(W * covariance(X, Y))``: a dict with the gradient for every hyper-parameter, and an array of shape
        (n, d) with the gradient for X. The gradient for Y follows by symmetry.

    Examples
    --------
    An inverse multiquadric:

    >>> import numpy as np
    >>> from sparsegp import SparseGPRegressor
    >>> from sparsegp.kernels import CustomKernel, Parameter
    >>> class Multiquadric(CustomKernel):
    ...     name = "multiquadric"
    ...     hyperparameters = {"variance": Parameter(), "lengthscales": Parameter(per_column=True)}
    ...     def covariance(self, X, Y, variance, lengthscales):
    ...         u = (X[:, None] - Y) / lengthscales
    ...         return variance / (1 + (u**2).sum(-1))
    ...     def gradient(self, X, Y, W, variance, lengthscales):
    ...         u = (X[:, None] - Y) / lengthscales
    ...         s = 1 + (u**2).sum(-1)
    ...         bar = 2 * variance * (W / s**2)[..., None] * u / lengthscales
    ...         return {"variance": np.sum(W / s), "lengthscales": (bar * u).sum((0, 1))}, -bar.sum(1)
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = SparseGPRegressor(Multiquadric() + 0.1, n_inducing=8, auto="none").fit(X, np.sin(X[:, 0]))
    >>> str(model.kernel_).split("(")[0]
    'multiquadric'
    """

    _binding = _PRIMARY
    _required = ("covariance", "gradient")

    def __init__(self) -> None:
        pass

    def _check(self) -> None:
        """Does nothing, because a subclass may have any values."""

    @property
    def text(self) -> str:
        """The name of the kernel."""
        return self.name

    @property
    def _custom(self) -> dict[str, Any]:
        return {self.name: self}

    def __eq__(self, other) -> bool:
        # Objects of a class without attributes behave the same.
        return self is other or type(self) is type(other) and not vars(self) and not vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def variance(self, X: NDArray[np.float64], /, **hyperparameters: Any) -> NDArray[np.float64]:
        """The variance at every row: the diagonal of ``covariance(X, X)``. A subclass may override it with a faster formula.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Points.
        **hyperparameters
            The values of the hyper-parameters.

        Returns
        -------
        ndarray of shape (n,)
        """
        rows = (X[first : first + _ROWS] for first in range(0, len(X), _ROWS))
        return np.concatenate([np.diagonal(self.covariance(some, some, **hyperparameters)) for some in rows] or [np.empty(0)])

    def variance_gradient(
        self, X: NDArray[np.float64], w: NDArray[np.float64], /, **hyperparameters: Any
    ) -> tuple[dict[str, Any], NDArray[np.float64]]:
        """The gradient of ``np.sum(w * variance(X))``, computed by ``gradient``. A subclass may override it with a faster formula.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Points.
        w : ndarray of shape (n,)
            Weights.
        **hyperparameters
            The values of the hyper-parameters.

        Returns
        -------
        dict of str to float or ndarray
            The gradient for every hyper-parameter.
        ndarray of shape (n, d)
            The gradient for X.
        """
        totals, points = dict.fromkeys(self.hyperparameters, 0.0), np.empty_like(X)
        for first in range(0, len(X), _ROWS):
            some = slice(first, first + _ROWS)
            own, left = self.gradient(X[some], X[some], np.diag(w[some]), **hyperparameters)
            totals = {name: total + own[name] for name, total in totals.items()}
            # Both arguments of k(x, x) change.
            points[some] = 2 * left
        return totals, points

    # Covariances of shape (n, 1) are an error, not covariances that are equal along a row.
    _repeats = False

    # The methods that the engine calls.

    def _given(self, values: dict) -> dict:
        """Returns values as the methods receive them: a value per column is an array, even for a single column."""
        return {name: np.atleast_1d(value) if self.hyperparameters[name].per_column else value for name, value in values.items()}

    def _covariances(self, X, Y, values):
        values = self._given(values)
        K = self._array(self.covariance(X, X if Y is None else Y, **values), (len(X), len(X if Y is None else Y)), "covariance")
        if Y is None:
            K = 0.5 * (K + K.T)
            np.fill_diagonal(K, self._variances(X, values))
        return K

    def _variances(self, X, values):
        return self._array(self.variance(X, **self._given(values)), (len(X),), "variance")

    def _gradients(self, X, Y, W, left, right, values):
        values = self._given(values)
        if Y is None:
            own, points = self._checked(self.gradient(X, X, 0.5 * (W + W.T), **values), X, values, "gradient")
            return own, 2 * points if left else None, None
        own, points = self._checked(self.gradient(X, Y, W, **values), X, values, "gradient")
        others = self._checked(self.gradient(Y, X, W.T, **values), Y, values, "gradient")[1] if right else None
        return own, points if left else None, others

    def _variance_gradients(self, X, w, left, values):
        values = self._given(values)
        own, points = self._checked(self.variance_gradient(X, w, **values), X, values, "variance_gradient")
        return own, points if left else None, None

    def _checked(self, found, X, values, method: str):
        """Returns the gradient in the hyper-parameters as one vector, and the gradient in the points as an array."""
        if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], dict):
            raise TypeError(f"{type(self).__name__}.{method} returned a {type(found).__name__}, expected (dict, array)")
        missing = [name for name in values if name not in found[0]]
        if missing:
            raise ValueError(f"{type(self).__name__}.{method} returned nothing for {missing[0]!r}")
        own = [self._array(found[0][name], np.shape(value), method).ravel() for name, value in values.items()]
        return np.concatenate(own or [np.empty(0)]), self._array(found[1], X.shape, method)


#: The number of rows per block if only a diagonal is needed.
_ROWS = 64
