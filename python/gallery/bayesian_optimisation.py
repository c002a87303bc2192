# %% [markdown]
# # Bayesian optimisation by Thompson sampling
#
# A function is costly to evaluate; we look for its maximum in few evaluations. `sample_f` draws a function from the posterior that
# can be evaluated anywhere: the next point is where a draw is highest, which looks where the maximum may still be.

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
# The values of a draw stay what they are: asked again, and at other points besides, it is the same function.

# %%
again = draw(grid[::40])
print(f"the draw at old points changes by {np.abs(again - draw(grid)[::40]).max():.1e}")
