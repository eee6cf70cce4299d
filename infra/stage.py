"""The stage contract: a plain function `(inputs, params, out) -> None` with a name and a version.

    @stage(name="clean", version=1, params=CleanParams, tables=("documents", "rejects"))
    def clean(inputs, params, out):
        out.map(clean_part, inputs["documents"].parts(), params)

`run` gives the function its inputs and an `Output`, and turns what was written into an artifact. The same
work is never done twice: its address is the fingerprint of the stage's name and version, its parameters and
its inputs' fingerprints. Raise the version whenever the output of the same inputs changes.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from infra import builds
from infra.artifacts import Artifact, ArtifactStore, InputRecord, fingerprint_of
from infra.settings import REPOSITORY
from infra.usage import measure_usage

logger = logging.getLogger(__name__)

VERSION = "0.1.0"
"""Version of the project, as in pyproject.toml and CHANGELOG.md."""


class StageParams(BaseModel):
    """Parameters of a stage: part of its fingerprint. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StageInput(Protocol):
    """What a stage can be given: an artifact, or raw input that names itself by its content."""

    @property
    def stage(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...


P = TypeVar("P", bound=StageParams)
Unit = tuple[int, tuple[Any, ...]]


class Executor(Protocol):
    """Does units of work, in this process or in many; yields their records in any order."""

    in_process: bool

    def run(
        self, place: builds.BuildPlace, function: Callable[..., None], units: Sequence[Unit]
    ) -> Iterator[builds.WorkRecord]: ...


class SerialExecutor:
    """Does every unit in this process, one after the other."""

    in_process = True

    def run(
        self, place: builds.BuildPlace, function: Callable[..., None], units: Sequence[Unit]
    ) -> Iterator[builds.WorkRecord]:
        for index, arguments in units:
            yield builds.run_unit(place, index, function, arguments)


class ProgressListener(Protocol):
    """Told the stage's name, the units done, the units in all, and what else is worth showing."""

    def __call__(self, name: str, done: int, total: int, note: str = "") -> None: ...


def _silent(name: str, done: int, total: int, note: str = "") -> None:
    """Nobody is watching."""


@dataclass
class Output:
    """What a stage writes to. Units (parts) are numbered; what a killed run finished is not done again."""

    build: builds.ArtifactBuild
    executor: Executor
    on_progress: ProgressListener
    in_process_cpu_seconds: float = 0.0

    def map(self, function: Callable[..., None], items: Iterable[Any], *arguments: Any) -> None:
        """Call `function(part, item, *arguments)` for every item, item i writing part i of each table.

        Items may run in other processes: `function` is a module-level function and all arguments pickle.
        """
        units = [(index, (item, *arguments)) for index, item in enumerate(items)]
        open_units = [unit for unit in units if unit[0] not in self.build.records]
        done = len(units) - len(open_units)
        if done:
            logger.info("%s: %d of %d parts were finished by an earlier run", self._name, done, len(units))
            self.build.counters["resumed_parts"] += done
        self.on_progress(self._name, done, len(units))
        for record in self.executor.run(self.build.place, function, open_units):
            self._keep(record, self.executor.in_process)
            done += 1
            self.on_progress(self._name, done, len(units))

    @contextlib.contextmanager
    def part(self, index: int = 0) -> Iterator[builds.PartWriter]:
        """Write part `index` of the tables here and now; for stages that are one unit of work."""
        writer = builds.PartWriter(self.build.place, index)
        try:
            with measure_usage() as usage:
                yield writer
            self._keep(writer.commit(usage), in_process=True)
        finally:
            writer.discard()

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the manifest."""
        self.build.counters[name] += amount

    @property
    def _name(self) -> str:
        return self.build.place.stage

    def _keep(self, record: builds.WorkRecord, in_process: bool) -> None:
        self.build.records[record.index] = record
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

    def fingerprint(self, params: P, inputs: Mapping[str, StageInput]) -> str:
        """The address of this work below `<root>/<name>/`."""
        return fingerprint_of(
            self.name,
            self.version,
            params.model_dump(mode="json"),
            {name: given.fingerprint for name, given in inputs.items()},
        )


def stage(
    *, name: str, version: int, params: type[P], tables: tuple[str, ...] = ()
) -> Callable[[StageFunction[P]], Stage[P]]:
    """Declare a stage; `tables` are the names (from `infra.schemas`) it writes, the main one first."""

    def declare(function: StageFunction[P]) -> Stage[P]:
        return Stage(name=name, version=version, params=params, tables=tables, function=function)

    return declare


@dataclass(frozen=True)
class StageResult:
    """The artifact of a stage and whether it was there before."""

    artifact: Artifact
    reused: bool


def run(
    work: Stage[P],
    store: ArtifactStore,
    params: P,
    inputs: Mapping[str, StageInput],
    *,
    executor: Executor | None = None,
    on_progress: ProgressListener = _silent,
) -> StageResult:
    """Do a stage's work, or find it done. Safe to call again after a kill, and from several processes."""
    fingerprint = work.fingerprint(params, inputs)
    found = store.get(work.name, fingerprint)
    if found is not None:
        return StageResult(found, reused=True)
    with builds.open_build(store, work.name, fingerprint) as build:
        if build is None:
            artifact = store.get(work.name, fingerprint)
            assert artifact is not None
            return StageResult(artifact, reused=True)
        output = Output(build, executor or SerialExecutor(), on_progress)
        started = time.monotonic()
        with measure_usage() as usage:
            work.function(inputs, params, output)
        usage.cpu_seconds = max(0.0, usage.cpu_seconds - output.in_process_cpu_seconds)
        artifact = build.commit(
            stage_version=work.version,
            params=params.model_dump(mode="json"),
            inputs={
                name: InputRecord(stage=given.stage, fingerprint=given.fingerprint) for name, given in inputs.items()
            },
            tables=work.tables,
            code_version=code_version(),
            wall_seconds=time.monotonic() - started,
            usage=usage,
        )
        return StageResult(artifact, reused=False)


@functools.cache
def code_version() -> str:
    """The project's version, with the commit where it runs from a checkout."""
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return VERSION
    return f"{VERSION}+{commit}"
