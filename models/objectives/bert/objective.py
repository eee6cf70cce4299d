"""BERT: one encoder restores masked tokens and, if asked, judges pairs of sentences (Devlin et al., 2019, sec. 3.1).

    loss = MLM + pair_weight x (NSP or SOP)

- MLM: the selected tokens are restored from the last hidden states, through a dense layer and the tied word table.
- NSP: the pooled [CLS] decides whether the second sentence follows the first in the text (label 0) or comes from
  another document (label 1). The examples say which.
- SOP: it decides whether both sentences are in the order of the text (label 0) or exchanged (label 1; Lan et al.,
  2020, "ALBERT", section 3.1). Half of the pairs are exchanged, by a draw for each row and step.

CMed-BERT is this objective with NSP, rows of 384 tokens and at most 77 predictions (CMedLMs, Table 3).

Shape legend: S sequences, T tokens laid end to end, M selected tokens, D hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.batch import MaskedBatch, Masking, collate_masked, field_of, row_numbers
from models.encoder.linear import Linear
from models.encoder.network import Encoder, initialise
from models.encoder.randomness import Stream
from models.objectives.base import Exported, HeadReader, Outcome, Start, Term, TermwiseObjective, ratio
from models.objectives.bert.config import BertObjectiveConfig
from models.objectives.parts.cost import encoder_flops, head_bytes, head_flops, table_bytes
from models.objectives.parts.lm_head import LanguageModelHead
from models.objectives.parts.noise import StepNoise
from models.objectives.parts.pair_order import by_sequence, exchanged, order_labels
from models.training.columns import SECOND, WORDS, Column, Value
from models.training.memory import encoder_bytes, number_bytes
from models.training.tasks import Task
from models.weights.convert import to_transformers, transformers_config
from models.weights.heads import layer_from, renamed

IS_RANDOM = Value("is_random")
"""Whether the second sentence of a pair comes from another document."""
PAIRS = {
    "nsp": Term("nsp", "next sentence prediction"),
    "sop": Term("sop", "sentence order prediction"),
}


class Bert(TermwiseObjective):
    """An encoder with the vocabulary head and, for pairs, BERT's pooler and a classifier of two classes."""

    name = "bert"
    flops_formula = (
        "6 x (weights of the dense layers) x tokens + 12 x layers x width x sum of length^2 + 6 x (table + head's "
        "dense layer) x selected tokens"
    )

    def __init__(self, config: BertObjectiveConfig) -> None:
        super().__init__()
        self.config = config
        sizes = config.encoder
        self.encoder = Encoder(sizes)
        self.head = LanguageModelHead(sizes)
        paired = config.pair_task != "none"
        self.pooler = Linear(sizes.hidden_size, sizes.hidden_size) if paired else None
        self.pair_output = Linear(sizes.hidden_size, 2) if paired else None
        for part in (self.pooler, self.pair_output):
            if part is not None:
                initialise(part, config.initializer_range)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Words; of pairs also where the second sentence begins, and for NSP whether it is a random one."""
        return {"none": WORDS, "sop": (*WORDS, SECOND), "nsp": (*WORDS, SECOND, IS_RANDOM)}[self.config.pair_task]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The only task: on single segments, or on pairs where there is a pair task."""
        tables = ("examples", "held_out") if self.config.pair_task == "none" else ("pairs", "held_out_pairs")
        return (Task(self.name, self.columns, *tables),)

    @property
    def terms(self) -> tuple[Term, ...]:
        """MLM, and the pair task where there is one."""
        mlm = Term("mlm", "masked language modelling")
        if self.config.pair_task == "none":
            return (mlm,)
        pair = PAIRS[self.config.pair_task]
        return (mlm, Term(pair.name, pair.title, self.config.pair_weight))

    def collate(
        self,
        rows: Sequence[Mapping[str, Any] | Any],
        *,
        seed: int,
        step: int,
        row_indices: Sequence[int] | np.ndarray | None = None,
    ) -> MaskedBatch:
        """Return the rows masked and packed, one sequence each; of pairs with the labels in `extras["pair_labels"]`.

        Raises ValueError for a row that is no pair where pairs are asked for.
        """
        indices = row_numbers(rows, row_indices)
        if self.config.pair_task == "nsp":
            labels = np.array([int(field_of(row, "is_random")) for row in rows], dtype=np.int64)
        else:
            labels = self.order_labels(indices, seed, step)
            rows = [exchanged(row) if label else row for row, label in zip(rows, labels, strict=True)]
        return self.packed(rows, indices, labels, seed=seed, step=step)

    def order_labels(self, indices: np.ndarray, seed: int, step: int) -> np.ndarray:
        """Return which rows to exchange the sentences of, int64 (B,): those with a 1; none but for the task sop."""
        if self.config.pair_task == "sop":
            return order_labels(seed, step, indices)
        return np.zeros(len(indices), dtype=np.int64)

    def packed(
        self,
        rows: Sequence[Mapping[str, Any] | Any],
        indices: np.ndarray,
        labels: np.ndarray,
        *,
        seed: int,
        step: int,
        spared: Sequence[np.ndarray] | None = None,
    ) -> MaskedBatch:
        """Return rows masked and packed, one sequence each, with the labels of the pair task if there is one.

        Args:
            rows: in the order that the labels say.
            indices: int64 (B,), their global numbers.
            labels: int64 (B,).
            spared: for each row, bool (its length,), tokens that must not be masked.
        """
        config = self.config
        batch = collate_masked(
            rows,
            seed=seed,
            step=step,
            row_indices=indices,
            views=1,
            vocab_size=config.vocab_size,
            max_positions=config.max_positions,
            masking=Masking(
                probability=config.mask_probability, most=config.max_predictions, whole_words=config.whole_words
            ),
            spared=spared,
        )
        if config.pair_task == "none":
            return batch
        return batch.with_extras(pair_labels=by_sequence(labels, indices, batch.rows))

    def divisors(self, batch: MaskedBatch) -> dict[str, int]:
        """Selected tokens for MLM, sequences for the pair task."""
        return {"mlm": len(batch.original), self.config.pair_task: batch.sequences}

    def outcome(self, batch: MaskedBatch, *, measure: bool) -> Outcome:
        """Compute both terms on a batch."""
        return self.text_terms(self.hidden(batch), batch, measure=measure)

    def hidden(self, batch: MaskedBatch) -> Tensor:
        """Return the encoder's states (T, D)."""
        noise = StepNoise(batch, self.training).dropout(Stream.ENCODER_DROPOUT)
        return self.encoder(batch.input_ids, batch.layout, batch.type_ids, noise)

    def text_terms(self, hidden_TD: Tensor, batch: MaskedBatch, *, measure: bool) -> Outcome:
        """Compute MLM, and the pair task where there is one, from the encoder's states."""
        # Only selected positions meet the vocabulary: 15 % of the logits that all positions would take.
        hidden_MD = hidden_TD.index_select(0, batch.selected)
        restored = self.head(hidden_MD, self.encoder.embeddings.word.weight, batch.original, count_correct=measure)
        sums, counts = {"mlm": restored.loss_sum}, {"mlm_correct": restored.correct}
        if self.pooler is not None and self.pair_output is not None:
            pooled_SD = torch.tanh(self.pooler(hidden_TD.index_select(0, batch.layout.firsts)))
            logits_S2, labels_S = self.pair_output(pooled_SD).float(), batch.extras["pair_labels"]
            name = self.config.pair_task
            sums[name] = F.cross_entropy(logits_S2, labels_S, reduction="sum")
            counts[f"{name}_correct"] = (logits_S2.argmax(1) == labels_S).sum()
        return Outcome(sums, counts)

    @property
    def rate_names(self) -> tuple[str, ...]:
        """Names of the figures in `held_out_rates`."""
        pair = self.config.pair_task
        return ("mlm_accuracy", "selected_rate", *(() if pair == "none" else (f"{pair}_accuracy", f"{pair}_chance")))

    def held_out_rates(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return accuracies: of MLM over selected tokens, of the pair task over pairs (chance 0.5)."""
        found = {
            "mlm_accuracy": ratio(sums["mlm_correct"], sums["mlm_total"]),
            "selected_rate": ratio(sums["mlm_total"], sums["tokens"]),
        }
        pair = self.config.pair_task
        if pair != "none":
            found |= {f"{pair}_accuracy": ratio(sums[f"{pair}_correct"], sums[f"{pair}_total"]), f"{pair}_chance": 0.5}
        return found

    def flops(self, batch: MaskedBatch) -> float:
        """Return the floating-point operations of a training step on this batch."""
        sizes = self.config.encoder
        return encoder_flops(sizes, batch.layout.lengths) + head_flops(sizes, len(batch.original))

    def row_bytes(self, precision: str) -> float:
        """Return the bytes of GPU memory that a row of the longest length takes in a training step."""
        sizes, share = self.config.encoder, self.config.mask_probability
        kept = encoder_bytes(sizes, precision)
        return self.longest_row * (kept + share * head_bytes(sizes, number_bytes(precision)))

    def workspace_bytes(self) -> float:
        """Return the bytes of GPU memory needed beside weights and rows."""
        return table_bytes(self.config.encoder)

    @property
    def start(self) -> Start:
        """The encoder and its heads; poolers are read from bare models and from models with heads."""

        def pooler(state: Mapping[str, Tensor], model_type: str, order_V: Tensor) -> dict[str, Tensor]:
            return layer_from(state, "pooler.dense") or layer_from(state, f"{model_type}.pooler.dense")

        def pairs(state: Mapping[str, Tensor], model_type: str, order_V: Tensor) -> dict[str, Tensor]:
            return layer_from(state, "cls.seq_relationship")

        heads: dict[str, HeadReader] = {"head": self.head.read}
        return Start("encoder", heads=heads | ({} if self.pooler is None else {"pooler": pooler, "pair_output": pairs}))

    @property
    def exports(self) -> tuple[str, ...]:
        """The bare encoder, and the same with its heads."""
        return ("encoder", "pre_training")

    def exported(self, name: str | None = None) -> Exported:
        """Return the encoder (with its pooler where it has one), or as "pre_training" with all heads.

        The classes are transformers' `BertModel` and `BertForPreTraining` (`BertForMaskedLM` without a pair task), or
        RoFormer's, which have no pooler, where positions are rotary.
        """
        config = transformers_config(self.config.encoder, "bert")
        rotary = self.config.positions == "rotary"
        state = to_transformers(self.encoder)
        if self.pooler is not None and not rotary:
            state |= renamed(self.pooler, "pooler.dense")
        if self.check_export(name) == "encoder":
            return Exported(config, state)
        kind = config.model_type
        state = {f"{kind}.{key}": value for key, value in state.items()} | self.head.exported("bert")
        if rotary or self.pair_output is None:
            config.architectures = ["RoFormerForMaskedLM" if rotary else "BertForMaskedLM"]
        else:
            config.architectures = ["BertForPreTraining"]
            state |= renamed(self.pair_output, "cls.seq_relationship")
        return Exported(config, state)
