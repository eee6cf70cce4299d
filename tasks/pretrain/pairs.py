"""Stage `pairs`: segments of a document become sentence pairs [CLS] A [SEP] B [SEP], for NSP and SOP.

As in BERT's data preparation (Devlin et al., 2019, section A.2), neighbouring segments of a document are taken together
up to the length, and B begins at one of them that is drawn. For NSP, half of the pairs take B from another document
instead, never from the same one. Three things differ from BERT's program, each for a reason:

- A random B is as long as the true one and does not begin its document, so that neither length nor an opening gives it
  away. The true B is not put back: every segment is expected as often as every other.
- Segments are taken as long as they fit. So only a pair of two segments that are too long together, or one whose random
  B is, loses words, at its outer ends. No pair is shortened at random: the ends of documents give short rows enough.
- Masks are drawn anew in each step, so `copies` of the text (BERT's `dupe_factor`) differ in their pairs alone.

A document of one segment is split in two behind a sentence, else between two words; those with too few words are
rejected. Held-out pairs are made of held-out rows alone, and once. All draws are functions of (seed, copy, document,
number of the pair in it); the partners to draw from are the documents of the parts that are read together.

This is a stage and not the collator's work because batches are read in shuffled order: a collator would have to read
whole documents, and to take partners from what is in memory by chance. It would also cost each step ten times what
reading finished pairs does (benchmarks/training/pairs.py). The stage costs 1.4 to 2.4 bytes on disk per token and copy.

Time grows with the tokens times `copies`, memory with one part.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pydantic import Field

from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from tasks.documents import share_of
from tasks.pretrain.pair_rows import choose_pairs, cut, rows_of, split_single_segments, text_of

logger = logging.getLogger(__name__)

SENTENCE_ENDS = ("。", "!", "?", ";")
"""Tokens that end a sentence, as the tokeniser normalises them: `！` is `!`."""

ROWS_TOGETHER = 4_096
"""Parts are read together until they have this many rows, so that there are partners to draw from."""

PAIRS_AT_ONCE = 4_096
"""Pairs whose rows are made at a time."""


CUTS_TO_WARN_OF = 0.1
"""Share of the tokens above which a run warns of what is cut off."""


class PairsParams(StageParams):
    """Length of a pair, and where its second sentence comes from."""

    max_length: int = Field(
        default=512,
        ge=5,
        le=2**16 - 1,
        description="tokens of a pair, with [CLS] and both [SEP]; the flow lowers it to model.max_positions",
    )
    random_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="share of pairs whose second sentence is from another document; the flow sets 0 for SOP",
    )
    min_words: int = Field(
        default=8, ge=1, description="fewest words on each side of a document of one segment that is split in two"
    )
    copies: int = Field(default=1, ge=1, description="times that the training text is made into pairs, always others")
    seed: int = 42
    """Seed of the random second sentences."""


@dataclass(frozen=True)
class Rows:
    """A unit of work: the parts of examples that are read together, and the table that their pairs go to."""

    parts: tuple[Part, ...]
    table: str
    copy: int


@stage(name="pairs", version=1, params=PairsParams, tables=("pairs", "held_out_pairs", "rejects"), heavy=True)
def pairs(inputs: Mapping[str, Artifact], params: PairsParams, out: Output) -> None:
    """Make pairs of `inputs["examples"]`, which were encoded with `inputs["vocabulary"]`.

    Raises:
        UserError: there is no pair to train on or none to hold out, or there is no other document to take a random
            second sentence from.
    """
    examples, tokens = inputs["examples"], inputs["vocabulary"].to_table("vocabulary")
    ids = dict(zip(tokens["token"].to_pylist(), tokens["id"].to_pylist(), strict=True))
    sentence_ends = [ids[token] for token in SENTENCE_ENDS if token in ids]
    together = {table: _read_together(examples.parts(table)) for table in ("examples", "held_out")}
    training = [Rows(some, "pairs", copy) for copy in range(params.copies) for some in together["examples"]]
    held_out = [Rows(some, "held_out_pairs", 0) for some in together["held_out"]]
    out.map(pairs_part, [*training, *held_out], params, sentence_ends)
    _warn_of_cuts(out.counters(), params)
    _check(out, "pairs", "to train on", params)
    _check(out, "held_out_pairs", "to hold out for evaluation", params)


def pairs_part(part: PartWriter, rows: Rows, params: PairsParams, sentence_ends: Sequence[int]) -> None:
    """Make the pairs of parts that are read together."""
    table = pa.concat_tables([one.read() for one in rows.parts])
    labels, given = table.select(["doc_id", "source"]), text_of(table)
    text, too_short = split_single_segments(given, np.array(sentence_ends), params.min_words)
    room = params.max_length - 3  # beside [CLS] and both [SEP]

    def draw(purpose: str, key: str) -> float:
        return share_of(key, f"{purpose} of a pair, copy {rows.copy}", params.seed)

    whole = choose_pairs(text, room, params.random_share, draw)
    chosen, lost_mentions = cut(text, whole, room)
    for first in range(0, len(chosen.segments), PAIRS_AT_ONCE):
        part.write(rows.table, rows_of(text, chosen[first : first + PAIRS_AT_ONCE], labels))
    lost = (whole.sizes - chosen.sizes).sum(axis=1)
    counts = {
        rows.table: len(chosen.segments),
        "tokens": int(chosen.sizes.sum()) + 3 * len(chosen.segments),
        f"random_{rows.table}": int(chosen.is_random.sum()),
        f"{rows.table}_without_partner": chosen.without_partner,
        "cut_pairs": int((lost > 0).sum()),
        "cut_tokens": int(lost.sum()),
        "cut_mentions": lost_mentions,
    }
    if rows.copy == 0:  # the documents are the same in every copy
        counts |= {"split_documents": len(text.rows) - len(given.rows)}
        for row in given.rows[too_short].tolist():
            part.reject(
                doc_id=labels["doc_id"][row].as_py(),
                source=labels["source"][row].as_py(),
                reason="no_second_sentence",
                detail=f"one segment of fewer than {2 * params.min_words} words",
                text="",  # tokens are not text again
            )
    for name, count in counts.items():
        if count:
            part.count(name, count)


def _read_together(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Group neighbouring parts, each group with `ROWS_TOGETHER` rows or more; a rest joins the group before it."""
    groups: list[tuple[Part, ...]] = []
    for part in parts:
        if not groups or sum(one.rows for one in groups[-1]) >= ROWS_TOGETHER:
            groups.append(())
        groups[-1] += (part,)
    if len(groups) > 1 and sum(one.rows for one in groups[-1]) < ROWS_TOGETHER:
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _warn_of_cuts(counters: Mapping[str, int], params: PairsParams) -> None:
    lost = counters["cut_tokens"] / max(1, counters["cut_tokens"] + counters["tokens"])
    if lost > CUTS_TO_WARN_OF:
        logger.warning(
            "%.0f %% of the tokens of sentence pairs are cut off, because two segments seldom fit into %d tokens. Set "
            "segment.max_tokens to a third of pairs.max_length",
            100 * lost,
            params.max_length,
        )


def _check(out: Output, table: str, purpose: str, params: PairsParams) -> None:
    counters = out.counters()
    if not counters[table]:
        raise UserError(
            f"There are no sentence pairs {purpose}. A pair is two neighbouring segments of a document, or the halves "
            f"of a document of one segment with {2 * params.min_words} words. Documents with less: "
            f"{counters['rejected_no_second_sentence']:,}. Give longer documents, lower segment.max_tokens or "
            "pairs.min_words, or train without sentence pairs."
        )
    if counters[f"{table}_without_partner"] and not counters[f"random_{table}"]:
        raise UserError(
            f"Half of the pairs {purpose} should take their second sentence from another document, and there is only "
            "one document. Give more documents, or raise encode.held_out_share if this is held-out text."
        )
