"""Comparisons and figures: their contents, not their appearance."""

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


def test_figures_of_inputs_classes_and_noise(tumours, loads):
    import matplotlib.pyplot as plt
    import polars
    import pyarrow

    features, classes = tumours
    noisy = features.assign(idle=np.random.default_rng(0).normal(size=len(features)))
    classifier = sparsegp.SparseGPClassifier("rbf(ard)", n_inducing=15, auto="none").fit(noisy, classes)
    for ax in (plot.relevance(classifier), plot.relevance(classifier, noisy, classes, repeats=2)):
        widths = [bar.get_width() for bar in ax.patches]
        assert [label.get_text() for label in ax.get_yticklabels()] == list(noisy.columns) and np.argmin(widths) == 2
    with pytest.raises(ValueError, match="needs y"):
        plot.relevance(classifier, noisy)
    ax = plot.decision_regions(classifier, noisy, classes, features=("worst_radius", 1), points=20)
    assert len(ax.images) == 2 and (ax.get_xlabel(), ax.get_ylabel()) == ("worst_radius", "worst_concave_points")
    sides = ax.images[0].get_alpha() > 0
    # Small tumours are benign, and every point has one class.
    assert sides[0, 0] and not sides[-1, -1] and (sides ^ (ax.images[1].get_alpha() > 0)).all()
    rising = plot.partial_dependence(classifier, noisy, "worst_radius").lines[0].get_ydata()
    assert rising[-1] > 0.5 > rising[0]

    # The dependence does not depend on the type of table; for a category it covers every level.
    X, y = loads[["hour", "side"]], loads["load"]
    model = sparsegp.SparseGPRegressor(n_inducing=20, auto="none").fit(X, y)
    tables = [X, polars.DataFrame({"hour": X["hour"].to_numpy(), "side": X["side"].tolist()})]
    tables.append(pyarrow.table({"hour": X["hour"].to_numpy(), "side": X["side"].tolist()}))
    lines = [plot.partial_dependence(model, table, 0, points=8).lines[0].get_ydata() for table in tables]
    assert np.allclose(lines[0], lines[1]) and np.allclose(lines[0], lines[2])
    levels = plot.partial_dependence(model, X, "side").containers[0].lines[0]
    heights = dict(zip(levels.get_xdata(), levels.get_ydata()))
    assert heights["left"] > max(heights["right"], heights["both"]) + 0.5
    with pytest.raises(ValueError, match="no input 'hours'"):
        plot.partial_dependence(model, X, "hours")

    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 10, (400, 1)), axis=0)
    y = 20 + 5 * (0.1 + 0.1 * X[:, 0]) * rng.normal(size=400)
    even = sparsegp.SparseGPRegressor("rbf", n_inducing=10, auto="none").fit(X, y)
    assert np.allclose(plot.noise(even, X).lines[0].get_ydata(), even.noise_variance_**0.5)
    varying = sparsegp.SparseGPRegressor("rbf", likelihood="gaussian-heteroskedastic", n_inducing=10, auto="none").fit(X, y)
    found = plot.noise(varying, X).lines[0].get_ydata()
    # The standard deviation of forty rows has an error of a ninth; three times this error is within this factor.
    assert 0.66 < found[20] / (0.5 + 0.5 * X[20, 0]) < 1.5 and 0.66 < found[-20] / (0.5 + 0.5 * X[-20, 0]) < 1.5
    with pytest.raises(ValueError, match="adds no noise"):
        plot.noise(sparsegp.SparseGPRegressor("rbf", likelihood="gamma", n_inducing=5, epochs=2, auto="none").fit(X, np.exp(y / 9)), X)
    plt.close("all")


def test_a_comparison_is_the_engine_s(line, tmp_path):
    _, X, y = line
    found = sparsegp.compare(
        X, y, ["elbo", "vfe"], repeats=2, train_sizes=[30, 50], options={"inducing": 8, "epochs": 5}, folder=tmp_path
    )
    assert found.results["nll"].shape == (8,) and set(found.results["objective"]) == {"elbo", "vfe"}
    assert np.isfinite(found.summary["nll_mean"]).all()
    assert len(found.plot().containers) == 2 and found.frame["nll_mean"].tolist() == found.summary["nll_mean"].tolist()
    with pytest.raises(ValueError, match="objectives"):
        sparsegp.compare(X, y, [])


def test_a_comparison_prints_as_a_table_of_its_means(tumours):
    X, y = tumours
    found = sparsegp.compare(X[:120], y[:120], ["elbo"], repeats=2, options={"inducing": 10, "epochs": 2})
    header, row = repr(found).splitlines()
    assert header.split("  ")[0] == "objective" and "error rate" in header and "RMSE" not in header
    assert row.startswith("elbo") and f"{found.summary['nll_mean'][0]:.4g} ± " in row
