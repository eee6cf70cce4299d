"""EMBERT: BERT with three objectives about entities (Cai et al., 2021, section 3).

    loss = (MLM + sentence order) + 2 consistency + 2 segmentation + 0.5 (atomic + adjective)                   (Eq. 10)

- Consistency: some entities of a row are replaced, half by a synonym, half by another entity of their type. The states
  of the tokens beside an entity decide which it was (Eq. 1 to 3).
- Segmentation: each token of a long entity is the last one of a sub-entity or not (Eq. 4 and 5).
- Bidirectional masking: of some long entities the atomic or the adjective term is masked, and its tokens are predicted
  from the first and the last state of the other term (Eq. 6 to 9).

All losses are of one pass: a replaced entity is neither masked by MLM nor for its terms, and MLM leaves entities with a
masked term alone. Eq. 3 is a mean, Eq. 5 and 8 are printed as sums; here all are means over the global batch, as those
of BERT are, so that Eq. 9 adds two means. Entities kept for evaluation (`unseen`) have figures of their own.

Shape legend: T tokens laid end to end, N entities or tokens that a head judges, D hidden size, E embedding size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from models.batch import row_numbers
from models.objectives.base import Outcome, Term, ratio
from models.objectives.bert.objective import Bert
from models.objectives.embert.config import EmbertConfig
from models.objectives.embert.entity_batch import (
    EntityBatch,
    Targets,
    choose_terms,
    entity_batch,
    no_terms,
    spared_tokens,
)
from models.objectives.embert.entity_rows import EntityRows, exchanged, replaced
from models.objectives.embert.heads import ConsistencyHead, SegmentationHead, TermHead
from models.objectives.embert.surfaces import EntitySurfaces
from models.objectives.parts.lm_head import tied_loss
from models.training.columns import SECOND, WORDS, Column, Spans
from models.training.memory import number_bytes
from models.training.tasks import Task

ENTITIES = Spans("entities")
"""Entities of a row: first token, token behind the last, number of the surface."""
TERMS = ("atomic", "adjective")


class Embert(Bert):
    """BERT with heads for consistency, segmentation and terms; `attach` gives it the surfaces of the entities."""

    name = "embert"
    flops_formula = (
        f"{Bert.flops_formula} + 6 x weights of each entity head x the entities or tokens that it judges + 6 x table x "
        "masked tokens of terms"
    )
    config: EmbertConfig

    def __init__(self, config: EmbertConfig) -> None:
        super().__init__(config)
        sizes = config.encoder
        self.consistency = ConsistencyHead(sizes) if config.consistency_weight else None
        self.segmentation = SegmentationHead(sizes) if config.segmentation_weight else None
        self.term = None
        if config.bidirectional_weight:
            self.term = TermHead(sizes, config.term_positions, config.term_position_size)
        self._surfaces: EntitySurfaces | None = None

    def attach(self, name: str, folder: Path) -> None:
        """Map the surfaces of the entities that the examples name; `name` is "entity_surfaces".

        Raises:
            UserError: a file is missing or damaged.
            ValueError: `name` is another.
        """
        super().attach(name, folder)
        self._surfaces = EntitySurfaces.open(folder)

    @property
    def surfaces(self) -> EntitySurfaces:
        """Surfaces of the entities. Raises ValueError if none were attached."""
        if self._surfaces is None:
            raise ValueError('embert needs entity_surfaces: call attach("entity_surfaces", folder) before collate')
        return self._surfaces

    @property
    def columns(self) -> tuple[Column, ...]:
        """Words, entities, and where the second sentence begins."""
        return (*WORDS, SECOND, ENTITIES)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The only task, on the table `entity_examples`."""
        return (Task(self.name, self.columns, "entity_examples", "held_out_entity_examples"),)

    @property
    def terms(self) -> tuple[Term, ...]:
        """BERT's terms and those that are on."""
        config = self.config
        found = [
            Term("consistency", "entity consistency", config.consistency_weight),
            Term("segmentation", "entity segmentation", config.segmentation_weight),
            Term("atomic", "atomic term from adjective", config.bidirectional_weight),
            Term("adjective", "adjective term from atomic", config.bidirectional_weight),
        ]
        return (*super().terms, *(term for term in found if term.weight))

    def collate(
        self,
        rows: Sequence[Mapping[str, Any] | Any],
        *,
        seed: int,
        step: int,
        row_indices: Sequence[int] | np.ndarray | None = None,
    ) -> EntityBatch:
        """Return the rows with entities replaced, sentences exchanged, words and terms masked, packed.

        Raises:
            ValueError: no surfaces were attached, or a row's entities do not fit them; the message names the row.
        """
        config, surfaces = self.config, self.surfaces
        indices = row_numbers(rows, row_indices)
        laid = EntityRows.of(rows, indices, surfaces)
        draws = {"seed": seed, "step": step}
        if self.consistency is not None:
            share, longest = config.replaced_share, config.max_positions
            as_frequent = config.wrong_entity == "as_frequent"
            laid = replaced(laid, surfaces, **draws, probability=share, longest=longest, as_frequent=as_frequent)
        labels = self.order_labels(indices, seed, step)
        laid = exchanged(laid, labels.astype(bool))
        masked_terms = no_terms()
        if self.term is not None:
            masked_terms = choose_terms(laid, surfaces, **draws, probability=config.masked_terms)
        batch = self.packed(laid.as_rows(), indices, labels, **draws, spared=spared_tokens(laid, masked_terms))
        return entity_batch(batch, laid, surfaces, masked_terms)

    def divisors(self, batch: Any) -> dict[str, int]:
        """Selected tokens, sequences, replaced entities, tokens of long entities, and masked tokens of terms."""
        return {
            **super().divisors(batch),
            "consistency": len(batch.consistency["labels"]),
            "segmentation": len(batch.segmentation["labels"]),
            **{name: len(getattr(batch, name)["original"]) for name in TERMS},
        }

    def outcome(self, batch: Any, *, measure: bool) -> Outcome:
        """Compute all terms on a batch."""
        hidden_TD = self.hidden(batch)
        found = self.text_terms(hidden_TD, batch, measure=measure)
        if self.consistency is not None:
            beside = (hidden_TD.index_select(0, batch.consistency[side]) for side in ("before", "after"))
            found |= _judged("consistency", self.consistency(*beside), batch.consistency, measure)
        if self.segmentation is not None:
            logits_N2 = self.segmentation(hidden_TD.index_select(0, batch.segmentation["tokens"]))
            found |= _judged("segmentation", logits_N2, batch.segmentation, measure)
        for name in TERMS if self.term is not None else ():
            found |= self._restored(name, hidden_TD, getattr(batch, name), measure)
        return found

    def _restored(self, name: str, hidden_TD: Tensor, targets: Targets, measure: bool) -> Outcome:
        """Predict the tokens of one term, Eq. 6 to 8."""
        assert self.term is not None, "its weight is not 0"
        sources = (hidden_TD.index_select(0, targets[place]) for place in ("first", "last"))
        y_NE = self.term(*sources, targets["offsets"])
        table_VE, vocabulary = self.encoder.embeddings.word.weight, self.config.vocab_size
        restored = tied_loss(y_NE, table_VE, targets["original"], vocabulary, count_correct=measure)
        counts: dict[str, Tensor | int] = {}
        if measure:
            unseen = targets["unseen"]
            own, original = y_NE[unseen], targets["original"][unseen]
            guess = int(self.surfaces.commonest[TERMS.index(name)])
            counts = {
                f"{name}_correct": restored.correct,
                f"{name}_commonest": (targets["original"] == guess).sum(),
                f"{name}_unseen": len(own),
                f"{name}_unseen_correct": tied_loss(own, table_VE, original, vocabulary, count_correct=True).correct,
                f"{name}_unseen_commonest": (original == guess).sum(),
            }
        return Outcome({name: restored.loss_sum}, counts)

    @property
    def rate_names(self) -> tuple[str, ...]:
        """Names of the figures in `held_out_rates`."""
        names = [term.name for term in self.terms if term.name in (*TERMS, "consistency", "segmentation")]
        kinds = ("accuracy", "chance", "unseen_accuracy", "unseen_chance", "unseen_count")
        return (*super().rate_names, *(f"{name}_{kind}" for name in names for kind in kinds))

    def held_out_rates(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return accuracies of all entities and of unseen ones, with their chance levels and the number of the latter.

        Chance is the accuracy of the best constant answer: of two classes the more frequent one among those judged, of
        tokens the one that is most frequent in such terms of the whole corpus.
        """
        found = super().held_out_rates(sums)
        for term in self.terms:
            name = term.name
            if f"{name}_unseen" not in sums:
                continue
            for kind, total in (("", sums[f"{name}_total"]), ("_unseen", sums[f"{name}_unseen"])):
                guess = sums.get(f"{name}{kind}_commonest", 0.0)
                if name not in TERMS:
                    positive = sums[f"{name}{kind}_positive"]
                    guess = max(positive, total - positive)
                found[f"{name}{kind}_accuracy"] = ratio(sums[f"{name}{kind}_correct"], total)
                found[f"{name}{kind}_chance"] = ratio(guess, total)
            found[f"{name}_unseen_count"] = sums[f"{name}_unseen"]
        return {name: found[name] for name in self.rate_names}

    def flops(self, batch: Any) -> float:
        """Return the floating-point operations of a training step on this batch."""
        width, table = self.config.hidden_size, self.config.encoder.embedding_width * self.config.vocab_size
        total, counts = super().flops(batch), self.divisors(batch)
        if self.consistency is not None:
            total += 6.0 * counts["consistency"] * (2 * width * width + 2 * width)
        if self.segmentation is not None:
            total += 6.0 * counts["segmentation"] * (2 * width * width + 2 * width)
        if self.term is not None:
            weights = self.term.first.weight.numel() + self.term.second.weight.numel() + table
            total += 6.0 * (counts["atomic"] + counts["adjective"]) * weights
        return total

    def row_bytes(self, precision: str) -> float:
        """Return the bytes of GPU memory that a row of the longest length takes in a training step.

        As if the row were one long entity: every token is judged by segmentation, and its share of terms restored.
        """
        number, width = number_bytes(precision), self.config.hidden_size
        judged = (3 * number + 8) * width
        restored = (3 * number + 8) * width + 12 * self.config.encoder.table_rows
        return super().row_bytes(precision) + self.longest_row * (judged + self.config.masked_terms / 2 * restored)


def _judged(name: str, logits_N2: Tensor, targets: Targets, measure: bool) -> Outcome:
    """Compare logits of two classes with their labels."""
    labels_N, unseen_N = targets["labels"], targets["unseen"]
    counts: dict[str, Tensor | int] = {}
    if measure:
        right_N = logits_N2.argmax(1) == labels_N
        counts = {
            f"{name}_correct": right_N.sum(),
            f"{name}_positive": labels_N.sum(),
            f"{name}_unseen": unseen_N.sum(),
            f"{name}_unseen_correct": right_N[unseen_N].sum(),
            f"{name}_unseen_positive": labels_N[unseen_N].sum(),
        }
    return Outcome({name: F.cross_entropy(logits_N2, labels_N, reduction="sum")}, counts)
