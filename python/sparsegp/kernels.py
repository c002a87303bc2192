"""Kernels as objects that add and multiply, evaluate at arrays and print as the text that ``kernel=`` and the command line take.

>>> from sparsegp.kernels import RBF, Periodic
>>> k = 2.0 * RBF(lengthscales=0.5)[0] + Periodic(period=1.0)[0] * RBF()[0]
>>> str(k)
'constant(variance=2.0) * rbf(lengthscales=0.5)[0] + periodic(period=1.0)[0] * rbf[0]'
>>> k([[0.0], [1.0]]).shape
(2, 2)

What is known of hyper-parameters goes with a kernel to the estimator:

>>> k = RBF().bounds("lengthscales", upper=5.0) + Periodic().fix("period", 1.0)
>>> k
Kernel('rbf + periodic', bounds=['kernel.rbf.lengthscales=,5.0'], fix=['kernel.periodic.period=1.0'])

:class:`CustomKernel` is for kernels written in Python.
"""

from __future__ import annotations

import numbers
import re

import numpy as np

from . import _sparsegp
from ._custom import Custom, Parameter, engine_custom

_SUM, _PRODUCT, _PRIMARY = range(3)

#: Words that kernels in parentheses follow.
_AROUND = ("scale", "warp", "changepoint")

#: Points of more columns than this are not tried where a text does not say how many there are.
_MOST_COLUMNS = 256


class Kernel:
    """A kernel in the text grammar of ``kernel=``.

    Values that are given are where training starts; others are found from the data. Kernels do not change: what returns a kernel
    returns a new one.

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
    #: What is said of parameters: the word, the piece of the text, the parameter, and the rest of the option.
    _said: tuple = ()
    #: Kernels written in Python that the text names.
    _custom: dict = {}

    def __init__(self, text: str):
        self.text = str(text)

    @classmethod
    def _of(cls, text: str, binding: int, inside=(), first: int = 0) -> Kernel:
        """The kernel of a text in which these kernels stand in their order, the pieces of the first one from ``first`` on."""
        kernel = Kernel(text)
        kernel._binding = binding
        said, custom = [], {}
        for one in inside:
            said += [(word, place + first, name, rest) for word, place, name, rest in one._said]
            first += len(_pieces(one.text))
            for name, own in one._custom.items():
                if custom.setdefault(name, own) != own:
                    raise ValueError(f"two kernels are called {name!r}, expected a name of its own for each")
        kernel._said, kernel._custom = tuple(said), custom
        return kernel

    def _inside(self, binding: int) -> str:
        """The text as an operand of an operation that binds so tightly."""
        return self.text if self._binding >= binding else f"({self.text})"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        said = "".join(f", {word}={texts!r}" for word, texts in self._options().items())
        return f"Kernel({self.text!r}{said})"

    def __eq__(self, other) -> bool:
        if not isinstance(other, Kernel):
            return NotImplemented
        return self.text == other.text and self._said == other._said and self._custom == other._custom

    def __hash__(self) -> int:
        return hash((self.text, self._said))

    def __add__(self, other) -> Kernel:
        other = _operand(other)
        return self._of(f"{self._inside(_SUM)} + {other._inside(_SUM)}", _SUM, (self, other))

    def __radd__(self, other) -> Kernel:
        return _operand(other) + self

    def __mul__(self, other) -> Kernel:
        other = _operand(other)
        return self._of(f"{self._inside(_PRODUCT)} * {other._inside(_PRODUCT)}", _PRODUCT, (self, other))

    def __rmul__(self, other) -> Kernel:
        return _operand(other) * self

    def __getitem__(self, columns) -> Kernel:
        """The kernel of some columns: names, numbers, or slices of numbers."""
        columns = columns if isinstance(columns, (tuple, list)) else (columns,)
        return self._of(f"{self._inside(_PRIMARY)}[{','.join(map(_column, columns))}]", _PRIMARY, (self,))

    def __call__(self, X, Y=None) -> np.ndarray:
        """The covariances of the rows of ``X`` (n × d) with those of ``Y`` (m × d), or among themselves.

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

    def diag(self, X) -> np.ndarray:
        """The variance at every row of ``X``.

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
    def parameters(self) -> dict:
        """The values by name, as ``fix=``, ``bounds=`` and ``prior=`` call them behind ``kernel.``, for points of the fewest columns
        that the text can be of. 1 stands for what training finds a start for."""
        return dict(self._narrow().values())

    def fix(self, name: str, value=None) -> Kernel:
        """The kernel with a parameter that training does not move.

        Parameters
        ----------
        name : str
            The parameter: ``"period"`` for that of every piece that has one, ``"periodic.period"`` for that of one piece.
        value : float, optional
            Where it stays; where it starts if that is not said.

        Returns
        -------
        Kernel
        """
        return self._saying("fix", name, "" if value is None else f"={float(value)!r}")

    def bounds(self, name: str, lower=None, upper=None) -> Kernel:
        """The kernel with a range for a parameter.

        Parameters
        ----------
        name : str
            The parameter, as for :meth:`fix`.
        lower, upper : float, optional
            What its values stay above and below.

        Returns
        -------
        Kernel
        """
        if lower is None and upper is None:
            raise ValueError("bounds needs lower, upper or both")
        ends = ("" if end is None else repr(float(end)) for end in (lower, upper))
        return self._saying("bounds", name, "=" + ",".join(ends))

    def prior(self, name: str, distribution) -> Kernel:
        """The kernel with a prior of a parameter.

        Parameters
        ----------
        name : str
            The parameter, as for :meth:`fix`.
        distribution : str or None
            The prior as the command line has it, such as ``"lognormal(0, 1)"`` or ``"gamma(2, 1)"``; None for none, not even the weak
            one that lengthscales have by default.

        Returns
        -------
        Kernel
        """
        return self._saying("prior", name, "=none" if distribution is None else f"={distribution}")

    def _saying(self, word: str, name: str, rest: str) -> Kernel:
        pieces, known, said = _pieces(self.text), [], []
        for place, prefix in enumerate(_prefixes(pieces)):
            own = [value for value in self.parameters if not prefix or value.startswith(f"{prefix}.")]
            for parameter in dict.fromkeys(re.sub(r"\.\d+$", "", value.removeprefix(f"{prefix}.")) for value in own):
                full = f"{prefix}.{parameter}" if prefix else parameter
                known.append(full)
                stem, _, column = name.rpartition(".") if re.search(r"\.\d+$", name) else (name, "", "")
                if stem in (parameter, full):
                    said.append((word, place, f"{parameter}.{column}" if column else parameter, rest))
        if not said:
            raise ValueError(f"the kernel {self.text!r} has no parameter {name!r}, expected one of {', '.join(known)}")
        kernel = self._of(self.text, self._binding, (self,))
        kernel._said += tuple(said)
        return kernel

    def _options(self) -> dict:
        """What was said of parameters, as the options ``fix``, ``bounds`` and ``prior`` of estimators."""
        options: dict = {}
        prefixes = _prefixes(_pieces(self.text)) if self._said else []
        for word, place, name, rest in self._said:
            prefix = f"{prefixes[place]}." if prefixes[place] else ""
            options.setdefault(word, []).append(f"kernel.{prefix}{name}{rest}")
        return options

    def _at(self, columns: int):
        return _sparsegp.Kernel(self.text, columns, engine_custom(self._custom.values()))

    def _narrow(self):
        """The engine's kernel for the fewest columns; which columns a piece is of does not matter for its parameters."""
        text, custom = re.sub(r"(?<!=)\[[^\]]*\]", "", self.text), engine_custom(self._custom.values())
        for columns in range(1, _MOST_COLUMNS):
            try:
                return _sparsegp.Kernel(text, columns, custom)
            except ValueError as error:
                wrong = error
        raise wrong

    @classmethod
    def _tuned(cls, text: str, values, custom=()) -> Kernel:
        """The kernel of a text without values, with these values by name."""
        pieces, written = _pieces(text), {}
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
        kernel = cls(text)
        kernel._custom = {own.name: own for own in custom}
        return kernel


def _pieces(text: str) -> list:
    """The named pieces of a text in their order: name, where options can be written, and whether there are some (None: no brackets)."""
    pieces, around, at = [], [], 0
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


def _prefixes(pieces: list) -> list:
    """What names of parameters begin with, piece by piece; nothing where there is one piece."""
    names = [name for name, *_ in pieces]
    if len(names) == 1:
        return [""]
    counts = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [name if count == 1 else f"{name}_{count}" for name, count in zip(names, counts)]


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
    make.__doc__ = f"""{about}.

    Parameters
    ----------
    *flags : str
        Options without a value, such as ``"ard"``: a lengthscale for every column.
    **values
        Options with one, as in the grammar of kernels: ``ard=True``, and values of parameters, which are where training starts.

    Returns
    -------
    Kernel
    """
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
        kernels = [_operand(kernel) for kernel in kernels]
        inside = [*(kernel.text for kernel in kernels), *(f"{k}={_value(v)}" for k, v in values.items())]
        return Kernel._of(f"{name}({', '.join(inside)})", _PRIMARY, kernels, first=1)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""{about}

    Parameters
    ----------
    *kernels : Kernel
        What it is around.
    **values
        Values of its own parameters, which are where training starts.

    Returns
    -------
    Kernel
    """
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

class CustomKernel(Custom, Kernel):
    """A kernel written in Python: its values and gradients as NumPy functions.

    A subclass says what it is called and what its hyper-parameters are, and defines ``covariance`` and ``gradient``. Its objects
    are kernels like others: they add and multiply, are given as ``kernel=`` to an estimator or :class:`~sparsegp.SVGP`, and given
    again when a saved model is loaded (``kernels=[…]``). :func:`sparsegp.testing.check_kernel` finds what is wrong with one.

    The functions get points as arrays of shape (n, d), on the scale the model sees: inputs are standardised. Hyper-parameters are
    keyword arguments: numbers, or arrays of shape (d,). The functions are called on the engine's threads, one at a time; an
    exception that one raises ends the fit and is raised from it.

    Attributes
    ----------
    name : str
        The word for it in texts, reports and model files.
    hyperparameters : dict of str to Parameter
        What training tunes.

    Methods
    -------
    covariance(X, Y, **hyperparameters)
        The covariances of the rows of X with those of Y, of shape (n, m), by a function of the points that is symmetric in them.
    gradient(X, Y, W, **hyperparameters)
        The gradient of ``np.sum(W * covariance(X, Y))``: a dict of that in every hyper-parameter, and an array of shape (n, d) of
        that in X. The gradient in Y follows by symmetry.

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
    _said = ()
    _required = ("covariance", "gradient")

    def __init__(self):
        pass

    @property
    def text(self) -> str:
        return self.name

    @property
    def _custom(self) -> dict:
        return {self.name: self}

    def __eq__(self, other) -> bool:
        # Two objects that have nothing of their own do the same.
        return self is other or type(self) is type(other) and not vars(self) and not vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def variance(self, X, **hyperparameters) -> np.ndarray:
        """The variance at every row: the diagonal of ``covariance(X, X)`` unless a subclass has a formula, which is quicker.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Points.
        **hyperparameters
            Their values.

        Returns
        -------
        ndarray of shape (n,)
        """
        rows = (X[first : first + _ROWS] for first in range(0, len(X), _ROWS))
        return np.concatenate([np.diagonal(self.covariance(some, some, **hyperparameters)) for some in rows] or [np.empty(0)])

    def variance_gradient(self, X, w, **hyperparameters):
        """The gradient of ``np.sum(w * variance(X))`` as ``gradient`` gives it, from which it follows unless a subclass has a formula.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Points.
        w : ndarray of shape (n,)
            Weights.
        **hyperparameters
            Their values.

        Returns
        -------
        dict of str to float or ndarray
            The gradient in every hyper-parameter.
        ndarray of shape (n, d)
            The gradient in X.
        """
        totals, points = dict.fromkeys(self.hyperparameters, 0.0), np.empty_like(X)
        for first in range(0, len(X), _ROWS):
            some = slice(first, first + _ROWS)
            own, left = self.gradient(X[some], X[some], np.diag(w[some]), **hyperparameters)
            totals = {name: total + own[name] for name, total in totals.items()}
            # Both arguments of k(x, x) move.
            points[some] = 2 * left
        return totals, points

    # What the engine calls.

    def _given(self, values: dict) -> dict:
        """Values as the functions get them: arrays where every column has its own, of one column as well."""
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
        """Gradients as one vector, and an array of those in points."""
        if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], dict):
            raise TypeError(f"{type(self).__name__}.{method} returned a {type(found).__name__}, expected (dict, array)")
        missing = [name for name in values if name not in found[0]]
        if missing:
            raise ValueError(f"{type(self).__name__}.{method} returned nothing for {missing[0]!r}")
        own = [self._array(found[0][name], np.shape(value), method).ravel() for name, value in values.items()]
        return np.concatenate(own or [np.empty(0)]), self._array(found[1], X.shape, method)


#: Rows that are looked at together where only a diagonal is wanted.
_ROWS = 64


__all__ = [
    "CustomKernel",
    "Kernel",
    "Parameter",
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
