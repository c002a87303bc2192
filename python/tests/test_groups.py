"""Grouped effects: formulae with columns of a frame, levels in an array, effects as a frame, saved models, refusals."""

import pickle

import numpy as np
import pandas as pd
import pytest

from conftest import read
from sparsegp import (
    BayesianLinearClassifier,
    BayesianLinearRegressor,
    SparseGPClassifier,
    SparseGPCountRegressor,
    SparseGPMultiOutputRegressor,
    SparseGPRegressor,
)


@pytest.fixture(scope="module")
def firms():
    return read("grunfeld.csv")


def test_a_linear_mixed_model_has_the_figures_of_statsmodels(firms):
    model = BayesianLinearRegressor().fit(firms[["value", "capital", "firm"]], firms["invest"], groups="firm")
    groups = model.document_["groups"]
    assert groups["log_likelihood"] == pytest.approx(-1194.449896, rel=1e-7)
    assert groups["components"][0]["sd"] == pytest.approx(77.26801, rel=1e-4)
    assert model.coef_ == pytest.approx([0.1092892, 0.3079773], rel=1e-4)
    assert list(model.effects_.columns) == ["group", "level", "effect", "estimate", "sd"]
    assert len(model.effects_) == 11 and set(model.effects_["level"]) == set(firms["firm"])
    restricted = BayesianLinearRegressor(options={"reml": True})
    restricted.fit(firms[["value", "capital", "firm"]], firms["invest"], groups=["firm"])
    assert restricted.document_["groups"]["log_likelihood"] == pytest.approx(-1197.308054, rel=1e-7)


def test_variance_components_have_intervals(firms):
    model = BayesianLinearRegressor().fit(firms[["value", "capital", "firm"]], firms["invest"], groups="firm")
    frame = model.variance_components_
    assert list(frame.columns) == ["group", "effect", "sd", "lower", "upper"]
    assert list(frame["group"]) == ["firm", "noise"]
    assert ((frame["lower"] < frame["sd"]) & (frame["sd"] < frame["upper"])).all()
    groups = model.document_["groups"]
    lower, upper = groups["intraclass_intervals"]["firm"]
    assert lower < groups["intraclass_correlations"]["firm"] < upper
    again = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(again.variance_components_, frame)
    fixed = BayesianLinearRegressor(fix="effects.firm.sd=0.5")
    fixed.fit(firms[["value", "capital", "firm"]], firms["invest"], groups="firm")
    frame = fixed.variance_components_
    assert frame["lower"].isna().tolist() == [True, False]
    plain = SparseGPRegressor("rbf", n_inducing=5, epochs=2, auto="none").fit(firms[["value"]], firms["invest"])
    assert plain.variance_components_.empty


def test_reports_have_a_section_of_groups(firms, tmp_path):
    columns = ["value", "capital", "firm"]
    model = SparseGPRegressor("rbf(ard)", n_inducing=10, epochs=10).fit(firms[columns], firms["invest"], groups="firm")
    path = tmp_path / "report.html"
    model.report(path, firms[columns], firms["invest"])
    page = path.read_text(encoding="utf-8")
    assert "Levels of firm" in page and "How much levels differ" in page


def test_columns_and_arrays_of_levels_make_the_same_model(firms):
    X, y = firms[["value", "capital"]], firms["invest"]
    model = SparseGPRegressor("rbf(ard)", n_inducing=15, epochs=10)
    by_column = model.fit(firms[["value", "capital", "firm"]], y, groups="firm")
    mean, std = by_column.predict(firms[["value", "capital", "firm"]], return_std=True)
    again = pickle.loads(pickle.dumps(by_column))
    np.testing.assert_array_equal(again.predict(firms[["value", "capital", "firm"]]), mean)
    by_array = model.fit(X.to_numpy(), y.to_numpy(), groups=firms["firm"].to_numpy())
    np.testing.assert_allclose(by_array.predict(X.to_numpy(), groups=firms["firm"].to_numpy()), mean, rtol=1e-9)
    assert (std > 0).all()
    with pytest.raises(ValueError, match="groups is not given"):
        by_array.predict(X.to_numpy())


def test_saved_models_predict_from_the_columns_or_the_array_of_their_fit(firms, tmp_path):
    path, y, levels = tmp_path / "m.model", firms["invest"], firms["firm"].to_numpy()
    frame = firms[["firm", "value", "year", "capital"]]
    fitted = BayesianLinearRegressor(keep=["value", "capital"]).fit(frame, y, groups="year | firm")
    fitted.save(path)
    loaded = BayesianLinearRegressor.load(path)
    assert sorted(loaded.feature_names_in_) == ["capital", "firm", "value", "year"]
    np.testing.assert_array_equal(loaded.predict(frame), fitted.predict(frame))
    with pytest.raises(ValueError, match="firm"):
        loaded.predict(frame.drop(columns="firm"))
    for X in (firms[["value", "capital"]], firms[["value", "capital"]].to_numpy()):
        fitted = BayesianLinearRegressor().fit(X, y, groups=levels)
        fitted.save(path)
        loaded = BayesianLinearRegressor.load(path)
        np.testing.assert_array_equal(loaded.predict(X, groups=levels), fitted.predict(X, groups=levels))


def test_whole_numbers_beyond_floats_are_distinct_levels(firms):
    X, y = firms[["value", "capital"]].to_numpy(), firms["invest"].to_numpy()
    firm = np.unique(firms["firm"], return_inverse=True)[1]
    ids = 1234567890123456780 + firm.astype(np.int64)
    model = BayesianLinearRegressor().fit(X, y, groups=ids)
    likelihood = model.document_["groups"]["log_likelihood"]
    # statsmodels' value for the same firms by name.
    assert likelihood == pytest.approx(-1194.449896, rel=1e-7)
    frame = firms[["value", "capital"]].assign(id=ids)
    by_column = BayesianLinearRegressor().fit(frame, y, groups="id")
    assert by_column.document_["groups"]["log_likelihood"] == pytest.approx(likelihood, rel=1e-12)


def test_new_levels_have_wider_predictions(firms):
    columns = ["value", "capital", "firm"]
    model = SparseGPRegressor("rbf(ard)", n_inducing=15, epochs=10).fit(firms[columns], firms["invest"], groups="firm")
    row = firms[columns].head(1)
    _, known = model.predict(row, return_std=True)
    with pytest.warns(UserWarning, match="Acme"):
        _, new = model.predict(row.assign(firm="Acme"), return_std=True)
    assert new[0] > known[0]


def test_rows_of_one_level_covary(firms):
    X = firms[["value", "firm"]]
    model = SparseGPRegressor("rbf", n_inducing=5, epochs=2).fit(X, firms["invest"], groups="firm")
    _, covariance = model.predict(X, return_cov=True)
    _, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, rtol=1e-6)
    new = X.head(3).assign(value=1000.0, firm=["Acme", "Acme", "Other"])
    with pytest.warns(UserWarning, match="Acme"):
        _, covariance = model.predict(new, return_cov=True)
    # Two rows of one new firm share its effect, of which training saw nothing; those of two firms share the function alone.
    sd = model.variance_components_.set_index("group")["sd"]["firm"]
    np.testing.assert_allclose(covariance[0, 1] - covariance[0, 2], sd**2, rtol=1e-6)


def test_models_and_parameters_without_grouped_effects_are_refused(firms):
    plain = SparseGPRegressor("rbf", n_inducing=5, epochs=2, auto="none").fit(firms[["value"]], firms["invest"])
    assert isinstance(plain.effects_, pd.DataFrame) and plain.effects_.empty


def test_direct_losses_and_several_classes_have_groups(firms):
    X = firms[["value", "firm"]]
    direct = SparseGPRegressor("rbf", objective="dlm-log", n_inducing=5, epochs=30).fit(X, firms["invest"], groups="firm")
    assert len(direct.effects_) == 11 and direct.score(X, firms["invest"]) > 0.5
    size = pd.cut(firms["invest"], 3, labels=["low", "middle", "high"]).astype(str)
    classifier = SparseGPClassifier(n_inducing=5, epochs=10).fit(X, size, groups="firm")
    assert len(classifier.effects_) == 33 and (classifier.predict(X) == size).mean() > 0.7


def test_classes_counts_and_heavy_tails_have_groups(firms):
    X, large = firms[["value", "capital", "firm"]], firms["invest"] > 100
    levels = firms["firm"].to_numpy()
    classifier = SparseGPClassifier(n_inducing=8, epochs=15).fit(X, large, groups="firm")
    probabilities = classifier.predict_proba(X)
    assert probabilities.shape == (len(X), 2) and np.allclose(probabilities.sum(axis=1), 1)
    assert (classifier.predict(X) == large).mean() > 0.9
    assert len(classifier.effects_) == 11
    linear = BayesianLinearClassifier().fit(X[["value", "capital"]].to_numpy(), large.to_numpy(), groups=levels)
    np.testing.assert_allclose(linear.predict_proba(X[["value", "capital"]].to_numpy(), groups=levels).sum(axis=1), 1)
    with pytest.raises(ValueError, match="groups is not given"):
        linear.predict(X[["value", "capital"]].to_numpy())

    counts = SparseGPCountRegressor(n_inducing=8, epochs=15).fit(X, firms["invest"].round(), groups=["firm"])
    again = pickle.loads(pickle.dumps(counts))
    np.testing.assert_array_equal(again.predict(X), counts.predict(X))
    heavy = SparseGPRegressor("rbf(ard)", likelihood="student-t", n_inducing=8, epochs=15).fit(X, firms["invest"], groups="firm")
    assert heavy.document_["groups"]["residual_sd"] is None
    assert heavy.document_["groups"]["intraclass_correlations"] == {}
    assert heavy.score(X, firms["invest"]) > 0.8


def test_several_targets_have_separate_effects(firms):
    columns = ["value", "year", "firm"]
    linear = SparseGPMultiOutputRegressor(SparseGPRegressor("rbf(ard)", n_inducing=10, epochs=8))
    linear.fit(firms[columns], firms[["invest", "capital"]], groups="firm")
    one = SparseGPRegressor("rbf(ard)", n_inducing=10, epochs=8).fit(firms[columns], firms["invest"], groups="firm")
    np.testing.assert_array_equal(linear.estimators_[0].effects_["estimate"], one.effects_["estimate"])
    np.testing.assert_array_equal(linear.predict(firms[columns])[:, 0], one.predict(firms[columns]))
    with pytest.raises(TypeError, match="formulae"):
        linear.fit(firms[columns], firms[["invest", "capital"]], groups=np.arange(len(firms)))


def test_neighbours_can_be_combined_with_groups(firms):
    columns = ["value", "capital", "firm"]
    model = SparseGPRegressor("matern32(ard)", n_inducing=5, neighbours=10)
    model.fit(firms[columns], firms["invest"], groups="firm")
    components = model.variance_components_.set_index("group")
    assert components.loc["firm", "lower"] < components.loc["firm", "sd"] < components.loc["firm", "upper"]
    mean, std = model.predict(firms[columns], return_std=True)
    assert np.corrcoef(mean, firms["invest"])[0, 1] > 0.95 and (std > 0).all()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(firms[columns]), mean)
