"""Shared code of the peer scripts: options, splits, k-means, threads, epochs, scores, one line of JSON."""

import json
import os
import resource
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

# The load average before this process adds to it. Other work on the machine makes OpenMP threads spin while they wait
# for each other, and can slow PyTorch's steps fifty times, so a time without this number cannot be trusted.
LOAD_BEFORE = os.getloadavg()[0]


@dataclass
class Split:
    """A training and a test part, standardised by the training part; `y` are column vectors (N x 1)."""

    name: str
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    y_mean: float
    y_scale: float


def use_threads(count):
    """Limits the number of threads and hides accelerators; call before importing TensorFlow or PyTorch."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(count)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


def use_tensorflow_threads(tf, count):
    """Limits TensorFlow's own thread pools; call before its first operation."""
    tf.config.threading.set_intra_op_parallelism_threads(count)
    tf.config.threading.set_inter_op_parallelism_threads(count)


def start_gpflow(options):
    """Imports GPflow and TensorFlow, and sets the threads, the seed and the jitter of a script that fits; call it first."""
    use_threads(options.threads)
    import gpflow
    import sklearn.cluster  # used by initial_z; loaded here to keep it off the clock
    import tensorflow as tf

    use_tensorflow_threads(tf, options.threads)
    tf.random.set_seed(options.seed)
    gpflow.config.set_default_jitter(options.jitter)
    return gpflow, tf


def gpflow_kernel(gpflow, name, dims):
    """Returns a kernel of GPflow with variance 1 and a lengthscale of sqrt(D) for each input."""
    kernels = {
        "rbf": gpflow.kernels.SquaredExponential,
        "matern32": gpflow.kernels.Matern32,
        "matern52": gpflow.kernels.Matern52,
    }
    return kernels[name](variance=1.0, lengthscales=[dims**0.5] * dims)


def add_common_arguments(parser):
    """Adds the arguments of scripts that fit one model to one split."""
    parser.add_argument("train", type=Path, help="CSV file with a header, the training part")
    parser.add_argument("test", type=Path, help="CSV file with the same columns, the test part")
    parser.add_argument("--target", default="y", help="column to predict; all others are inputs")
    parser.add_argument("--inducing", type=int, default=500)
    parser.add_argument("--init-z", type=Path, help="CSV file without a header: initial Z, standardised inputs")
    parser.add_argument("--kernel", choices=["rbf", "matern32", "matern52"], default="rbf")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jitter", type=float, default=1e-6)


def add_epoch_arguments(parser, epochs):
    """Adds the arguments of scripts that train on mini-batches."""
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=0.01, help="step size of Adam")
    parser.add_argument("--stop-at-nll", type=float, help="end with an epoch whose test NLL is at most this")


def add_timing_arguments(parser, batch):
    """Adds the arguments of scripts that time one library on simulated data."""
    parser.add_argument("--library", choices=["gpytorch", "gpflow"], required=True)
    parser.add_argument("--inducing", type=int, default=512)
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--dims", type=int, default=8)
    parser.add_argument("--precision", choices=["float64", "float32"], default="float64")
    strategies = ["standard", "large-batch"]
    parser.add_argument("--strategy", choices=strategies, default="standard", help="GPyTorch's variational strategy")
    parser.add_argument("--double-cholesky", action="store_true", help="GPyTorch's default with float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)


def parse_timing_arguments(parser):
    """Parses the command line; an option of GPyTorch given with another library is an error."""
    options = parser.parse_args()
    if options.library != "gpytorch" and (options.strategy != "standard" or options.double_cholesky):
        parser.error("--strategy and --double-cholesky need --library gpytorch")
    return options


def precisions(options):
    """Returns the precisions for a record; GPyTorch may factorise in a higher precision."""
    cholesky = "float64" if options.double_cholesky else options.precision
    return {"precision": options.precision, "cholesky": cholesky, "strategy": options.strategy}


def read_split(train, test, target):
    """Reads both parts and standardises inputs and target by the training part; constant columns keep scale 1."""
    train_frame, test_frame = pd.read_csv(train), pd.read_csv(test)
    inputs = [column for column in train_frame.columns if column != target]

    def arrays(frame):
        return frame[inputs].to_numpy(np.float64), frame[[target]].to_numpy(np.float64)

    (x, y), (x_test, y_test) = arrays(train_frame), arrays(test_frame)
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(mean)), scale, 1.0)
    y_mean, y_scale = float(y.mean()), float(y.std()) or 1.0
    return Split(
        name=Path(train).name.split(".")[0].removesuffix("_train"),
        x=(x - mean) / scale,
        y=(y - y_mean) / y_scale,
        x_test=(x_test - mean) / scale,
        y_test=(y_test - y_mean) / y_scale,
        y_mean=y_mean,
        y_scale=y_scale,
    )


def initial_z(split, count, seed, file=None):
    """Returns the initial inducing inputs (M x D): from a file, or the centres of mini-batch k-means."""
    if file is not None:
        return np.loadtxt(file, delimiter=",", ndmin=2)
    distinct = np.unique(split.x, axis=0)
    if len(distinct) <= count:
        return distinct
    from sklearn.cluster import MiniBatchKMeans

    means = MiniBatchKMeans(count, random_state=seed, n_init=1, batch_size=max(1024, count))
    return means.fit(split.x).cluster_centers_


def gaussian_scores(split, mean, variance):
    """Returns the mean negative log predictive density and RMSE of the test part in the original units of the target.

    `mean` and `variance` are those of a predicted (noisy) target on the standardised scale.
    """
    residual = split.y_test.ravel() - np.ravel(mean)
    variance = np.ravel(variance)
    nll = 0.5 * (np.log(2 * np.pi * variance) + residual**2 / variance) + np.log(split.y_scale)
    return {
        "test_nll": float(nll.mean()),
        "test_rmse": float(split.y_scale * np.sqrt((residual**2).mean())),
    }


def processor_seconds(*who):
    """Returns the processor seconds of this process and of the programs that it has run, or only of the ones in `who`."""
    used = [resource.getrusage(one) for one in who or (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Clock:
    """A clock of the wall-clock seconds since its creation, without those between `pause` and `resume`."""

    def __init__(self):
        self.start = time.perf_counter()
        self.paused = None

    def pause(self):
        self.paused = time.perf_counter()

    def resume(self):
        self.start += time.perf_counter() - self.paused
        self.paused = None

    def seconds(self):
        now = time.perf_counter() if self.paused is None else self.paused
        return now - self.start


@contextmanager
def off_the_clock(*clocks):
    """Pauses the clocks during a `with` block."""
    for clock in clocks:
        clock.pause()
    yield
    for clock in clocks:
        clock.resume()


def fit_epochs(split, options, start):
    """Trains, predicts and returns the record; the clock runs from k-means to the last prediction.

    `start(z)` makes what is trained: its `epoch()` returns a number of steps; it has `elbo()` and `scores()`.
    """
    total = Clock()
    z = initial_z(split, options.inducing, options.seed, options.init_z)
    model = start(z)
    train, epochs, steps, reached = Clock(), 0, 0, False
    while epochs < options.epochs and not reached:
        steps += model.epoch()
        epochs += 1
        if options.stop_at_nll is not None:
            with off_the_clock(total, train):
                reached = model.scores()["test_nll"] <= options.stop_at_nll
    seconds_train = train.seconds()
    elbo, scores = model.elbo(), model.scores()
    record = {
        "m": len(z),
        "epochs": epochs,
        "steps": steps,
        "seconds_train": seconds_train,
        "seconds_total": total.seconds(),
        "elbo": elbo,
        **scores,
    }
    if options.stop_at_nll is not None:
        record |= {"stop_at_nll": options.stop_at_nll, "reached": reached}
    return record


def emit_fit(record, split, options, fit, errors):
    """Prints the record with the results of `fit()`. If `fit()` raises one of `errors`, prints `error` instead and exits with status 1."""
    record |= {"set": split.name, "n": len(split.x), "d": split.x.shape[1], "m": options.inducing}
    try:
        fitted = fit()
        # TensorFlow may return NaN instead of an error if a matrix has no Cholesky factor.
        if np.isnan(fitted["test_nll"]):
            raise FloatingPointError("the test NLL is not a number")
    except (*errors, FloatingPointError) as error:
        # A failed fit is reported as a result. TensorFlow prints its message after an indented trace.
        lines = [line for line in str(error).splitlines() if line[:1].strip()] or [""]
        emit(record | {"error": f"{type(error).__name__}: {lines[-1]}"})
        raise SystemExit(1) from None
    emit(record | fitted)


def emit(record):
    """Prints one line of JSON with the load of the machine; numbers that are not finite become null."""
    record = record | {"load_before": round(LOAD_BEFORE, 2)}
    plain = {key: None if isinstance(v, float) and not np.isfinite(v) else v for key, v in record.items()}
    print(json.dumps(plain), flush=True)
