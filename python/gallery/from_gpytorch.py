# %% [markdown]
# # Coming from GPyTorch
#
# This sparse regression is written in both libraries. In GPyTorch you write a class for the model and a loop for the training:

# %%
import importlib.util

import numpy as np

from sparsegp import SparseGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (400, 1))
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=400)
new = np.linspace(0, 10, 100)[:, None]


def with_gpytorch():
    import gpytorch
    import torch

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, inducing):
            q = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
            strategy = gpytorch.variational.VariationalStrategy(self, inducing, q, learn_inducing_locations=True)
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    inputs, targets = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    likelihood, model = gpytorch.likelihoods.GaussianLikelihood(), Model(inputs[:20].clone())
    mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        (-mll(model(inputs), targets)).backward()
        optimizer.step()
    model.eval(), likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(torch.tensor(new, dtype=torch.float32)))
    return found.mean.numpy(), found.stddev.numpy()


# %% [markdown]
# In sparsegp the model is an estimator. The package chooses scaling, starting values, inducing inputs and the end of
# training. It uses natural gradients and closed forms instead of Adam for the variational parameters.

# %%
model = SparseGPRegressor("rbf", n_inducing=20, auto="none").fit(X, y)
mean, std = model.predict(new, return_std=True)
print(f"sparsegp: RMSE {np.sqrt(np.mean((mean - np.sin(new[:, 0])) ** 2)):.3f}, mean standard deviation {std.mean():.3f}")
if importlib.util.find_spec("gpytorch"):
    mean, std = with_gpytorch()
    print(f"GPyTorch: RMSE {np.sqrt(np.mean((mean - np.sin(new[:, 0])) ** 2)):.3f}, mean standard deviation {std.mean():.3f}")
else:
    print("GPyTorch is not installed: its code is not run")
