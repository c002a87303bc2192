# %% [markdown]
# # A kernel and a likelihood of your own
#
# Both are classes with NumPy functions for values and for the gradients that training needs. The test kits of the
# package find mistakes in them.

# %%
import numpy as np

from sparsegp import SparseGPRegressor
from sparsegp.kernels import Constant, CustomKernel, Parameter
from sparsegp.likelihoods import CustomLikelihood
from sparsegp.testing import check_kernel, check_likelihood


class Cauchy(CustomKernel):
    """``variance / (1 + |x − y|² / lengthscales²)``, with lengthscales that start from the data."""

    name = "cauchy"
    hyperparameters = {"variance": Parameter(), "lengthscales": Parameter()}

    def covariance(self, X, Y, variance, lengthscales):
        return variance / (1 + (((X[:, None] - Y) / lengthscales) ** 2).sum(-1))

    def gradient(self, X, Y, W, variance, lengthscales):
        u = (X[:, None] - Y) / lengthscales
        s = 1 + (u**2).sum(-1)
        bar = 2 * variance * (W / s**2)[..., None] * u / lengthscales
        return {"variance": np.sum(W / s), "lengthscales": np.sum(bar * u)}, -bar.sum(1)


check_kernel(Cauchy() + Constant())

# %% [markdown]
# The noise has a logistic distribution, whose tails are heavier than those of a normal distribution:


# %%
class Logistic(CustomLikelihood):
    name = "logistic_noise"
    target = "real"
    hyperparameters = {"scale": Parameter(0.2)}
    width = "scale"

    def log_density(self, y, f, scale):
        r = np.abs(y - f) / scale
        return -r - 2 * np.log1p(np.exp(-r)) - np.log(scale)

    def derivatives(self, y, f, scale):
        t = np.tanh(0.5 * (y - f) / scale)
        return t / scale, -0.5 * (1 - t**2) / scale**2

    def gradient(self, y, f, scale):
        r = (y - f) / scale
        return {"scale": (r * np.tanh(0.5 * r) - 1) / scale}

    def mean_and_variance(self, f, scale):
        return f, (np.pi * scale) ** 2 / 3

    def cdf(self, y, f, scale):
        return 0.5 + 0.5 * np.tanh(0.5 * (y - f) / scale)

    def sample(self, f, rng, scale):
        return rng.logistic(f, scale)


check_likelihood(Logistic(), [-0.5, 0.4])

# %%
rng = np.random.default_rng(0)
X = rng.uniform(0, 6, (150, 1))
y = np.sin(X[:, 0]) + rng.logistic(0, 0.1, 150)
model = SparseGPRegressor(Cauchy(), likelihood=Logistic(), n_inducing=10, epochs=20, auto="none").fit(X, y)
print(f"{model.kernel_}, scale {model.hyperparameters_['likelihood.scale'] * y.std():.3f} (truth 0.1)")
