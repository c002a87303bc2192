"""Wrong parameters and wrong data raise the right exception, with one line and the names of Python."""

import random

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import sparsegp

X = np.linspace(0, 1, 30)[:, None]
Y = np.sin(6 * X[:, 0])


@pytest.mark.parametrize(
    ("params", "kind", "words"),
    [
        ({"kernel": "rbg"}, ValueError, "rbg"),
        ({"kernel": 3}, TypeError, "kernel is 3"),
        ({"n_inducing": -1}, ValueError, "n_inducing"),
        ({"n_inducing": 0}, ValueError, "n_inducing"),
        ({"n_inducing": 2.5}, TypeError, "n_inducing"),
        ({"epochs": True}, TypeError, "epochs"),
        ({"beta": -1.0}, ValueError, "beta"),
        ({"beta": [1.0, -2.0]}, ValueError, "beta"),
        ({"objective": "elbow"}, ValueError, "elbow"),
        ({"likelihood": "poisson "}, ValueError, "likelihood"),
        ({"objective": "vfe", "batch_size": 10}, ValueError, "batch_size"),
        ({"fix": ["nothing.there=1"]}, ValueError, "nothing.there"),
        ({"random_state": -1}, ValueError, "random_state"),
        ({"n_threads": 0}, ValueError, "n_threads"),
        ({"callbacks": ["print"]}, TypeError, "callbacks"),
        ({"options": {"kernal": "rbf"}}, ValueError, "kernal"),
        ({"options": {"kernel": "rbf"}}, ValueError, "kernel"),
        ({"options": {"q_step": object()}}, TypeError, "option"),
        ({"options": {"jitter": -1.0}}, ValueError, "jitter"),
        ({"validation_fraction": 1.5}, ValueError, "validation_fraction"),
    ],
)
def test_wrong_parameters(params, kind, words):
    with pytest.raises(kind) as error:
        sparsegp.SparseGPRegressor(**params).fit(X, Y)
    text = str(error.value)
    assert words in text and "\n" not in text and "--" not in text and "⟨" not in text


def test_random_parameters_never_bring_about_anything_else():
    choose = random.Random(0)
    values = [-1, 0, 2.5, "x", "", "auto", None, [], {}, float("nan"), float("inf"), 10**30, b"x", object(), True, (1, 2)]
    names = [name for name in sparsegp.SparseGPRegressor().get_params() if name not in ("verbose", "callbacks")]
    refused = 0
    for _ in range(200):
        params = {name: choose.choice(values) for name in choose.sample(names, 2)}
        model = sparsegp.SparseGPRegressor(**{"auto": "none", "n_inducing": 5, "epochs": 3, **params})
        try:
            model.fit(X, Y)
        except (ValueError, TypeError) as error:
            refused += 1
            assert "\n" not in str(error), params
    assert refused > 100


@pytest.mark.parametrize(
    ("inputs", "target", "words"),
    [
        (np.where(X > 0.5, np.inf, X), Y, "infinity"),
        (X, np.where(Y > 0.5, np.nan, Y), "NaN"),
        (X[:1], Y[:1], "minimum of 2"),
        (X[:5], Y, "inconsistent"),
        (X, np.ones(30), "1"),
        (X.ravel(), Y, "2D"),
        (X + 1j, Y, "Complex"),
    ],
)
def test_wrong_data(inputs, target, words):
    with pytest.raises(ValueError, match=words):
        sparsegp.SparseGPRegressor(auto="none").fit(inputs, target)


def test_wrong_targets_of_other_kinds():
    with pytest.raises(ValueError, match="count"):
        sparsegp.SparseGPCountRegressor(auto="none").fit(X, Y)
    with pytest.raises(ValueError, match="class"):
        sparsegp.SparseGPClassifier(auto="none").fit(X, np.ones(30))
    with pytest.raises(ValueError, match="above 0"):
        sparsegp.SparseGPRegressor(likelihood="gamma", auto="none").fit(X, Y)


def test_unfitted():
    model = sparsegp.SparseGPRegressor()
    for use in (lambda: model.predict(X), lambda: model.kernel_, lambda: model.save("x"), lambda: model.predict_f(X)):
        with pytest.raises(NotFittedError):
            use()


def test_an_unknown_class_is_named():
    model = sparsegp.SparseGPClassifier("rbf", auto="none", n_inducing=5).fit(X, Y > 0)
    with pytest.raises(ValueError, match="unseen"):
        model.log_density(X, np.full(30, 7))


def test_errors_are_of_this_package():
    assert issubclass(sparsegp.FitError, RuntimeError)


def test_data_that_do_not_fit_into_memory():
    model = sparsegp.SparseGPRegressor("rbf", auto="none", n_inducing=5, epochs=3).fit(X, Y)
    endless = np.broadcast_to(X[0], (10**13, 1))
    for use in (
        lambda: model.predict(endless),
        lambda: model.predict_f(endless),
        lambda: sparsegp.SparseGPRegressor(auto="none").fit(endless, Y),
        lambda: model.sample_y(X, 10**13),
        lambda: model.sample_y(X, 2**62),
    ):
        with pytest.raises(MemoryError, match="not enough memory"):
            use()


@pytest.mark.parametrize(
    "state",
    [
        None,
        3,
        b"rubbish",
        [],
        {},
        {"a": 1},
        {"kernel": "rbf", "_model": 3},
        {"kernel": "rbf", "_model": b""},
        {"kernel": "rbf", "_model": b"rubbish"},
        {"kernel": "rbf", "_model": b"", "_own": None},
        {"kernel": "rbf", "_own": {"kernels": []}},
    ],
)
def test_invalid_states(state):
    model = sparsegp.SparseGPRegressor("rbf", auto="none", n_inducing=5, epochs=3).fit(X, Y)
    want = model.predict(X)
    with pytest.raises(ValueError) as error:
        model.__setstate__(state)
    assert "\n" not in str(error.value)
    assert np.array_equal(model.predict(X), want)
    again = sparsegp.SparseGPRegressor()
    again.__setstate__(model.__getstate__())
    assert np.array_equal(again.predict(X), want)
