"""SMedBERT: BERT with knowledge of the neighbours of what its text mentions (Zhang et al., 2021).

    loss = MLM + SOP + 2 MNeM + 4 MMeM                                                                       (Eq. 22)

Some of the mentions in a row are masked, as whole words are; they get knowledge of their entity's best neighbours in
the graph after the tenth layer (models/infusion). The others stay as they are, get nothing, and predict:

- MNeM, masked neighbour modelling (Eq. 12 to 19): a mention in the text picks each of its neighbours among entities of
  the neighbour's type. Its state h is pooled from its last hidden states; scores.py has f_s.
- MMeM, masked mention modelling (Eq. 20 and 21): a masked mention's h is drawn towards the same pooling of its tokens'
  word embeddings, which carry no gradient.
- MLM restores selected words and the tokens of masked mentions; SOP is that of BERT.

Where the paper is silent or at odds with itself: all terms are means over the global batch, of MNeM over pairs of a
mention and a neighbour, of MMeM over masked mentions and the width d2 (the paper prints a sum of squares and calls it
mean squared error). The embeddings of Eq. 20 are in R^d2 as printed; they are the word table here, in R^d1, which
W_sa needs. A masked mention is [MASK] throughout and never a kept or random token, so that nothing of its own is seen.
A mention of an entity without neighbours is plain text.

Shape legend: S sequences, T tokens laid end to end, M masked mentions, P pairs of a mention and a neighbour, N
candidates of a pair, D width of the states (d1), C width of an entity's vector (d2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from infra.errors import UserError
from models.batch import row_numbers
from models.encoder.network import initialise
from models.encoder.randomness import Stream
from models.infusion.infusion import KnowledgeInfusion
from models.infusion.pooling import SpanProjection
from models.knowledge import KnowledgeArrays
from models.knowledge_model.folder import exported
from models.knowledge_model.source import KNOWLEDGE_MODEL
from models.objectives.base import Exported, Outcome, Term, ratio
from models.objectives.bert.objective import Bert
from models.objectives.parts.noise import StepNoise
from models.objectives.parts.pair_order import exchanged
from models.objectives.smedbert.batch import MentionBatch, mention_batch
from models.objectives.smedbert.config import SMedBertConfig
from models.objectives.smedbert.mentions import RowMentions, choose
from models.objectives.smedbert.negatives import TypeSampler
from models.objectives.smedbert.scores import NeighbourScorer
from models.training.columns import MENTIONS, SECOND, WORDS, Column
from models.training.memory import number_bytes
from models.training.tasks import Task

TOKENS_OF_A_MENTION = 4
"""Tokens of a mention, for estimates of memory: a row is at most one mention after the other."""


class SMedBert(Bert):
    """BERT with knowledge infusion and a head for mentions; `attach` gives it the arrays of the graph."""

    name = "smedbert"
    flops_formula = (
        f"{Bert.flops_formula} + 6 x weights of the infusion x the tokens, mentions and neighbours that they meet + 6 "
        "x weights of the mention head x mentions and their tokens + 4 x d2^2 x mentions with a relation + 4 x d2 x "
        "candidates"
    )
    config: SMedBertConfig

    def __init__(self, config: SMedBertConfig) -> None:
        super().__init__(config)
        sizes = config.hybrid_attention
        self.infusion = KnowledgeInfusion(sizes) if config.infusion else None
        self.mention = None
        if config.neighbour_weight or config.mention_weight:
            self.mention = SpanProjection(sizes.hidden_size, sizes.entity_size, sizes.layer_norm_eps)
            self.mention.apply(lambda module: initialise(module, sizes.initializer_range))
        self._known: _Known | None = None

    def attach(self, name: str, folder: Path) -> None:
        """Map the arrays of the graph that the examples mention; `name` is "knowledge".

        Raises:
            UserError: a file is missing or damaged, or vectors have another width than `entity_size`.
            ValueError: `name` is another.
        """
        super().attach(name, folder)
        knowledge = KnowledgeArrays.open(folder)
        width, wanted = knowledge.entity_vectors.shape[1], self.config.entity_size
        if width != wanted:
            raise UserError(
                f"The vectors of {folder} have {width} numbers, but model.entity_size is {wanted}. Set both "
                "model.entity_size and embed.entity_dim to the same width."
            )
        self._known = _Known(knowledge, self.config)

    @property
    def known(self) -> _Known:
        """The graph. Raises ValueError if none was attached."""
        if self._known is None:
            raise ValueError('smedbert needs knowledge: call attach("knowledge", folder) before collate')
        return self._known

    @property
    def columns(self) -> tuple[Column, ...]:
        """Words, mentions, and where the second sentence begins."""
        return (*WORDS, SECOND, MENTIONS)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The only task, on sentence pairs."""
        return (Task(self.name, self.columns, "pairs", "held_out_pairs"),)

    @property
    def terms(self) -> tuple[Term, ...]:
        """BERT's terms and those that are on."""
        config = self.config
        found = [
            Term("mnem", "masked neighbour modelling", config.neighbour_weight),
            Term("mmem", "masked mention modelling", config.mention_weight),
        ]
        return (*super().terms, *(term for term in found if term.weight))

    def collate(
        self,
        rows: Sequence[Mapping[str, Any] | Any],
        *,
        seed: int,
        step: int,
        row_indices: Sequence[int] | np.ndarray | None = None,
    ) -> MentionBatch:
        """Return the rows with sentences exchanged, words and mentions masked, packed, and their knowledge looked up.

        Raises:
            UserError: a mention is no entity of the attached knowledge; the message names the row.
            ValueError: no knowledge was attached.
        """
        config, known = self.config, self.known
        indices = row_numbers(rows, row_indices)
        labels = self.order_labels(indices, seed, step)
        rows = [exchanged(row, ("mentions",)) if moved else row for row, moved in zip(rows, labels, strict=True)]
        mentions = RowMentions.of(rows, indices, known.knowledge)
        uses = choose(mentions, known.knowledge, config, seed, step)
        spared = [a | b for a, b in zip(uses.masked.tokens(), uses.predicting.tokens(), strict=True)]
        batch = self.packed(rows, indices, labels, seed=seed, step=step, spared=spared)
        return mention_batch(batch, uses, known.knowledge, known.sampler, known.popularity, config)

    def divisors(self, batch: Any) -> dict[str, int]:
        """Selected tokens, sequences, pairs of a mention and a neighbour, masked mentions."""
        return {**super().divisors(batch), "mnem": batch.pairs.count, "mmem": batch.masked.count}

    def hidden(self, batch: Any) -> Tensor:
        """Return the encoder's states (T, D), with knowledge at the masked mentions."""
        if self.infusion is None:
            return super().hidden(batch)
        noise = StepNoise(batch, self.training).dropout(Stream.ENCODER_DROPOUT)
        x_TD = self.encoder.embed(batch.input_ids, batch.layout, batch.type_ids, noise)
        x_TD = self.encoder.run(x_TD, batch.layout, noise, last=self.config.infusion_layer)
        x_TD = self.infusion(x_TD, batch.masked, batch.near)
        return self.encoder.run(x_TD, batch.layout, noise, first=self.config.infusion_layer)

    def outcome(self, batch: Any, *, measure: bool) -> Outcome:
        """Compute all terms on a batch."""
        hidden_TD = self.hidden(batch)
        found = self.text_terms(hidden_TD, batch, measure=measure)
        if self.config.neighbour_weight:
            found |= self._neighbours(hidden_TD, batch, measure)
        if self.config.mention_weight:
            found |= self._mentions(hidden_TD, batch, measure)
        return found | Outcome({}, {"mentions": batch.mentions, "lonely": batch.lonely} if measure else {})

    def _neighbours(self, hidden_TD: Tensor, batch: MentionBatch, measure: bool) -> Outcome:
        """Eq. 12 to 19."""
        assert self.mention is not None, "its weight is not 0"
        mentions_MC, pairs = self.mention(hidden_TD, batch.predicting), batch.pairs
        with torch.autocast(hidden_TD.device.type, enabled=False):
            scorer = self.known.scorer.to(hidden_TD.device)
            scores_PN = scorer.scores(mentions_MC.float(), pairs)
            logits_PN = scorer.logits(scores_PN, pairs)
            loss = (logits_PN.logsumexp(1) - logits_PN[:, 0]).sum()
        counts: dict[str, Tensor | int] = {}
        if measure:
            others_PN = scores_PN.masked_fill(~pairs.allowed, -torch.inf)[:, 1:]
            counts = {
                "mnem_correct": (scores_PN[:, 0] > others_PN.amax(1)).sum() if pairs.count else 0,
                "mnem_chance": (1.0 / pairs.allowed.sum(1)).sum(),
                "mnem_popular": pairs.popular.sum(),
            }
        return Outcome({"mnem": loss}, counts)

    def _mentions(self, hidden_TD: Tensor, batch: MentionBatch, measure: bool) -> Outcome:
        """Eq. 20 and 21."""
        assert self.mention is not None, "its weight is not 0"
        mentions_MC = self.mention(hidden_TD, batch.masked).float()
        with torch.no_grad():
            words = self.encoder.embeddings.word.weight.index_select(0, batch.masked_ids)
            places = torch.arange(len(words), device=words.device)
            target_MC = self.mention(words, replace(batch.masked, tokens=places)).float()
        loss = F.mse_loss(mentions_MC, target_MC, reduction="sum") / target_MC.shape[1]
        return Outcome({"mmem": loss}, _nearest(mentions_MC, target_MC, batch.masked_rows) if measure else {})

    @property
    def rate_names(self) -> tuple[str, ...]:
        """Names of the figures in `held_out_rates`."""
        own = ["lonely_rate"]
        if self.config.neighbour_weight:
            own += ["neighbour_accuracy", "neighbour_chance", "neighbour_popular"]
        if self.config.mention_weight:
            own += ["mention_accuracy", "mention_chance"]
        return (*super().rate_names, *own)

    def held_out_rates(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return accuracies with their chance levels, and the share of mentions without neighbours (`lonely_rate`).

        - neighbour: the neighbour has the highest score before log Q among its candidates; `neighbour_chance` is one of
          their number, `neighbour_popular` the accuracy of always taking the candidate with most neighbours.
        - mention: of the masked mentions of its row, a mention's state is nearest to its own target (or an equal one,
          of a mention in the same words); rows whose masked mentions are all the same words do not count.
        """
        found = super().held_out_rates(sums) | {"lonely_rate": ratio(sums["lonely"], sums["mentions"])}
        if self.config.neighbour_weight:
            for name, counted in (("accuracy", "correct"), ("chance", "chance"), ("popular", "popular")):
                found[f"neighbour_{name}"] = ratio(sums[f"mnem_{counted}"], sums["mnem_total"])
        if self.config.mention_weight:
            for name, counted in (("accuracy", "correct"), ("chance", "chance")):
                found[f"mention_{name}"] = ratio(sums[f"mmem_{counted}"], sums["mmem_compared"])
        return found

    def flops(self, batch: Any) -> float:
        """Return the floating-point operations of a training step on this batch."""
        width, size = self.config.hidden_size, self.config.entity_size
        total, masked, pairs = super().flops(batch), batch.masked, batch.pairs
        pooling, projection = width * size + size, width * size
        if self.infusion is not None:
            at_tokens = pooling + 4 * width * width
            # Query, two-layer network, type's mention side; mix and expand.
            at_mentions = projection + 2 * size * size + 8 * size * size + 4 * size * size + 2 * size * width
            total += 6.0 * (len(masked.tokens) * at_tokens + masked.count * at_mentions)
            total += 6.0 * (2 * len(batch.near.vectors) + batch.near.known.numel()) * size * size
        if self.mention is not None:
            tokens, mentions = len(masked.tokens) + len(batch.predicting.tokens), masked.count + batch.predicting.count
            total += 6.0 * (tokens * pooling + mentions * projection)
            # The relations are not learnt: one product forward, one backward.
            total += 4.0 * (len(pairs.mentions) * size * size + pairs.candidates.numel() * size)
        return total

    def row_bytes(self, precision: str) -> float:
        """Return the bytes of GPU memory that a row of the longest length takes in a training step.

        As if the row were one mention after the other, each with all neighbours.
        """
        config, number = self.config, number_bytes(precision)
        width, size = config.hidden_size, config.entity_size
        mentions = self.longest_row / TOKENS_OF_A_MENTION
        tokens = self.longest_row * (4 * number * width + 4 * (width + 2 * size))
        masked = config.masked_mentions * (
            tokens * 2 + mentions * 4 * (config.neighbours * 6 * size + 24 * size + width)
        )
        candidates = config.neighbours * (1 + config.negatives)
        return super().row_bytes(precision) + tokens + masked + mentions * 4 * candidates * (size + 8)

    @property
    def exports(self) -> tuple[str, ...]:
        """BERT's, and with infusion the encoder that reads knowledge."""
        return super().exports if self.infusion is None else (*super().exports, KNOWLEDGE_MODEL)

    def exported(self, name: str | None = None) -> Exported:
        """Return what `Bert.exported` does, or as "knowledge_model" the encoder with the infusion, without heads.

        Its configuration lacks the source of its knowledge, which the artifacts of a run tell.
        """
        if name != KNOWLEDGE_MODEL or self.infusion is None:
            return super().exported(name)
        return Exported(*exported(self.encoder, self.infusion))


class _Known:
    """Tables made of the arrays once for each process, beside the mapped files."""

    def __init__(self, knowledge: KnowledgeArrays, config: SMedBertConfig) -> None:
        self.knowledge = knowledge
        self.sampler = TypeSampler(knowledge, config.least_frequency)
        self.popularity = np.bincount(knowledge.neighbours, minlength=knowledge.num_entities).astype(np.int32)
        self.scorer = NeighbourScorer(knowledge, config.neighbour_score, config.score_scale)


def _nearest(mentions_MC: Tensor, target_MC: Tensor, rows_M: Tensor) -> dict[str, Tensor | int]:
    """Count the masked mentions that are nearest to their own target among those of their row."""
    if not len(rows_M):
        return {"mmem_correct": 0, "mmem_chance": 0, "mmem_compared": 0}
    of_row_MM = rows_M.unsqueeze(1) == rows_M.unsqueeze(0)
    same_MM = of_row_MM & (torch.cdist(target_MC, target_MC) < 1e-3)  # mentions in the same words
    distance_MM = torch.cdist(mentions_MC, target_MC).masked_fill(~of_row_MM, torch.inf)
    own_M = distance_MM.masked_fill(~same_MM, torch.inf).amin(1)
    other_M = distance_MM.masked_fill(same_MM, torch.inf).amin(1)
    chance_M = same_MM.sum(1) / of_row_MM.sum(1)
    compared_M = chance_M < 1.0
    return {
        "mmem_correct": ((own_M < other_M) & compared_M).sum(),
        "mmem_chance": chance_M[compared_M].sum(),
        "mmem_compared": compared_M.sum(),
    }
