"""Types of documented use: mypy and pyright, both strict, agree with them and refuse what does not exist."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

#: scikit-learn has no types.
MYPY = ["mypy", "--strict", "--no-incremental", "--disable-error-code", "import-untyped"]

WRONG = """
from sparsegp import SparseGPRegressor
from sparsegp.kernels import RBF

SparseGPRegressor(unseen="ignore")
SparseGPRegressor(objective="elbow")
RBF(lengthscale=1.0)
"""


def checked(tool: list[str], path: Path) -> str:
    pytest.importorskip(tool[0])
    run = [sys.executable, "-m", *tool, str(path)]
    # Elsewhere than in a folder whose own sources would be checked too.
    done = subprocess.run(run, capture_output=True, text=True, cwd=path.parent, env={**os.environ, "PYTHONPATH": ""}, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("tool", [MYPY, ["pyright", "--pythonpath", sys.executable]], ids=["mypy", "pyright"])
def test_documented_use_has_its_types(tool, tmp_path):
    (tmp_path / "use.py").write_text((HERE / "typed_use.py").read_text())
    said = checked(tool, tmp_path / "use.py")
    assert "Success" in said or "0 errors" in said, said


def test_what_does_not_exist_is_refused(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    said = checked(MYPY, tmp_path / "wrong.py")
    assert all(f"wrong.py:{line}: error" in said for line in (5, 6, 7)), said
