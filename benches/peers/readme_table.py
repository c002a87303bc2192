#!/usr/bin/env python3
"""Makes the table of results in the README from the measurement files in `results/`: prints it, or writes it with `--write`.

Each file is CSV below lines that start with `#`: the date, the machine, both commands, and the chapter with the whole comparison.
"""

import csv
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"
BEGIN, END = "<!-- results: python3 benches/peers/readme_table.py --write -->", "<!-- end of results -->"
# The non-breaking space between a number and its unit.
SPACE = "\u00a0"
HEADER = ["measurement", "data", "sparsegp", "the other library"]


class Measurements:
    """A measurement file: the facts of its comment lines, and its rows."""

    def __init__(self, name: str):
        lines = (HERE / "results" / f"{name}.csv").read_text().splitlines()
        comments = [line.removeprefix("# ").split(": ", 1) for line in lines if line.startswith("#")]
        self.facts = dict(comments)
        self.rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))

    def row(self, data: str) -> dict[str, str]:
        """Returns the row of a data set."""
        return next(row for row in self.rows if row["set"] == data)

    def wins(self, column: str) -> tuple[int, int]:
        """Returns the number of sets on which sparsegp has the lower value of a column, and the number on which the peer has it."""
        pairs = [(float(row[column]), float(row[f"peer_{column}"])) for row in self.rows]
        return sum(ours < peer for ours, peer in pairs), sum(peer < ours for ours, peer in pairs)

    def count(self, column: str) -> list[str]:
        """Returns the cells for a column: the number of sets, with ties in the digits of the file, and the wins of both."""
        wins = self.wins(column)
        ties = len(self.rows) - sum(wins)
        return [f"{len(self.rows)} sets" + (f", {ties} tied" if ties else ""), *(f"{count} sets" for count in wins)]

    def link(self, text: str) -> str:
        """Returns a link to the chapter with the whole comparison."""
        return f"[{text}]({self.facts['chapter']})"


def nats(text: str) -> str:
    """Returns a log loss with a real minus sign."""
    return f"{float(text):.3f}".replace("-", "−")


def pair(row: dict[str, str], data: str, what: str) -> list[str]:
    """Returns the cells for NLL and seconds of both libraries."""
    ours, other = (f"{nats(row[p + 'nll'])} in{SPACE}{round(float(row[p + 'seconds']))}{SPACE}s" for p in ("", "peer_"))
    return [what, data, ours, other]


def table() -> list[str]:
    """Returns the lines of the table, in Markdown."""
    gpytorch, gpflow = Measurements("gpytorch_time"), Measurements("gpflow_sgpr")
    gpboost, lightgbm = Measurements("gpboost_neighbours"), Measurements("lightgbm_defaults")
    what = (
        f"time to the test NLL that {gpytorch.link('GPyTorch')} (SVGP) has after 100 epochs. Of twenty settings of sparsegp that were tried, "
        "the fastest one that reaches this NLL is shown"
    )
    rows = [pair(gpytorch.row(data), data, what) for data in ("kin40k", "protein")]
    what = f"test NLL and time after 100 iterations of the collapsed bound; the other library is {gpflow.link('GPflow')} (SGPR)"
    rows += [pair(gpflow.row(data), data, what) for data in ("kin40k", "protein")]
    what = f"test NLL and time with neighbours; the other library is {gpboost.link('GPBoost')} (Vecchia approximation)"
    rows += [pair(gpboost.row(data), data, what) for data in ("kin40k", "cadata")]
    for column, what in (("nll", "test NLL"), ("error", "test RMSE or error rate")):
        what = f"number of data sets on which each has the lower {what}: default fit against {lightgbm.link('LightGBM')} with early stopping"
        rows.append([what, *lightgbm.count(column)])
    rows.append(["number of data sets on which each takes less time for these fits", *lightgbm.count("seconds")])
    satellite = Measurements("satellite")
    ours, linear = satellite.row("satellite"), satellite.row("linear model")
    what = f"RMSE of the pixels under clouds in {satellite.link('a satellite image')}, default fit"
    rows.append([what, "105,569 rows", f"{ours['rmse']} in{SPACE}{ours['seconds']}{SPACE}s", f"{linear['rmse']} (a linear model)"])
    # A measurement of several data sets is named in its first row only.
    named = [["" if above and above[0] == row[0] else row[0], *row[1:]] for above, row in zip([None, *rows], rows)]
    lines = [HEADER, ["---"] * len(HEADER), *named]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def renewed(text: str) -> str:
    """Returns the README with the current table."""
    before, rest = text.split(BEGIN)
    return "\n".join([before + BEGIN, *table(), END]) + rest.split(END)[1]


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        README.write_text(renewed(README.read_text()))
    else:
        print("\n".join(table()))
