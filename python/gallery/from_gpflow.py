# %% [markdown]
# # Coming from GPflow
#
# SGPR of GPflow uses the collapsed bound, which is `objective="vfe"` here. SVGP of GPflow is `objective="elbo"`, or the
# class `SVGP` for your own training loops.

# %%
import importlib.util

import numpy as np

from sparsegp import SVGP, SparseGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (400, 1))
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=400)
new = np.linspace(0, 10, 100)[:, None]


def with_gpflow():
    import gpflow

    model = gpflow.models.SGPR((X, y[:, None]), gpflow.kernels.SquaredExponential(), inducing_variable=X[:20].copy())
    gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables)
    mean, variance = model.predict_y(new)
    return mean.numpy()[:, 0], np.sqrt(variance.numpy()[:, 0])


# %%
model = SparseGPRegressor("rbf", objective="vfe", n_inducing=20, auto="none").fit(X, y)
mean, std = model.predict(new, return_std=True)
print(f"sparsegp: RMSE {np.sqrt(np.mean((mean - np.sin(new[:, 0])) ** 2)):.3f}, mean standard deviation {std.mean():.3f}")
if importlib.util.find_spec("gpflow"):
    mean, std = with_gpflow()
    print(f"GPflow: RMSE {np.sqrt(np.mean((mean - np.sin(new[:, 0])) ** 2)):.3f}, mean standard deviation {std.mean():.3f}")
else:
    print("GPflow is not installed: its code is not run")

# %% [markdown]
# This is a custom loop, with natural gradients for q and gradient steps for the other parameters, like
# `gpflow.optimizers.NaturalGradient` with Adam. `SVGP` does not scale the data, and kernel parameters without a value
# start at 1.

# %%
svgp = SVGP("rbf", np.linspace(0, 10, 20)[:, None], "gaussian")
for step in range(200):
    rows = rng.choice(400, 100, replace=False)
    loss = svgp.loss(X[rows], y[rows], scale=4.0, hyper=True)
    gradient = svgp.theta_gradient
    svgp.step(0.3)
    svgp.theta = svgp.theta - 1e-3 * np.clip(gradient, -30, 30)
mean = svgp.marginals(new)[0][:, 0]
print(f"own loop: RMSE {np.sqrt(np.mean((mean - np.sin(new[:, 0])) ** 2)):.3f}, noise {svgp.hyperparameters['likelihood.noise_variance']:.3f}")
