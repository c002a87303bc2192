"""Successes in trials, shares with exact ends and amounts with exact zeros by the estimators."""

import numpy as np
import pytest

from sparsegp import SparseGPCountRegressor, SparseGPRegressor, compare

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, (300, 1))
P = 1 / (1 + np.exp(-2 * X[:, 0]))
TRIALS = RNG.integers(2, 30, 300).astype(float)
WINS = RNG.binomial(TRIALS.astype(int), P).astype(float)
TRAIN, TEST = slice(0, 240), slice(240, 300)
PARAMETERS = {"kernel": "rbf", "n_inducing": 10}


def test_successes_have_their_probability(tmp_path):
    model = SparseGPCountRegressor(auto="none", **PARAMETERS).fit(X[TRAIN], WINS[TRAIN], trials=TRIALS[TRAIN])
    assert model.document_["config"]["likelihood"] == "binomial"
    mean, quantiles = model.predict(X[TEST], trials=TRIALS[TEST], quantiles=[0.01, 0.99])
    np.testing.assert_allclose(mean / TRIALS[TEST], P[TEST], atol=0.1)
    assert np.all(quantiles[:, 1] <= TRIALS[TEST]) and np.all(quantiles == np.round(quantiles))
    assert model.score(X[TEST], WINS[TEST], trials=TRIALS[TEST]) > 0.8
    assert np.all(model.log_density(X[TEST], WINS[TEST], trials=TRIALS[TEST]) < 0)
    assert np.all(model.crps(X[TEST], WINS[TEST], trials=TRIALS[TEST]) >= 0)
    assert np.all(model.pit(X[TEST], WINS[TEST], trials=TRIALS[TEST])[:, 1] <= 1)
    draws = model.sample_y(X[TEST], 5, trials=TRIALS[TEST])
    assert np.all(draws <= TRIALS[TEST][:, None])
    model.predict_f(X[TEST])
    model.save(tmp_path / "model")
    again = SparseGPCountRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X[TEST], trials=TRIALS[TEST]), mean)
    model.partial_fit(X[TEST], WINS[TEST], trials=TRIALS[TEST])
    model.report(tmp_path / "report.html", X[TEST], WINS[TEST], trials=TRIALS[TEST])


def test_more_spread_chooses_beta_binomial_and_compare_takes_trials():
    p = RNG.beta(2 * P, 2 * (1 - P))
    wins = RNG.binomial(TRIALS.astype(int), p).astype(float)
    model = SparseGPCountRegressor(**PARAMETERS).fit(X, wins, trials=TRIALS)
    assert model.document_["config"]["likelihood"] == "beta-binomial"
    found = compare(X, wins, ["elbo"], likelihood="binomial", trials=TRIALS, options={"inducing": 8, "epochs": 5})
    assert np.all(np.isfinite(found.results["nll"]))


def test_trials_and_exposures_are_not_mixed_up():
    with pytest.raises(ValueError, match="exposure and trials are both given"):
        SparseGPCountRegressor(**PARAMETERS).fit(X, WINS, exposure=TRIALS, trials=TRIALS)
    with pytest.raises(ValueError, match="at most the"):
        SparseGPCountRegressor(**PARAMETERS).fit(X, WINS + 30, trials=TRIALS)
    model = SparseGPCountRegressor(auto="none", **PARAMETERS).fit(X, WINS, trials=TRIALS)
    with pytest.raises(ValueError, match="the model was fitted with trials, but trials is not given"):
        model.predict(X)
    with pytest.raises(ValueError, match="exposure is given, but the model was fitted without exposure"):
        model.predict(X, exposure=TRIALS)


def test_numbers_with_exact_ends():
    share = np.clip(1.4 * P - 0.2 + 0.1 * RNG.normal(size=300), 0, 1)
    model = SparseGPRegressor(likelihood="ordered-beta", auto="none", **PARAMETERS).fit(X[TRAIN], share[TRAIN])
    assert np.all(np.isfinite(model.crps(X[TEST], share[TEST])))
    amount = np.where(RNG.uniform(size=300) > P, 0.0, RNG.gamma(2, 1 + P))
    for likelihood in ("hurdle-gamma", "hurdle-log-normal", "tweedie"):
        model = SparseGPRegressor(likelihood=likelihood, auto="none", **PARAMETERS).fit(X[TRAIN], amount[TRAIN])
        mean, low = model.predict(X[TEST], quantiles=[0.01])
        assert np.all(mean > 0) and np.all(low >= 0)


def test_exact_ends_are_recognised_as_by_the_program():
    share = np.clip(1.4 * P - 0.2 + 0.1 * RNG.normal(size=300), 0, 1)
    model = SparseGPRegressor(auto="none", **PARAMETERS).fit(X, share)
    assert model.document_["config"]["likelihood"] == "ordered-beta"
    (note,) = (told for told in model.warnings_ if "they are taken for shares" in told)
    assert "likelihood='gaussian'" in note
    number = SparseGPRegressor(likelihood="gaussian", auto="none", **PARAMETERS).fit(X, share)
    assert number.document_["config"]["likelihood"] == "gaussian"
    # Objectives with Gaussian noise, and targets without exact ends, are of numbers.
    for objective, y in (("vfe", share), (None, np.clip(share, 1e-3, 1 - 1e-3))):
        model = SparseGPRegressor(objective=objective, auto="none", **PARAMETERS).fit(X, y)
        assert model.document_["config"]["likelihood"] == "gaussian"
    X_more = RNG.uniform(-2, 2, (900, 1))
    zero = RNG.uniform(size=900) > 1 / (1 + np.exp(-2 * X_more[:, 0]))
    amount = np.where(zero, 0.0, RNG.gamma(2, np.exp(0.5 * X_more[:, 0])))
    chosen = SparseGPRegressor(auto="likelihood", **PARAMETERS).fit(X_more, amount)
    assert chosen.document_["config"]["likelihood"] == "hurdle-gamma"
    # P(Y = 0) is 0.88 at −1, so its median is 0.
    _, median = chosen.predict([[-1.0], [1.9]], quantiles=[0.5])
    assert median[0, 0] == 0 and median[1, 0] > 1
    # Whole numbers are numbers: counts have their own estimator.
    counts = RNG.poisson(np.exp(1.5 + X_more[:, 0])).astype(float)
    model = SparseGPRegressor(auto="likelihood", **PARAMETERS).fit(X_more, counts)
    assert model.document_["config"]["task"] == "regression" and "count" not in model._columns["kind"]


def test_partitions_have_trials():
    distributed = pytest.importorskip("distributed")
    import dask.array as da

    from sparsegp.dask import DaskSparseGPCountRegressor

    rows = [da.from_array(values, chunks=(150, *values.shape[1:])) for values in (X, WINS, TRIALS)]
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        model = DaskSparseGPCountRegressor("rbf", likelihood="binomial", n_inducing=10, auto="none", client=client)
        model.fit(rows[0], rows[1], trials=rows[2])
        mean = model.predict(rows[0], trials=rows[2]).compute()
        np.testing.assert_allclose(mean / TRIALS, P, atol=0.12)
        assert model.score(rows[0], rows[1], trials=rows[2]) > 0.8
        with pytest.raises(ValueError, match="exposure is given, but the model was fitted without exposure"):
            model.predict(rows[0], exposure=rows[2])
