"""Splits one CSV file into a training and a test part, the same rows for every library that reads them."""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from protocol import emit


def export_split(data, target, seed, test_fraction, out):
    """Writes OUT/NAME_train.csv and OUT/NAME_test.csv with all columns, as text exactly as read."""
    frame = pd.read_csv(data, dtype=str)
    if target not in frame.columns:
        raise SystemExit(f"{data} has no column '{target}'; it has {', '.join(frame.columns)}")
    rows = np.random.default_rng(seed).permutation(len(frame))
    held_out = max(1, round(test_fraction * len(frame)))
    out.mkdir(parents=True, exist_ok=True)
    name = data.name.split(".")[0]
    paths = {"train": out / f"{name}_train.csv", "test": out / f"{name}_test.csv"}
    frame.iloc[np.sort(rows[held_out:])].to_csv(paths["train"], index=False)
    frame.iloc[np.sort(rows[:held_out])].to_csv(paths["test"], index=False)
    return paths, {"set": name, "n_train": len(frame) - held_out, "n_test": held_out}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="CSV file with a header, may be compressed")
    parser.add_argument("--target", default="y")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--test-fraction", type=float, default=0.1)
    parser.add_argument("--out", type=Path, required=True, help="folder for the two files")
    options = parser.parse_args()
    _, record = export_split(
        options.data, options.target, options.seed, options.test_fraction, options.out
    )
    emit(record)


if __name__ == "__main__":
    main()
