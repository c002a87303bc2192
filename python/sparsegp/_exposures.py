"""What is known of rows besides their targets: exposures, numbers of trials and standard errors, which methods pass on as one value, and
which targets are censored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length

from . import _tables


@dataclass(frozen=True)
class Known:
    """Numbers of trials or standard errors."""

    role: str
    values: Any


def given(exposure: Any, trials: Any = None, noise_std: Any = None) -> Any:
    """Returns the exposures, or numbers of trials or standard errors as :class:`Known`, or None."""
    known = {"exposure": exposure, "trials": trials, "noise_std": noise_std}
    named = [name for name, values in known.items() if values is not None]
    if len(named) > 1:
        raise ValueError(f"{named[0]} and {named[1]} are both given, expected only one of them")
    return exposure if named in ([], ["exposure"]) else Known(named[0], known[named[0]])


def unwrapped(exposure: Any) -> tuple[str, Any]:
    """Returns the role of the values, ``"exposure"``, ``"trials"`` or ``"noise_std"``, and the values or None."""
    return (exposure.role, exposure.values) if isinstance(exposure, Known) else ("exposure", exposure)


def taken(exposure: Any, rows: Any) -> Any:
    """Returns the values of some rows."""
    role, values = unwrapped(exposure)
    if values is None:
        return None
    values = _tables.take_rows(values, rows)
    return Known(role, values) if isinstance(exposure, Known) else values


@dataclass(frozen=True)
class Ends:
    """The other ends of the intervals of targets, and NaN for known ones."""

    values: NDArray[np.float64]


def censored_or_ends(censored: Any, other_ends: Any) -> Any:
    """Returns which targets are censored, or the other ends of their intervals as :class:`Ends`, or None."""
    if other_ends is None:
        return censored
    if censored is not None:
        raise ValueError("censored and other_ends are both given, expected only one of them")
    return Ends(np.asarray(_tables.unmasked(other_ends), dtype=np.float64))


def censored_rows(censored: Any, rows: Any) -> Any:
    """Returns what is known of some rows."""
    if isinstance(censored, Ends):
        return Ends(censored.values[np.asarray(rows)])
    return None if censored is None else _tables.take_rows(censored, rows)


def censored_columns(censored: Any, y: Any, names: Any) -> list[tuple[str, Any]]:
    """Returns the columns that say which targets are censored, by the names of their roles."""
    values = censored.values if isinstance(censored, Ends) else censored
    check_consistent_length(y, values)
    if names["censored"] is not None and isinstance(censored, Ends):
        if np.any(np.isfinite(values)):
            raise ValueError("other_ends has finite numbers, but the model was fitted with censored")
        values = np.where(np.isnan(values), 0, np.sign(values))
    if names["censored"] is not None:
        return [(names["censored"], _tables.column(censoring(values), names["censored"]))]
    if names["lower"] is None or names["upper"] is None:
        raise ValueError("censored or other_ends is given, but the model was fitted without it")
    if not isinstance(censored, Ends):
        words = censoring(values)
        values = np.where(words == "right", np.inf, np.where(words == "left", -np.inf, np.nan))
    other = np.where(np.isnan(values), y, values)
    ends = {"lower": np.minimum(y, other), "upper": np.maximum(y, other)}
    return [(names[role], ("number", np.where(np.isfinite(end), end, np.nan))) for role, end in ends.items()]


def censoring(censored: Any) -> Any:
    """Returns which targets are censored as words: ``"right"``, ``"left"`` or ``"none"``. Booleans and numbers say which are on the right."""
    values = np.asarray(_tables.unmasked(censored))
    if values.dtype.kind in "biuf":
        return np.where(values == 0, "none", np.where(values > 0, "right", "left"))
    return values.astype(str)
