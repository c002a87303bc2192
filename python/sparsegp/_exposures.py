"""Exposures of counts and numbers of trials, which methods pass on as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _tables


@dataclass(frozen=True)
class Trials:
    """Numbers of trials."""

    values: Any


def given(exposure: Any, trials: Any) -> Any:
    """Returns the exposures, the numbers of trials as :class:`Trials`, or None."""
    if exposure is not None and trials is not None:
        raise ValueError("exposure and trials are both given, expected only one of them")
    return exposure if trials is None else Trials(trials)


def unwrapped(exposure: Any) -> tuple[str, Any]:
    """Returns the role of the values, ``"exposure"`` or ``"trials"``, and the values or None."""
    return ("trials", exposure.values) if isinstance(exposure, Trials) else ("exposure", exposure)


def taken(exposure: Any, rows: Any) -> Any:
    """Returns the values of some rows."""
    role, values = unwrapped(exposure)
    if values is None:
        return None
    values = _tables.take_rows(values, rows)
    return Trials(values) if role == "trials" else values
