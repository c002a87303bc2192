"""Every operation on an estimator that was pickled, deep-copied, or saved and loaded has the same result as on the fitted
estimator."""

import copy
import pickle

import numpy as np
import pytest

from sparsegp import (
    BayesianLinearClassifier,
    BayesianLinearRegressor,
    SparseGPClassifier,
    SparseGPCountRegressor,
    SparseGPMultiOutputRegressor,
    SparseGPRegressor,
)

QUICK = {"auto": "none", "epochs": 3, "random_state": 0}
GP = {**QUICK, "n_inducing": 8}


def problem():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (130, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    noisy = f + 0.2 * rng.normal(size=130)
    return X, {
        "real": noisy,
        "classes": np.array(["red", "green", "blue"])[np.digitize(noisy, [-0.5, 0.5])],
        "binary": noisy > 0,
        "count": rng.poisson(np.exp(f)),
        "both": np.column_stack([noisy, f**2 + 0.1 * rng.normal(size=130)]),
    }


CASES = {
    "gaussian": (SparseGPRegressor(**GP), "real"),
    "neighbours": (SparseGPRegressor(neighbours=6, **GP), "real"),
    "warps": (SparseGPRegressor(warp_inputs="normal-scores", **GP), "real"),
    "student-t": (SparseGPRegressor(likelihood="student-t", **GP), "real"),
    "varying noise": (SparseGPRegressor(likelihood="gaussian-heteroskedastic", **GP), "real"),
    "binary": (SparseGPClassifier(**GP), "binary"),
    "classes": (SparseGPClassifier(**GP), "classes"),
    "binary, neighbours": (SparseGPClassifier(neighbours=6, **GP), "binary"),
    "counts": (SparseGPCountRegressor(**GP), "count"),
    "hurdle": (SparseGPCountRegressor(likelihood="hurdle-poisson", **GP), "count"),
    "linear": (BayesianLinearRegressor(**QUICK), "real"),
    "linear classes": (BayesianLinearClassifier(**QUICK), "classes"),
    "outputs": (SparseGPMultiOutputRegressor(SparseGPRegressor(**GP), outputs="own"), "both"),
    "shared outputs": (SparseGPMultiOutputRegressor(SparseGPRegressor(**GP), outputs="shared"), "both"),
    "mixed outputs": (SparseGPMultiOutputRegressor(SparseGPRegressor(**GP), outputs="mixed:2"), "both"),
}

OPERATIONS = {
    "predict": lambda model, X, y: model.predict(X),
    "predict_proba": lambda model, X, y: model.predict_proba(X),
    "standard deviations": lambda model, X, y: np.column_stack(model.predict(X, return_std=True)),
    "quantiles": lambda model, X, y: model.predict(X, quantiles=[0.1, 0.9]),
    "draws": lambda model, X, y: model.sample_y(X, 3, random_state=2),
    "functions": lambda model, X, y: model.sample_f(2, random_state=2)(X),
    "latent": lambda model, X, y: np.column_stack(model.predict_f(X)),
    "score": lambda model, X, y: model.score(X, y),
    "log_density": lambda model, X, y: model.log_density(X, y),
    "crps": lambda model, X, y: model.crps(X, y),
    "inspect": lambda model, X, y: list(model.hyperparameters_.items()),
    "pickle": lambda model, X, y: pickle.loads(pickle.dumps(model)).predict(X),
}


def said(model, X, y):
    """Returns the result of every operation, or its error."""
    answers = {}
    for name, operation in OPERATIONS.items():
        try:
            answers[name] = operation(model, X, y)
        except (AttributeError, TypeError, ValueError) as refusal:
            assert "\n" not in str(refusal), refusal
            answers[name] = str(refusal)
    return answers


def states(model, tmp_path):
    yield "pickled", pickle.loads(pickle.dumps(model))
    yield "deep-copied", copy.deepcopy(model)
    if hasattr(model, "save"):
        model.save(tmp_path / "model")
        yield "loaded", type(model).load(tmp_path / "model")


def learned(model, X, y, forget):
    """Returns the estimator after an update with the rows, or the error."""
    try:
        return copy.deepcopy(model).partial_fit(X, y, forget=forget)
    except ValueError as refusal:
        assert "\n" not in str(refusal), refusal
        return str(refusal)


@pytest.mark.parametrize("name", CASES)
def test_every_operation_has_the_same_result_in_every_state(name, tmp_path):
    estimator, target = CASES[name]
    X, targets = problem()
    y = targets[target]
    fitted = copy.deepcopy(estimator).fit(X[:70], y[:70])
    wanted = said(fitted, X[110:], y[110:])
    assert sum(not isinstance(answer, str) for answer in wanted.values()) >= 5, wanted
    # The fitted estimator is updated last, and afterwards has the same results as the others.
    kept = list(states(fitted, tmp_path))
    for state, model in kept:
        found = said(model, X[110:], y[110:])
        for operation, answer in wanted.items():
            np.testing.assert_equal(found[operation], answer, err_msg=f"{state}, {operation}")
    after = []
    for _, model in [*kept, ("fitted", fitted)]:
        once = learned(model, X[70:100], y[70:100], 0.0)
        after.append(once if isinstance(once, str) else learned(once, X[100:110], y[100:110], 0.2))
    if isinstance(after[-1], str):
        assert all(refusal == after[-1] for refusal in after), after
        return
    told = [np.asarray(model.predict_proba(X) if "classes" in target else model.predict(X)) for model in after]
    before = np.asarray(fitted.predict_proba(X) if "classes" in target else fitted.predict(X))
    for answer in told:
        if answer.dtype.kind == "f":
            assert np.allclose(answer, told[-1], rtol=1e-10, atol=1e-10)
            # A destroyed model would predict the same number everywhere.
            assert np.corrcoef(answer.ravel(), before.ravel())[0, 1] > 0.5
        else:
            assert np.array_equal(answer, told[-1])


def test_updates_in_parts_equal_one_update_in_any_state(tmp_path):
    X, targets = problem()
    y = targets["real"]
    model = SparseGPRegressor(**GP).fit(X[:60], y[:60])
    at_once = copy.deepcopy(model).partial_fit(X[60:], y[60:]).predict(X)
    for part in (slice(60, 75), slice(75, 130)):
        model = pickle.loads(pickle.dumps(model)).partial_fit(X[part], y[part])
        model.save(tmp_path / "model")
        model = SparseGPRegressor.load(tmp_path / "model")
    assert np.allclose(model.predict(X), at_once, rtol=1e-9, atol=1e-9)
