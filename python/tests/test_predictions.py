"""Different predictions agree with each other, for every kind of target."""

import numpy as np
import pytest

import sparsegp


@pytest.fixture(scope="module")
def gaussian(co2):
    X, y = co2
    return sparsegp.SparseGPRegressor("rbf + linear", n_inducing=30, auto="none").fit(X, y), X, y


def test_moments_covariances_and_quantiles(gaussian):
    model, X, y = gaussian
    X = X[::10]
    mean, std = model.predict(X, return_std=True)
    same, covariance = model.predict(X, return_cov=True)
    assert np.array_equal(mean, same)
    assert np.allclose(np.diag(covariance), std**2, rtol=1e-6)
    f, f_cov = model.predict_f(X, full_cov=True)
    assert np.allclose(f, mean) and np.allclose(np.diag(covariance - f_cov), model.noise_variance_)
    _, quantiles = model.predict(X, quantiles=[0.025, 0.5, 0.975])
    assert np.allclose(quantiles[:, 1], mean) and np.allclose(quantiles[:, 2] - mean, 1.959964 * std, rtol=1e-5)


def test_draws_have_the_moments(gaussian):
    model, X, _ = gaussian
    draws = model.sample_y(X[:20], 4000, random_state=1)
    mean, std = model.predict(X[:20], return_std=True)
    assert np.allclose(draws.mean(axis=1), mean, atol=4 * std.max() / np.sqrt(4000))
    assert np.array_equal(draws, model.sample_y(X[:20], 4000, random_state=1))


def test_log_densities_are_those_of_the_normal_distribution(gaussian):
    model, X, y = gaussian
    mean, std = model.predict(X, return_std=True)
    assert np.allclose(model.log_density(X, y), -0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((y - mean) / std) ** 2)
    pit = model.pit(X, y)
    assert np.array_equal(pit[:, 0], pit[:, 1]) and ((pit >= 0) & (pit <= 1)).all()
    assert (model.crps(X, y) > 0).all()


def test_attributes(gaussian):
    model, X, _ = gaussian
    assert str(model.kernel_).startswith("rbf(variance=") and model.inducing_points_.shape == (30, 1)
    assert model.inducing_points_.min() > 1950 and model.inducing_points_.max() < 2030
    history = model.history_
    assert len(history["objective"]) == model.n_iter_ and history["objective"][-1] <= history["objective"][0]
    lower, upper = model.log_marginal_likelihood_bounds_
    assert lower <= upper
    assert model.choices_ == {"auto": "none"} and isinstance(model.warnings_, list)
    assert any(name.startswith("kernel.rbf.lengthscales[") for name in model.hyperparameters_)


@pytest.mark.parametrize(
    ("likelihood", "target"),
    [
        ("gamma", lambda f, rng: np.exp(f) * rng.gamma(20, 1 / 20, len(f))),
        ("beta-logit", lambda f, rng: rng.beta(20 / (1 + np.exp(-f)), 20 / (1 + np.exp(f)))),
        ("student-t", lambda f, rng: f + 0.1 * rng.standard_t(3, len(f))),
        ("ordinal", lambda f, rng: 3 + np.digitize(f + 0.1 * rng.normal(size=len(f)), [-0.5, 0.5])),
        ("negative-binomial", lambda f, rng: rng.poisson(5 * np.exp(f))),
    ],
)
def test_every_kind_of_number(likelihood, target):
    rng = np.random.default_rng(3)
    X = np.linspace(0, 6, 120)[:, None]
    y = target(np.sin(X[:, 0]), rng)
    kind = sparsegp.SparseGPCountRegressor if "binomial" in likelihood else sparsegp.SparseGPRegressor
    model = kind("rbf", likelihood=likelihood, n_inducing=12, auto="none").fit(X, y)
    mean, quantiles = model.predict(X, quantiles=[0.01, 0.99])
    assert model.score(X, y) > 0.3
    # The mean of levels may differ slightly from the only probable level.
    slack = 0.05 if likelihood == "ordinal" else 0.0
    assert (quantiles[:, 0] <= mean + slack).all() and (mean - slack <= quantiles[:, 1]).all()
    assert np.mean((quantiles[:, 0] <= y) & (y <= quantiles[:, 1])) > 0.9
    draws = model.sample_y(X, 200)
    assert np.corrcoef(draws.mean(axis=1), mean)[0, 1] > 0.9
    if likelihood == "ordinal":
        assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)
        assert set(np.unique(draws)) <= {3.0, 4.0, 5.0}
    else:
        assert not hasattr(model, "predict_proba")
    covariance, std = model.predict(X, return_cov=True)[1], model.predict(X, return_std=True)[1]
    assert np.allclose(np.diag(covariance), std**2, rtol=1e-6) and np.array_equal(covariance, covariance.T)


def test_several_classes():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 2))
    y = np.array([10, 9, 2])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = sparsegp.SparseGPClassifier("rbf", n_inducing=10, epochs=10, auto="none").fit(X, y)
    assert model.classes_.tolist() == [2, 9, 10] and model.score(X, y) > 0.9
    proba = model.predict_proba(X)
    assert np.allclose(proba.sum(axis=1), 1.0)
    own = proba[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    assert np.allclose(np.exp(model.log_density(X, y)), own)
    mean, variance = model.predict_f(X)
    assert mean.shape == variance.shape == (150, 3)
    assert set(np.unique(model.sample_y(X, 5))) <= {2, 9, 10}


def test_exposures_scale_counts(visits):
    X, y = visits
    exposure = np.linspace(0.5, 2.0, len(y))
    model = sparsegp.SparseGPCountRegressor("rbf", likelihood="poisson", n_inducing=10, epochs=10, auto="none")
    model.fit(X, y, exposure=exposure)
    assert np.allclose(model.predict(X, exposure=2 * exposure), 2 * model.predict(X, exposure=exposure))
    assert model.predict_f(X)[0].shape == y.shape
    with pytest.raises(ValueError, match="exposure"):
        model.predict(X)
    with pytest.raises(ValueError, match="exposure"):
        model.fit(X, y).predict(X, exposure=exposure)


def test_linear_models_have_coefficients(tumours):
    X, y = tumours
    model = sparsegp.BayesianLinearClassifier(likelihood="bernoulli-logit").fit(X, y)
    assert model.coef_.shape == (1, 2) and model.coef_names_.tolist() == list(X.columns)
    f = model.intercept_[0] + X.to_numpy() @ model.coef_[0]
    assert np.allclose(f, model.predict_f(X)[0])
    assert np.allclose(model.coef_sd_**2, np.diag(model.coef_cov_))
    named = {row["name"]: row for row in model.document_["coefficients"]}
    assert np.allclose(model.coef_sd_, [named[name]["sd"] for name in X.columns])
    numbers = (y == "malignant").astype(float)
    line = sparsegp.BayesianLinearRegressor(likelihood="gaussian", prior_variance=100.0).fit(X, numbers)
    design = np.column_stack([np.ones(len(X)), X])
    assert np.allclose(np.linalg.lstsq(design, numbers)[0], [line.intercept_, *line.coef_], rtol=1e-2)
    assert np.isfinite(line.predict(X, return_cov=True)[1]).all()
