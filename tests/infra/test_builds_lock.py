"""Deleting an unfinished build: not while a process has it, and nothing beyond its folder."""

from __future__ import annotations

import logging
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import ArtifactStore
from infra.builds import PartWriter, Unit, discard_partial, is_being_built, open_build, open_scratch, run_unit


def test_a_build_that_a_process_has_is_not_deleted(store: ArtifactStore) -> None:
    with open_build(store, "clean", "tried") as build:
        assert build is not None
        partial = Path(store.absolute(build.place.partial))
        state = Path(build.scratch, "state")
        state.write_bytes(b"x")
        assert is_being_built(partial)
        assert not discard_partial(partial) and state.exists()
    assert not is_being_built(partial)
    assert discard_partial(partial) and not partial.exists()


def test_links_in_an_unfinished_build_are_deleted_and_not_what_they_lead_to(
    store: ArtifactStore, tmp_path: Path
) -> None:
    """A scratch folder that a user has moved to another disk."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "state").write_bytes(b"x")
    with open_build(store, "clean", "tried") as build:
        assert build is not None
        partial = Path(store.absolute(build.place.partial))
        (partial / "linked").symlink_to(elsewhere)
        (partial / "file").write_bytes(b"x")
    assert discard_partial(partial) and not partial.exists()
    assert (elsewhere / "state").read_bytes() == b"x"


def test_the_lock_of_a_deleted_build_goes_last(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits for it finds either a build that is being deleted, with its lock, or none."""
    with open_build(store, "clean", "tried") as build:
        assert build is not None
        partial = Path(store.absolute(build.place.partial))
        Path(build.scratch, "state").write_bytes(b"x")
    left = []
    rmtree = shutil.rmtree

    def watched(path: Path, *arguments: Any, **options: Any) -> None:
        left.append(sorted(child.name for child in partial.iterdir()))
        rmtree(path, *arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", watched)
    assert discard_partial(partial) and not partial.exists()
    assert all("lock" in names for names in left) and left[-1] == ["lock"]


def test_a_builder_that_waited_for_a_lock_that_is_gone_takes_the_new_one(
    store: ArtifactStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The build that it waited for deleted its folder: a lock on the old file would keep nobody out."""
    caplog.set_level(logging.INFO, "infra")
    waits = threading.Event()

    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "waiting" in record.getMessage():
                waits.set()

    held: list[bool] = []

    def wait() -> None:
        with open_build(store, "clean", "tried") as build:
            assert build is not None
            held.append(is_being_built(Path(store.absolute(build.place.partial))))

    logger, teller = logging.getLogger("infra"), Teller()
    logger.addHandler(teller)
    other = threading.Thread(target=wait)
    try:
        with open_build(store, "clean", "tried") as build:
            assert build is not None
            other.start()
            assert waits.wait(60) and not held
            shutil.rmtree(store.absolute(build.place.partial))
        other.join(60)
    finally:
        logger.removeHandler(teller)
    assert held == [True]


@pytest.mark.parametrize(
    "goes_on_at", ["its first row", "its part", "its record", "its scratch file", "a scratch folder"]
)
def test_a_worker_that_outlives_its_build_writes_nothing(goes_on_at: str, store: ArtifactStore) -> None:
    """A worker of a node that was cut off and is back, when others have done its work and the build is deleted."""
    with open_build(store, "clean", "tried") as build:
        assert build is not None
        scratch = build.scratch
    partial = Path(store.absolute(build.place.partial))

    def function(part: PartWriter) -> None:
        def end_build(moment: str) -> None:
            if goes_on_at == moment:
                assert discard_partial(partial)

        end_build("its first row")
        part.write("word_counts", [{"word": "头痛", "count": 1}])
        end_build("its part")
        part.finish()
        end_build("its record")
        for name in ("file", "folder/file"):
            with open_scratch(f"{scratch}/{name}") as file:
                end_build("its scratch file" if name == "file" else "a scratch folder")
                file.write(b"x")

    with pytest.raises(FileNotFoundError):
        run_unit(build.place, function, Unit(0, ()))
    assert list(partial.parent.iterdir()) == []
