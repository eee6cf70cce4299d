"""Stage `deduplicate`: of documents with the same text one stays.

"The same" is judged with full-width forms as plain ones, in lower case, and without white space that parts no
numbers or words. Nothing else is taken away, for digits and signs carry meaning in medicine: 年龄18-75岁 and
年龄18~65岁, 10⁹ and 109, 120 80 and 12080 stay apart. Of equal documents the one with the smallest id stays, then the
first, whatever the order of the parts.

Documents are compared in buckets of their hash, so memory is bounded by a bucket (about 100 bytes a document)
and by one part; time grows with the text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pydantic import Field

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage


class DeduplicateParams(StageParams):
    """Bounds of memory."""

    documents_per_bucket: int = Field(default=2_000_000, ge=1)


_WIDTH = {0x3000: " ", **{0xFEE0 + code: chr(code) for code in range(0x21, 0x7F)}}
_IDLE_BLANKS = re.compile(r"(?<![0-9a-z])\s+|\s+(?![0-9a-z])")


def text_key(text: str) -> bytes:
    """16 bytes that equal texts share: a hash without width, case and white space between other than words."""
    plain = " ".join(_IDLE_BLANKS.sub("", text.translate(_WIDTH).lower()).split())
    return hashlib.blake2b(plain.encode(), digest_size=16).digest()


@stage(name="deduplicate", version=1, params=DeduplicateParams, tables=("documents", "duplicates"))
def deduplicate(inputs: Mapping[str, Artifact], params: DeduplicateParams, out: Output) -> None:
    """Drop repeated documents of `inputs["documents"]`; each drop is a row of `duplicates`."""
    documents = inputs["documents"]
    parts = documents.parts("documents")
    buckets = -(-documents.rows("documents") // params.documents_per_bucket)
    dropped = _find_duplicates(parts, max(1, buckets))
    out.map(drop_part, [(part, dropped.get(number, {})) for number, part in enumerate(parts)])


def drop_part(writer: PartWriter, work: tuple[Part, Mapping[int, str]]) -> None:
    """Copy a part without the rows that are dropped; `work` maps their numbers to the kept documents' ids."""
    part, dropped = work
    table = part.read()
    ids = table.column("doc_id")
    keep = np.ones(table.num_rows, dtype=bool)
    keep[list(dropped)] = False
    writer.write("documents", table.filter(pa.array(keep)))
    writer.write(
        "duplicates",
        [
            {"doc_id": ids[row].as_py(), "kept_id": kept, "kind": "exact", "similarity": 1.0}
            for row, kept in sorted(dropped.items())
        ],
    )
    writer.count("documents_in", table.num_rows)
    writer.count("dropped_exact", len(dropped))


def _find_duplicates(parts: list[Part], buckets: int) -> dict[int, dict[int, str]]:
    """Part number → row number → id of the document that is kept instead."""
    dropped: dict[int, dict[int, str]] = {}
    for bucket in range(buckets):
        kept, repeats = _compare_bucket(parts, bucket, buckets)
        for key, number, row in repeats:
            dropped.setdefault(number, {})[row] = kept[key][0]
    return dropped


Place = tuple[str, int, int]
"""doc_id, part number, row number; the smallest of equal documents is kept."""


def _compare_bucket(
    parts: list[Part], bucket: int, buckets: int
) -> tuple[dict[bytes, Place], list[tuple[bytes, int, int]]]:
    """The kept document of each key in a bucket, and the places of the others."""
    kept: dict[bytes, Place] = {}
    repeats = []
    for number, part in enumerate(parts):
        table = part.read(columns=["doc_id", "text"])
        ids, texts = (table.column(name).to_pylist() for name in ("doc_id", "text"))
        for row, (doc_id, text) in enumerate(zip(ids, texts, strict=True)):
            key = text_key(text)
            if int.from_bytes(key[:4], "big") % buckets != bucket:
                continue
            place = (doc_id, number, row)
            best = kept.setdefault(key, place)
            if best is not place:
                kept[key] = min(best, place)
                repeats.append((key, *max(best, place)[1:]))
    return kept, repeats
