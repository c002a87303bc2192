"""The algebra of kernels: texts, sums, products, selections of columns, and constraints on parameters."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable
from copy import copy
from inspect import signature
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _sparsegp, _tables
from ._custom import engine_custom

_SUM, _PRODUCT, _PRIMARY = range(3)

#: Words that are followed by kernels in parentheses.
_AROUND = ("scale", "warp", "changepoint")

#: The maximum number of columns to try if a text does not determine the number.
_MOST_COLUMNS = 256

#: Columns of a table by name, or of an array by number, one or several.
Columns: TypeAlias = "int | str | slice | tuple[int | str | slice, ...] | list[int | str | slice] | list[int] | list[str]"


class Kernel:
    """A kernel in the text grammar of ``kernel=``.

    Values in the text are starting values; other parameters start from values computed from the data. Only ``set_params`` changes a
    kernel: every other method that returns a kernel returns a new one.

    Parameters
    ----------
    text : str
        The kernel, such as ``"matern52(ard) + periodic[0] * rbf[0]"``.

    Examples
    --------
    >>> from sparsegp.kernels import Kernel
    >>> Kernel("rbf(lengthscales=[1, 2])").parameters
    {'variance': 1.0, 'lengthscales.0': 1.0, 'lengthscales.1': 2.0}
    """

    _binding = _SUM
    #: Constraints on parameters: the option, the piece of the text, the parameter, and the rest of the option's text.
    _own_said: tuple[tuple[str, int, str, str], ...] = ()
    #: The pieces of the text that come before the operands' pieces.
    _first = 0

    def __init__(self, text: str) -> None:
        self._written = str(text)
        # A text is checked when a kernel is created from it. The name of a custom kernel is known only together with
        # its object.
        if type(self) is Kernel:
            self._narrow()

    @classmethod
    def _unchecked(cls, text: str, custom: Iterable[Any] = ()) -> Kernel:
        """Returns the kernel of a text that may name custom kernels."""
        kernel = cls.__new__(cls)
        kernel._written, kernel._named = text, {own.name: own for own in custom}
        return kernel

    _named: dict[str, Any] = {}

    @property
    def text(self) -> str:
        """The kernel in the text grammar."""
        return self._written

    def _operands(self) -> tuple[Kernel, ...]:
        """Returns the kernels that this kernel consists of, in the order of the text."""
        return ()

    @property
    def _said(self) -> tuple[tuple[str, int, str, str], ...]:
        said, first = [], self._first
        for one in self._operands():
            said += [(word, place + first, name, rest) for word, place, name, rest in one._said]
            first += len(_pieces(one.text))
        return (*said, *self._own_said)

    @property
    def _custom(self) -> dict[str, Any]:
        """The kernels written in Python that the text names."""
        custom = dict(self._named)
        for one in self._operands():
            for name, own in one._custom.items():
                if custom.setdefault(name, own) != own:
                    raise ValueError(f"two different kernels are named {name!r}, expected different names")
        return custom

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the kernel's class, as scikit-learn requires. A grid search sets
        ``kernel__lengthscales``, or ``kernel__k1__period`` for the first kernel of a sum or product.

        Parameters
        ----------
        deep : bool, default=True
            Include the parameters of the kernels inside.

        Returns
        -------
        dict
        """
        params = {name: getattr(self, "_written" if name == "text" else name) for name in self._arguments()}
        if deep:
            inner = {name: value for name, value in params.items() if isinstance(value, Kernel)}
            for name, kernel in inner.items():
                params |= {f"{name}__{key}": value for key, value in kernel.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set arguments of the kernel's class. Constraints set by ``start``, ``fix``, ``bounds`` and ``prior`` stay.

        Parameters
        ----------
        **params
            The arguments, with the names that :meth:`get_params` returns.

        Returns
        -------
        self
        """
        for name, value in params.items():
            own, _, rest = name.partition("__")
            if own not in self._arguments():
                raise ValueError(f"{type(self).__name__} has no parameter {own!r}, expected one of {', '.join(self._arguments())}")
            if rest:
                # Other kernels may contain the same kernel.
                inner = copy(getattr(self, own)).set_params(**{rest: value})
                setattr(self, own, inner)
            else:
                setattr(self, "_written" if own == "text" else own, value)
        self._check()
        return self

    @classmethod
    def _arguments(cls) -> list[str]:
        return [name for name in signature(cls.__init__).parameters if name != "self"]

    def _check(self) -> None:
        """Refuses invalid values."""
        self._narrow()

    def __sklearn_clone__(self) -> Self:
        return copy(self)

    def _inside(self, binding: int) -> str:
        """Returns the text as an operand of an operation with this precedence."""
        return self.text if self._binding >= binding else f"({self.text})"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        said = "".join(f", {word}={texts!r}" for word, texts in self._options().items())
        return f"{type(self).__name__}({self.text!r}{said})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kernel):
            return NotImplemented
        return self.text == other.text and self._said == other._said and self._custom == other._custom

    def __hash__(self) -> int:
        return hash((self.text, self._said))

    def __add__(self, other: Kernel | float) -> Sum:
        return Sum(self, _operand(other))

    def __radd__(self, other: Kernel | float) -> Sum:
        return _operand(other) + self

    def __mul__(self, other: Kernel | float) -> Product:
        return Product(self, _operand(other))

    def __rmul__(self, other: Kernel | float) -> Product:
        return _operand(other) * self

    def __getitem__(self, columns: Columns) -> Selection:
        """Return the kernel of some columns: names, numbers, or slices of numbers."""
        return Selection(self, columns)

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the covariances of the rows of ``X`` (n × d) with the rows of ``Y`` (m × d), or with each other
        without ``Y``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.
        Y : array-like of shape (m, d), optional
            Other points.

        Returns
        -------
        ndarray of shape (n, m), or (n, n)
        """
        X = _points(X)
        Y = None if Y is None else _points(Y)
        return self._at(X.shape[1]).covariance(X, Y)

    def diag(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the variance at every row of ``X``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Points.

        Returns
        -------
        ndarray of shape (n,)
        """
        X = _points(X)
        return self._at(X.shape[1]).diagonal(X)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters by name, with their values for the smallest number of columns that the text allows. The options ``start=``,
        ``fix=``, ``bounds=`` and ``prior=`` use these names after the prefix ``kernel.``. A value of 1 may mean that training computes
        the starting value from the data."""
        return dict(self._narrow().values())

    def start(self, name: str, value: float) -> Self:
        """Return the kernel with a starting value for a parameter.

        Parameters
        ----------
        name : str
            The parameter, as for :meth:`fix`.
        value : float
            The starting value, in units of the column in ``name``, if there is one.

        Returns
        -------
        Kernel
        """
        return self._saying("start", name, f"={float(value)!r}")

    def fix(self, name: str, value: float | None = None) -> Self:
        """Return the kernel with a parameter that training does not change.

        Parameters
        ----------
        name : str
            The parameter: ``"period"`` for the period of every term that has one, ``"periodic.period"`` for the period of one
            term, ``"period[hour]"`` for a period along the column ``hour``, in units of that column (``x0`` is the first column
            of an array). Without a column, numbers are on the scale the model sees.
        value : float, optional
            The fixed value. By default the parameter stays at its starting value.

        Returns
        -------
        Kernel
        """
        return self._saying("fix", name, "" if value is None else f"={float(value)!r}")

    def bounds(self, name: str, lower: float | None = None, upper: float | None = None) -> Self:
        """Return the kernel with bounds for a parameter.

        Parameters
        ----------
        name : str
            The parameter, as for :meth:`fix`.
        lower, upper : float, optional
            The bounds, in units of the column in ``name``, if there is one.

        Returns
        -------
        Kernel
        """
        if lower is None and upper is None:
            raise ValueError("bounds needs lower, upper or both")
        ends = ("" if end is None else repr(float(end)) for end in (lower, upper))
        return self._saying("bounds", name, "=" + ",".join(ends))

    def prior(self, name: str, distribution: str | None) -> Self:
        """Return the kernel with a prior for a parameter.

        Parameters
        ----------
        name : str
            The parameter, as for :meth:`fix`.
        distribution : str or None
            The prior, written as on the command line: ``"lognormal(0, 1)"`` or ``"gamma(2, 1)"``, for example. None removes the
            weak prior that lengthscales have by default.

        Returns
        -------
        Kernel
        """
        return self._saying("prior", name, "=none" if distribution is None else f"={distribution}")

    def _saying(self, word: str, name: str, rest: str) -> Self:
        pieces = _pieces(self.text)
        known: list[str] = []
        said: list[tuple[str, int, str, str]] = []
        for place, prefix in enumerate(_prefixes(pieces)):
            own = [value for value in self.parameters if not prefix or value.startswith(f"{prefix}.")]
            for parameter in dict.fromkeys(re.sub(r"\.\d+$", "", value.removeprefix(f"{prefix}.")) for value in own):
                full = f"{prefix}.{parameter}" if prefix else parameter
                known.append(full)
                stem, column = re.fullmatch(r"(.*?)(\.\d+|\[.+\])?", name, re.DOTALL).groups(default="")  # type: ignore[union-attr]
                if stem in (parameter, full):
                    said.append((word, place, f"{parameter}{column}", rest))
        if not said:
            raise ValueError(f"the kernel {self.text!r} has no parameter {name!r}, expected one of {', '.join(known)}")
        kernel = copy(self)
        kernel._own_said = (*self._own_said, *said)
        return kernel

    def _options(self) -> dict[str, list[str]]:
        """Returns the constraints on parameters, as the options ``start``, ``fix``, ``bounds`` and ``prior`` of estimators."""
        options: dict[str, list[str]] = {}
        prefixes = _prefixes(_pieces(self.text)) if self._said else []
        for word, place, name, rest in self._said:
            prefix = f"{prefixes[place]}." if prefixes[place] else ""
            options.setdefault(word, []).append(f"kernel.{prefix}{name}{rest}")
        return options

    def _at(self, columns: int) -> _sparsegp.Kernel:
        return _sparsegp.Kernel(self.text, columns, engine_custom(self._custom.values()))

    def _narrow(self) -> _sparsegp.Kernel:
        """Returns the engine's kernel for the smallest possible number of columns. The parameters of a piece do not
        depend on its columns."""
        text, custom = re.sub(r"(?<!=)\[[^\]]*\]", "", self.text), engine_custom(self._custom.values())
        wrong = ValueError(f"kernel {text!r} needs more than {_MOST_COLUMNS} columns")
        for columns in range(1, _MOST_COLUMNS):
            try:
                return _sparsegp.Kernel(text, columns, custom)
            except ValueError as error:
                wrong = error
        raise wrong

    @staticmethod
    def _tuned(text: str, values: Iterable[tuple[str, float]], custom: Iterable[Any] = ()) -> Kernel:
        """Returns the kernel of a text without values, with these values by name."""
        pieces = _pieces(text)
        written: dict[int, dict[str, list[float]]] = {}
        places = {prefix: place for place, prefix in enumerate(_prefixes(pieces))}
        for name, value in values:
            prefix, _, parameter = ("", "", name) if len(pieces) == 1 else name.partition(".")
            parameter = re.sub(r"\.\d+$", "", parameter)
            written.setdefault(places[prefix], {}).setdefault(parameter, []).append(value)
        for place in sorted(written, key=lambda place: -pieces[place][1]):
            _, at, brackets = pieces[place]
            given = ", ".join(f"{key}={_value(own if len(own) > 1 else own[0])}" for key, own in written[place].items())
            given = f"({given})" if brackets is None else f", {given}" if brackets else given
            text = text[:at] + given + text[at:]
        return Kernel._unchecked(text, custom)


class _Pair(Kernel):
    """Two kernels and the sign between them."""

    _sign = ""

    def __init__(self, k1: Kernel, k2: Kernel) -> None:
        self.k1, self.k2 = k1, k2
        # Refuses two kernels with one name.
        _ = self._custom

    def _operands(self) -> tuple[Kernel, ...]:
        return self.k1, self.k2

    @property
    def text(self) -> str:
        """The kernel in the text grammar."""
        return f" {self._sign} ".join(one._inside(self._binding) for one in self._operands())


class Sum(_Pair):
    """The sum of two kernels, ``k1 + k2``.

    Parameters
    ----------
    k1, k2 : Kernel
        The kernels.
    """

    _sign, _binding = "+", _SUM


class Product(_Pair):
    """The product of two kernels, ``k1 * k2``.

    Parameters
    ----------
    k1, k2 : Kernel
        The kernels.
    """

    _sign, _binding = "*", _PRODUCT


class Selection(Kernel):
    """A kernel of some columns, ``kernel[columns]``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    columns : int, str, slice, or several of them
        The columns.
    """

    _binding = _PRIMARY

    def __init__(self, kernel: Kernel, columns: Columns) -> None:
        self.kernel, self.columns = kernel, columns

    def _operands(self) -> tuple[Kernel, ...]:
        return (self.kernel,)

    @property
    def text(self) -> str:
        """The kernel in the text grammar."""
        columns = self.columns if isinstance(self.columns, (tuple, list)) else (self.columns,)
        return f"{self.kernel._inside(_PRIMARY)}[{','.join(map(_column, columns))}]"


def _pieces(text: str) -> list[tuple[str, int, bool | None]]:
    """Returns the named pieces of a text in their order: the name, the position at which options can be written, and True
    if there are options, or None if there are no brackets."""
    pieces: list[tuple[str, int, bool | None]] = []
    around: list[int | None] = []
    at = 0
    while at < len(text):
        word = re.compile(r"([A-Za-z]\w*)\s*([(=]?)").match(text, at)
        if word is None:
            if text[at] == "[":
                at = text.find("]", at) if "]" in text[at:] else len(text)
            elif text[at] == "(":
                around.append(None)
            elif text[at] == ")" and around:
                place = around.pop()
                if place is not None:
                    pieces[place] = (pieces[place][0], at, True)
            at += 1
            continue
        name, behind = word.groups()
        at = word.end()
        if behind == "(" and name in _AROUND:
            around.append(len(pieces))
            pieces.append((name, at, True))
        elif behind == "(":
            end = text.find(")", at) if ")" in text[at:] else len(text)
            pieces.append((name, end, bool(text[at:end].strip())))
            at = end + 1
        elif behind != "=":
            pieces.append((name, word.end(1), None))
        elif text[at:].lstrip().startswith("["):
            at = text.find("]", at) + 1 or len(text)
        else:
            at = re.compile(r"[^,)]*").match(text, at).end()
    return pieces


def _prefixes(pieces: list[tuple[str, int, bool | None]]) -> list[str]:
    """Returns the prefixes of parameter names, piece by piece; empty if there is only one piece."""
    names = [name for name, *_ in pieces]
    if len(names) == 1:
        return [""]
    counts = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [name if count == 1 else f"{name}_{count}" for name, count in zip(names, counts)]


def _points(X: ArrayLike) -> NDArray[np.float64]:
    X = np.asarray(_tables.unmasked(X), dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions, expected 2: a row per point")
    return X


def _column(column: int | str | slice) -> str:
    if isinstance(column, slice):
        if column.step is not None or column.start is None or column.stop is None:
            raise ValueError("columns are sliced as [first:end]")
        return f"{column.start}:{column.stop}"
    return str(column)


def _operand(value: Any) -> Kernel:
    if isinstance(value, Kernel):
        return value
    if isinstance(value, numbers.Real):
        from ._kernel_classes import Constant

        return Constant(variance=float(value))
    raise TypeError(f"{value!r} is neither a kernel nor a number")


def _value(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    return f"[{', '.join(repr(float(one)) for one in value)}]"
