"""Kernels as objects: constraints on their parameters, and the tuned kernels of fits."""

import numpy as np
import pytest

from sparsegp import SparseGPRegressor
from sparsegp.kernels import RBF, Changepoint, Kernel, Linear, Periodic, Warp

X = np.random.default_rng(0).uniform(0, 5, (80, 2))
Y = np.sin(2 * X[:, 0]) + 0.2 * X[:, 1]
SHORT = {"auto": "none", "n_inducing": 10, "epochs": 10, "objective": "vfe"}


def test_constraints_stay_with_the_parameter_in_any_larger_kernel():
    rough = RBF().bounds("lengthscales", 0.1, 2).prior("variance", "lognormal(0, 1)")
    k = 2.0 * Linear() + Changepoint(RBF(), rough[0].fix("variance", 3)) * Periodic().fix("period")
    assert k._options() == {
        "bounds": ["kernel.rbf_2.lengthscales=0.1,2.0"],
        "prior": ["kernel.rbf_2.variance=lognormal(0, 1)"],
        "fix": ["kernel.rbf_2.variance=3.0", "kernel.periodic.period"],
    }
    assert set(k.parameters) >= {"rbf_2.lengthscales", "periodic.period", "constant.variance", "changepoint.locations"}
    assert RBF()._options() == {} and rough != RBF() and rough == RBF().bounds("lengthscales", 0.1, 2).prior("variance", "lognormal(0, 1)")
    # A name without a term applies to every term that has the parameter.
    assert len((RBF() + RBF()).fix("lengthscales")._options()["fix"]) == 2
    assert RBF(ard=True).fix("lengthscales.1", 2.0)._options() == {"fix": ["kernel.lengthscales.1=2.0"]}
    with pytest.raises(ValueError, match="'period', expected one of variance, lengthscales"):
        RBF().fix("period")


def test_estimators_apply_the_constraints_of_kernels():
    kernel = RBF().bounds("lengthscales", upper=0.3)[0] + Linear().fix("variance", 0.25)
    model = SparseGPRegressor(kernel, fix=["likelihood.noise_variance=0.04"], **SHORT).fit(X, Y)
    values = model.document_["hyperparameters"]
    assert values["kernel.rbf.lengthscales"] < 0.3
    assert (values["kernel.linear.variance"], values["likelihood.noise_variance"]) == (0.25, 0.04)
    with pytest.raises(ValueError, match="expected only one of them") as error:
        SparseGPRegressor(kernel, fix="kernel.linear.variance=1", **SHORT).fit(X, Y)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "rbf",
        "rbf(ard)",
        "rbf[0] * periodic[1] + matern52(ard) + rbf",
        "scale(rational_quadratic * linear(ard)) + white",
        "changepoint(rbf[0] + linear[0], matern12) + warp(rbf(ard))",
        "spectral_mixture(components=2) + additive(order=2) + polynomial(degree=3) * arccosine(order=2)",
        "(cosine + wendland(smoothness=2)) * constant[0:2]",
    ],
)
def test_tuned_kernels_have_the_values_in_their_text(text):
    model = SparseGPRegressor(text, **SHORT).fit(X, Y)
    tuned = model.kernel_
    engine = dict(model._fitted().kernel()[1])
    assert tuned._at(2).values() == list(engine.items())
    assert {f"kernel.{name}": value for name, value in engine.items()}.items() <= model.document_["hyperparameters"].items()
    again = Kernel(str(tuned))
    assert np.array_equal(again(X), tuned(X)) and again == tuned
    # The tuned kernel starts a fit where the last fit ended.
    fixed = SparseGPRegressor(tuned, hyper="fixed", auto="none", n_inducing=10).fit(X, Y)
    assert dict(fixed._fitted().kernel()[1]) == engine


def test_linear_models_have_no_kernel():
    from sparsegp import BayesianLinearRegressor

    assert BayesianLinearRegressor(likelihood="gaussian").fit(X, Y).kernel_ is None
    assert str(Warp(RBF())) == "warp(rbf)"
