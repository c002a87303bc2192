"""Options and parameters in messages exist in the interface that shows the message: the command line or Python."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sparsegp
from sparsegp import _sparsegp

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(sparsegp.__file__).parent

#: Options that only the command line has: options about files and their reading, and about cross-validation, which
#: scikit-learn provides in Python.
FILES = {"average", "cv", "delimiter", "from", "missing", "model_out", "population", "resume", "shuffle_buffer", "split_by"}

#: Names that only Rust programs set, so only these show messages about them.
RUST = {"dimensions"}


def marked() -> set:
    """Returns every option between ⟨ and ⟩ in the sources, with its value if it has one."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name not in ("target", "python", "docs", "fuzz", "tests")]
    found = set()
    for path in (path for folder in folders for path in folder.rglob("*.rs") if "target" not in path.parts):
        for option in re.findall(r"⟨([a-z_]+(?: [^⟩{]*)?)⟩", path.read_text(encoding="utf-8")):
            name, _, value = option.partition(" ")
            found.add((name, value or None))
        # Options with a value that is filled in have only their name.
        found |= {(name, None) for name in re.findall(r"⟨([a-z_]+) [^⟩]*\{", path.read_text(encoding="utf-8"))}
    # Tests of the markers use other words.
    return {(name, value) for name, value in found if name not in ("a", "b", "name", "and")}


def parameters() -> set:
    """Returns every parameter of a public object."""
    names = {"X"}
    for thing in (getattr(sparsegp, name) for name in sparsegp.__all__):
        members = [thing] if callable(thing) else []
        if inspect.isclass(thing):
            members += [member for name, member in inspect.getmembers(thing, callable) if not name.startswith("_")]
        for member in members:
            try:
                names |= set(inspect.signature(member).parameters)
            except (TypeError, ValueError):
                pass
    return names


def test_options_of_messages_exist_in_python():
    known, options = parameters(), set(_sparsegp.option_types())
    for name, value in sorted(marked(), key=str):
        if name in FILES | RUST:
            continue
        said = _sparsegp.option_called(name, value)
        inside = re.fullmatch(r"options=\{'(\w+)': .+\}", said)
        if inside:
            assert inside[1] in options, said
        elif said.split("=")[0] not in known:
            assert said in sparsegp.__all__, f"a message says {said!r} for ⟨{name} {value}⟩, which Python does not have"


def test_options_of_messages_exist_on_the_command_line():
    def options_of(*command):
        run = [sys.executable, "-m", "sparsegp", *command, "--help"]
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout

    commands = re.findall(r"(?m)^  ([a-z]+) ", options_of().split("Commands:")[1])
    known = {name.replace("-", "_") for command in set(commands) - {"help"} for name in re.findall(r"--([a-z-]+)", options_of(command))}
    known |= {name.removeprefix("no_") for name in known}
    absent = {name for name, _ in marked() if name not in known and name not in RUST}
    assert not absent, f"messages name options that no command has: {absent}"


def test_parameters_that_the_package_names_exist():
    known = parameters() | set(_sparsegp.option_types()) | {"kernels", "likelihoods", "ax", "asynchronous"}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for raised in (node for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None):
            texts = [node.value for node in ast.walk(raised) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
            for text in texts:
                named = re.findall(r"\b([a-z_]+)=(?=['\"\d\[{TF])", text)
                assert set(named) <= known, f"{path.name}: {text!r}"


def test_the_list_of_parameters_of_the_engine_is_complete():
    """Compares the engine's list of parameters with the parameters of estimators, by name and by position outside ``options``."""
    own = set(sparsegp.SparseGPRegressor().get_params()) | set(sparsegp.BayesianLinearRegressor().get_params())
    for name in _sparsegp.option_types():
        said = _sparsegp.option_called(name, "1")
        assert (name in own or name in ("inducing", "seed")) != said.startswith("options="), said


@pytest.mark.parametrize(("name", "value", "said"), [("keep", "a,b", "keep=['a', 'b']"), ("betas", "auto", "beta='auto'")])
def test_values_are_written_in_python_syntax(name, value, said):
    assert _sparsegp.option_called(name, value) == said
