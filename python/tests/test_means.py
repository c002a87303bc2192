"""A mean from trees, another estimator or a function."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sparsegp import SVGP, BayesianLinearRegressor, SparseGPClassifier, SparseGPMultiOutputRegressor, SparseGPRegressor

RNG = np.random.default_rng(0)
SHORT = {"kernel": "matern32(ard)", "auto": "none", "n_inducing": 40, "epochs": 20}


def jumps(rows):
    """Rows whose target jumps by the levels of a code that come in no order."""
    frame = pd.DataFrame({"code": RNG.integers(0, 30, rows), "size": RNG.normal(size=rows)})
    target = 3.0 * np.sin(7.0 * frame["code"] ** 2) + np.sign(frame["size"] - 0.3) + 0.1 * RNG.normal(size=rows)
    return frame, target.rename("price")


X, y = jumps(500)
X_NEW, Y_NEW = jumps(300)


def test_an_estimator_helps_as_the_engines_trees_do():
    plain = SparseGPRegressor(mean="constant", **SHORT).fit(X, y)
    loss = {"constant": -np.mean(plain.log_density(X_NEW, Y_NEW))}
    for name, mean in {"trees": "trees", "sklearn": HistGradientBoostingRegressor(min_samples_leaf=5)}.items():
        model = SparseGPRegressor(mean=mean, **SHORT).fit(X, y)
        loss[name] = -np.mean(model.log_density(X_NEW, Y_NEW))
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X_NEW), model.predict(X_NEW))
    assert loss["trees"] < loss["constant"] - 0.3 and loss["sklearn"] < loss["constant"] - 0.3, loss


def test_scores_of_training_rows_are_those_of_folds_that_did_not_see_them():
    """A tree that looks up every row knows training targets, unless it did not see the row."""
    noise = RNG.normal(size=400)
    rows = RNG.normal(size=(400, 1))
    model = SparseGPRegressor(mean=DecisionTreeRegressor(), cv=KFold(4), **SHORT).fit(rows, noise)
    assert len(model._mean.models) == 4
    density = np.mean(model.log_density(rows, noise))
    assert density < -0.5 * np.log(2 * np.pi) - 0.5 + 0.1, "no better than the noise's own density"
    held = model._mean.models[0].predict(rows[:100])
    assert not np.allclose(held, noise[:100])
    with pytest.raises(ValueError, match="holds out row 200 2 times, expected every row once"):
        SparseGPRegressor(mean=DecisionTreeRegressor(), cv=[(np.arange(200), np.arange(200, 400)), (np.arange(200, 400), np.arange(400))][::-1], **SHORT).fit(rows, noise)


def test_a_linear_model_with_a_linear_mean_agrees_with_it():
    rows = RNG.normal(size=(200, 3))
    target = rows @ [1.0, -2.0, 0.5] + 4.0
    model = BayesianLinearRegressor(mean=LinearRegression(), cv=3).fit(rows, target)
    np.testing.assert_allclose(model.predict(rows), target, atol=1e-3)


def test_classes_and_functions_of_rows():
    labels = np.where(y > 1.0, "high", np.where(y > -1.0, "middle", "low"))
    for classes in (labels, np.where(y > 0, "yes", "no")):
        model = SparseGPClassifier(mean=HistGradientBoostingClassifier(max_iter=30), **SHORT).fit(X, classes)
        plain = SparseGPClassifier(mean="constant", **SHORT).fit(X, classes)
        assert model.score(X, classes) >= plain.score(X, classes)
        assert len(model._mean.names) == (1 if len(np.unique(classes)) == 2 else 3)
    known = lambda rows: 3.0 * np.sin(7.0 * np.asarray(rows)[:, 0] ** 2)  # noqa: E731
    model = SparseGPRegressor(mean=known, **SHORT).fit(X.to_numpy(float), y)
    assert np.sqrt(np.mean((model.predict(X_NEW.to_numpy(float)) - Y_NEW) ** 2)) < 0.5


def test_wrong_means_are_refused(tmp_path):
    with pytest.raises(TypeError, match="mean is 3, expected a word, an estimator"):
        SparseGPRegressor(mean=3).fit(X, y)
    with pytest.raises(ValueError, match="a value that is not finite for row 0"):
        SparseGPRegressor(mean=lambda rows: np.full(len(rows), np.nan), **SHORT).fit(X, y)
    with pytest.raises(ValueError, match="for a single target"):
        SparseGPMultiOutputRegressor(SparseGPRegressor(mean=LinearRegression())).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="mean='trees' needs an estimator"):
        SVGP("rbf", np.zeros((3, 1)), options={"mean": "trees"})
    model = SparseGPRegressor(mean=LinearRegression(), **SHORT).fit(X, y)
    with pytest.raises(ValueError, match="which a model file cannot hold"):
        model.save(tmp_path / "own.model")
    rare = np.where(np.arange(500) < 3, "rare", np.where(y > 0, "yes", "no"))
    with pytest.raises(ValueError, match="lack a class, expected rows of every class"):
        SparseGPClassifier(mean=DecisionTreeClassifier(), cv=GroupKFold(2).split(X, groups=np.arange(500) < 3), **SHORT).fit(X, rare)
