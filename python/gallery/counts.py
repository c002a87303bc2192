# %% [markdown]
# # Counts with exposure
#
# Rare events are counted over different times at risk, and the expected count is proportional to the time. The exposure
# multiplies the rate, so the model learns the rate itself.

# %%
import numpy as np

import sparsegp.plot
from sparsegp import SparseGPCountRegressor

rng = np.random.default_rng(0)
age = rng.uniform(20, 80, 400)
years = rng.choice([0.25, 1.0, 3.0], 400)
rate = 0.2 + 1.5 * np.exp(-(((age - 55) / 12) ** 2))
claims = rng.poisson(years * rate)

# %% [markdown]
# Pass exposures together with the inputs to `fit` and `predict`.

# %%
X = age[:, None]
model = SparseGPCountRegressor("rbf", likelihood="poisson", n_inducing=15, auto="none").fit(X, claims, exposure=years)
grid = np.array([[30.0], [55.0], [75.0]])
mean, std, quantiles = model.predict(grid, return_std=True, quantiles=[0.05, 0.95], exposure=[1.0, 1.0, 1.0])
for row, at in enumerate(grid[:, 0]):
    truth = 0.2 + 1.5 * np.exp(-(((at - 55) / 12) ** 2))
    low, high = quantiles[row]
    print(f"age {at:.0f}: {mean[row]:.2f} claims a year (truth {truth:.2f}), 90 % of people have {low:.0f} to {high:.0f}")

# %% [markdown]
# Scores of predictive distributions on new rows show if counts are overdispersed, that is, if they vary more than
# Poisson counts. These data are Poisson counts, so both likelihoods score about the same.

# %%
new = rng.uniform(20, 80, 200)
new_years = rng.choice([0.25, 1.0, 3.0], 200)
new_claims = rng.poisson(new_years * (0.2 + 1.5 * np.exp(-(((new - 55) / 12) ** 2))))
for likelihood in ("poisson", "negative-binomial"):
    model.set_params(likelihood=likelihood).fit(X, claims, exposure=years)
    print(f"{likelihood}: NLL {-model.log_density(new[:, None], new_claims, exposure=new_years).mean():.3f}")
history = sparsegp.plot.trace(model)
