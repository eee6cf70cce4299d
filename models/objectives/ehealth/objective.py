"""eHealth: a generator proposes tokens, a discriminator detects, corrects and contrasts (Wang et al., 2021, sec. 3).

    loss = MLM + 50 RTD + 20 MTS + 1 CSP                                                              (Eq. 8)

- MLM (Eq. 1-2): the generator restores the selected tokens.
- RTD (Eq. 3-4): the discriminator decides for every token, [CLS] and [SEP] included as in ELECTRA, whether it was
  replaced.
- MTS (Eq. 5-6): where a token was replaced, it picks the original out of 1 + k candidates.
- CSP (Eq. 7): a view's [CLS] finds the other view of its row among all views of the batch.

The generator may propose any token, special ones too, with the probability p_G. Both views run through both networks as
one batch of 2B sequences. Where the paper is silent we follow section 6 of the design.

A global batch that does not fit in memory is cut into micro-batches. `survey` passes over all of them without a graph
and finds what no micro-batch knows alone: the number of replaced tokens that MTS is divided by, and CSP's comparison of
the views of the whole global batch (gradient caching, models/objectives/parts/contrast.py). With its `Share`, `forward`
of each micro-batch then adds up to the losses and gradients of the uncut batch.

Shape legend: B rows, S = 2B sequences, T tokens laid end to end, M selected tokens, R replaced ones among them, D
hidden size, E embedding size, K = 1 + k candidates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.batch import MaskedBatch, Masking, collate_masked
from models.distributed import global_sum, world
from models.encoder.linear import Linear
from models.encoder.network import Encoder, initialise
from models.encoder.randomness import Stream
from models.objectives.base import EncoderObjective, Exported, HeadReader, Start, Term
from models.objectives.ehealth import cost, figures
from models.objectives.ehealth.config import EHealthConfig
from models.objectives.ehealth.terms import Pass, loss_sums
from models.objectives.parts.contrast import Contrast, compare_views, compare_views_of
from models.objectives.parts.lm_head import HeadOutput, LanguageModelHead
from models.objectives.parts.noise import StepNoise
from models.objectives.parts.replaced_token import ReplacedTokenHead
from models.weights.convert import to_transformers, transformers_config


@dataclass(frozen=True)
class Share:
    """What a micro-batch must know about the global batch that it is cut from."""

    totals: Mapping[str, float]
    """Tokens or views of the global batch that each term is divided by."""
    contrast: Contrast | None
    """CSP of this micro-batch's views among all views; None where CSP is off or compares within the micro-batch."""


class EHealth(EncoderObjective):
    """Generator and discriminator on one embedding block, and the four losses."""

    name = "ehealth"

    flops_formula = cost.FLOPS_FORMULA

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

    @property
    def terms(self) -> tuple[Term, ...]:
        """Terms of the loss that are on (Eq. 8)."""
        config = self.config
        terms = (
            Term("mlm", "masked language modelling (generator)"),
            Term("rtd", "replaced token detection", config.rtd_weight),
            Term("mts", "multi-token selection", config.mts_weight),
            Term("csp", "contrastive sequence prediction", config.csp_weight),
        )
        return tuple(term for term in terms if term.weight)

    def collate(
        self,
        rows: Sequence[Mapping[str, Any] | Any],
        *,
        seed: int,
        step: int,
        row_indices: Sequence[int] | np.ndarray | None = None,
    ) -> MaskedBatch:
        """Return two independently masked views of each row, packed; see `collate_masked`.

        `row_indices` are the rows' places in the *global* batch or data set: the same row, step and seed give the same
        views on any worker.
        """
        return collate_masked(
            rows,
            seed=seed,
            step=step,
            row_indices=row_indices,
            views=cost.VIEWS,
            vocab_size=self.config.vocab_size,
            max_positions=self.config.max_positions,
            masking=Masking(probability=self.config.mask_probability, whole_words=self.config.whole_words),
        )

    def forward(self, batch: MaskedBatch, share: Share | None = None) -> dict[str, Tensor]:
        """Return {"loss", "mlm", "rtd", "mts", "csp"} as scalars, and counts that `step_figures` reads.

        Each term is given before its weight; only "loss" has a gradient. With `share` None the batch is all that this
        rank has of the global batch. Otherwise it is a micro-batch, and the values of a rank's micro-batches add up to
        that rank's. Terms are means over the global batch, and everything is scaled so that its mean over ranks is the
        value for the joint batch (models/distributed.py).
        """
        result = self._run(batch)
        contrast = self._contrast(result, share)
        sums = loss_sums(result, contrast)
        totals = share.totals if share else self._totals([batch], [result.replaced_M])
        # DDP averages gradients over ranks: times the number of ranks, divided by the global count, is the global mean.
        means = {name: value * (world().size / totals[name]) for name, value in sums.items()}
        loss = torch.stack([means[term.name] * term.weight for term in self.terms]).sum()
        counts = {name: value * world().size for name, value in figures.step_counts(batch, result).items()}
        return {"loss": loss} | {name: value.detach() for name, value in means.items()} | counts

    def step_figures(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return what the curves show of a step: its losses, and rates in place of its counts.

        `values` are those of `forward`, added over micro-batches and averaged over ranks. `rtd_recall` and
        `rtd_precision` are as in `rates`; a rate of nothing is NaN.
        """
        return figures.step_figures(values)

    @torch.no_grad()
    def survey(self, batches: Sequence[MaskedBatch]) -> list[Share]:
        """Return the `Share` of each of this rank's micro-batches of one global batch. All ranks must call it.

        Costs one forward pass without a graph: of the generator alone where CSP is off or compares within micro-batches
        only, and none at all where MTS is off as well. Memory is that of one micro-batch without a graph, and the
        (S, D) [CLS] vectors of all.
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
        """Return the floating-point operations of a training step on this batch (cost.py)."""
        return cost.flops(self.config, batch)

    def row_bytes(self, precision: str) -> float:
        """Return the bytes of GPU memory that a row of the longest length takes in a training step (cost.py)."""
        return cost.row_bytes(self.config, precision)

    def workspace_bytes(self) -> float:
        """Return the bytes of GPU memory needed beside weights and rows (cost.py)."""
        return cost.workspace_bytes(self.config)

    @property
    def held_out_figures(self) -> tuple[str, ...]:
        """Names of the figures in `rates`."""
        return figures.held_out_figures(self.config)

    @torch.no_grad()
    def metrics(self, batch: MaskedBatch, share: Share | None = None) -> dict[str, Tensor]:
        """Return sums and counts (float64 scalars) over this rank's rows of a held-out batch.

        They add up over batches and ranks, and `rates` reads the sum. Call it in eval mode, on every rank alike (CSP
        compares across ranks), or with the `Share` of a micro-batch. The samples depend on (seed, step, row) only.
        """
        result = self._run(batch, count_correct=True)
        return figures.held_out_sums(self.config, batch, result, self._contrast(result, share))

    def rates(self, added: Mapping[str, float | Tensor]) -> dict[str, float]:
        """Return losses, accuracies and chance levels from summed `metrics`; terms with weight 0 are absent.

        `rtd_balanced_accuracy` is the mean of the recalls on replaced and on untouched tokens (chance 0.5), where a
        token counts as replaced if its probability exceeds the share that is masked: at one half, a young model calls
        nothing replaced. `rtd_recall` and `rtd_precision` are those at one half. A rate of nothing is NaN.
        """
        return figures.rates(self.config, added)

    @property
    def start(self) -> Start:
        """The discriminator, the generator where it is as wide, and their heads."""
        detector: dict[str, HeadReader] = {"rtd_head": self.rtd_head.read} if self.rtd_head is not None else {}
        return Start("discriminator", "generator", {"generator_head": self.generator_head.read} | detector)

    @property
    def exports(self) -> tuple[str, ...]:
        """The discriminator's encoder, which is what pre-training is for (section 3.3)."""
        return ("encoder",)

    def exported(self, name: str | None = None) -> Exported:
        """Return the discriminator's encoder as transformers' `ElectraModel`, or `RoFormerModel` with rotary positions.

        Raises ValueError for a name that is not in `exports`.
        """
        self.check_export(name)
        return Exported(transformers_config(self.config.discriminator), to_transformers(self.discriminator))

    @property
    def _compares_all_views(self) -> bool:
        return bool(self.config.csp_weight) and self.config.csp_across_micro_batches

    def _totals(self, batches: Sequence[MaskedBatch], replaced: Sequence[Tensor]) -> dict[str, float]:
        """Divisor of each term: counts over these batches of all ranks, at least 1."""
        counts = {
            "mlm": sum(len(batch.original) for batch in batches),
            "rtd": sum(batch.layout.total for batch in batches),
            "mts": sum(int(replaced_M.sum()) for replaced_M in replaced),
            "csp": sum(len(batch.rows) for batch in batches),
        }
        totals = global_sum(torch.tensor(list(counts.values()), dtype=torch.float64))
        # A perfect generator replaces nothing: MTS is then 0 / 1, not 0 / 0.
        return dict(zip(counts, totals.clamp(min=1.0).tolist(), strict=True))

    def _contrast(self, result: Pass, share: Share | None) -> Contrast | None:
        """CSP of a pass (Eq. 7); for a micro-batch with the gradient that the survey found."""
        if result.unit_SD is None:
            return None
        if share is not None and share.contrast is not None:
            return share.contrast.attached_to(result.unit_SD)
        return compare_views(
            result.unit_SD, self.config.csp_temperature, across_ranks=self.config.csp_across_micro_batches
        )

    def _run(self, batch: MaskedBatch, discriminate: bool = True, count_correct: bool = False) -> Pass:
        noise = StepNoise(batch, self.training)
        generator = self._generate(batch, noise, count_correct)
        # A sample may be the original by chance; that token then counts as untouched (ELECTRA).
        replaced_M = generator.sample != batch.original
        if not (discriminate and (self.config.rtd_weight or self.config.mts_weight or self.config.csp_weight)):
            return Pass(generator, replaced_M)
        corrupted_T = batch.input_ids.index_copy(0, batch.selected, generator.sample)
        hidden_TD = self.discriminator(corrupted_T, batch.layout, noise=noise.dropout(Stream.DISCRIMINATOR_DROPOUT))
        rtd_logits_T, rtd_labels_T = self._detect(hidden_TD, batch, replaced_M)
        mts_scores_RK = (
            self._score(hidden_TD, batch, generator.negatives, replaced_M) if self.config.mts_weight else None
        )
        unit_SD = self._unit(hidden_TD, batch) if self.config.csp_weight else None
        return Pass(generator, replaced_M, rtd_logits_T, rtd_labels_T, mts_scores_RK, unit_SD)

    def _generate(self, batch: MaskedBatch, noise: StepNoise, count_correct: bool) -> HeadOutput:
        """MLM, the sample at each selected position, and the negatives (Eq. 1-2)."""
        hidden_TD = self.generator(batch.input_ids, batch.layout, noise=noise.dropout(Stream.GENERATOR_DROPOUT))
        # Only selected positions meet the vocabulary: 15 % of the logits that all positions would take.
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
        with torch.autocast(hidden_RE.device.type, enabled=False):  # scores stay float32 under bf16
            return torch.bmm(table(candidates_RK).float(), hidden_RE.float()[:, :, None])[:, :, 0]

    def _unit(self, hidden_TD: Tensor, batch: MaskedBatch) -> Tensor:
        """[CLS] of each view divided by its length, float32 (S, D) (Eq. 7)."""
        first_SD = hidden_TD.index_select(0, batch.layout.firsts)
        if self.csp_dense is not None:
            first_SD = self.csp_dense(first_SD)
        return F.normalize(first_SD.float(), dim=1)
