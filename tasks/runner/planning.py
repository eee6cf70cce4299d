"""Plans: what a flow would do, found by calling it with a runner that looks its stages up instead of running them.

The flow's own code decides about stages, parameters and inputs, so a plan has the fingerprints of the run. An artifact
that is not there yet is stood for by a `Planned` one. Its fingerprint is known, because it follows from the stage, its
parameters and the fingerprints of its inputs. Its content is not: where a flow asks for that, the plan ends, and where
it makes a stage's input of its files, that stage and those after it have no fingerprint yet.

Time grows with the number of stages and with the manifests of their earlier artifacts, which are read; raw files are
hashed as in a run.
"""

from __future__ import annotations

import contextlib
import contextvars
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, cast

from pydantic import ValidationError

from infra.artifacts import Artifact, ArtifactStore, Manifest
from infra.builds import DISCARDED, BuildPlace
from infra.errors import DamagedArtifactError, UserError
from infra.stage import Stage, StageInput, StageParams, size_of
from tasks.runner.estimates import Estimate, estimated

PlannedState = Literal["reused", "resumed", "run", "unknown"]


class UnmadeError(Exception):
    """A plan was asked for the content of an artifact that is not there yet."""

    def __init__(self, artifact: Planned) -> None:
        super().__init__(f"{artifact.stage} is not there yet")
        self.stage = artifact.stage

    @property
    def undecided(self) -> Artifact:
        """An artifact for an input that the content would decide about: it has no fingerprint."""
        return cast("Artifact", Planned(self.stage, None, "", None))


class Planned:
    """Stands for an artifact that is not there yet: stage, fingerprint and path are those that it will have.

    Asking for anything else of it, or for a fingerprint that cannot be known yet, raises `UnmadeError`.
    """

    def __init__(self, stage: str, fingerprint: str | None, path: str, size: int | None) -> None:
        self.stage = stage
        self.bytes = size
        """Its estimated size."""
        self._fingerprint = fingerprint
        self._path = path

    @property
    def fingerprint(self) -> str:
        if self._fingerprint is None:
            raise UnmadeError(self)
        return self._fingerprint

    @property
    def path(self) -> str:
        if self._fingerprint is None:
            raise UnmadeError(self)
        return self._path

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnmadeError(self)


@dataclass(frozen=True)
class PlannedStage:
    """What a run would do about one stage."""

    stage: str
    fingerprint: str | None
    """None: not known before the inputs are there."""
    state: PlannedState
    why: str = ""
    """Why it is not reused, or has no fingerprint yet."""
    estimate: Estimate | None = None
    finished_parts: int = 0
    """Parts that an earlier, unfinished run has made."""


@dataclass
class Plan:
    """The stages of a flow, in the order of the run."""

    home: str = ""
    stages: list[PlannedStage] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    """Names of what a run would do outside its artifacts."""
    open_after: str = ""
    """Stage whose content decides how the flow continues; empty for a plan that reached the end."""
    _planned: dict[str, Planned] = field(default_factory=dict)

    def unmade_in(self, text: str) -> str:
        """Return the stage of an artifact that is not there yet and whose path a message names; "" for none."""
        return next((one.stage for address, one in self._planned.items() if address in text), "")


class PlanningRunner:
    """A `StageRunner` that runs nothing; made by `stage_runner` inside `planning`."""

    def __init__(self, store: ArtifactStore, plan: Plan) -> None:
        self.store = store
        self._plan = plan
        plan.home = store.root

    def __call__(self, stage: Stage[Any], params: StageParams, **inputs: StageInput) -> Artifact:
        """Look a stage's artifact up; returns it, or what stands for it."""
        unknown = [text for name, given in inputs.items() if (text := self._not_known(name, given))]
        if unknown:
            why = f"no fingerprint yet: it depends on {' and '.join(dict.fromkeys(unknown))}"
            sizes = self._size({})
            self._plan.stages.append(
                PlannedStage(stage.name, None, "unknown", why, self._estimate(stage, params, sizes))
            )
            return cast("Artifact", Planned(stage.name, None, "", None))
        fingerprint = stage.fingerprint(params, inputs)
        address = posixpath.join(stage.name, fingerprint)
        if address in self._plan._planned:
            return cast("Artifact", self._plan._planned[address])
        found = self.store.get(stage.name, fingerprint)
        if found is not None:
            if all(one.fingerprint != fingerprint for one in self._plan.stages):
                self._plan.stages.append(PlannedStage(stage.name, fingerprint, "reused"))
            return found
        estimate = self._estimate(stage, params, self._size(inputs))
        started, parts = self._begun(stage.name, fingerprint)
        why = _why(self.store, stage, params, inputs)
        state: PlannedState = "resumed" if started else "run"
        self._plan.stages.append(PlannedStage(stage.name, fingerprint, state, why, estimate, parts))
        planned = Planned(
            stage.name, fingerprint, self.store.absolute(address), None if estimate is None else estimate.bytes
        )
        self._plan._planned[address] = planned
        return cast("Artifact", planned)

    def nodes(self) -> None:
        """Return None: a plan asks no cluster."""

    @contextlib.contextmanager
    def checks(self) -> Iterator[None]:
        """Leave out checks of what is not there yet."""
        with contextlib.suppress(UnmadeError):
            yield

    def effect(self, function: Callable[..., object], *arguments: Any) -> None:
        """Do nothing, and remember what a run would do."""
        self._plan.effects.append(function.__name__)

    def _not_known(self, name: str, given: StageInput) -> str:
        """Return what an input depends on if it cannot be identified yet."""
        try:
            _ = given.fingerprint
        except UnmadeError as error:
            return f"what {error.stage} makes"
        except UserError as error:
            stage = self._plan.unmade_in(str(error))
            if not stage:
                raise
            return f"the files of {stage}"
        return ""

    def _size(self, inputs: Mapping[str, StageInput]) -> int | None:
        sizes = [size_of(given) for given in inputs.values()]
        return None if None in sizes or not sizes else sum(size for size in sizes if size is not None)

    def _estimate(self, stage: Stage[Any], params: StageParams, size: int | None) -> Estimate | None:
        return estimated(self.store, _manifests(self.store, stage.name), params.model_dump(mode="json"), size)

    def _begun(self, stage: str, fingerprint: str) -> tuple[bool, int]:
        """Return whether an earlier run has begun this work, and how many parts it has finished."""
        partial = self.store.absolute(BuildPlace(self.store.root, stage, fingerprint).partial)
        self.store.filesystem.invalidate_cache()
        if not self.store.filesystem.exists(partial):
            return False, 0
        try:
            records = self.store.filesystem.ls(posixpath.join(partial, "records"), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            records = []
        return True, sum(path.endswith(".json") for path in records)


def _manifests(store: ArtifactStore, stage: str) -> list[Manifest]:
    """Return the manifests of a stage's artifacts, the newest first; also of those whose content was deleted."""
    found = []
    for fingerprint in store.fingerprints(stage):
        with contextlib.suppress(DamagedArtifactError):  # the run reports it where it matters
            artifact = store.get(stage, fingerprint)
            found += [artifact.manifest] if artifact is not None else []
    try:
        kept = store.filesystem.ls(store.absolute(posixpath.join(DISCARDED, stage)), detail=False)
    except (FileNotFoundError, NotADirectoryError):
        kept = []
    for file in kept:
        with contextlib.suppress(ValidationError):
            found.append(Manifest.model_validate_json(store.filesystem.cat_file(file)))
    return sorted(found, key=lambda one: one.created_at, reverse=True)


def _why(store: ArtifactStore, stage: Stage[Any], params: StageParams, inputs: Mapping[str, StageInput]) -> str:
    """Return how this work differs from the most similar one of which there is an artifact."""
    own = params.model_dump(mode="json")
    differences = []
    for manifest in _manifests(store, stage.name):
        found = []
        if manifest.stage_version != stage.version:
            found.append(f"version {manifest.stage_version} → {stage.version}")
        found += _changes(manifest.params, own)
        had = {name: one.fingerprint for name, one in manifest.inputs.items()}
        have = {name: one.fingerprint for name, one in inputs.items()}
        found += [
            f"another input {name}"
            if name in had and name in have
            else f"{'a new' if name in have else 'no'} input {name}"
            for name in sorted({*had, *have})
            if had.get(name) != have.get(name)
        ]
        differences.append((len(found), manifest.fingerprint, found))
    if not differences:
        return "not run before"
    # The newest of the most similar ones: min keeps the first.
    _, nearest, found = min(differences, key=lambda one: one[0])
    if not found:
        return "its content was deleted"
    return f"unlike {nearest[:8]}: {', '.join(found[:3])}{', …' if len(found) > 3 else ''}"


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the parameters that differ with both values, as `training.steps: 2000 → 20000`."""
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _changes(before, after, f"{above}{name}.")
        elif before != after:
            yield f"{above}{name}: {_short(before)} → {_short(after)}"


def _short(value: object, most: int = 40) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}…"


_plan: contextvars.ContextVar[Plan | None] = contextvars.ContextVar("plan", default=None)


def current_plan() -> Plan | None:
    """Return the plan that is being made, if any."""
    return _plan.get()


def plan_of(call: Callable[[], object]) -> Plan:
    """Return the plan of a flow that `call` calls. Raises `UserError` as the run would before any work."""
    plan = Plan()
    token = _plan.set(plan)
    try:
        call()
    except UnmadeError as error:
        plan.open_after = error.stage
    except UserError as error:
        plan.open_after = plan.unmade_in(str(error))
        if not plan.open_after:
            raise
    finally:
        _plan.reset(token)
    return plan
