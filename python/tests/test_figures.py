"""Comparisons and figures: what they show is there; no looks."""

import numpy as np
import pytest

import sparsegp
from sparsegp import plot


@pytest.fixture(scope="module")
def line():
    X = np.linspace(0, 10, 80)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0])
    return sparsegp.SparseGPRegressor("rbf", n_inducing=12, auto="none").fit(X, y), X, y


def test_every_figure_is_on_its_axes(line, tumours):
    import matplotlib.pyplot as plt

    model, X, y = line
    _, axes = plt.subplots(2, 2)
    assert plot.fit(model, X, y, ax=axes[0, 0]) is axes[0, 0]
    assert len(axes[0, 0].collections) == 2 and len(axes[0, 0].lines) == 2
    assert plot.calibration(model, X, y, ax=axes[0, 1]).lines[1].get_ydata()[-1] == 1.0
    assert len(plot.trace(model, ax=axes[1, 0]).lines[0].get_xdata()) == model.n_iter_
    assert len(plot.residuals(model, X, y, ax=axes[1, 1]).lines[-1].get_xdata()) == len(y)
    features, classes = tumours
    classifier = sparsegp.SparseGPClassifier("rbf", n_inducing=10, epochs=5, auto="none").fit(features, classes)
    assert plot.calibration(classifier, features, classes).get_xlabel().startswith("probability")
    by_name = sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none").fit(features, features["worst_radius"])
    assert plot.fit(by_name, features, feature="worst_radius").get_xlabel() == "worst_radius"
    plt.close("all")


def test_a_comparison_is_the_engine_s(line, tmp_path):
    _, X, y = line
    found = sparsegp.compare(
        X, y, ["elbo", "vfe"], repeats=2, train_sizes=[30, 50], options={"inducing": 8, "epochs": 5}, folder=tmp_path
    )
    assert found.results["nll"].shape == (8,) and set(found.results["objective"]) == {"elbo", "vfe"}
    assert np.isfinite(found.summary["nll_mean"]).all()
    assert len(found.plot().containers) == 2
    with pytest.raises(ValueError, match="objectives"):
        sparsegp.compare(X, y, [])
