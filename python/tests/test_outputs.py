"""Several targets at once: equality with single fits if nothing is shared, with models of the command line, and with
closed forms of shared parts."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from sparsegp import BayesianLinearRegressor, SparseGPClassifier, SparseGPMultiOutputRegressor, SparseGPRegressor
from test_scikit_learn import EXPECTED

HOW = {"kernel": "rbf(ard)", "n_inducing": 15, "auto": "none", "epochs": 15}


@pytest.fixture(scope="module")
def petals():
    """Returns two targets with a fifth of the cells missing, and three inputs, one of which is text."""
    from conftest import read

    frame = read("iris.csv")
    X, Y = frame[["sepal_length", "sepal_width", "species"]], frame[["petal_length", "petal_width"]].copy()
    Y[np.random.default_rng(0).uniform(size=Y.shape) < 0.2] = np.nan
    return X, Y


@pytest.fixture(scope="module")
def mixed(petals):
    X, Y = petals
    return SparseGPMultiOutputRegressor(SparseGPRegressor(**HOW), outputs="mixed:1").fit(X, Y)


def test_check_estimator():
    estimator = SparseGPMultiOutputRegressor(SparseGPRegressor(auto="none", n_inducing=10))
    results = check_estimator(estimator, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed
    assert sum(result["status"] == "passed" for result in results) >= 50


def test_targets_that_share_nothing_are_single_fits(petals):
    X, Y = petals
    weights = np.where(np.arange(len(X)) % 7 == 0, 0.0, 1.0)
    how = SparseGPRegressor(**HOW)
    model = SparseGPMultiOutputRegressor(how, outputs="own").fit(X, Y, weights)
    assert model.target_names_ == ["petal_length", "petal_width"] and model.outputs_ == "own"
    mean, std, quantiles = model.predict(X, return_std=True, quantiles=[0.1, 0.9])
    densities, scores = model.log_density(X, Y), []
    for p, name in enumerate(Y):
        known = Y[name].notna().to_numpy()
        kept = known & (weights > 0)
        single = clone(how).fit(X[kept], Y[name][kept])
        one, its, at = single.predict(X, return_std=True, quantiles=[0.1, 0.9])
        assert np.array_equal(one, mean[:, p]) and np.array_equal(its, std[:, p]) and np.array_equal(at, quantiles[:, p])
        assert np.array_equal(single.log_density(X[known], Y[name][known]), densities[known, p])
        assert np.isnan(densities[~known, p]).all()
        scores.append(single.score(X[known], Y[name][known]))
    assert np.isclose(model.score(X, Y), np.mean(scores))
    assert np.array_equal(model.predict_f(X)[0], mean)
    off = model.predict_f(X, full_output_cov=True)[1][:, 0, 1]
    assert (off == 0.0).all()


def test_functions_that_mix_one_process_are_perfectly_correlated(petals, mixed):
    X, _ = petals
    mean, std = mixed.predict(X, return_std=True)
    f, covariance = mixed.predict_f(X, full_output_cov=True)
    variance = mixed.predict_f(X)[1]
    assert np.allclose(f, mean)
    # The remaining variance of a target is its noise, which is constant.
    noise = std**2 - variance
    assert (noise > 0.0).all() and np.allclose(noise, noise[0], rtol=1e-9)
    assert np.allclose(covariance[:, 0, 1] ** 2, variance[:, 0] * variance[:, 1], rtol=1e-10)
    assert np.allclose(covariance[:, 0, 1], covariance[:, 1, 0], rtol=0, atol=0)
    draws = mixed.sample_y(X[:5], 3000, random_state=2)
    assert draws.shape == (5, 2, 3000)
    assert np.allclose(draws.mean(axis=2), mean[:5], atol=4 * std.max() / np.sqrt(3000))
    assert np.array_equal(mixed.sample_y(X[:5], random_state=None), mixed.sample_y(X[:5], random_state=0))
    # Draws of different targets are independent: correlations of 3000 draws have the standard deviation 0.018.
    assert all(abs(np.corrcoef(draws[row])[0, 1]) < 0.09 for row in range(5))


def test_files_pickles_and_the_command_line(petals, mixed, tmp_path):
    X, Y = petals
    for again in (pickle.loads(pickle.dumps(mixed)), _saved(mixed, tmp_path)):
        assert np.array_equal(again.predict(X), mixed.predict(X)) and again.target_names_ == mixed.target_names_
    X.join(Y).to_csv(tmp_path / "petals.csv", index=False)
    command = [sys.executable, "-m", "sparsegp", "fit", "petals.csv", "--target", "petal_length,petal_width", "--kernel", "rbf(ard)"]
    command += ["--inducing", "15", "--auto", "none", "--epochs", "15", "--mixing", "1", "--quiet", "--model-out", "petals.model"]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    theirs = SparseGPMultiOutputRegressor.load(tmp_path / "petals.model")
    assert np.allclose(theirs.predict(X), mixed.predict(X), rtol=1e-12)


def _saved(model, folder):
    model.save(folder / "saved.model")
    return SparseGPMultiOutputRegressor.load(folder / "saved.model")


def test_updates_with_consecutive_parts(petals):
    X, Y = petals
    how = SparseGPRegressor(**{**HOW, "neighbours": "none"})
    first = SparseGPMultiOutputRegressor(how, outputs="own").fit(X[::2], Y[::2])
    before = first.predict(X)
    learned = clone(first).fit(X[::2], Y[::2]).partial_fit(X[1::2], Y[1::2])
    assert np.array_equal(first.predict(X), before)
    for p, (estimator, name) in enumerate(zip(first.estimators_, Y)):
        new = Y[name].notna().to_numpy() & (np.arange(len(X)) % 2 == 1)
        assert np.array_equal(estimator.partial_fit(X[new], Y[name][new]).predict(X), learned.predict(X)[:, p])


def test_mixed_targets_are_updated_together():
    rng = np.random.default_rng(5)
    X = rng.uniform(0, 10, (150, 1))
    f = np.sin(X[:, 0])
    Y = np.column_stack([2 * f + 1, -f]) + 0.1 * rng.normal(size=(150, 2))
    Y[::7, 1] = np.nan
    how = SparseGPRegressor(n_inducing=15, auto="none", epochs=30)
    first = SparseGPMultiOutputRegressor(how, outputs="mixed:1").fit(X[X[:, 0] < 5], Y[X[:, 0] < 5])
    new = X[:, 0] >= 5
    learned = clone(first).fit(X[~new], Y[~new]).partial_fit(X[new], Y[new])
    errors = [np.abs(model.predict(X[new]) - np.column_stack([2 * f + 1, -f])[new]).mean(axis=0) for model in (first, learned)]
    assert (errors[1] < 0.3 * errors[0]).all(), errors
    weights = [estimator.hyperparameters_["likelihood.weights"] for estimator in learned.estimators_]
    assert weights == [estimator.hyperparameters_["likelihood.weights"] for estimator in first.estimators_]


def test_searches_and_tables(petals):
    X, Y = petals
    whole = Y.notna().all(axis=1)
    numbers, known = X[["sepal_length", "sepal_width"]][whole], Y[whole]
    model = SparseGPMultiOutputRegressor(SparseGPRegressor(**HOW), outputs="shared")
    assert cross_val_score(model, numbers.to_numpy(), known.to_numpy(), cv=2).shape == (2,)
    search = GridSearchCV(model, {"estimator__kernel": ["rbf", "linear"], "outputs": ["own", "mixed:1"]}, cv=2).fit(numbers, known)
    assert set(search.best_params_) == {"estimator__kernel", "outputs"}
    import polars
    import pyarrow

    want = model.fit(numbers, known).predict(numbers)
    for table in (polars.from_pandas(known.reset_index(drop=True)), pyarrow.Table.from_pandas(known, preserve_index=False)):
        again = clone(model).fit(numbers, table)
        assert np.array_equal(again.predict(numbers), want) and again.target_names_ == list(known)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"outputs": "some"}, ValueError, "'some' is not one of own, shared or mixed:L"),
        ({"outputs": "mixed:3"}, ValueError, "expected 1 to 2, the number of outputs"),
        ({"outputs": 2}, TypeError, "outputs is 2, expected a string"),
        ({"estimator": SparseGPClassifier()}, TypeError, "expected a regressor of sparsegp"),
        ({"estimator": SparseGPRegressor(beta=[1.0, 0.1])}, ValueError, "expected a number: held-out rows"),
        ({"estimator": SparseGPRegressor(likelihood="student-t", auto="none"), "outputs": "shared"}, ValueError, "with Gaussian noise"),
        ({"estimator": BayesianLinearRegressor(), "outputs": "mixed:1"}, ValueError, "is for Gaussian processes"),
    ],
)
def test_refusals_are_one_line(petals, given, error, words):
    X, Y = petals
    with pytest.raises(error) as raised:
        SparseGPMultiOutputRegressor(**given).fit(X, Y)
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_targets_of_another_width_are_refused(petals, mixed):
    X, Y = petals
    with pytest.raises(ValueError, match="y has 1 columns, expected 2"):
        mixed.log_density(X, Y[["petal_length"]])
    none = Y.assign(petal_width=np.nan)
    with pytest.raises(ValueError, match="petal_width"):
        SparseGPMultiOutputRegressor(SparseGPRegressor(**HOW)).fit(X, none)
