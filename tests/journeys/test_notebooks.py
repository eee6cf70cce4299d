"""The notebooks of docs/: their cells run, what they keep is what they show, and nothing in them is of a machine."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from infra.settings import REPOSITORY

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))
MOST_BYTES = 40_000


def keeping() -> Any:
    """The program that runs the notebooks, .ci/notebooks.py."""
    pytest.importorskip("nbclient", reason="the extra dev is not installed")
    place = importlib.util.spec_from_file_location("notebooks", REPOSITORY / ".ci" / "notebooks.py")
    assert place is not None and place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def kept(cell: dict[str, Any]) -> tuple[str, str]:
    """What a cell keeps: printed text, and its last value as HTML or as text."""
    printed = "".join("".join(one["text"]) for one in cell["outputs"] if one["output_type"] == "stream")
    values = [one["data"] for one in cell["outputs"] if one["output_type"] == "execute_result"]
    return printed, "".join("".join(one.get("text/html", one["text/plain"])) for one in values)


def run(source: str, names: dict[str, Any]) -> str:
    """Run a cell as a kernel does; its last value as a notebook shows it."""
    from IPython.lib.pretty import pretty

    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return ""
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    if value is None:
        return ""
    return str(value._repr_html_()) if hasattr(value, "_repr_html_") else pretty(value)


def run_here(work: Any, log: Path, progress: Any) -> None:
    """Train in this process instead of a child, whose notes go to a file too."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert importlib.import_module(work.module).main([work.run_path, "--quiet"]) == 0


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_show_what_is_kept(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    masked = keeping().masked
    pytest.importorskip("IPython", reason="the extra dev is not installed")
    monkeypatch.chdir(tmp_path)
    for name in ("YIWEN_HOME", "YIWEN_WORKERS", "YIWEN_PROGRESS"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # the notebook sets them; they are put back afterwards
    threads = torch.get_num_threads()
    monkeypatch.setattr("tasks.training.launch.run_child", run_here)
    names: dict[str, Any] = {}
    try:
        for cell in cells(path):
            value = run("".join(cell["source"]), names)
            printed, expected = kept(cell)
            assert masked(capsys.readouterr().out) == masked(printed), cell["source"]
            assert masked(value) == masked(expected), cell["source"]
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)


def test_kernel_shows_what_is_kept() -> None:
    (path,) = (one for one in NOTEBOOKS if one.stem == "terminologist")
    program = keeping()
    new = [kept(cell) for cell in program.executed(path)["cells"] if cell["cell_type"] == "code"]
    old = [kept(cell) for cell in cells(path)]
    assert [tuple(map(program.masked, one)) for one in new] == [tuple(map(program.masked, one)) for one in old]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_kept_outputs_are_small_and_of_no_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < MOST_BYTES
    assert not [place for place in ("/tmp", "/home", "/root", str(REPOSITORY), sys.prefix) if place in text]
    outputs = [one for cell in cells(path) for one in cell["outputs"]]
    assert outputs and all(one["output_type"] in ("execute_result", "stream") for one in outputs)
    assert all(one.get("name") != "stderr" for one in outputs)
    assert {Path(one).stem for one in NOTEBOOKS} == {"text_engineer", "researcher", "terminologist"}


def test_mask_hides_what_changes_and_nothing_else() -> None:
    masked = keeping().masked
    assert masked("in 0.4 s: 60 segments, 1,234 rows") == "in # s: 60 segments, 1,234 rows"
    assert masked("segment 3f2b9c1d: artifacts/segment/79c1c2f69ecb7e2f500b1c44e060bea5") == (
        "segment #: artifacts/segment/#"
    )
    assert masked("I10.x00 高血压 E11.900 20231187 0.97") == "I10.x00 高血压 E11.900 20231187 #"
