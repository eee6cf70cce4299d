"""Runs the notebooks of docs/ anew and keeps what they show, small and without traces of a machine.

    .venv/bin/python .ci/notebooks.py            all of them
    .venv/bin/python .ci/notebooks.py NAME …     some

A test (tests/journeys/test_notebooks.py) runs the same cells and compares what they show with what is kept.
"""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
from nbclient import NotebookClient

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "docs" / "notebooks"
SETTINGS = ("YIWEN_HOME", "YIWEN_WORKERS", "YIWEN_CORPUS", "YIWEN_PROGRESS")
"""Variables that must not change what is kept."""
SECONDS = 600
"""Time limit of a cell."""
# matches: "0.4" of "<td>0.4</td>", "3f2b9c1d" of "segment 3f2b9c1d", "3f2b9c1d…" of a folder
# not: "100" of "100 segments"
_CHANGING = re.compile(
    r"(?<![\w.])(?:\d[\d,]*\.\d+(?:e-?\d+)?|(?=[0-9a-f]*[a-f])[0-9a-f]{8}(?:[0-9a-f]{24})?)(?![\w.])"
)


def masked(text: str) -> str:
    """Return what a cell shows without times, scores and fingerprints, which may change while the cell does not."""
    return _CHANGING.sub("#", text)


@contextlib.contextmanager
def environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables of the environment, or remove those that are None, until the block ends."""
    before = {name: os.environ.get(name) for name in values}
    try:
        _set(values)
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def executed(path: Path) -> nbformat.NotebookNode:
    """Run a notebook in an empty folder, and return it with the outputs to keep: no progress, no warnings, no times."""
    notebook = nbformat.read(path, as_version=4)
    search = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory(prefix="yiwen-notebook-") as folder:
        work = Path(folder) / "work"
        work.mkdir()
        # The kernel keeps its history and sockets here, not in the user's home.
        own = {"PYTHONPATH": search, "IPYTHONDIR": f"{folder}/ipython", "JUPYTER_RUNTIME_DIR": f"{folder}/runtime"}
        with environment(dict.fromkeys(SETTINGS) | own):
            NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(work)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    return notebook


def main(names: list[str]) -> None:
    """Run notebooks and write them back."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            nbformat.write(executed(path), path)
            print(f"{path.relative_to(REPOSITORY)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
