"""Measures the cost of the package compared with the program: fits, predictions, imports, memory. Prints a JSON
document per measurement.

    python python/benches/measure.py fit kin40k.csv.gz          # NumPy against the command, in turn, on the same plan
    python python/benches/measure.py predict                    # 1,000,000 rows of 8 columns
    python python/benches/measure.py memory                     # resident memory over 500 fits
    python python/benches/measure.py imports PYTHON...          # import times of sparsegp and of the peers of PYTHON
    python python/benches/measure.py own                        # a likelihood in Python against the built-in one
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def cpu(who=resource.RUSAGE_SELF) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def told(work):
    """Returns the result of `work`, its wall seconds and its processor seconds, including programs that it starts."""
    begin, busy = time.perf_counter(), cpu() + cpu(resource.RUSAGE_CHILDREN)
    out = work()
    return out, time.perf_counter() - begin, cpu() + cpu(resource.RUSAGE_CHILDREN) - busy


def resident() -> float:
    """Returns the resident memory in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def fit(arguments) -> dict:
    """Measures a fit with mini-batches to arrays in memory, and by the command to a file, including reading."""
    import pandas as pd

    from sparsegp import SparseGPRegressor

    frame = pd.read_csv(arguments.table)
    X, y = frame.iloc[:, :-1].to_numpy(), frame.iloc[:, -1].to_numpy()
    plan = {"n_inducing": 200, "batch_size": 1000, "epochs": 5, "auto": "none"}
    model = SparseGPRegressor("rbf(ard)", objective="elbo", hyper="joint", **plan, random_state=0)
    command = f"{arguments.program} fit {arguments.table} --target {frame.columns[-1]} --kernel rbf(ard) --objective elbo"
    command += " --hyper joint --inducing 200 --batch-size 1000 --epochs 5 --auto none --seed 0 --quiet"
    runs = {"python": [], "command": []}
    for _ in range(arguments.repeats):
        runs["python"].append(told(lambda: model.fit(X, y))[1:])
        with tempfile.TemporaryDirectory() as folder:
            model_out = ["--model-out", f"{folder}/model"]
            runs["command"].append(told(lambda: subprocess.run([*command.split(), *model_out], check=True, stdout=subprocess.DEVNULL))[1:])
            same = np.array_equal(SparseGPRegressor.load(f"{folder}/model").predict(X[:100]), model.predict(X[:100]))
    best = {name: np.min(each, axis=0).round(2).tolist() for name, each in runs.items()}
    ratio = [a / b for a, b in zip(best["python"], best["command"])]
    return {"rows": len(y), "seconds and processor seconds": best, "ratio": np.round(ratio, 3).tolist(), "same predictions": same}


def predict(arguments) -> dict:
    """Measures means and variances of many rows: from NumPy, from a table of the engine, and by the command from a Parquet
    file."""
    import pyarrow as pa
    from pyarrow import parquet

    from sparsegp import SparseGPRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(arguments.rows, 8))
    model = SparseGPRegressor("rbf(ard)", n_inducing=100, auto="none", epochs=3).fit(X[:2000], X[:2000, 0] ** 2)
    before = resident()
    times = [told(lambda: model.predict(X, return_std=True))[1:] for _ in range(arguments.repeats)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        table = pa.table({f"x{i}": X[:, i] for i in range(8)})
        parquet.write_table(table, f"{folder}/X.parquet")
        command = [arguments.program, "predict", f"{folder}/model", f"{folder}/X.parquet", "--out", f"{folder}/out.csv"]
        program = [told(lambda: subprocess.run(command, check=True))[1:] for _ in range(arguments.repeats)]
    engine, table = model._fitted(), model._rows(X, reset=False)[0]
    alone = [told(lambda: engine.predict(table, ["moments"]))[1:] for _ in range(arguments.repeats)]
    parts = {"python": times, "engine alone": alone, "command, files included": program}
    best = {name: np.min(each, axis=0).round(2).tolist() for name, each in parts.items()}
    memory = {"of X": round(X.nbytes / 1e6), "before": round(before), "peak": round(peak)}
    return {"rows": arguments.rows, "seconds and processor seconds": best, "MB": memory}


def memory(arguments) -> dict:
    from sparsegp import SparseGPRegressor

    X = np.random.default_rng(0).normal(size=(60, 2))
    found = {}
    for count in range(1, arguments.fits + 1):
        SparseGPRegressor("rbf", n_inducing=8, auto="none", epochs=3).fit(X, X[:, 0]).predict(X)
        if count in (20, 100, arguments.fits):
            found[count] = round(resident(), 1)
    return {"MB after so many fits": found}


def imports(arguments) -> dict:
    def best(python, module):
        work = [told(lambda: subprocess.run([python, "-c", f"import {module}"], capture_output=True)) for _ in range(arguments.repeats)]
        return None if work[0][0].returncode else np.min([each[1:] for each in work], axis=0).round(2).tolist()

    names = ("sys", "sparsegp", "sklearn.base", "sparsegp; sparsegp.SparseGPRegressor")
    found = {name: best(sys.executable, name) for name in names}
    peers = {name: best(python, name) for python in arguments.pythons for name in ("gpytorch", "gpflow")}
    return {"seconds and processor seconds": found | peers}


def own(arguments) -> dict:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from own_parts import Bell, Counts

    from sparsegp import SparseGPCountRegressor

    X = np.random.default_rng(0).uniform(-3, 3, (1000, 2))
    y = np.random.default_rng(1).poisson(np.exp(np.sin(X[:, 0]) + 1))
    found = {}
    for name, parts in {
        "built in": {"kernel": "rbf(ard)", "likelihood": "poisson"},
        "kernel in Python": {"kernel": Bell(), "likelihood": "poisson"},
        "likelihood in Python": {"kernel": "rbf(ard)", "likelihood": Counts()},
    }.items():
        model = SparseGPCountRegressor(**parts, n_inducing=30, auto="none", epochs=10, batch_size=250)
        found[name] = np.round(told(lambda: model.fit(X, y))[1:], 2).tolist()
    return {"seconds and processor seconds of 10 epochs of 1000 rows": found}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="sparsegp", help="the command")
    parser.add_argument("--repeats", type=int, default=3)
    commands = parser.add_subparsers(required=True)
    for work in (fit, predict, memory, imports, own):
        command = commands.add_parser(work.__name__)
        command.set_defaults(work=work)
    commands.choices["fit"].add_argument("table")
    commands.choices["predict"].add_argument("--rows", type=int, default=1_000_000)
    commands.choices["memory"].add_argument("--fits", type=int, default=500)
    commands.choices["imports"].add_argument("pythons", nargs="*")
    arguments = parser.parse_args()
    print(json.dumps({arguments.work.__name__: arguments.work(arguments)}))
