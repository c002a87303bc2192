"""Types of documented use: mypy and pyright, both strict, agree with them and refuse what does not exist."""

import ast
import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sparsegp

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
    if tool[0] == "pyright" and shutil.which("node") is None:
        pytest.skip("pyright needs Node, which it would download")
    run = [sys.executable, "-m", *tool, str(path)]
    # Elsewhere than in a folder whose own sources would be checked too.
    done = subprocess.run(run, capture_output=True, text=True, cwd=path.parent, env={**os.environ, "PYTHONPATH": ""}, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("tool", [MYPY, ["pyright", "--pythonpath", sys.executable]], ids=["mypy", "pyright"])
def test_documented_use_has_its_types_and_what_does_not_exist_is_refused(tool, tmp_path):
    (tmp_path / "use.py").write_text((HERE / "typed_use.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    said = checked(tool, tmp_path)
    # Both tools write the file, the line and the column, or the line alone.
    errors = re.findall(r"(\w+)\.py:(\d+)[:\d]*:? -? ?error", said)
    assert {name for name, _ in errors} == {"wrong"}, said
    assert {int(line) for _, line in errors} == {5, 6, 7}, said


def examples() -> dict[str, str]:
    """The README's code and every docstring's examples, by the name of a file."""
    text = (HERE.parent / "README.md").read_text(encoding="utf-8")
    found = {"readme": "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))}
    parser, package = doctest.DocTestParser(), Path(sparsegp.__file__).parent
    for path in sorted(package.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                continue
            examples = parser.get_examples(ast.get_docstring(node) or "")
            if examples:
                name = f"{path.stem}_{getattr(node, 'name', 'module')}_{getattr(node, 'lineno', 0)}"
                found[name.strip("_")] = "".join(example.source for example in examples)
    return found


def test_examples_have_their_types(tmp_path):
    """Examples have classes without annotations, which strict checks refuse; everything else of them is checked. Doctests run them."""
    files = examples()
    assert len(files) > 15
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    lenient = ["mypy", "--check-untyped-defs", "--no-incremental", "--disable-error-code", "import-untyped"]
    # If several classes of one name are written out, each file is a separate module.
    said = checked([*lenient, "--scripts-are-modules"], tmp_path)
    assert "Success" in said, said
