#!/usr/bin/env python3
"""Makes the tables of `docs/losses.md` from `results/tables.csv`: prints the chapter, or writes it with `--write`.

`losses.py --from RESULTS.jsonl` first makes that file from what `tables.py run` has measured.
"""

import json
import statistics
import sys
from pathlib import Path

from readme_table import HERE, Measurements

CHAPTER = HERE.parents[1] / "docs" / "losses.md"
RESULTS = HERE / "results" / "tables.csv"
BEGIN, END = "<!-- tables: python3 benches/peers/losses.py --write -->", "<!-- end of tables -->"
LABELS = {"": "sparsegp", "lightgbm_": "lightgbm", "catboost_": "catboost"}
COLUMNS = ["nll", "nll_se", "error", "seconds"]
# Our error counts as behind if it is higher by more than this factor.
MARGIN = 1.03


def measured(path: Path) -> list[str]:
    """Returns the lines of the measurement file: means over splits, and the standard error of the NLL."""
    from tables import TABLES

    records = [json.loads(line) for line in path.open()]
    names = ["set", "task", *(prefix + column for prefix in LABELS for column in COLUMNS), "splits"]
    lines = [",".join(names)]
    for name, (_, task, _, _) in TABLES.items():
        cells = [name, task]
        of = {label: [one for one in records if one["name"] == name and one["label"] == label] for label in LABELS.values()}
        # The splits for which all libraries have results.
        seeds = set.intersection(*({one["seed"] for one in runs} for runs in of.values()))
        for runs in of.values():
            runs = [one for one in runs if one["seed"] in seeds]
            nll = [one["nll"] for one in runs]
            error = f"{statistics.stdev(nll) / len(nll) ** 0.5:.2g}" if len(nll) > 1 else ""
            means = [statistics.mean(one[column] for one in runs) for column in ("error_of_mean", "cpu")]
            cells += [f"{statistics.mean(nll):.4g}", error, *(f"{value:.4g}" for value in means)]
        cells.append(str(len(seeds)))
        lines.append(",".join(cells))
    return lines


def behind(row: dict[str, str]) -> tuple[str, str]:
    """Returns the lead of the better booster, in NLL and in percent of the error; empty if sparsegp is ahead."""
    nll = float(row["nll"]) - min(float(row["lightgbm_nll"]), float(row["catboost_nll"]))
    error = float(row["error"]) / min(float(row["lightgbm_error"]), float(row["catboost_error"]))
    return (f"{nll:.3f}" if nll > 0 else "", f"{100 * (error - 1):.0f} %" if error > MARGIN else "")


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def chapter() -> list[str]:
    """Returns the lines of all tables: the counts, the tables on which a booster is ahead, and all measurements."""
    file = Measurements("tables")
    number = {key: [float(row[key] or "nan") for row in file.rows] for key in file.rows[0] if key not in ("set", "task")}
    ahead = {peer: sum(a < b for a, b in zip(number["nll"], number[f"{peer}_nll"])) for peer in ("lightgbm", "catboost")}
    close = sum(not behind(row)[1] for row in file.rows)
    ratio = statistics.median(a / b for a, b in zip(number["seconds"], number["catboost_seconds"]))
    lines = [
        f"Of {len(file.rows)} tables, the default fit has the lower NLL than LightGBM on {ahead['lightgbm']} and than CatBoost on",
        f"{ahead['catboost']}. Its RMSE or error rate is lower than that of both, or within 3 % of the better one, on {close}. Its processor",
        f"time is {ratio:.1f} times CatBoost's in the median. It loses here:",
        "",
        line(["table", "NLL behind by", "RMSE or error rate behind by", "processor seconds", "of the faster booster"]),
        line(["---"] * 5),
    ]
    for row in file.rows:
        if any(behind(row)):
            fastest = min(row["lightgbm_seconds"], row["catboost_seconds"], key=float)
            lines.append(line([row["set"], *behind(row), row["seconds"], fastest]))
    lines += ["", "All measurements: NLL with its standard error over the splits, RMSE or error rate, processor seconds.", ""]
    lines += [line(["table", "task", "sparsegp", "LightGBM", "CatBoost", "splits"]), line(["---"] * 6)]
    lines += [line([row["set"], row["task"], *(cell(row, prefix) for prefix in LABELS), row["splits"]]) for row in file.rows]
    return lines


def cell(row: dict[str, str], prefix: str) -> str:
    """Returns the cell of one library in the row of a table."""
    error = row[prefix + "nll_se"]
    nll = row[prefix + "nll"] + (f" ± {error}" if error else "")
    return f"{nll}, {row[prefix + 'error']}, {row[prefix + 'seconds']}"


def renewed(text: str) -> str:
    """Returns the chapter with the current tables."""
    before, rest = text.split(BEGIN)
    return "\n".join([before + BEGIN, *chapter(), END]) + rest.split(END)[1]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--from"]:
        head = [one for one in RESULTS.read_text().splitlines() if one.startswith("#")]
        RESULTS.write_text("\n".join([*head, *measured(Path(sys.argv[2]))]) + "\n")
    if "--write" in sys.argv or "--from" in sys.argv:
        CHAPTER.write_text(renewed(CHAPTER.read_text()))
    else:
        print("\n".join(chapter()))
