"""Artifacts that a process uses beside its runs: what a session of Python, a service or a prediction has opened.

    <root>/.uses/<id>    address of an artifact (`stage/fingerprint`); locked by the process that uses it

A mark dies with its process, as a lock does. `gc` keeps what is marked, and what that comes from. On an object store,
which has no locks, there are no marks, and no `gc` either.
"""

from __future__ import annotations

import contextlib
import logging
import os
import posixpath
import secrets
from pathlib import Path

from infra.artifacts import MANIFEST, ArtifactStore
from infra.disk.locks import is_locked, locked_file
from infra.disk.private_files import private_files
from infra.runs import shared_lock

logger = logging.getLogger(__name__)

USES = ".uses"

_marks: dict[Path, contextlib.ExitStack] = {}
"""Folders of artifacts that this process has marked, with their locks."""
os.register_at_fork(after_in_child=_marks.clear)


@private_files()
def use(folder: str | os.PathLike[str]) -> None:
    """Keep the artifact that a folder is, or is in, from being collected until this process ends.

    A folder of no artifact gets no mark, nor one in a store that cannot be written. Waits while artifacts are deleted.
    """
    place = None if "://" in os.fspath(folder) else _artifact_of(Path(folder))
    if place is None or place in _marks:
        return
    store = ArtifactStore(place.parent.parent)
    held = contextlib.ExitStack()
    try:
        os.makedirs(store.absolute(USES), exist_ok=True)
        with shared_lock(store):
            address = posixpath.join(place.parent.name, place.name)
            held.enter_context(locked_file(store.absolute(USES), secrets.token_hex(8), address))
    except OSError as error:
        logger.debug("%s is not marked as used: %s", place, error)
        return
    _marks[place] = held


def used(store: ArtifactStore) -> set[str]:
    """Return the addresses of artifacts that living processes use, and delete the marks of dead ones."""
    found = set()
    folder = Path(store.absolute(USES))
    for mark in folder.iterdir() if folder.is_dir() else ():
        if mark.name.startswith("."):  # not written yet, or by a process that was killed meanwhile
            continue
        with contextlib.suppress(FileNotFoundError):
            if is_locked(str(mark)):
                found.add(mark.read_text(encoding="utf-8"))
            else:
                mark.unlink()
    return found


def _artifact_of(folder: Path) -> Path | None:
    """Return the folder of the artifact that a folder is, or is in; None if it is in none."""
    place = folder.expanduser().resolve()
    return next((one for one in (place, *place.parents[:2]) if (one / MANIFEST).is_file()), None)
