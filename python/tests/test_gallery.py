"""The scripts of the gallery run on their small data sets."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

GALLERY = Path(__file__).resolve().parents[1] / "gallery"


@pytest.mark.parametrize("name", sorted(path.name for path in GALLERY.glob("*.py")))
def test_a_script_runs(name, capsys):
    text = (GALLERY / name).read_text()
    assert text.startswith("# %% [markdown]\n# # ") and len(text.splitlines()) < 80
    runpy.run_path(str(GALLERY / name), run_name="__main__")
    plt.close("all")
    assert capsys.readouterr().out
