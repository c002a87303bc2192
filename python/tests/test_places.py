"""Places: estimators, units of lengthscales, grids, maps, refusals."""

import pickle

import numpy as np
import pandas as pd
import pytest

import sparsegp
from sparsegp import SparseGPRegressor, plot


@pytest.fixture(scope="module")
def stations():
    rng = np.random.default_rng(0)
    lon, lat = rng.uniform(-10, 20, 200), rng.uniform(40, 60, 200)
    X = pd.DataFrame({"lon": lon, "lat": lat, "height": rng.uniform(0, 1000, 200)})
    y = 40 - 0.5 * lat + 2 * np.sin(lon / 4) - X["height"] / 150 + 0.2 * rng.normal(size=200)
    return X, y.rename("temperature")


@pytest.fixture(scope="module")
def model(stations):
    return SparseGPRegressor("matern32(ard)", places=["lon", "lat"], n_inducing=30, epochs=20, auto="none").fit(*stations)


def test_a_place_has_one_lengthscale_in_km_and_the_model_keeps_it(stations, model):
    X, _ = stations
    lengths = {name: value for name, value in model.hyperparameters_.items() if "lengthscales" in name}
    assert set(lengths) == {"kernel.lengthscales[lon, lat]", "kernel.lengthscales[height]"}
    assert 50 < lengths["kernel.lengthscales[lon, lat]"] < 20_000
    assert list(model.feature_names_in_) == ["lon", "lat", "height"] and model.n_features_in_ == 3
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    turned = X.assign(lon=X["lon"] + 360.0).where(X["lon"] < 0, X)
    np.testing.assert_allclose(model.predict(turned), model.predict(X), rtol=1e-9)


def test_arrays_and_planes_have_places_too(stations):
    X, y = stations
    made = SparseGPRegressor("rbf(ard)", plane=["x0", "x1"], n_inducing=15, epochs=5, auto="none").fit(X.to_numpy(), y)
    assert "kernel.lengthscales[x0, x1]" in made.hyperparameters_
    assert made.n_features_in_ == 3


def test_a_grid_has_every_combination_and_is_predicted_as_rows(model):
    frame = sparsegp.grid(lon=(0, 1, 0.5), lat=[45, 50], height=100)
    assert frame["lon"].tolist() == [0.0, 0.0, 0.5, 0.5, 1.0, 1.0] and set(frame["height"]) == {100}
    assert len(model.predict(frame)) == 6
    assert sparsegp.grid({"a b": (0, 0.3, 0.1)})["a b"].tolist() == pytest.approx([0, 0.1, 0.2, 0.3])
    for axes, words in [({"a": (0, 1)}, "expected"), ({"a": (0, 1, -1)}, "cannot be reached"), ({}, "no columns")]:
        with pytest.raises(ValueError, match=words):
            sparsegp.grid(axes)


def test_a_map_shows_mean_and_standard_deviation(stations, model):
    import matplotlib.pyplot as plt

    X, y = stations
    left, right = plot.map(model, X, points=12, at={"height": 0})
    assert (left.get_title(), right.get_title()) == ("mean", "standard deviation")
    assert (left.get_xlabel(), left.get_ylabel()) == ("lon", "lat")
    shown = left.collections[0].get_array()
    assert shown.size == 144
    plain = SparseGPRegressor("rbf(ard)", n_inducing=10, epochs=2, auto="none").fit(X, y)
    with pytest.raises(ValueError, match="needs a model with places"):
        plot.map(plain, X)
    with pytest.raises(ValueError, match="at names 'depth'"):
        plot.map(model, X, at={"depth": 1})
    plt.close("all")


def test_invalid_places_are_refused(stations):
    X, y = stations
    for places, words in [
        ({"places": ["lon"]}, "expected the names of two columns"),
        ({"places": ["lon", "lat"], "plane": ["lon", "lat"]}, "exclude each other"),
        ({"places": ["lon", "depth"]}, "depth"),
        ({"places": ["lon", "height"]}, "expected a latitude from -90 to 90"),
    ]:
        with pytest.raises(ValueError, match=words):
            SparseGPRegressor("rbf(ard)", auto="none", **places).fit(X, y)


def test_a_map_of_measurements_with_errors_is_the_kriging_of_the_surface():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.uniform(0, 10, (80, 2)), columns=["x", "y"])
    errors = np.where(np.arange(80) % 2, 0.05, 1.0)
    y = np.sin(frame["x"]) + np.cos(0.7 * frame["y"]) + errors * random.normal(size=80)
    options = {"fix_inducing": True, "jitter": 1e-12}
    model = SparseGPRegressor(
        "rbf", likelihood="gaussian-known-noise-only", n_inducing=80, auto="none", plane=["x", "y"], options=options
    ).fit(frame, y, noise_std=errors)
    points = sparsegp.grid(x=(0, 10, 5), y=(0, 10, 5))
    mean, std = model.predict(points, return_std=True)
    # Kriging with the errors on the diagonal, without noise at the points of the map.
    found = model.hyperparameters_
    variance, length, constant = (found[name] for name in ("kernel.variance", "kernel.lengthscales[x, y]", "mean.constant"))

    def covariance(a, b):
        return variance * np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1) / length**2)

    places, targets = frame.to_numpy(), points.to_numpy(float)
    cross = covariance(targets, places)
    weights = np.linalg.solve(covariance(places, places) + np.diag(errors**2), cross.T).T
    np.testing.assert_allclose(mean, constant + weights @ (y - constant), atol=1e-6)
    np.testing.assert_allclose(std, np.sqrt(variance - (weights * cross).sum(axis=1)), atol=1e-6)
