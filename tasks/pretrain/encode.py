"""Stage `encode`: segments become examples: token ids, and the places where words begin.

A word that jieba found begins at the first token that begins inside it. Whole documents are held out, not segments, so
that no held-out segment has a neighbour in training. Tokens that exceed the length are cut off and counted.

A part of segments becomes a part of examples. Parts are cut by bytes of text, which balances tokens too: a Chinese
character is 3 bytes and one token, and a token of letters is about as long (2.6 to 3.3 bytes per token over ten kinds
of real text). Ids are uint32. uint16 would not save space in Parquet, which packs integers and has no 16-bit values.

If entities are given, their mentions (kg/linking/linker.py) are written as spans of tokens with the row of the entity
in the linked table and the number of its name there (`entity_rows` of tasks/knowledge/link.py). The linked artifact is
the input `entities` of the manifest; `linked_entities` (linked.py) finds it. A mention that begins or ends inside a
token, or that is cut off, is left out and counted.

Time grows with the characters. Memory grows with one part, and with about 100 bytes per character encoded at once.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from infra import schemas
from infra.arrays.batching import CHARACTERS_AT_ONCE
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from kg.linking.linker import EntityLinker
from models.tokenizer.corpus import CorpusTokenizer, EncodedTexts, corpus_tokenizer
from models.tokenizer.wordpiece import SPECIAL_TOKENS
from tasks.documents import share_of
from tasks.knowledge.link import TypePriors, entity_linker, entity_rows, entity_types

logger = logging.getLogger(__name__)

UNKNOWN, CLS, SEP = (SPECIAL_TOKENS.index(token) for token in ("[UNK]", "[CLS]", "[SEP]"))

FEW_SEGMENTS = 20_000
"""Corpora of up to this many segments are checked for a held-out document. Larger ones always have one."""


class EncodeParams(StageParams):
    """Length of an example, and share of held-out text."""

    max_length: int = Field(default=512, ge=3, le=2**16 - 1, description="tokens per example, with [CLS] and [SEP]")
    held_out_share: float = Field(default=0.02, gt=0, lt=1, description="share of documents that are held out")
    seed: int = 42
    """Seed of the choice of documents that are held out."""
    # The rest is left out where empty, so that examples without entities keep their address.
    mention_types: tuple[str, ...] = Field(
        default=(),
        exclude_if=operator.not_,
        description="types of the entities whose mentions are recorded; by default all",
    )
    type_priors: TypePriors = Field(default={}, exclude_if=operator.not_, description="as in the stage link")


@stage(name="encode", version=5, params=EncodeParams, tables=("examples", "held_out"), heavy=True)
def encode(inputs: Mapping[str, Artifact], params: EncodeParams, out: Output) -> None:
    """Encode `inputs["segments"]` with the tokeniser of `inputs["vocabulary"]`.

    With `inputs["entities"]`, and optionally `inputs["entity_frequencies"]`, mentions are linked as by `link`.

    Raises:
        UserError: there is no segment to train on or none to hold out, or no name can be linked.
    """
    tokenizer = inputs["vocabulary"].read_file("tokenizer.json").decode()
    segments = inputs["segments"]
    parts = segments.parts("segments")
    limit = params.held_out_share
    if segments.rows("segments") <= FEW_SEGMENTS:
        limit = _limit_for_few(parts, params)
    if "entities" in inputs:
        _check_types(inputs["entities"], params)
    linked = [inputs[name] for name in ("entities", "entity_frequencies") if name in inputs and "entities" in inputs]
    out.map(encode_part, parts, params, limit, tokenizer, *linked)
    for table, what in (("examples", "to train on"), ("held_out", "to hold out for evaluation")):
        if not out.rows(table):
            raise UserError(
                f"Empty corpus: no segment is left {what}. The input has {segments.rows('segments'):,} segments, and "
                "whole documents are held out. Give more text or lower segment.min_tokens. The tables `rejects` list "
                "what was dropped, and why."
            )


def _check_types(entities: Artifact, params: EncodeParams) -> None:
    """Warn about types of `params.mention_types` that no entity has. Raises `UserError` if none of them has any."""
    table = next((name for name in ("entities", "kg_entities") if name in entities.manifest.tables), None)
    if table is None or not params.mention_types:
        return
    known = set(entities.scan(table).select("type").unique().collect()["type"])
    unknown = sorted(set(params.mention_types) - known)
    if not unknown:
        return
    message = (
        f"encode.mention_types names {', '.join(unknown)}, but the entities of {entities.path} have the types "
        f"{', '.join(sorted(known - {''}))}."
    )
    if len(unknown) == len(set(params.mention_types)):
        raise UserError(f"{message} Name some of these.")
    logger.warning("%s", message)


def encode_part(
    part: PartWriter,
    segments: Part,
    params: EncodeParams,
    limit: float,
    tokenizer_json: str,
    entities: Artifact | None = None,
    frequencies: Artifact | None = None,
) -> None:
    """Encode one part. Documents whose draw is at most `limit` are held out; `entities`, if given, are linked."""
    tokenizer = corpus_tokenizer(tokenizer_json)
    linked = _Linked.of(entities, params, frequencies) if entities is not None else None
    for batch in _batches(segments.read(columns=["doc_id", "source", "text", "words"])):
        examples = _examples(part, batch, tokenizer, linked, params)
        documents = batch["doc_id"].combine_chunks().dictionary_encode()  # a document has many segments
        drawn = np.array([_draw(doc_id, params) <= limit for doc_id in documents.dictionary.to_pylist()], dtype=bool)
        held_out = drawn[documents.indices.to_numpy()]
        for table, chosen in (("examples", ~held_out), ("held_out", held_out)):
            if chosen.any():
                part.write(table, examples.filter(pa.array(chosen)))


class _Linked(NamedTuple):
    """What finds mentions, and of each form that it finds the row and surface and whether its type is recorded."""

    linker: EntityLinker
    rows: np.ndarray
    """int64 (forms, 2)"""
    recorded: np.ndarray
    """bool (forms,)"""

    @classmethod
    def of(cls, entities: Artifact, params: EncodeParams, frequencies: Artifact | None) -> _Linked:
        given = entities, params.type_priors, frequencies
        rows, types = entity_rows(*given), entity_types(*given)
        of_types = np.isin(types, params.mention_types) if params.mention_types else np.ones(len(types), dtype=bool)
        return cls(entity_linker(*given), rows, of_types[rows[:, 0]])


def word_begins(token_starts: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return for each token whether it is the first that begins inside a word.

    Args:
        token_starts: int (T,) place of each token's first character, in texts laid end to end; ascending.
        words: int (W,) lengths of all words of all texts in characters; they sum to the length of the texts.

    Returns:
        bool (T,). Words in which no token begins have none: a blank, or the end of a token from the word before.
    """
    word_of = np.repeat(np.arange(len(words)), words)[token_starts]
    return np.diff(word_of, prepend=-1) != 0


def _batches(segments: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows in order, about `CHARACTERS_AT_ONCE` characters at a time."""
    sizes = np.cumsum(pc.utf8_length(segments["text"]).to_numpy())
    first = 0
    while first < len(sizes):
        taken = sizes[first - 1] if first else 0
        end = min(int(np.searchsorted(sizes, taken + CHARACTERS_AT_ONCE)) + 1, len(sizes))
        yield segments.slice(first, end - first)
        first = end


def _examples(
    part: PartWriter, rows: pa.Table, tokenizer: CorpusTokenizer, linked: _Linked | None, params: EncodeParams
) -> pa.Table:
    """Return the rows of the table examples for some segments, in order."""
    texts = rows["text"].to_pylist()
    encoded = tokenizer.encode(texts)
    lengths = np.diff(encoded.borders)
    row_of = np.repeat(np.arange(len(texts)), lengths)
    place = np.arange(len(row_of)) - encoded.borders[row_of]
    begins = word_begins(encoded.starts + _text_starts(rows)[row_of], _words(rows).to_numpy())
    room = params.max_length - 2  # beside [CLS] and [SEP]
    kept = np.flatnonzero(place < room)
    firsts = np.flatnonzero(begins & (place < room))
    long = lengths > room
    if long.any():
        part.count("truncated_segments", int(long.sum()))
        part.count("truncated_tokens", len(place) - len(kept))
    borders = np.concatenate([[0], np.cumsum(np.minimum(lengths, room) + 2)])
    # [CLS] 糖 尿 病 [SEP] [CLS] 发 热 [SEP]: all rows end to end, each between its borders
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
        "mentions": _mentions(part, texts, encoded, linked, room),
        "doc_id": rows["doc_id"],
        "source": rows["source"],
    }
    return pa.Table.from_pydict(columns, schema=schema)


def token_spans(encoded: EncodedTexts, texts: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the tokens that exactly cover stretches of characters.

    Args:
        encoded: tokens of some texts.
        texts, starts, ends: int (M,) text of each stretch, its first character there, and the one after its last.

    Returns:
        int64 (M, 2): first token in its text and the one after the last; both -1 if a border is inside a token or on
        white space.
    """
    lengths = np.diff(encoded.borders)
    # Spread the texts so far apart that places are ascending over all texts, and each belongs to one text.
    width = max(encoded.ends.max(initial=0), ends.max(initial=0)) + 1
    of_token = np.repeat(np.arange(len(lengths)), lengths) * width
    token_starts, token_ends = encoded.starts + of_token, encoded.ends + of_token
    starts, ends = starts + texts * width, ends + texts * width
    firsts = np.searchsorted(token_starts, starts)
    behind = np.searchsorted(token_ends, ends, side="right")
    exact = np.take(token_starts, firsts, mode="clip") == starts if len(token_starts) else np.zeros(len(starts), bool)
    exact[exact] = token_ends[behind[exact] - 1] == ends[exact]
    spans = np.stack([firsts, behind], axis=1) - encoded.borders[texts, np.newaxis]
    return np.where(exact[:, np.newaxis], spans, -1)


def _mentions(
    part: PartWriter, texts: list[str], encoded: EncodedTexts, linked: _Linked | None, room: int
) -> pa.ListArray:
    """Return the column `mentions` of some texts, of which only the first `room` tokens are kept."""
    kind = schemas.EXAMPLES.field("mentions").type
    if linked is None:
        return pa.array([[]] * len(texts), kind)
    found = linked.linker.link_many(texts)
    found = found.chosen(linked.recorded[found.forms])
    spans = token_spans(encoded, found.texts, found.starts, found.ends)
    whole, inside = spans[:, 0] >= 0, spans[:, 1] <= room
    kept = whole & inside
    part.count("mentions", int(kept.sum()))
    for counter, left_out in (("mentions_inside_tokens", ~whole), ("truncated_mentions", whole & ~inside)):
        if left_out.any():
            part.count(counter, int(left_out.sum()))
    places = np.concatenate([spans[kept] + 1, linked.rows[found.forms[kept]]], axis=1)  # + 1: [CLS] comes first
    fields = list(kind.value_type)
    columns = [pa.array(column).cast(field.type) for column, field in zip(places.T, fields, strict=True)]
    rows = pa.StructArray.from_arrays(columns, fields=fields)
    borders = np.searchsorted(found.texts[kept], np.arange(len(texts) + 1))
    return pa.ListArray.from_arrays(pa.array(borders.astype(np.int32)), rows, type=kind)


def _text_starts(rows: pa.Table) -> np.ndarray:
    """Return the place where each text begins if all are laid end to end: int64 (rows,).

    Raises:
        ValueError: the words of a text do not sum to its length, which would misplace those of all later texts.
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
    """Return a list column from its values laid end to end, without a Python object per value."""
    array = pa.array(values)
    element = pa.field("element", array.type, nullable=False)
    return pa.ListArray.from_arrays(pa.array(borders.astype(np.int32)), array, type=pa.list_(element))


def _draw(doc_id: str, params: EncodeParams) -> float:
    return share_of(doc_id, "held out", params.seed)


def _limit_for_few(parts: Sequence[Part], params: EncodeParams) -> float:
    """Return the held-out share, or for a small corpus the least one that holds out a document."""
    drawn = (_draw(doc_id, params) for part in parts for doc_id in part.read(columns=["doc_id"])["doc_id"].to_pylist())
    return max(params.held_out_share, min(drawn, default=0.0))
