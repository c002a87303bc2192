# %% [markdown]
# # Noise that varies
#
# Some regions are noisier than others. `gaussian-heteroskedastic` has two latent functions: one for the mean, one for
# the logarithm of the noise. Intervals are then wide where the noise is large.

# %%
import matplotlib.pyplot as plt
import numpy as np

import sparsegp.plot
from sparsegp import SparseGPRegressor

rng = np.random.default_rng(1)


def draw(n):
    x = rng.uniform(0, 10, n)
    return x[:, None], np.sin(x) + (0.05 + 0.08 * x) * rng.normal(size=n)


X, y = draw(500)
X_test, y_test = draw(500)

# %% [markdown]
# Two models have the same kernel and inducing inputs, one with constant and one with varying noise:

# %%
models = {
    likelihood: SparseGPRegressor("rbf", likelihood=likelihood, n_inducing=20, auto="none").fit(X, y)
    for likelihood in ("gaussian", "gaussian-heteroskedastic")
}
for likelihood, model in models.items():
    _, quantiles = model.predict(X_test, quantiles=[0.05, 0.95])
    held = (quantiles[:, 0] < y_test) & (y_test < quantiles[:, 1])
    quiet = X_test[:, 0] < 3
    print(f"{likelihood}: NLL {-model.log_density(X_test, y_test).mean():.3f}, ", end="")
    print(f"90 % intervals hold {held[quiet].mean():.0%} of quiet and {held[~quiet].mean():.0%} of noisy rows")

# %% [markdown]
# The estimated noise, and the true noise (dotted):

# %%
_, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
sparsegp.plot.fit(models["gaussian-heteroskedastic"], X_test, y_test, ax=axes[0])
sparsegp.plot.noise(models["gaussian-heteroskedastic"], X_test, ax=axes[1])
axes[1].plot([0, 10], [0.05, 0.85], ":", color="0.4")
