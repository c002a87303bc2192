"""Predictions from sparsegp model files with NumPy alone, for systems without the compiled package.

Copy this file; it needs Python 3.10 or newer and NumPy. ::

    model = load("houses.model")
    predictions = model.predict({"area": [70, 95], "city": ["Lyon", "Metz"]})
    predictions["mean"], predictions["variance"]

It reads Gaussian processes with one latent function and inducing inputs, stationary kernels, columns of numbers and categories, and these
likelihoods: gaussian, student-t, poisson, bernoulli-probit and bernoulli-logit. :class:`UnreadableModel` names anything else.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Model", "UnreadableModel", "load"]

#: The version of the format.
VERSION = 1

#: The maximum distance of quadrature nodes from the mean, in standard deviations.
WIDEST = 12.0


class UnreadableModel(ValueError):
    """A file that is damaged, not a model file, or a model that this reader does not support."""


def load(path: Any) -> "Model":
    """Load a model file.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    UnreadableModel
        If the file is damaged, is not a model file, or contains a model that this reader does not support.
    """
    with open(path, "rb") as file:
        return Model(file.read(), str(path))


class Model:
    """A model from the bytes of its file; ``name`` is its name in messages."""

    def __init__(self, data: bytes, name: str = "model"):
        self._name = name
        self._about, self._arrays = _container(data, name)
        about = self._about
        self._refuse_unsupported()
        schema = about.get("schema") or {}
        self._features = schema.get("features")
        self._fills, self._later = schema.get("fills", []), schema.get("later", {})
        self._exposure = schema.get("exposure")
        self._scaling = about["scaling"]
        inputs = len(self._scaling["inputs"])
        known = about["options"].get("dimensions") or ["number"] * inputs
        categories = np.array([isinstance(dimension, dict) and "category" in dimension for dimension in known], bool)
        values = [np.array(parameter["values"], float) for parameter in about["kernel_parameters"]]
        self._kernel = _Kernel(about["kernel"], values, categories, self._unsupported)
        self._likelihood = {parameter["name"]: float(parameter["values"][0]) for parameter in about["likelihood_parameters"]}
        #: The columns that rows need: the features, and the exposure if the model has one.
        self.columns = [feature["name"] for feature in self._features or []] + ([self._exposure] if self._exposure else [])
        #: The column that the model predicts; ``None`` for a model of arrays.
        self.target = schema.get("target")
        #: The classes: the negative one, then the positive one; empty for other targets.
        self.classes = list(schema.get("encoding", {}).get("levels", []))

    def predict(self, rows: Any, exposure: Any = None) -> dict[str, np.ndarray]:
        """Predict rows.

        Parameters
        ----------
        rows : mapping of column names to sequences (a dict or a data frame), a list of such mappings for single rows, or an array
            Other columns are ignored. ``None``, NaN and empty text are missing cells. An array of shape (n, D) has the inputs in the
            order of the model, with codes for categories.
        exposure : array-like of shape (n,), optional
            The exposure of each row for a model of arrays; a model of a table reads exposures from its column.

        Returns
        -------
        dict of arrays of shape (n,)
            ``mean`` and ``variance`` of the target (of the rate for counts; for two classes, ``mean`` equals
            ``probability``, the probability of the positive class), and ``latent_mean`` and ``latent_variance`` of the
            latent function in units of the target.
        """
        x, exposure = self._inputs(rows, exposure)
        mean, variance = self._latent(self._scaled(x))
        likelihood = self._about["likelihood"]
        result = {}
        if likelihood.startswith("bernoulli"):
            result["probability"] = probability = _probability(likelihood, mean, variance)
            moments = probability, probability * (1 - probability)
        elif likelihood == "poisson":
            rate = exposure * np.exp(mean + 0.5 * variance)
            moments = rate, rate + rate**2 * np.expm1(variance)
        else:
            moments = self._unscaled(mean, variance + self._noise())
        result["mean"], result["variance"] = moments
        result["latent_mean"], result["latent_variance"] = self._unscaled(mean, variance)
        return result

    def _unsupported(self, what: str) -> UnreadableModel:
        return UnreadableModel(f"{self._name}: this reader does not support {what}; use the package sparsegp")

    def _refuse_unsupported(self) -> None:
        """Refuse models that this reader would predict wrongly."""
        about, schema = self._about, self._about.get("schema") or {}
        reasons = [
            ("kernel" not in about, "linear models"),
            (about.get("more_layers") or about.get("mixes") or "weights" not in self._arrays, "several latent functions"),
            (about.get("neighbours") is not None, "neighbours"),
            (about.get("effects") or schema.get("groups"), "grouped effects"),
            (about["options"].get("objective") == "dlm-square", "the objective dlm-square"),
            (schema.get("readings"), f"columns of text that are read as numbers or dates: {', '.join(schema.get('readings', {}))}"),
            (isinstance(about["scaling"].get("map"), dict) and "softplus" in about["scaling"]["map"], "the target warp softplus"),
            (schema.get("missing"), f"declared markers of missing cells: {', '.join(schema.get('missing', []))}"),
        ]
        for feature in schema.get("features", []):
            coded = feature["type"] == "numeric" or (feature["type"] == "categorical" and feature.get("coded"))
            reasons.append((not coded, f"the column {feature['name']!r}: {feature['type']} without a code"))
        known = ("gaussian", "student-t", "poisson", "bernoulli-probit", "bernoulli-logit")
        if "likelihood" in about:
            reasons.append((about["likelihood"] not in known, f"the likelihood {about['likelihood']}"))
        for reason, what in reasons:
            if reason:
                raise self._unsupported(what)

    def _noise(self) -> float:
        """The variance of the noise on the scale of the model."""
        if self._about["likelihood"] == "gaussian":
            return self._likelihood["noise_variance"]
        scale, df = self._likelihood["scale"], self._likelihood["df"]
        return scale**2 * df / (df - 2) if df > 2 else math.inf

    def _latent(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent function on the scale of the model, computed in blocks of rows."""
        z, weights = self._arrays["inducing_inputs"], self._arrays["weights"]
        constant = sum(self._about["mean"]["values"])
        mean, variance = np.empty(len(x)), np.empty(len(x))
        part = max(1, 2**20 // max(1, len(z)))
        for start in range(0, len(x), part):
            rows = slice(start, start + part)
            k = self._kernel(z, x[rows])
            mean[rows] = constant + weights @ k
            variance[rows] = self._kernel.variance
            for name, sign in (("variance_reduction", -1), ("variance_increase", 1)):
                root = self._arrays.get(name)
                if root is not None:
                    variance[rows] += sign * np.sum((root @ k if root.ndim == 2 else root[:, None] * k) ** 2, axis=0)
        return mean, np.maximum(variance, self._about.get("mean_variance", 0))

    def _inputs(self, rows: Any, exposure: Any) -> tuple[np.ndarray, np.ndarray]:
        """The inputs in original units (n × D) and the exposures."""
        dims = len(self._scaling["inputs"])
        if isinstance(rows, np.ndarray) or self._features is None:
            x = np.array(rows, float)
            if x.ndim != 2 or x.shape[1] != dims:
                raise ValueError(f"rows have shape {x.shape}, expected (n, {dims})")
            return x, np.ones(len(x)) if exposure is None else np.asarray(exposure, float)
        if isinstance(rows, Sequence):
            rows = {name: [row.get(name) for row in rows] for name in self.columns}
        absent = [name for name in self.columns if name not in rows]
        if absent:
            raise ValueError(f"the rows lack columns: {', '.join(map(repr, absent))}")
        columns = [column for place, feature in enumerate(self._features) for column in self._column(place, feature, rows)]
        x = np.column_stack(columns) if columns else np.empty((0, 0))
        if not self._exposure:
            return x, np.ones(len(x))
        exposure = _numbers(rows[self._exposure], self._exposure)
        if not np.all((exposure > 0) & np.isfinite(exposure)):
            raise ValueError(f"column {self._exposure!r}: expected exposures above 0 in every row")
        return x, exposure

    def _column(self, place: int, feature: dict, rows: Mapping) -> list[np.ndarray]:
        """The inputs of a feature: its values or codes, and for some features 1 where the cell is missing."""
        name = feature["name"]
        if feature["type"] == "categorical":
            return [_codes(rows[name], feature, self._later.get(name, []))]
        values = _numbers(rows[name], name)
        gaps = np.isnan(values)
        if gaps.any() and place >= len(self._fills):
            raise ValueError(f"row {np.argmax(gaps) + 1}, column {name!r}: the value is missing, expected a number")
        values[gaps] = self._fills[place] if gaps.any() else 0
        return [values, gaps.astype(float)] if feature.get("missing") else [values]

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        """The inputs on the scale of the model."""
        x = x.copy()
        for place, knots in enumerate(self._scaling.get("scores", [])):
            if knots is not None:
                x[:, place] = _score(x[:, place], np.array(knots, float))
        shift, scale = (np.array([affine[key] for affine in self._scaling["inputs"]]) for key in ("shift", "scale"))
        return np.clip((x - shift) / scale, -1e100, 1e100)

    def _unscaled(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the target in original units, from the mean and variance of its scaled value."""
        target, warp = self._scaling["target"], self._scaling.get("map", "none")
        mean, variance = target["shift"] + target["scale"] * mean, target["scale"] ** 2 * variance
        if warp == "none":
            return mean, variance
        warped = np.exp(mean + 0.5 * variance)
        return warped, warped**2 * np.expm1(variance)


def _container(data: bytes, name: str) -> tuple[dict, dict[str, np.ndarray]]:
    """The description and the arrays of a model file, after the checks of its format, version and checksum."""
    if data[:8] == b"sgp-many":
        raise UnreadableModel(f"{name}: this reader does not support several targets; use the package sparsegp")
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        metadata = header.pop("__metadata__")
        kind, version, text = metadata["format"], int(metadata["version"]), metadata["model"]
    except (ValueError, KeyError, AttributeError, TypeError):
        raise UnreadableModel(f"{name}: not a sparsegp model file") from None
    if kind != "sparsegp-model":
        raise UnreadableModel(f"{name}: not a sparsegp model file")
    if version != VERSION:
        raise UnreadableModel(f"{name}: has version {version} of the format, expected {VERSION}")
    digest, arrays, body = hashlib.sha256(), {}, data[8 + length :]
    encoded = text.encode()
    digest.update(len(encoded).to_bytes(8, "little") + encoded)
    for key in sorted(header):
        about = header[key]
        start, end = about["data_offsets"]
        sizes = [len(key.encode()), *[len(about["shape"]), *about["shape"]]]
        digest.update(sizes[0].to_bytes(8, "little") + key.encode() + b"".join(size.to_bytes(8, "little") for size in sizes[1:]))
        digest.update(body[start:end])
        kinds = {"F64": "<f8", "F32": "<f4"}
        if end > len(body) or about["dtype"] not in kinds:
            raise UnreadableModel(f"{name}: is damaged, the array {key} is incomplete")
        arrays[key] = np.frombuffer(body[start:end], kinds[about["dtype"]]).reshape(about["shape"])
    if digest.hexdigest() != metadata.get("sha256"):
        raise UnreadableModel(f"{name}: is damaged, its checksum does not match")
    return json.loads(text), arrays


class _Kernel:
    """A stationary kernel from its text and the values of its parameters, in the order of its parts."""

    def __init__(self, text: str, values: list[np.ndarray], categories: np.ndarray, unsupported: Any):
        self._tokens = re.findall(r"[A-Za-z_]\w*|[\d.]+(?:e[+-]?\d+)?|\S", text)
        self._values, self._unsupported = list(values), unsupported
        # The columns of a kernel follow it in brackets, so parts are created once their columns are known.
        make = self._sum()
        self._value = make(categories)
        if self._tokens or self._values:
            raise unsupported(f"the kernel {text}")
        #: The prior variance, which is the same at all points.
        self.variance = float(self._value(np.zeros((1, len(categories))), np.zeros((1, len(categories))))[0, 0])

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self._value(a, b)

    def _next(self, wanted: str) -> bool:
        found = self._tokens[:1] == [wanted]
        del self._tokens[: int(found)]
        return found

    def _sum(self) -> Any:
        return self._joined(lambda: self._joined(self._selected, "*", np.multiply), "+", np.add)

    def _joined(self, part: Any, sign: str, operation: Any) -> Any:
        parts = [part()]
        while self._next(sign):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]

        def make(categories):
            made = [part(categories) for part in parts]

            def value(a, b):
                result = made[0](a, b)
                for other in made[1:]:
                    result = operation(result, other(a, b))
                return result

            return value

        return make

    def _selected(self) -> Any:
        inner = self._primary()
        while self._next("["):
            inner = self._columns(inner)
        return inner

    def _columns(self, inner: Any) -> Any:
        columns: list[int] = []
        while not self._next("]"):
            if not self._tokens:
                raise self._unsupported("a kernel with an open bracket")
            first = last = int(self._tokens.pop(0))
            if self._next(":"):
                last = int(self._tokens.pop(0)) - 1
            columns += range(first, last + 1)
            self._next(",")

        def make(categories):
            value = inner(categories[columns])
            return lambda a, b: value(a[:, columns], b[:, columns])

        return make

    def _primary(self) -> Any:
        if self._next("("):
            inner = self._sum()
            self._next(")")
            return inner
        name = self._tokens.pop(0) if self._tokens else "nothing"
        if name in ("scale", "warp"):
            self._next("(")
            inner = self._sum()
            self._next(")")
            return self._scale(inner) if name == "scale" else self._warp(inner)
        if name != "constant" and name not in _PROFILES:
            raise self._unsupported(f"the kernel {name}")
        options = {}
        if self._next("("):
            while not self._next(")"):
                key = self._tokens.pop(0)
                options[key] = self._tokens.pop(0) if self._next("=") else True
                self._next(",")
        return self._leaf(name, options)

    def _take(self) -> np.ndarray:
        return self._values.pop(0)

    def _scale(self, inner: Any) -> Any:
        def make(categories):
            factor, value = self._take()[0], inner(categories)
            return lambda a, b: factor * value(a, b)

        return make

    def _warp(self, inner: Any) -> Any:
        def make(categories):
            slopes, numbers = (self._take(), self._take()), np.flatnonzero(~categories)
            value = inner(categories)

            def mapped(x):
                x = x.copy()
                for d in numbers:
                    x[:, d] = _warped(x[:, d], slopes[0][d], slopes[1][d])
                return x

            return lambda a, b: value(mapped(a), mapped(b))

        return make

    def _leaf(self, name: str, options: dict) -> Any:
        def make(categories):
            variance = self._take()[0]
            if name == "constant":
                return lambda a, b: np.full((len(a), len(b)), variance)
            lengths = np.broadcast_to(self._take(), len(categories))
            shape = self._take()[0] if name == "rational_quadratic" else int(options.get("smoothness", 1))
            profile = _PROFILES[name]
            return lambda a, b: variance * profile(_squares(a, b, lengths, categories), shape, len(lengths))

        return make


def _squares(a: np.ndarray, b: np.ndarray, lengths: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """Squared distances in units of lengthscales; two different levels of a category are one lengthscale apart."""
    squares = np.zeros((len(a), len(b)))
    for d, length in enumerate(lengths):
        difference = a[:, d, None] - b[None, :, d]
        squares += (difference != 0 if categories[d] else difference**2) / length**2
    return squares


def _wendland(squares: np.ndarray, smoothness: int, dims: int) -> np.ndarray:
    """Piecewise polynomials with compact support (Rasmussen and Williams 2006, equation 4.21)."""
    r, e = np.minimum(np.sqrt(squares), 1), dims // 2 + 2 * smoothness + 1
    factor = (np.ones_like(r), e * r + 1, (e**2 - 1) * r**2 / 3 + e * r + 1)[smoothness]
    return (1 - r) ** e * factor


#: The shapes of the kernels as functions of the squared distance, with their parameter and the number of columns.
_PROFILES = {
    "rbf": lambda s, _shape, _dims: np.exp(-0.5 * s),
    "matern12": lambda s, _shape, _dims: np.exp(-np.sqrt(s)),
    "matern32": lambda s, _shape, _dims: (1 + np.sqrt(3 * s)) * np.exp(-np.sqrt(3 * s)),
    "matern52": lambda s, _shape, _dims: (1 + np.sqrt(5 * s) + 5 * s / 3) * np.exp(-np.sqrt(5 * s)),
    "rational_quadratic": lambda s, alpha, _dims: np.exp(-alpha * np.log1p(s / (2 * alpha))),
    "wendland": _wendland,
}


def _warped(x: np.ndarray, a: float, b: float) -> np.ndarray:
    """The map of the kernel ``warp``: logit(1 − (1 − σ(x)^a)^b) (Kumaraswamy 1980), without overflow."""
    log_share = np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))
    t = a * log_share
    q = np.where(x > 40, math.log(a) - x, _log_1m_exp(np.where(x > 40, -1.0, t)))
    r = b * q
    # If e^t is below the last digit of 1, 1 − (1 − e^t)^b equals b e^t.
    inner = np.where(t < -40, -1.0, r)
    return np.where(t < -40, math.log(b) + t, _log_1m_exp(inner) - inner)


def _log_1m_exp(x: np.ndarray) -> np.ndarray:
    """log(1 − e^x) for x ≤ 0 (Mächler 2012)."""
    x = np.minimum(x, -1e-300)
    return np.where(x > -math.log(2), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


def _score(values: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Normal scores: linear between knots, extrapolated by at most one score beyond them."""
    above = np.clip(np.searchsorted(knots[:, 0], values, side="left"), 1, len(knots) - 1)
    (x0, y0), (x1, y1) = knots[above - 1].T, knots[above].T
    share = (0.5 * values - 0.5 * x1) / (0.5 * x1 - 0.5 * x0)
    return np.clip(y1 + share * (y1 - y0), knots[0, 1] - 1, knots[-1, 1] + 1)


def _probability(likelihood: str, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The probability of the positive class."""
    if likelihood == "bernoulli-probit":
        ratio = mean / np.sqrt(1 + variance) / math.sqrt(2)
        return np.array([0.5 * math.erfc(-value) for value in ratio])
    return np.clip(_average(lambda f: 0.5 * (1 + np.tanh(0.5 * f)), mean, variance), 0, 1)


def _average(function: Any, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Averages of a function over normal distributions by the trapezoidal rule.

    The logistic function has its nearest poles at a distance of π from the real line, so the error falls as exp(−2π² / (step · deviation)).
    """
    deviation = np.sqrt(variance)
    step = min(0.05, 0.4 / max(1.0, float(np.max(deviation, initial=0.0))))
    nodes = np.arange(-WIDEST, WIDEST + step, step)
    weights = np.exp(-0.5 * nodes**2)
    return function(mean[:, None] + deviation[:, None] * nodes) @ (weights / weights.sum())


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip()) or (isinstance(cell, float) and math.isnan(cell))


def _numbers(cells: Any, name: str) -> np.ndarray:
    """The numbers of a column, with NaN for missing cells."""
    values = np.empty(len(cells))
    for row, cell in enumerate(_list(cells)):
        try:
            values[row] = math.nan if _is_missing(cell) else float(cell)
        except (TypeError, ValueError):
            raise ValueError(f"row {row + 1}, column {name!r}: found {cell!r}, expected a number") from None
        if math.isinf(values[row]):
            raise ValueError(f"row {row + 1}, column {name!r}: found {cell!r}, expected a finite number")
    return values


def _codes(cells: Any, feature: dict, later: list[str]) -> np.ndarray:
    """The codes of a column of categories; levels that do not occur in the model have codes that differ from those of all
    inducing inputs."""
    levels = feature["levels"]
    codes: dict[Any, float] = {level: code for code, level in enumerate(levels)}
    missing = len(levels) if feature.get("missing") else -1
    codes |= {level: len(levels) + bool(feature.get("missing")) + place for place, level in enumerate(later)}
    for level, code in list(codes.items()):
        try:
            codes.setdefault(float(level), code)
        except ValueError:
            pass

    def code(cell):
        if _is_missing(cell):
            return missing
        if isinstance(cell, (bool, np.bool_)):
            return codes.get(str(bool(cell)), codes.get(str(bool(cell)).lower(), -1))
        if isinstance(cell, str) and cell.strip() in codes:
            return codes[cell.strip()]
        try:
            return codes.get(float(cell), -1)
        except (TypeError, ValueError):
            return -1

    return np.array([code(cell) for cell in _list(cells)], float)


def _list(cells: Any) -> list:
    """A column as a list of Python values."""
    return cells.tolist() if hasattr(cells, "tolist") else list(cells)
