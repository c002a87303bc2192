"""Fits GPBoost's Vecchia approximations and LightGBM to the splits that `sparsegp fit --neighbours` is measured on."""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from protocol import emit, gaussian_scores, processor_seconds, read_split, use_threads

# The target of every set, and the columns that reveal it; the sets are ordered by their number of rows.
SETS = {
    "sarcos_test": ("y", []),
    "power": ("y", []),
    "pol": ("y", []),
    "elevators": ("y", []),
    "cadata": ("y", []),
    "bike_count": ("y", []),
    "gas_turbine": ("NOX", ["CO"]),
    "kin40k": ("y", []),
    "protein": ("y", []),
    "flights": ("delay_minutes", ["y"]),
}
SEEDS = (0, 1, 2)
METHODS = ("lightgbm", "vecchia", "full_scale_vecchia")
# Fast and important fits come first, so that an interrupted run has one seed of as many fits as possible.
PLAN = [("lightgbm", SEEDS), ("vecchia", (0,)), ("full_scale_vecchia", (0,)), ("vecchia", (1, 2))]


def write_splits(options):
    """Writes NAME-SEED-train.csv and NAME-SEED-test.csv, values as text exactly as read, the target last as `y`."""
    options.splits.mkdir(parents=True, exist_ok=True)
    for name, (target, dropped) in SETS.items():
        frame = pd.read_csv(options.data / f"{name}.csv.gz", dtype=str).drop(columns=dropped)
        y = frame.pop(target)
        frame["y"] = y
        for seed in SEEDS:
            rows = np.random.default_rng(seed).permutation(len(frame))
            held_out = round(0.1 * len(frame))
            train, test = split_paths(options.splits, name, seed)
            frame.iloc[rows[held_out:]].to_csv(train, index=False)
            frame.iloc[rows[:held_out]].to_csv(test, index=False)


def split_paths(folder, name, seed):
    """Returns the files of the training and the test part."""
    return [folder / f"{name}-{seed}-{part}.csv" for part in ("train", "test")]


def timed(stage, work):
    """Returns the result of `work()`, its wall-clock seconds, and the processor seconds of all threads of this process."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    seconds = {
        f"{stage}_wall_seconds": time.perf_counter() - wall,
        f"{stage}_processor_seconds": time.process_time() - processor,
    }
    return result, seconds


def fit_gpboost(split, options):
    """Fits a Matérn-3/2 process with one range for each input, by GPBoost's optimiser from GPBoost's starting values."""
    import gpboost

    # GPBoost finds no starting value for the range of a constant input.
    varies = np.ptp(split.x, axis=0) > 0.0

    def train():
        model = gpboost.GPModel(
            gp_coords=split.x[:, varies],
            cov_function="matern_ard",
            cov_fct_shape=1.5,
            likelihood="gaussian",
            gp_approx=options.method,
            num_parallel_threads=options.threads,
            seed=options.seed,
        )
        model.fit(y=split.y.ravel())
        return model

    def predict():
        # The predicted response, not the latent process: the variance includes the noise.
        return model.predict(gp_coords_pred=split.x_test[:, varies], predict_var=True, predict_response=True)

    model, fit_seconds = timed("fit", train)
    predicted, predict_seconds = timed("predict", predict)
    found = {
        "iterations": model._get_num_optim_iter(),
        "train_nll": float(model.get_current_neg_log_likelihood()),
        "parameters": np.ravel(model.get_cov_pars(format_pandas=False)).tolist(),
    }
    return scores(split, predicted["mu"], predicted["var"]) | fit_seconds | predict_seconds | found


def fit_lightgbm(split, options):
    """Fits boosted trees, stopped early by a tenth of the training rows; the mean squared residual of these is the variance of all rows."""
    import lightgbm

    y = split.y.ravel()
    rows = np.random.default_rng(options.seed).permutation(len(y))
    held_out, rest = np.split(rows, [round(0.1 * len(y))])

    def train():
        model = lightgbm.LGBMRegressor(
            n_estimators=5000,
            learning_rate=0.05,
            num_leaves=31,
            n_jobs=options.threads,
            random_state=options.seed,
            verbose=-1,
        )
        stop = lightgbm.early_stopping(50, verbose=False)
        model.fit(split.x[rest], y[rest], eval_X=split.x[held_out], eval_y=y[held_out], callbacks=[stop])
        return model, np.mean((y[held_out] - model.predict(split.x[held_out])) ** 2)

    (model, variance), fit_seconds = timed("fit", train)
    mean, predict_seconds = timed("predict", lambda: model.predict(split.x_test))
    found = {"iterations": model.best_iteration_}
    return scores(split, mean, np.full(len(mean), variance)) | fit_seconds | predict_seconds | found


def scores(split, mean, variance):
    """Returns RMSE, mean negative log density and the share of targets within the central 95 % of the predicted Gaussian."""
    inside = np.abs(split.y_test.ravel() - mean) <= 1.959964 * np.sqrt(variance)
    return gaussian_scores(split, mean, variance) | {"test_coverage": float(inside.mean())}


def fit_one(options):
    """Fits one method to one split and prints one line of JSON."""
    use_threads(options.threads)
    # Imported here, so that the import is not timed.
    library = __import__("lightgbm" if options.method == "lightgbm" else "gpboost")
    split = read_split(options.train, options.test, "y")
    record = {"set": split.name, "method": options.method, "seed": options.seed}
    record |= {"library": f"{library.__name__} {library.__version__}", "n": len(split.x), "d": split.x.shape[1]}
    fit = fit_lightgbm if options.method == "lightgbm" else fit_gpboost
    emit(record | fit(split, options))



def run_plan(options):
    """Appends a line for every fit of the plan that the file of results does not have yet."""
    done = set()
    if options.results.exists():
        records = map(json.loads, options.results.read_text().splitlines())
        done = {(record["set"], record["method"], record["seed"]) for record in records}
    for method, seeds in PLAN:
        for seed in seeds:
            for name in options.sets or SETS:
                if (name, method, seed) not in done:
                    record = {"set": name, "method": method, "seed": seed}
                    append(options.results, record | run_one(options, name, method, seed))


def run_one(options, name, method, seed):
    """Returns the record of a fit in a separate process, which is killed after the time limit."""
    command = [sys.executable, __file__, "fit", method, *split_paths(options.splits, name, seed)]
    command += ["--seed", seed, "--threads", options.threads]
    # Threads that spin while they wait for each other lose much time if the machine does other work too.
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
    before = processor_seconds(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            [str(part) for part in command], env=environment, capture_output=True, text=True, timeout=options.limit
        )
    except subprocess.TimeoutExpired:
        spent = processor_seconds(resource.RUSAGE_CHILDREN) - before
        return {"error": f"over {options.limit:g} s", "processor_seconds": spent, "load": os.getloadavg()[0]}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        message = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return {"error": message[-1]}
    record = json.loads(lines[-1])
    return record | {"set": name}


def append(path, record):
    """Appends one line immediately, so that an interrupted run loses nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record)
    with open(path, "a") as file:
        file.write(f"{line}\n")
    print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    tasks = parser.add_subparsers(required=True)
    splits = tasks.add_parser("splits", help="write the training and test parts of all sets and seeds")
    splits.add_argument("data", type=Path, help="folder of the sets: NAME.csv.gz")
    splits.add_argument("splits", type=Path, help="folder for the parts")
    splits.set_defaults(task=write_splits)
    run = tasks.add_parser("run", help="fit everything that the file of results does not have yet")
    run.add_argument("splits", type=Path, help="folder of the parts")
    run.add_argument("results", type=Path, help="JSON lines, appended to")
    run.add_argument("sets", nargs="*", help="names of sets; all by default")
    run.add_argument("--limit", type=float, default=900, help="seconds for one fit, reading and prediction included")
    run.add_argument("--threads", type=int, default=2)
    run.set_defaults(task=run_plan)
    fit = tasks.add_parser("fit", help="fit one method to one split and print one line of JSON")
    fit.add_argument("method", choices=METHODS)
    fit.add_argument("train", type=Path, help="CSV file with a header, the training part")
    fit.add_argument("test", type=Path, help="CSV file with the same columns, the test part")
    fit.add_argument("--seed", type=int, default=0)
    fit.add_argument("--threads", type=int, default=2)
    fit.set_defaults(task=fit_one)
    options = parser.parse_args()
    options.task(options)


if __name__ == "__main__":
    main()
