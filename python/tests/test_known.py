"""Targets with known standard errors, and censored targets, by the estimators."""

import numpy as np
import pytest

from sparsegp import SparseGPRegressor, SparseGPSurvivalRegressor

RNG = np.random.default_rng(7)
X = RNG.uniform(-2, 2, (300, 1))
ERRORS = np.where(np.arange(300) % 3 == 0, 3.0, 0.1)
Y = 10 + np.sin(2 * X[:, 0]) + ERRORS * RNG.normal(size=300)
PARAMETERS = {"kernel": "rbf", "n_inducing": 15, "auto": "none"}
NEW = np.linspace(-1.8, 1.8, 20)[:, None]


def test_known_errors_weigh_the_rows(tmp_path):
    model = SparseGPRegressor(**PARAMETERS).fit(X, Y, noise_std=ERRORS)
    assert model.document_["config"]["likelihood"] == "gaussian-known-noise"
    truth = 10 + np.sin(2 * NEW[:, 0])
    plain = SparseGPRegressor(**PARAMETERS).fit(X, Y)
    error = np.sqrt(np.mean((model.predict(NEW) - truth) ** 2))
    assert error < 0.1 and error < 0.5 * np.sqrt(np.mean((plain.predict(NEW) - truth) ** 2))
    _, std = model.predict(NEW, return_std=True)
    _, wider = model.predict(NEW, return_std=True, noise_std=np.full(20, 2.0))
    np.testing.assert_allclose(wider**2 - std**2, 4.0, rtol=1e-6)
    model.save(tmp_path / "model")
    again = SparseGPRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    heavy = SparseGPRegressor(likelihood="student-t", **PARAMETERS).fit(X, Y, noise_std=ERRORS)
    assert heavy.document_["config"]["likelihood"] == "student-t-known-noise"
    with pytest.raises(ValueError, match="noise_std is given, but the model was fitted without noise_std"):
        plain.predict(NEW, noise_std=np.ones(20))
    with pytest.raises(ValueError, match="a standard error of 0 or more"):
        SparseGPRegressor(**PARAMETERS).fit(X, Y, noise_std=-ERRORS)


@pytest.mark.parametrize("words", [False, True])
def test_censored_times_are_not_taken_for_times(words):
    times = np.exp(1 + 0.5 * X[:, 0] + 0.4 * np.log(RNG.exponential(size=300)))
    censored = times > 3
    given = np.where(censored, "right", "none") if words else censored
    model = SparseGPRegressor(**PARAMETERS).fit(X, np.minimum(times, 3), censored=given)
    assert model.document_["config"]["likelihood"] == "weibull"
    # The mean of a Weibull time is e^f Γ(1.4).
    truth = np.exp(1 + 0.5 * NEW[:, 0]) * 0.887
    np.testing.assert_allclose(model.predict(NEW), truth, rtol=0.35)
    number = SparseGPRegressor(likelihood="gaussian", **PARAMETERS).fit(X, np.minimum(Y, 10.5), censored=Y > 10.5)
    assert number.document_["config"]["likelihood"] == "gaussian-censored"


def survival_data(n=300):
    times = np.exp(1 + 0.5 * X[:n, 0] + 0.4 * np.log(RNG.exponential(size=n)))
    end = RNG.uniform(1, 6, n)
    return np.array(list(zip(times <= end, np.minimum(times, end))), dtype=[("event", bool), ("time", float)])


def test_survival_in_the_manner_of_scikit_survival(tmp_path):
    pandas = pytest.importorskip("pandas")
    y = survival_data()
    model = SparseGPSurvivalRegressor(**PARAMETERS).fit(X, y)
    assert model.document_["config"]["likelihood"] == "weibull"
    survival = model.predict_survival_function(NEW, [1.0, 2.0, 4.0])
    # Weibull times of scale e^{1 + x/2} and shape 2.5.
    truth = np.exp(-((np.array([1.0, 2.0, 4.0]) / np.exp(1 + 0.5 * NEW)) ** 2.5))
    np.testing.assert_allclose(survival, truth, atol=0.15)
    np.testing.assert_allclose(model.predict_cumulative_hazard_function(NEW, [2.0]), -np.log(survival[:, 1:2]))
    step = model.predict_survival_function(NEW, [2.0, 2.001])
    np.testing.assert_allclose(model.predict_hazard(NEW, [2.0])[:, 0], -np.diff(np.log(step))[:, 0] / 0.001, rtol=1e-2)
    assert model.predict_survival_function(NEW).shape == (20, len(np.unique(y["time"][y["event"]])))
    scores = model.scores(X, y)
    assert set(scores) == {"nll", "concordance", "integrated_brier", "survival_gap"}
    # By counting pairs.
    mean, pairs, right = model.predict(X), 0, 0.0
    for i in np.flatnonzero(y["event"]):
        later = y["time"] > y["time"][i]
        pairs += later.sum()
        right += (mean[later] > mean[i]).sum() + 0.5 * (mean[later] == mean[i]).sum()
    assert model.score(X, y) == pytest.approx(right / pairs, abs=1e-12)
    frame = pandas.DataFrame({"time": y["time"], "event": y["event"]})
    np.testing.assert_array_equal(SparseGPSurvivalRegressor(**PARAMETERS).fit(X, frame).predict(NEW), model.predict(NEW))
    model.save(tmp_path / "model")
    again = SparseGPSurvivalRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_survival_function(NEW, [1.0, 2.0, 4.0]), survival)
    with pytest.raises(ValueError, match="times is not given"):
        again.predict_survival_function(NEW)
    with pytest.raises(ValueError, match="expected two fields"):
        SparseGPSurvivalRegressor(**PARAMETERS).fit(X, y["time"])
