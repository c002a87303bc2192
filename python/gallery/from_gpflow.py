# %% [markdown]
# # Coming from GPflow
#
# GPflow's SGPR is the collapsed bound, which is `objective="vfe"` here; its SVGP is `objective="elbo"`, or `SVGP` for your own training loops.

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
    print("GPflow is not installed: its part is shown, not run")

# %% [markdown]
# A loop of one's own, with natural gradients for q and gradient steps for the rest, as with `gpflow.optimizers.NaturalGradient` and
# Adam. `SVGP` works on the scale it is given; values that the kernel does not give are 1.

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
