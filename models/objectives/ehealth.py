"""eHealth: a generator proposes tokens, a discriminator tells, corrects and compares (Wang et al., 2021, sec. 3).

    loss = MLM + 50 RTD + 20 MTS + 1 CSP                                                              (Eq. 8)

MLM (Eq. 1-2): the generator restores the selected tokens. RTD (Eq. 3-4): the discriminator says of every token,
[CLS] and [SEP] included as in ELECTRA, whether it was replaced. MTS (Eq. 5-6): where a token was replaced, it picks
the original out of 1 + k candidates. CSP (Eq. 7): a view's [CLS] finds the other view of its row among all views of
the batch. The generator may propose any token, special ones too, as p_G has it. Both views run through both
networks as one batch of 2B sequences. Where the paper is silent we follow section 6 of the design.

Shape legend: B rows, S = 2B sequences, T tokens laid end to end, M selected tokens, R replaced ones among them, D
hidden size, E embedding size, K = 1 + k candidates, G sequences on all ranks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.batch import MaskedBatch, collate_masked
from models.convert import electra_config, to_transformers
from models.distributed import gather_with_gradient, global_sum, world
from models.encoder import Encoder, EncoderConfig, initialise
from models.linear import Linear
from models.lm_head import HeadOutput, LanguageModelHead
from models.objectives.ehealth_config import EHealthConfig
from models.randomness import SequenceNoise, Stream, seed_device

VIEWS = 2


class ReplacedTokenHead(nn.Module):
    """Dense, GELU, one logit: is this token replaced? (ELECTRA's discriminator head.)"""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.output = Linear(config.hidden_size, 1)

    def forward(self, hidden_TD: Tensor) -> Tensor:
        """Logits (T,)."""
        return self.output(F.gelu(self.dense(hidden_TD)))[:, 0]


@dataclass(frozen=True)
class _Pass:
    """One pass through both networks. What a term with weight 0 would need is None."""

    generator: HeadOutput
    replaced_M: Tensor
    """bool: the sample differs from the original."""
    rtd_logits_T: Tensor | None
    rtd_labels_T: Tensor | None
    mts_scores_RK: Tensor | None
    """The original is candidate 0."""
    csp_logits_SG: Tensor | None
    """Cosine / temperature; -inf for a view with itself."""
    csp_partners_S: Tensor | None


class EHealth(nn.Module):
    """Generator and discriminator on one embedding block, and the four losses."""

    def __init__(self, config: EHealthConfig) -> None:
        super().__init__()
        self.config = config
        disc, std = config.discriminator, config.initializer_range
        self.discriminator = Encoder(disc)
        self.generator = Encoder(config.generator, embeddings=self.discriminator.embeddings)
        self.generator_head = LanguageModelHead(config.generator)
        self.rtd_head = ReplacedTokenHead(disc) if config.rtd_weight else None
        self.mts_dense = (
            Linear(disc.hidden_size, disc.embedding_width) if config.mts_weight and config.projects_mts else None
        )
        self.csp_dense = (
            Linear(disc.hidden_size, disc.hidden_size) if config.csp_weight and config.csp_projection else None
        )
        for head in (self.rtd_head, self.mts_dense, self.csp_dense):
            if head is not None:
                head.apply(lambda module: initialise(module, std))

    def collate(
        self,
        rows: Sequence[Mapping[str, Any] | Any],
        *,
        seed: int,
        step: int,
        row_indices: Sequence[int] | np.ndarray | None = None,
    ) -> MaskedBatch:
        """Two independently masked views of each row, packed; see `collate_masked`. `row_indices` are the rows'
        places in the *global* batch or data set: the same row, step and seed give the same views on any worker.
        """
        return collate_masked(
            rows,
            seed=seed,
            step=step,
            row_indices=row_indices,
            views=VIEWS,
            vocab_size=self.config.vocab_size,
            max_positions=self.config.max_positions,
            probability=self.config.mask_probability,
        )

    def forward(self, batch: MaskedBatch) -> dict[str, Tensor]:
        """{"loss", "mlm", "rtd", "mts", "csp"}: scalars, each term before its weight; only "loss" has a gradient.

        Terms are means over the global batch, scaled so that their mean over ranks is the value for the joint batch
        (models/distributed.py).
        """
        result = self._run(batch)
        sums = _loss_sums(result)
        counts = {"mlm": len(batch.original), "rtd": batch.layout.total, "csp": len(batch.rows)}
        values = torch.tensor(
            [counts.get(name, 0) for name in sums], dtype=torch.float64, device=batch.input_ids.device
        )
        if "mts" in sums:
            values[list(sums).index("mts")] = result.replaced_M.sum()
        totals = global_sum(values).clamp(min=1.0).float()
        means = {name: value * world().size / totals[i] for i, (name, value) in enumerate(sums.items())}
        weights = {
            "mlm": 1.0,
            "rtd": self.config.rtd_weight,
            "mts": self.config.mts_weight,
            "csp": self.config.csp_weight,
        }
        loss = torch.stack([means[name] * weights[name] for name in means]).sum()
        return {"loss": loss} | {name: value.detach() for name, value in means.items()}

    @torch.no_grad()
    def metrics(self, batch: MaskedBatch) -> dict[str, Tensor]:
        """Sums and counts (float64 scalars) over this rank's rows of a held-out batch, to be added over batches and
        ranks and read by `rates`.

        Call it in eval mode, on every rank alike (CSP compares across ranks). The samples depend on (seed, step,
        row) only.
        """
        result = self._run(batch, count_correct=True)
        sums: dict[str, Any] = {f"{name}_loss_sum": value for name, value in _loss_sums(result).items()}
        sums |= {
            "tokens": batch.layout.total,
            "selected": len(batch.original),
            "replaced": result.replaced_M.sum(),
        }
        sums["mlm_correct"] = result.generator.correct
        if result.rtd_logits_T is not None and result.rtd_labels_T is not None:
            found_T = result.rtd_logits_T > 0
            sums["rtd_true_positives"] = (found_T & result.rtd_labels_T).sum()
            sums["rtd_false_positives"] = (found_T & ~result.rtd_labels_T).sum()
            # Where both classes weigh the same, a token counts as found above the prior, not above one half.
            suspected_T = result.rtd_logits_T > math.log(
                self.config.mask_probability / (1 - self.config.mask_probability)
            )
            sums["rtd_suspected_replaced"] = (suspected_T & result.rtd_labels_T).sum()
            sums["rtd_suspected_untouched"] = (suspected_T & ~result.rtd_labels_T).sum()
        if result.mts_scores_RK is not None:
            scores = result.mts_scores_RK
            sums["mts_correct"] = (scores[:, :1] > scores[:, 1:]).all(1).sum()  # a tie is no answer
        if result.csp_logits_SG is not None and result.csp_partners_S is not None:
            sums["csp_views"] = len(batch.rows)
            sums["csp_correct"] = (result.csp_logits_SG.argmax(1) == result.csp_partners_S).sum()
            sums["csp_chance_sum"] = len(batch.rows) / (result.csp_logits_SG.shape[1] - 1)
        return {name: torch.as_tensor(value, dtype=torch.float64) for name, value in sums.items()}

    def rates(self, added: Mapping[str, float | Tensor]) -> dict[str, float]:
        """Losses and accuracies from added `metrics`, and the levels that chance would reach; terms with weight 0
        are absent.

        `rtd_balanced_accuracy` is the mean of the recalls on replaced and on untouched tokens (chance 0.5) where
        a token is called replaced if its probability is over the share that is masked: at one half, a young
        model calls nothing replaced. `rtd_recall` and `rtd_precision` are those at one half. NaN where there
        are none.
        """
        sums = {name: float(value) for name, value in added.items()}
        tokens, selected, replaced = sums["tokens"], sums["selected"], sums["replaced"]
        out = {
            "mlm_loss": _ratio(sums["mlm_loss_sum"], selected),
            "mlm_accuracy": _ratio(sums["mlm_correct"], selected),
            "selected_rate": _ratio(selected, tokens),
            "replaced_rate": _ratio(replaced, tokens),
        }
        if "rtd_loss_sum" in sums:
            hits, false = sums["rtd_true_positives"], sums["rtd_false_positives"]
            sensitivity = _ratio(sums["rtd_suspected_replaced"], replaced)
            specificity = 1.0 - _ratio(sums["rtd_suspected_untouched"], tokens - replaced)
            out |= {
                "rtd_loss": _ratio(sums["rtd_loss_sum"], tokens),
                "rtd_recall": _ratio(hits, replaced),
                "rtd_precision": _ratio(hits, hits + false),
                "rtd_balanced_accuracy": (sensitivity + specificity) / 2.0,
                "rtd_chance": 0.5,
            }
        if "mts_loss_sum" in sums:
            out |= {
                "mts_loss": _ratio(sums["mts_loss_sum"], replaced),
                "mts_accuracy": _ratio(sums["mts_correct"], replaced),
            }
            out["mts_chance"] = 1.0 / (1 + self.config.mts_negatives)
        if "csp_loss_sum" in sums:
            views = sums["csp_views"]
            out |= {
                "csp_loss": _ratio(sums["csp_loss_sum"], views),
                "csp_accuracy": _ratio(sums["csp_correct"], views),
            }
            out["csp_chance"] = _ratio(sums["csp_chance_sum"], views)
        return out

    def encoder_state_dict(self) -> dict[str, Tensor]:
        """The discriminator's encoder under the names of transformers' `ElectraModel`: what pre-training is for."""
        return to_transformers(self.discriminator)

    def encoder_config(self) -> dict[str, Any]:
        """Keyword arguments of transformers' `ElectraConfig` for `encoder_state_dict`."""
        return electra_config(self.config.discriminator)

    def _run(self, batch: MaskedBatch, count_correct: bool = False) -> _Pass:
        noise = _StepNoise(batch, self.training)
        generator = self._generate(batch, noise, count_correct)
        replaced_M = generator.sample != batch.original
        if not (self.config.rtd_weight or self.config.mts_weight or self.config.csp_weight):
            return _Pass(generator, replaced_M, None, None, None, None, None)
        corrupted_T = batch.input_ids.index_copy(0, batch.selected, generator.sample)
        hidden_TD = self.discriminator(corrupted_T, batch.layout, noise=noise.dropout(Stream.DISCRIMINATOR_DROPOUT))
        rtd_logits_T, rtd_labels_T = self._detect(hidden_TD, batch, replaced_M)
        mts_scores_RK = (
            self._score(hidden_TD, batch, generator.negatives, replaced_M) if self.config.mts_weight else None
        )
        csp_logits_SG, csp_partners_S = self._compare(hidden_TD, batch)
        return _Pass(generator, replaced_M, rtd_logits_T, rtd_labels_T, mts_scores_RK, csp_logits_SG, csp_partners_S)

    def _generate(self, batch: MaskedBatch, noise: "_StepNoise", count_correct: bool) -> HeadOutput:
        """MLM, the sample at each selected position, and the negatives (Eq. 1-2)."""
        hidden_TD = self.generator(batch.input_ids, batch.layout, noise=noise.dropout(Stream.GENERATOR_DROPOUT))
        hidden_MD = hidden_TD.index_select(0, batch.selected)
        uniforms = noise.uniforms(1 + self.config.mts_negatives)
        return self.generator_head(
            hidden_MD, self.discriminator.embeddings.word.weight, batch.original, uniforms, count_correct
        )

    def _detect(self, hidden_TD: Tensor, batch: MaskedBatch, replaced_M: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Logits (T,) and labels bool (T,) of replaced token detection (Eq. 3)."""
        if self.rtd_head is None:
            return None, None
        labels_T = torch.zeros(batch.layout.total, dtype=torch.bool, device=hidden_TD.device)
        return self.rtd_head(hidden_TD).float(), labels_T.index_copy(0, batch.selected, replaced_M)

    def _score(self, hidden_TD: Tensor, batch: MaskedBatch, negatives_Mk: Tensor, replaced_M: Tensor) -> Tensor:
        """Scores (R, K) of the candidates at replaced positions, the original first: e(x) . h (Eq. 5)."""
        places_R = replaced_M.nonzero()[:, 0]
        candidates_RK = torch.cat([batch.original[:, None], negatives_Mk], 1)[places_R]
        hidden_RE = hidden_TD.index_select(0, batch.selected[places_R])
        if self.mts_dense is not None:
            hidden_RE = self.mts_dense(hidden_RE)
        table = self.discriminator.embeddings.word
        with torch.autocast(hidden_TD.device.type, enabled=False):  # Eq. 5's product in float32
            return torch.bmm(table(candidates_RK).float(), hidden_RE.float()[:, :, None])[:, :, 0]

    def _compare(self, hidden_TD: Tensor, batch: MaskedBatch) -> tuple[Tensor | None, Tensor | None]:
        """Each view here against all views on all ranks: logits (S, G) and the partner's index (S,) (Eq. 7)."""
        if not self.config.csp_weight:
            return None, None
        first_SD = hidden_TD.index_select(0, batch.layout.firsts)
        if self.csp_dense is not None:
            first_SD = self.csp_dense(first_SD)
        unit_SD = F.normalize(first_SD.float(), dim=1)
        unit_GD, start = gather_with_gradient(unit_SD)
        own_S = start + torch.arange(len(unit_SD), device=unit_SD.device)
        with torch.autocast(hidden_TD.device.type, enabled=False):  # bfloat16's cosines would all be equal at first
            logits_SG = (unit_SD @ unit_GD.t()) / self.config.csp_temperature
        # A row's views stand next to each other, and every rank holds an even number: 0 with 1, 2 with 3, ...
        partners_S = own_S ^ 1
        return logits_SG.scatter(1, own_S[:, None], -torch.inf), partners_S


def _loss_sums(result: _Pass) -> dict[str, Tensor]:
    """The terms that are on, each summed over what this rank holds."""
    sums = {"mlm": result.generator.loss_sum}
    if result.rtd_logits_T is not None and result.rtd_labels_T is not None:
        labels = result.rtd_labels_T.to(result.rtd_logits_T.dtype)
        sums["rtd"] = F.binary_cross_entropy_with_logits(result.rtd_logits_T, labels, reduction="sum")
    if result.mts_scores_RK is not None:
        original_R = torch.zeros(len(result.mts_scores_RK), dtype=torch.int64, device=result.mts_scores_RK.device)
        sums["mts"] = F.cross_entropy(result.mts_scores_RK, original_R, reduction="sum")
    if result.csp_logits_SG is not None and result.csp_partners_S is not None:
        sums["csp"] = F.cross_entropy(result.csp_logits_SG, result.csp_partners_S, reduction="sum")
    return sums


class _StepNoise:
    """The randomness of one pass: streams a sequence on the CPU, one generator a rank on an accelerator."""

    def __init__(self, batch: MaskedBatch, training: bool) -> None:
        self.batch, self.training = batch, training
        device = batch.input_ids.device
        self.device_generator = (
            seed_device(device, batch.seed, batch.step, world().rank) if device.type == "cuda" else None
        )

    def dropout(self, stream: Stream) -> SequenceNoise | None:
        """Streams for one network's dropout; None where none are needed."""
        if self.device_generator is not None or not self.training:
            return None
        return self._streams(stream)

    def uniforms(self, draws: int) -> Tensor:
        """float64 (M, draws, 2) in [0, 1)."""
        shape = (len(self.batch.original), draws, 2)
        if self.device_generator is not None:
            return torch.rand(
                shape,
                dtype=torch.float64,
                generator=self.device_generator,
                device=self.device_generator.device,
            )
        counts = [count * draws * 2 for count in self.batch.selected_counts]
        return self._streams(Stream.SAMPLING).uniforms(counts).view(shape)

    def _streams(self, stream: Stream) -> SequenceNoise:
        return SequenceNoise.for_step(self.batch.seed, self.batch.step, stream, self.batch.rows, self.batch.views)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")
