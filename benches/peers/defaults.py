"""Fits with automatic choices, fits without them, and LightGBM, on the same splits of real data sets."""

import argparse
import json
import math
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd

from protocol import emit, processor_seconds, use_threads

# The tasks according to the web page of the sets; sets of the same task are ordered by their number of rows.
REGRESSION = "yacht energy concrete airfoil wine sarcos_test kin8nm power naval elevators cadata gas_turbine kin40k protein"
CLASSES = "sonar ionosphere australian_scale diabetes german_scale thyroid banana ringnorm phishing magic"
COUNTS = "quine biochemists abalone nmes1988 bike_count randhie"
TASKS = {name: "regression" for name in REGRESSION.split()}
TASKS |= {name: "classification" for name in CLASSES.split()}
TASKS |= {name: "count" for name in COUNTS.split()}
TARGETS = {"gas_turbine": ("NOX", ["CO"])}
TEST_SHARE, HELD_OUT_SHARE = 0.1, 0.1
# Options that an experienced user might set, tried one after the other.
NEAR = ["--kernel", "matern32(ard)", "--neighbours", "50"]
MANUAL = {
    "rbf": ["--kernel", "rbf(ard)"],
    "matern32": ["--kernel", "matern32(ard)"],
    "matern52": ["--kernel", "matern52(ard)"],
    "rational quadratic": ["--kernel", "rational_quadratic(ard)"],
    "additive": ["--kernel", "additive(order=2)"],
    "neighbours": NEAR,
    "neighbours, dlm": [*NEAR, "--objective", "dlm-log"],
    "neighbours, scores": [*NEAR, "--warp-inputs", "normal-scores"],
}
OF_TASK = {
    "regression": {
        "neighbours, softplus": [*NEAR, "--warp-target", "softplus"],
        "student-t": ["--likelihood", "student-t", "--kernel", "matern32(ard)"],
        "heteroskedastic": ["--likelihood", "gaussian-heteroskedastic", "--kernel", "matern32(ard)"],
    },
    "classification": {"logit": ["--likelihood", "bernoulli-logit", "--kernel", "matern32(ard)"]},
    "count": {
        "negative binomial": ["--likelihood", "negative-binomial", "--kernel", "matern32(ard)"],
        "zeros": ["--likelihood", "zero-inflated-negative-binomial", "--kernel", "matern32(ard)"],
    },
}


def split(data, name, seed, most=None):
    """Returns the training and test parts of a set, of at most `most` rows each, with the target as `y`."""
    target, dropped = TARGETS.get(name, ("y", []))
    frame = pd.read_csv(data / f"{name}.csv.gz").drop(columns=dropped).rename(columns={target: "y"})
    rows = np.random.default_rng(seed).permutation(len(frame))
    held_out = round(TEST_SHARE * len(frame))
    return frame.iloc[rows[held_out:][:most]], frame.iloc[rows[:held_out][:most]]


def fit_lightgbm(train, test, task, seed):
    """Fits boosted trees, stopped early by a tenth of the training rows; for numbers, the variance is their mean squared error."""
    import lightgbm

    x, y = train.drop(columns="y").to_numpy(float), train["y"].to_numpy(float)
    x_test, y_test = test.drop(columns="y").to_numpy(float), test["y"].to_numpy(float)
    rows = np.random.default_rng(seed).permutation(len(y))
    held_out, rest = np.split(rows, [max(1, round(HELD_OUT_SHARE * len(y)))])
    objective = {"regression": "regression", "classification": "binary", "count": "poisson"}[task]
    kind = lightgbm.LGBMClassifier if task == "classification" else lightgbm.LGBMRegressor
    model = kind(objective=objective, n_estimators=5000, learning_rate=0.05, n_jobs=2, verbose=-1, random_state=seed)
    stop = lightgbm.early_stopping(50, verbose=False)
    model.fit(x[rest], y[rest], eval_set=[(x[held_out], y[held_out])], callbacks=[stop])
    if task == "classification":
        p = np.clip(model.predict_proba(x_test)[:, 1], 1e-15, 1 - 1e-15)
        loss = -np.where(y_test == 1, np.log(p), np.log(1 - p))
        return loss.mean(), np.mean((p > 0.5) != (y_test == 1))
    mean = model.predict(x_test)
    rmse = math.sqrt(np.mean((y_test - mean) ** 2))
    if task == "count":
        gammas = np.array([math.lgamma(value + 1) for value in y_test])
        return np.mean(mean + gammas - y_test * np.log(mean)), rmse
    variance = np.mean((y[held_out] - model.predict(x[held_out])) ** 2)
    return 0.5 * math.log(2 * math.pi * variance) + 0.5 * rmse**2 / variance, rmse


def fit_sparsegp(program, arguments, folder, parts):
    """Returns the NLL, the error and the choices of a fit by the command line."""
    paths = [folder / f"{part}.csv" for part in ("train", "test")]
    for path, frame in zip(paths, parts):
        frame.to_csv(path, index=False)
    command = [program, "fit", paths[0], "--target", "y", "--test", paths[1], "--quiet", "--json", *arguments]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    document = json.loads(done.stdout)
    test = document["test"]
    error = test["error_rate"] if test["error_rate"] is not None else test["rmse"]
    choices = document["fit"].get("choices") or {"parts": []}
    chosen = {part["part"]: next(one["value"] for one in part["tried"] if one["chosen"]) for part in choices["parts"]}
    return test["nll"], error, chosen


def run(options):
    """Appends a line for every fit that the file of results does not have yet."""
    done = set()
    if options.results.exists():
        records = map(json.loads, options.results.read_text().splitlines())
        done = {(record["set"], record["method"], record["seed"]) for record in records}
    for seed in range(options.seeds):
        for name in options.sets or TASKS:
            manual = [*MANUAL, *OF_TASK[TASKS[name]]] if "manual" in options.methods else []
            for method in [*(method for method in options.methods if method != "manual"), *manual]:
                if (name, method, seed) not in done:
                    record = fit_one(options, name, method, seed)
                    with open(options.results, "a", encoding="utf-8") as file:
                        file.write(f"{json.dumps(record)}\n")


def fit_one(options, name, method, seed):
    """Returns the record of one fit; its seconds include reading and predictions."""
    parts = split(options.data, name, seed, options.rows)
    record, started = {"set": name, "method": method, "seed": seed, "n": len(parts[0])}, time.perf_counter()
    used = processor_seconds()
    try:
        if method == "lightgbm":
            record["nll"], record["error"] = fit_lightgbm(*parts, TASKS[name], seed)
        else:
            named = {way: ["--task", TASKS[name], *words] for way, words in (MANUAL | OF_TASK[TASKS[name]]).items()}
            arguments = [] if method == "chosen" else ["--auto", "none", *named.get(method, [])]
            figures = fit_sparsegp(options.program, arguments, options.folder, parts)
            record["nll"], record["error"], record["chosen"] = figures
    except RuntimeError as failure:
        record["failure"] = str(failure)
    record["seconds"] = time.perf_counter() - started
    record["processor_seconds"] = processor_seconds() - used
    emit(record)
    return record


def table(options):
    """Prints means and standard errors over seeds as a table, and how often one method is better."""
    records = [json.loads(line) for line in options.results.read_text().splitlines()]
    found = {(record["set"], record["method"], record["seed"]): record for record in records if "nll" in record}
    methods = options.methods
    if "manual" in methods:
        ways = {way for more in (MANUAL, *OF_TASK.values()) for way in more}
        for name, way, seed in [key for key in found if key[1] in ways]:
            best, one = found.get((name, "manual", seed)), found[name, way, seed]
            if best is None or one["nll"] < best["nll"]:
                found[name, "manual", seed] = one
    print("| set, task | " + " | ".join(f"{method}: NLL, error, processor s" for method in methods) + " |")
    print("| --- " * (len(methods) + 1) + "|")
    for name, task in TASKS.items():
        cells = []
        for method in methods:
            mine = [record for (of, by, _), record in found.items() if (of, by) == (name, method)]
            if not mine:
                cells.append("-")
                continue
            nll, error = ([record[key] for record in mine] for key in ("nll", "error"))
            seconds = np.mean([record["processor_seconds"] for record in mine])
            spread = f" ± {np.std(nll, ddof=1) / math.sqrt(len(nll)):.3f}" if len(nll) > 1 else ""
            way = f", {mine[0]['method']}" if method == "manual" else ""
            cells.append(f"{np.mean(nll):.3f}{spread}, {np.mean(error):.4g}, {seconds:.1f}{way}")
        if any(cell != "-" for cell in cells):
            print(f"| {name}, {task} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["run", "table"])
    parser.add_argument("results", type=Path, help="JSON lines, appended to")
    parser.add_argument("sets", nargs="*", help="names of sets; all by default")
    parser.add_argument("--data", type=Path, help="folder of the sets: NAME.csv.gz")
    parser.add_argument("--folder", type=Path, help="folder for the training and test parts of a split")
    parser.add_argument("--program", default="sparsegp", help="the command line to measure")
    parser.add_argument("--methods", nargs="*", default=["nothing", "chosen", "lightgbm"], help="methods; \"manual\" is the best of a list")
    parser.add_argument("--rows", type=int, help="maximum number of training rows and of test rows")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    use_threads(2)
    run(options) if options.task == "run" else table(options)


if __name__ == "__main__":
    main()
