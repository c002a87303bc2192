"""Targets with known standard errors, and censored targets, by the estimators."""

import numpy as np
import pytest

from sparsegp import SparseGPRegressor

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
