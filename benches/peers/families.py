"""Likelihoods of sparsegp on real counts and on data drawn from them: test scores, coverage, uniformity of probability integral transforms."""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from protocol import emit

COUNTS = ("randhie", "nmes1988", "bike_count", "biochemists")
OF_COUNTS = (
    "poisson",
    "negative-binomial",
    "negative-binomial-dispersed",
    "zero-inflated-poisson",
    "zero-inflated-negative-binomial",
    "hurdle-poisson",
    "hurdle-negative-binomial",
)
# The 99 % quantile of chi squared with 9 degrees of freedom.
EVEN = 21.67


def fit(options, train, test, *arguments):
    """Returns the metrics document of a fit by the command line to the training part, tested on the test part."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("train.csv", "test.csv")]
        for path, frame in zip(paths, (train, test)):
            frame.to_csv(path, index=False)
        command = [options.program, "fit", paths[0], "--target", "y", "--test", paths[1], "--quiet", "--json", *arguments]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            return None
        return json.loads(done.stdout)


def counts(options):
    """Reports the test NLL of every likelihood of counts with the ELBO and with DLM, and that of the automatic choice."""
    for name in options.sets or COUNTS:
        frame = pd.read_csv(options.data / f"{name}.csv.gz")
        rows = np.random.default_rng(options.seed).permutation(len(frame))[: options.rows]
        held = round(0.3 * len(rows))
        test, train = frame.iloc[rows[:held]], frame.iloc[rows[held:]]
        for likelihood in OF_COUNTS:
            for objective in ("elbo", "dlm-log"):
                named = ("--auto", "none", "--task", "count", "--likelihood", likelihood, "--objective", objective)
                report(name, f"{likelihood}, {objective}", fit(options, train, test, *named))
        report(name, "chosen", fit(options, train, test))


def report(name, way, found):
    """Prints one line of results."""
    if found is None:
        emit({"set": name, "way": way, "nll": None})
        return
    chosen = found.get("options", found).get("likelihood") if way == "chosen" else None
    emit({"set": name, "way": way, "nll": found["test"]["nll"], "seconds": found["fit"]["seconds"], "likelihood": chosen})


def families(random, x):
    """Yields draws of y at points x (N x 2) from every family; parameters that a family models by a second function vary."""
    n = len(x)
    f = np.sin(2 * np.pi * x[:, 0]) + 0.5 * np.cos(3 * x[:, 1])
    g = 0.8 * np.cos(2 * np.pi * x[:, 1])
    rate = np.exp(1.0 + f)
    often = 1 / (1 + np.exp(-1.5 * g))
    overdispersed = lambda r: random.negative_binomial(r, r / (r + rate))

    def positive(draw):
        """Returns counts above 0."""
        y = draw()
        while (y == 0).any():
            y = np.where(y == 0, draw(), y)
        return y

    def bounded(mean, precision):
        return np.clip(random.beta(mean * precision, (1 - mean) * precision), 1e-9, 1 - 1e-9)

    zero = random.uniform(size=n) < often
    mean = 1 / (1 + np.exp(-f))
    yield "gaussian", f + 0.3 * random.standard_normal(n)
    yield "gaussian-heteroskedastic", f + 0.3 * np.exp(g) * random.standard_normal(n)
    yield "student-t", f + 0.3 * random.standard_t(4, n)
    yield "student-t-heteroskedastic", f + 0.3 * np.exp(g) * random.standard_t(4, n)
    yield "gamma", random.gamma(3.0, rate / 3.0)
    yield "gamma-shaped", random.gamma(3 * np.exp(g), rate / (3 * np.exp(g)))
    yield "beta-logit", bounded(mean, 12.0)
    yield "beta-precise", bounded(mean, 12 * np.exp(g))
    yield "poisson", random.poisson(rate)
    yield "negative-binomial", overdispersed(2.0)
    yield "negative-binomial-dispersed", overdispersed(2.0 * np.exp(g))
    yield "zero-inflated-poisson", np.where(zero, 0, random.poisson(rate))
    yield "zero-inflated-negative-binomial", np.where(zero, 0, overdispersed(2.0))
    yield "hurdle-poisson", np.where(zero, 0, positive(lambda: random.poisson(rate)))
    yield "hurdle-negative-binomial", np.where(zero, 0, positive(lambda: overdispersed(2.0)))


def calibration(options):
    """Fits 2,000 rows of every family and tests on 2,000 more: coverage of central intervals, and chi squared of the transforms in
    ten bins (less than 21.67 at the level 0.01; even less for counts, whose rows are spread over bins)."""
    random = np.random.default_rng(options.seed)
    n = 2000
    x = random.uniform(size=(2 * n, 2))
    for family, y in families(random, x):
        frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
        arguments = ("--auto", "none", "--likelihood", family, "--objective", options.objective)
        found = fit(options, frame.iloc[:n], frame.iloc[n:], *arguments)
        if found is None:
            emit({"family": family, "failed": True})
            continue
        shares = np.array(found["test"]["pit"])
        chi = float(n * np.sum((shares - 0.1) ** 2) / 0.1)
        record = {"family": family, "nll": found["test"]["nll"], "coverage_90": found["test"]["coverage"]["90"]}
        rollbacks = {key: found["fit"][key] for key in ("rollbacks", "stop_reason")}
        emit(record | {"chi_squared": chi, "even": chi < EVEN, "seconds": found["fit"]["seconds"], **rollbacks})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    tasks = {task.__name__: task for task in (counts, calibration)}
    parser.add_argument("task", choices=tasks)
    parser.add_argument("sets", nargs="*", help="names of sets of counts; all by default")
    parser.add_argument("--data", type=Path, help="folder of the sets: NAME.csv.gz")
    parser.add_argument("--program", default="sparsegp", help="the command line to measure")
    parser.add_argument("--objective", default="elbo", help="of calibration")
    parser.add_argument("--rows", type=int, default=6000, help="maximum number of rows of a set of counts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tasks[options.task](options)


if __name__ == "__main__":
    main()
