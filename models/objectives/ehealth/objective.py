"""eHealth: a generator proposes tokens, a discriminator tells, corrects and compares (Wang et al., 2021, sec. 3).

    loss = MLM + 50 RTD + 20 MTS + 1 CSP                                                              (Eq. 8)

MLM (Eq. 1-2): the generator restores the selected tokens. RTD (Eq. 3-4): the discriminator says of every token,
[CLS] and [SEP] included as in ELECTRA, whether it was replaced. MTS (Eq. 5-6): where a token was replaced, it picks
the original out of 1 + k candidates. CSP (Eq. 7): a view's [CLS] finds the other view of its row among all views of
the batch. The generator may propose any token, special ones too, as p_G has it. Both views run through both
networks as one batch of 2B sequences. Where the paper is silent we follow section 6 of the design.

A global batch that does not fit in memory is cut into micro-batches. `survey` passes over all of them without a graph
and finds what none of them knows alone: by how many replaced tokens MTS is divided, and what CSP, which compares the
views of the whole global batch, says about each view (gradient caching, models/objectives/parts/contrast.py). `forward`
of each micro-batch with its `Share` then adds up to the losses and gradients of the uncut batch.

Shape legend: B rows, S = 2B sequences, T tokens laid end to end, M selected tokens, R replaced ones among them, D
hidden size, E embedding size, K = 1 + k candidates.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.batch import MaskedBatch, collate_masked
from models.distributed import global_sum, world
from models.encoder.linear import Linear
from models.encoder.network import Encoder, EncoderConfig, initialise
from models.encoder.randomness import SequenceNoise, Stream, seed_device
from models.objectives.ehealth.config import EHealthConfig
from models.objectives.parts.contrast import Contrast, compare_views, compare_views_of
from models.objectives.parts.lm_head import HeadOutput, LanguageModelHead
from models.training.memory import encoder_bytes, number_bytes
from models.weights.convert import electra_config, to_transformers

VIEWS = 2


_FIGURES = {
    "mlm": ("mlm_loss", "mlm_accuracy", "selected_rate", "replaced_rate"),
    "rtd": ("rtd_loss", "rtd_recall", "rtd_precision", "rtd_balanced_accuracy", "rtd_chance"),
    "mts": ("mts_loss", "mts_accuracy", "mts_chance"),
    "csp": ("csp_loss", "csp_accuracy", "csp_chance"),
}
"""Held-out figures by the term that they need."""


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
    unit_SD: Tensor | None
    """Each view's [CLS], of length 1: what CSP compares."""


@dataclass(frozen=True)
class Share:
    """What a micro-batch has to know of the global batch that it is cut from."""

    totals: Mapping[str, float]
    """By how many tokens or views of the global batch each term is divided."""
    contrast: Contrast | None
    """CSP of this micro-batch's views among all views; None where CSP is off or compares within the micro-batch."""


class EHealth(nn.Module):
    """Generator and discriminator on one embedding block, and the four losses."""

    flops_formula = (
        "6 x (weights of the dense layers of both networks) x tokens + 12 x layers x width x sum of length^2 for each "
        "network + 6 x (table + generator's dense layer) x selected tokens + 6 x (RTD's dense layer) x tokens; "
        "tokens of both views, work done twice not counted"
    )
    """What `flops` adds up, for people."""
    speed_only = frozenset({"checkpoint_activations", "compile_layers"})
    """Settings that change speed and memory alone: a run may go on with others."""

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

    def forward(self, batch: MaskedBatch, share: Share | None = None) -> dict[str, Tensor]:
        """{"loss", "mlm", "rtd", "mts", "csp"}: scalars, each term before its weight; only "loss" has a gradient. And
        counts, which `step_figures` reads.

        `share` None: the batch is all that this rank has of the global batch. Otherwise it is a micro-batch, and the
        values of a rank's micro-batches add up to that rank's. Terms are means over the global batch, and everything is
        scaled so that its mean over ranks is the value for the joint batch (models/distributed.py).
        """
        result = self._run(batch)
        contrast = self._contrast(result, share)
        sums = _loss_sums(result, contrast)
        totals = share.totals if share else self._totals([batch], [result.replaced_M])
        means = {name: value * (world().size / totals[name]) for name, value in sums.items()}
        weights = {
            "mlm": 1.0,
            "rtd": self.config.rtd_weight,
            "mts": self.config.mts_weight,
            "csp": self.config.csp_weight,
        }
        loss = torch.stack([means[name] * weights[name] for name in means]).sum()
        counts = {name: value * world().size for name, value in _counts(batch, result).items()}
        return {"loss": loss} | {name: value.detach() for name, value in means.items()} | counts

    def step_figures(self, values: Mapping[str, float]) -> dict[str, float]:
        """What the curves show of a step: the losses among `forward`'s values, added over micro-batches and averaged
        over ranks, and rates in place of the counts. `rtd_recall` and `rtd_precision` are those of `rates`; NaN where
        there are none.
        """
        losses = {name: values[name] for name in ("loss", "mlm", "rtd", "mts", "csp") if name in values}
        figures = losses | {"replaced_rate": _ratio(values["replaced"], values["tokens"])}
        if "rtd" in losses:
            figures["rtd_recall"] = _ratio(values["rtd_true_positives"], values["replaced"])
            figures["rtd_precision"] = _ratio(values["rtd_true_positives"], values["rtd_found"])
        if "mts" in losses:
            figures["mts_accuracy"] = _ratio(values["mts_correct"], values["replaced"])
        return figures

    @torch.no_grad()
    def survey(self, batches: Sequence[MaskedBatch]) -> list[Share]:
        """A first pass over this rank's micro-batches of one global batch: the `Share` of each. All ranks must call it.

        Costs one forward pass without a graph; of the generator alone where CSP is off or compares within micro-batches
        only; none where MTS is off as well. Memory is that of one micro-batch without a graph, and the (S, D) [CLS]
        vectors of all.
        """
        replaced, units = [], []
        for batch in batches if self._compares_all_views or self.config.mts_weight else ():
            result = self._run(batch, self._compares_all_views)
            replaced.append(result.replaced_M)
            units.append(result.unit_SD)
        totals = self._totals(batches, replaced)
        contrasts: Sequence[Contrast | None] = [None] * len(batches)
        if self._compares_all_views:
            kept = [unit_SD for unit_SD in units if unit_SD is not None]
            contrasts = compare_views_of(kept, self.config.csp_temperature, gradient=self.training)
        return [Share(totals, contrast) for contrast in contrasts]

    def flops(self, batch: MaskedBatch) -> float:
        """Floating-point operations that a training step on this batch needs, forward and backward; work done twice to
        save memory is not counted.

        6 a matrix weight and token for the dense layers of both networks, 12 x layers x width x length^2 a sequence for
        attention (2 products, each 2 length^2 width, times 3 for forward and backward), the tied table and the
        generator's dense layer at selected tokens, the detector's dense layer at all tokens.
        """
        tokens = batch.layout.total
        squares = float(np.square(np.asarray(batch.layout.lengths, dtype=np.float64)).sum())
        total = 0.0
        for encoder in (self.config.generator, self.config.discriminator):
            width, embedding = encoder.hidden_size, encoder.embedding_width
            weights = encoder.num_layers * (4 * width * width + 2 * width * encoder.intermediate_size)
            weights += embedding * width if embedding != width else 0
            total += 6.0 * weights * tokens + 12.0 * encoder.num_layers * width * squares
        head = self.config.discriminator.embedding_width * (self.config.vocab_size + self.config.generator.hidden_size)
        detector = self.config.hidden_size**2 if self.config.rtd_weight else 0
        return total + 6.0 * (len(batch.original) * head + tokens * detector)

    def row_bytes(self, precision: str) -> float:
        """Bytes of a GPU's memory that a row of the longest length takes in a training step, both views counted.

        What the encoders keep (models/training/memory.py), RTD's dense layer, and for each selected token the
        generator's hidden states, its logits three times in float32 (the weights they become, their rounded copy, the
        sampler's reading) and MTS's candidates with their gradient.
        """
        disc, b = self.config.discriminator, number_bytes(precision)
        kept = encoder_bytes(self.config.generator, precision) + encoder_bytes(disc, precision)
        kept += (3 * b + 4) * disc.hidden_size if self.config.rtd_weight else 0
        candidates = (1 + self.config.mts_negatives) * 8 * disc.embedding_width if self.config.mts_weight else 0
        selected = 2 * b * self.config.generator.hidden_size + 20 * disc.embedding_width + 12 * disc.table_rows
        return VIEWS * self.longest_row * (kept + self.config.mask_probability * (selected + candidates))

    def workspace_bytes(self) -> float:
        """Bytes beside weights and rows: the table's gradient from the generator's head, where it is added up, once
        more as a summand, and rounded.
        """
        disc = self.config.discriminator
        return 10.0 * disc.table_rows * disc.embedding_width

    @property
    def held_out_figures(self) -> tuple[str, ...]:
        """Names of what `rates` gives."""
        weights = {"rtd": self.config.rtd_weight, "mts": self.config.mts_weight, "csp": self.config.csp_weight}
        return tuple(name for term, names in _FIGURES.items() if weights.get(term, 1.0) for name in names)

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row that the model reads."""
        return self.config.max_positions

    def identity(self) -> dict[str, Any]:
        """What decides this objective's weights and losses, as plain values: a checkpoint carries it."""
        settings = {name: value for name, value in asdict(self.config).items() if name not in self.speed_only}
        return {"objective": "ehealth"} | settings

    @torch.no_grad()
    def metrics(self, batch: MaskedBatch, share: Share | None = None) -> dict[str, Tensor]:
        """Sums and counts (float64 scalars) over this rank's rows of a held-out batch, to be added over batches and
        ranks and read by `rates`.

        Call it in eval mode, on every rank alike (CSP compares across ranks), or with the `Share` of a micro-batch.
        The samples depend on (seed, step, row) only.
        """
        result = self._run(batch, count_correct=True)
        contrast = self._contrast(result, share)
        sums: dict[str, Any] = {f"{name}_loss_sum": value for name, value in _loss_sums(result, contrast).items()}
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
            sums["mts_correct"] = _mts_correct(result.mts_scores_RK)
        if contrast is not None:
            sums["csp_views"] = len(batch.rows)
            sums["csp_correct"] = contrast.correct_S.sum()
            sums["csp_chance_sum"] = len(batch.rows) / contrast.candidates
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

    @property
    def _compares_all_views(self) -> bool:
        return bool(self.config.csp_weight) and self.config.csp_across_micro_batches

    def _totals(self, batches: Sequence[MaskedBatch], replaced: Sequence[Tensor]) -> dict[str, float]:
        """What each term is divided by: counts over these batches of all ranks, at least 1."""
        counts = {
            "mlm": sum(len(batch.original) for batch in batches),
            "rtd": sum(batch.layout.total for batch in batches),
            "mts": sum(int(replaced_M.sum()) for replaced_M in replaced),
            "csp": sum(len(batch.rows) for batch in batches),
        }
        totals = global_sum(torch.tensor(list(counts.values()), dtype=torch.float64))
        return dict(zip(counts, totals.clamp(min=1.0).tolist(), strict=True))

    def _contrast(self, result: _Pass, share: Share | None) -> Contrast | None:
        """CSP of a pass (Eq. 7); for a micro-batch with the gradient that the survey found."""
        if result.unit_SD is None:
            return None
        if share is not None and share.contrast is not None:
            return share.contrast.attached_to(result.unit_SD)
        return compare_views(
            result.unit_SD, self.config.csp_temperature, across_ranks=self.config.csp_across_micro_batches
        )

    def _run(self, batch: MaskedBatch, discriminate: bool = True, count_correct: bool = False) -> _Pass:
        noise = _StepNoise(batch, self.training)
        generator = self._generate(batch, noise, count_correct)
        replaced_M = generator.sample != batch.original
        if not (discriminate and (self.config.rtd_weight or self.config.mts_weight or self.config.csp_weight)):
            return _Pass(generator, replaced_M, None, None, None, None)
        corrupted_T = batch.input_ids.index_copy(0, batch.selected, generator.sample)
        hidden_TD = self.discriminator(corrupted_T, batch.layout, noise=noise.dropout(Stream.DISCRIMINATOR_DROPOUT))
        rtd_logits_T, rtd_labels_T = self._detect(hidden_TD, batch, replaced_M)
        mts_scores_RK = (
            self._score(hidden_TD, batch, generator.negatives, replaced_M) if self.config.mts_weight else None
        )
        unit_SD = self._unit(hidden_TD, batch) if self.config.csp_weight else None
        return _Pass(generator, replaced_M, rtd_logits_T, rtd_labels_T, mts_scores_RK, unit_SD)

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
        with torch.autocast(hidden_RE.device.type, enabled=False):  # scores are float32's
            return torch.bmm(table(candidates_RK).float(), hidden_RE.float()[:, :, None])[:, :, 0]

    def _unit(self, hidden_TD: Tensor, batch: MaskedBatch) -> Tensor:
        """Each view's [CLS] divided by its length, float32 (S, D) (Eq. 7)."""
        first_SD = hidden_TD.index_select(0, batch.layout.firsts)
        if self.csp_dense is not None:
            first_SD = self.csp_dense(first_SD)
        return F.normalize(first_SD.float(), dim=1)


def _loss_sums(result: _Pass, contrast: Contrast | None) -> dict[str, Tensor]:
    """The terms that are on, each summed over what this rank holds."""
    sums = {"mlm": result.generator.loss_sum}
    if result.rtd_logits_T is not None and result.rtd_labels_T is not None:
        labels = result.rtd_labels_T.to(result.rtd_logits_T.dtype)
        sums["rtd"] = F.binary_cross_entropy_with_logits(result.rtd_logits_T, labels, reduction="sum")
    if result.mts_scores_RK is not None:
        original_R = torch.zeros(len(result.mts_scores_RK), dtype=torch.int64, device=result.mts_scores_RK.device)
        sums["mts"] = F.cross_entropy(result.mts_scores_RK, original_R, reduction="sum")
    if contrast is not None:
        sums["csp"] = contrast.loss_sum
    return sums


@torch.no_grad()
def _counts(batch: MaskedBatch, result: _Pass) -> dict[str, Tensor]:
    """What a training step tells at no cost besides its losses: float32 scalars that add over micro-batches."""
    counts = {"tokens": torch.tensor(batch.layout.total), "replaced": result.replaced_M.sum()}
    if result.rtd_logits_T is not None and result.rtd_labels_T is not None:
        found_T = result.rtd_logits_T > 0
        counts["rtd_found"] = found_T.sum()
        counts["rtd_true_positives"] = (found_T & result.rtd_labels_T).sum()
    if result.mts_scores_RK is not None:
        counts["mts_correct"] = _mts_correct(result.mts_scores_RK)
    return {name: count.to(result.replaced_M.device, torch.float32) for name, count in counts.items()}


def _mts_correct(scores_RK: Tensor) -> Tensor:
    """Positions where the original, candidate 0, has the highest score; a tie is no answer."""
    return (scores_RK[:, :1] > scores_RK[:, 1:]).all(1).sum()


class _StepNoise:
    """The randomness of one pass: streams a sequence on the CPU, one generator a batch on an accelerator. A second
    pass over the same batch draws the same.
    """

    def __init__(self, batch: MaskedBatch, training: bool) -> None:
        self.batch, self.training = batch, training
        device = batch.input_ids.device
        self.device_generator = (
            seed_device(device, batch.seed, batch.step, int(batch.rows[0])) if device.type == "cuda" else None
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
