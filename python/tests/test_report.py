"""Reports from Python: the figures for given test rows, and valid combinations of arguments."""

import pytest
import sparsegp


def test_a_report_has_the_figures_of_its_rows(tumours, tmp_path):
    X, y = tumours
    model = sparsegp.SparseGPClassifier(epochs=3, auto="none").fit(X[:400], y[:400])
    pages = {}
    for name, rows in [("none", {}), ("inputs", {"X_test": X[400:]}), ("test", {"X_test": X[400:], "y_test": y[400:]})]:
        model.report(tmp_path / name, **rows)
        pages[name] = (tmp_path / name).read_text()
        assert pages[name].startswith("<!DOCTYPE html>") and "SparseGPClassifier(" in pages[name]
    has = {name: "<title>Decision regions</title>" in page for name, page in pages.items()}
    assert has == {"none": False, "inputs": True, "test": True}
    assert [name for name, page in pages.items() if "Receiver operating" in page] == ["test"]
    beside = ["training", "the class shares", "linear model"]
    assert all(f'>{name}</th>' in pages["test"] for name in beside)
    model.save(tmp_path / "model")
    sparsegp.SparseGPClassifier.load(tmp_path / "model").report(tmp_path / "loaded", X[400:], y[400:])
    assert "Receiver operating" in (loaded := (tmp_path / "loaded").read_text()) and "the class shares" not in loaded
    with pytest.raises(ValueError, match="X_test"):
        model.report(tmp_path / "x", y_test=y[400:])
    assert not (tmp_path / "x").exists()
