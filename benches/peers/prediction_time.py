"""Times predictions (mean and variance) of a sparse variational GP in GPyTorch or GPflow: rows per second."""

import argparse
import resource

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


def make_posterior(options):
    """Returns inducing inputs (M x D), whitened mean (M x 1) and factor (M x M) of a q(u) that is not the prior."""
    rng = np.random.default_rng(options.seed)
    count = options.inducing
    z = rng.standard_normal((count, options.dims))
    mean = rng.standard_normal((count, 1))
    factor = 0.1 * (np.eye(count) + np.tril(rng.standard_normal((count, count)), -1) / count**0.5)
    return tuple(array.astype(options.precision) for array in (z, mean, factor))


def gpytorch_predict(options):
    """Returns a function for the latent mean and variance, without gradients and with GPyTorch's caches of a model in `eval` mode."""
    import gpytorch
    import torch

    from gpytorch_svgp import build, use_cholesky_precision

    torch.set_num_threads(options.threads)
    use_cholesky_precision(gpytorch, torch, precisions(options)["cholesky"])
    z, mean, factor = (torch.as_tensor(a) for a in make_posterior(options))
    model, _ = build(gpytorch, torch, z, strategy=options.strategy, precision=options.precision)
    strategy = model.variational_strategy
    strategy.variational_params_initialized.fill_(1)
    with torch.no_grad():
        strategy._variational_distribution.variational_mean.copy_(mean.ravel())
        strategy._variational_distribution.chol_variational_covar.copy_(factor)
    model.eval()

    def predict(x):
        with torch.no_grad(), gpytorch.settings.fast_pred_var():
            latent = model(torch.as_tensor(x))
            return latent.mean.numpy(), latent.variance.numpy()

    return {"library": "gpytorch", "version": gpytorch.__version__}, predict


def gpflow_predict(options):
    """Returns a compiled function for the latent mean and variance, the faster of GPflow's forms with and without a cache."""
    import gpflow
    import tensorflow as tf

    from gpflow_svgp import build

    use_tensorflow_threads(tf, options.threads)
    gpflow.config.set_default_float(options.precision)
    z, mean, factor = make_posterior(options)
    model = build(gpflow, z, num_data=None)
    model.q_mu.assign(mean)
    model.q_sqrt.assign(factor[None])
    # The number of rows is open, so that the last, smaller batch is not traced separately.
    inputs = tf.TensorSpec([None, options.dims], options.precision)
    forms = {
        "posterior": tf.function(model.posterior().predict_f, input_signature=[inputs]),
        "predict_f": tf.function(model.predict_f, input_signature=[inputs]),
    }
    trial = np.random.default_rng(options.seed).standard_normal((options.batch, options.dims))
    trial = trial.astype(options.precision)

    def seconds(form):
        forms[form](trial)
        clock = Clock()
        for _ in range(3):
            forms[form](trial)
        return clock.seconds()

    fastest = min(forms, key=seconds)

    def predict(x):
        return tuple(values.numpy() for values in forms[fastest](x))

    return {"library": "gpflow", "version": gpflow.__version__, "form": fastest}, predict


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_timing_arguments(parser, batch=8192)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows to predict")
    options = parse_timing_arguments(parser)
    use_threads(options.threads)
    record, predict = {"gpytorch": gpytorch_predict, "gpflow": gpflow_predict}[options.library](options)
    rng = np.random.default_rng(options.seed + 1)

    def inputs(count):
        return rng.standard_normal((count, options.dims)).astype(options.precision)

    predict(inputs(options.batch))
    seconds, variances = 0.0, 0.0
    for start in range(0, options.rows, options.batch):
        x = inputs(min(options.batch, options.rows - start))
        clock = Clock()
        mean, variance = predict(x)
        seconds += clock.seconds()
        assert {mean.dtype, variance.dtype} == {x.dtype}
        variances += float(variance.sum())
    keys = ("rows", "batch", "inducing", "dims", "threads")
    record |= {key: getattr(options, key) for key in keys} | precisions(options)
    record |= {"seconds": seconds, "rows_per_second": options.rows / seconds}
    # A check: libraries with the same predictions agree up to rounding and jitter.
    record |= {"mean_variance": variances / options.rows}
    record |= {"peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    emit(record)


if __name__ == "__main__":
    main()
