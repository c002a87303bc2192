"""The estimator checks of scikit-learn, and its tools around the estimators."""

import html
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import VotingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import sparsegp
from sparsegp import SparseGPClassifier, SparseGPRegressor
from sparsegp.metrics import SCORERS, interval_coverage, neg_crps, neg_interval_score, neg_log_predictive_density

#: The checks that fail for every estimator, with reasons.
EXPECTED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "columns are scaled, and training starts, without looking at weights"
    for kind in ("dense", "sparse")
}


class RoundedCounts(sparsegp.SparseGPCountRegressor):
    """Rounds the targets of the checks, because this estimator needs counts."""

    def fit(self, X, y, sample_weight=None, *, exposure=None):
        return super().fit(X, self._rounded(y), sample_weight, exposure=exposure)

    def partial_fit(self, X, y, sample_weight=None, *, exposure=None, forget=0.0):
        return super().partial_fit(X, self._rounded(y), sample_weight, exposure=exposure, forget=forget)

    @staticmethod
    def _rounded(y):
        return None if y is None else np.round(np.asarray(y, dtype=np.float64))


@pytest.mark.parametrize(
    "estimator",
    [
        sparsegp.SparseGPRegressor(auto="none", n_inducing=10),
        sparsegp.SparseGPRegressor(auto="none", n_inducing=10, likelihood="student-t", epochs=4),
        sparsegp.SparseGPClassifier(auto="none", n_inducing=10, epochs=5),
        sparsegp.BayesianLinearRegressor(),
        sparsegp.BayesianLinearClassifier(),
    ],
    ids=repr,
)
def test_check_estimator(estimator):
    results = check_estimator(estimator, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed
    assert sum(result["status"] == "passed" for result in results) >= 55


@pytest.mark.filterwarnings("ignore:Casting complex")
def test_check_estimator_of_counts():
    estimator = RoundedCounts(auto="none", n_inducing=10, epochs=4)
    results = check_estimator(estimator, expected_failed_checks=EXPECTED, on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed


def test_pipelines_searches_and_ensembles(co2, tumours):
    X, y = co2[0][::3], co2[1][::3]
    model = sparsegp.SparseGPRegressor("rbf", n_inducing=10, epochs=10, auto="none")
    pipeline = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(
        pipeline, {"sparsegpregressor__kernel": ["rbf", "linear"]}, scoring=neg_log_predictive_density, cv=3, n_jobs=2
    )
    search.fit(X, y)
    assert search.best_params_ == {"sparsegpregressor__kernel": "rbf"}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert cross_val_score(pipeline, X, y, scoring=neg_crps, cv=2).max() < 0
    voting = VotingRegressor([("line", LinearRegression()), ("process", model)]).fit(X, y)
    assert voting.score(X, y) > 0.9
    features, classes = tumours
    classifier = sparsegp.SparseGPClassifier("rbf", n_inducing=10, epochs=10, auto="none")
    columns = make_column_transformer((StandardScaler(), ["worst_radius"]), remainder="passthrough")
    calibrated = CalibratedClassifierCV(make_pipeline(columns, classifier), cv=2).fit(features, classes)
    assert calibrated.score(features, classes) > 0.9


def test_clones_and_pickles_are_the_same(co2):
    X, y = co2
    seen = []
    model = sparsegp.SparseGPRegressor("rbf", n_inducing=15, auto="none", callbacks=(len,), options={"jitter": 1e-5})
    assert clone(model).get_params() == model.get_params()
    model.set_params(callbacks=None, n_inducing=12).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X, return_std=True), model.predict(X, return_std=True))
    assert again.document_ == model.document_ and not seen
    assert len(model.inducing_points_) == 12


def test_scorers_are_those_of_the_estimators(visits):
    X, y = visits
    exposure = np.linspace(0.5, 2.0, len(y))
    model = sparsegp.SparseGPCountRegressor("rbf", likelihood="poisson", n_inducing=10, epochs=5, auto="none")
    model.fit(X, y, exposure=exposure)
    score = neg_log_predictive_density(model, X, y, exposure=exposure)
    assert score == np.mean(model.log_density(X, y, exposure=exposure))
    assert neg_crps(model, X, y, exposure=exposure) == -np.mean(model.crps(X, y, exposure=exposure))
    assert model.score(X, y, exposure=exposure) > 0


def test_scorers_of_intervals_work_in_searches_and_with_transformed_targets():
    X = np.linspace(0, 6, 120)[:, None]
    y = np.exp(np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=120))
    plain = SparseGPRegressor("rbf", auto="none", n_inducing=10, epochs=10)
    found = cross_validate(plain, X, y, scoring=SCORERS, cv=KFold(3, shuffle=True, random_state=0))
    assert all(np.isfinite(found[f"test_{name}"]).all() for name in SCORERS)
    assert found["test_interval_coverage"].mean() > 0.8
    model = plain.fit(X, y)
    low, high = model.predict(X, quantiles=[0.1, 0.9])[1].T
    assert interval_coverage(model, X, y, level=0.8) == np.mean((low <= y) & (y <= high))
    width = high - low + 10 * (np.maximum(low - y, 0) + np.maximum(y - high, 0))
    assert neg_interval_score(model, X, y, level=0.8) == pytest.approx(-np.mean(width))
    logs = TransformedTargetRegressor(plain, func=np.log, inverse_func=np.exp)
    falling = TransformedTargetRegressor(plain, func=lambda y: -np.log(y), inverse_func=lambda z: np.exp(-z))
    for scorer in SCORERS.values():
        search = GridSearchCV(make_pipeline(StandardScaler(), logs), {}, scoring=scorer, cv=2).fit(X, y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        score = scorer(search, X, y)
        assert score == pytest.approx(scorer(falling.fit(X, y), X, y), rel=0.05, abs=0.02)


def test_scorers_refuse_unsuitable_estimators():
    X, labels = np.arange(40.0)[:, None], np.arange(40) > 20
    classes = SparseGPClassifier("rbf", auto="none", n_inducing=8, epochs=5).fit(X, labels)
    search = GridSearchCV(classes, {"kernel": ["rbf"]}, scoring=neg_log_predictive_density, cv=2).fit(X, labels)
    assert np.isfinite(search.best_score_)
    for scorer, words in [(neg_crps, "has no crps"), (neg_interval_score, "predicts no quantiles")]:
        with pytest.raises(TypeError, match=f"SparseGPClassifier {words}, expected a regressor.*neg_log_predictive_density"):
            scorer(classes, X, labels)
    with pytest.raises(ValueError, match="level is 95"):
        interval_coverage(classes, X, labels, level=95)


def test_notebooks_show_the_summary_of_a_fit():
    X, y = np.linspace(0, 1, 40)[:, None], np.sin(np.linspace(0, 6, 40))
    model = SparseGPRegressor(n_inducing=10, auto="none", epochs=5)
    before = model._repr_mimebundle_()["text/html"]
    assert "<iframe" not in before
    model.fit(X, y)
    shown = model._repr_mimebundle_()["text/html"]
    assert shown.count("<iframe") == model._repr_html_().count("<iframe") == 1
    page = html.unescape(re.search(r'srcdoc="([^"]*)"', shown)[1])
    assert page.startswith("<!DOCTYPE html>") and "test_fraction" not in page
    assert "<svg" in page
