"""Records of runs: which flow ran in a store, when, how it ended, and which artifacts it made or reused.

    <root>/.runs/<time>-<id>/begun.json     what was asked for; its file is locked while the run goes on
    <root>/.runs/<time>-<id>/stages.jsonl   a line for each stage that ended
    <root>/.runs/<time>-<id>/ended.json     how it ended; written last
    <root>/.runs/lock                       held by all runs together, or by one that deletes artifacts alone

A record begins with the work: a mistake that is found before leaves none. Every run has a folder of its own, so that
runs do not wait for each other. Files appear whole, by a rename. The kernel drops the lock of a run that dies, however
that comes about: a record without an end whose lock is free is of a killed run. On an object store, which has neither
locks nor appends, stages are written with the end. A store that cannot be written keeps no record, and the run goes on.
"""

from __future__ import annotations

import contextlib
import contextvars
import fcntl
import logging
import os
import posixpath
import secrets
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from infra.artifacts import ArtifactStore
from infra.console.json_log import RUN_VARIABLE
from infra.disk.locks import close_lock, is_locked, locked_file, open_lock
from infra.disk.private_files import private_files
from infra.errors import UserError
from infra.version import VERSION

logger = logging.getLogger(__name__)

RUNS = ".runs"
BEGUN, STAGES, ENDED, LOCK = "begun.json", "stages.jsonl", "ended.json", "lock"

State = Literal["finished", "failed", "interrupted", "running", "killed", "unfinished"]
"""How a run ended. `unfinished` is a run without an end on an object store, which does not say if it still goes on."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Begun(_Record):
    """What was asked for."""

    flow: str
    given: list[str]
    """Parameters as the command line had them: KEY=VALUE."""
    began: str
    host: str
    process: int
    version: str


class UsedStage(_Record):
    """A stage of a run, and its artifact."""

    stage: str
    fingerprint: str
    reused: bool
    within: str = ""
    """`stage/fingerprint` of the stage that ran it as a part of its own work; empty for a stage of the flow."""

    @property
    def address(self) -> str:
        """Its artifact's location below the root."""
        return posixpath.join(self.stage, self.fingerprint)


class Ended(_Record):
    """How a run ended."""

    outcome: Literal["finished", "failed", "interrupted"]
    ended: str
    result: str = ""
    page: str = ""
    error: str = ""
    stages: list[UsedStage] | None = None
    """The stages, on an object store; elsewhere they have a file of their own."""


@dataclass(frozen=True)
class RunRecord:
    """A record, read."""

    name: str
    begun: Begun
    stages: Sequence[UsedStage]
    ended: Ended | None
    state: State


class Recorder:
    """Writes the record of one run; made by `recording`."""

    def __init__(self, flow: str, given: Sequence[str]) -> None:
        self.stages: list[UsedStage] = []
        self.failed_stage: tuple[str, str] | None = None
        """Stage and fingerprint of the innermost stage that raised."""
        self.result = ""
        """What the run returned, for `recorded`."""
        self.page = ""
        """Page of this run alone, if it wrote one beside those of its artifacts."""
        self.store: ArtifactStore | None = None
        """The store of the run; None until its work begins."""
        self.flow = flow
        self.given = list(given)
        self._folder = ""
        self._held = contextlib.ExitStack()

    @private_files()
    def begin(self, store: ArtifactStore) -> None:
        """Write that the run has begun; later calls change nothing."""
        if self.store is not None:
            return
        self.store = store
        now = datetime.now(UTC)
        begun = Begun(
            flow=self.flow,
            given=self.given,
            began=now.isoformat(timespec="seconds"),
            host=socket.gethostname(),
            process=os.getpid(),
            version=VERSION,
        )
        name = f"{now:%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(3)}"
        self._folder = posixpath.join(RUNS, name)
        self._held.enter_context(_named(name))
        try:
            if store.is_local:
                os.makedirs(store.absolute(self._folder), exist_ok=True)
                self._held.enter_context(shared_lock(store))
                self._held.enter_context(locked_file(store.absolute(self._folder), BEGUN, begun.model_dump_json()))
            else:
                store.filesystem.pipe_file(self._path(BEGUN), begun.model_dump_json().encode())
        except OSError as error:
            logger.debug("this run is not recorded: %s", error)
            self._folder = ""

    @private_files()
    def note(self, used: UsedStage) -> None:
        """Add a stage that ended."""
        self.stages.append(used)
        if self._folder and self.store is not None and self.store.is_local:
            with contextlib.suppress(OSError), open(self._path(STAGES), "a", encoding="utf-8") as file:
                file.write(used.model_dump_json() + "\n")

    @private_files()
    def end(self, ended: Ended) -> None:
        """Write how the run ended, if it is recorded."""
        if self._folder and self.store is not None:
            with contextlib.suppress(OSError):
                if self.store.is_local:
                    _write(self._path(ENDED), ended.model_dump_json())
                else:
                    whole = ended.model_copy(update={"stages": self.stages})
                    self.store.filesystem.pipe_file(self._path(ENDED), whole.model_dump_json().encode())

    def close(self) -> None:
        """Give the locks back."""
        self._held.close()

    def _path(self, name: str) -> str:
        assert self.store is not None
        return self.store.absolute(posixpath.join(self._folder, name))


_recorder: contextvars.ContextVar[Recorder | None] = contextvars.ContextVar("recorder", default=None)


@contextlib.contextmanager
def recording(flow: str, given: Sequence[str]) -> Iterator[Recorder]:
    """Record what stages do in this block, from the moment at which `begin_record` is called in it."""
    recorder = Recorder(flow, given)
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)
        recorder.close()


@contextlib.contextmanager
def recorded(flow: str, given: Sequence[str]) -> Iterator[Recorder]:
    """Record what stages do in this block and how it ends; inside a run that is recorded it is a part of that."""
    around = _recorder.get()
    if around is not None:
        yield around
        return
    with recording(flow, given) as recorder:
        try:
            yield recorder
        except BaseException as error:
            by_hand = isinstance(error, KeyboardInterrupt | SystemExit)
            why = "" if by_hand else f"{error}" or type(error).__name__
            recorder.end(Ended(outcome="interrupted" if by_hand else "failed", ended=now(), error=why))
            raise
        recorder.end(Ended(outcome="finished", ended=now(), result=recorder.result, page=recorder.page))


def now() -> str:
    """Return the time as records have it, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextlib.contextmanager
def _named(run: str) -> Iterator[None]:
    """Let the log lines of this process, and of those that it starts, name the run."""
    before = os.environ.get(RUN_VARIABLE)
    os.environ[RUN_VARIABLE] = run
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(RUN_VARIABLE, None)
        else:
            os.environ[RUN_VARIABLE] = before


def recorded_flow() -> str | None:
    """Return the flow of the current run, if this is one that is recorded."""
    recorder = _recorder.get()
    return None if recorder is None else recorder.flow


def begin_record(store: ArtifactStore) -> None:
    """Begin the record of the current run, if this is one that is recorded."""
    recorder = _recorder.get()
    if recorder is not None:
        recorder.begin(store)


def note_page(page: str) -> None:
    """Note the page of the current run alone, which is shown in place of that of its last artifact."""
    recorder = _recorder.get()
    if recorder is not None:
        recorder.page = page


def stages_begun() -> list[tuple[str, str]]:
    """Return stage and fingerprint of what the current run has made or reused, and of the stage that failed."""
    recorder = _recorder.get()
    if recorder is None:
        return []
    failed = [] if recorder.failed_stage is None else [recorder.failed_stage]
    return [*((one.stage, one.fingerprint) for one in recorder.stages), *failed]


@contextlib.contextmanager
def noted(stage: str, fingerprint: str, within: str) -> Iterator[list[bool]]:
    """Note the stage that runs in the block, whose caller puts into the list whether its artifact was reused."""
    recorder, reused = _recorder.get(), [False]
    try:
        yield reused
    except BaseException:
        if recorder is not None and recorder.failed_stage is None:
            recorder.failed_stage = (stage, fingerprint)
        raise
    if recorder is not None:
        recorder.note(UsedStage(stage=stage, fingerprint=fingerprint, reused=reused[0], within=within))


def read_runs(store: ArtifactStore, strict: bool = False) -> list[RunRecord]:
    """Return the records of a store, the oldest first. One that cannot be read is left out, with a warning.

    Raises:
        UserError: `strict`, and one cannot be read.
    """
    store.filesystem.invalidate_cache()
    try:
        listed = store.filesystem.ls(store.absolute(RUNS), detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    names = sorted(posixpath.basename(one["name"].rstrip("/")) for one in listed if one["type"] != "file")
    found = (_read(store, name, strict) for name in names)
    return [one for one in found if one is not None]


def _read(store: ArtifactStore, name: str, strict: bool) -> RunRecord | None:
    def text(file: str) -> bytes | None:
        try:
            data: bytes = store.filesystem.cat_file(store.absolute(posixpath.join(RUNS, name, file)))
            return data
        except (FileNotFoundError, NotADirectoryError):
            return None

    begun_text = text(BEGUN)
    if begun_text is None:
        return None  # it was killed before it began
    try:
        begun = Begun.model_validate_json(begun_text)
        ended_text, stages_text = text(ENDED), text(STAGES) or b""
        ended = None if ended_text is None else Ended.model_validate_json(ended_text)
        stages = _stages(stages_text)
    except ValidationError as error:
        if strict:
            folder = store.absolute(posixpath.join(RUNS, name))
            raise UserError(f"{folder} cannot be read, so what that run needs is unknown. Delete it first.") from error
        logger.warning("%s cannot be read and is left out: %s", store.absolute(posixpath.join(RUNS, name)), error)
        return None
    if ended is not None:
        return RunRecord(name, begun, ended.stages or stages, ended, ended.outcome)
    if not store.is_local:
        return RunRecord(name, begun, stages, None, "unfinished")
    alive = is_locked(store.absolute(posixpath.join(RUNS, name, BEGUN)))
    return RunRecord(name, begun, stages, None, "running" if alive else "killed")


def _stages(text: bytes) -> list[UsedStage]:
    found = []
    for line in text.splitlines():
        with contextlib.suppress(ValidationError):  # a kill cut the last line off
            found.append(UsedStage.model_validate_json(line))
    return found


@contextlib.contextmanager
def no_runs(store: ArtifactStore) -> Iterator[bool]:
    """Keep recorded runs from beginning during the block; yields False, and keeps none, if one is going on."""
    os.makedirs(store.absolute(RUNS), exist_ok=True)
    descriptor = open_lock(store.absolute(posixpath.join(RUNS, LOCK)))
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        close_lock(descriptor)


@contextlib.contextmanager
def shared_lock(store: ArtifactStore) -> Iterator[None]:
    """Keep artifacts from being deleted during the block; waits while that goes on."""
    os.makedirs(store.absolute(RUNS), exist_ok=True)
    descriptor = open_lock(store.absolute(posixpath.join(RUNS, LOCK)))
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.warning("Artifacts are being deleted from %s; this process waits until that is done.", store.root)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        close_lock(descriptor)


def _write(path: str, text: str) -> None:
    """Write a file that appears whole."""
    folder, name = posixpath.split(path)
    unfinished = posixpath.join(folder, f".{name}")
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(unfinished, path)
