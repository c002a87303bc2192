"""Times one training step of a sparse variational GP (value, all gradients, all updates) in GPyTorch or GPflow."""

import argparse

import numpy as np

from protocol import (
    Clock,
    add_timing_arguments,
    emit,
    parse_timing_arguments,
    precisions,
    use_tensorflow_threads,
    use_threads,
)


def make_data(options):
    """Returns a mini-batch (B x D, B x 1) of a smooth f, and initial inducing inputs (M x D); inputs are standard normal."""
    rng = np.random.default_rng(options.seed)
    x = rng.standard_normal((options.batch, options.dims))
    smooth = np.sin(x.sum(axis=1, keepdims=True))
    if options.likelihood == "poisson":
        y = rng.poisson(np.exp(smooth / 2))
    else:
        y = smooth + 0.1 * rng.standard_normal((options.batch, 1))
    if options.likelihood == "probit":
        y = y > 0
    z = rng.standard_normal((options.inducing, options.dims))
    return tuple(array.astype(options.precision) for array in (x, y, z))


def gpytorch_step(options):
    """Returns a step of Adam on the kernel, the noise, the inducing inputs and the whitened q(u) with a Cholesky factor."""
    import gpytorch
    import torch

    from gpytorch_svgp import build, use_cholesky_precision

    torch.set_num_threads(options.threads)
    use_cholesky_precision(gpytorch, torch, precisions(options)["cholesky"])
    x, y, z = (torch.as_tensor(a) for a in make_data(options))
    kind = {key: getattr(options, key) for key in ("likelihood", "strategy", "precision")}
    model, likelihood = build(gpytorch, torch, z, **kind)
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=options.rows)
    parameters = [*model.parameters(), *likelihood.parameters()]
    adam = torch.optim.Adam(parameters, lr=0.01)
    model.train()
    likelihood.train()
    y = y.ravel()

    def step():
        adam.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        adam.step()
        assert {loss.dtype, *(p.dtype for p in parameters), *(p.grad.dtype for p in parameters)} == {x.dtype}
        return loss.item()

    return f"gpytorch {gpytorch.__version__}", step


def gpflow_step(options):
    """Returns a step of the same model as one compiled function; optionally q(u) by natural gradients and the rest by Adam."""
    import gpflow
    import tensorflow as tf

    from gpflow_svgp import build, training_step

    use_tensorflow_threads(tf, options.threads)
    gpflow.config.set_default_float(options.precision)
    x, y, z = make_data(options)
    model = build(gpflow, z, options.rows, likelihood=options.likelihood)
    step = training_step(gpflow, tf, model, gamma=0.1 if options.natural else None)
    data = (tf.constant(x), tf.constant(y))

    @tf.function
    def compiled():
        loss = step(data)
        assert {loss.dtype, *(v.dtype for v in model.variables)} == {data[0].dtype}
        return loss

    return f"gpflow {gpflow.__version__}", lambda: float(compiled())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_timing_arguments(parser, batch=1024)
    parser.add_argument("--rows", type=int, default=100_000, help="the N that scales the likelihood term")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3, help="steps before the clock, tracing included")
    parser.add_argument("--natural", action="store_true", help="GPflow: natural gradients for q(u)")
    likelihoods = ["gaussian", "probit", "poisson"]
    parser.add_argument("--likelihood", choices=likelihoods, default="gaussian")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a sentence")
    options = parse_timing_arguments(parser)
    if options.natural and options.library != "gpflow":
        parser.error("--natural needs --library gpflow")
    if options.likelihood == "poisson" and options.library != "gpflow":
        # GPyTorch's Poisson likelihood is a different model: its link is softplus instead of exp, without a closed form.
        parser.error("--likelihood poisson needs --library gpflow")
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
        keys = ("inducing", "batch", "dims", "threads", "repeats", "likelihood")
        settings = {key: getattr(options, key) for key in keys} | precisions(options)
        optimiser = "natural+adam" if options.natural else "adam"
        times = {"seconds_median": median, "seconds_p10": low, "seconds_p90": high}
        emit({"library": name, "optimiser": optimiser, **settings, **times, "last_loss": loss})
    else:
        print(f"{name}: {1e3 * median:.2f} ms a step (10 % below {1e3 * low:.2f}, 10 % above {1e3 * high:.2f})")


if __name__ == "__main__":
    main()
