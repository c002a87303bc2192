# %% [markdown]
# # Bayesian optimisation by Thompson sampling
#
# We look for the maximum of a costly function with few evaluations. `sample_f` draws functions from the posterior,
# which can be evaluated anywhere. The next point is the maximum of a draw, so the search visits all regions that may
# contain the maximum.

# %%
import numpy as np

from sparsegp import SparseGPRegressor

rng = np.random.default_rng(0)


def costly(x):
    return np.sin(3 * x) + 0.6 * np.cos(7 * x) - 0.2 * (x - 2) ** 2


grid = np.linspace(0, 4, 400)[:, None]
best = costly(grid[:, 0]).max()

# %%
X = np.array([[0.3], [2.9], [3.8]])
y = costly(X[:, 0])
for turn in range(14):
    model = SparseGPRegressor(
        "matern52", objective="vfe", n_inducing=min(len(y), 20), auto="none", fix="likelihood.noise_variance=1e-4", epochs=50
    ).fit(X, y)
    draw = model.sample_f(random_state=turn)
    chosen = grid[draw(grid)[:, 0].argmax()]
    X, y = np.vstack([X, chosen]), np.append(y, costly(chosen[0]))
    if turn % 3 == 1:
        print(f"{len(y)} evaluations: best {y.max():.4f}, {best - y.max():.4f} below the maximum")

# %% [markdown]
# A draw is a fixed function: repeated evaluations, also together with other points, return the same values.

# %%
again = draw(grid[::40])
print(f"the draw at old points changes by {np.abs(again - draw(grid)[::40]).max():.1e}")
