"""The description of a stage as a job: `run.json` in the artifact store, written by the flow and opened by the job.

    <root>/.jobs/<stage>/<fingerprint>/run.json        stage, parameters, inputs, version of the code
    <root>/.jobs/<stage>/<fingerprint>/progress.json   written by the job, about every second
    <root>/.jobs/<stage>/<fingerprint>/job.log         the job's output, copied by the flow (on a local root)

No secret is in it: keys and passwords are in the environment of the cluster's nodes.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import posixpath
import socket
from collections.abc import Mapping
from typing import Any, Self

import fsspec
from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

from infra.artifacts import Artifact, ArtifactStore, make_folder
from infra.builds import explained
from infra.errors import UserError
from infra.inputs import DescribedInput
from infra.place import FOLDER
from infra.stage import Stage, StageInput, StageParams, code_version

FOLDERS = ("flows", "tasks", "models", "kg", "infra")
CODE = frozenset({".py", ".toml", ".csv", ".tsv", ".txt", ".j2"})
"""Endings of the files that decide what a stage does: modules, and the tables and presets beside them."""
JOBS = ".jobs"
ARTIFACT = "artifact"


class CodeVersion(BaseModel):
    """Version of the code: what people call it, and a digest that tells any two apart, with or without Git."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    digest: str

    def __str__(self) -> str:
        return f"{self.name} (code {self.digest})"


@functools.cache
def own_code() -> CodeVersion:
    """Return the version of the code that this process runs: 12 hex digits over the names and contents of its files."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for file in sorted((FOLDER / folder).rglob("*")):
            if file.suffix in CODE and file.is_file():
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                digest.update(f"{file.relative_to(FOLDER).as_posix()}\0{content}\n".encode())
    return CodeVersion(name=code_version(), digest=digest.hexdigest()[:12])


class InputDescription(BaseModel):
    """An input: an artifact of the store by its address, or what another kind of input says about itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    """`artifact`, or the input's class as in `tasks.files.raw_input:RawInput`."""
    described: dict[str, Any]
    fingerprint: str

    @classmethod
    def of(cls, name: str, given: StageInput) -> Self:
        """Describe an input; raises TypeError for one that cannot be opened elsewhere."""
        if isinstance(given, Artifact):
            return cls(kind=ARTIFACT, described={"stage": given.stage}, fingerprint=given.fingerprint)
        if not isinstance(given, DescribedInput):
            raise TypeError(f"input {name}: {type(given).__qualname__} has to be an infra.inputs.DescribedInput")
        return cls(kind=_place_of(type(given)), described=given.describe(), fingerprint=given.fingerprint)

    def opened(self, name: str, store: ArtifactStore) -> StageInput:
        """Open the input on this machine.

        Raises:
            UserError: this machine does not see it, or sees another content under its name.
        """
        if self.kind == ARTIFACT:
            found = store.get(self.described["stage"], self.fingerprint)
            if found is None:
                raise _unseen(f"the artifact {self.described['stage']}/{self.fingerprint} in {store.root}")
            return found
        kind = _at(self.kind)
        if not (isinstance(kind, type) and issubclass(kind, DescribedInput)):
            raise UserError(f"{self.kind} in run.json is not an input of stages. Submit the job again.")
        try:
            # Inputs look for their files as soon as they are made, or when their fingerprint is asked for.
            given: Any = kind.reopen(self.described)
            own = given.fingerprint
        except UserError as error:
            raise UserError(
                f"On {socket.gethostname()}: {error} Inputs of a job have to be on a disk that all nodes see at the "
                "same path, or behind a URI."
            ) from error
        if own != self.fingerprint:
            raise UserError(
                f"The input {name!r} ({self.described}) has another content on {socket.gethostname()} than where the "
                "flow runs, or it has changed since. Put it on a disk that all nodes see at the same path, or give a "
                "URI, and run again."
            )
        opened: StageInput = given
        return opened


class StageRun(BaseModel):
    """One stage to run: everything that the job needs to know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    """The stage object, as in `tasks.clean.stage:clean`."""
    name: str
    """Its name, as in `clean`."""
    fingerprint: str
    """Address of the artifact to make."""
    store: str
    """Root of the artifact store, which all nodes see."""
    params: dict[str, Any]
    """Every parameter, those outside the fingerprint included."""
    inputs: dict[str, InputDescription]
    code: CodeVersion
    """Version of the code of the flow. The job's has to be the same."""

    @classmethod
    def of(
        cls, work: Stage[Any], store: ArtifactStore, params: StageParams, inputs: Mapping[str, StageInput]
    ) -> StageRun:
        """Describe a stage with its parameters and inputs."""
        return cls(
            stage=f"{work.function.__module__}:{work.function.__qualname__}",
            name=work.name,
            fingerprint=work.fingerprint(params, inputs),
            store=store.root,
            params=_plain(params),
            inputs={name: InputDescription.of(name, given) for name, given in inputs.items()},
            code=own_code(),
        )

    @classmethod
    def read(cls, place: str) -> StageRun:
        """Read a `run.json` from a path or URI.

        Raises:
            UserError: this machine has no such file.
        """
        try:
            with fsspec.open(place, "rb") as file:
                content = file.read()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _unseen(place) from error
        # A run of another version may have other fields: its version is looked at before them.
        found = json.loads(content)
        theirs, own = CodeVersion.model_validate(found["code"]), own_code()
        if theirs.digest != own.digest:
            raise UserError(
                f"The flow runs version {theirs} of the code, and {socket.gethostname()} has {own}. Results of two "
                "versions must not be mixed: update YIWEN_CLUSTER_CODE or the cluster's image to the flow's version, "
                "or unset YIWEN_CLUSTER_CODE, so that the code is uploaded with each job."
            )
        return cls.model_validate(found)

    @property
    def folder(self) -> str:
        """Folder of this job below the store's root."""
        return posixpath.join(JOBS, self.name, self.fingerprint)

    def place(self, file: str) -> str:
        """Return the path or URI of one of the job's files."""
        return posixpath.join(self.store, self.folder, file)

    def write(self, store: ArtifactStore) -> None:
        """Write `run.json`; raises `UserError` where the root cannot be written to."""
        path = store.absolute(posixpath.join(self.folder, "run.json"))
        with explained(path):
            make_folder(store.filesystem, posixpath.dirname(path))
            store.filesystem.pipe_file(path, self.model_dump_json(indent=1).encode())

    def opened(self) -> tuple[Stage[Any], StageParams, dict[str, StageInput]]:
        """Return the stage, its parameters and its inputs, opened on this machine.

        Raises:
            UserError: an input is not the same here.
        """
        work = _at(self.stage)
        if not isinstance(work, Stage):
            raise UserError(f"{self.stage} in run.json is not a stage. Submit the job again.")
        store = ArtifactStore(self.store)
        inputs = {name: given.opened(name, store) for name, given in self.inputs.items()}
        params: StageParams = work.params.model_validate(self.params)
        if work.fingerprint(params, inputs) != self.fingerprint:
            raise RuntimeError(f"{self.name}: the parameters in run.json do not give the fingerprint that it names")
        return work, params, inputs


def _plain(value: Any) -> Any:
    """Return parameters as JSON has them, with the fields in no fingerprint, which pydantic would leave out."""
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    return to_jsonable_python(value)


def _place_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _at(place: str) -> Any:
    """Return the object at `module:name`."""
    module, _, name = place.partition(":")
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def _unseen(what: str) -> UserError:
    return UserError(
        f"{socket.gethostname()} does not see {what}. On a cluster every node must see YIWEN_HOME: put it on a shared "
        "file system that is mounted at the same path everywhere, or give a URI such as s3://…."
    )
