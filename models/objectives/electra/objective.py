"""ELECTRA: a generator proposes tokens, a discriminator detects them (Clark et al., 2020, sec. 2).

    loss = MLM + rtd_weight x RTD

- MLM: the generator restores the selected tokens.
- RTD: the discriminator decides for every token, [CLS] and [SEP] included, whether a sample of the generator stands
  there in place of the original. A sample that equals the original counts as untouched.

One view of each row; both networks share one embedding block. (eHealth with MTS and CSP switched off is another model:
it has two views of each row.)

Shape legend: S sequences, T tokens laid end to end, M selected tokens, D hidden size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.batch import MaskedBatch, Masking, collate_masked
from models.encoder.network import Encoder, initialise
from models.encoder.randomness import Stream
from models.masking import ELECTRA, Replacement
from models.objectives.base import Exported, HeadReader, Outcome, Start, Term, TermwiseObjective, ratio
from models.objectives.electra.config import ElectraObjectiveConfig
from models.objectives.parts.cost import encoder_flops, head_bytes, head_flops, table_bytes
from models.objectives.parts.lm_head import LanguageModelHead
from models.objectives.parts.noise import StepNoise
from models.objectives.parts.replaced_token import ReplacedTokenHead
from models.training.memory import encoder_bytes, number_bytes
from models.weights.convert import to_transformers, transformers_config
from models.weights.heads import renamed


class Electra(TermwiseObjective):
    """Generator and discriminator on one embedding block."""

    name = "electra"
    replacement: ClassVar[Replacement] = ELECTRA
    """What takes the place of a selected token."""
    flops_formula = (
        "6 x (weights of the dense layers of both networks) x tokens + 12 x layers x width x sum of length^2 for each "
        "network + 6 x (table + generator's dense layer) x selected tokens + 6 x (RTD's dense layer) x tokens"
    )

    def __init__(self, config: ElectraObjectiveConfig) -> None:
        super().__init__()
        self.config = config
        self.discriminator = Encoder(config.discriminator)
        self.generator = Encoder(config.generator, embeddings=self.discriminator.embeddings)
        self.generator_head = LanguageModelHead(config.generator)
        self.rtd_head = ReplacedTokenHead(config.discriminator)
        self.rtd_head.apply(lambda module: initialise(module, config.initializer_range))

    @property
    def terms(self) -> tuple[Term, ...]:
        """MLM and RTD."""
        mlm = Term("mlm", "masked language modelling (generator)")
        return (mlm, Term("rtd", "replaced token detection", self.config.rtd_weight))

    def collate(
        self,
        rows: Sequence[Mapping[str, Any] | Any],
        *,
        seed: int,
        step: int,
        row_indices: Sequence[int] | np.ndarray | None = None,
    ) -> MaskedBatch:
        """Return the rows masked and packed, one sequence each."""
        return collate_masked(
            rows,
            seed=seed,
            step=step,
            row_indices=row_indices,
            views=1,
            vocab_size=self.config.vocab_size,
            max_positions=self.config.max_positions,
            masking=Masking(
                probability=self.config.mask_probability,
                replacement=self.replacement,
                whole_words=self.config.whole_words,
            ),
        )

    def divisors(self, batch: MaskedBatch) -> dict[str, int]:
        """Selected tokens for MLM, all tokens for RTD."""
        return {"mlm": len(batch.original), "rtd": batch.tokens}

    def outcome(self, batch: MaskedBatch, *, measure: bool) -> Outcome:
        """Compute both terms on a batch."""
        noise = StepNoise(batch, self.training)
        hidden_TD = self.generator(batch.input_ids, batch.layout, noise=noise.dropout(Stream.GENERATOR_DROPOUT))
        hidden_MD = hidden_TD.index_select(0, batch.selected)
        table = self.discriminator.embeddings.word.weight
        proposed = self.generator_head(hidden_MD, table, batch.original, noise.uniforms(1), measure)
        replaced_M = proposed.sample != batch.original
        corrupted_T = batch.input_ids.index_copy(0, batch.selected, proposed.sample)
        states_TD = self.discriminator(corrupted_T, batch.layout, noise=noise.dropout(Stream.DISCRIMINATOR_DROPOUT))
        logits_T = self.rtd_head(states_TD).float()
        labels_T = torch.zeros_like(logits_T).index_copy(0, batch.selected, replaced_M.float())
        detection = F.binary_cross_entropy_with_logits(logits_T, labels_T, reduction="sum")
        counts = self._detected(logits_T.detach(), labels_T.bool())
        counts |= {"replaced": replaced_M.sum(), "all_tokens": batch.tokens, "mlm_correct": proposed.correct}
        return Outcome({"mlm": proposed.loss_sum, "rtd": detection}, counts)

    def step_figures(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return the losses of a step, the share of replaced tokens, and RTD's recall and precision at one half."""
        return super().step_figures(values) | {
            "replaced_rate": ratio(values["replaced"], values["all_tokens"]),
            "rtd_recall": ratio(values["rtd_hits"], values["replaced"]),
            "rtd_precision": ratio(values["rtd_hits"], values["rtd_found"]),
        }

    @property
    def rate_names(self) -> tuple[str, ...]:
        """Names of the figures in `held_out_rates`."""
        rtd = ("rtd_recall", "rtd_precision", "rtd_balanced_accuracy", "rtd_chance")
        return ("mlm_accuracy", "selected_rate", "replaced_rate", *rtd)

    def held_out_rates(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return accuracies; `rtd_balanced_accuracy` is the mean of the recalls on replaced and on untouched tokens."""
        tokens, replaced = sums["tokens"], sums["replaced"]
        sensitivity = ratio(sums["rtd_suspected_hits"], replaced)
        specificity = 1.0 - ratio(sums["rtd_suspected_false"], tokens - replaced)
        return {
            "mlm_accuracy": ratio(sums["mlm_correct"], sums["mlm_total"]),
            "selected_rate": ratio(sums["mlm_total"], tokens),
            "replaced_rate": ratio(replaced, tokens),
            "rtd_recall": ratio(sums["rtd_hits"], replaced),
            "rtd_precision": ratio(sums["rtd_hits"], sums["rtd_found"]),
            "rtd_balanced_accuracy": (sensitivity + specificity) / 2.0,
            "rtd_chance": 0.5,
        }

    def flops(self, batch: MaskedBatch) -> float:
        """Return the floating-point operations of a training step on this batch."""
        both = (self.config.generator, self.config.discriminator)
        networks = sum(encoder_flops(sizes, batch.layout.lengths) for sizes in both)
        detector = 6.0 * batch.tokens * self.config.hidden_size**2
        return networks + head_flops(self.config.generator, len(batch.original)) + detector

    def row_bytes(self, precision: str) -> float:
        """Return the bytes of GPU memory that a row of the longest length takes in a training step."""
        sizes, number = self.config.discriminator, number_bytes(precision)
        kept = encoder_bytes(self.config.generator, precision) + encoder_bytes(sizes, precision)
        kept += (3 * number + 4) * sizes.hidden_size  # the detector's dense layer
        return self.longest_row * (kept + self.config.mask_probability * head_bytes(self.config.generator, number))

    def workspace_bytes(self) -> float:
        """Return the bytes of GPU memory needed beside weights and rows."""
        return table_bytes(self.config.discriminator)

    @property
    def start(self) -> Start:
        """The discriminator, the generator where it is as wide, and their heads."""
        detector: dict[str, HeadReader] = {"rtd_head": self.rtd_head.read}
        return Start("discriminator", "generator", {"generator_head": self.generator_head.read} | detector)

    @property
    def exports(self) -> tuple[str, ...]:
        """The bare discriminator, the same with its head, and the generator with its own.

        transformers has no RoFormer with a head that detects replaced tokens.
        """
        rotary = self.config.positions == "rotary"
        return ("encoder", "generator") if rotary else ("encoder", "pre_training", "generator")

    def exported(self, name: str | None = None) -> Exported:
        """Return the discriminator's encoder, or as "pre_training" or "generator" a network with its head.

        The classes are transformers' `ElectraModel`, `ElectraForPreTraining` and `ElectraForMaskedLM`; with rotary
        positions `RoFormerModel` and `RoFormerForMaskedLM`. Raises ValueError for a name that is not in `exports`.
        """
        name = self.check_export(name)
        if name == "encoder":
            return Exported(transformers_config(self.config.discriminator), to_transformers(self.discriminator))
        if name == "generator":
            config, state = transformers_config(self.config.generator), to_transformers(self.generator)
            heads, kind = self.generator_head.exported(config.model_type), "ForMaskedLM"
        else:
            config, state = transformers_config(self.config.discriminator), to_transformers(self.discriminator)
            heads, kind = renamed(self.rtd_head.dense, "discriminator_predictions.dense"), "ForPreTraining"
            heads |= renamed(self.rtd_head.output, "discriminator_predictions.dense_prediction")
        family = "RoFormer" if self.config.positions == "rotary" else "Electra"
        config.architectures = [family + kind]
        return Exported(config, {f"{config.model_type}.{key}": value for key, value in state.items()} | heads)

    @torch.no_grad()
    def _detected(self, logits_T: Tensor, labels_T: Tensor) -> dict[str, Tensor | int]:
        """Count what RTD found at a probability of one half, and above the share that is masked.

        Balanced accuracy weighs both classes alike, so a token is suspected where its probability exceeds the prior
        (p = 0.15: logit -1.73), not one half: at one half a young model calls nothing replaced.
        """
        found_T = logits_T > 0
        suspected_T = logits_T > math.log(self.config.mask_probability / (1 - self.config.mask_probability))
        return {
            "rtd_found": found_T.sum(),
            "rtd_hits": (found_T & labels_T).sum(),
            "rtd_suspected_hits": (suspected_T & labels_T).sum(),
            "rtd_suspected_false": (suspected_T & ~labels_T).sum(),
        }
