"""The base of kernels and likelihoods written in Python: declaration and checks of their parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from . import _sparsegp

#: Names of arguments of the methods, which hyper-parameters cannot have.
_ARGUMENTS = frozenset({"self", "X", "Y", "W", "y", "f", "rng", "exposure"})


@dataclass(frozen=True)
class Parameter:
    """A hyper-parameter of a kernel or a likelihood written in Python.

    Parameters
    ----------
    start : float, optional
        The starting value in training. Without it, ``variance`` and ``lengthscales`` of a kernel start from the data, as for built-in
        kernels; other parameters start at 1, or inside their range if 1 is outside, unless a likelihood's ``start`` sets them.
    lower, upper : float, optional
        Bounds of the values; None for no bound. By default values are positive.
    per_column : bool, default=False
        True for a separate value for each column of the inputs, as for lengthscales (kernels only).

    Examples
    --------
    >>> from sparsegp.kernels import Parameter
    >>> Parameter(12.4, upper=24.0)
    Parameter(start=12.4, lower=0.0, upper=24.0, per_column=False)
    """

    start: float | None = None
    lower: float | None = 0.0
    upper: float | None = None
    per_column: bool = False

    def _ends(self) -> tuple[float, float]:
        return (-np.inf if self.lower is None else float(self.lower), np.inf if self.upper is None else float(self.upper))

    def _first(self) -> float:
        """The starting value in training, unless another rule sets it."""
        low, high = self._ends()
        if self.start is not None:
            return float(self.start)
        if low < 1.0 < high:
            return 1.0
        if np.isfinite(low) and np.isfinite(high):
            return 0.5 * (low + high)
        return low + 1.0 if np.isfinite(low) else high - 1.0


class Custom:
    """The methods that the engine calls on a kernel or likelihood written in Python."""

    #: The name in texts, reports and model files.
    name: str = ""

    #: The hyper-parameters by name.
    hyperparameters: dict[str, Parameter] = {}

    _required: tuple[str, ...] = ()

    def _described(self, columns: int) -> list:
        """Returns every parameter: name, values, bounds, and True if its start is given. Raises an error for an object
        with a mistake."""
        kind = type(self).__name__
        if not isinstance(self.name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", self.name):
            raise ValueError(f"{kind}.name is {self.name!r}, expected a letter, then letters, digits and underscores")
        for method in self._required:
            if not callable(getattr(self, method, None)):
                raise TypeError(f"{kind} has no method {method!r}, which {type(self)._base_name()} needs")
        described = []
        for name, parameter in self.hyperparameters.items():
            if not isinstance(parameter, Parameter):
                raise TypeError(f"{kind}.hyperparameters[{name!r}] is {parameter!r}, expected a Parameter")
            if not name.isidentifier() or not name.isascii() or name in _ARGUMENTS:
                why = "is an argument of its methods" if name in _ARGUMENTS else "is not a valid argument name in ASCII"
                raise ValueError(f"{kind}.hyperparameters has {name!r}, which {why}: expected another name")
            (low, high), first = parameter._ends(), parameter._first()
            if not low < first < high:
                raise ValueError(f"{kind}.hyperparameters[{name!r}] starts at {first}, expected a number between {low} and {high}")
            values = [first] * (columns if parameter.per_column else 1)
            described.append((name, values, parameter.lower, parameter.upper, parameter.start is not None))
        return described

    @classmethod
    def _base_name(cls) -> str:
        return next(base.__name__ for base in cls.__mro__ if base.__module__.startswith("sparsegp."))

    #: True if results whose axes have length 1 stand for all entries along the axis. A single number always stands for all entries.
    _repeats = True

    def _array(self, values, shape: tuple, method: str) -> np.ndarray:
        """Returns the result of a method as an array of numbers with this shape."""
        values = np.asarray(values, dtype=np.float64)
        if values.shape == shape:
            return np.ascontiguousarray(values)
        try:
            if not self._repeats and values.ndim > 0:
                raise ValueError
            return np.ascontiguousarray(np.broadcast_to(values, shape))
        except ValueError:
            raise ValueError(f"{type(self).__name__}.{method} returned shape {values.shape}, expected {shape}") from None


def engine_custom(kernels=(), likelihoods=()):
    """Returns the engine's handle of objects written in Python; None without objects."""
    kernels, likelihoods = list(kernels), list(likelihoods)
    return _sparsegp.Custom(kernels, likelihoods) if kernels or likelihoods else None
