"""Targets with known standard errors, and censored targets, by the estimators."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone

from sparsegp import SparseGPCountRegressor, SparseGPRegressor, SparseGPSurvivalRegressor

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


def test_known_noise_may_be_the_only_noise():
    only = SparseGPRegressor(likelihood="gaussian-known-noise-only", **PARAMETERS).fit(X, Y, noise_std=ERRORS)
    assert not any("noise" in name for name in only.hyperparameters_)
    mean, std = only.predict(NEW, return_std=True)
    _, wider = only.predict(NEW, return_std=True, noise_std=np.full(20, 2.0))
    np.testing.assert_allclose(wider**2 - std**2, 4.0, rtol=1e-6)
    assert np.sqrt(np.mean((mean - 10 - np.sin(2 * NEW[:, 0])) ** 2)) < 0.1


def test_other_ends_are_caps_and_intervals():
    cap = 10.5
    values = 10 + np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=300)
    capped, ends = np.minimum(values, cap), np.where(values >= cap, np.inf, np.nan)
    model = SparseGPRegressor(likelihood="gaussian", **PARAMETERS)
    by_ends = clone(model).fit(X, capped, other_ends=ends)
    by_words = clone(model).fit(X, capped, censored=values >= cap)
    np.testing.assert_array_equal(by_ends.predict(NEW), by_words.predict(NEW))
    truth = 10 + np.sin(2 * NEW[:, 0])
    assert np.abs(by_ends.predict(NEW) - truth).mean() < 0.15
    # Intervals of width 0.5 that begin or end at the target.
    lower = 0.5 * np.floor(2 * values)
    upwards = np.arange(300) % 2 == 0
    rounded = clone(model).fit(X, np.where(upwards, lower, lower + 0.5), other_ends=np.where(upwards, lower + 0.5, lower))
    assert np.abs(rounded.predict(NEW) - truth).mean() < 0.1
    # Of intervals below the target alone, some without a lower end.
    below = clone(model).fit(X, lower + 0.5, other_ends=np.where(lower < 9.5, -np.inf, lower))
    assert np.abs(below.predict(NEW) - truth).mean() < 0.3
    mean, std = by_ends.predict(NEW, return_std=True)
    y, other = np.full(20, 10.2), np.array([np.inf, -np.inf, np.nan, 10.9] * 5)
    found = by_ends.log_density(NEW, y, other_ends=other)
    interval = np.log(norm.cdf(10.9, mean, std) - norm.cdf(10.2, mean, std))
    want = [norm.logsf(y, mean, std), norm.logcdf(y, mean, std), norm.logpdf(y, mean, std), interval]
    np.testing.assert_allclose(found, np.choose(np.arange(20) % 4, want), rtol=1e-6)
    words = np.array(["right", "left", "none", "none"] * 5)
    found = by_words.log_density(NEW, y, censored=words)
    np.testing.assert_allclose(found[np.arange(20) % 4 != 3], np.choose(np.arange(20) % 4, want)[np.arange(20) % 4 != 3], rtol=1e-6)
    with pytest.raises(ValueError, match="censored and other_ends are both given"):
        clone(model).fit(X, capped, censored=values >= cap, other_ends=ends)
    with pytest.raises(ValueError, match="fitted without it"):
        clone(model).fit(X, values).log_density(NEW, y, other_ends=other)
    with pytest.raises(ValueError, match="other_ends has finite numbers"):
        by_words.log_density(NEW, y, other_ends=other)


def test_censored_rows_update_a_model():
    model = SparseGPRegressor(likelihood="gaussian", **PARAMETERS)
    values = 10 + np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=300)
    capped, cut = np.minimum(values, 10.5), values >= 10.5
    for part in (slice(150), slice(150, 300)):
        model.partial_fit(X[part], capped[part], censored=cut[part])
    taken = clone(model)
    for part in (slice(150), slice(150, 300)):
        taken.partial_fit(X[part], capped[part], censored=cut[part] if part.start is None else np.zeros(150, bool))
    high = np.sin(2 * NEW[:, 0]) > 0.7
    assert np.all(model.predict(NEW)[high] > taken.predict(NEW)[high])


def concordance(time, event, mean):
    """By counting pairs."""
    pairs, right = 0, 0.0
    for i in np.flatnonzero(event):
        later = (time > time[i]) | ((time == time[i]) & ~event)
        pairs += later.sum()
        right += (mean[later] > mean[i]).sum() + 0.5 * (mean[later] == mean[i]).sum()
    return right / pairs


def test_the_score_of_censored_targets_is_their_concordance():
    values = 10 + np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=300)
    capped, cut = np.minimum(values, 10.5), values >= 10.5
    model = SparseGPRegressor(likelihood="gaussian", **PARAMETERS).fit(X, capped, censored=cut)
    mean = model.predict(X)
    assert model.score(X, capped, censored=cut) == pytest.approx(concordance(capped, ~cut, mean), abs=1e-12)
    ends = np.where(cut, np.inf, np.nan)
    assert model.score(X, capped, other_ends=ends) == model.score(X, capped, censored=cut)
    share = 1 - np.mean((values - mean) ** 2) / np.var(values)
    assert model.score(X, values, censored=np.zeros(300, bool)) == pytest.approx(share, rel=1e-12)
    with pytest.raises(ValueError, match="score needs censored or other_ends"):
        model.score(X, capped)
    with pytest.raises(ValueError, match="the concordance has no weights"):
        model.score(X, capped, np.ones(300), censored=cut)


def test_capped_counts():
    rates = np.exp(1 + 0.7 * X[:, 0])
    counts = RNG.poisson(rates).astype(float)
    model = SparseGPCountRegressor(**PARAMETERS).fit(X, np.minimum(counts, 5), censored=counts >= 5)
    assert model.document_["config"]["likelihood"] == "poisson-censored"
    truth = np.exp(1 + 0.7 * NEW[:, 0])
    assert np.abs(np.log(model.predict(NEW) / truth)).mean() < 0.15
    # A count that is censored at 5 is 5 or more.
    at = model.log_density(NEW, np.full(20, 5.0), censored=np.ones(20, bool))
    below = [np.exp(model.log_density(NEW, np.full(20, float(k)), censored=np.zeros(20, bool))) for k in range(5)]
    np.testing.assert_allclose(np.exp(at), 1 - np.sum(below, axis=0), rtol=1e-6)
    capped, cut = np.minimum(counts, 5), counts >= 5
    assert model.score(X, capped, censored=cut) == pytest.approx(concordance(capped, ~cut, model.predict(X)), abs=1e-12)
    # A model of the first half learns from the second: with the cap it keeps near the truth, without it falls below.
    halves = {}
    for name, second in (("known", cut[150:]), ("ignored", np.zeros(150, bool))):
        half = clone(model).partial_fit(X[:150], capped[:150], censored=cut[:150])
        halves[name] = half.partial_fit(X[150:], capped[150:], censored=second).predict(NEW)
    high = truth > 5
    assert np.abs(np.log(halves["known"] / truth)[high]).mean() < 0.15
    assert np.all(halves["ignored"][high] < halves["known"][high])


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
    assert model.score(X, y) == pytest.approx(concordance(y["time"], y["event"], model.predict(X)), abs=1e-12)
    frame = pandas.DataFrame({"time": y["time"], "event": y["event"]})
    np.testing.assert_array_equal(SparseGPSurvivalRegressor(**PARAMETERS).fit(X, frame).predict(NEW), model.predict(NEW))
    model.save(tmp_path / "model")
    again = SparseGPSurvivalRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_survival_function(NEW, [1.0, 2.0, 4.0]), survival)
    with pytest.raises(ValueError, match="times is not given"):
        again.predict_survival_function(NEW)
    with pytest.raises(ValueError, match="expected two fields"):
        SparseGPSurvivalRegressor(**PARAMETERS).fit(X, y["time"])
