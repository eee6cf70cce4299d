"""Stage `sketches`: keys and similarity sketches, by which documents with (nearly) the same text are found.

A row holds the key of a text, which equal texts share, and its similarity sketch in bands, of which near duplicates
share some (`tasks/deduplicate/similarity.py`). By default texts with different numbers, or with their numbers in
another order, share no band: numbers carry meaning in medicine.

Time grows with the characters, memory with one part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pydantic import Field

from infra import schemas
from infra.arrays.batching import batches_of
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from tasks.deduplicate.number_keys import number_keys
from tasks.deduplicate.shingles import shingle
from tasks.deduplicate.similarity import bands, fingerprints, rows_for, sketch
from tasks.text.comparable import key_of
from tasks.text.comparable_batch import comparables

KEY = ["key_high", "key_low"]


class NearParams(StageParams):
    """Rules of what a near duplicate is."""

    threshold: float | None = Field(
        default=0.8,
        gt=0,
        le=1,
        description="Jaccard similarity from which texts are near duplicates; None: only equal ones.",
    )
    shingle: int = Field(default=5, ge=1, le=32, description="Characters per shingle.")
    numbers_apart: bool = Field(default=True, description="Texts with different numbers are not duplicates.")
    seed: int = 42
    """Seed of the hash functions."""


@dataclass(frozen=True)
class Sketched:
    """Keys and sketches of a batch of T texts, in their order."""

    keys: np.ndarray
    """uint64 (T, 2): halves of the key of each text."""
    characters: np.ndarray
    """uint32 (T,): characters of the comparable form."""
    has_shingles: np.ndarray
    """bool (T,): False for a text that is shorter than a shingle."""
    fingerprints: np.ndarray
    """uint8 (T, BINS), or (T, 0) where only equal texts are looked for."""
    bands: np.ndarray
    """uint64 (T, bands): hash of each band."""


def sketched(forms: Sequence[str], params: NearParams) -> Sketched:
    """Return the keys and sketches of texts that are in their comparable form."""
    keys = np.frombuffer(b"".join(map(key_of, forms)), dtype=">u8").astype(np.uint64).reshape(-1, 2)
    characters = np.array([len(form) for form in forms], dtype=np.uint32)
    groups = np.zeros(len(forms), dtype=np.uint64)
    if params.threshold is None:
        nothing = np.zeros((len(forms), 0))
        return Sketched(keys, characters, groups > 0, nothing.astype(np.uint8), nothing.astype(np.uint64))
    if params.numbers_apart:  # ≥100 and ≥75 differ in two characters, and are not duplicates
        groups = number_keys(forms)
    bins = sketch(shingle(forms, params.shingle), params.seed)
    shares = bands(bins, rows_for(params.threshold), groups)
    return Sketched(keys, characters, characters >= params.shingle, fingerprints(bins), shares)


@stage(name="sketches", version=4, params=NearParams, tables=("sketches",))
def sketches(inputs: Mapping[str, Artifact], params: NearParams, out: Output) -> None:
    """Sketch `inputs["documents"]`, one part for each of its parts."""
    out.map(sketch_part, inputs["documents"].parts("documents"), params)


def sketch_part(writer: PartWriter, part: Part, params: NearParams) -> None:
    """Sketch one part of documents, in its order."""
    table = part.read(columns=["doc_id", "text"])
    writer.write("sketches", schemas.SKETCHES.empty_table())
    first = 0
    for texts in batches_of(table["text"].to_pylist()):
        found = sketched(comparables(texts), params)
        absent = ~found.has_shingles
        codes = found.fingerprints.tobytes()
        width = found.fingerprints.shape[1]
        columns = {
            "key_high": found.keys[:, 0],
            "key_low": found.keys[:, 1],
            "doc_id": table["doc_id"].slice(first, len(texts)),
            "characters": found.characters,
            "fingerprint": [b"" if short else codes[n * width : (n + 1) * width] for n, short in enumerate(absent)],
        }
        for band in range(schemas.MAX_BANDS):
            used = band < found.bands.shape[1]
            columns[f"band_{band:02d}"] = (
                pa.array(found.bands[:, band], mask=absent) if used else pa.nulls(len(texts), pa.uint64())
            )
        writer.write("sketches", pa.table(columns))
        first += len(texts)
