"""Fits linear models to simulated censored times, and prints the bias of intercept, slope and scale, and in brackets its number of standard errors
of the mean over runs, beside those of maximum likelihood by SciPy for the same tables.

The truth is log t = 1 + 0.8 x + 0.5 e, with 300 rows and censoring times that censor the given share of them.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

TRUTH = np.array([1.0, 0.8, 0.5])
ROWS = 300
ERRORS = {
    "weibull": lambda random: np.log(random.exponential(size=ROWS)),
    "log-normal": lambda random: random.normal(size=ROWS),
    "log-logistic": lambda random: random.logistic(size=ROWS),
}
# log P(e > z) and the log density of e at z.
LOGS = {
    "weibull": (lambda z: -np.exp(z), lambda z: z - np.exp(z)),
    "log-normal": (norm.logsf, norm.logpdf),
    "log-logistic": (lambda z: -np.logaddexp(0, z), lambda z: z - 2 * np.logaddexp(0, z)),
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
    options = "--prior-variance 100 --quiet --json"
    document = json.loads(subprocess.run([program, *command.split(), *options.split()], capture_output=True, check=True).stdout)
    means = {coefficient["name"]: coefficient["mean"] for coefficient in document["coefficients"]}
    (scale,) = (value for name, value in document["hyperparameters"].items() if name.endswith("likelihood.scale"))
    return [means["intercept"], means["x"], float(np.ravel(scale)[0])]


def likeliest(family, x, time, cut):
    """Returns the estimates by maximum likelihood."""
    survival, density = LOGS[family]

    def loss(parameters):
        intercept, slope, log_scale = parameters
        z = (np.log(time) - intercept - slope * x) / np.exp(log_scale)
        return -np.sum(np.where(cut == 1, survival(z), density(z) - log_scale))

    intercept, slope, log_scale = minimize(loss, [*TRUTH[:2], np.log(TRUTH[2])], method="BFGS").x
    return [intercept, slope, np.exp(log_scale)]


def biases(found):
    """Returns each mean minus the truth as a cell, with its number of standard errors."""
    bias, error = found.mean(axis=0) - TRUTH, found.std(axis=0, ddof=1) / np.sqrt(len(found))
    return [f"{own:+.3f} ({own / of:+.1f})" for own, of in zip(bias, error)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the path of the program sparsegp")
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    print("| family | censored | intercept | by ML | slope | by ML | scale | by ML |\n" + "| --- " * 8 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for family in ERRORS:
            for share in (0.2, 0.5, 0.8):
                path = Path(folder) / "data.csv"
                tables = [simulated(family, share, run) for run in range(options.runs)]
                own = biases(np.array([estimates(options.program, family, data, path) for data in tables]))
                by_ml = biases(np.array([likeliest(family, *data) for data in tables]))
                cells = " | ".join(f"{a} | {b}" for a, b in zip(own, by_ml))
                print(f"| {family} | {share:.0%} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
