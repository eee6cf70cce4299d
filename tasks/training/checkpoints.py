"""Checkpoints of a training run: plain folders that can be read without Ray and without this project's flows.

    <storage>/checkpoints/step-000000400/state.pt           read by `models.training.loop.load_state`
    <storage>/checkpoints/step-000000400/checkpoint.json    step, held-out figures, size and hash; written last

A finished run, a `train` artifact, has its last checkpoint beside its curves instead. A folder without
`checkpoint.json`, or whose state does not match it, is not a checkpoint. So a kill at any moment leaves the earlier
checkpoints intact. Ray's own bookkeeping is not used: it binds a run to one version of Ray, keeps checkpoints by number
or by score but not by both, and cannot skip a damaged one.

Time and memory grow with the model: one snapshot is written at a time.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import posixpath
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from pydantic import BaseModel, ConfigDict, ValidationError

from infra.artifacts import make_folder
from infra.builds import measure, sync
from infra.errors import StorageFullError, UserError
from models.training.config import CHECKPOINT_FILE

logger = logging.getLogger(__name__)

FOLDER = "checkpoints"
RECORD_FILE = "checkpoint.json"
_STEP_FOLDER = re.compile(r"step-\d{9,}")  # step-000000400, not step-400
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class CheckpointRecord(BaseModel):
    """Content of `checkpoint.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    run: str
    """Name of the run: the fingerprint of its work."""
    step: int
    figures: dict[str, float]
    """The newest figures on held-out text; empty before the first evaluation."""
    share: float | None = None
    """Share of the run that was done; None in records of earlier versions."""
    bytes: int
    sha256: str
    """Size and SHA-256 of `state.pt`."""


class Checkpoints:
    """Checkpoints of one run in its storage, a local folder or a URI that fsspec opens."""

    def __init__(self, storage: str, run: str) -> None:
        self._filesystem, path = fsspec.core.url_to_fs(storage)
        self._root = path
        self._base = posixpath.join(path, FOLDER)
        self._run = run
        self._is_local = isinstance(self._filesystem, LocalFileSystem)

    def write(
        self, step: int, state: Mapping[str, Any], figures: Mapping[str, float], share: float | None = None
    ) -> None:
        """Write a checkpoint atomically; it replaces one of the same step. `share` of the run is done at it.

        Raises:
            StorageFullError: no room is left. The earlier checkpoints are intact.
        """
        from models.training.checkpoint import save_state  # imports torch, which a reused run need not wait for

        folder = self._staging_folder()
        try:
            with self._explained(step, folder):
                save_state(state, folder)
                record = _record(self._run, step, figures, share, folder / CHECKPOINT_FILE)
                (folder / RECORD_FILE).write_text(record.model_dump_json(indent=1), encoding="utf-8")
                self._publish(folder, self._path(step))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def records(self) -> list[CheckpointRecord]:
        """Return the records of all checkpoints, by step, without reading their states."""
        folders = [*self._step_folders(), self._root]
        return [record for record in map(self._read_record, folders) if record is not None]

    def load(self, record: CheckpointRecord) -> dict[str, Any]:
        """Return the state of a checkpoint after checking it against its record.

        Raises:
            UserError: the state is missing, damaged, or of another format; the message names the file.
        """
        from models.training.checkpoint import load_state

        place = posixpath.join(self._folder(record.step), CHECKPOINT_FILE)
        with self._local_copy(place) as folder:
            _check(folder / CHECKPOINT_FILE, record, place)
            try:
                return load_state(folder)
            except ValueError as error:
                raise UserError(str(error)) from error

    def copy(self, record: CheckpointRecord, folder: Path) -> None:
        """Copy a checkpoint into a local folder, which is created. Raises `UserError` as `load` does."""
        folder.mkdir(parents=True, exist_ok=True)
        place = self._folder(record.step)
        for name in (CHECKPOINT_FILE, RECORD_FILE):
            self._filesystem.get_file(posixpath.join(place, name), str(folder / name))
        _check(folder / CHECKPOINT_FILE, record, posixpath.join(place, CHECKPOINT_FILE))

    def newest(self) -> tuple[CheckpointRecord, dict[str, Any]] | None:
        """Return the newest readable checkpoint; damaged ones are logged and skipped."""
        for record in reversed(self.records()):
            try:
                return record, self.load(record)
            except UserError as error:
                logger.warning("%s Trying the checkpoint before it.", error)
        return None

    def at(self, step: int | None = None) -> CheckpointRecord:
        """Return the record of a step, by default of the newest.

        Raises:
            UserError: there is no such checkpoint; the message lists the steps that have one.
        """
        records = {record.step: record for record in self.records()}
        wanted = max(records, default=None) if step is None else step
        if wanted not in records:
            there = ", ".join(map(str, records)) or "none"
            missing = "no checkpoint" if step is None else f"no checkpoint of step {step}"
            raise UserError(f"{self._base} has {missing}. Steps with a checkpoint: {there}.")
        return records[wanted]

    def best(self, count: int, by: str | None) -> list[CheckpointRecord]:
        """Return the `count` best checkpoints by a held-out figure, best first (`score_of` defines better)."""
        scored = [record for record in self.records() if record.figures]
        return sorted(scored, key=lambda record: (score_of(record.figures, by), -record.step))[:count]

    def milestones(self, shares: Sequence[float]) -> dict[float, CheckpointRecord]:
        """Return the first checkpoint at or after each share of the run, as far as there are such checkpoints."""
        records = [record for record in self.records() if record.share is not None]
        found = {share: [one for one in records if one.share is not None and one.share >= share] for share in shares}
        return {share: some[0] for share, some in found.items() if some}

    def prune(self, newest: int, best: int, by: str | None, milestones: Sequence[float] = ()) -> None:
        """Delete all checkpoints but the newest, the best and those of the milestones."""
        records = self.records()
        # A checkpoint may be both: keep_checkpoints=2 and keep_best=1 keep two or three.
        kept = {record.step for record in records[-newest:]} | {record.step for record in self.best(best, by)}
        kept |= {record.step for record in self.milestones(milestones).values()}
        for record in records:
            if record.step not in kept:
                self._remove(self._path(record.step))

    def sweep(self) -> None:
        """Delete what killed runs left half-written or half-deleted; nobody else may be writing."""
        if self._is_local:
            for folder in Path(self._base).glob(".writing-*"):
                shutil.rmtree(folder, ignore_errors=True)
        for place in self._step_folders():
            try:  # not `exists`, which also returns False when the store cannot be reached
                self._filesystem.info(posixpath.join(place, RECORD_FILE))
            except NotADirectoryError:
                continue  # a file that a user put here
            except FileNotFoundError:
                self._remove(place)

    def path(self, step: int) -> str:
        """Return the local path or the URI of a step's checkpoint."""
        path = self._folder(step)
        return path if self._is_local else self._filesystem.unstrip_protocol(path)

    def _step_folders(self) -> list[str]:
        """Return all folders named as a step, by step, half-written ones included."""
        self._filesystem.invalidate_cache()
        try:
            names = self._filesystem.ls(self._base, detail=False)
        except FileNotFoundError:
            return []
        folders = (name.rstrip("/") for name in names)
        return sorted(folder for folder in folders if _STEP_FOLDER.fullmatch(posixpath.basename(folder)))

    def _path(self, step: int) -> str:
        return posixpath.join(self._root, step_folder(step))

    def _folder(self, step: int) -> str:
        """Return the folder of an existing checkpoint; in a finished run that is the root."""
        path = self._path(step)
        return path if self._filesystem.exists(posixpath.join(path, RECORD_FILE)) else self._root

    def _read_record(self, folder: str) -> CheckpointRecord | None:
        try:
            text = self._filesystem.cat_file(posixpath.join(folder, RECORD_FILE))
            record = CheckpointRecord.model_validate_json(text)
        except (FileNotFoundError, NotADirectoryError):
            return None  # half-written, or half-deleted
        except ValidationError:
            logger.warning("Skipping %s: its %s is damaged.", folder, RECORD_FILE)
            return None
        if record.run != self._run:
            logger.warning("Skipping %s: it belongs to another run, %s.", folder, record.run)
            return None
        return record

    def _staging_folder(self) -> Path:
        """Create a folder to write in. Local ones are on the checkpoints' disk, so that publishing is a rename."""
        if not self._is_local:
            return Path(tempfile.mkdtemp(prefix="yiwen-checkpoint-"))
        folder = Path(self._base, f".writing-{uuid.uuid4().hex}")
        folder.mkdir(parents=True)
        return folder

    def _publish(self, folder: Path, target: str) -> None:
        self._remove(target)
        if self._is_local:
            for file in (folder / CHECKPOINT_FILE, folder / RECORD_FILE, folder):
                sync(file)
            os.rename(folder, target)
            sync(Path(self._base))
            return
        for name in (CHECKPOINT_FILE, RECORD_FILE):  # the record last: it is the commit
            make_folder(self._filesystem, target)
            self._filesystem.put_file(str(folder / name), posixpath.join(target, name))

    def _remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._filesystem.rm_file(posixpath.join(path, RECORD_FILE))  # no longer a checkpoint from here on
        with contextlib.suppress(FileNotFoundError):
            self._filesystem.rm(path, recursive=True)

    @contextlib.contextmanager
    def _local_copy(self, place: str) -> Iterator[Path]:
        """Give the local folder of a file, which is downloaded if it is not local."""
        if not self._filesystem.exists(place):
            raise UserError(f"{place} is missing.")
        if self._is_local:
            yield Path(place).parent
            return
        with tempfile.TemporaryDirectory(prefix="yiwen-checkpoint-") as name:
            self._filesystem.get_file(place, str(Path(name, posixpath.basename(place))))
            yield Path(name)

    @contextlib.contextmanager
    def _explained(self, step: int, folder: Path) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:  # torch reports a failed write as a RuntimeError
            free = shutil.disk_usage(folder).free
            if isinstance(error, OSError) and error.errno not in NO_ROOM:
                raise
            raise StorageFullError(
                f"The checkpoint of step {step} could not be written in {self._base} ({_first_line(error)}; "
                f"{free:,} bytes are free). Free some space or raise the limit, then run again to resume. The earlier "
                f"checkpoints are intact ({', '.join(str(record.step) for record in self.records()) or 'none yet'})."
            ) from error


def step_folder(step: int) -> str:
    """Return the folder of a step's checkpoint within its run."""
    return f"{FOLDER}/step-{step:09d}"


def score_of(figures: Mapping[str, float], by: str | None) -> float:
    """Return the score of held-out figures, lower is better: the figure `by`, or the objective's loss if it is None.

    Figures whose names end in `loss` are better when lower, all others when higher. NaN is worst.

    Raises:
        UserError: there is no such figure.
    """
    if by is None:
        # Checkpoints of earlier versions hold the terms without the loss that weighs them.
        terms = (value for name, value in figures.items() if name.endswith("loss"))
        value = figures["loss"] if "loss" in figures else sum(terms)
    elif by not in figures:
        raise UserError(f"cluster.best_by={by!r} is not a held-out figure. Choose from {', '.join(sorted(figures))}.")
    else:
        value = figures[by] if by.endswith("loss") else -figures[by]
    return value if value == value else float("inf")


def _record(run: str, step: int, figures: Mapping[str, float], share: float | None, file: Path) -> CheckpointRecord:
    size, digest = measure(file)
    return CheckpointRecord(run=run, step=step, figures=dict(figures), share=share, bytes=size, sha256=digest)


def _check(file: Path, record: CheckpointRecord, place: str) -> None:
    if measure(file) != (record.bytes, record.sha256):
        raise UserError(f"{place} is damaged: it is no longer the file of {record.bytes:,} bytes that was written.")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
