"""Estimators on Dask collections: parameters, fitting, lazy predictions, scores; rounds and partitions are in other files."""

from __future__ import annotations

import copy
import functools
import inspect

import dask
import dask.array as da
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone

from .. import _exposures, _means, _sparsegp, _tables
from .._attributes import fitted_part
from .._documentation import filled
from .._options import engine_options
from .._processes import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor, _Parameters
from .._regression import _probabilities
from . import _tasks
from ._partitions import Partitions, is_frame
from ._rounds import Cluster, Questions

_MORE = """client : distributed.Client, optional
        The client that runs the work; the default client when not given.
    persist : bool, default=True
        Keep the rows of the partitions, scaled and coded, on the workers from one round to the next. Without it every round reads
        and prepares them again, so a worker needs memory for only one partition.
    checkpoint : str or path-like, optional
        A file on the client that holds the state of the training. A fit that finds it continues from there, with the same
        bits. The file is removed at the end of the fit.
    checkpoint_every : float, default=60.0
        Seconds between two writes of the checkpoint."""

_PARAMETERS = f"""{_MORE}
    kernel, likelihood, objective, beta, n_inducing, ... : optional
        All parameters of :class:`sparsegp.{{local}}`, with the same meaning. ``batch_size`` is 32,768 by default. Parameters
        that need all rows in one place are refused: ``neighbours``, ``restarts``, ``n_inducing="auto"`` and a grid for ``beta``. The
        choices of ``auto`` are made on the client, on a sample of the rows."""

_ATTRIBUTES = """Attributes
    ----------
    local_ : {local}
        The fitted estimator without Dask. This estimator has the same attributes: ``kernel_``, ``hyperparameters_``, ``history_``, ..."""


def _with_more(**more):
    """Gives a class one signature with additional parameters first, and then the parameters of all sparse processes."""

    def decorate(cls):
        base = inspect.signature(_Parameters.__init__)
        own = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in more.items()]
        # Conformal fits hold out parts of the rows in memory.
        given = [parameter for name, parameter in base.parameters.items() if name != "conformal"]
        signature = base.replace(parameters=[*given[:2], *own, *given[2:]])

        @functools.wraps(_Parameters.__init__)
        def __init__(self, *args, **kwargs):
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            for name, value in list(bound.arguments.items())[1:]:
                setattr(self, name, value)

        __init__.__signature__ = signature
        cls.__init__ = __init__
        cls._more = tuple(more)
        if cls.__doc__:
            words = {"{parameters}": _PARAMETERS, "{attributes}": _ATTRIBUTES}
            texts = {word: text.replace("{local}", cls._of.__name__) for word, text in words.items()}
            cls.__doc__ = filled(cls.__doc__, texts)
        return cls

    return decorate


_OWN = {"client": None, "persist": True, "checkpoint": None, "checkpoint_every": 60.0}


class _DaskEstimator(BaseEstimator):
    """The base of all Dask estimators. ``_of`` is the estimator of arrays in memory that holds the fitted model."""

    _of: type

    def _local_params(self) -> dict:
        return {name: value for name, value in self.get_params(deep=False).items() if name not in self._more}

    def _fit(self, X, y, sample_weight=None, exposure=None, target=None, groups=None):
        self.__dict__.pop("local_", None)
        role, exposure = _exposures.unwrapped(exposure)
        local = self._of(**self._local_params())
        if _means.is_own(getattr(local, "mean", None)):
            raise ValueError(f"mean is {local.mean!r}, which needs all rows in one place: expected 'constant' or 'zero'")
        options, betas = engine_options(local._engine_params(), **local._given_options())
        _refuse(self, betas)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        cluster = Cluster(self.client)
        partitions = Partitions(X, y, exposure, sample_weight, cluster.results)
        if not _tables.is_formula(groups):
            raise TypeError(f"groups is of type {type(groups).__name__}, expected a formula with columns of X, such as 'school'")
        exposed = None if exposure is None else role
        job = self._job(partitions, (y, target), exposed, sample_weight, groups, options, cluster)
        model = local._heard(
            lambda hearing: _sparsegp.fit_parts(
                len(partitions),
                job.columns,
                options,
                Questions(cluster, partitions, job, bool(self.persist)),
                batch_size_given=self.batch_size is not None,
                listener=hearing["listener"],
                checkpoint=self.checkpoint,
                every=float(self.checkpoint_every),
                threads=hearing["threads"],
            )
        )
        if job.classes is not None:
            local.classes_ = job.classes
        self.local_ = local._with_model(model)
        self.local_.n_features_in_ = len(job.names)
        if partitions.frame:
            self.local_.feature_names_in_ = np.array(job.names, dtype=object)
        return self

    def _job(self, partitions, target, exposed, sample_weight, groups, options, cluster) -> _tasks.Job:
        names, classes = partitions.names, self._classes(partitions, cluster)
        y, name = target
        if name is None and is_frame(y):
            name = getattr(y, "name", None)
        taken = set(names)
        target = _tables.free_name(name if isinstance(name, str) and name else "y", taken)
        taken.add(target)
        meta = partitions.meta if partitions.frame else np.empty((0, len(names)))
        columns = {
            "target": target,
            "exposure": _tables.free_name("exposure", taken) if exposed == "exposure" else None,
            "trials": _tables.free_name("trials", taken) if exposed == "trials" else None,
            "weights": None if sample_weight is None else _tables.free_name("weight", taken),
            "keep": _tables.names_of(self.keep) if partitions.frame else names,
            "exclude": _tables.names_of(self.exclude),
            **_tables.category_columns(meta, self.categorical, self.ordered),
            **_tables.place_columns(self),
            "groups": _tables.names_of(groups),
            "positive_label": None if classes is None or len(classes) != 2 else _tables._label(classes[1]),
        }
        return _tasks.Job(columns, options, names, partitions.kinds, classes)

    def _classes(self, partitions, cluster):
        """The classes of the target, for a classifier."""
        return None

    def _fitted(self):
        return fitted_part(self, "local_")

    def __sklearn_is_fitted__(self) -> bool:
        return "local_" in self.__dict__

    def __getattr__(self, name: str):
        # The attributes that a fit sets belong to the local estimator.
        if name.endswith("_") and not name.startswith("_") and "local_" in self.__dict__:
            return getattr(self.__dict__["local_"], name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_clone__(self):
        # A client cannot be copied, so it is shared.
        given = self.get_params(deep=False).items()
        return type(self)(**{name: value if name == "client" else clone(value, safe=False) for name, value in given})

    def __getstate__(self):
        # A client belongs to its process.
        return {**super().__getstate__(), "client": None}

    def to_local(self):
        """The fitted estimator without Dask, for arrays in memory and for :meth:`~sparsegp.SparseGPRegressor.save`.

        Returns
        -------
        estimator
            An estimator of the class with the same name without ``Dask``. Its model file is an ordinary model file.
        """
        return copy.copy(self._fitted())

    def save(self, path) -> None:
        """Save the model in a file that the command line and the estimators without Dask read.

        Parameters
        ----------
        path : str or path-like
            The file. A failed call leaves no partial file.
        """
        self._fitted().save(path)

    def _known(self, exposure, trials):
        """Returns the exposures or the numbers of trials that the model was fitted with, or None."""
        role, values = _exposures.unwrapped(_exposures.given(exposure, trials))
        if values is not None and role != _tasks.role(self._fitted()):
            raise ValueError(f"{role} is given, but the model was fitted without {role}")
        return values

    def _lazily(self, X, method, names, *, dtype=np.float64, exposure=None, **wanted):
        """Returns a dask array or dataframe with a column of predictions for each of ``names``, and the partitions of X."""
        local = dask.delayed(self._fitted(), traverse=False)
        if is_frame(X):
            import pandas as pd

            meta = pd.DataFrame({name: pd.Series(dtype=dtype) for name in names}, index=X._meta.index)
            others = [] if exposure is None else [exposure]
            return X.map_partitions(_predict_block, *others, local=local, how=(method, wanted, names, dtype), meta=meta)
        if not isinstance(X, da.Array):
            raise TypeError(f"X is of type {type(X).__name__}, expected a dask array or dataframe; use to_local() for other types")
        X = X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})
        others = [] if exposure is None else [exposure[:, None]]
        chunks = (X.chunks[0], (len(names),))
        how = (method, wanted, names, dtype)
        meta = np.empty((0, 0), dtype=dtype)
        return da.map_blocks(_predict_block, X, *others, local=local, how=how, chunks=chunks, dtype=dtype, meta=meta)

    def _scores(self, X, y, sample_weight, exposure, of_block) -> list:
        cluster = Cluster(self.client)
        partitions = Partitions(X, y, exposure, sample_weight, cluster.results)
        local = dask.delayed(self._fitted(), traverse=False)
        task = dask.delayed(of_block, pure=False, traverse=False)
        return cluster.results([task(local, part, *block) for part, _, block in partitions.with_rows()])


def _predict_block(X, exposure=None, *, local, how):
    return _tasks.predicted(local, *how, X, exposure)


def _refuse(estimator, betas) -> None:
    """Refuses, with their names in Python, parameters that need all rows in one place."""
    if estimator.neighbours not in (None, "none"):
        raise ValueError(f"neighbours={estimator.neighbours!r} needs all rows in one place, expected None on Dask")
    if betas is not None:
        raise ValueError(f"beta={estimator.beta!r} is a grid, which needs all rows in one place, expected a number on Dask")


class _Numbers(RegressorMixin, _DaskEstimator):
    """The base of estimators of numbers."""

    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit the model.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs; columns of text are categories.
        y : dask array or series of shape (n,)
            The targets, in the same partitions.
        sample_weight : dask array or series of shape (n,), optional
            The weights of the rows' losses.
        groups : str, optional
            Grouped effects, as a formula with columns of ``X``, or a list of formulae: ``"school"``, ``"days | subject"``. Standard deviations
            have no intervals.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, groups=groups)

    def predict(self, X, return_std=False, quantiles=None, exposure=None, *, trials=None):
        """Predict the target, lazily.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs.
        return_std : bool, default=False
            Return the standard deviation of the target, noise included.
        quantiles : sequence of float, optional
            Probabilities between 0 and 1; the quantiles of the target at these probabilities are returned.
        exposure : dask array or series of shape (n,), optional
            Exposures, for counts that were fitted with them.
        trials : dask array or series of shape (n,), optional
            Numbers of trials, for models that were fitted with them.

        Returns
        -------
        mean : dask array or series of shape (n,)
            The mean of the target, in the partitions of X. It is returned alone, not in a tuple, unless another
            argument adds a result.
        std : dask array or series of shape (n,)
            With ``return_std``.
        quantiles : dask array or dataframe of shape (n, number of quantiles)
            With ``quantiles``.
        """
        levels = [] if quantiles is None else _probabilities(quantiles)
        names = ["mean", "std"] if return_std else ["mean"]
        exposure = self._known(exposure, trials)
        wanted = {"return_std": bool(return_std), "quantiles": levels or None}
        found = self._lazily(X, "predict", [*names, *map(str, levels)], exposure=exposure, **wanted)
        frame = is_frame(X)
        answer = [found[name] if frame else found[:, column] for column, name in enumerate(names)]
        if levels:
            answer.append(found[[str(level) for level in levels]] if frame else found[:, len(names) :])
        return answer[0] if len(answer) == 1 else tuple(answer)

    def score(self, X, y, sample_weight=None, exposure=None, *, trials=None) -> float:
        """The coefficient of determination R² of the predicted means.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs.
        y : dask array or series of shape (n,)
            The targets.
        sample_weight : dask array or series of shape (n,), optional
            The weights of the rows' losses.
        exposure : dask array or series of shape (n,), optional
            Exposures, for counts that were fitted with them.
        trials : dask array or series of shape (n,), optional
            Numbers of trials, for models that were fitted with them.

        Returns
        -------
        float
        """
        parts = np.array(self._scores(X, y, sample_weight, self._known(exposure, trials), _tasks.squares))
        weight, mean, around_mean, around_prediction = parts.T
        middle = np.average(mean, weights=weight)
        total = np.sum(around_mean + weight * (mean - middle) ** 2)
        return float(1.0 - np.sum(around_prediction) / total)


@_with_more(**_OWN)
class DaskSparseGPRegressor(_Numbers):
    """Sparse Gaussian process regression on dask arrays and dataframes.

    With Gaussian noise, and if no parameter about mini-batches is set, hyper-parameters and inducing inputs are trained
    on the bound of all rows, with two rounds to the partitions for every value and gradient. Otherwise they are trained
    with mini-batches that are drawn from all partitions, with one round per step. The result depends on the partitions
    and on ``random_state``, not on the workers.

    Parameters
    ----------
    {parameters}

    {attributes}

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from sparsegp.dask import DaskSparseGPRegressor
    >>> with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
    ...     X = da.from_array(np.linspace(0, 10, 200)[:, None], chunks=(50, 1))
    ...     y = da.sin(X[:, 0])
    ...     model = DaskSparseGPRegressor("rbf", client=client, n_inducing=20, auto="none").fit(X, y)
    ...     mean, std = model.predict(X, return_std=True)
    ...     chunks, error = mean.chunks, float(abs(mean - y).max().compute())
    >>> chunks, error < 0.1
    (((50, 50, 50, 50),), True)
    >>> type(model.to_local()).__name__
    'SparseGPRegressor'
    """

    _of = SparseGPRegressor


@_with_more(**_OWN)
class DaskSparseGPCountRegressor(_Numbers):
    """Sparse Gaussian process regression of counts, with exposures, on dask arrays and dataframes.

    Parameters
    ----------
    {parameters}

    {attributes}
    """

    _of = SparseGPCountRegressor

    def fit(self, X, y, sample_weight=None, groups=None, *, exposure=None, trials=None):
        """Fit the model.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs; columns of text are categories.
        y : dask array or series of shape (n,)
            The counts, in the same partitions.
        sample_weight : dask array or series of shape (n,), optional
            The weights of the rows' losses.
        groups : str, optional
            Grouped effects, as for :class:`DaskSparseGPRegressor`.
        exposure : dask array or series of shape (n,), optional
            The factor of each row's rate. Predictions need it too.
        trials : dask array or series of shape (n,), optional
            The number of trials of which each count is the number of successes. Predictions need it too.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, _exposures.given(exposure, trials), groups=groups)


@_with_more(**_OWN)
class DaskSparseGPClassifier(ClassifierMixin, _DaskEstimator):
    """Sparse Gaussian process classification, of two or more classes, on dask arrays and dataframes.

    Parameters
    ----------
    {parameters}

    {attributes}
    """

    _of = SparseGPClassifier

    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit the model.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs; columns of text are categories.
        y : dask array or series of shape (n,)
            The classes, two or more, in the same partitions.
        sample_weight : dask array or series of shape (n,), optional
            The weights of the rows' losses.
        groups : str, optional
            Grouped effects, as for :class:`DaskSparseGPRegressor`.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, groups=groups)

    def _classes(self, partitions, cluster):
        labels = dask.delayed(_tasks.labels, pure=False)
        found = cluster.results([labels(part, block.y) for part, _, block in partitions.with_rows()])
        classes = np.unique(np.concatenate(found))
        if len(classes) < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 classes in the data, got 1 class")
        return classes

    def predict(self, X):
        """Predict the most probable class, lazily.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs.

        Returns
        -------
        dask array or series of shape (n,)
        """
        found = self._lazily(X, "predict", ["class"], dtype=self._fitted().classes_.dtype)
        return found["class"] if is_frame(X) else found[:, 0]

    def predict_proba(self, X):
        """Predict the probability of every class, lazily.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs.

        Returns
        -------
        dask array or dataframe of shape (n, number of classes)
            The columns are in the order of ``classes_``; a dataframe has the names of the classes.
        """
        return self._lazily(X, "predict_proba", [_tables._label(label) for label in self._fitted().classes_])

    def score(self, X, y, sample_weight=None) -> float:
        """The share of rows whose class is predicted correctly.

        Parameters
        ----------
        X : dask array or dataframe of shape (n, d)
            The inputs.
        y : dask array or series of shape (n,)
            The classes.
        sample_weight : dask array or series of shape (n,), optional
            The weights of the rows' losses.

        Returns
        -------
        float
        """
        weight, right = np.array(self._scores(X, y, sample_weight, None, _tasks.hits)).sum(axis=0)
        return float(right / weight)
