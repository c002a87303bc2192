"""Grouped effects in sparsegp, lme4 and GPBoost: linear mixed models, two classes, and a Gaussian process with groups."""

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
from protocol import processor_seconds

HELD_OUT = 0.1

# The target, fixed effects, groupings and the grouping whose levels are held out. A grouping `x || g` has independent intercepts
# and slopes in `x`. `plane` names the coordinates of a Gaussian process. `size` gives the rows, the levels of the grouping `g` and the
# side of the square of a simulated field.
FIELD = {"target": "y", "plane": ["u", "v"], "groups": ["g", "h"], "held": "g"}
SETS = {
    "InstEval": {"target": "y", "fixed": ["service", "studage", "lectage"], "groups": ["s", "d", "dept"], "held": "s"},
    "VerbAgg": {
        "target": "r2",
        "fixed": ["anger", "male", "scold", "shout", "self", "do"],
        "groups": ["id", "item"],
        "held": "id",
        "family": "binomial",
    },
    "pupils": {"target": "points", "fixed": ["score"], "groups": ["score || school", "area"], "held": "school"},
    "field of 2,500": FIELD | {"size": (2_500, 150, 10.0)},
    "field of 20,000": FIELD | {"size": (20_000, 1_000, 10.0)},
    "field of 100,000": FIELD | {"size": (100_000, 5_000, 40.0)},
}
SPLITS = ("rows", "levels")
METHODS = ("sparsegp", "lme4", "gpboost")


def insteval(options):
    return pd.read_csv(options.data / "insteval.csv.gz")


def verbagg(options):
    """Returns the table VerbAgg; factors of two levels are columns of 0 and 1, and the three kinds of behaviour are two such columns."""
    raw = pd.read_csv(options.data / "verbagg.csv.gz")
    return pd.DataFrame(
        {
            "anger": raw["Anger"],
            "male": (raw["Gender"] == "M").astype(int),
            "scold": (raw["btype"] == "scold").astype(int),
            "shout": (raw["btype"] == "shout").astype(int),
            "self": (raw["situ"] == "self").astype(int),
            "do": (raw["mode"] == "do").astype(int),
            "id": "p" + raw["id"].astype(str),
            "item": raw["item"],
            "r2": (raw["r2"] == "Y").astype(int),
        }
    )


def pupils(_):
    """Simulates a table of the size of Chem97, 31,000 pupils in 2,400 schools in 130 areas: points by an earlier score, a slope per school."""
    random = np.random.default_rng(97)
    schools, areas, rows = 2_400, 130, 31_000
    area_of = random.integers(areas, size=schools)
    # Schools differ in size: shares are proportional to draws of a gamma distribution.
    shares = random.gamma(1.5, size=schools)
    school = random.choice(schools, size=rows, p=shares / shares.sum())
    score = random.normal(0.2 * random.normal(size=schools)[school], 0.8)
    intercepts, slopes = 1.1 * random.normal(size=schools), 0.35 * random.normal(size=schools)
    mean = 5.6 + 2.5 * score + 0.15 * random.normal(size=areas)[area_of][school] + intercepts[school] + slopes[school] * score
    points = mean + 2.2 * random.normal(size=rows)
    columns = {"score": score.round(4), "school": school, "area": area_of[school], "points": points.round(4)}
    frame = pd.DataFrame(columns)
    return frame.assign(school="s" + frame["school"].astype(str), area="a" + frame["area"].astype(str))


def field(rows, levels, side):
    """Simulates a Matérn-3/2 field of lengthscale 1 on a square by 1,000 random waves, with two crossed groupings and noise."""
    random = np.random.default_rng(rows)
    waves = 1_000
    # The spectral density of a Matérn-3/2 kernel is a Student-t density with 3 degrees of freedom.
    frequencies = random.normal(size=(2, waves)) * np.sqrt(3 / random.chisquare(3, size=waves))
    phases = random.uniform(0, 2 * np.pi, size=waves)
    places = random.uniform(0, side, size=(rows, 2)).round(5)
    values = np.concatenate([np.cos(part @ frequencies + phases).sum(axis=1) for part in np.array_split(places, 100)])
    values *= np.sqrt(2 / waves)
    g, h = random.integers(levels, size=rows), random.integers(20, size=rows)
    y = 3 + values + 0.7 * random.normal(size=levels)[g] + 0.4 * random.normal(size=20)[h] + 0.3 * random.normal(size=rows)
    frame = pd.DataFrame(places, columns=["u", "v"])
    return frame.assign(g=np.char.add("g", g.astype(str)), h=np.char.add("h", h.astype(str)), y=y.round(6))


TABLES = {"InstEval": insteval, "VerbAgg": verbagg, "pupils": pupils}


def paths(options, name, split):
    stem = name.replace(",", "").replace(" ", "_")
    return [options.folder / f"{stem}.{split}.{part}.csv" for part in ("train", "test")]


def make(options):
    """Writes the training and test parts: a tenth of the rows, and a tenth of the levels of the largest grouping."""
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        facts = SETS[name]
        frame = field(*facts["size"]) if "size" in facts else TABLES[name](options)
        columns = [*facts.get("fixed", []), *facts.get("plane", []), *columns_of_groups(facts), facts["target"]]
        frame = frame[columns]
        random = np.random.default_rng(0)
        rows = np.zeros(len(frame), dtype=bool)
        rows[random.permutation(len(frame))[: round(HELD_OUT * len(frame))]] = True
        levels = frame[facts["held"]].unique()
        chosen = random.permutation(levels)[: round(HELD_OUT * len(levels))]
        for split, test in {"rows": rows, "levels": frame[facts["held"]].isin(chosen).to_numpy()}.items():
            train_path, test_path = paths(options, name, split)
            frame[~test].to_csv(train_path, index=False)
            frame[test].to_csv(test_path, index=False)
            print(f"{name}, {split}: {(~test).sum()} training rows, {test.sum()} test rows", flush=True)


def columns_of_groups(facts):
    return [group.split("|")[-1].strip() for group in facts["groups"]]


def gaussian_scores(y, mean, variance):
    return {
        "nll": float(0.5 * np.mean(np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)),
        "error": float(np.sqrt(np.mean((y - mean) ** 2))),
        "coverage": float(np.mean(np.abs(y - mean) <= 1.959964 * np.sqrt(variance))),
    }


def class_scores(y, probability):
    return {
        "nll": float(-np.mean(np.log(np.where(y == 1, probability, 1 - probability)))),
        "error": float(np.mean((probability > 0.5) != (y == 1))),
    }


def fit_sparsegp(options, name, split):
    """Runs the whole command: reading, fit, intervals of the standard deviations, scores of the test rows."""
    facts = SETS[name]
    train, test = paths(options, name, split)
    metrics = train.with_suffix(".json")
    command = [options.program, "fit", train, "--target", facts["target"], "--test", test, "--metrics", metrics, "--quiet"]
    for group in facts["groups"]:
        command += ["--group", group]
    if "plane" in facts:
        command += ["--plane", ",".join(facts["plane"]), "--kernel", "matern32", "--auto", "none"]
        command += ["--neighbours", 20, "--inducing", 50]
    else:
        command += ["--features", ",".join(facts["fixed"]), "--model", "glm"]
    binomial = facts.get("family") == "binomial"
    command += ["--likelihood", "bernoulli-logit"] if binomial else ["--task", "regression", "--likelihood", "gaussian"]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    document = json.loads(metrics.read_text())
    scores, groups = document["test"], document["groups"]
    return {
        "log_likelihood": groups["log_likelihood"],
        "nll": scores["nll"],
        "error": scores["error_rate"] if binomial else scores["rmse"],
        "coverage": None if binomial else scores["coverage"]["95"],
        "sds": [component["sd"] for component in groups["components"]] + [groups["residual_sd"]],
        "intervals": [component["interval"] for component in groups["components"]] + [groups["residual_interval"]],
        "fit_wall": document["fit"]["seconds"],
    }


def fit_lme4(options, name, split):
    """Fits lmer by maximum likelihood, or glmer by Laplace's approximation."""
    facts = SETS[name]
    train, test = paths(options, name, split)
    groups = [f"({group})" if "|" in group else f"(1 | {group})" for group in facts["groups"]]
    formula = f"{facts['target']} ~ {' + '.join(facts['fixed'] + groups)}"
    binomial = facts.get("family") == "binomial"
    out = train.with_suffix(".lme4")
    script = Path(__file__).with_name("groups.R")
    family = "binomial" if binomial else "gaussian"
    subprocess.run(["Rscript", script, train, test, family, formula, out], check=True)
    found = dict(line.split() for line in Path(f"{out}.txt").read_text().splitlines())
    found = {key: float(value) for key, value in found.items()}
    y, predicted = pd.read_csv(test)[facts["target"]].to_numpy(), pd.read_csv(f"{out}.csv")
    mean, variance = predicted["mean"].to_numpy(), predicted["variance"].to_numpy()
    if binomial:
        nodes, weights = np.polynomial.hermite_e.hermegauss(40)
        f = mean[:, None] + np.sqrt(variance)[:, None] * nodes
        scores = class_scores(y, (1 / (1 + np.exp(-f))) @ weights / weights.sum())
    else:
        scores = gaussian_scores(y, mean, variance)
    sds = [value for key, value in found.items() if key.startswith("sd_")]
    times = {key: found[key] for key in ("fit_cpu", "fit_wall", "predict_cpu", "predict_wall")}
    return {"log_likelihood": found["log_likelihood"], "sds": sds, **times, **scores}


def fit_gpboost(options, name, split):
    """Fits GPBoost's GPModel with grouped effects and, for a field, an exact Gaussian process."""
    import gpboost

    facts = SETS[name]
    train, test = map(pd.read_csv, paths(options, name, split))
    x, x_test = (part[facts.get("fixed", [])].assign(one=1.0).to_numpy(float) for part in (train, test))
    columns = columns_of_groups(facts)
    binomial = facts.get("family") == "binomial"
    model, pred = {"group_data": train[columns].to_numpy(str)}, {"group_data_pred": test[columns].to_numpy(str)}
    slopes = [(group.split("|")[0].strip(), at + 1) for at, group in enumerate(facts["groups"]) if "|" in group]
    if slopes:
        names = [slope for slope, _ in slopes]
        model |= {"group_rand_coef_data": train[names].to_numpy(), "ind_effect_group_rand_coef": [at for _, at in slopes]}
        pred |= {"group_rand_coef_data_pred": test[names].to_numpy()}
    if "plane" in facts:
        model |= {"gp_coords": train[facts["plane"]].to_numpy(), "gp_approx": "none"}
        model |= {"cov_function": "matern", "cov_fct_shape": 1.5}
        pred |= {"gp_coords_pred": test[facts["plane"]].to_numpy()}
    y, y_test = (part[facts["target"]].to_numpy(float) for part in (train, test))

    clocks = [(time.process_time(), time.perf_counter())]
    fitted = gpboost.GPModel(likelihood="bernoulli_logit" if binomial else "gaussian", num_parallel_threads=2, **model)
    fitted.fit(y=y, X=x)
    clocks.append((time.process_time(), time.perf_counter()))
    predicted = fitted.predict(X_pred=x_test, predict_var=not binomial, predict_response=True, **pred)
    clocks.append((time.process_time(), time.perf_counter()))

    scores = class_scores(y_test, predicted["mu"]) if binomial else gaussian_scores(y_test, predicted["mu"], predicted["var"])
    return scores | {
        "log_likelihood": -float(fitted.get_current_neg_log_likelihood()),
        "parameters": np.ravel(fitted.get_cov_pars(format_pandas=False)).tolist(),
        "iterations": fitted._get_num_optim_iter(),
        "fit_cpu": clocks[1][0] - clocks[0][0],
        "fit_wall": clocks[1][1] - clocks[0][1],
        "predict_cpu": clocks[2][0] - clocks[1][0],
        "predict_wall": clocks[2][1] - clocks[1][1],
    }


FITS = {"sparsegp": fit_sparsegp, "lme4": fit_lme4, "gpboost": fit_gpboost}


def fit(options):
    """Fits one method to one split and prints one line of JSON."""
    before, start = processor_seconds(resource.RUSAGE_CHILDREN), time.perf_counter()
    record = {"set": options.name, "split": options.split, "method": options.method}
    record |= FITS[options.method](options, options.name, options.split)
    if options.method == "sparsegp":
        record |= {"cpu": processor_seconds(resource.RUSAGE_CHILDREN) - before, "wall": time.perf_counter() - start}
    else:
        record |= {"cpu": record["fit_cpu"] + record["predict_cpu"], "wall": record["fit_wall"] + record["predict_wall"]}
    print(json.dumps(record))


def methods_of(name):
    """Returns the methods for a set: lme4 has no Gaussian processes, and GPBoost's exact process needs n² numbers."""
    if "plane" not in SETS[name]:
        return METHODS
    return ("sparsegp", "gpboost") if SETS[name]["size"][0] < 5_000 else ("sparsegp",)


def run(options):
    """Appends a line for every set, split and method that the results file does not have, each from a separate process."""
    options.results.touch()
    records = [json.loads(line) for line in options.results.open()]
    done = {(record["set"], record["split"], record["method"]) for record in records}
    # Threads that spin while they wait lose much time if the machine does other work too.
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
    for name in options.names:
        for split in options.splits:
            for method in methods_of(name):
                if (name, split, method) in done or method not in options.methods:
                    continue
                command = [sys.executable, __file__, "fit", options.folder, method, name, split, "--program", options.program]
                record = {"set": name, "split": split, "method": method, "load": os.getloadavg()[0]}
                try:
                    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.limit)
                    lines = [line for line in finished.stdout.splitlines() if line.startswith("{")]
                    record |= json.loads(lines[-1]) if lines else {"error": finished.stderr.strip()[-300:]}
                except subprocess.TimeoutExpired:
                    record |= {"error": f"over {options.limit:g} s"}
                line = json.dumps(record)
                with options.results.open("a") as file:
                    file.write(f"{line}\n")
                print(line, flush=True)


def table(options):
    """Prints one row for every set: log likelihood, NLL of rows and of levels, processor (wall) seconds of the faster split."""
    records = {(r["set"], r["split"], r["method"]): r for r in map(json.loads, options.results.open())}
    print("| set | " + " | ".join(METHODS) + " |\n| --- |" + " --- |" * len(METHODS))
    rows = []
    for name in SETS:
        cells, row = [], {"set": name.replace(",", "")}
        for method in METHODS:
            by_rows, by_levels = (records.get((name, split, method), {}) for split in SPLITS)
            if "nll" not in by_rows:
                cells.append(by_rows.get("error", ""))
                continue
            values = {
                "log_likelihood": f"{by_rows['log_likelihood']:.1f}",
                "nll_rows": f"{by_rows['nll']:.4f}",
                "nll_levels": f"{by_levels['nll']:.4f}" if "nll" in by_levels else "",
                "seconds": f"{min(r['cpu'] for r in (by_rows, by_levels) if 'cpu' in r):.3g}",
                "wall": f"{min(r['wall'] for r in (by_rows, by_levels) if 'wall' in r):.3g}",
            }
            prefix = "" if method == "sparsegp" else f"{method}_"
            row |= {prefix + key: value for key, value in values.items()}
            shown = [value for key, value in values.items() if value and key != "wall"]
            cells.append(", ".join(shown) + f" ({values['wall']})")
        if any(cells):
            print(f"| {name} | " + " | ".join(cells) + " |")
            rows.append(row)
    if options.csv:
        pd.DataFrame(rows).to_csv(options.csv, index=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    for command in (make, run, fit, table):
        one = commands.add_parser(command.__name__, help=command.__doc__)
        one.set_defaults(command=command)
        if command is table:
            one.add_argument("results", type=Path)
            one.add_argument("--csv", type=Path, help="file for the same numbers")
            continue
        one.add_argument("folder", type=Path, help="folder of the training and test parts")
        if command is make:
            one.add_argument("--data", type=Path, required=True, help="folder of insteval.csv.gz and verbagg.csv.gz, from lme4")
        if command is fit:
            one.add_argument("method", choices=METHODS)
            one.add_argument("name", choices=list(SETS))
            one.add_argument("split", choices=SPLITS)
        if command is run:
            one.add_argument("results", type=Path, help="file of JSON lines to which results are appended")
            one.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
            one.add_argument("--splits", nargs="+", default=list(SPLITS), choices=SPLITS)
            one.add_argument("--limit", type=float, default=900, help="seconds for one fit, reading and prediction included")
        if command in (make, run):
            one.add_argument("--names", nargs="+", default=list(SETS), choices=list(SETS))
        if command in (run, fit):
            one.add_argument("--program", default="sparsegp")
    options = parser.parse_args()
    options.command(options)


if __name__ == "__main__":
    main()
