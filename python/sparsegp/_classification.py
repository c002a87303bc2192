"""The base of estimators of classes: labels of any type, probabilities, draws."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from . import _sparsegp, _tables
from ._base import Estimator
from ._options import seed_of
from ._targets import checked_target, named_target
from ._types import Array, Column, Rows, Seed


class Classification(ClassifierMixin, Estimator):
    """The base of estimators of classes."""

    _given = {"task": "classification"}
    _kinds = ("binary", "class")
    classes_: NDArray[Any]

    def fit(
        self, X: Rows, y: Column, sample_weight: Column = None, groups: Any = None, *, offset: Any = None
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs: an array of numbers, or a pandas, polars or Arrow table, whose columns of text are categories.
        y : array-like of shape (n,)
            The classes, two or more, of any type.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses: a row of weight 2 counts as two rows.
        groups : str, list of str or array-like of shape (n,), optional
            Grouped (random) effects in addition to the function; with more than two classes, every class has its own. A string is a
            formula with columns of the table ``X``: ``"school"``, ``"days | subject"``, ``"days || subject"`` for independent effects,
            ``"batch/cask"``. An array or a series contains the level of each row; pass one to :meth:`predict` too.
        offset : str, list of str or array-like of shape (n,) or (n, functions), optional
            Known additions to the latent function in each row: names of columns of the table ``X``, or numbers, which predictions need
            too. They are log odds with the logit link, probits with the probit link. With more than two classes every class has one.

        Returns
        -------
        self
        """
        y = named_target(y, numeric=False)
        if y is not None:
            check_classification_targets(np.asarray(y))
        return self._fit(X, y, self._weighted(y, sample_weight), groups=groups, offset=offset)

    def _weighted(self, y, sample_weight):
        """Returns the sample weights times the weights of the classes of the rows."""
        if getattr(self, "class_weight", None) is None or y is None:
            return sample_weight
        own = compute_sample_weight(self.class_weight, np.asarray(y))
        return own if sample_weight is None else own * np.asarray(sample_weight, dtype=np.float64)

    def partial_fit(
        self,
        X: Rows,
        y: Column,
        classes: Column = None,
        sample_weight: Column = None,
        *,
        forget: float = 0.0,
        offset: Any = None,
    ) -> Self:
        """Fit the model, or update a fitted model with new rows; its kernel, likelihood and inducing inputs stay the same.

        With Gaussian noise, calls with the parts of a data set give the posterior of all its rows; with other noise, an
        approximation of it. The first call uses no neighbours unless the parameter ``neighbours`` is set, because a
        model with neighbours keeps every row that it learns from and does not support sample weights.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        y : array-like of shape (n,)
            The classes. The first call needs rows of every class.
        classes : array-like, optional
            All classes; accepted for compatibility with scikit-learn. The rows of the first call must contain every one of them.
        sample_weight : array-like of shape (n,), optional
            The weights of the rows' losses.
        forget : float, default=0.0
            The share of the information from earlier rows to forget: 0 keeps all of it, 1 keeps only the hyper-parameters.
        offset : str, list of str or array-like of shape (n,) or (n, functions), optional
            Known additions to the latent functions, as in :meth:`fit`.

        Returns
        -------
        self
        """
        y = named_target(y, numeric=False)
        if "_model" not in self.__dict__:
            check_classification_targets(np.asarray(y))
            absent = np.setdiff1d([] if classes is None else classes, np.asarray(y))
            if len(absent):
                raise ValueError(f"the first call has no rows of the classes {list(absent[:5])}, expected rows of every class")
        return self._partial_fit(X, y, self._weighted(y, sample_weight), forget=forget, offset=offset)

    def _training_target(self, y):
        labels = np.asarray(y)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 classes in the data, got 1 class")
        return _tables.classes_column(labels, self.classes_, codes)

    def _positive_label(self):
        return _tables._label(self.classes_[1]) if len(self.classes_) == 2 else None

    def _target_column(self, y):
        labels = checked_target(y, numeric=False)
        unseen = np.setdiff1d(labels, self.classes_)
        if len(unseen):
            raise ValueError(f"y contains previously unseen labels: {list(unseen[:5])}")
        return _tables.classes_column(labels, self.classes_, np.searchsorted(self.classes_, labels))

    def _take_model(self, model, **own) -> None:
        super()._take_model(model, **own)
        if "classes_" not in self.__dict__:
            self.classes_ = _classes_of(self._columns["levels"])
        self._places = _tables.class_places(self._columns["levels"], self.classes_)

    def predict(self, X: Rows, groups: Column = None, *, offset: Column = None) -> NDArray[Any]:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        ndarray of shape (n,)
        """
        model, table = self._prediction_table(X, offset=offset, groups=groups)
        (labels,) = model.predict(table, ["label"], threads=self.n_threads)
        place = np.empty(len(self.classes_), dtype=np.int64)
        place[self._places] = np.arange(len(self.classes_))
        return self.classes_[place[labels[:, 0].astype(np.int64)]]

    def predict_proba(self, X: Rows, groups: Column = None, *, offset: Column = None) -> Array:
        """Predict the probability of every class.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        ndarray of shape (n, number of classes)
            In the order of ``classes_``.
        """
        model, table = self._prediction_table(X, offset=offset, groups=groups)
        return model.predict(table, ["probabilities"], threads=self.n_threads)[0][:, self._places]

    def predict_log_proba(self, X: Rows, groups: Column = None, *, offset: Column = None) -> Array:
        """Predict the logarithm of the probability of every class.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        ndarray of shape (n, number of classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, groups, offset=offset))

    def decision_function(self, X: Rows, groups: Column = None, *, offset: Column = None) -> Array:
        """The log odds of the second of two classes, or the log probability of each of several classes.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        groups : array-like of shape (n,), optional
            The level of each row, for models whose levels were given to :meth:`fit` as an array.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        ndarray of shape (n,) or (n, number of classes)
        """
        logs = self.predict_log_proba(X, groups, offset=offset)
        return logs if logs.shape[1] > 2 else logs[:, 1] - logs[:, 0]

    def sample_y(
        self, X: Rows, n_samples: int = 1, random_state: Seed = 0, joint: bool = True, *, offset: Column = None
    ) -> NDArray[Any]:
        """Draw classes: first the latent functions jointly at all rows, then a class at every row.

        Parameters
        ----------
        X : array-like or table of shape (n, d)
            The inputs.
        n_samples : int, default=1
            The number of draws.
        random_state : int, RandomState or None, default=0
            The random seed.
        joint : bool, default=True
            Draw the functions jointly at all rows. If False, they are drawn independently at every row, which is faster. Joint draws of
            linear models and of kernels without random features (see :meth:`sample_f`) take at most 2000 rows.
        offset : array-like of shape (n,) or (n, functions), optional
            Offsets, for models that were fitted with an array of them.

        Returns
        -------
        ndarray of shape (n, n_samples)
        """
        model, table = self._prediction_table(X, offset=offset)
        draw = partial(_sparsegp.draws_together, model) if joint else model.draws
        draws = draw(table, int(n_samples), seed_of(random_state), threads=self.n_threads).astype(np.int64)
        place = np.empty(len(self.classes_), dtype=np.int64)
        place[self._places] = np.arange(len(self.classes_))
        return self.classes_[place[draws]]


def _classes_of(levels) -> np.ndarray:
    """Returns the classes of a saved model: numbers if all are numbers, otherwise strings."""
    if set(levels) <= {"true", "false", "True", "False"}:
        return np.array([False, True])
    try:
        values = np.array([float(level) for level in levels])
    except ValueError:
        return np.array(sorted(levels))
    return np.sort(values.astype(np.int64) if np.all(values == np.round(values)) else values)
