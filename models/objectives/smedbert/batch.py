"""Batch of SMedBERT: a masked batch, its mentions, and what the knowledge arrays say of them.

Shape legend: T tokens laid end to end, M masked tokens, P pairs of a mention and a neighbour, N candidates of a pair,
U distinct entities, D width of an entity's vector.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.batch import MaskedBatch
from models.encoder.randomness import Stream, uniforms
from models.infusion.neighbourhood import Neighbourhood, with_vectors
from models.infusion.spans import Spans
from models.knowledge import KnowledgeArrays
from models.objectives.smedbert.config import SMedBertConfig
from models.objectives.smedbert.mentions import RowMentions, Uses, with_relations
from models.objectives.smedbert.negatives import TypeSampler
from models.objectives.smedbert.scores import NeighbourPairs
from models.tokenizer.special_ids import MASK


@dataclass(frozen=True, kw_only=True)
class MentionBatch(MaskedBatch):
    """A masked batch with its mentions. Masked mentions are [MASK] throughout, and among the selected tokens."""

    masked: Spans
    """Masked mentions."""
    near: Neighbourhood
    """Their neighbours."""
    masked_ids: Tensor
    """int64, the original ids of `masked.tokens`."""
    masked_rows: Tensor
    """int64, sequence of each masked mention."""
    predicting: Spans
    """Mentions that predict their neighbours."""
    pairs: NeighbourPairs
    """These neighbours with their negatives."""
    mentions: int
    """Mentions of the text."""
    lonely: int
    """Mentions of entities without neighbours, which are plain text."""


def mention_batch(
    batch: MaskedBatch,
    uses: Uses,
    knowledge: KnowledgeArrays,
    sampler: TypeSampler,
    popularity: np.ndarray,
    config: SMedBertConfig,
) -> MentionBatch:
    """Return a masked batch of rows with the mentions that `uses` names masked, and all that is known of these.

    Args:
        popularity: integers (entities,), how often each is a neighbour.
    """
    masked, masked_rows = _spans(batch, uses.masked)
    predicting, _ = _spans(batch, uses.predicting)
    ids = batch.input_ids.clone()
    original = ids[masked.tokens]
    ids[masked.tokens] = MASK
    draws = {"seed": batch.seed, "step": batch.step}
    given = {one.name: getattr(batch, one.name) for one in fields(MaskedBatch)}
    selected, order = torch.sort(torch.cat([batch.selected, masked.tokens]))
    ends = np.searchsorted(selected.numpy(), np.cumsum(batch.layout.lengths))
    changed: dict[str, Any] = {
        "input_ids": ids,
        "selected": selected,
        "original": torch.cat([batch.original, original])[order],
        "selected_counts": tuple(np.diff(ends, prepend=0).tolist()),
    }
    return MentionBatch(
        **given | changed,
        masked=masked,
        near=Neighbourhood.of(knowledge, uses.masked.entities, config.neighbours),
        masked_ids=original,
        masked_rows=masked_rows,
        predicting=predicting,
        pairs=neighbour_pairs(uses.predicting, knowledge, sampler, popularity, config, **draws),
        mentions=uses.found,
        lonely=uses.lonely,
    )


def neighbour_pairs(
    mentions: RowMentions,
    knowledge: KnowledgeArrays,
    sampler: TypeSampler,
    popularity: np.ndarray,
    config: SMedBertConfig,
    *,
    seed: int,
    step: int,
) -> NeighbourPairs:
    """Return the best neighbours of the mentions with entities drawn from the neighbours' types.

    A negative that is a neighbour of the mention is not allowed. A neighbour that no other entity of its type is
    compared with is left out.
    """
    near = with_vectors(knowledge, knowledge.best(mentions.entities, config.neighbours))
    near = with_relations(knowledge, near, mentions, config.relation_choice, seed, step)
    owner = np.repeat(np.arange(len(mentions)), np.diff(near.offsets))
    rank = np.arange(len(owner)) - near.offsets[owner]
    drawn = _drawn(mentions, owner, rank, near.entities, sampler, config.negatives, seed, step)
    candidates = np.concatenate([near.entities[:, np.newaxis], drawn], 1)
    allowed = ~_is_near(candidates, owner, rank, near.entities)
    allowed[:, 0] = True
    kept = np.flatnonzero(allowed[:, 1:].any(1))
    order = kept[np.lexsort((near.directions[kept], owner[kept], near.relations[kept]))]
    owner, relations, signs = owner[order], near.relations[order], near.directions[order]
    candidates, allowed = candidates[order], allowed[order]
    key = np.stack([relations, owner, signs])
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (key[:, 1:] != key[:, :-1]).any(0)
    queries = np.cumsum(is_new) - 1
    entities, places = np.unique(candidates, return_inverse=True)
    places = places.reshape(candidates.shape)
    vectors = np.ascontiguousarray(knowledge.entity_vectors[entities], dtype=np.float32)
    norms = knowledge.projected_norms[relations[:, np.newaxis], candidates].astype(np.float32)
    return NeighbourPairs(
        mentions=torch.from_numpy(owner[is_new]),
        signs=torch.from_numpy(signs[is_new].astype(np.float32)),
        runs=_runs(relations, queries),
        queries=torch.from_numpy(queries),
        candidates=torch.from_numpy(places),
        vectors=torch.from_numpy(vectors),
        norms=torch.from_numpy(norms),
        log_q=torch.from_numpy(sampler.log_q(candidates)),
        allowed=torch.from_numpy(allowed),
        popular=torch.from_numpy(_popular(popularity[candidates], allowed)),
    )


def _drawn(
    mentions: RowMentions,
    owner: np.ndarray,
    rank: np.ndarray,
    neighbours: np.ndarray,
    sampler: TypeSampler,
    negatives: int,
    seed: int,
    step: int,
) -> np.ndarray:
    """Negatives of each pair, int64 (P, negatives), by (seed, step, row, mention, rank of the neighbour)."""
    pair = (mentions.firsts[owner] << 16) + rank
    counters = pair[:, np.newaxis] * negatives + np.arange(negatives)
    rows = mentions.numbers[mentions.rows[owner]][:, np.newaxis]
    return sampler.draw(neighbours, uniforms(seed, step, rows, Stream.NEGATIVE_ENTITY, counters))


def _is_near(candidates: np.ndarray, owner: np.ndarray, rank: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """bool (P, N): whether a candidate is one of the neighbours that the mention predicts."""
    if not len(owner):
        return np.zeros(candidates.shape, dtype=bool)
    own = np.full((owner[-1] + 1, rank.max() + 1), -1, dtype=np.int64)
    own[owner, rank] = neighbours
    found = np.zeros(candidates.shape, dtype=bool)
    for column in own.T:  # at most K columns
        found |= candidates == column[owner][:, np.newaxis]
    return found


def _popular(popularity: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """float32 (P,): what one would get right who always takes the candidate that has most neighbours."""
    counts = np.where(allowed, popularity, -1)
    best = counts.max(1, initial=-1)
    return ((counts[:, 0] == best) / np.maximum((counts == best[:, np.newaxis]).sum(1), 1)).astype(np.float32)


def _runs(relations: np.ndarray, queries: np.ndarray) -> tuple[tuple[int, int, int, int, int], ...]:
    """Relation, its queries and its pairs, in order."""
    numbers, begins = np.unique(relations, return_index=True)
    ends = np.append(begins[1:], len(relations))[: len(numbers)]
    firsts, behinds = queries[begins], queries[ends - 1] + 1
    return tuple(zip(*(column.tolist() for column in (numbers, firsts, behinds, begins, ends)), strict=True))


def _spans(batch: MaskedBatch, mentions: RowMentions) -> tuple[Spans, Tensor]:
    """Return the mentions as tokens of the batch, which orders its rows by length, and the sequence of each."""
    order = np.argsort(batch.rows)
    sequence = order[np.searchsorted(batch.rows, mentions.numbers[mentions.rows], sorter=order)]
    begin = batch.layout.firsts.numpy()[sequence].astype(np.int64)
    return Spans.of(begin + mentions.firsts, begin + mentions.behinds), torch.from_numpy(sequence)
