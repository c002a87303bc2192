"""Converts hyper-parameters from the scale that a model sees to units of columns and target."""

from __future__ import annotations

import re
from typing import Any

#: Kernels whose variance is a variance of the function.
_PLAIN = ("rbf", "squared_exponential", "matern12", "matern32", "matern52", "rational_quadratic", "rq", "wendland")
_PLAIN += ("periodic", "cosine", "constant", "white")


def in_units(values: dict[str, float], lengths: list[tuple[str, list[int]]], columns: dict[str, Any]) -> dict[str, float]:
    """Returns the values in their units. ``lengths`` contains names of lengthscales and periods, each with the inputs
    along which it is a length. ``columns`` gives the names of the inputs, the unit of each (None for a warped input),
    the place among the inputs, and the unit of the target."""
    kernel, gaussian = columns["kernel"], columns["kind"] == "real" and not columns["warped"]
    unit, shift = columns["target_unit"], columns["target_shift"]
    place, found = columns["place"], {}
    for name, inputs in lengths:
        value = values[name]
        if len(inputs) == 1 and columns["units"][inputs[0]] is not None:
            name = f"{re.sub(r'[.][0-9]+$', '', name)}[{columns['inputs'][inputs[0]]}]"
            value *= columns["units"][inputs[0]]
        elif place is not None and inputs == place[1]:
            name = f"{re.sub(r'[.][0-9]+$', '', name)}[{', '.join(place[0])}]"
            value *= columns["units"][inputs[0]]
        elif gaussian and name == "mean.constant":
            value = value * unit + shift
        elif gaussian and (name == "likelihood.noise_variance" or _is_of_target(name, kernel)):
            value *= unit**2
        found[name] = value
    return found


def _is_of_target(name: str, kernel: str) -> bool:
    """Returns True if a value is the variance of the function, or of a term of a sum."""
    if not kernel or "*" in kernel or not re.fullmatch(r"kernel([.]\w+)?[.]variance", name):
        return False
    piece = name.split(".")[1] if name.count(".") == 2 else re.match(r"\w*", kernel).group()  # type: ignore[union-attr]
    return re.sub(r"_[0-9]+$", "", piece) in _PLAIN and not re.search(r"(scale|changepoint|warp)\(", kernel)
