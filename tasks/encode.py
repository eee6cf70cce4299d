"""Stage `encode`: segments become examples: token ids, and the places where words begin.

A word that jieba found begins at the first token that begins inside it. Documents, not segments, are put aside
as held-out text, so that no held-out segment has a neighbour in training. Nothing is cut off in silence: tokens
over the length are counted. Time grows with the characters, memory with one part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from pydantic import Field
from tokenizers import Encoding, Tokenizer

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.tokenizer import SPECIAL_TOKENS
from tasks.documents import share_of

BATCH = 1024
"""Segments that are encoded at once."""

UNKNOWN = SPECIAL_TOKENS.index("[UNK]")


class EncodeParams(StageParams):
    """Length of an example, and what is put aside."""

    max_length: int = Field(default=512, ge=3, description="Tokens of an example, [CLS] and [SEP] included.")
    held_out_share: float = Field(default=0.02, gt=0, lt=1, description="Share of documents put aside.")
    seed: int = 42


@stage(name="encode", version=1, params=EncodeParams, tables=("examples", "held_out"))
def encode(inputs: Mapping[str, Artifact], params: EncodeParams, out: Output) -> None:
    """Encode `inputs["segments"]` with the tokeniser of `inputs["vocabulary"]`.

    Raises:
        UserError: there is no segment to train on, or none to put aside.
    """
    tokenizer = inputs["vocabulary"].read_file("tokenizer.json").decode()
    segments = inputs["segments"]
    out.map(encode_part, segments.parts("segments"), params, tokenizer)
    for table, what in (("examples", "to train on"), ("held_out", "to put aside for evaluation")):
        if out.rows(table) == 0:
            raise UserError(
                f"There is no segment {what}: {segments.rows('segments'):,} segments came out of the corpus. Give "
                "more text, or lower segment.min_tokens or clean's limits; what was dropped, and why, is in the "
                "tables `rejects`."
            )


def encode_part(part: PartWriter, segments: Part, params: EncodeParams, tokenizer: str) -> None:
    """Encode one part; `tokenizer` is the content of a `tokenizer.json`."""
    loaded = Tokenizer.from_str(tokenizer)
    loaded.encode_special_tokens = True  # a "[MASK]" in the text is text
    rows = segments.read(columns=["doc_id", "source", "text", "words"]).to_pylist()
    for first in range(0, len(rows), BATCH):
        batch = rows[first : first + BATCH]
        encodings = loaded.encode_batch([row["text"] for row in batch])
        tables: dict[str, list[dict[str, Any]]] = {"examples": [], "held_out": []}
        for row, encoding in zip(batch, encodings, strict=True):
            held_out = share_of(row["doc_id"], "held out", params.seed) < params.held_out_share
            tables["held_out" if held_out else "examples"].append(_example(part, row, encoding, params.max_length))
        for table, examples in tables.items():
            if examples:
                part.write(table, examples)


def word_starts(offsets: Sequence[tuple[int, int]], words: Sequence[int]) -> list[int]:
    """Positions of the tokens at which words begin.

    Args:
        offsets: (start, end) in the text of each token; the first is [CLS] and the last [SEP].
        words: lengths of the words, in characters; they sum to the length of the text.
    """
    starts = np.array([start for start, _ in offsets[1:-1]])
    word_of = np.searchsorted(np.array(list(accumulate(words))), starts, side="right")
    begins = np.diff(word_of, prepend=-1) != 0
    return (np.flatnonzero(begins) + 1).tolist()


def _example(part: PartWriter, row: Mapping[str, Any], encoding: Encoding, max_length: int) -> dict[str, Any]:
    ids, offsets = encoding.ids, encoding.offsets
    if len(ids) > max_length:
        part.count("truncated_segments")
        part.count("truncated_tokens", len(ids) - max_length)
        ids, offsets = [*ids[: max_length - 1], ids[-1]], [*offsets[: max_length - 1], offsets[-1]]
    part.count("tokens", len(ids))
    part.count("unknown_tokens", ids.count(UNKNOWN))
    return {
        "input_ids": ids,
        "word_starts": word_starts(offsets, row["words"]),
        "mentions": [],
        "doc_id": row["doc_id"],
        "source": row["source"],
    }
