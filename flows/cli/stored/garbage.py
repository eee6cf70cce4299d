"""What no kept run needs: artifacts of older runs, and folders of tries that were given up."""

from __future__ import annotations

import contextlib
import math
import posixpath
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.cli.stored.ancestry import Lineage
from infra.artifacts import Artifact, ArtifactStore, InputRecord
from infra.builds import is_being_built
from infra.errors import DamagedArtifactError
from infra.runs import RunRecord
from infra.uses import used

SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class Garbage:
    """What may be deleted, and what is kept only because nothing says whose it is."""

    artifacts: list[Artifact]
    partial: list[Path]
    """Folders of tries that were given up: `<stage>/.<fingerprint>.partial`."""
    of_no_run: list[Artifact]
    """Artifacts that no recorded run has used: made before runs were recorded, or by code that uses no flow."""
    in_use: list[Artifact]
    """Artifacts that living processes have opened: a session of Python, a service, a prediction."""
    kept_runs: list[RunRecord]


def find_garbage(
    store: ArtifactStore,
    runs: Sequence[RunRecord],
    keep: int,
    days: float,
    kept: Collection[str] = (),
    unrecorded: bool = False,
) -> Garbage:
    """Return what no kept run needs.

    Kept are, of every flow, the newest runs until `keep` of them had finished; so a run that failed since then is kept
    too. A run needs the artifacts that it used, those that their stages made for themselves, and all that they come
    from. Time grows with the number of manifests, memory with their size.

    Args:
        runs: records, the oldest first.
        days: age from which on an unfinished try counts as given up.
        kept: addresses (`stage/fingerprint`) to keep in any case, with what they come from.
        unrecorded: artifacts that no recorded run has used are not needed either.
    """
    artifacts = _readable(store)
    opened = used(store)
    needed = {*kept, *opened}
    kept_runs = _kept(runs, keep)
    recorded = {one.address for run in runs for one in run.stages}
    needed |= {one.address for run in kept_runs for one in run.stages}
    within: dict[str, set[str]] = {}
    for run in runs:
        for one in run.stages:
            within.setdefault(one.within, set()).add(one.address)
    # What no record names is kept, and then so is all that it comes from.
    of_no_run = [one for address, one in artifacts.items() if address not in recorded | needed and not unrecorded]
    closed = _closed(needed | {_address(one) for one in of_no_run}, artifacts, within, Lineage(store).models)
    return Garbage(
        artifacts=[one for address, one in artifacts.items() if address not in closed],
        partial=_given_up(store, days),
        of_no_run=of_no_run,
        kept_runs=kept_runs,
        in_use=[artifacts[one] for one in sorted(opened) if one in artifacts],
    )


def is_anything_built(store: ArtifactStore) -> bool:
    """Return whether a living process builds an artifact in this store."""
    return any(is_being_built(folder) for folder in _partial(store))


def _kept(runs: Sequence[RunRecord], keep: int) -> list[RunRecord]:
    finished: dict[str, int] = {}
    found = []
    for run in reversed(runs):
        if run.state in ("running", "unfinished") or finished.get(run.begun.flow, 0) < keep:
            found.append(run)
        if run.state == "finished":
            finished[run.begun.flow] = finished.get(run.begun.flow, 0) + 1
    return found


def _closed(
    needed: set[str],
    artifacts: Mapping[str, Artifact],
    within: Mapping[str, set[str]],
    models: Mapping[str, InputRecord],
) -> set[str]:
    """Return addresses with all that they come from and all that their stages made for themselves.

    Args:
        models: exported models by the fingerprint that their folders have as inputs.
    """
    closed: set[str] = set()
    waiting = [*needed]
    while waiting:
        address = waiting.pop()
        if address in closed:
            continue
        closed.add(address)
        waiting += within.get(address, ())
        if address in artifacts:
            given = [models.get(one.fingerprint, one) for one in artifacts[address].manifest.inputs.values()]
            waiting += [posixpath.join(one.stage, one.fingerprint) for one in given]
    return closed


def _readable(store: ArtifactStore) -> dict[str, Artifact]:
    """Return every finished artifact by its address; damaged ones are left to `verify`."""
    found = {}
    for stage in store.stages():
        for fingerprint in store.fingerprints(stage):
            with contextlib.suppress(DamagedArtifactError):
                artifact = store.get(stage, fingerprint)
                if artifact is not None and _is_own(store, artifact):
                    found[_address(artifact)] = artifact
    return found


def _is_own(store: ArtifactStore, artifact: Artifact) -> bool:
    """Return False for a link into another store, whose content is not ours to delete."""
    folder = Path(store.absolute(artifact.location)).resolve()
    return folder.is_relative_to(Path(store.base).resolve())


def _address(artifact: Artifact) -> str:
    return posixpath.join(artifact.stage, artifact.fingerprint)


def _partial(store: ArtifactStore) -> list[Path]:
    return sorted(Path(store.base).glob("*/.*.partial"))


def _given_up(store: ArtifactStore, days: float) -> list[Path]:
    """Return the folders of tries in which nothing was written for so many days, and that no living process has."""
    limit = time.time() - days * SECONDS_PER_DAY
    return [one for one in _partial(store) if not is_being_built(one) and _last_written(one) <= limit]


def _last_written(folder: Path) -> float:
    times = list[float]()
    for file in (folder, *folder.rglob("*")):
        with contextlib.suppress(OSError):  # finished or deleted meanwhile
            times.append(file.stat().st_mtime)
    return max(times, default=math.inf)


def size_of_folder(folder: Path) -> int:
    """Return the bytes of the files below a folder."""
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_size if file.is_file() and not file.is_symlink() else 0
    return total
