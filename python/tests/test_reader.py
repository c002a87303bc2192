"""The reader of model files, which needs only NumPy, has the predictions of the package, and refuses unsupported models
by name."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "examples" / "data"
sys.path.insert(0, str(ROOT / "python" / "reader"))

import sparsegp_reader  # noqa: E402

QUICK = "--auto none --quiet --inducing 25 --epochs 4"

#: The data, the target and the options of fits that the reader supports.
FITS = {
    "rbf": ("engel", "food", "--kernel rbf --likelihood gaussian"),
    "student-t": ("engel", "food", "--likelihood student-t"),
    "matern12": ("iris", "sepal_length", "--exclude species --kernel matern12(ard)"),
    "category": ("iris", "sepal_length", "--kernel matern32(ard)"),
    "rational quadratic": ("iris", "sepal_length", "--kernel rational_quadratic(ard)"),
    "sums and products": ("iris", "sepal_length", "--kernel (rbf+constant)[0:2]*matern52[2,3]+scale(wendland(smoothness=2))[1]"),
    "wendland": ("iris", "sepal_length", "--exclude species --kernel wendland(smoothness=0)+wendland"),
    "warped kernel": ("iris", "sepal_length", "--kernel warp(matern52(ard)) --hyper joint"),
    "log target": ("grunfeld", "invest", "--warp-target log --categorical year"),
    "normal scores": ("grunfeld", "invest", "--warp-inputs normal-scores"),
    "collapsed": ("iris", "sepal_length", "--objective vfe"),
    "diagonal": ("iris", "sepal_length", "--family diagonal"),
    "zero mean": ("engel", "food", "--mean zero --objective dlm-log"),
    "poisson": ("visits", "visits", "--likelihood poisson"),
    "exposure": ("visits", "visits", "--likelihood poisson --exposure physlm_exposure"),
    "probit": ("breast_cancer", "diagnosis", "--likelihood bernoulli-probit"),
    "logit": ("breast_cancer", "diagnosis", "--likelihood bernoulli-logit"),
    "missing cells": ("gaps", "sepal_length", "--kernel matern52(ard)"),
}

#: Fits that the reader refuses, with the words of the refusal.
REFUSED = {
    "linear kernel": ("engel", "food", "--kernel linear+rbf", "the kernel linear"),
    "changepoint": ("engel", "food", "--kernel changepoint(rbf(ard),matern12)", "the kernel changepoint"),
    "linear model": ("engel", "food", "--model glm", "linear models"),
    "softplus target": ("grunfeld", "invest", "--warp-target softplus", "the target warp softplus"),
    "neighbours": ("engel", "food", "--neighbours 5", "neighbours"),
    "several classes": ("iris", "species", "", "several latent functions"),
    "several targets": ("iris", "sepal_length,sepal_width", "", "several targets"),
    "negative binomial": ("visits", "visits", "--likelihood negative-binomial", "the likelihood negative-binomial"),
    "groups": ("iris", "sepal_length", "--group species", "grouped effects"),
    "mean alone": ("engel", "food", "--objective dlm-square", "dlm-square"),
    "dates": ("dates", "food", "", "read as numbers or dates: day"),
}


def run(folder, *arguments):
    command = [sys.executable, "-m", "sparsegp", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a folder with the data of all fits."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("engel", "iris", "grunfeld", "breast_cancer"):
        (folder / f"{name}.csv").write_text((DATA / f"{name}.csv").read_text())
    lines = (DATA / "doctor_visits.csv").read_text().splitlines()[:500]
    exposed = [f"{line},{1 + row % 3}" for row, line in enumerate(lines[1:])]
    (folder / "visits.csv").write_text("\n".join([lines[0] + ",physlm_exposure", *exposed]) + "\n")
    header, *rows = (DATA / "iris.csv").read_text().splitlines()
    gaps = [",".join("" if (row + 3 * column) % 17 == 0 and column else cell for column, cell in enumerate(line.split(","))) for row, line in enumerate(rows)]
    (folder / "gaps.csv").write_text("\n".join([header, *gaps]) + "\n")
    days = [f"2024-{1 + row % 12:02}-{1 + row % 28:02},{line}" for row, line in enumerate((DATA / "engel.csv").read_text().splitlines()[1:])]
    (folder / "dates.csv").write_text("\n".join(["day,income,food", *days]) + "\n")
    return folder


def columns(text):
    """Returns the columns of a CSV text by name, as lists of text."""
    header, *rows = list(csv.reader(text.splitlines()))
    return {name: [row[place] for row in rows] for place, name in enumerate(header)}


@pytest.mark.parametrize("name", FITS)
def test_predictions_are_those_of_the_package(folder, name):
    data, target, options = FITS[name]
    model, table = f"{name.replace(' ', '-')}.model", f"{data}.csv"
    run(folder, "fit", table, "--target", target, *QUICK.split(), *options.split(), "--model-out", model)
    expected = columns(run(folder, "predict", model, table, "--latent", "--out", "-"))
    read = sparsegp_reader.load(folder / model)
    assert read.target == target
    rows = columns((folder / table).read_text())
    found = read.predict(rows)
    compared = [column for column in expected if column not in ("label", "log_density")]
    assert "latent_mean" in compared and ("mean" in compared or read.classes == ["benign", "malignant"])
    for column in compared:
        own = found["probability" if column.startswith("probability_") else column]
        theirs = np.array([float(cell) for cell in expected[column]])
        scale = np.maximum(np.abs(theirs), np.std(theirs))
        assert np.all(np.abs(own - theirs) <= 1e-10 * np.maximum(scale, 1e-3)), (column, np.max(np.abs(own - theirs) / scale))
    # Rows that are predicted one by one have the same predictions.
    some = [{key: cells[row] for key, cells in rows.items()} for row in (0, 5)]
    for column, values in read.predict(some).items():
        np.testing.assert_allclose(values, found[column][[0, 5]], rtol=1e-10)


def test_levels_and_cells_unlike_training_are_treated_as_by_the_package(folder):
    run(folder, "fit", "iris.csv", "--target", "sepal_length", *QUICK.split(), "--model-out", "new.model")
    (folder / "new.csv").write_text("species,petal_width,petal_length,sepal_width\nrose,1,2,3\n,1,2,3\nsetosa,,2,3\n")
    expected = columns(run(folder, "predict", "new.model", "new.csv", "--out", "-"))
    found = sparsegp_reader.load(folder / "new.model").predict(columns((folder / "new.csv").read_text()))
    for column in ("mean", "variance"):
        np.testing.assert_allclose(found[column], [float(cell) for cell in expected[column]], rtol=1e-10)


def test_frames_and_arrays_of_the_package_are_read(folder, co2):
    import pandas as pd

    import sparsegp

    X, y = co2
    estimator = sparsegp.SparseGPRegressor("matern32", n_inducing=30, auto="none").fit(X, y)
    estimator.save(folder / "arrays.model")
    mean, std = estimator.predict(X, return_std=True)
    found = sparsegp_reader.load(folder / "arrays.model").predict(X)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-10)
    np.testing.assert_allclose(found["variance"], std**2, rtol=1e-8)
    frame = pd.read_csv(DATA / "iris.csv")
    estimator = sparsegp.SparseGPRegressor(n_inducing=20, auto="none").fit(frame.drop(columns="sepal_length"), frame["sepal_length"])
    estimator.save(folder / "frame.model")
    found = sparsegp_reader.load(folder / "frame.model").predict(frame)
    np.testing.assert_allclose(found["mean"], estimator.predict(frame.drop(columns="sepal_length")), rtol=1e-10)


@pytest.mark.parametrize("name", REFUSED)
def test_other_models_are_refused_by_name(folder, name):
    data, target, options, words = REFUSED[name]
    model = f"refused-{name.replace(' ', '-')}.model"
    # A linear model has no inducing inputs.
    quick = QUICK.replace("--inducing 25", "") if "glm" in options else QUICK
    run(folder, "fit", f"{data}.csv", "--target", target, *quick.split(), *options.split(), "--model-out", model)
    with pytest.raises(sparsegp_reader.UnreadableModel, match=words) as refused:
        sparsegp_reader.load(folder / model)
    assert "\n" not in str(refused.value) and "use the package sparsegp" in str(refused.value)


def test_damaged_files_and_other_files_are_refused(folder):
    run(folder, "fit", "engel.csv", "--target", "food", *QUICK.split(), "--model-out", "whole.model")
    whole = (folder / "whole.model").read_bytes()
    sparsegp_reader.Model(whole)
    changed = bytearray(whole)
    changed[-3] ^= 1
    cases = [(b"", "not a sparsegp model"), (b"year,co2\n1,2\n", "not a sparsegp model"), (whole[:-100], "damaged"), (bytes(changed), "damaged")]
    for data, words in [*cases, (whole.replace(b'"version":"1"', b'"version":"99"'), "version 99|not a sparsegp model")]:
        with pytest.raises(sparsegp_reader.UnreadableModel, match=words):
            sparsegp_reader.Model(data)


def test_rows_that_cannot_be_read_are_named(folder):
    run(folder, "fit", "engel.csv", "--target", "food", *QUICK.split(), "--model-out", "rows.model")
    model = sparsegp_reader.load(folder / "rows.model")
    with pytest.raises(ValueError, match="the rows lack columns: 'income'"):
        model.predict({"outcome": [1]})
    with pytest.raises(ValueError, match="row 2, column 'income': found 'much', expected a number"):
        model.predict({"income": [1, "much"]})
    with pytest.raises(ValueError, match=r"shape \(3,\), expected \(n, 1\)"):
        model.predict(np.zeros(3))
