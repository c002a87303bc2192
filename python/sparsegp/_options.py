"""Translates parameters of estimators into options of the engine: names and types; the engine interprets them."""

from __future__ import annotations

import json
import numbers

import numpy as np
from sklearn.utils import check_random_state

from . import _sparsegp
from ._custom import engine_custom
from .kernels import Kernel
from .likelihoods import CustomLikelihood

#: Parameters whose option in the engine has another name, by the conventions of scikit-learn.
RENAMED = {"n_inducing": "inducing", "random_state": "seed"}
PARAMETER_OF = {option: parameter for parameter, option in RENAMED.items()}

_KINDS = {"bool": (bool, np.bool_), "number": (numbers.Real,), "whole": (numbers.Integral,), "text": (str,), "list": (list, tuple)}
_COLUMNS = _KINDS["text"] + _KINDS["list"]

#: Parameters that are not options of the engine, with their types; empty for any type.
OWN = {
    "options": (dict,),
    "keep": _COLUMNS,
    "exclude": _COLUMNS,
    "categorical": _COLUMNS,
    "ordered": (dict,),
    "places": _KINDS["list"],
    "plane": _KINDS["list"],
    "unseen": _KINDS["text"],
    "class_weight": (),
    "cv": (),
    "conformal": _KINDS["bool"],
    "callbacks": _KINDS["list"],
    "verbose": _KINDS["bool"] + _KINDS["whole"],
    "n_threads": _KINDS["whole"],
    "random_state": (),
}

#: Additional types of parameters, which the options of the engine do not have.
MORE = {"kernel": (Kernel,), "likelihood": (CustomLikelihood,), "beta": _COLUMNS}

#: The types of parameters. None is allowed too if it is the default.
TYPES = OWN | {
    PARAMETER_OF.get(name, name): sum((_KINDS[kind] for kind in kinds), MORE.get(name, ()))
    for name, kinds in _sparsegp.option_types().items()
    if name != "seed"
}


def check_types(params: dict) -> None:
    """Refuse parameters of a wrong type."""
    for name, value in params.items():
        types = TYPES.get(name)
        if value is None or not types:
            continue
        is_bool = isinstance(value, (bool, np.bool_))
        if not isinstance(value, types) or (is_bool and bool not in types):
            expected = " or ".join(sorted({_type_word(kind) for kind in types}))
            raise TypeError(f"{name} is {value!r}, expected {expected}")
    threads = params.get("n_threads")
    if threads is not None and threads < 1:
        raise ValueError(f"n_threads is {threads}, expected at least 1")
    if threads is not None and threads > 2**31:
        raise ValueError(f"n_threads is {threads}, expected at most as many as the machine can start")
    for callback in params.get("callbacks") or ():
        if not callable(callback):
            raise TypeError(f"callbacks holds {callback!r}, expected functions")


def _type_word(kind: type) -> str:
    words = {numbers.Real: "a number", numbers.Integral: "a whole number", str: "a string", list: "a list"}
    words |= {tuple: "a list", dict: "a dict", Kernel: "a kernel", bool: "True or False", np.bool_: "True or False"}
    words[CustomLikelihood] = "a likelihood"
    return words[kind]


def seed_of(random_state) -> int:
    """Returns the random seed of the engine: 0 if ``random_state`` is None, so that the same call gives the same model."""
    if random_state is None:
        return 0
    if isinstance(random_state, numbers.Integral):
        if random_state < 0:
            raise ValueError(f"random_state is {random_state}, expected a number of 0 or more")
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def engine_options(params: dict, **given) -> tuple[str, str | None]:
    """Returns the options as JSON text, and the grid of beta or None. A parameter that is None counts as unset. A
    kernel's constraints join ``start``, ``fix``, ``bounds``, ``prior`` and ``tie``, whether these are parameters or
    ``options``."""
    check_types(params)
    options = {RENAMED.get(name, name): value for name, value in params.items() if name not in OWN}
    more = dict(params.get("options") or {})
    said = params["kernel"]._options() if isinstance(params.get("kernel"), Kernel) else {}
    for name in ("start", "fix", "bounds", "prior", "tie"):
        own = options.get(name) if name in params else more.pop(name, None)
        own = [own] if isinstance(own, str) else list(own or [])
        options[name] = _united(name, said.get(name, []), own) or None
    own = {RENAMED.get(name, name): name for name in params} | {name: name for name in given}
    for name in more:
        if name in own:
            raise ValueError(f"options names {name!r}, which is the parameter {own[name]}")
    options |= more | {name: value for name, value in given.items() if value is not None}
    options["seed"] = seed_of(params.get("random_state"))
    beta, betas = options.get("beta"), None
    if isinstance(beta, (str, list, tuple)):
        options["beta"] = None
        betas = beta if isinstance(beta, str) else ",".join(str(float(value)) for value in beta)
    return json.dumps(options, default=_plain), betas


def custom_parts(params: dict) -> dict:
    """Returns the kernels and the likelihood among the parameters that are written in Python."""
    kernel, likelihood = params.get("kernel"), params.get("likelihood")
    kernels = list(kernel._custom.values()) if isinstance(kernel, Kernel) else []
    return {"kernels": kernels, "likelihoods": [likelihood] if isinstance(likelihood, CustomLikelihood) else []}


def custom_of(params: dict):
    """Returns the engine's handle of the custom kernels and likelihoods; None if all are built in."""
    return engine_custom(**custom_parts(params))


def _united(name: str, kernels: list, own: list) -> list:
    """Returns the constraints of the kernel, then the constraints of the estimator. A name must not occur in both."""
    about = {str(text).partition("=")[0].strip() for text in own}
    twice = [text for text in kernels if text.partition("=")[0] in about]
    if twice:
        raise ValueError(f"{name} names {twice[0].partition('=')[0]!r}, for which the kernel has {twice[0]!r}: expected only one of them")
    return [*kernels, *own]


def _plain(value):
    """Converts numbers of NumPy to numbers of Python, and kernels and likelihoods to texts."""
    if isinstance(value, Kernel):
        return value.text
    if isinstance(value, CustomLikelihood):
        return value.name
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"an option is {value!r}, expected a string, a number, True or False, or a list of them")
