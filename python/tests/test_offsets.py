"""Offsets of estimators: columns of tables and arrays, equal to exposures and to shifted targets, in files and pickles too."""

import pickle

import numpy as np
import pandas as pd
import pytest

from sparsegp import BayesianLinearRegressor, SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 6, (140, 1))
O = RNG.normal(-40, 25, 140)
REST = 4 * np.sin(X[:, 0]) + 0.3 * RNG.normal(size=140)
YEARS = RNG.uniform(0.2, 4, 140)
COUNTS = RNG.poisson(YEARS * np.exp(0.7 * np.sin(X[:, 0]) + 0.8)).astype(float)
TRAIN, TEST = slice(0, 110), slice(110, 140)
FRAME = pd.DataFrame({"x": X[:, 0], "o": O})
PARAMETERS = {"kernel": "rbf", "n_inducing": 10, "auto": "none"}


def test_the_logarithm_of_an_exposure_is_its_offset():
    def model():
        return SparseGPCountRegressor(likelihood="poisson", **PARAMETERS)

    exposed = model().fit(X[TRAIN], COUNTS[TRAIN], exposure=YEARS[TRAIN])
    raised = model().fit(X[TRAIN], COUNTS[TRAIN], offset=np.log(YEARS[TRAIN]))
    want = exposed.log_density(X[TEST], COUNTS[TEST], exposure=YEARS[TEST])
    got = raised.log_density(X[TEST], COUNTS[TEST], offset=np.log(YEARS[TEST]))
    # Both stop when an epoch gains little, from slightly different starts.
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)
    scores = exposed.score(X[TEST], COUNTS[TEST], exposure=YEARS[TEST]), raised.score(X[TEST], COUNTS[TEST], offset=np.log(YEARS[TEST]))
    assert scores[0] == pytest.approx(scores[1], abs=2e-5)


@pytest.mark.parametrize("named", [True, False])
def test_predictions_are_those_of_the_rest_plus_the_offset(named, tmp_path):
    rows, given = (FRAME, {}) if named else (X, {"offset": O})
    train = {name: values[TRAIN] for name, values in given.items()}
    test = {name: values[TEST] for name, values in given.items()}
    model = SparseGPRegressor(**PARAMETERS).fit(rows[TRAIN], (REST + O)[TRAIN], offset="o" if named else O[TRAIN])
    plain = SparseGPRegressor(**PARAMETERS).fit(X[TRAIN], REST[TRAIN])
    mean, std, quantiles = model.predict(rows[TEST], return_std=True, quantiles=[0.1], **test)
    want = plain.predict(X[TEST], return_std=True, quantiles=[0.1])
    np.testing.assert_allclose(mean, want[0] + O[TEST], atol=1e-3)
    np.testing.assert_allclose(std, want[1], atol=1e-3)
    np.testing.assert_allclose(quantiles[:, 0], want[2][:, 0] + O[TEST], atol=1e-3)
    np.testing.assert_allclose(model.predict_f(rows[TEST], **test)[0], mean, atol=1e-9)
    assert list(model.input_names_) == (["x"] if named else ["x0"])
    assert model.predict(rows[TEST], return_gradient=True, **test)[1].shape == (30, 1)
    draws = model.sample_y(rows[TEST], 400, **test)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 6 * std / 20)
    # Draws of the function have the offset of a table, and none beside an array.
    functions = model.sample_f(300)
    assert np.all(np.abs(functions(rows[TEST]).mean(axis=1) - (mean if named else mean - O[TEST])) < 6 * std / 300**0.5)
    assert functions.gradient(rows[TEST]).shape == (30, 1, 300)

    path = tmp_path / "model"
    model.save(path)
    for copy in (pickle.loads(pickle.dumps(model)), SparseGPRegressor.load(path)):
        np.testing.assert_array_equal(copy.predict(rows[TEST], **test), mean)
    # A loaded model takes the offset of a table from either place.
    loaded = SparseGPRegressor.load(path)
    if named:
        np.testing.assert_array_equal(loaded.predict(FRAME[["x"]][TEST], offset=O[TEST]), mean)
        np.testing.assert_array_equal(loaded.predict(FRAME[["o", "x"]][TEST]), mean)
    updated = model.partial_fit(rows[TEST], (REST + O)[TEST], **({"offset": "o"} if named else test))
    again = updated.predict(rows[TEST], **test)
    assert np.abs(again - (REST + O)[TEST]).mean() < np.abs(mean - (REST + O)[TEST]).mean()
    model.report(tmp_path / "fit.html", rows[TEST], (REST + O)[TEST], **test)
    assert "offset" in (tmp_path / "fit.html").read_text()


def test_classes_take_log_odds_and_linear_models_units():
    odds = RNG.normal(0, 2, 140)
    y = np.where(RNG.uniform(size=140) < 1 / (1 + np.exp(-np.sin(X[:, 0]) - odds)), "yes", "no")
    model = SparseGPClassifier(likelihood="bernoulli-logit", **PARAMETERS).fit(X[TRAIN], y[TRAIN], offset=odds[TRAIN])
    low, high = (model.decision_function(X[TEST], offset=np.full(30, o)) for o in (0.0, 1e-3))
    assert np.all(high > low)
    plain = SparseGPClassifier(likelihood="bernoulli-logit", **PARAMETERS).fit(X[TRAIN], y[TRAIN])
    with_offset = model.log_density(X[TEST], y[TEST], offset=odds[TEST]).mean()
    assert with_offset > plain.log_density(X[TEST], y[TEST]).mean() + 0.05
    line = BayesianLinearRegressor().fit(X[TRAIN], (2 * X[:, 0] + O)[TRAIN], offset=O[TRAIN])
    np.testing.assert_allclose(line.predict([[1.0]], offset=[7.0]), 9.0, atol=1e-2)


def test_several_functions_take_a_column_each():
    model = SparseGPRegressor(likelihood="gaussian-heteroskedastic", epochs=20, **PARAMETERS)
    both = np.column_stack([O, np.zeros(140)])
    model.fit(X[TRAIN], (REST + O)[TRAIN], offset=both[TRAIN])
    louder = both[TEST] + [0.0, 1.0]
    quiet, loud = (model.predict(X[TEST], return_std=True, offset=offset) for offset in (both[TEST], louder))
    np.testing.assert_allclose(quiet[0], loud[0])
    assert np.all(loud[1] > quiet[1])
    with pytest.raises(ValueError, match="offset has 1 columns, expected 2"):
        model.predict(X[TEST], offset=O[TEST])


def test_wrong_offsets_are_refused_in_one_line():
    plain = SparseGPRegressor(epochs=1, **PARAMETERS).fit(X[TRAIN], REST[TRAIN])
    raised = SparseGPRegressor(epochs=1, **PARAMETERS).fit(X[TRAIN], REST[TRAIN], offset=O[TRAIN])
    named = SparseGPRegressor(epochs=1, **PARAMETERS).fit(FRAME[TRAIN], REST[TRAIN], offset="o")
    warped = SparseGPRegressor(mean="trees", warp_target="log", **PARAMETERS)
    for work, words in [
        (lambda: plain.predict(X[TEST], offset=O[TEST]), "was fitted without offset"),
        (lambda: raised.predict(X[TEST]), "offset is not given: predictions need it too"),
        (lambda: raised.predict(X[TEST], offset=O[:3]), "offset has shape"),
        (lambda: raised.predict(X[TEST], offset=np.full(30, np.nan)), "offset"),
        (lambda: named.predict(FRAME[TEST], offset=O[TEST]), "X has its columns o"),
        (lambda: plain.fit(X[TRAIN], REST[TRAIN], offset="o"), "'o'"),
        (lambda: warped.fit(X[TRAIN], np.exp(REST[TRAIN]), offset=O[TRAIN]), "offset"),
    ]:
        with pytest.raises(ValueError, match=words) as error:
            work()
        assert "\n" not in str(error.value)
