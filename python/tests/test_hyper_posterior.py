"""Predictions that are averaged over uncertain hyper-parameters."""

import pickle

import numpy as np
import pytest

import sparsegp


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(5)
    X = random.normal(size=(60, 3))
    return X, 10 * (np.sin(1.5 * X[:, 0]) + 0.4 * X[:, 1] + 0.3 * random.standard_normal(60))


def test_intervals_widen_and_hyper_parameters_have_intervals(rows, tmp_path):
    X, y = rows
    new = np.random.default_rng(6).normal(size=(40, 3))
    single = sparsegp.SparseGPRegressor("rbf(ard)", auto="none").fit(X, y)
    model = sparsegp.SparseGPRegressor("rbf(ard)", auto="none", hyper_posterior="laplace").fit(X, y)
    assert single.hyperparameter_intervals_ == {}
    assert model.hyperparameters_ == single.hyperparameters_
    for name, (low, high) in model.hyperparameter_intervals_.items():
        assert low < model.hyperparameters_[name] < high, name
    assert "kernel.lengthscales[x0]" in model.hyperparameter_intervals_
    (_, narrow), (_, wide) = (of.predict(new, return_std=True) for of in (single, model))
    assert 1.01 < np.mean(wide / narrow) < 1.5
    # The draws have the moments of the average.
    draws = model.sample_y(new[:3], n_samples=20000, random_state=0)
    assert np.std(draws, axis=1) == pytest.approx(wide[:3], rel=0.05)
    path = tmp_path / "model"
    model.save(path)
    for again in (pickle.loads(pickle.dumps(model)), sparsegp.SparseGPRegressor.load(path)):
        assert np.array_equal(again.predict(new, return_std=True)[1], wide)


def test_it_is_a_choice_that_repeats_the_fit(rows):
    X, y = rows
    model = sparsegp.SparseGPRegressor().fit(X, y)
    assert model.choices_["hyper_posterior"] == "laplace"
    assert sparsegp.SparseGPRegressor(hyper_posterior="none").fit(X, y).hyperparameter_intervals_ == {}
    classes = sparsegp.SparseGPClassifier(hyper_posterior="laplace", auto="none").fit(X, y > 3)
    assert classes.hyperparameter_intervals_
    near = sparsegp.SparseGPRegressor("rbf", auto="none", neighbours=5, hyper_posterior="laplace").fit(X, y)
    said = [text for text in near.warnings_ if text.startswith("hyper_posterior='laplace' has no effect")]
    assert len(said) == 1 and said[0].endswith("because the model has neighbours")
