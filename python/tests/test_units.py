"""Constraints on hyper-parameters in units of columns, in Python and on the command line."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from sparsegp import SVGP, SparseGPMultiOutputRegressor, SparseGPRegressor
from sparsegp.kernels import RBF, Periodic

RNG = np.random.default_rng(3)
FRAME = pd.DataFrame({"hour": RNG.uniform(0, 72, 200), "metres [a=b]": 1000 * RNG.uniform(1, 9, 200)})
LOAD = pd.Series(50 + 9 * np.sin(FRAME["hour"] * 2 * np.pi / 24) + RNG.normal(size=200), name="load")
PLAIN = {"auto": "none", "n_inducing": 20, "epochs": 15}


def fitted(kernel="rbf(ard)", **params):
    return SparseGPRegressor(kernel, **{**PLAIN, **params}).fit(FRAME, LOAD)


def test_fixed_values_are_in_units_of_the_column():
    names = ("kernel.lengthscales[hour]", "kernel.lengthscales[metres [a=b]]", "likelihood.noise_variance")
    values = fitted(fix=[f"{names[0]}=6", f"{names[1]}=2500", f"{names[2]}[load]=1.5"]).hyperparameters_
    assert [values[name] for name in names] == pytest.approx([6, 2500, 1.5])


def test_columns_of_arrays_have_names():
    model = SparseGPRegressor("rbf(ard)", fix="kernel.lengthscales[x1]=2500", **PLAIN).fit(FRAME.to_numpy(), LOAD)
    assert model.hyperparameters_["kernel.lengthscales[x1]"] == pytest.approx(2500)


def test_bounds_and_ties_are_of_the_values_of_a_column():
    name = "kernel.lengthscales[hour]"
    assert 40 <= fitted(bounds=f"{name}=40,60").hyperparameters_[name] <= 60
    tied = fitted("rbf(ard) + matern12(ard)", tie="kernel.rbf.lengthscales[hour],kernel.matern12.lengthscales[hour]").hyperparameters_
    assert tied["kernel.rbf.lengthscales[hour]"] == tied["kernel.matern12.lengthscales[hour]"]


def test_a_prior_in_units_is_the_prior_of_the_standardised_value():
    std = float(FRAME["hour"].std(ddof=0))
    one = fitted(prior="kernel.lengthscales[hour]=gamma(9,1.5)")
    other = fitted(prior=f"kernel.lengthscales.0=gamma(9,{1.5 * std!r})")
    assert one.hyperparameters_ == pytest.approx(other.hyperparameters_, rel=1e-6)
    assert one.hyperparameters_ != pytest.approx(fitted().hyperparameters_, rel=1e-3)


def test_a_period_is_in_units_of_the_column():
    name = "kernel.periodic.period[hour]"
    kernel = Periodic()["hour"] + RBF()["hour"]
    for model in (fitted(kernel.fix("period[hour]", 24.0)), fitted(kernel, fix=f"{name}=24")):
        assert model.hyperparameters_[name] == pytest.approx(24)
        assert model.score(FRAME, LOAD) > 0.95
    assert "period[hour]=24.0" in repr(kernel.fix("periodic.period[hour]", 24.0))


def test_starting_values_are_in_units_of_the_column_and_are_trained():
    name = "kernel.lengthscales[hour]"
    for start in (3.0, 30.0):
        kernel = RBF(ard=True).start("lengthscales[hour]", start)
        for model in (fitted(start=f"{name}={start}", hyper="fixed"), fitted(kernel, hyper="fixed")):
            assert model.hyperparameters_[name] == pytest.approx(start)
    # Both fits end near the same maximum, where the objective is flat in lengthscales.
    trained, usual = fitted(start=f"{name}=30", epochs=200), fitted(epochs=200)
    assert trained.objective_ == pytest.approx(usual.objective_, abs=0.02)
    with pytest.raises(ValueError, match="start"):
        fitted(start=f"{name}=-1")
    with pytest.raises(ValueError, match="is fixed, so this has no effect"):
        fitted(start=f"{name}=3", fix=name)


def test_short_fits_that_choose_options_keep_constraints_in_units():
    model = SparseGPRegressor(fix="kernel.lengthscales[hour]=6", kernel="rbf(ard)", epochs=10).fit(FRAME, LOAD)
    assert model.hyperparameters_["kernel.lengthscales[hour]"] == pytest.approx(6)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"fix": "kernel.lengthscales[hours]=6"}, "there is no input 'hours' .the inputs are hour, metres .*; the target is load"),
        ({"fix": "kernel.lengthscales[hour]=6", "kernel": "rbf"}, "the kernel has no value of this name for 'hour' alone"),
        ({"fix": "kernel.variance[hour]=6"}, "the kernel has no value of this name for 'hour' alone"),
        ({"fix": "kernel.variance[load]=6"}, "only likelihood.noise_variance has the unit of 'load'"),
        ({"fix": "kernel.lengthscales[hour]=6", "warp_inputs": "normal-scores"}, "'hour' is warped, so it has no unit"),
        ({"fix": "kernel.lengthscales[hour]=-6"}, "outside the range"),
        ({"fix": "kernel.lengthscales[]=6"}, "is not the name of a hyper-parameter"),
        ({"bounds": "kernel.lengthscales[hour]"}, "has no '='"),
    ],
)
def test_mistakes_have_one_clear_line(params, words):
    with pytest.raises(ValueError, match=words):
        fitted(**params)


def test_targets_that_share_a_kernel_have_no_common_unit():
    targets = np.column_stack([LOAD, 5 * LOAD])
    how = SparseGPRegressor("rbf(ard)", fix="kernel.lengthscales[hour]=6", **PLAIN)
    for model in SparseGPMultiOutputRegressor(how, outputs="shared").fit(FRAME, targets).estimators_:
        assert model.hyperparameters_["kernel.lengthscales[hour]"] == pytest.approx(6)
    how.set_params(fix="*.noise_variance[y0]=1")
    with pytest.raises(ValueError, match="there is no input 'y0'"):
        SparseGPMultiOutputRegressor(how, outputs="shared").fit(FRAME, targets)


def test_models_without_columns_refuse_units():
    with pytest.raises(ValueError, match="the columns of this fit have no names"):
        SVGP("rbf(ard)", [[0.0, 1.0]], options={"fix": "kernel.lengthscales[x0]=1"})


def test_the_command_line_takes_the_same_names(tmp_path):
    FRAME.assign(load=LOAD).to_csv(tmp_path / "loads.csv", index=False)
    given = ["--target", "load", "--kernel", "rbf(ard)", "--auto", "none", "--inducing", "20", "--epochs", "15", "--test-fraction", "0"]
    given += ["--fix", "kernel.lengthscales[hour]=6", "--fix", "likelihood.noise_variance[load]=1.5"]
    run = [sys.executable, "-m", "sparsegp", "fit", "loads.csv", *given, "--metrics", "fit.json", "--model-out", "fit.model"]
    subprocess.run(run, cwd=tmp_path, check=True, capture_output=True)
    found = json.loads((tmp_path / "fit.json").read_text())["hyperparameters"]
    same = fitted(fix=["kernel.lengthscales[hour]=6", "likelihood.noise_variance[load]=1.5"])
    assert found["kernel.lengthscales.0"] == pytest.approx(same.document_["hyperparameters"]["kernel.lengthscales.0"], rel=1e-9)
    assert SparseGPRegressor.load(tmp_path / "fit.model").hyperparameters_["kernel.lengthscales[hour]"] == pytest.approx(6)
