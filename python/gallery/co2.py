# %% [markdown]
# # CO2 at Mauna Loa: a forecast of ten years
#
# The monthly series has a trend, a season and slow irregularities, and each of these is a term of the kernel. Prior
# knowledge is stated at the term: the season repeats after exactly one year.

# %%
from pathlib import Path

import numpy as np
import pandas as pd

import sparsegp.plot
from sparsegp import SparseGPRegressor
from sparsegp.kernels import RBF, Linear, Periodic, RationalQuadratic

data = Path(__file__).resolve().parents[2] / "examples" / "data"
co2 = pd.read_csv(data / "co2_monthly.csv")
past, future = co2[co2.year < 1992], co2[co2.year >= 1992]

# %% [markdown]
# Values for names with a column in brackets are in units of that column, here years.

# %%
season = Periodic().fix("period[year]", 1.0) * RBF()
kernel = Linear() + RBF() + season + RationalQuadratic().start("lengthscales[year]", 1.0)
model = SparseGPRegressor(kernel, objective="vfe", n_inducing=150, auto="none", epochs=60, random_state=0)
model.fit(past[["year"]], past.co2)

# %% [markdown]
# `kernel_` is the kernel with its tuned values. The model predicts a mean and a standard deviation at any input, and
# scores whole predictive distributions: the NLL penalises overconfident forecasts.

# %%
mean, std = model.predict(future[["year"]], return_std=True)
print(model.kernel_)
print(f"RMSE of ten years: {np.sqrt(np.mean((mean - future.co2) ** 2)):.2f} ppm")
print(f"NLL: {-model.log_density(future[['year']], future.co2).mean():.2f}")
print(f"95 % intervals hold {np.mean(np.abs(mean - future.co2) < 1.96 * std):.0%} of the months")

# %% [markdown]
# Bands widen as the forecast leaves the data.

# %%
ax = sparsegp.plot.fit(model, co2[["year"]].iloc[::3], co2.co2.iloc[::3])
ax.axvline(1992, color="0.5", linestyle=":")
