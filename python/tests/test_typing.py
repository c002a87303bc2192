"""Types of documented use: mypy and pyright in strict mode accept documented code and refuse names that do not exist."""

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
    # Runs outside folders whose sources would be checked too.
    done = subprocess.run(run, capture_output=True, text=True, cwd=path.parent, env={**os.environ, "PYTHONPATH": ""}, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("tool", [MYPY, ["pyright", "--pythonpath", sys.executable]], ids=["mypy", "pyright"])
def test_documented_use_is_accepted_and_unknown_names_are_refused(tool, tmp_path):
    (tmp_path / "use.py").write_text((HERE / "typed_use.py").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    said = checked(tool, tmp_path)
    # Both tools print the file, the line and the column, or only the line.
    errors = re.findall(r"(\w+)\.py:(\d+)[:\d]*:? -? ?error", said)
    assert {name for name, _ in errors} == {"wrong"}, said
    assert {int(line) for _, line in errors} == {5, 6, 7}, said


def examples() -> dict[str, str]:
    """Returns the code of the README and the examples of every docstring, by file name."""
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
    """Checks examples without strict mode, which would refuse their classes without annotations. Doctests run the examples."""
    files = examples()
    assert len(files) > 15
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    lenient = ["mypy", "--check-untyped-defs", "--no-incremental", "--disable-error-code", "import-untyped"]
    # Each file is a separate module, because examples may define classes with the same name.
    said = checked([*lenient, "--scripts-are-modules"], tmp_path)
    assert "Success" in said, said
