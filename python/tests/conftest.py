"""Small real data sets that the tests share."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

#: Code that type checkers read and that is never run.
collect_ignore = ["typed_use.py"]

DATA = Path(__file__).resolve().parents[2] / "examples" / "data"


def read(name: str):
    import pandas as pd

    return pd.read_csv(DATA / name)


@pytest.fixture(scope="session")
def co2():
    frame = read("co2_monthly.csv")
    return frame[["year"]].to_numpy(), frame["co2"].to_numpy()


@pytest.fixture(scope="session")
def tumours():
    frame = read("breast_cancer.csv")
    return frame.drop(columns="diagnosis"), frame["diagnosis"]


@pytest.fixture(scope="session")
def visits():
    frame = read("doctor_visits.csv").head(600)
    return frame.drop(columns="visits"), frame["visits"]


@pytest.fixture(scope="session")
def loads():
    """A table of numbers and categories."""
    import pandas as pd

    rng = np.random.default_rng(0)
    hour, side = rng.uniform(0, 24, 160), rng.choice(["left", "right", "both"], 160)
    load = np.sin(hour / 4) + (side == "left") + 0.1 * rng.normal(size=160)
    return pd.DataFrame({"hour": hour, "side": side, "load": load})


def out_of_place(values):
    """Returns the same numbers at an odd address, and read-only, like a buffer that was received over a network."""
    values = np.ascontiguousarray(values)
    # Memory that NumPy allocates starts at a multiple of 16.
    off = np.empty(values.nbytes + 1, dtype=np.uint8)[1:].view(values.dtype).reshape(values.shape)
    off[...] = values
    off.flags.writeable = False
    assert not off.flags.aligned
    return off
