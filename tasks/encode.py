"""Stage `encode`: segments become examples: token ids, and the places where words begin.

A word that jieba found begins at the first token that begins inside it. Documents, not segments, are put aside
as held-out text, so that no held-out segment has a neighbour in training. Nothing is cut off in silence: tokens
over the length are counted.

A part of segments becomes a part of examples. Parts are cut by bytes of text, which balances tokens too: a Chinese
character is 3 bytes and a token, and a token of letters is about as long (2.6 to 3.3 bytes a token over ten kinds of
real text). Ids are uint32: uint16 would be no smaller in Parquet, which has no 16-bit values and packs them.

Time grows with the characters, memory with one part and about 100 bytes for each of the characters
encoded at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from infra import schemas
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from models.corpus_tokenizer import CorpusTokenizer, corpus_tokenizer
from models.tokenizer import SPECIAL_TOKENS
from tasks.batching import CHARACTERS_AT_ONCE
from tasks.documents import share_of

UNKNOWN, CLS, SEP = (SPECIAL_TOKENS.index(token) for token in ("[UNK]", "[CLS]", "[SEP]"))

FEW_SEGMENTS = 20_000
"""Up to so many segments it is checked that some document is held out; of more, some always are."""


class EncodeParams(StageParams):
    """Length of an example, and what is put aside."""

    max_length: int = Field(default=512, ge=3, le=2**16 - 1, description="tokens, [CLS] and [SEP] included")
    held_out_share: float = Field(default=0.02, gt=0, lt=1, description="share of documents put aside")
    seed: int = 42


@stage(name="encode", version=2, params=EncodeParams, tables=("examples", "held_out"))
def encode(inputs: Mapping[str, Artifact], params: EncodeParams, out: Output) -> None:
    """Encode `inputs["segments"]` with the tokeniser of `inputs["vocabulary"]`.

    Raises:
        UserError: there is no segment to train on, or none to put aside.
    """
    tokenizer = inputs["vocabulary"].read_file("tokenizer.json").decode()
    segments = inputs["segments"]
    parts = segments.parts("segments")
    limit = params.held_out_share
    if segments.rows("segments") <= FEW_SEGMENTS:
        limit = _limit_for_few(parts, params)
    out.map(encode_part, parts, params, limit, tokenizer)
    for table, what in (("examples", "to train on"), ("held_out", "to put aside for evaluation")):
        if not out.rows(table):
            raise UserError(
                f"Empty corpus: no segment is left {what}; {segments.rows('segments'):,} segments came in, of which "
                "whole documents are put aside. Give more text or lower segment.min_tokens; what was dropped, "
                "and why, is in the tables `rejects`."
            )


def encode_part(part: PartWriter, segments: Part, params: EncodeParams, limit: float, tokenizer_json: str) -> None:
    """Encode one part; documents drawn at or under `limit` are held out."""
    tokenizer = corpus_tokenizer(tokenizer_json)
    for batch in _batches(segments.read(columns=["doc_id", "source", "text", "words"])):
        examples = _examples(part, batch, tokenizer, params)
        held_out = np.array([_draw(doc_id, params) <= limit for doc_id in batch["doc_id"].to_pylist()])
        for table, chosen in (("examples", ~held_out), ("held_out", held_out)):
            if chosen.any():
                part.write(table, examples.filter(pa.array(chosen)))


def word_begins(token_starts: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Whether a token is the first that begins inside a word.

    Args:
        token_starts: int (T,) place of the first character of each token, in texts laid end to end; sorted.
        words: int (W,) lengths of the words in characters, of all texts; they sum to the length of the texts.

    Returns:
        bool (T,). A word in which no token begins (a blank, or the end of a token that began in the word before) has
        none.
    """
    word_of = np.repeat(np.arange(len(words)), words)[token_starts]
    return np.diff(word_of, prepend=-1) != 0


def _batches(segments: pa.Table) -> Iterator[pa.Table]:
    """Rows in order, about `CHARACTERS_AT_ONCE` characters at a time."""
    sizes = np.cumsum(pc.utf8_length(segments["text"]).to_numpy())
    first = 0
    while first < len(sizes):
        taken = sizes[first - 1] if first else 0
        end = min(int(np.searchsorted(sizes, taken + CHARACTERS_AT_ONCE)) + 1, len(sizes))
        yield segments.slice(first, end - first)
        first = end


def _examples(part: PartWriter, rows: pa.Table, tokenizer: CorpusTokenizer, params: EncodeParams) -> pa.Table:
    """The rows of the table examples for some segments, in order."""
    texts = rows["text"].to_pylist()
    encoded = tokenizer.encode(texts)
    lengths = np.diff(encoded.borders)
    row_of = np.repeat(np.arange(len(texts)), lengths)
    place = np.arange(len(row_of)) - encoded.borders[row_of]
    begins = word_begins(encoded.starts + _text_starts(rows)[row_of], _words(rows).to_numpy())
    room = params.max_length - 2
    kept = np.flatnonzero(place < room)
    firsts = np.flatnonzero(begins & (place < room))
    long = lengths > room
    if long.any():
        part.count("truncated_segments", int(long.sum()))
        part.count("truncated_tokens", len(place) - len(kept))
    borders = np.concatenate([[0], np.cumsum(np.minimum(lengths, room) + 2)])
    ids = np.empty(borders[-1], dtype=np.uint32)
    ids[borders[:-1]], ids[borders[1:] - 1] = CLS, SEP
    ids[borders[row_of[kept]] + 1 + place[kept]] = encoded.ids[kept]
    word_borders = np.concatenate([[0], np.cumsum(np.bincount(row_of[firsts], minlength=len(texts)))])
    part.count("examples", len(texts))
    part.count("tokens", len(ids))
    part.count("words", len(firsts))
    part.count("unknown_tokens", int((encoded.ids[kept] == UNKNOWN).sum()))
    schema = schemas.TABLES["examples"]
    columns = {
        "input_ids": _lists(ids, borders),
        "word_starts": _lists((place[firsts] + 1).astype(np.uint16), word_borders),
        "mentions": pa.array([[]] * len(texts), schema.field("mentions").type),
        "doc_id": rows["doc_id"],
        "source": rows["source"],
    }
    return pa.Table.from_pydict(columns, schema=schema)


def _text_starts(rows: pa.Table) -> np.ndarray:
    """Where each text begins when the texts are laid end to end: int64 (rows,).

    Raises:
        ValueError: the words of a text do not sum to its length; those of all after it would be misplaced.
    """
    ends = np.cumsum(pc.utf8_length(rows["text"]).to_numpy())
    words = _words(rows)
    word_ends = np.concatenate([[0], np.cumsum(words.to_numpy(), dtype=np.int64)])
    of_text = np.cumsum(pc.list_value_length(rows["words"]).to_numpy())
    if not np.array_equal(word_ends[of_text], ends):
        raise ValueError("the words of a segment do not sum to its length")
    return np.concatenate([[0], ends[:-1]])


def _words(rows: pa.Table) -> pa.Array:
    return pc.list_flatten(rows["words"])


def _lists(values: np.ndarray, borders: np.ndarray) -> pa.ListArray:
    """A list column from its values laid end to end; no Python object a value."""
    array = pa.array(values)
    element = pa.field("element", array.type, nullable=False)
    return pa.ListArray.from_arrays(pa.array(borders.astype(np.int32)), array, type=pa.list_(element))


def _draw(doc_id: str, params: EncodeParams) -> float:
    return share_of(doc_id, "held out", params.seed)


def _limit_for_few(parts: Sequence[Part], params: EncodeParams) -> float:
    """The share, or as much more as it takes that one document of a small corpus is held out."""
    drawn = (_draw(doc_id, params) for part in parts for doc_id in part.read(columns=["doc_id"])["doc_id"].to_pylist())
    return max(params.held_out_share, min(drawn, default=0.0))
