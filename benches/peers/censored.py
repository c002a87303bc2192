"""Fits linear models to simulated censored times, and prints the bias of intercept, slope and scale in standard errors of the mean over runs.

The truth is log t = 1 + 0.8 x + 0.5 e, with 300 rows and censoring times that censor the given share of them.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

TRUTH = np.array([1.0, 0.8, 0.5])
ROWS = 300
ERRORS = {
    "weibull": lambda random: np.log(random.exponential(size=ROWS)),
    "log-normal": lambda random: random.normal(size=ROWS),
    "log-logistic": lambda random: random.logistic(size=ROWS),
}


def simulated(family, share, seed):
    """Returns inputs, times, and which of them are censored."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, ROWS)
    time, end = (np.exp(TRUTH[0] + TRUTH[1] * x + TRUTH[2] * ERRORS[family](random)) for _ in range(2))
    end *= np.quantile(time / end, 1 - share)
    return x, np.minimum(time, end), (time > end).astype(int)


def estimates(program, family, data, path):
    lines = [",".join(map(str, row)) for row in zip(*data, strict=True)]
    path.write_text("x,y,cut\n" + "\n".join(lines) + "\n")
    command = f"fit {path} --target y --features x --censored cut --likelihood {family} --auto none --model glm"
    options = "--prior-variance 100 --epochs 2000 --quiet --json"
    document = json.loads(subprocess.run([program, *command.split(), *options.split()], capture_output=True, check=True).stdout)
    means = {coefficient["name"]: coefficient["mean"] for coefficient in document["coefficients"]}
    (scale,) = (value for name, value in document["hyperparameters"].items() if name.endswith("likelihood.scale"))
    return [means["intercept"], means["x"], float(np.ravel(scale)[0])]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the path of the program sparsegp")
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for family in ERRORS:
            for share in (0.2, 0.5, 0.8):
                path = Path(folder) / "data.csv"
                found = np.array([estimates(options.program, family, simulated(family, share, run), path) for run in range(options.runs)])
                bias, error = found.mean(axis=0) - TRUTH, found.std(axis=0, ddof=1) / np.sqrt(options.runs)
                print(family, share, "bias", np.round(bias, 4), "in standard errors", np.round(bias / error, 1))


if __name__ == "__main__":
    main()
