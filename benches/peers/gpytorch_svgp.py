"""Fits GPyTorch's SVGP by Adam to one split, for a number or two classes, and prints its scores."""

import argparse

import numpy as np
from protocol import (
    add_common_arguments,
    add_epoch_arguments,
    emit_fit,
    fit_epochs,
    gaussian_scores,
    read_split,
    use_threads,
)


def build(gpytorch, torch, z, kernel="rbf", strategy="standard", likelihood="gaussian", precision="float64"):
    """Returns a zero-mean SVGP with an ARD kernel, lengthscales sqrt(D) and variance 1, and its likelihood, with noise 0.1."""
    dims, dtype = z.shape[1], getattr(torch, precision)
    strategy_class = {
        "standard": gpytorch.variational.VariationalStrategy,
        "large-batch": gpytorch.variational.LargeBatchVariationalStrategy,
    }[strategy]

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            distribution = gpytorch.variational.CholeskyVariationalDistribution(len(z))
            super().__init__(strategy_class(self, z.clone(), distribution, learn_inducing_locations=True))
            base = {
                "rbf": lambda: gpytorch.kernels.RBFKernel(ard_num_dims=dims),
                "matern32": lambda: gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=dims),
                "matern52": lambda: gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=dims),
            }[kernel]()
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood_class = {
        "gaussian": gpytorch.likelihoods.GaussianLikelihood,
        "probit": gpytorch.likelihoods.BernoulliLikelihood,
    }[likelihood]
    model, likelihood = Model().to(dtype), likelihood_class().to(dtype)
    model.covar_module.outputscale = 1.0
    model.covar_module.base_kernel.lengthscale = torch.full((1, dims), dims**0.5, dtype=dtype)
    if likelihood_class is gpytorch.likelihoods.GaussianLikelihood:
        likelihood.noise = 0.1
    return model, likelihood


def use_cholesky_precision(gpytorch, torch, precision):
    """Sets the precision of Cholesky factors and of the solves in predictions, which is double by default."""
    gpytorch.settings._linalg_dtype_cholesky._set_value(getattr(torch, precision))


def class_scores(split, probability):
    """Returns the mean negative log probability and the error rate of the test part; `probability` is that of class 1."""
    ones = split.y_test.ravel() > 0
    probability = np.ravel(probability)
    return {
        "test_nll": float(-np.log(np.where(ones, probability, 1 - probability)).mean()),
        "test_error": float(((probability > 0.5) != ones).mean()),
    }


class Training:
    """A model that Adam trains by epochs, its bound and its scores."""

    def __init__(self, split, z, options, gpytorch, torch):
        self.split, self.options, self.torch = split, options, torch
        self.x, self.y = torch.as_tensor(split.x), torch.as_tensor(split.y.ravel())
        if options.classes:
            # Standardised labels of two classes differ in sign; the probit likelihood needs 0 and 1.
            self.y = (self.y > 0).double()
        likelihood = "probit" if options.classes else "gaussian"
        z = torch.as_tensor(z)
        self.model, self.likelihood = build(gpytorch, torch, z, options.kernel, likelihood=likelihood)
        objectives = {"elbo": gpytorch.mlls.VariationalELBO, "pll": gpytorch.mlls.PredictiveLogLikelihood}
        objective = objectives[options.objective]
        self.objective = objective(self.likelihood, self.model, num_data=len(self.x))
        parameters = [*self.model.parameters(), *self.likelihood.parameters()]
        self.adam = torch.optim.Adam(parameters, lr=options.lr)

    def epoch(self):
        """Takes one step for each mini-batch of a new permutation; returns the number of steps."""
        self.model.train()
        self.likelihood.train()
        batches = self.torch.randperm(len(self.x)).split(self.options.batch)
        for rows in batches:
            self.adam.zero_grad()
            loss = -self.objective(self.model(self.x[rows]), self.y[rows])
            loss.backward()
            self.adam.step()
        return len(batches)

    def elbo(self):
        """Returns the evidence lower bound of all the data (sum, not mean), with the current parameters."""
        self.model.eval()
        self.likelihood.eval()
        batch = self.options.batch
        with self.torch.no_grad():
            parts = [
                self.likelihood.expected_log_prob(y, self.model(x)).sum()
                for x, y in zip(self.x.split(batch), self.y.split(batch))
            ]
            return float(sum(parts) - self.model.variational_strategy.kl_divergence())

    def scores(self):
        """Returns the scores of the test part, with the current parameters."""
        self.model.eval()
        self.likelihood.eval()
        parts = self.torch.as_tensor(self.split.x_test).split(self.options.batch)
        with self.torch.no_grad():
            predicted = [self.likelihood(self.model(part)) for part in parts]
            mean = self.torch.cat([p.mean for p in predicted]).numpy()
            variance = self.torch.cat([p.variance for p in predicted]).numpy()
        if self.options.classes:
            return class_scores(self.split, mean)
        return gaussian_scores(self.split, mean, variance)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_arguments(parser)
    add_epoch_arguments(parser, epochs=100)
    parser.add_argument("--objective", choices=["elbo", "pll"], default="elbo")
    parser.add_argument("--classes", action="store_true", help="the target has two values, which are classes")
    options = parser.parse_args()
    use_threads(options.threads)
    import gpytorch
    import sklearn.cluster  # used by initial_z; loaded here to keep it off the clock
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    split = read_split(options.train, options.test, options.target)
    record = {"library": f"gpytorch {gpytorch.__version__}", "objective": options.objective}

    def fit():
        return fit_epochs(split, options, lambda z: Training(split, z, options, gpytorch, torch))

    with gpytorch.settings.variational_cholesky_jitter(double_value=options.jitter):
        # The library's errors about matrices that are not positive definite are subclasses of these.
        emit_fit(record, split, options, fit, (ValueError, RuntimeError))


if __name__ == "__main__":
    main()
