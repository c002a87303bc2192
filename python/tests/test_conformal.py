"""Quantiles that held-out rows calibrate."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import sparsegp

NARROW = {"auto": "none", "n_inducing": 20, "fix": ["likelihood.noise_variance=0.001"]}


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(3)
    X = random.uniform(0, 6, (2400, 1))
    return X, np.sin(X[:, 0]) + 0.3 * random.standard_t(4, 2400)


def covered(model, X, y, level=0.95):
    _, ends = model.predict(X, quantiles=[0.5 - level / 2, 0.5 + level / 2])
    return np.mean((ends[:, 0] <= y) & (y <= ends[:, 1]))


def test_intervals_cover_new_rows_and_nothing_else_changes(rows):
    X, y = rows
    plain = sparsegp.SparseGPRegressor("rbf", **NARROW).fit(X[:200], y[:200])
    model = clone(sparsegp.SparseGPRegressor("rbf", conformal=True, **NARROW)).fit(X[:200], y[:200])
    assert covered(plain, X[200:], y[200:]) < 0.5 and 0.93 < covered(model, X[200:], y[200:]) < 0.98
    assert 0.75 < covered(model, X[200:], y[200:], 0.8) < 0.85
    assert np.array_equal(plain.predict(X, return_std=True), model.predict(X, return_std=True))
    assert np.array_equal(plain.log_density(X, y), model.log_density(X, y))
    assert model.document_["fit"]["conformal"]["scores"] == 200


def test_pickles_files_and_updates_keep_the_scores(rows, tmp_path):
    X, y = rows
    model = sparsegp.SparseGPRegressor("rbf", conformal=True, **NARROW).fit(X[:100], y[:100])
    _, ends = model.predict(X, quantiles=[0.1, 0.9])
    model.save(tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), sparsegp.SparseGPRegressor.load(tmp_path / "model")):
        assert np.array_equal(again.predict(X, quantiles=[0.1, 0.9])[1], ends)
    model.partial_fit(X[100:200], y[100:200])
    assert model.document_["fit"]["conformal"]["scores"] == 100


def test_counts_are_calibrated_and_other_targets_refused(rows):
    X, y = rows
    counts = np.round(np.exp(2 + 2 * y))
    model = sparsegp.SparseGPCountRegressor("rbf", likelihood="poisson", n_inducing=20, auto="none", conformal=True)
    assert covered(model.fit(X[:200], counts[:200]), X[200:], counts[200:]) > 0.91
    with pytest.raises(ValueError, match="conformal cannot be combined with a list of values of beta"):
        sparsegp.SparseGPRegressor(beta=[0.5, 1.0], auto="none", conformal=True).fit(X, y)
    with pytest.raises(ValueError, match="single target"):
        several = sparsegp.SparseGPRegressor(auto="none", conformal=True)
        sparsegp.SparseGPMultiOutputRegressor(several).fit(X, np.column_stack([y, y]))
