"""Documented use with its types. ``test_typing.py`` checks it without running it: every ``assert_type`` states the type
of a result."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import sparsegp.plot
from sparsegp import (
    SVGP,
    BayesianLinearClassifier,
    BayesianLinearRegressor,
    SparseGPClassifier,
    SparseGPCountRegressor,
    SparseGPMultiOutputRegressor,
    SparseGPRegressor,
    compare,
)
from sparsegp.kernels import RBF, Kernel, Linear, Periodic, Product, Sum
from sparsegp.metrics import neg_crps

Array = NDArray[np.float64]

X: Array = np.linspace(0, 10, 100)[:, None]
y: Array = np.sin(X[:, 0])

model = SparseGPRegressor("rbf", n_inducing="auto", neighbours=20, beta=[0.5, 1.0], auto=["kernel"], keep="id", exclude=["a"])
model = model.fit(X, y)
assert_type(model, SparseGPRegressor)
assert_type(model.predict(X), Array)
assert_type(model.predict(X, return_std=True), tuple[Array, Array])
assert_type(model.predict(X, quantiles=[0.1, 0.9]), tuple[Array, Array])
assert_type(model.predict(X, return_std=True, quantiles=[0.1]), tuple[Array, Array, Array])
assert_type(model.predict(X, return_cov=True), tuple[Array, Array])
assert_type(model.predict(X, return_std=True, return_gradient=True), tuple[Array, Array, Array, Array])
assert_type(model.predict_f(X), tuple[Array, Array])
functions = model.sample_f(3, random_state=0)
assert_type(functions(X), Array)
assert_type(functions.gradient(X), Array)
assert_type(model.hyperparameters_, dict[str, float])
assert_type(model.noise_variance_, float | None)
assert_type(model.kernel_, Kernel | None)
again = SparseGPRegressor(**model.choices_)
model.save("model")
assert_type(SparseGPRegressor.load("model"), SparseGPRegressor)

classifier = SparseGPClassifier(class_weight="balanced", likelihood="bernoulli-logit").fit(X, y > 0)
assert_type(classifier.predict_proba(X), Array)
assert_type(classifier.classes_, NDArray[Any])
counts = SparseGPCountRegressor(likelihood="poisson").fit(X, np.round(y + 1), exposure=np.ones(100))
assert_type(counts.predict(X, exposure=np.ones(100)), Array)
linear = BayesianLinearRegressor(prior_variance=2.0).fit(X, y)
assert_type(linear.coef_, Array)
BayesianLinearClassifier(class_weight={0: 1.0, 1: 2.0}).fit(X, y > 0)
several = SparseGPMultiOutputRegressor(SparseGPRegressor(auto="none"), outputs="mixed:1").fit(X, np.column_stack([y, y]))
assert_type(several.predict(X), Array)

kernel = 2.0 * RBF(lengthscales=0.5, ard=True)[0] + Periodic(period=1.0)["time"] * Linear()
assert_type(kernel, Sum)
assert_type(RBF() * Linear(), Product)
assert_type(RBF().fix("lengthscales", 1.0).bounds("variance", upper=3.0).prior("variance", None), RBF)
assert_type(kernel(X), Array)

svgp = SVGP(kernel, X[:5], "bernoulli-logit", options={"estimator": "bmc:10"})
assert_type(svgp.loss(X, y, hyper=True), float)
assert_type(svgp.marginals(X), tuple[Array, Array])
svgp.to_estimator(X, y).save("by_hand.model")
svgp.theta = svgp.theta - 0.1 * svgp.theta_gradient

assert_type(neg_crps(model, X, y), float)
found = compare(X, y, ["elbo"], repeats=2)
assert_type(found.results, dict[str, NDArray[Any]])
sparsegp.plot.fit(model, X, y)
