"""ELECTRA+EM+PAP (Liu et al., 2023): ELECTRA with entity masking, and product attribute prediction.

    RTD step: loss = MLM + rtd_weight x RTD, words and entities masked whole (section 3.1, Equation 1)
    PAP step: loss = PAP (section 3.2, Equations 2 and 3)

Each step is one of the two: PAP with probability `pap_share` (Algorithm 1). PAP encodes titles, attribute names and
values with the discriminator; the generator, its head and RTD's head take no part in it, nor PAP's head in RTD.

Every selected token becomes [MASK], as the paper says, where ELECTRA's own code keeps 15 % of them. Words and entities
are selected independently with `mask_probability`, so every place of a row is selected equally often.

Shape legend: S sequences, T tokens laid end to end, N values, D hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.batch import MaskedBatch, PackedBatch, field_of
from models.encoder.randomness import Stream
from models.masking import WHOLE, join_spans
from models.objectives.base import Outcome, Term, TermwiseObjective, ratio
from models.objectives.electra.objective import Electra
from models.objectives.electra_em_pap.attributes import (
    AttributeHead,
    attribute_loss,
    distances,
    farther_negatives,
)
from models.objectives.electra_em_pap.config import NEGATIVES, PAP, PRODUCTS, RTD, ElectraEmPapConfig
from models.objectives.electra_em_pap.pairs import Drawing, PairBatch, collate_pairs
from models.objectives.electra_em_pap.values import VALUES, ProductValues
from models.objectives.parts.cost import encoder_flops
from models.objectives.parts.noise import StepNoise
from models.training.columns import INPUT_IDS, MENTIONS, WORDS, Column, Numbers, Second, Value
from models.training.memory import encoder_bytes, number_bytes
from models.training.tasks import Task

PAIRS: tuple[Column, ...] = (INPUT_IDS, Second("second", follows=False), Value("attribute"), Numbers("values"))
"""A title, and the name of the attribute that it is asked for."""


class ElectraEmPap(Electra):
    """ELECTRA's two networks, and a projection for the distances of PAP."""

    name = "electra_em_pap"
    replacement = WHOLE
    flops_formula = (
        f"in RTD steps: {Electra.flops_formula}; in PAP steps: 6 x (weights of the discriminator's dense layers) x "
        "tokens + 12 x layers x width x sum of length^2 + 6 x (projection) x sequences"
    )
    config: ElectraEmPapConfig

    def __init__(self, config: ElectraEmPapConfig) -> None:
        super().__init__(config)
        self.pap_head = AttributeHead(config.hidden_size, config.initializer_range) if config.pap_share else None
        self._values: ProductValues | None = None

    def attach(self, name: str, folder: Path) -> None:
        """Take the values of products: `folder` is that of an artifact of the stage `products`."""
        super().attach(name, folder)
        self._values = ProductValues.load(folder / VALUES)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """RTD on text, and PAP on pairs of title and attribute."""
        rtd = Task(RTD, (*WORDS, MENTIONS) if self.config.entity_masking else WORDS)
        pap = Task(PAP, PAIRS, PRODUCTS, f"held_out_{PRODUCTS}")
        return (rtd, pap) if self.config.pap_share else (rtd,)

    @property
    def terms(self) -> tuple[Term, ...]:
        """MLM and RTD, and PAP where there is some."""
        pap = (Term(PAP, "product attribute prediction"),)
        return super().terms + (pap if self.config.pap_share else ())

    def collate(
        self,
        rows: Sequence[Mapping[str, Any] | Any],
        *,
        seed: int,
        step: int,
        row_indices: Sequence[int] | np.ndarray | None = None,
        task: str = RTD,
    ) -> Any:
        """Return the rows as a batch of a task: masked text, or pairs with their values.

        Raises:
            ValueError: a row does not fit; for PAP also, the values were not attached.
        """
        if task == PAP:
            return self._pairs(rows, seed, step, row_indices)
        if self.config.entity_masking:
            rows = [_with_entities(row) for row in rows]
        return super().collate(rows, seed=seed, step=step, row_indices=row_indices)

    def _pairs(self, rows: Any, seed: int, step: int, row_indices: Any) -> PairBatch:
        if self._values is None:
            raise ValueError("product attribute prediction needs the values of the products: attach them first")
        config = self.config
        drawing = Drawing(
            most_values=config.most_values,
            negatives=config.negatives_per_value,
            by_frequency=NEGATIVES[config.negatives],
            shared=config.shared_negatives,
        )
        batch = collate_pairs(rows, self._values, seed=seed, step=step, row_indices=row_indices, drawing=drawing)
        longest, largest = max(batch.layout.lengths), int(batch.input_ids.max())
        if longest > config.max_positions:
            raise ValueError(
                f"a title or value has {longest} tokens, max_positions is {config.max_positions}; set "
                "products.max_length to it, or raise max_positions"
            )
        if largest >= config.vocab_size:
            raise ValueError(
                f"a title or value has id {largest}, but vocab_size is {config.vocab_size}; encode the products with "
                "the vocabulary that the model was built for"
            )
        return batch

    def divisors(self, batch: PackedBatch) -> dict[str, int]:
        """Triples of title, attribute and value for PAP; selected tokens for MLM, all tokens for RTD."""
        return {PAP: batch.positives} if isinstance(batch, PairBatch) else super().divisors(_masked(batch))

    def outcome(self, batch: PackedBatch, *, measure: bool) -> Outcome:
        """Compute the terms of the batch's task."""
        return (
            self._ranked(batch, measure)
            if isinstance(batch, PairBatch)
            else super().outcome(_masked(batch), measure=measure)
        )

    def _ranked(self, batch: PairBatch, measure: bool) -> Outcome:
        assert self.pap_head is not None, "without PAP there is no such batch"
        noise = StepNoise(batch, self.training).dropout(Stream.DISCRIMINATOR_DROPOUT)
        states_TD = self.discriminator(batch.input_ids, batch.layout, batch.type_ids, noise)
        projected_SD = self.pap_head(states_TD.index_select(0, batch.layout.firsts))
        distance_N = distances(projected_SD, batch, self.config.distance_norm)
        counts: dict[str, Any] = {}
        if measure:
            farther, comparisons = farther_negatives(distance_N, batch)
            counts = {"pap_farther": farther, "pap_comparisons": comparisons}
        return Outcome({PAP: attribute_loss(distance_N, batch, self.config.margin)}, counts)

    def step_figures(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the loss of a PAP step, or the losses of an RTD step with what RTD found."""
        return TermwiseObjective.step_figures(self, values) if PAP in values else super().step_figures(values)

    @property
    def rate_names(self) -> tuple[str, ...]:
        """Names of the figures in `held_out_rates`."""
        return super().rate_names + (("pap_accuracy", "pap_chance") if self.config.pap_share else ())

    def held_out_rates(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return accuracies; PAP's is the share of (right, wrong) values of a pair that are in the right order."""
        if "pap_comparisons" not in sums:
            return super().held_out_rates(sums)
        return {"pap_accuracy": ratio(sums["pap_farther"], sums["pap_comparisons"]), "pap_chance": 0.5}

    def flops(self, batch: PackedBatch) -> float:
        """Return the floating-point operations of a training step on this batch."""
        if not isinstance(batch, PairBatch):
            return super().flops(_masked(batch))
        projection = 6.0 * batch.sequences * self.config.hidden_size**2
        return encoder_flops(self.config.discriminator, batch.layout.lengths) + projection

    def row_bytes_of(self, task: str, precision: str) -> float:
        """Return the bytes of a row of a task: of PAP a pair with all values that a step can compare it with.

        The pair is as long as the model reads. Its values are distinct, so they have no more tokens than as many of the
        longest ones that were attached.
        """
        if task != PAP:
            return self.row_bytes(precision)
        sizes, number = self.config.discriminator, number_bytes(precision)
        most = self.config.most_values
        # No batch shares more negatives than each of its pairs would have alone, one attribute each.
        values = most + (self.config.shared_negatives or most * self.config.negatives_per_value)
        tokens = self.longest_row * (1 + values)
        if self._values is not None:
            tokens = min(tokens, self.longest_row + self._values.most_tokens(values))
        projected = (3 * number + 12) * sizes.hidden_size  # the dense layer, GELU, and a difference in float32
        return tokens * encoder_bytes(sizes, precision) + (1 + values) * projected


def _with_entities(row: Mapping[str, Any] | Any) -> dict[str, Any]:
    """Return a row in which every mention of an entity is a word of its own, to be masked whole."""
    ids, starts, mentions = (field_of(row, name) for name in ("input_ids", "word_starts", "mentions"))
    if len(mentions):
        starts = join_spans(starts, np.asarray(mentions)[:, :2], len(ids))
    return {"input_ids": ids, "word_starts": starts}


def _masked(batch: PackedBatch) -> MaskedBatch:
    assert isinstance(batch, MaskedBatch), "a batch is of one task or of the other"
    return batch
