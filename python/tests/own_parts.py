"""Kernels and likelihoods written in Python, which other processes import too."""

import numpy as np
from scipy import special

from sparsegp.kernels import CustomKernel, Parameter
from sparsegp.likelihoods import CustomLikelihood


class Bell(CustomKernel):
    """The squared exponential kernel in Python, ``s exp(−½ Σ u²)``."""

    name = "bell"
    hyperparameters = {"variance": Parameter(), "lengthscales": Parameter(per_column=True)}

    def covariance(self, X, Y, variance, lengthscales):
        return variance * np.exp(-0.5 * (((X[:, None] - Y) / lengthscales) ** 2).sum(-1))

    def gradient(self, X, Y, W, variance, lengthscales):
        u = (X[:, None] - Y) / lengthscales
        WK = W * variance * np.exp(-0.5 * (u**2).sum(-1))
        bar = WK[..., None] * u / lengthscales
        return {"variance": WK.sum() / variance, "lengthscales": (bar * u).sum((0, 1))}, -bar.sum(1)

    def variance(self, X, variance, lengthscales):
        return np.full(len(X), variance)

    def variance_gradient(self, X, w, variance, lengthscales):
        return {"variance": w.sum(), "lengthscales": 0.0}, 0.0


class Slope(CustomKernel):
    """The kernel ``s Σ_d x_d y_d + 1``, with only the required methods."""

    name = "slope"
    hyperparameters = {"strength": Parameter(0.5, upper=50.0)}

    def covariance(self, X, Y, strength):
        return strength * X @ Y.T + 1

    def gradient(self, X, Y, W, strength):
        return {"strength": np.sum(W * (X @ Y.T))}, strength * W @ Y


class Counts(CustomLikelihood):
    """The Poisson likelihood in Python, with the rate e^f."""

    name = "counts"
    target = "count"

    def log_density(self, y, f, exposure):
        return y * (f + np.log(exposure)) - exposure * np.exp(f) - special.gammaln(y + 1)

    def derivatives(self, y, f, exposure):
        return y - exposure * np.exp(f), -exposure * np.exp(f)

    def mean_and_variance(self, f, exposure):
        return exposure * np.exp(f), exposure * np.exp(f)

    def cdf(self, y, f, exposure):
        return special.pdtr(np.floor(y), exposure * np.exp(f)) if y >= 0 else np.zeros_like(f)

    def sample(self, f, rng, exposure):
        return rng.poisson(exposure * np.exp(f))


class Logistic(CustomLikelihood):
    """y = f + noise from the logistic distribution."""

    name = "logistic_noise"
    hyperparameters = {"scale": Parameter()}
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
        return special.expit((y - f) / scale)

    def sample(self, f, rng, scale):
        return rng.logistic(f, scale)

    def start(self, y):
        return {"scale": 0.3 * np.std(y) + 1e-6}
