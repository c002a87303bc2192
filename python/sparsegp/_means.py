"""A mean from another estimator or a function: its cross-fitted predictions as further inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils.validation import has_fit_parameter

from . import _tables
from ._types import Array

#: Probabilities are kept this far from 0 and 1.
_MARGIN = 1e-6


def is_own(mean: Any) -> bool:
    """True if a mean is an estimator or a function, not a word of the engine."""
    if mean is None or isinstance(mean, str):
        return False
    if not callable(mean) and not (hasattr(mean, "fit") and hasattr(mean, "predict")):
        raise TypeError(f"mean is {mean!r}, expected a word, an estimator with fit and predict, or a function of X")
    return True


class Mean:
    """A fitted mean: the estimators of all folds, or a function, with the names of its columns."""

    def __init__(self, models: list, names: list[str]):
        self.models, self.names = models, names

    def scores(self, X) -> Array:
        """Returns the scores of new rows, ``n × k``: the average over the folds."""
        found = [_scores(model, X, len(self.names)) for model in self.models]
        return np.mean(found, axis=0)

    def columns(self, scores: Array) -> list:
        """Returns scores as named columns of a table."""
        return [(name, ("number", np.ascontiguousarray(scores[:, k]))) for k, name in enumerate(self.names)]


def fitted(mean: Any, X, y, cv: Any, weights, taken) -> tuple[Mean, Array]:
    """Fits a clone of an estimator outside of each fold. Returns the mean, and the scores of every row from the clone that did not see it.
    A function is used as it is."""
    if not hasattr(mean, "fit"):
        scores = _scores(mean, X)
        models = [mean]
    else:
        y = np.asarray(y)
        scores, models, count = None, [], np.zeros(len(y), dtype=int)
        weighs = weights is not None and has_fit_parameter(mean, "sample_weight")
        for train, held in check_cv(5 if cv is None else cv, y, classifier=is_classifier(mean)).split(y, y):
            train, held = (np.isin(np.arange(len(y)), rows) for rows in (train, held))
            model = clone(mean).fit(_tables.take_rows(X, train), y[train], **({"sample_weight": weights[train]} if weighs else {}))
            if len(getattr(model, "classes_", [])) < len(np.unique(y)) and is_classifier(mean):
                raise ValueError(f"the rows outside of fold {len(models)} of cv lack a class, expected rows of every class")
            own = _scores(model, _tables.take_rows(X, held), None if scores is None else scores.shape[1])
            scores = np.zeros((len(y), own.shape[1])) if scores is None else scores
            scores[held] = own
            count += held
            models.append(model)
        if not np.all(count == 1):
            raise ValueError(f"cv holds out row {np.argmin(count == 1)} {count[count != 1][0]} times, expected every row once")
    if not np.all(np.isfinite(scores)):
        raise ValueError(f"mean returns a value that is not finite for row {np.argmin(np.isfinite(scores).all(axis=1))}")
    names = ["mean"] if scores.shape[1] == 1 else [f"mean_{k}" for k in range(scores.shape[1])]
    return Mean(models, [_tables.free_name(name, taken) for name in names]), scores


def _scores(model: Any, X, expected: int | None = None) -> Array:
    """Returns log odds or log probabilities of classes, or else predictions, one column per score."""
    if hasattr(model, "predict_proba"):
        p = np.clip(model.predict_proba(X), _MARGIN, 1 - _MARGIN)
        scores = np.log(p[:, 1:] / p[:, :1]) if p.shape[1] == 2 else np.log(p)
    else:
        scores = model.predict(X) if hasattr(model, "predict") else model(X)
    scores = np.asarray(scores, dtype=np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or (expected is not None and scores.shape[1] != expected):
        found = f"mean returns an array of shape {scores.shape}"
        raise ValueError(f"{found}, expected a number for each row" if expected is None else f"{found}, expected {expected} columns")
    return scores
