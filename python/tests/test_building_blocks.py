"""SVGP: unsupported options are refused, and a model with a custom training loop becomes an estimator."""

from math import comb

import numpy as np
import pytest

from sparsegp import SVGP, SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor

RNG = np.random.default_rng(1)
X = RNG.uniform(-3, 3, (200, 2))
F = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
CODES = np.digitize(F, [-0.4, 0.4])


@pytest.mark.parametrize(
    "option",
    [{"epochs": 3}, {"batch_size": 5}, {"restarts": 2}, {"warp_inputs": "normal-scores"}, {"tolerance": 0.1}, {"hyper": "fixed"}],
)
def test_options_about_loops_and_scaling_are_refused(option):
    with pytest.raises(ValueError, match=f"options names '{next(iter(option))}', which SVGP does not read, expected bounds, estimator"):
        SVGP("rbf", X[:5], options=option)


def trained(likelihood, y, **params):
    model = SVGP("rbf", X[:15], likelihood, random_state=0, **params)
    model.optimize(X, y, epochs=8, random_state=0, **({"exposure": np.full(200, 2.0)} if likelihood == "poisson" else {}))
    return model


def test_a_regression_by_hand_is_an_estimator(tmp_path):
    model = trained("gaussian", F)
    estimator = model.to_estimator(X, F)
    assert type(estimator) is SparseGPRegressor and estimator.score(X, F) > 0.8
    for found, wanted in zip(estimator.predict_f(X), model.marginals(X)):
        assert np.allclose(found, wanted[:, 0], rtol=1e-9, atol=1e-12)
    assert np.allclose(estimator.log_density(X, F), model.log_density(X, F))
    assert estimator.hyperparameters_["likelihood.noise_variance"] == model.hyperparameters["likelihood.noise_variance"]
    assert np.array_equal(estimator.inducing_points_, model.inducing_points)
    estimator.save(tmp_path / "by_hand.model")
    assert np.array_equal(SparseGPRegressor.load(tmp_path / "by_hand.model").predict(X), estimator.predict(X))
    # It is a copy.
    before = estimator.predict(X)
    model.optimize(X, -F, epochs=2, random_state=0)
    assert np.array_equal(estimator.predict(X), before)
    assert estimator.sample_f(2)(X).shape == (200, 2)
    assert np.isfinite(estimator.partial_fit(X[:20], F[:20]).predict(X)).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_by_hand_are_an_estimator(n_classes):
    y = np.minimum(CODES, n_classes - 1)
    model = trained("softmax" if n_classes > 2 else "bernoulli-logit", y, n_classes=n_classes)
    estimator = model.to_estimator(X, y)
    assert type(estimator) is SparseGPClassifier and estimator.classes_.tolist() == list(range(n_classes))
    assert estimator.score(X, y) > 0.8
    assert np.allclose(np.log(estimator.predict_proba(X)[np.arange(200), y]), model.log_density(X, y))
    with pytest.raises(ValueError, match="expected rows with each value from 0 to 2|has one class only"):
        model.to_estimator(X[y > 0], y[y > 0])


def test_counts_by_hand_are_an_estimator():
    y, exposure = np.round(2 * np.exp(F)), np.full(200, 2.0)
    model = trained("poisson", y)
    estimator = model.to_estimator(X, y, exposure=exposure)
    assert type(estimator) is SparseGPCountRegressor
    assert np.allclose(estimator.log_density(X, y, exposure), model.log_density(X, y, exposure))


def test_trials_are_the_rows_written_out():
    trials = RNG.integers(1, 5, 200).astype(float)
    wins = RNG.binomial(trials.astype(int), 1 / (1 + np.exp(-F))).astype(float)
    model = SVGP("rbf", X[:15], "binomial")
    several = np.repeat(np.arange(200), trials.astype(int))
    place = np.concatenate([np.arange(count) for count in trials.astype(int)])
    rows = SVGP("rbf", X[:15], "bernoulli-logit")
    written_out = rows.loss(X[several], (place < wins[several]).astype(float))
    constant = sum(np.log(comb(int(n), int(k))) for n, k in zip(trials, wins))
    assert model.loss(X, wins, trials=trials) == pytest.approx(written_out - constant, rel=1e-9)
    assert model.loss(X, wins, exposure=trials) == model.loss(X, wins, trials=trials)
    model.optimize(X, wins, trials=trials, epochs=3, random_state=0)
    estimator = model.to_estimator(X, wins, trials=trials)
    assert np.allclose(estimator.log_density(X, wins, trials=trials), model.log_density(X, wins, trials=trials))
    with pytest.raises(ValueError, match="trials is given, but the likelihood is 'poisson', expected 'binomial' or 'beta-binomial'"):
        SVGP("rbf", X[:15], "poisson").loss(X, wins, trials=trials)
    with pytest.raises(ValueError, match="exposure and trials are both given"):
        model.loss(X, wins, trials=trials, exposure=trials)


def test_offsets_are_added_to_the_functions():
    offset = np.cos(3 * X[:, 1])
    model, plain = SVGP("rbf", X[:15]), SVGP("rbf", X[:15])
    # N(y; f + o) is N(y − o; f), and an offset of log e is an exposure of e.
    assert model.loss(X, F, offset=offset, hyper=True) == pytest.approx(plain.loss(X, F - offset, hyper=True), rel=1e-12)
    np.testing.assert_allclose(model.theta_gradient, plain.theta_gradient, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.log_density(X, F, offset=offset), plain.log_density(X, F - offset), rtol=1e-12)
    counts, exposure = np.round(2 * np.exp(F)), np.exp(offset)
    for likelihood in ("gaussian", "poisson"):
        y = counts if likelihood == "poisson" else F + offset
        model = SVGP("rbf", X[:15], likelihood)
        model.optimize(X, y, offset=offset, epochs=8, random_state=0)
        if likelihood == "poisson":
            exposed = SVGP("rbf", X[:15], likelihood)
            exposed.optimize(X, y, exposure=exposure, epochs=8, random_state=0)
            np.testing.assert_allclose(model.theta, exposed.theta, rtol=1e-7, atol=1e-9)
        estimator = model.to_estimator(X, y, offset=offset)
        np.testing.assert_allclose(estimator.log_density(X, y, offset=offset), model.log_density(X, y, offset=offset), rtol=1e-9)
        mean = model.marginals(X)[0][:, 0] + offset
        np.testing.assert_allclose(estimator.predict_f(X, offset=offset)[0], mean, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="offset has shape \\(3, 1\\), expected \\(200,\\)"):
        model.loss(X, counts, offset=offset[:3])
    with pytest.raises(ValueError, match="a column for each latent function"):
        model.loss(X, counts, offset=np.ones((200, 2)))


def test_rows_that_do_not_match_are_refused():
    model = trained("gaussian", F)
    with pytest.raises(ValueError, match="X has 200 rows and y 3"):
        model.to_estimator(X, F[:3])
    with pytest.raises(ValueError, match="X has 1 columns, expected 2"):
        model.to_estimator(X[:, :1], F)
