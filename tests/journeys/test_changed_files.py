"""A file that changes while a corpus is being read stops the run, and nothing read from it is kept."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.stage import SerialExecutor, run
from tasks.files.access import changed_file
from tasks.files.raw_input import RawInput
from tasks.ingest.plan import plan_units
from tasks.ingest.stage import IngestParams, ingest
from tests.support.text.reading import COMPRESSIONS, FORMATS, jsonl, written, zipped

ROWS = [{"title": f"标题{n}", "text": f"第{n}篇：患者年龄{n}岁。"} for n in range(50)]


class MeddlingExecutor(SerialExecutor):
    """Executor that changes a file after the plan is made and before the first unit is read."""

    def __init__(self, meddle: Any) -> None:
        self.meddle = meddle

    def run(self, place: Any, function: Any, units: Any) -> Any:
        self.meddle()
        yield from super().run(place, function, units)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(jsonl(ROWS[:1]))


def rewrite_in_place(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-4] + data[-5:-4] * 4)


CHANGES = {
    "gone": os.remove,
    "grown": grow,
    "shrunk": lambda path: os.truncate(path, 50),
    "rewritten": rewrite_in_place,
}


@pytest.mark.parametrize("bytes_per_part", [16 << 20, 500])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "jsonl.gz", "zip"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_during_the_run_stops_it(
    tmp_path: Path, kind: str, change: str, bytes_per_part: int
) -> None:
    base, _, compression = kind.partition(".")
    content = zipped({"x.jsonl": jsonl(ROWS)}) if kind == "zip" else FORMATS[base](ROWS)
    folder = written(tmp_path / "corpus", {f"a.{kind}": COMPRESSIONS[compression and f".{compression}"](content)})
    store, params = ArtifactStore(tmp_path / "store"), IngestParams(bytes_per_part=bytes_per_part)
    executor = MeddlingExecutor(lambda: CHANGES[change](folder / f"a.{kind}"))
    with pytest.raises(UserError, match=rf"a\.{kind}\S* was changed or removed .*Run the command again"):
        run(ingest, store, params, {"corpus": RawInput(folder)}, executor=executor)
    assert store.latest("ingest") is None


@pytest.mark.parametrize("kind", ["jsonl", "zip"])
def test_a_file_that_changes_before_it_is_planned_stops_the_run(tmp_path: Path, kind: str) -> None:
    folder = written(
        tmp_path / "corpus", {f"a.{kind}": zipped({"x.jsonl": jsonl(ROWS)}) if kind == "zip" else jsonl(ROWS)}
    )
    corpus = RawInput(folder)
    files = corpus.files
    os.remove(folder / f"a.{kind}")
    with pytest.raises(UserError, match="Run the command again"):
        plan_units(files, 500, None, "auto")


def test_the_error_reaches_another_process_unchanged() -> None:
    error = changed_file("a.txt")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_touched_file_counts_as_unchanged(tmp_path: Path) -> None:
    folder = written(tmp_path / "corpus", {"a.jsonl": jsonl(ROWS)})
    executor = MeddlingExecutor(lambda: os.utime(folder / "a.jsonl", (1, 1)))
    store = ArtifactStore(tmp_path / "store")
    artifact = run(ingest, store, IngestParams(), {"corpus": RawInput(folder)}, executor=executor).artifact
    assert artifact.rows("documents") == 50
