"""Fits GPyTorch's stochastic variational GP by Adam to one split, for a number or two classes, and prints its scores."""

import argparse

import numpy as np
from protocol import Clock, add_common_arguments, emit, gaussian_scores, initial_z, read_split, use_threads


def build(gpytorch, torch, z, kernel="rbf", whiten=True):
    """A zero-mean SVGP in double precision with an ARD kernel, lengthscales sqrt(D), variance 1, noise 0.1."""
    dims = z.shape[1]
    strategy_class = (
        gpytorch.variational.VariationalStrategy
        if whiten
        else gpytorch.variational.UnwhitenedVariationalStrategy
    )

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

    model, likelihood = Model().double(), gpytorch.likelihoods.GaussianLikelihood().double()
    model.covar_module.outputscale = 1.0
    model.covar_module.base_kernel.lengthscale = torch.full((1, dims), dims**0.5, dtype=torch.float64)
    likelihood.noise = 0.1
    return model, likelihood


def class_scores(split, probability):
    """Mean negative log probability and error rate of the test part; `probability` is that of class 1."""
    ones = split.y_test.ravel() > 0
    probability = np.ravel(probability)
    return {
        "test_nll": float(-np.log(np.where(ones, probability, 1 - probability)).mean()),
        "test_error": float(((probability > 0.5) != ones).mean()),
    }


def full_elbo(model, likelihood, torch, x, y, batch):
    """The evidence lower bound of all the data (sum, not mean), with the present parameters."""
    with torch.no_grad():
        parts = [
            likelihood.expected_log_prob(y[i : i + batch], model(x[i : i + batch])).sum()
            for i in range(0, len(x), batch)
        ]
        return float(sum(parts) - model.variational_strategy.kl_divergence())


def fit(split, options, gpytorch, torch):
    """Trains, predicts and returns the record; the clock runs from k-means to the last prediction."""
    total = Clock()
    z = torch.as_tensor(initial_z(split, options.inducing, options.seed, options.init_z))
    x, y = torch.as_tensor(split.x), torch.as_tensor(split.y.ravel())
    model, likelihood = build(gpytorch, torch, z, options.kernel)
    if options.classes:
        # Standardised labels of two classes differ in sign; the probit likelihood takes 0 and 1.
        likelihood = gpytorch.likelihoods.BernoulliLikelihood().double()
        y = (y > 0).double()
    objectives = {"elbo": gpytorch.mlls.VariationalELBO, "pll": gpytorch.mlls.PredictiveLogLikelihood}
    objective = objectives[options.objective](likelihood, model, num_data=len(x))
    parameters = [*model.parameters(), *likelihood.parameters()]
    adam = torch.optim.Adam(parameters, lr=options.lr)
    train, steps = Clock(), 0
    model.train()
    likelihood.train()
    for _ in range(options.epochs):
        for rows in torch.randperm(len(x)).split(options.batch):
            adam.zero_grad()
            loss = -objective(model(x[rows]), y[rows])
            loss.backward()
            adam.step()
            steps += 1
    seconds_train = train.seconds()
    model.eval()
    likelihood.eval()
    elbo = full_elbo(model, likelihood, torch, x, y, options.batch)
    with torch.no_grad():
        predicted = [likelihood(model(part)) for part in torch.as_tensor(split.x_test).split(options.batch)]
        mean = torch.cat([p.mean for p in predicted]).numpy()
        variance = torch.cat([p.variance for p in predicted]).numpy()
    scores = class_scores(split, mean) if options.classes else gaussian_scores(split, mean, variance)
    return {
        "m": len(z),
        "epochs": options.epochs,
        "steps": steps,
        "seconds_train": seconds_train,
        "seconds_total": total.seconds(),
        "elbo": elbo,
        **scores,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_arguments(parser)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=0.01)
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
    record = {"library": f"gpytorch {gpytorch.__version__}", "set": split.name, "objective": options.objective}
    record |= {"n": len(split.x), "d": split.x.shape[1], "m": options.inducing}
    try:
        with gpytorch.settings.variational_cholesky_jitter(double_value=options.jitter):
            record |= fit(split, options, gpytorch, torch)
    except (ValueError, RuntimeError) as error:
        # Covers the library's errors for matrices that are not positive definite; a fit that dies is a result.
        emit(record | {"error": f"{type(error).__name__}: {error}".splitlines()[0]})
        raise SystemExit(1) from None
    emit(record)


if __name__ == "__main__":
    main()
