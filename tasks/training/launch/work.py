"""Long work, done by a program of its own that reads its orders from `run.json`.

<storage>/run.json        the work, resolved; written before the program starts
<storage>/metrics.jsonl   its figures, appended while it runs (tasks/training/metrics_log.py)
<storage>/result.json     written last: the work is done
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import fsspec
from pydantic import BaseModel, ConfigDict

from infra.artifacts import open_for_writing
from infra.errors import UserError


class Progress(NamedTuple):
    """Progress of some work."""

    done: int
    """Steps or epochs, of `LongWork.total`."""
    note: str
    """Figures worth seeing, such as the loss."""


class LongWork(BaseModel, ABC):
    """Work of minutes to weeks, as its program reads it.

    A new kind of long work is a subclass, and a module that passes it to `run_program` (program.py).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ClassVar[str]
    """Name of its stage, which progress and jobs carry."""
    module: ClassVar[str]
    """Module of its program, for `python -m`."""

    name: str
    """Fingerprint of the work. The same name resumes; different work has a different name."""
    storage: str
    """Folder or URI for checkpoints and metrics, visible to every worker."""

    @property
    def label(self) -> str:
        """The work as people read it in a list of runs."""
        return f"{self.kind} {self.name[:8]}"

    @property
    def settings(self) -> dict[str, Any]:
        """Settings worth comparing with those of other runs."""
        return {}

    @property
    @abstractmethod
    def unit(self) -> str:
        """Name of what its progress counts, such as `step`."""

    @property
    @abstractmethod
    def total(self) -> int:
        """Number of units when all is done."""

    @abstractmethod
    def progress(self, entries: Sequence[Mapping[str, Any]]) -> Progress | None:
        """Return the progress that new entries of the metrics file show, or None if they show none."""

    def interruption_note(self) -> str:
        """Return what a user who interrupts the work must know; "" if it resumes from its last checkpoint."""
        return ""

    @property
    def run_path(self) -> str:
        """Path or URI of the file that the program reads."""
        return f"{self.storage}/run.json"

    @property
    def metrics_path(self) -> str:
        """Path or URI of the metrics file."""
        return f"{self.storage}/metrics.jsonl"

    @property
    def result_path(self) -> str:
        """Path or URI of the file that marks the end."""
        return f"{self.storage}/result.json"

    @classmethod
    def read(cls, place: str) -> Self:
        """Read a `run.json` from a path or URI.

        Raises:
            UserError: this machine has no such file.
        """
        try:
            with fsspec.open(place, "rb") as file:
                return cls.model_validate_json(file.read())
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(
                f"{place} does not exist on this machine. Check the folder; a run's holds run.json. On a cluster every "
                "node must see YIWEN_HOME: put it on a shared file system that is mounted at the same path everywhere, "
                "or give a URI such as s3://…."
            ) from error

    def write(self) -> None:
        """Write `run.json` into the storage."""
        with open_for_writing(self.run_path) as file:
            file.write(self.model_dump_json(indent=1).encode())

    def is_written(self) -> bool:
        """Return whether the storage has a `run.json`."""
        return _read(self.run_path) is not None

    def is_done(self) -> bool:
        """Return whether the work is done and its result is there."""
        return self.read_result() is not None

    def read_result(self) -> bytes | None:
        """Return the content of `result.json`, or None while the work is not done."""
        return _read(self.result_path)

    def write_result(self, content: bytes) -> None:
        """Mark the work as done; called once, by its first worker."""
        with open_for_writing(self.result_path) as file:
            file.write(content)


def _read(place: str) -> bytes | None:
    filesystem, path = fsspec.core.url_to_fs(place)
    filesystem.invalidate_cache()  # another process, maybe on another machine, writes the file
    try:
        content: bytes = filesystem.cat_file(path)
    except FileNotFoundError:
        return None
    return content
