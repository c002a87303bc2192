"""Classes with probabilities from a data frame that has numbers and a category: lines of user code, seconds and test NLL, by library.

    VENV/bin/python benches/peers/classify_frame.py --library gpytorch
"""

import argparse
import inspect
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd

DATA = Path(__file__).resolve().parents[2] / "examples" / "data" / "doctor_visits.csv"


def table():
    """3,000 training rows and 2,000 test rows about who saw a doctor in the year; health is a text column."""
    frame = pd.read_csv(DATA)
    health = frame[["hlthg", "hlthf", "hlthp"]].to_numpy() @ [1, 2, 3]
    frame["health"] = np.array(["excellent", "good", "fair", "poor"])[health.astype(int)]
    frame["saw_doctor"] = np.where(frame.visits > 0, "yes", "no")
    frame = frame.drop(columns=["hlthg", "hlthf", "hlthp", "visits"])
    return frame[:3000], frame[3000:]


def sparsegp(train, test):
    from sparsegp import SparseGPClassifier

    X, y = train.drop(columns="saw_doctor"), train.saw_doctor
    model = SparseGPClassifier(n_inducing=100, auto="none").fit(X, y)
    return model.predict_proba(test.drop(columns="saw_doctor"))[:, 1]


def gpflow(train, test):
    import gpflow
    import tensorflow as tf
    from sklearn.cluster import KMeans
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = train.drop(columns=["saw_doctor", "health"]).columns
    encoder = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(sparse_output=False), ["health"]))
    X, y = encoder.fit_transform(train), (train.saw_doctor == "yes").to_numpy(float)[:, None]
    Z = KMeans(100, n_init=1, random_state=0).fit(X).cluster_centers_
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(X.shape[1], X.shape[1] ** 0.5))
    model = gpflow.models.SVGP(kernel, gpflow.likelihoods.Bernoulli(), Z, num_data=len(y))
    gpflow.set_trainable(model.q_mu, False)
    gpflow.set_trainable(model.q_sqrt, False)
    natural, adam = gpflow.optimizers.NaturalGradient(0.1), tf.optimizers.Adam(0.01)
    batches = iter(tf.data.Dataset.from_tensor_slices((X, y)).repeat().shuffle(len(y), seed=0).batch(256))
    loss = model.training_loss_closure(batches)

    @tf.function
    def step():
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        with tf.GradientTape() as tape:
            objective = loss()
        adam.apply_gradients(zip(tape.gradient(objective, model.trainable_variables), model.trainable_variables))

    for _ in range(600):
        step()
    return model.predict_y(encoder.transform(test))[0].numpy()[:, 0]


def gpytorch(train, test):
    import gpytorch
    import torch
    from sklearn.cluster import KMeans
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, Z):
            q = gpytorch.variational.CholeskyVariationalDistribution(len(Z))
            super().__init__(gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=True))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1]))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    numbers = train.drop(columns=["saw_doctor", "health"]).columns
    encoder = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(sparse_output=False), ["health"]))
    X, y = torch.tensor(encoder.fit_transform(train)), torch.tensor((train.saw_doctor == "yes").to_numpy(float))
    Z = torch.tensor(KMeans(100, n_init=1, random_state=0).fit(X.numpy()).cluster_centers_)
    model, likelihood = Model(Z).double(), gpytorch.likelihoods.BernoulliLikelihood()
    model.covar_module.base_kernel.lengthscale = X.shape[1] ** 0.5
    mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=256, shuffle=True)
    for _ in range(50):
        for inputs, targets in batches:
            optimizer.zero_grad()
            (-mll(model(inputs), targets)).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return likelihood(model(torch.tensor(encoder.transform(test)))).mean.numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=["sparsegp", "gpflow", "gpytorch"], required=True)
    library = {"sparsegp": sparsegp, "gpflow": gpflow, "gpytorch": gpytorch}[parser.parse_args().library]
    train, test = table()
    library(train[:300], test[:10])  # imports and compilation
    begin, busy = time.perf_counter(), time.process_time()
    probability = np.clip(library(train, test), 1e-12, 1 - 1e-12)
    seconds, processor = time.perf_counter() - begin, time.process_time() - busy
    yes = (test.saw_doctor == "yes").to_numpy()
    found = {
        "library": library.__name__,
        "lines": sum(bool(line.strip()) for line in inspect.getsource(library).splitlines()[1:]),
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "test_nll": round(float(-np.log(np.where(yes, probability, 1 - probability)).mean()), 4),
        "error": round(float(np.mean((probability > 0.5) != yes)), 4),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
