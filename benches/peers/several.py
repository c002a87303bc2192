"""Models of several functions in GPflow, GPyTorch and sparsegp: sampled expectations, steps, and whole fits on the same splits."""

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from protocol import emit, use_tensorflow_threads, use_threads

HERMITE = np.polynomial.hermite_e.hermegauss(120)
TEST_SHARE = 0.3


def exact_log_softmax(y, mean, variance):
    """Returns E log softmax_y of independent normals (N x C), and its derivatives in the means: integrals over a grid of products
    of phi(a; v) = E exp(-exp(a + sqrt(v) e)), each of which is computed by Gauss-Hermite's rule."""
    nodes, weights = HERMITE
    grid = np.arange(-45.0, 12.0, 0.1)
    top = mean.max(axis=1, keepdims=True)
    values, gradients = np.empty(len(y)), np.empty_like(mean)
    for i, (mu, v) in enumerate(zip(mean - top, variance)):
        u = grid[:, None, None] + mu[:, None] + np.sqrt(v)[:, None] * nodes
        rate = np.exp(np.minimum(u, 50.0))
        none = np.exp(-rate)
        phi = none @ weights / weights.sum()
        slope = (-rate * none) @ weights / weights.sum()
        product = phi.prod(axis=1)
        # log sum e^f = integral of [exp(-e^s) - prod phi] ds.
        values[i] = mu[y[i]] - 0.1 * np.sum(np.exp(-np.exp(grid)) - product)
        others = np.array([np.delete(phi, c, axis=1).prod(axis=1) for c in range(len(mu))]).T
        gradients[i] = (np.arange(len(mu)) == y[i]) + 0.1 * np.sum(slope * others, axis=0)
    return values, gradients


def marginals(classes, rows, seed=0):
    """Returns classes, means and variances that are typical of a fit."""
    rng = np.random.default_rng(seed)
    mean = 1.5 * rng.standard_normal((rows, classes))
    return rng.integers(classes, size=rows), mean, rng.uniform(0.05, 0.95, (rows, classes))


def sampled_gpflow(classes, options):
    """Returns a compiled function for GPflow's E log p from 100 samples, and its gradient in the means."""
    import gpflow
    import tensorflow as tf

    use_tensorflow_threads(tf, options.threads)
    likelihood = gpflow.likelihoods.Softmax(classes)

    @tf.function
    def evaluate(y, mean, variance):
        with tf.GradientTape() as tape:
            tape.watch(mean)
            value = likelihood.variational_expectations(mean[:, :0], mean, variance, y[:, None])
            total = tf.reduce_sum(value)
        return value, tape.gradient(total, mean)

    return lambda *arrays: [part.numpy() for part in evaluate(*map(tf.constant, arrays))]


def sampled_gpytorch(classes, options):
    """Returns a function for GPyTorch's E log p of a softmax from 10 samples, and its gradient in the means."""
    import gpytorch
    import torch
    from linear_operator.operators import DiagLinearOperator

    torch.set_num_threads(options.threads)
    likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_classes=classes, mixing_weights=False)

    def evaluate(y, mean, variance):
        mean = torch.tensor(mean, requires_grad=True)
        normal = gpytorch.distributions.MultivariateNormal(mean.T, DiagLinearOperator(torch.tensor(variance).T))
        latent = gpytorch.distributions.MultitaskMultivariateNormal.from_batch_mvn(normal)
        value = likelihood.expected_log_prob(torch.tensor(y), latent)
        value.sum().backward()
        return value.detach().numpy(), mean.grad.numpy()

    return evaluate


def expectations(options):
    """Measures the error of sampled expectations and of their gradients, and the time per datum."""
    rows = 1024
    for classes in (3, 10, 100):
        y, mean, variance = marginals(classes, rows)
        few = slice(0, 64)
        exact = exact_log_softmax(y[few], mean[few], variance[few])
        for name, make in (("gpflow", sampled_gpflow), ("gpytorch", sampled_gpytorch)):
            evaluate = make(classes, options)
            errors = [
                [np.sqrt(np.mean((part[few] - want) ** 2)) for part, want in zip(evaluate(y, mean, variance), exact)]
                for _ in range(20)
            ]
            seconds = []
            for _ in range(20):
                started = time.perf_counter()
                evaluate(y, mean, variance)
                seconds.append(time.perf_counter() - started)
            value, gradient = np.mean(errors, axis=0)
            datum = float(np.median(seconds)) / rows * 1e6
            emit({"library": name, "classes": classes, "rms_value": value, "rms_gradient": gradient, "us_a_datum": datum})


def gpflow_classes(z, classes, num_data):
    """Returns GPflow's model of functions that share kernel and inducing inputs, with a softmax."""
    import gpflow

    dims = z.shape[1]
    kernel = gpflow.kernels.SquaredExponential(lengthscales=np.full(dims, dims**0.5))
    points = gpflow.inducing_variables.SharedIndependentInducingVariables(gpflow.inducing_variables.InducingPoints(z))
    return gpflow.models.SVGP(
        gpflow.kernels.SharedIndependent(kernel, output_dim=classes),
        gpflow.likelihoods.Softmax(classes),
        points,
        num_latent_gps=classes,
        num_data=num_data,
        mean_function=gpflow.functions.Constant(np.zeros(classes)),
    )


def gpflow_training(model, lr=0.01):
    """Returns a compiled step of Adam on all parameters."""
    import tensorflow as tf

    from gpflow_svgp import training_step
    import gpflow

    step = training_step(gpflow, tf, model, lr)
    return tf.function(lambda x, y: step((x, y)))


def gpytorch_classes(z, classes):
    """Returns the same model in GPyTorch: a batch of C variational distributions with one kernel and one set of inducing inputs."""
    import gpytorch
    import torch

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self):
            q = gpytorch.variational.CholeskyVariationalDistribution(len(z), batch_shape=torch.Size([classes]))
            one = gpytorch.variational.VariationalStrategy(self, torch.tensor(z), q, learn_inducing_locations=True)
            super().__init__(gpytorch.variational.IndependentMultitaskVariationalStrategy(one, num_tasks=classes))
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=torch.Size([classes]))
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=z.shape[1]))
            self.covar_module.base_kernel.lengthscale = z.shape[1] ** 0.5

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    return Model().double(), gpytorch.likelihoods.SoftmaxLikelihood(num_classes=classes, mixing_weights=False).double()


def gpytorch_training(model, likelihood, num_data, lr=0.01):
    """Returns a step of Adam on all parameters."""
    import gpytorch
    import torch

    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=num_data)
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=lr)
    model.train()
    likelihood.train()

    def step(x, y):
        adam.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        adam.step()
        return loss.item()

    return step


def run_sparsegp(options, train, test, *arguments):
    """Returns the metrics document of a fit by the command line, with its wall-clock seconds including reading."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{part}.csv" for part in ("train", "test")]
        for path, frame in zip(paths, (train, test)):
            frame.to_csv(path, index=False)
        command = [options.program, "fit", paths[0], "--test", paths[1], "--quiet", "--json", *arguments]
        started = time.perf_counter()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout) | {"wall": seconds}


def steps(options):
    """Measures the time of a training step with ten classes, M = 512, b = 1024 and eight inputs."""
    classes, m, b, dims = 10, 512, 1024, 8
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4 * b, dims))
    scores = np.sin(x @ rng.standard_normal((dims, classes))) + rng.gumbel(size=(4 * b, classes))
    y = scores.argmax(axis=1)
    z = rng.standard_normal((m, dims))

    if options.library == "sparsegp":
        frame = pd.DataFrame(x).assign(y=[f"c{c}" for c in y])
        shape = ["--inducing", m, "--batch-size", b, "--warm-start", 0, "--no-polish"]
        # The peers' q is whitened (joint); ours by default keeps sites (dual), which takes more M³ products.
        for way in (["--hyper", "joint"], ["--hyper", "dual"]):
            # The difference of a long and a short fit excludes everything except the steps.
            spent = []
            for count in (10, 40):
                before = os.times()
                run_sparsegp(options, frame, frame[:200], "--target", "y", "--auto", "none", *shape, *way, "--max-steps", count)
                after = os.times()
                processor = after.children_user + after.children_system - before.children_user - before.children_system
                spent.append((after.elapsed - before.elapsed, processor))
            wall, processor = (1e3 * (long - short) / 30 for short, long in zip(*spent))
            emit({"library": f"sparsegp {' '.join(way)}", "ms_a_step": wall, "processor_ms": processor})
        return
    step, _ = TRAININGS[options.library](options, z, classes, 100_000)
    seconds = []
    for _ in range(13):
        started = time.perf_counter(), time.process_time()
        step(x[:b], y[:b])
        seconds.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    wall, processor = 1e3 * np.median(seconds[3:], axis=0)
    emit({"library": options.library, "ms_a_step": wall, "processor_ms": processor})


def splits():
    """Yields the sets with several classes: name, training and test part."""
    from sklearn import datasets

    for name, load in (("iris", datasets.load_iris), ("wine", datasets.load_wine), ("digits", datasets.load_digits)):
        found = load()
        x = found.data[:, found.data.std(axis=0) > 0]
        frame = pd.DataFrame(x).add_prefix("x").assign(y=[f"c{c}" for c in found.target])
        rows = np.random.RandomState(0).permutation(len(frame))
        train = round((1 - TEST_SHARE) * len(frame))
        yield name, frame.iloc[rows[:train]], frame.iloc[rows[train:]]


def standardised(train, test, targets):
    """Returns the inputs of both parts, standardised by the training part."""
    x, x_test = (frame.drop(columns=targets).to_numpy(float) for frame in (train, test))
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale == 0] = 1
    return (x - mean) / scale, (x_test - mean) / scale


def class_scores(probabilities, y):
    """Returns log loss and error rate."""
    own = np.maximum(probabilities[np.arange(len(y)), y], 1e-300)
    return {"nll": float(-np.log(own).mean()), "error": float((probabilities.argmax(axis=1) != y).mean())}


def train_gpflow(options, z, classes, num_data):
    """Trains GPflow's model; returns functions of arrays for a step of Adam and for the probabilities of classes."""
    import tensorflow as tf

    use_tensorflow_threads(tf, options.threads)
    model = gpflow_classes(z, classes, num_data)
    step = gpflow_training(model)
    take = lambda x, y: float(step(tf.constant(x), tf.constant(y[:, None])))
    return take, lambda x: model.predict_y(x)[0].numpy()


def train_gpytorch(options, z, classes, num_data):
    """Like `train_gpflow` for GPyTorch; probabilities come from a thousand draws."""
    import torch

    torch.set_num_threads(options.threads)
    model, likelihood = gpytorch_classes(z, classes)
    step = gpytorch_training(model, likelihood, num_data)

    def probabilities(x):
        model.eval()
        with torch.no_grad():
            draws = model(torch.tensor(x)).to_data_independent_dist().sample(torch.Size([1000]))
            return torch.softmax(draws, dim=-1).mean(dim=0).numpy()

    return lambda x, y: step(torch.tensor(x), torch.tensor(y)), probabilities


TRAININGS = {"gpflow": train_gpflow, "gpytorch": train_gpytorch}


def multiclass(options):
    """Compares log loss and error of softmax classifiers with the same number of inducing inputs and the same splits."""
    for name, train, test in splits():
        if options.sets and name not in options.sets:
            continue
        m = min(200, len(train) // 2)
        if options.library == "sparsegp":
            for way, arguments in (("sparsegp", ["--auto", "none", "--inducing", m]), ("sparsegp, default", [])):
                found = run_sparsegp(options, train, test, "--target", "y", *arguments)
                scores = {"nll": found["test"]["nll"], "error": found["test"]["error_rate"]}
                emit({"set": name, "library": way, "m": m, **scores, "seconds": found["wall"]})
            continue
        x, x_test = standardised(train, test, ["y"])
        y, y_test = (frame["y"].str[1:].to_numpy(int) for frame in (train, test))
        random, b = np.random.default_rng(0), min(256, len(x))
        z = x[random.choice(len(x), m, replace=False)]
        started = time.perf_counter()
        step, probabilities = TRAININGS[options.library](options, z, y.max() + 1, len(x))
        for _ in range(options.steps):
            rows = random.choice(len(x), b, replace=False)
            step(x[rows], y[rows])
        scores = class_scores(probabilities(x_test), y_test)
        emit({"set": name, "library": options.library, "m": m, **scores, "seconds": time.perf_counter() - started})


def noise(options):
    """Compares models of varying noise on ten splits of mcycle: GPflow's two functions with a normal likelihood, and sparsegp's."""
    import gpflow
    import tensorflow as tf
    import tensorflow_probability as tfp

    use_tensorflow_threads(tf, options.threads)
    frame = pd.read_csv(options.data / "mcycle.csv.gz")
    for seed in range(options.seeds):
        rows = np.random.default_rng(seed).permutation(len(frame))
        held = round(TEST_SHARE * len(frame))
        test, train = frame.iloc[rows[:held]], frame.iloc[rows[held:]]
        x, x_test = standardised(train, test, ["y"])
        shift, scale = train["y"].mean(), train["y"].std(ddof=0)
        y, y_test = ((part["y"].to_numpy(float)[:, None] - shift) / scale for part in (train, test))
        started = time.perf_counter()
        likelihood = gpflow.likelihoods.HeteroskedasticTFPConditional(
            distribution_class=tfp.distributions.Normal, scale_transform=tfp.bijectors.Exp()
        )
        kernel = gpflow.kernels.SeparateIndependent([gpflow.kernels.SquaredExponential() for _ in range(2)])
        z = np.linspace(x.min(), x.max(), 20)[:, None]
        points = [gpflow.inducing_variables.InducingPoints(z) for _ in range(2)]
        model = gpflow.models.SVGP(
            kernel,
            likelihood,
            gpflow.inducing_variables.SeparateIndependentInducingVariables(points),
            num_latent_gps=2,
        )
        step = gpflow_training(model)
        data = (tf.constant(x), tf.constant(y))
        for _ in range(options.steps):
            step(*data)
        nll = -float(tf.reduce_mean(model.predict_log_density((x_test, y_test)))) + math.log(scale)
        emit({"set": "mcycle", "seed": seed, "library": "gpflow", "nll": nll, "seconds": time.perf_counter() - started})
        for kind in ("gaussian-heteroskedastic", "gaussian"):
            arguments = ["--auto", "none", "--likelihood", kind, "--inducing", 20]
            found = run_sparsegp(options, train, test, "--target", "y", *arguments)
            record = {"set": "mcycle", "seed": seed, "library": f"sparsegp, {kind}", "nll": found["test"]["nll"]}
            emit(record | {"seconds": found["wall"]})


def outputs(options):
    """Compares models of both targets of gas_turbine: GPflow's and our linear models of coregionalisation, and separate fits."""
    import gpflow
    import tensorflow as tf

    use_tensorflow_threads(tf, options.threads)
    targets, m = ["CO", "NOX"], 200
    frame = pd.read_csv(options.data / "gas_turbine.csv.gz")
    rows = np.random.default_rng(0).permutation(len(frame))[: options.rows]
    held = round(TEST_SHARE * len(rows))
    test, train = frame.iloc[rows[:held]], frame.iloc[rows[held:]]
    x, x_test = standardised(train, test, targets)
    shift, scale = train[targets].mean().to_numpy(), train[targets].std(ddof=0).to_numpy()
    y, y_test = ((part[targets].to_numpy(float) - shift) / scale for part in (train, test))
    dims, random = x.shape[1], np.random.default_rng(0)
    z = x[random.choice(len(x), m, replace=False)]

    def kernel():
        return gpflow.kernels.SquaredExponential(lengthscales=np.full(dims, dims**0.5))

    started = time.perf_counter()
    mixed = gpflow.kernels.LinearCoregionalization([kernel() for _ in range(2)], W=np.eye(2) + 0.1)
    points = gpflow.inducing_variables.SharedIndependentInducingVariables(gpflow.inducing_variables.InducingPoints(z))
    likelihood = gpflow.likelihoods.Gaussian(np.full((1, 2), 0.1))
    model = gpflow.models.SVGP(mixed, likelihood, points, num_latent_gps=2, num_data=len(x))
    step = gpflow_training(model)
    for _ in range(options.steps):
        chosen = random.choice(len(x), 1024, replace=False)
        step(tf.constant(x[chosen]), tf.constant(y[chosen]))
    mean, variance = (part.numpy() for part in model.predict_y(x_test))
    nll = 0.5 * np.log(2 * np.pi * variance) + 0.5 * (y_test - mean) ** 2 / variance + np.log(scale)
    emit({"library": "gpflow", "nll": nll.mean(axis=0).tolist(), "seconds": time.perf_counter() - started})
    plain = ["--auto", "none", "--inducing", m]
    for way, arguments in (("mixing 2", [*plain, "--mixing", 2]), ("one by one", plain), ("default", [])):
        found = run_sparsegp(options, train, test, "--target", ",".join(targets), *arguments)
        nll = [found["outputs"][target]["test"]["nll"] for target in targets]
        emit({"library": f"sparsegp, {way}", "nll": nll, "seconds": found["wall"]})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    tasks = {task.__name__: task for task in (expectations, steps, multiclass, noise, outputs)}
    parser.add_argument("task", choices=tasks)
    parser.add_argument("sets", nargs="*", help="names of sets for multiclass; all by default")
    libraries = ["gpflow", "gpytorch", "sparsegp"]
    parser.add_argument("--library", choices=libraries, default="sparsegp", help="library for steps and multiclass, one per process")
    parser.add_argument("--data", type=Path, help="folder of the sets: NAME.csv.gz")
    parser.add_argument("--program", default="sparsegp", help="the command line to measure")
    parser.add_argument("--steps", type=int, default=3000, help="steps of Adam in the peers")
    parser.add_argument("--rows", type=int, default=6000, help="rows of gas_turbine")
    parser.add_argument("--seeds", type=int, default=10, help="splits of mcycle")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    use_threads(options.threads)
    tasks[options.task](options)


if __name__ == "__main__":
    main()
