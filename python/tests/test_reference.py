"""The Python package reproduces numbers of independent implementations (GPflow and a 50-digit recomputation, tests/reference)."""

import json
from pathlib import Path

import numpy as np
import pytest

from sparsegp import SVGP

REFERENCE = Path(__file__).resolve().parents[2] / "tests" / "reference"


def case(file: str, name: str):
    """Returns the inputs of a case, including the inputs shared by its file, and its outputs."""
    document = json.loads((REFERENCE / f"{file}.json").read_text())
    found = next(case for case in document["cases"] if case["name"] == name)
    inputs = {key: np.array(value) if isinstance(value, list) else value for key, value in (document["inputs"] | found["inputs"]).items()}
    return inputs, found["outputs"]


def model_of(inputs, likelihood, **settings) -> SVGP:
    kernel = inputs["kernel"]
    text = f"{kernel['type']}(variance={kernel['variance']}, lengthscales={kernel['lengthscales']})"
    noise = inputs.get("noise_variance", inputs.get("params", {}).get("variance"))
    options = {"jitter": f"abs:{inputs['jitter']}"}
    if likelihood == "gaussian":
        options["fix"] = [f"likelihood.noise_variance={noise}"]
    model = SVGP(text, inputs["Z"], likelihood, options=options, **settings)
    if "q_mu" in inputs:
        model.posterior = [(inputs["q_mu"], inputs["q_sqrt"] @ inputs["q_sqrt"].T)]
    return model


def close(found, wanted):
    assert np.allclose(found, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("name", "likelihood"), [("gaussian", "gaussian"), ("bernoulli_logit", "bernoulli-logit"), ("poisson_exp", "poisson")])
def test_the_evidence_lower_bound_and_its_gradient(name, likelihood):
    inputs, outputs = case("svgp_elbo", f"{name}_whitened")
    model = model_of(inputs, likelihood)
    mean, variance = model.marginals(inputs["X"])
    close(mean[:, 0], outputs["f_mean"])
    close(variance[:, 0], outputs["f_var"])
    close(model.kl(), outputs["kl"])
    close(model.loss(inputs["X"], inputs["y"]), -outputs["elbo"])
    # The stored gradient is that of the data term.
    close(model.gradient[0][0], -np.array(outputs["grad_elbo"]["q_mu"]) - inputs["q_mu"])


@pytest.mark.parametrize("name", ["gaussian_gamma1.0", "bernoulli_probit_gamma0.1"])
def test_natural_gradients(name):
    inputs, outputs = case("natgrad", f"{name}_whitened")
    model = model_of(inputs, {"gaussian": "gaussian", "bernoulli_probit": "bernoulli-probit"}[inputs["likelihood"]])
    for step in range(inputs["steps"]):
        model.loss(inputs["X"], inputs["y"])
        assert model.step(inputs["gamma"]) == inputs["gamma"]
        mean, covariance = model.posterior[0]
        root = np.array(outputs["q_sqrt"][step])
        close(mean, outputs["q_mu"][step])
        close(covariance, root @ root.T)
        close(model.loss(inputs["X"], inputs["y"]), -outputs["elbo"][step])


def test_the_predictive_loss():
    inputs, outputs = case("dlm", "log_loss_poisson_exp_whitened")
    for beta in outputs["objective"]:
        model = model_of(inputs, "poisson", objective="dlm-log", beta=beta["beta"])
        close(model.loss(inputs["X"], inputs["y"]), beta["value"])
    close(-model.log_density(inputs["X"], inputs["y"]), outputs["loss_i"])


def test_the_collapsed_bound():
    inputs, outputs = case("sgpr", "rbf_ard")
    model, wanted = model_of(inputs, "gaussian"), outputs["sgpr"]
    model.loss(inputs["X"], inputs["y"])
    # One natural step of size 1 is the optimum of q.
    model.step(1.0)
    close(model.loss(inputs["X"], inputs["y"]), -wanted["elbo"])
    close(model.posterior[0][0], wanted["qu_mean_whitened"])
    close(model.posterior[0][1], wanted["qu_cov_whitened"])
    close(model.marginals(inputs["X_test"])[0][:, 0], wanted["predict_f_mean"])
    close(model.log_density(inputs["X_test"], inputs["y_test"]), wanted["predict_log_density"])
