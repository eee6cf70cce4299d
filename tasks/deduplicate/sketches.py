"""Stage `sketches`: what has to be known of each document to find those with the same or nearly the same text.

A row holds the key of the text, by which equal texts are found, and its similarity sketch in bands, by which near
duplicates are (`tasks/deduplicate/similarity.py`). Texts with different numbers, or numbers in different order, share
no band by default: numbers carry meaning in medicine.

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
    """What counts as a near duplicate."""

    threshold: float | None = Field(default=0.8, gt=0, le=1, description="Jaccard similarity; None: exact only")
    shingle: int = Field(default=5, ge=1, le=32, description="characters of a shingle")
    numbers_apart: bool = Field(default=True, description="texts with different numbers are no duplicates")
    seed: int = 42


@dataclass(frozen=True)
class Sketched:
    """What is known of a batch of texts for comparing them; rows in the order of the texts."""

    keys: np.ndarray
    """uint64 (T, 2)."""
    characters: np.ndarray
    """uint32 (T,)."""
    has_shingles: np.ndarray
    """bool (T,)."""
    fingerprints: np.ndarray
    """uint8 (T, BINS)."""
    bands: np.ndarray
    """uint64 (T, bands)."""


def sketched(forms: Sequence[str], params: NearParams) -> Sketched:
    """Keys and sketches of texts in their comparable form."""
    keys = np.frombuffer(b"".join(map(key_of, forms)), dtype=">u8").astype(np.uint64).reshape(-1, 2)
    characters = np.array([len(form) for form in forms], dtype=np.uint32)
    groups = np.zeros(len(forms), dtype=np.uint64)
    if params.threshold is None:
        nothing = np.zeros((len(forms), 0))
        return Sketched(keys, characters, groups > 0, nothing.astype(np.uint8), nothing.astype(np.uint64))
    if params.numbers_apart:
        groups = number_keys(forms)
    bins = sketch(shingle(forms, params.shingle), params.seed)
    shares = bands(bins, rows_for(params.threshold), groups)
    return Sketched(keys, characters, characters >= params.shingle, fingerprints(bins), shares)


@stage(name="sketches", version=4, params=NearParams, tables=("sketches",))
def sketches(inputs: Mapping[str, Artifact], params: NearParams, out: Output) -> None:
    """Keys, sketches and bands of `inputs["documents"]`: a part for each of its parts."""
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
