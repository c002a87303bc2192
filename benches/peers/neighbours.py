"""Regression by GPBoost's Vecchia approximations and by LightGBM on the splits that `sparsegp fit --neighbours` is measured on.

    python neighbours.py splits DATA SPLITS          # writes SPLITS/NAME-SEED-{train,test}.csv
    python neighbours.py run SPLITS RESULTS.jsonl METHOD SEEDS [NAME ...]   # METHOD: vecchia, full_scale_vecchia or lightgbm

Test rows are the first tenth of numpy's permutation with the seed. Figures are of the test rows in units of the target: RMSE, negative log
density of a Gaussian with the predicted mean and variance (noise included), coverage of its 95 % interval. LightGBM predicts a mean
alone; its variance is that of the residuals of the tenth of the training rows that stops it. Processor seconds count all threads.
"""

import json
import multiprocessing
import pathlib
import sys
import time

import numpy as np
import pandas as pd

NAMES = "sarcos_test power pol elevators cadata bike_count gas_turbine kin40k protein flights".split()
LIMIT = 900.0


def write_splits(data, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        table = pd.read_csv(data / f"{name}.csv.gz", dtype=str)
        if name == "gas_turbine":
            table = table.drop(columns=["CO"]).rename(columns={"NOX": "y"})
        if name == "flights":
            table = table.drop(columns=["y"]).rename(columns={"delay_minutes": "y"})
        table = table[[column for column in table.columns if column != "y"] + ["y"]]
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(table))
            test = round(0.1 * len(table))
            table.iloc[order[test:]].to_csv(folder / f"{name}-{seed}-train.csv", index=False)
            table.iloc[order[:test]].to_csv(folder / f"{name}-{seed}-test.csv", index=False)


def vecchia(approximation, x, y, new):
    import gpboost

    centre, spread, shift, scale = x.mean(0), x.std(0), y.mean(), y.std()
    spread[spread == 0.0] = 1.0
    started = time.process_time()
    model = gpboost.GPModel(
        gp_coords=(x - centre) / spread,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        likelihood="gaussian",
        gp_approx=approximation,
        seed=0,
    )
    model.fit(y=(y - shift) / scale)
    fitted = time.process_time()
    found = model.predict(gp_coords_pred=(new - centre) / spread, predict_var=True, predict_response=True)
    return shift + scale * found["mu"], scale**2 * found["var"], fitted - started


def boosted(x, y, new):
    import lightgbm

    order = np.random.default_rng(0).permutation(len(y))
    held, rest = order[: len(y) // 10], order[len(y) // 10 :]
    started = time.process_time()
    model = lightgbm.LGBMRegressor(n_estimators=5000, learning_rate=0.05, num_leaves=31, n_jobs=2, verbose=-1)
    stop = lightgbm.early_stopping(50, verbose=False)
    model.fit(x[rest], y[rest], eval_set=[(x[held], y[held])], callbacks=[stop])
    variance = np.mean((y[held] - model.predict(x[held])) ** 2)
    fitted = time.process_time()
    mean = model.predict(new)
    return mean, np.full(len(mean), variance), fitted - started


def measure(folder, name, seed, method, results):
    read = lambda part: pd.read_csv(folder / f"{name}-{seed}-{part}.csv").to_numpy(float)
    train, test = read("train"), read("test")
    wall = time.time()
    run = boosted if method == "lightgbm" else lambda *data: vecchia(method, *data)
    mean, variance, seconds = run(train[:, :-1], train[:, -1], test[:, :-1])
    error, target = mean - test[:, -1], test[:, -1]
    record = {
        "name": name,
        "seed": seed,
        "method": method,
        "rmse": float(np.sqrt(np.mean(error**2))),
        "nll": float(np.mean(0.5 * (np.log(2 * np.pi * variance) + error**2 / variance))),
        "coverage": float(np.mean(np.abs(error) < 1.959964 * np.sqrt(variance))),
        "fit_processor_seconds": seconds,
        "wall_seconds": time.time() - wall,
    }
    with open(results, "a") as file:
        print(json.dumps(record), file=file, flush=True)


def main():
    if sys.argv[1] == "splits":
        write_splits(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
        return
    folder, results, method, seeds = pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
    for seed in map(int, seeds.split(",")):
        for name in sys.argv[6:] or NAMES:
            process = multiprocessing.Process(target=measure, args=(folder, name, seed, method, results))
            process.start()
            process.join(LIMIT)
            if process.is_alive():
                process.kill()
                with open(results, "a") as file:
                    record = {"name": name, "seed": seed, "method": method, "error": f"over {LIMIT:.0f} s"}
                    print(json.dumps(record), file=file, flush=True)


if __name__ == "__main__":
    main()
