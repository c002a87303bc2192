"""All public objects document their parameters in the format of numpydoc."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import sparsegp

MODULES = ["sparsegp", *(f"sparsegp.{name}" for name in ("guarantees", "kernels", "likelihoods", "metrics", "plot", "testing"))]


def public():
    """Yields names and objects: the exports of modules, and the methods of classes that the package defines."""
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if not callable(thing):
                continue
            yield f"{module.__name__}.{name}", thing
            if not inspect.isclass(thing):
                continue
            for method, member in inspect.getmembers(thing, callable):
                where = getattr(member, "__module__", None) or ""
                if not method.startswith("_") and where.startswith("sparsegp"):
                    yield f"{module.__name__}.{name}.{method}", member


@pytest.mark.parametrize(("name", "thing"), list(public()), ids=lambda value: value if isinstance(value, str) else "")
def test_parameters_are_documented(name, thing):
    text = inspect.getdoc(thing)
    assert text and text[0].isupper() and "." in text, name
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return
    signature = inspect.signature(thing)
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-{3,}|\Z)", text, re.MULTILINE | re.DOTALL)
    told = re.findall(r"^(\*{0,2}\w[\w, ]*)(?: :|$)", section[1], re.MULTILINE) if section else []
    told = {part.strip().lstrip("*") for names in told for part in names.split(",")}
    takes = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    assert set(takes) <= told, f"{name} says nothing of {sorted(set(takes) - told)}"

def test_the_package_lists_what_it_has():
    assert set(sparsegp.__all__) <= set(dir(sparsegp))


def test_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    # Choices take a while for kernels in Python, so there are fewer rows here.
    assert code.count("500") == 2
    exec(code.replace("500", "100"), {})
    assert "rbf" in capsys.readouterr().out
