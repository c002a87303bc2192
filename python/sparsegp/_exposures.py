"""What is known of rows besides their targets: exposures, numbers of trials and standard errors, which methods pass on as one value, and
which targets are censored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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


def censoring(censored: Any) -> Any:
    """Returns which targets are censored as words: ``"right"``, ``"left"`` or ``"none"``. Booleans and numbers say which are on the right."""
    values = np.asarray(_tables.unmasked(censored))
    if values.dtype.kind in "biuf":
        return np.where(values == 0, "none", np.where(values > 0, "right", "left"))
    return values.astype(str)
