"""Marks of artifacts in use: they die with their process, wait for a deletion, and are no part of a fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.artifacts import MANIFEST, ArtifactStore
from infra.runs import no_runs
from infra.settings import REPOSITORY
from infra.uses import USES, use, used

CHILD = """
import os, sys
from infra.uses import use
use(sys.argv[1])
if sys.argv[2:]:  # a forked worker outlives its parent, and holds nothing
    if os.fork():
        os._exit(0)
print("marked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    folder = tmp_path / "store" / "finetune" / "ab12" / "model"
    folder.mkdir(parents=True)
    (folder.parent / MANIFEST).write_text("{}")
    return ArtifactStore(tmp_path / "store")


def child(store: ArtifactStore, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(Path(store.base) / "finetune" / "ab12" / "model"), *more]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("more", [(), ("fork",)])
def test_a_mark_lives_as_long_as_its_process(store: ArtifactStore, more: tuple[str, ...]) -> None:
    process = child(store, *more)
    assert process.stdout is not None and process.stdout.readline() == "marked\n"
    if not more:
        assert used(store) == {"finetune/ab12"}
        process.kill()
    process.wait()
    assert used(store) == set()
    assert list((Path(store.base) / USES).iterdir()) == []
    assert process.stdin is not None
    process.stdin.close()


def test_a_mark_waits_for_a_deletion(store: ArtifactStore) -> None:
    with no_runs(store):
        process = child(store)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        assert used(store) == set()
    assert process.stdout is not None and process.stdout.readline() == "marked\n"
    assert used(store) == {"finetune/ab12"}
    process.kill()
    process.wait()


def test_what_is_no_artifact_gets_no_mark(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    for folder in (tmp_path / "model", "memory://store/finetune/ab12", tmp_path / "absent"):
        use(folder)
    assert not list(tmp_path.rglob(USES))


def test_a_store_that_cannot_be_written_is_used_without_a_mark(store: ArtifactStore) -> None:
    (Path(store.base) / USES).write_text("a file where the folder should be")
    use(Path(store.base) / "finetune" / "ab12")
    assert used(store) == set()
