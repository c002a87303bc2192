"""Compares survival models on four data sets: concordance and integrated Brier score of held-out rows, both by scikit-survival.

Data: flchain and veteran come with scikit-survival, rossi and lung with lifelines. Peers: Cox regression and random survival forests of
scikit-survival, and the accelerated failure time objective of XGBoost with the rounds chosen on a fifth of the training rows.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import lifelines.datasets
import numpy as np
import pandas as pd
import sksurv.datasets
import xgboost
from scipy.stats import norm
from sksurv.ensemble import RandomSurvivalForest
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.metrics import concordance_index_censored, integrated_brier_score
from sksurv.util import Surv


def data(name):
    """Returns inputs, events and times."""
    if name in ("flchain", "veteran"):
        load = {"flchain": sksurv.datasets.load_flchain, "veteran": sksurv.datasets.load_veterans_lung_cancer}[name]
        x, y = load()
        event, times = (y[field] for field in y.dtype.names)
        x = x.drop(columns=["chapter"], errors="ignore")  # the cause of death
    else:
        frame = {"rossi": lifelines.datasets.load_rossi, "lung": lifelines.datasets.load_lung}[name]()
        columns = {"rossi": ("week", "arrest"), "lung": ("time", "status")}[name]
        times, event = frame[columns[0]].to_numpy(float), frame[columns[1]].to_numpy() == frame[columns[1]].max()
        x = frame.drop(columns=list(columns))
    # A time of 0 has no logarithm; it is half of the least positive one.
    times = np.where(times > 0, times, 0.5 * times[times > 0].min())
    x = x.reset_index(drop=True)
    return x, np.asarray(event, bool), np.asarray(times, float)


def numbers(x):
    """Returns dummies of categories, and medians for missing cells."""
    wide = pd.get_dummies(x, drop_first=True).astype(float)
    return wide.fillna(wide.median())


def ours(program, train, test, grid, folder):
    (x, event, times), (new, _, _) = train, test
    x.assign(time_of_event=times, cut=(~event).astype(int)).to_csv(folder / "train.csv", index=False)
    new.to_csv(folder / "test.csv", index=False)
    fit = f"fit {folder}/train.csv --target time_of_event --censored cut --quiet --model-out {folder}/model"
    subprocess.run([program, *fit.split()], check=True, capture_output=True)
    at = ",".join(map(repr, map(float, grid)))
    predict = f"predict {folder}/model {folder}/test.csv --survival {at} --quantiles 0.5 --out {folder}/out.csv"
    subprocess.run([program, *predict.split()], check=True, capture_output=True)
    found = pd.read_csv(folder / "out.csv")
    survival = found.filter(like="survival_").to_numpy()
    return -found["q0.5"].to_numpy(), survival


def cox(train, test, grid, _):
    (x, event, times), (new, _, _) = train, test
    both = numbers(pd.concat([x, new]))
    x, new = both.iloc[: len(x)], both.iloc[len(x) :]
    model = CoxPHSurvivalAnalysis(alpha=0.1).fit(x, Surv.from_arrays(event, times))
    return model.predict(new), np.array([step(grid) for step in model.predict_survival_function(new)])


def forest(train, test, grid, _):
    (x, event, times), (new, _, _) = train, test
    both = numbers(pd.concat([x, new]))
    x, new = both.iloc[: len(x)], both.iloc[len(x) :]
    model = RandomSurvivalForest(200, min_samples_leaf=15, random_state=0).fit(x, Surv.from_arrays(event, times))
    return model.predict(new), np.array([step(grid) for step in model.predict_survival_function(new)])


def boosting(train, test, grid, _):
    (x, event, times), (new, _, _) = train, test
    both = numbers(pd.concat([x, new]))
    x, new = both.iloc[: len(x)].to_numpy(), both.iloc[len(x) :].to_numpy()
    upper = np.where(event, times, np.inf)
    held = np.random.default_rng(0).permutation(len(x)) < len(x) // 5

    def matrix(rows):
        made = xgboost.DMatrix(x[rows])
        made.set_float_info("label_lower_bound", times[rows])
        made.set_float_info("label_upper_bound", upper[rows])
        return made

    best = None
    for scale in (0.5, 1.0, 1.5):
        how = {
            "objective": "survival:aft", "eval_metric": "aft-nloglik", "aft_loss_distribution": "normal",
            "aft_loss_distribution_scale": scale, "learning_rate": 0.05, "max_depth": 3, "verbosity": 0,
        }  # fmt: skip
        stop = {"num_boost_round": 500, "early_stopping_rounds": 30, "verbose_eval": False}
        model = xgboost.train(how, matrix(~held), evals=[(matrix(held), "held")], **stop)
        if best is None or model.best_score < best[0]:
            best = (model.best_score, scale, how, model.best_iteration + 1)
    _, scale, how, rounds = best
    model = xgboost.train(how, matrix(np.ones(len(x), bool)), num_boost_round=rounds)
    centre = np.log(model.predict(xgboost.DMatrix(new)))
    return -centre, norm.sf((np.log(grid)[None, :] - centre[:, None]) / scale)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=["flchain", "lung", "veteran", "rossi"])
    args = parser.parse_args()
    models = {
        "sparsegp": lambda *given: ours(args.program, *given), "Cox": cox, "random survival forest": forest, "XGBoost, AFT": boosting,
    }  # fmt: skip
    print("| data | model | concordance | integrated Brier score | seconds |\n| --- | --- | --- | --- | --- |")
    for name in args.sets:
        x, event, times = data(name)
        scores = {model: [] for model in models}
        for seed in range(args.repeats):
            order = np.random.default_rng(seed).permutation(len(x))
            parts = [np.sort(order[len(x) // 4 :]), np.sort(order[: len(x) // 4])]
            train, test = ((x.iloc[rows].reset_index(drop=True), event[rows], times[rows]) for rows in parts)
            # Beyond the last training time the censoring distribution is unknown, so test rows are censored just before it.
            last = np.nextafter(train[2].max(), 0)
            test = (test[0], test[1] & (test[2] < last), np.minimum(test[2], last))
            grid = np.linspace(*np.quantile(test[2][test[1]], [0.1, 0.9]), 33)
            known = [Surv.from_arrays(*part[1:]) for part in (train, test)]
            for model, fit in models.items():
                begin = time.time()
                with tempfile.TemporaryDirectory() as folder:
                    risk, survival = fit(train, test, grid, Path(folder))
                spent = time.time() - begin
                concordance = concordance_index_censored(test[1], test[2], risk)[0]
                scores[model].append((concordance, integrated_brier_score(*known, survival, grid), spent))
        for model, found in scores.items():
            mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(max(1, len(found) - 1))
            print(f"| {name} | {model} | {mean[0]:.3f} ± {error[0]:.3f} | {mean[1]:.4f} ± {error[1]:.4f} | {mean[2]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
