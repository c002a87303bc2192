# %% [markdown]
# # Data that come in parts
#
# `partial_fit` updates a fitted model with new rows and does not need the old rows. Kernel and inducing inputs stay the
# same, and with Gaussian noise the result is the posterior of all rows.

# %%
import numpy as np

from sparsegp import SparseGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (600, 1))
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=600)
parts = [(X[rows], y[rows]) for rows in np.split(np.arange(600), 6)]

model = SparseGPRegressor("rbf", n_inducing=20, auto="none", random_state=0)
for number, part in enumerate(parts, 1):
    model.partial_fit(*part)
    mean, std = model.predict([[5.0]], return_std=True)
    latent_std = model.predict_f([[5.0]])[1][0] ** 0.5
    print(f"{100 * number} rows: f(5) = {mean[0]:.3f} ± {latent_std:.4f} (truth {np.sin(5):.3f})")

# %% [markdown]
# If the function changes over time, old rows mislead. `forget` removes a share of the earlier information before each
# update. Here the sign of the function changes, and a model that forgets half of the information each time follows the
# change.

# %%
changed = [(X, -y) for X, y in parts[:3]]
stubborn, forgetful = (SparseGPRegressor("rbf", n_inducing=20, auto="none").fit(X, y) for _ in range(2))
for part in changed:
    stubborn.partial_fit(*part)
    forgetful.partial_fit(*part, forget=0.5)
grid = np.linspace(0, 10, 50)[:, None]
for name, one in [("nothing forgotten", stubborn), ("half forgotten each time", forgetful)]:
    print(f"{name}: RMSE {np.sqrt(np.mean((one.predict(grid) + np.sin(grid[:, 0])) ** 2)):.3f} of the new function")
