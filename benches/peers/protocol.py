"""What every peer script shares: reading and scaling a split, k-means, threads, metrics, one line of JSON."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

# Runnable processes over the last minute, before this one adds its own: other work makes OpenMP threads spin for
# each other and can slow PyTorch's steps fifty times, so a time without this number cannot be trusted.
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


def add_common_arguments(parser):
    """The arguments of every script that fits one model to one split."""
    parser.add_argument("train", type=Path, help="CSV file with a header, the training part")
    parser.add_argument("test", type=Path, help="CSV file with the same columns, the test part")
    parser.add_argument("--target", default="y", help="column to predict; all others are inputs")
    parser.add_argument("--inducing", type=int, default=500)
    parser.add_argument("--init-z", type=Path, help="CSV file without a header: initial Z, standardised inputs")
    parser.add_argument("--kernel", choices=["rbf", "matern32", "matern52"], default="rbf")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jitter", type=float, default=1e-6)


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
    """The initial inducing inputs (M x D): from a file, or the centres of mini-batch k-means."""
    if file is not None:
        return np.loadtxt(file, delimiter=",", ndmin=2)
    distinct = np.unique(split.x, axis=0)
    if len(distinct) <= count:
        return distinct
    from sklearn.cluster import MiniBatchKMeans

    means = MiniBatchKMeans(count, random_state=seed, n_init=1, batch_size=max(1024, count))
    return means.fit(split.x).cluster_centers_


def gaussian_scores(split, mean, variance):
    """Mean negative log predictive density and RMSE of the test part in the original units of the target.

    `mean` and `variance` are those of a predicted (noisy) target on the standardised scale.
    """
    residual = split.y_test.ravel() - np.ravel(mean)
    variance = np.ravel(variance)
    nll = 0.5 * (np.log(2 * np.pi * variance) + residual**2 / variance) + np.log(split.y_scale)
    return {
        "test_nll": float(nll.mean()),
        "test_rmse": float(split.y_scale * np.sqrt((residual**2).mean())),
    }


class Clock:
    """Wall-clock seconds since it was made."""

    def __init__(self):
        self.start = time.perf_counter()

    def seconds(self):
        return time.perf_counter() - self.start


def emit(record):
    """Prints one line of JSON with the load of the machine; numbers that are not finite become null."""
    record = record | {"load_before": round(LOAD_BEFORE, 2)}
    plain = {key: None if isinstance(v, float) and not np.isfinite(v) else v for key, v in record.items()}
    print(json.dumps(plain), flush=True)
