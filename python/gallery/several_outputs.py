# %% [markdown]
# # Several outputs that learn from each other
#
# Two sensors follow the same process; one of them fails for half of the time. In long form every reading is a row, with
# a column that names its sensor, and `Coregion` is the covariance between sensors.

# %%
import numpy as np
import pandas as pd

from sparsegp import SparseGPRegressor
from sparsegp.kernels import Coregion, Matern32

rng = np.random.default_rng(0)
time = np.sort(rng.uniform(0, 10, 150))
inside = np.sin(time) + 0.1 * time
outside = 2 * inside + 1
rows = pd.concat(
    [
        pd.DataFrame({"time": time, "sensor": "inside", "reading": inside + 0.05 * rng.normal(size=150)}),
        pd.DataFrame({"time": time, "sensor": "outside", "reading": outside + 0.05 * rng.normal(size=150)}),
    ]
)
works = (rows.sensor == "inside") | (rows.time < 5)
known, missing = rows[works], rows[~works]

# %% [markdown]
# A model of the failing sensor alone cannot predict the second half; a model of both sensors can. Kernels select
# columns by name.

# %%
alone = SparseGPRegressor(Matern32(), n_inducing=30, auto="none")
alone.fit(known[known.sensor == "outside"][["time"]], known[known.sensor == "outside"].reading)
together = SparseGPRegressor(Coregion(rank=1)["sensor"] * Matern32()["time"], n_inducing=60, auto="none")
together.fit(known[["time", "sensor"]], known.reading)

for name, model, X in [("alone", alone, missing[["time"]]), ("together", together, missing[["time", "sensor"]])]:
    mean, std = model.predict(X, return_std=True)
    print(f"{name}: RMSE {np.sqrt(np.mean((mean - missing.reading) ** 2)):.3f}, mean standard deviation {std.mean():.3f}")
