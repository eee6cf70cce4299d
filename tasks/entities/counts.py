"""Stage `entity_counts`: occurrences of each surface of the entity vocabulary in the segments, part by part.

Runs inside the stage `entities`. A part that was already counted with the same surfaces is not counted again.

Time grows with the text, memory with the surfaces (about a kilobyte each while they are searched) and one part.
"""

from __future__ import annotations

import functools
import hashlib
import posixpath
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fsspec
import polars as pl

from infra.artifacts import Part
from infra.builds import PartWriter, open_scratch
from infra.stage import Output, StageParams, stage
from kg.entities.entity_vocabulary import count_occurrences


class CountParams(StageParams):
    """The stage has no parameters."""


@dataclass(frozen=True)
class Surfaces:
    """The surfaces to count, identified by their content, as input of a stage and of its units of work."""

    path: str = field(compare=False)
    """Parquet file or URI with one column, surface."""
    fingerprint: str
    stage: str = "surfaces"

    @classmethod
    def save(cls, surfaces: Sequence[str], folder: str) -> Surfaces:
        """Write the surfaces into a folder that all workers can read.

        Raises:
            StorageFullError, UserError: as `infra.builds.explained` does.
        """
        # A new name in each run, because a worker that outlived a killed run may still read that run's file.
        path = posixpath.join(folder, f"surfaces-{uuid.uuid4().hex}.parquet")
        with open_scratch(path) as file:
            pl.DataFrame({"surface": surfaces}, schema={"surface": pl.String}).write_parquet(file)
        return cls(path, hashlib.sha256("\0".join(surfaces).encode("utf-8", "surrogatepass")).hexdigest()[:32])


@stage(name="entity_counts", version=1, params=CountParams, tables=("entity_counts",), heavy=True)
def entity_counts(inputs: Mapping[str, Any], params: CountParams, out: Output) -> None:
    """Count `inputs["surfaces"]` (a `Surfaces`) in the texts of `inputs["segments"]`."""
    out.map(count_part, inputs["segments"].parts("segments"), inputs["surfaces"])


def count_part(writer: PartWriter, segments: Part, surfaces: Surfaces) -> None:
    """Count the surfaces in one part; surfaces that do not occur have no row."""
    texts = segments.read(columns=["text"])["text"].to_pylist()
    counts = count_occurrences(texts, _load(surfaces.path))
    writer.write("entity_counts", [{"surface": surface, "count": counts[surface]} for surface in sorted(counts)])
    writer.count("occurrences", counts.total())


@functools.lru_cache(maxsize=1)
def _load(path: str) -> list[str]:
    with fsspec.open(path, "rb") as file:
        return pl.read_parquet(file)["surface"].to_list()
