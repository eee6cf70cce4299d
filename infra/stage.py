"""The stage contract: a plain function `(inputs, params, out) -> None` with a name and a version.

    @stage(name="clean", version=1, params=CleanParams, tables=("documents", "rejects"))
    def clean(inputs, params, out):
        out.map(clean_part, inputs["documents"].parts(), params)

`run` calls the function with its inputs and an `Output`, and turns what was written into an artifact. Work is never
repeated: its address is the fingerprint of the stage's name and version, its parameters and the fingerprints of its
inputs. Raise the version whenever the output of the same inputs changes.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, field_serializer

from infra import builds, schemas
from infra.artifacts import Artifact, ArtifactStore, InputRecord, fingerprint_of, store_explained
from infra.console.json_log import logged_as
from infra.disk.private_files import private_files
from infra.memo import Memo, WorkKeys
from infra.runs import noted
from infra.settings import REPOSITORY
from infra.usage import measure_usage
from infra.version import VERSION

logger = logging.getLogger(__name__)


class StageParams(BaseModel):
    """Parameters of a stage: part of its fingerprint. Unknown keys are errors."""

    # By default pydantic writes NaN and infinity as null: three values would share a fingerprint.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")

    @field_serializer("*", mode="wrap", when_used="json")
    def _ordered(self, value: Any, write: SerializerFunctionWrapHandler) -> Any:
        """Write sets in sorted order: their own order differs between processes, and the fingerprint must not."""
        return sorted(write(value)) if isinstance(value, set | frozenset) else write(value)


class StageInput(Protocol):
    """An input of a stage: an artifact, or raw files identified by their content."""

    @property
    def stage(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...


P = TypeVar("P", bound=StageParams)


def size_of(given: StageInput) -> int | None:
    """Return the bytes of an input; None for one that does not say them."""
    if isinstance(given, Artifact):
        return given.manifest.bytes
    size = getattr(given, "bytes", None)
    return size if isinstance(size, int) else None


class Executor(Protocol):
    """Does units of work, in this process or in several; yields their records in any order."""

    in_process: bool

    def run(
        self, place: builds.BuildPlace, function: Callable[..., None], units: Sequence[builds.Unit]
    ) -> Iterator[builds.WorkRecord]: ...


class SerialExecutor:
    """Does every unit in this process, one after the other."""

    in_process = True

    def run(
        self, place: builds.BuildPlace, function: Callable[..., None], units: Sequence[builds.Unit]
    ) -> Iterator[builds.WorkRecord]:
        for unit in units:
            yield builds.run_unit(place, function, unit)


class ProgressListener(Protocol):
    """Receives the stage's name, the number of units done and in all, and a note such as the current loss."""

    def __call__(self, name: str, done: int, total: int, note: str = "") -> None: ...


def _silent(name: str, done: int, total: int, note: str = "") -> None:
    """Ignore progress."""


@dataclass
class Output:
    """Everything a stage writes to, and its only way to the store and the workers.

    Tables are written in parts, by `map` (one part per item, possibly in other processes) or by `part` (here and now).
    Units of work are numbered in the order in which the stage asks for them. Units that a killed run finished are not
    computed again, nor those whose work an earlier artifact has done. Files are put beside the tables with `add_file`,
    `add_bytes` and `add_folder`.
    """

    _build: builds.ArtifactBuild
    _work: Stage[Any]
    _params: StageParams
    _executor: Executor
    on_progress: ProgressListener
    """Where a stage that does not use `map` reports its progress."""
    resumed_parts: int = 0
    taken_over_parts: int = 0
    in_process_cpu_seconds: float = 0.0
    elsewhere_cpu_seconds: float = 0.0
    _units: int = 0
    _prepared: int = 0

    @property
    def store(self) -> ArtifactStore:
        """The store that this artifact goes to."""
        return self._build.store

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the artifact being built: the same in every run that does this work."""
        return self._build.place.fingerprint

    @property
    def scratch(self) -> str:
        """Folder or URI for state that survives a killed run; deleted once the artifact is finished."""
        return self._build.scratch

    def map(self, function: Callable[..., None], items: Iterable[Any], *arguments: Any) -> None:
        """Call `function(part, item, *arguments)` for every item; each item writes a part of its own.

        Items may run in other processes: `function` must be a module-level function, and all arguments must pickle.
        """
        self._do(function, items, arguments, self._number)

    def prepare(self, function: Callable[..., None], items: Iterable[Any], *arguments: Any) -> None:
        """Call `function(part, item, *arguments)` for items that write to `scratch` and to no table.

        As `map`, but these units take no numbers of parts: into how many steps and units the preparation is cut does
        not show in the names of the tables' parts.
        """
        self._do(function, items, arguments, self._number_prepared)

    def _do(
        self,
        function: Callable[..., None],
        items: Iterable[Any],
        arguments: tuple[Any, ...],
        number: Callable[[], int],
    ) -> None:
        names = WorkKeys(self._work.name, self._work.version, self._params, function, arguments)
        units = [builds.Unit(number(), (item, *arguments), names.of(item)) for item in items]
        open_units = self._known_to_memo(self._resumed(units))
        done = len(units) - len(open_units)
        self.on_progress(self._name, done, len(units))
        for record in self._executor.run(self._build.place, function, open_units):
            self._keep(record, self._executor.in_process)
            done += 1
            self.on_progress(self._name, done, len(units))
        lost = [unit.index for unit in units if unit.index not in self._build.records]
        if lost:
            raise RuntimeError(f"{self._name}: the executor gave no result for parts {lost}")

    @contextlib.contextmanager
    def part(self) -> Iterator[builds.PartWriter]:
        """Write the next part of the tables here and now; for stages that are one unit of work."""
        writer = builds.PartWriter(self._build.place, self._number())
        try:
            with measure_usage() as usage:
                yield writer
                writer.finish()
            self._keep(writer.commit(usage), in_process=True)
        finally:
            writer.discard()

    def add_file(self, name: str, source: Path) -> None:
        """Copy a finished local file into the artifact, beside the tables; `name` may contain slashes.

        Raises:
            ValueError: the name is `manifest.json`, absolute, or has empty, `.` or `..` steps.
        """
        self._build.add_file(name, source)

    def add_bytes(self, name: str, data: bytes) -> None:
        """Write a small file into the artifact, beside the tables. Raises as `add_file` does."""
        with tempfile.TemporaryDirectory(prefix="yiwen-") as folder:
            file = Path(folder, "file")
            file.write_bytes(data)
            self.add_file(name, file)

    def add_folder(self, folder: Path) -> None:
        """Copy every file below a local folder into the artifact, under its relative name."""
        self._build.add_folder(folder)

    def run(
        self,
        stage: Stage[P],
        params: P,
        inputs: Mapping[str, StageInput],
        *,
        on_progress: ProgressListener | None = None,
    ) -> Artifact:
        """Run another stage inside this one, or find its artifact; for steps worth an artifact of their own.

        The inner stage has its own address in the same store, so a killed or changed outer stage finds it finished, as
        `deduplicate` finds its sketches. It uses the same workers. Its cost is in its own manifest and not in that of
        the outer stage. Whatever decides about its inputs must be among the outer stage's parameters and inputs,
        because the outer fingerprint covers only those. Call it in the stage function, never in a function that is
        given to `map`.

        Args:
            on_progress: Receives the inner stage's progress, if not whoever listens to this stage.

        Raises:
            DamagedArtifactError, StorageFullError, UserError: as the function `run` does.
        """
        listener = on_progress or self.on_progress
        return run(stage, self.store, params, inputs, executor=self._executor, on_progress=listener).artifact

    def earlier(self, inputs: Mapping[str, StageInput], but: Collection[str]) -> Artifact | None:
        """Return the newest finished artifact of this work that differs at most in the inputs named in `but`.

        Stage, version, parameters and the other inputs are the same. Its contents may save work. The result of the
        stage must not depend on it: it may be missing, and reading it may raise DamagedArtifactError.
        """
        wanted = {name: None if name in but else given.fingerprint for name, given in inputs.items()}
        return self._memo.newest(self._work.version, self._params.model_dump(mode="json"), wanted)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the manifest."""
        self._build.counters[name] += amount

    def add_cpu_seconds(self, seconds: float) -> None:
        """Add what processes that neither `map` nor this process did spent on the work, such as a training's."""
        self.elsewhere_cpu_seconds += seconds

    def rows(self, table: str) -> int:
        """Number of rows of a table that are finished so far."""
        return sum(part.rows for record in self._build.records.values() for part in record.parts.get(table, []))

    def counters(self) -> Counter[str]:
        """Counters of the stage and of its finished units so far."""
        return self._build.total_counters()

    def log_resumption(self, place: str) -> None:
        """Log where a stage that does not use `map` resumes the work of a killed run, such as "after step 500"."""
        logger.info("%s: resumes %s", self._name, place)

    @property
    def _name(self) -> str:
        return self._work.name

    def _number(self) -> int:
        self._units += 1
        return self._units - 1

    def _number_prepared(self) -> int:
        self._prepared += 1
        return builds.PREPARED + self._prepared - 1

    def _resumed(self, units: Sequence[builds.Unit]) -> list[builds.Unit]:
        """Keep those of the units that a killed run finished; returns the others."""
        open_units = []
        for unit in units:
            record = self._build.finished.get(unit.index)
            # Numbers alone do not identify work: a stage may take another path this time, for instance because an
            # earlier artifact has appeared or was deleted, and then unit 3 is no longer what it was.
            if record is None or record.key != unit.key:
                open_units.append(unit)
            else:
                self._keep(record, in_process=False)
        resumed = len(units) - len(open_units)
        if resumed:
            logger.info("%s: %d of %d parts were finished by an earlier run", self._name, resumed, len(units))
        self.resumed_parts += resumed
        return open_units

    def _known_to_memo(self, units: Sequence[builds.Unit]) -> list[builds.Unit]:
        """Reuse the parts that earlier artifacts hold for these units; returns the other units."""
        open_units = []
        for unit in units:
            known = self._memo.find(unit.key)
            record = self._build.reuse(unit.index, *known) if known is not None else None
            if record is None:
                open_units.append(unit)
            else:
                self._keep(record, in_process=False)
        reused = len(units) - len(open_units)
        if reused:
            logger.info("%s: reused %d of %d parts of earlier artifacts", self._name, reused, len(units))
        self.taken_over_parts += reused
        return open_units

    @functools.cached_property
    def _memo(self) -> Memo:
        return Memo(self.store, self._name)

    def _keep(self, record: builds.WorkRecord, in_process: bool) -> None:
        undeclared = sorted(record.parts.keys() - set(self._work.tables))
        if undeclared:
            raise ValueError(f"stage {self._name} writes {undeclared}: add them to its tables={self._work.tables}")
        self._build.records[record.index] = record
        if in_process:
            self.in_process_cpu_seconds += record.cpu_seconds


StageFunction = Callable[[Mapping[str, Any], P, Output], None]


@dataclass(frozen=True)
class Stage(Generic[P]):
    """A named, versioned stage; made by the decorator `stage`."""

    name: str
    version: int
    params: type[P]
    tables: tuple[str, ...]
    function: StageFunction[P] = field(repr=False)
    unit: str | Callable[[P], str] = "part"
    """Name of what its progress counts, or the function that has it from the parameters."""
    heavy: bool = False
    """Its work grows with a corpus or a model: where RAY_ADDRESS takes jobs, it is one."""

    def unit_of(self, params: P) -> str:
        """Return the name of what the progress of such work counts."""
        return self.unit if isinstance(self.unit, str) else self.unit(params)

    def fingerprint(self, params: P, inputs: Mapping[str, StageInput]) -> str:
        """Return the address of this work below `<root>/<name>/`."""
        return fingerprint_of(
            self.name,
            self.version,
            params.model_dump(mode="json"),
            {name: given.fingerprint for name, given in inputs.items()},
        )


def stage(
    *,
    name: str,
    version: int,
    params: type[P],
    tables: tuple[str, ...] = (),
    unit: str | Callable[[P], str] = "part",
    heavy: bool = False,
) -> Callable[[StageFunction[P]], Stage[P]]:
    """Declare a stage.

    Args:
        tables: names (from `infra.schemas`) of the tables that it writes, the main one first.
        unit: name of what its progress counts, or a function that has it from the parameters.
        heavy: its work grows with a corpus or a model, so that it runs as a job where RAY_ADDRESS takes jobs.

    Raises:
        ValueError: the name cannot be a folder, or a table has no schema.
    """
    if not re.fullmatch(r"\w[\w.-]*", name):  # "phrase_votes"; not ".votes", not "phrase votes"
        raise ValueError(f"{name!r} cannot be the name of a stage: letters, digits, _ - . only")
    unknown = [table for table in tables if table not in schemas.TABLES]
    if unknown:
        raise ValueError(f"stage {name}: infra/schemas.py has no tables {unknown}")

    def declare(function: StageFunction[P]) -> Stage[P]:
        return Stage(
            name=name, version=version, params=params, tables=tables, unit=unit, heavy=heavy, function=function
        )

    return declare


@dataclass(frozen=True)
class StageResult:
    """The artifact of a stage, and whether it already existed."""

    artifact: Artifact
    reused: bool


@private_files()
def run(
    work: Stage[P],
    store: ArtifactStore,
    params: P,
    inputs: Mapping[str, StageInput],
    *,
    executor: Executor | None = None,
    on_progress: ProgressListener = _silent,
) -> StageResult:
    """Do a stage's work, or find its artifact. Safe to call again after a kill, and from several processes.

    What it writes is readable by this user only.

    Raises:
        DamagedArtifactError: the artifact exists, but its manifest is damaged.
        StorageFullError: no space is left; finished parts are kept for the next call.
        StoreLostError: the object store does not answer; finished parts are kept for the next call.
        UserError: the root cannot be written, or a parameter cannot be stored as JSON.
    """
    fingerprint = work.fingerprint(params, inputs)
    around = _running.get()
    address = "" if around is None else around.address
    with logged_as(stage=work.name), noted(work.name, fingerprint, address) as reused, store_explained(store.root):
        try:
            result = _run(work, fingerprint, store, params, inputs, executor or SerialExecutor(), on_progress)
        except Exception as error:
            found = _finished_meanwhile(work, store, fingerprint)
            if found is None:
                raise
            logger.warning("another run has finished %s while this one failed: %r", found.path, error)
            result = _reused(found)
        reused[0] = result.reused
    return result


def _finished_meanwhile(work: Stage[P], store: ArtifactStore, fingerprint: str) -> Artifact | None:
    """Return the artifact if another run has made it.

    Object stores have no locks: a run that finishes first clears away what another one of the same address still reads.
    """
    with contextlib.suppress(Exception):  # a store that is lost says so by the first error
        return store.get(work.name, fingerprint)
    return None


def _run(
    work: Stage[P],
    fingerprint: str,
    store: ArtifactStore,
    params: P,
    inputs: Mapping[str, StageInput],
    executor: Executor,
    on_progress: ProgressListener,
) -> StageResult:
    found = store.get(work.name, fingerprint)
    if found is not None:
        builds.sweep(store, work.name, fingerprint)
        return _reused(found)
    with builds.open_build(store, work.name, fingerprint) as build:
        if build is None:
            found = store.get(work.name, fingerprint)
            assert found is not None, "open_build has just found it"
            return _reused(found)
        output = Output(build, work, params, executor, on_progress)
        started = time.monotonic()
        with _apart_from_inner_stages(f"{work.name}/{fingerprint}") as cost:
            with measure_usage() as usage, builds.temporary_files_explained():
                work.function(inputs, params, output)
            cost.seconds = usage.cpu_seconds
        own = max(0.0, cost.seconds - output.in_process_cpu_seconds - cost.of_inner_stages)
        usage.cpu_seconds = own + output.elsewhere_cpu_seconds
        artifact = build.commit(
            stage_version=work.version,
            params=params.model_dump(mode="json"),
            inputs={
                name: InputRecord(
                    stage=given.stage,
                    fingerprint=given.fingerprint,
                    origin=getattr(given, "origin", None),
                    bytes=size_of(given),
                )
                for name, given in inputs.items()
            },
            tables=work.tables,
            code_version=code_version(),
            wall_seconds=time.monotonic() - started,
            resumed_parts=output.resumed_parts,
            taken_over_parts=output.taken_over_parts,
            usage=usage,
        )
        return StageResult(artifact, reused=False)


@dataclass
class _InnerCost:
    """CPU seconds of this process in a stage, and in the stages that it runs, whose own manifests include them."""

    address: str
    """`stage/fingerprint` of the stage."""
    seconds: float = 0.0
    of_inner_stages: float = 0.0


_running: contextvars.ContextVar[_InnerCost | None] = contextvars.ContextVar("running", default=None)


@contextlib.contextmanager
def _apart_from_inner_stages(address: str) -> Iterator[_InnerCost]:
    # Stages nest: each adds its own seconds to the stage around it, which subtracts them.
    cost, outer = _InnerCost(address), _running.get()
    token = _running.set(cost)
    try:
        yield cost
    finally:
        _running.reset(token)
        if outer is not None:
            outer.of_inner_stages += cost.seconds


def _reused(artifact: Artifact) -> StageResult:
    logger.debug("%s: reused %s", artifact.stage, artifact.path)
    return StageResult(artifact, reused=True)


@functools.cache
def code_version() -> str:
    """Return the project's version, with the commit if it runs from a checkout."""
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=REPOSITORY,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # this query must not block a commit made meanwhile
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return VERSION
    return f"{VERSION}+{commit}"
