"""Fits the same splits with sparsegp's collapsed bound and with GPflow's SGPR and prints a Markdown table."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from export_split import export_split
from protocol import LOAD_BEFORE, Clock


def value(document, name):
    """Returns the first number called `name` in a JSON document, outer levels before inner ones; None if the name does not occur."""
    level = [document]
    while level:
        for entry in level:
            if isinstance(entry, dict) and isinstance(entry.get(name), (int, float)):
                return entry[name]
        level = [inner for entry in level if isinstance(entry, dict) for inner in entry.values()]
    return None


def run_ours(options, train, test, out):
    """Runs our binary, timed as a whole process: start, reading, fit, prediction, metrics."""
    command = [options.sparsegp, "fit", train, "--target", options.target, "--test", test]
    command += ["--objective", "vfe", "--inducing", str(options.inducing), "--seed", str(options.seed)]
    command += ["--metrics", out, "--quiet", *options.sparsegp_option]
    environment = os.environ | {"RAYON_NUM_THREADS": str(options.threads)}
    clock = Clock()
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
    seconds = clock.seconds()
    if done.returncode != 0:
        message = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return {"error": message[0]}
    document = json.loads(Path(out).read_text())
    return {"nll": value(document, "nll"), "rmse": value(document, "rmse"), "seconds": seconds}


def run_gpflow(options, train, test):
    """Runs the peer script in a separate process; its seconds exclude the interpreter, imports and reading."""
    script = Path(__file__).with_name("gpflow_sgpr.py")
    command = [sys.executable, script, train, test, "--target", options.target, "--seed", options.seed]
    command += ["--inducing", options.inducing, "--iterations", options.iterations, "--threads", options.threads]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if not lines:
        message = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return {"error": message[-1]}
    record = json.loads(lines[-1])
    if "error" in record:
        return {"error": record["error"]}
    return {"nll": record["test_nll"], "rmse": record["test_rmse"], "seconds": record["seconds_total"]}


def cells(result):
    """Returns NLL, RMSE and seconds as text; an error message replaces the NLL."""
    if "error" in result:
        return [result["error"].replace("|", "/")[:60], "", ""]
    return ["" if result[key] is None else f"{result[key]:.4g}" for key in ("nll", "rmse", "seconds")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", help="names of sets: FOLDER/NAME.csv.gz")
    parser.add_argument("--data", type=Path, required=True, help="folder of the sets")
    parser.add_argument("--work", type=Path, required=True, help="folder for splits and metrics files")
    parser.add_argument("--sparsegp", required=True, help="path of our binary")
    parser.add_argument("--sparsegp-option", action="append", default=[], help="option for sparsegp, repeatable (use =)")
    parser.add_argument("--target", default="y")
    parser.add_argument("--inducing", type=int, default=500)
    parser.add_argument("--iterations", type=int, default=100, help="iterations of GPflow's optimiser")
    parser.add_argument("--test-fraction", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    heads = ["set", "N", "our NLL", "our RMSE", "our s", "GPflow NLL", "GPflow RMSE", "GPflow s", "GPflow s / our s"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for name in options.sets:
        source = options.data / f"{name}.csv.gz"
        paths, counts = export_split(source, options.target, options.seed, options.test_fraction, options.work)
        train, test = paths["train"], paths["test"]
        ours = run_ours(options, train, test, options.work / f"{name}_metrics.json")
        peer = run_gpflow(options, train, test)
        timed = "seconds" in ours and "seconds" in peer
        ratio = f"{peer['seconds'] / ours['seconds']:.1f}" if timed else ""
        row = [name, str(counts["n_train"]), *cells(ours), *cells(peer), ratio]
        print(f"| {' | '.join(row)} |", flush=True)
    settings = f"{options.threads} threads, M = {options.inducing}"
    print(f"\nLoad average before the first fit: {LOAD_BEFORE:.2f}; {settings}.")


if __name__ == "__main__":
    main()
