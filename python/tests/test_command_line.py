"""The command line in the wheel, and model files that it shares with the estimators, with equal bits."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparsegp

DATA = Path(__file__).resolve().parents[2] / "examples" / "data"



def run(*arguments, cwd=None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sparsegp", *map(str, arguments)], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def columns(path) -> dict:
    with open(path, newline="") as file:
        return {name: cells for name, *cells in zip(*csv.reader(file))}


def numbers(cells) -> np.ndarray:
    return np.array([float(cell) for cell in cells])


def test_errors_and_exit_statuses(tmp_path):
    assert run("--version").startswith(f"sparsegp {sparsegp.__version__}")
    done = subprocess.run([sys.executable, "-m", "sparsegp", "fit", "no.csv", "--target", "y"], capture_output=True)
    assert done.returncode == 3 and done.stderr.startswith(b"error: no.csv")


@pytest.mark.parametrize("options", [{}, {"auto": "none", "n_inducing": 30, "batch_size": 100, "epochs": 3}])
def test_a_fit_is_that_of_the_command_line(tmp_path, options):
    model_file, out, data = tmp_path / "co2.model", tmp_path / "predicted.csv", tmp_path / "co2.csv"
    data.write_text("\n".join((DATA / "co2_monthly.csv").read_text().splitlines()[:151]) + "\n")
    words = {"n_inducing": "inducing"}
    asked = [part for name, value in options.items() for part in (f"--{words.get(name, name).replace('_', '-')}", value)]
    run("fit", data, "--target", "co2", "--quiet", "--model-out", model_file, *asked)
    run("predict", model_file, data, "--out", out, "--quantiles", "0.05,0.95", "--latent")
    told = columns(out)

    import pandas as pd

    frame = pd.read_csv(data)
    X, y = frame[["year"]], frame["co2"]
    own = sparsegp.SparseGPRegressor(**options).fit(X, y)
    loaded = sparsegp.SparseGPRegressor.load(model_file)
    for model in (own, loaded):
        mean, std, quantiles = model.predict(X, return_std=True, quantiles=[0.05, 0.95])
        latent, variance = model.predict_f(X)
        assert np.array_equal(mean, numbers(told["mean"]))
        assert np.array_equal(std, np.sqrt(numbers(told["variance"])))
        assert np.array_equal(quantiles, np.column_stack([numbers(told["q0.05"]), numbers(told["q0.95"])]))
        assert np.array_equal(latent, numbers(told["latent_mean"]))
        assert np.array_equal(variance, numbers(told["latent_variance"]))
        assert np.array_equal(model.log_density(X, y), numbers(told["log_density"]))
    assert own.kernel_ == loaded.kernel_


def test_classes_go_both_ways(tumours, tmp_path):
    X, y = tumours
    model = sparsegp.SparseGPClassifier(auto="none", n_inducing=20, epochs=10).fit(X, y)
    file, out = tmp_path / "own.model", tmp_path / "predicted.csv"
    model.save(file)
    run("predict", file, DATA / "breast_cancer.csv", "--out", out)
    told = columns(out)
    assert model.predict(X).tolist() == list(told["label"])
    assert np.array_equal(model.predict_proba(X)[:, 1], numbers(told["probability_malignant"]))
    again = sparsegp.SparseGPClassifier.load(file)
    assert again.classes_.tolist() == model.classes_.tolist() == ["benign", "malignant"]
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.feature_names_in_.tolist() == list(X.columns)


def test_models_of_arrays_have_columns_for_the_command_line(co2, tmp_path):
    X, y = co2
    model = sparsegp.SparseGPRegressor("rbf", n_inducing=20, auto="none").fit(X, y)
    model.save(tmp_path / "array.model")
    (tmp_path / "new.csv").write_text("x0\n" + "".join(f"{float(x)!r}\n" for x in X[:5, 0]))
    run("predict", "array.model", "new.csv", "--out", "out.csv", cwd=tmp_path)
    assert np.array_equal(model.predict(X[:5]), numbers(columns(tmp_path / "out.csv")["mean"]))
    told = json.loads(run("inspect", "array.model", "--json", cwd=tmp_path))
    assert told["hyperparameters"] == model.document_["hyperparameters"]
    again = sparsegp.SparseGPRegressor.load(tmp_path / "array.model")
    assert np.array_equal(again.predict(X), model.predict(X)) and not hasattr(again, "feature_names_in_")


def test_a_model_of_another_kind_is_refused(co2, tmp_path):
    file = tmp_path / "line.model"
    sparsegp.BayesianLinearRegressor().fit(*co2).save(file)
    assert sparsegp.BayesianLinearRegressor.load(file).coef_.shape == (1,)
    for other in (sparsegp.SparseGPRegressor, sparsegp.SparseGPClassifier, sparsegp.BayesianLinearClassifier):
        with pytest.raises(ValueError, match="linear model of a real target"):
            other.load(file)


def test_a_damaged_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "bad.model").write_bytes(b"not a model")
    with pytest.raises(ValueError, match="bad.model") as error:
        sparsegp.SparseGPRegressor.load(tmp_path / "bad.model")
    assert "\n" not in str(error.value)


def test_a_grid_is_written_as_netcdf(tmp_path):
    import pandas as pd
    from scipy.io import netcdf_file

    model_file, grid = tmp_path / "storms.model", ["--grid", "lon=-90:-30:20,lat=35:15:-10,month=9"]
    asked = ["--places", "lon,lat", "--exclude", "storm", "--auto", "none", "--inducing", "20", "--epochs", "3"]
    run("fit", DATA / "storms.csv", "--target", "wind", "--quiet", "--model-out", model_file, *asked)
    for name in ("map.csv", "map.nc"):
        run("predict", model_file, *grid, "--out", tmp_path / name)
    table = pd.read_csv(tmp_path / "map.csv").pivot(index="lat", columns="lon").iloc[::-1]
    with netcdf_file(tmp_path / "map.nc", mmap=False) as file:
        assert file.Conventions == b"CF-1.8" and file.dimensions == {"lat": 3, "lon": 4}
        variables = file.variables
    assert [variables[name].units for name in ("lon", "lat")] == [b"degrees_east", b"degrees_north"]
    assert np.array_equal(variables["lon"][:], [-90, -70, -50, -30]) and np.array_equal(variables["lat"][:], [35, 25, 15])
    assert variables["mean"].dimensions == ("lat", "lon") and variables["month"].getValue() == 9
    assert np.array_equal(variables["mean"][:], table["mean"])
    assert np.array_equal(variables["standard_deviation"][:], np.sqrt(table["variance"]))
