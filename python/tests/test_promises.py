"""Documented properties of estimators on small data: units, columns, choices, gradients and draws."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from conftest import read
from sklearn import datasets
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score

from sparsegp import (
    SVGP,
    BayesianLinearRegressor,
    SparseGPClassifier,
    SparseGPCountRegressor,
    SparseGPMultiOutputRegressor,
    SparseGPRegressor,
)
from sparsegp.kernels import RBF, Kernel, Linear, Periodic
from sparsegp.metrics import neg_crps, neg_log_predictive_density

RNG = np.random.default_rng(5)
X = RNG.uniform(0, 10, (150, 2))
F = 30 + 10 * np.sin(X[:, 0]) + X[:, 1]
Y = F + RNG.normal(size=150)
PLAIN = {"auto": "none", "n_inducing": 15, "epochs": 15}


def fitted(**params):
    return SparseGPRegressor(**{**PLAIN, **params}).fit(X, Y)


def test_columns_left_out_are_warned_of_and_kept_where_the_target_follows_them():
    ids = RNG.permutation(150)
    frame = pd.DataFrame({"customer_id": ids, "a": X[:, 0], "b": X[:, 1]})
    with pytest.warns(UserWarning, match=r"'customer_id'.* left out|left out: 'customer_id'"):
        model = SparseGPRegressor(**PLAIN).fit(frame, Y)
    assert "customer_id" not in model.input_names_
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        kept = SparseGPRegressor(keep=["customer_id"], exclude="a", **PLAIN).fit(frame, Y)
        SparseGPRegressor(exclude=["customer_id"], **PLAIN).fit(frame, Y)
        followed = SparseGPRegressor(**PLAIN).fit(frame, np.sin(ids / 40))
    assert list(kept.input_names_) == ["customer_id", "b"]
    assert followed.score(frame, np.sin(ids / 40)) > 0.95
    text = pd.DataFrame({"customer_id": ids, "a": X[:, 0]})
    assert "customer_id" in SparseGPClassifier(**PLAIN).fit(text, np.where(ids > 70, "old", "new")).input_names_


def test_fits_of_several_targets_warn_of_columns_left_out():
    frame = pd.DataFrame({"customer_id": RNG.permutation(150), "a": X[:, 0], "b": X[:, 1]})
    for outputs in (None, "mixed:1"):
        with pytest.warns(UserWarning, match="'customer_id'.* left out|left out: 'customer_id'") as told:
            model = SparseGPMultiOutputRegressor(SparseGPRegressor(**PLAIN), outputs=outputs).fit(frame, np.column_stack([Y, -Y]))
        assert len(told) == 1
        assert all("customer_id" not in one.input_names_ for one in model.estimators_)


@pytest.mark.parametrize("warp", ["log", "softplus"])
def test_functions_of_warped_targets_are_in_units_of_the_target(warp):
    model = fitted(warp_target=warp)
    mean, variance = model.predict_f(X)
    target, std = model.predict(X, return_std=True)
    assert np.allclose(mean, target, rtol=0.02) and np.all(np.sqrt(variance) < std)
    assert model.noise_variance_ is None and fitted().noise_variance_ == pytest.approx(1.0, rel=0.8)
    rows = X[:6]
    draws = model.sample_f(400)(rows)
    assert np.allclose(draws.mean(axis=1), model.predict_f(rows)[0], atol=6 * np.sqrt(model.predict_f(rows)[1] / 400))
    # Covariances agree with draws, and their diagonal is the predicted variance.
    _, covariance = model.predict_f(rows, full_cov=True)
    assert np.allclose(np.diag(covariance), variance[:6], rtol=1e-6)
    _, joint = model.predict(rows, return_cov=True)
    assert np.allclose(np.diag(joint), std[:6] ** 2)


def test_covariances_of_targets_are_those_of_draws():
    counts = SparseGPCountRegressor(likelihood="poisson", **PLAIN).fit(X, np.round(F / 10))
    rows = np.array([[2.0, 5.0], [2.2, 5.0], [14.0, 5.0], [14.2, 5.0]])
    mean, covariance = counts.predict(rows, return_cov=True)
    draws = counts.sample_y(rows, 20_000)
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.allclose(np.cov(draws) / scale, covariance / scale, atol=0.08)
    assert np.allclose(draws.mean(axis=1), mean, atol=0.05 * np.sqrt(np.diag(covariance)).max())


SETS = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "petals": lambda: (datasets.load_iris().data[:, :3], datasets.load_iris().data[:, 3]),
    "friedman": lambda: datasets.make_friedman1(200, random_state=0),
    "positive": lambda: (X, np.exp(Y / 20)),
    "heavy tails": lambda: (X, F + np.random.default_rng(0).standard_t(1.5, 150)),
    "many columns": lambda: (np.random.default_rng(0).normal(size=(30, 40)), Y[:30]),
    "co2": lambda: (read("co2_monthly.csv")[["year"]].to_numpy()[:300], read("co2_monthly.csv")["co2"].to_numpy()[:300]),
}

def many_rows():
    rows = np.random.default_rng(0).uniform(0, 6, (2400, 1))
    return rows, np.sin(rows[:, 0]) + np.random.default_rng(1).normal(0, 0.3, 2400)


SETS["many rows"] = many_rows


@pytest.mark.parametrize("name", SETS)
def test_choices_are_parameters_of_the_same_fit(name):
    inputs, target = SETS[name]()
    model = SparseGPRegressor(epochs=10).fit(inputs, target)
    again = SparseGPRegressor(epochs=10, **model.choices_).fit(inputs, target)
    assert again.choices_ == {"auto": "none"}
    for one, other in zip(model.predict(inputs, return_std=True), again.predict(inputs, return_std=True)):
        assert np.array_equal(one, other), model.choices_
    # Few inducing inputs are enough for many rows of a smooth function.
    assert name != "many rows" or model.choices_["n_inducing"] < 200


def test_hyper_parameters_are_in_units_of_columns_and_target():
    frame = pd.DataFrame({"hour": X[:, 0], "metres": 1000 * X[:, 1], "side": np.where(X[:, 1] > 5, "left", "right")})
    model = SparseGPRegressor("rbf(ard)", **PLAIN).fit(frame, Y)
    raw, values = model.document_["hyperparameters"], model.hyperparameters_
    assert values["kernel.lengthscales[metres]"] == pytest.approx(raw["kernel.lengthscales.1"] * 1000 * X[:, 1].std())
    assert values["kernel.lengthscales[side]"] == raw["kernel.lengthscales.2"]
    assert values["likelihood.noise_variance"] == pytest.approx(model.noise_variance_)
    assert values["mean.constant"] == pytest.approx(raw["mean.constant"] * Y.std() + Y.mean())
    assert values["kernel.variance"] == pytest.approx(raw["kernel.variance"] * Y.var())
    wave = SparseGPRegressor(Periodic()[0] + Linear()[1], **PLAIN).fit(X, Y)
    period = wave.document_["hyperparameters"]["kernel.periodic.period"]
    assert wave.hyperparameters_["kernel.periodic.period[x0]"] == pytest.approx(period * X[:, 0].std())


def difference(function, rows, column, step=1e-4):
    move = step * np.eye(rows.shape[1])[column]
    return (function(rows + move) - function(rows - move)) / (2 * step)


def test_gradients_of_predictions_and_functions():
    rows = X[:5]
    for params in ({}, {"neighbours": 8, "kernel": "matern52"}, {"warp_target": "log"}):
        model = fitted(**params)
        mean, std, mean_gradient, std_gradient = model.predict(rows, return_std=True, return_gradient=True)
        functions = model.sample_f(2)
        for column in range(2):
            assert np.allclose(mean_gradient[:, column], difference(model.predict, rows, column), rtol=1e-3, atol=1e-3)
            of_std = difference(lambda at: model.predict(at, return_std=True)[1], rows, column)
            assert np.allclose(std_gradient[:, column], of_std, rtol=1e-3, atol=1e-3)
            assert np.allclose(functions.gradient(rows)[:, column], difference(functions, rows, column), rtol=1e-3, atol=1e-3)
        assert model.predict_f(rows, return_gradient=True)[2].shape == (5, 2)
    with pytest.raises(ValueError, match="warp_inputs='none'"):
        fitted(warp_inputs="normal-scores").predict(rows, return_gradient=True)


def test_functions_are_of_tables_of_any_length():
    frame = pd.DataFrame({"hour": X[:, 0], "side": np.where(X[:, 1] > 5, "left", "right")})
    functions = SparseGPRegressor(**PLAIN).fit(frame, Y).sample_f(2)
    many = functions(pd.concat([frame] * 20))
    assert many.shape == (3000, 2) and np.allclose(many[:150], functions(frame))
    assert np.all(functions.gradient(frame)[:, 1] == 0)
    linear = BayesianLinearRegressor(auto="none").fit(X, Y).sample_f(2)
    assert np.allclose(linear(X[:9])[3:], linear(X[3:9]))
    with pytest.raises(ValueError, match="no gradients"):
        linear.gradient(X)


def test_targets_are_drawn_together():
    far = np.array([[25.0, 0.0], [25.001, 0.0]])
    model = fitted()
    assert np.corrcoef(model.sample_y(far, 500))[0, 1] > 0.7 > abs(np.corrcoef(model.sample_y(far, 500, joint=False))[0, 1])
    classes = SparseGPClassifier(**PLAIN).fit(X, np.digitize(F, [25, 35]))
    draws = classes.sample_y(far, 300)
    assert np.mean(draws[0] == draws[1]) > np.mean(classes.sample_y(far, 300, joint=False)[0] == draws[1])


def test_bayesian_optimisation_by_thompson_sampling_finds_a_minimum():
    def branin(x):
        bowl = (x[:, 1] - 5.1 / (4 * np.pi**2) * x[:, 0] ** 2 + 5 / np.pi * x[:, 0] - 6) ** 2
        return bowl + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x[:, 0]) + 10

    rng = np.random.default_rng(1)
    candidates = rng.uniform([-5, 0], [10, 15], (2000, 2))
    seen = candidates[:8]
    for step in range(20):
        model = SparseGPRegressor("rbf(ard)", auto="none", objective="vfe", n_inducing=len(seen)).fit(seen, branin(seen))
        seen = np.vstack([seen, candidates[np.argmin(model.sample_f(1, random_state=step)(candidates)[:, 0])]])
    assert branin(seen).min() < 1.5


def test_svgp_keeps_given_values():
    Z, y = X[:6], (Y - Y.mean()) / Y.std()
    kernel = RBF(lengthscales=0.7).fix("lengthscales")
    options = {"fix": ["likelihood.noise_variance=0.1"], "prior": ["kernel.variance=gamma(20, 1)"]}
    model = SVGP(kernel, Z, options=options | {"fix_inducing": True, "mean": "zero"})
    assert model.theta_names == ["kernel.variance"] and model.hyperparameters["likelihood.noise_variance"] == 0.1
    free = SVGP("rbf", Z, options={"prior": options["prior"]})
    free.loss(X, y, hyper=True)
    gradient, theta = free.theta_gradient, free.theta
    assert len(free.theta_names) == len(theta)
    for i in range(3):
        ends = []
        for step in (1e-5, -1e-5):
            free.theta = theta + step * np.eye(len(theta))[i]
            ends.append(free.loss(X, y))
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(gradient[i], rel=1e-4, abs=1e-4)
    free.theta = theta
    losses = free.optimize(X, y, epochs=15, batch_size=50)
    assert losses[-1] < losses[0]
    again = pickle.loads(pickle.dumps(free))
    assert np.allclose(again.marginals(X)[0], free.marginals(X)[0]) and again.theta_names == free.theta_names
    assert np.allclose(np.diag(free.covariance(X[:9])), free.marginals(X[:9])[1][:, 0])


def test_kernels_are_classes_that_searches_set():
    kernel = RBF(lengthscales=2.0) + Periodic(period=1.0)[0]
    assert isinstance(kernel.k1, RBF) and kernel.get_params()["k2__kernel__period"] == 1.0
    search = GridSearchCV(SparseGPRegressor(kernel, **PLAIN), {"kernel__k1__lengthscales": [0.5, 1.0]}, cv=2).fit(X, Y)
    assert search.best_params_["kernel__k1__lengthscales"] in (0.5, 1.0) and kernel.k1.lengthscales == 2.0
    for wrong in (lambda: RBF(variance=-1.0), lambda: Kernel("rbg"), lambda: RBF().set_params(period=1.0)):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError, match="lengthscale"):
        RBF(lengthscale=1.0)


def test_arrays_may_be_sparse_and_lack_cells():
    holes = X.copy()
    holes[::9, 0] = np.nan
    model = SparseGPRegressor(**PLAIN).fit(holes, Y)
    assert "x0 is missing" in model.input_names_ and np.isfinite(model.predict([[np.nan, 1.0]])).all()
    flat = scipy.sparse.csr_matrix(np.where(X > 5, X, 0))
    assert np.array_equal(
        SparseGPRegressor(**PLAIN).fit(flat, Y).predict(flat), SparseGPRegressor(**PLAIN).fit(flat.toarray(), Y).predict(flat.toarray())
    )
    with pytest.raises(ValueError, match="infinity"):
        SparseGPRegressor(**PLAIN).fit(np.where(X > 9, np.inf, X), Y)


def test_class_weights_are_sample_weights():
    labels = np.where(F > 38, "high", "low")
    weights = np.where(labels == "high", 5.0, 1.0)
    params = {**PLAIN, "likelihood": "bernoulli-logit"}
    weighted = SparseGPClassifier(class_weight={"high": 5.0, "low": 1.0}, **params).fit(X, labels)
    assert np.array_equal(weighted.predict_proba(X), SparseGPClassifier(**params).fit(X, labels, weights).predict_proba(X))


def test_scorers_look_inside_searches_and_transformed_targets():
    search = GridSearchCV(SparseGPRegressor(**PLAIN), {"objective": ["elbo"]}, scoring=neg_log_predictive_density, cv=2).fit(X, Y)
    assert neg_log_predictive_density(search, X, Y) == pytest.approx(np.mean(search.best_estimator_.log_density(X, Y)))
    logs = TransformedTargetRegressor(SparseGPRegressor(**PLAIN), func=np.log, inverse_func=np.exp).fit(X, Y)
    warped = fitted(warp_target="log")
    assert neg_log_predictive_density(logs, X, Y) == pytest.approx(neg_log_predictive_density(warped, X, Y), abs=0.1)
    assert neg_crps(logs, X, Y) == pytest.approx(neg_crps(warped, X, Y), rel=0.1)


def test_messages_name_rows_by_the_labels_of_the_frame(tmp_path):
    frame = pd.DataFrame({"a": np.r_[X[:20, 0], np.inf]}, index=[f"r{i}" for i in range(21)])
    with pytest.raises(ValueError, match="X, y: row 'r20', column 'a'"):
        SparseGPRegressor(**PLAIN).fit(frame, np.arange(21.0))
    with pytest.raises(ValueError, match="row 20, column 'a'"):
        SparseGPRegressor(**PLAIN).fit(frame.reset_index(drop=True), np.arange(21.0))
    with pytest.raises(ValueError, match="check that y names the right column"):
        SparseGPRegressor(**PLAIN).fit(X, np.ones(150))
    with pytest.raises(FileNotFoundError):
        SparseGPRegressor.load(tmp_path / "nothing")
    with pytest.raises(TypeError, match="SparseGPRegressor.__init__"):
        SparseGPRegressor(lengthscale=1.0)
    # A frame for a model of an array is used with its columns in their order.
    model = fitted()
    assert np.array_equal(model.predict(pd.DataFrame(X, columns=["one", "two"])), model.predict(X))


def test_cross_validation_with_rare_levels_has_no_nan():
    frame = read("doctor_visits.csv").head(300)
    frame["rare"] = [f"level {i}" if i % 40 == 0 else "common" for i in range(len(frame))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = cross_val_score(SparseGPRegressor(**PLAIN), frame.drop(columns="visits"), frame["visits"].astype(float), cv=5)
    assert np.isfinite(scores).all()


def test_test_rows_do_not_decide_that_an_identifier_is_an_input(tmp_path):
    random, late = np.random.default_rng(0), np.arange(100) >= 60
    ids = np.concatenate([random.permutation(60), 60 + random.permutation(40)])
    target = 40 * late + random.uniform(size=100)
    pd.DataFrame({"id": ids, "time": np.arange(100) + 0.5, "y": target}).to_csv(tmp_path / "rows.csv", index=False)
    run = [sys.executable, "-m", "sparsegp", "fit", "rows.csv", "--target", "y", "--auto", "none", "--epochs", "2"]

    def said(*options):
        return subprocess.run([*run, *options], cwd=tmp_path, capture_output=True, text=True, check=True).stderr

    # The later rows, which are the test rows, have larger identifiers and targets.
    assert "column left out: 'id'" in said("--split-time", "time", "--test-fraction", "0.4")
    assert "left out" not in said()
