"""Times one training step of a sparse variational GP (value, all gradients, all updates) in GPyTorch or GPflow."""

import argparse

import numpy as np

from protocol import Clock, emit, use_threads


def make_data(options):
    """A mini-batch (B x D, B x 1) and initial inducing inputs (M x D), standard normal inputs, a smooth target."""
    rng = np.random.default_rng(options.seed)
    x = rng.standard_normal((options.batch, options.dims))
    y = np.sin(x.sum(axis=1, keepdims=True)) + 0.1 * rng.standard_normal((options.batch, 1))
    return x, y, rng.standard_normal((options.inducing, options.dims))


def gpytorch_step(options):
    """Adam on the kernel, the noise, the inducing inputs and the whitened q(u) with a Cholesky factor."""
    import gpytorch
    import torch

    from gpytorch_svgp import build

    torch.set_num_threads(options.threads)
    x, y, z = (torch.as_tensor(a) for a in make_data(options))
    model, likelihood = build(gpytorch, torch, z)
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=options.rows)
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    model.train()
    likelihood.train()
    y = y.ravel()

    def step():
        adam.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        adam.step()
        return loss.item()

    return f"gpytorch {gpytorch.__version__}", step


def gpflow_step(options):
    """The same model as one compiled function; optionally q(u) by natural gradients, the rest by Adam."""
    import gpflow
    import tensorflow as tf
    import tf_keras

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    x, y, z = make_data(options)
    model = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(lengthscales=[options.dims**0.5] * options.dims),
        gpflow.likelihoods.Gaussian(0.1),
        inducing_variable=z,
        whiten=True,
        num_data=options.rows,
    )
    if options.natural:
        gpflow.set_trainable(model.q_mu, False)
        gpflow.set_trainable(model.q_sqrt, False)
    adam = tf_keras.optimizers.Adam(0.01)
    natural = gpflow.optimizers.NaturalGradient(gamma=0.1)
    data = (tf.constant(x), tf.constant(y))
    adam.build(model.trainable_variables)

    def loss():
        return model.training_loss(data)

    @tf.function
    def compiled():
        if options.natural:
            natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(model.trainable_variables)
            value = loss()
        gradients = tape.gradient(value, model.trainable_variables)
        adam.apply_gradients(zip(gradients, model.trainable_variables))
        return value

    return f"gpflow {gpflow.__version__}", lambda: float(compiled())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=["gpytorch", "gpflow"], required=True)
    parser.add_argument("--inducing", type=int, default=512)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--dims", type=int, default=8)
    parser.add_argument("--rows", type=int, default=100_000, help="the N that scales the likelihood term")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3, help="steps before the clock, tracing included")
    parser.add_argument("--natural", action="store_true", help="GPflow: natural gradients for q(u)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a sentence")
    options = parser.parse_args()
    if options.natural and options.library != "gpflow":
        parser.error("--natural needs --library gpflow")
    use_threads(options.threads)
    name, step = {"gpytorch": gpytorch_step, "gpflow": gpflow_step}[options.library](options)
    for _ in range(options.warm_up):
        loss = step()
    seconds = []
    for _ in range(options.repeats):
        clock = Clock()
        loss = step()
        seconds.append(clock.seconds())
    low, median, high = (float(q) for q in np.quantile(seconds, [0.1, 0.5, 0.9]))
    if options.json:
        settings = {key: getattr(options, key) for key in ("inducing", "batch", "dims", "threads", "repeats")}
        optimiser = "natural+adam" if options.natural else "adam"
        times = {"seconds_median": median, "seconds_p10": low, "seconds_p90": high}
        emit({"library": name, "optimiser": optimiser, **settings, **times, "last_loss": loss})
    else:
        print(f"{name}: {1e3 * median:.2f} ms a step (10 % below {1e3 * low:.2f}, 10 % above {1e3 * high:.2f})")


if __name__ == "__main__":
    main()
