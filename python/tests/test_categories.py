"""Categories in tables: levels that training did not see, with every estimator and kind of prediction."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sparsegp import BayesianLinearRegressor, SparseGPClassifier, SparseGPRegressor

FIT = {"auto": "none", "n_inducing": 20, "epochs": 5}


def frame(rows, levels):
    i = np.arange(rows)
    city = pd.Series([f"city {k}" for k in i * 31 % levels])
    X = pd.DataFrame({"a": (i * 13 % 97) / 30, "city": city})
    return X, np.sin(X["a"]) + i * 31 % levels % 5


def new():
    """Returns a level that training saw, two levels that it did not see, and a missing cell."""
    return pd.DataFrame({"a": [1.0, 1.0, 1.0, 1.0], "city": ["city 3", "Rome", "Oslo", None]})


@pytest.mark.parametrize("estimator", [SparseGPRegressor, BayesianLinearRegressor])
def test_unseen_levels_are_new_levels_with_one_warning_or_errors(estimator):
    X, y = frame(150, 12)
    given = FIT if estimator is SparseGPRegressor else {"auto": "none"}
    model = estimator(**given).fit(X, y)
    with pytest.warns(UserWarning, match=r"'city' \(3 rows, such as 'Rome', 'Oslo', 'a missing cell'\)") as told:
        mean, std = model.predict(new(), return_std=True)
    assert len(told) == 1 and np.isfinite(mean).all()
    if estimator is SparseGPRegressor:
        assert mean[1] == mean[2] and std[1] > std[0]
    with pytest.raises(ValueError, match="unseen='new'"):
        model.set_params(unseen="error").predict(new())
    with pytest.raises(ValueError, match="expected 'new' or 'error'"):
        model.set_params(unseen="zeros").predict(X)


def test_folds_with_unseen_levels_have_scores():
    X, y = frame(120, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target, estimator in [(y, SparseGPRegressor(**FIT)), (np.asarray(y > 2), SparseGPClassifier(**FIT))]:
            for columns in [X, X.astype({"city": "category"})]:
                scores = cross_val_score(estimator, columns, target, cv=5, error_score="raise")
                assert np.isfinite(scores).all()


@pytest.mark.parametrize("dtype", [object, "str"])
def test_texts_that_are_all_numbers_are_categories_in_every_part_of_the_rows(dtype):
    cylinders = pd.Series(["4", "6", "8", None] * 12 + ["rotary"] * 60).astype(dtype)
    frame = pd.DataFrame({"cylinders": cylinders, "power": np.sin(np.arange(108.0))})
    target = frame["power"] + 3 * (cylinders == "8")
    model = SparseGPRegressor("rbf(ard)", auto="none", n_inducing=20, epochs=10).fit(frame[:48], target[:48])
    with pytest.warns(UserWarning, match="rotary"):
        assert np.isfinite(model.predict(frame)).all()
    assert model.score(frame[:48], target[:48]) > 0.9
