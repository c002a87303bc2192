"""Fits GPflow's collapsed sparse GP regression (Titsias 2009) by L-BFGS-B to one split and prints its scores."""

import argparse

from protocol import (
    Clock,
    add_common_arguments,
    emit_fit,
    gaussian_scores,
    gpflow_kernel,
    initial_z,
    read_split,
    start_gpflow,
)


def fit(split, options, gpflow):
    """Trains, predicts and returns the record; the clock runs from k-means to the last prediction."""
    total = Clock()
    z = initial_z(split, options.inducing, options.seed, options.init_z)
    model = gpflow.models.SGPR(
        (split.x, split.y),
        kernel=gpflow_kernel(gpflow, options.kernel, split.x.shape[1]),
        inducing_variable=z,
        noise_variance=0.1,
    )
    train = Clock()
    result = gpflow.optimizers.Scipy().minimize(
        model.training_loss,
        model.trainable_variables,
        method="L-BFGS-B",
        options={"maxiter": options.iterations},
        compile=True,
    )
    seconds_train = train.seconds()
    elbo = float(model.elbo())
    mean, variance = model.predict_y(split.x_test)
    scores = gaussian_scores(split, mean.numpy(), variance.numpy())
    return {
        "m": len(z),
        "iterations": int(result.nit),
        "evaluations": int(result.nfev),
        "seconds_train": seconds_train,
        "seconds_total": total.seconds(),
        "elbo": elbo,
        **scores,
        "stopped": str(result.message),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_arguments(parser)
    parser.add_argument("--iterations", type=int, default=100, help="maximum number of L-BFGS-B iterations")
    options = parser.parse_args()
    gpflow, tf = start_gpflow(options)
    split = read_split(options.train, options.test, options.target)
    record = {"library": f"gpflow {gpflow.__version__}"}
    # A failed Cholesky factorisation may raise this error.
    emit_fit(record, split, options, lambda: fit(split, options, gpflow), (tf.errors.InvalidArgumentError,))


if __name__ == "__main__":
    main()
