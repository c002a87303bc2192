"""Estimators as pickles and model files."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from . import _sparsegp, _tables
from ._custom import engine_custom
from ._shown import Shown
from .kernels import CustomKernel
from .likelihoods import CustomLikelihood


class Stored(Shown):
    """The part of an estimator that saves and loads it."""

    if TYPE_CHECKING:
        mean: Any
        _columns: dict[str, Any]
        _kinds: tuple
        _linear: bool

        def _take_model(self, model: Any, kernels: Any = (), likelihoods: Any = ()) -> None: ...

    def __getstate__(self):
        state = dict(super().__getstate__())
        if "_model" in state:
            state["_model"] = state["_model"].to_bytes()
        return state

    def __setstate__(self, state):
        name, defaults = type(self).__name__, type(self)().get_params(deep=False)
        if not isinstance(state, dict) or not defaults.keys() & state.keys():
            raise ValueError(f"the state of a {name} is {_brief(state)}, expected a dict of its parameters, as pickle makes it")
        # A state of an older version may lack parameters that are new.
        state = {**defaults, **state}
        model, own = state.pop("_model", None), state.pop("_own", {"kernels": [], "likelihoods": []})
        if model is not None and not isinstance(model, bytes):
            raise ValueError(f"the model in the state of a {name} is {_brief(model)}, expected bytes, as pickle makes them")
        if not isinstance(own, dict) or not {"kernels", "likelihoods"} == own.keys():
            raise ValueError(f"the custom parts in the state of a {name} are {_brief(own)}, expected a dict of kernels and likelihoods")
        super().__setstate__(state)
        if model is not None:
            self._take_model(_sparsegp.Model.from_bytes(model, engine_custom(**own)), **own)

    def save(self, path: str | PathLike[str]) -> None:
        """Save the model in a file that the command line and :meth:`load` read.

        Parameters
        ----------
        path : str or path-like
            The file. A failed call leaves no partial file.
        """
        model = self._fitted()
        if "_mean" in self.__dict__:
            raise ValueError(f"mean is {self.mean!r}, which a model file cannot hold: use pickle, or mean='trees'")
        model.save(path)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        kernels: Sequence[CustomKernel] = (),
        likelihoods: Sequence[CustomLikelihood] = (),
    ) -> Self:
        """Read a model that :meth:`save` or the command line wrote.

        Parameters
        ----------
        path : str or path-like
            The file.
        kernels : sequence of CustomKernel, optional
            The kernels written in Python that the model uses.
        likelihoods : sequence of CustomLikelihood, optional
            The likelihood written in Python that the model uses.

        Returns
        -------
        estimator
            A fitted estimator, whose predictions equal those of the saved model bit for bit. Its parameters have their
            default values; ``document_`` contains the options of the fit.
        """
        with open(path, "rb"):
            # Raises the error of Python for a file that is absent or cannot be read.
            pass
        model = _sparsegp.Model.load(path, engine_custom(kernels, likelihoods))
        kind, linear = model.columns()["kind"], model.kernel() is None
        if kind not in cls._kinds or linear != cls._linear:
            found = f"a {'linear model' if linear else 'sparse Gaussian process'} of a {kind} target"
            raise ValueError(f"{path}: holds {found}, which {cls.__name__} cannot load")
        return cls()._with_model(model, kernels, likelihoods)

    def _with_model(self, model, kernels=(), likelihoods=()):
        self._take_model(model, kernels=kernels, likelihoods=likelihoods)
        names, self._group_column = _tables.needed_names(self._columns["features"], self._columns["group_columns"])
        if names != _tables.default_names(len(self._columns["features"])):
            # A table may have columns of offsets; an array of offsets is apart.
            names = [*names, *(name for name in dict.fromkeys(self._columns["offset"]) if name not in names)]
        self.n_features_in_ = len(names)
        if sorted(names) != sorted(_tables.default_names(len(names))):
            self._loaded, self.feature_names_in_ = True, np.array(names, dtype=object)
        return self


def _brief(value) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"
