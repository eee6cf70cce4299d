"""The objectives on transformers' models: what a training step of ours is compared with.

Each peer has two forms.

- *Gathered* is the strongest form that we know: hidden states are gathered before the product with the vocabulary, one
  softmax serves loss and samples, tokens are sampled by inverting the cumulative distribution, and attention is
  `scaled_dot_product_attention`. `pretrain_step.py` gives it batches of rows of similar length.
- *Plain* is the obvious first version: what `BertForMaskedLM` and the ELECTRA classes compute by themselves, on
  batches padded to their longest row, with the logits of the whole vocabulary at every position and, where tokens are
  sampled, `torch.multinomial` at every position.

Both have our masks, sizes and dropout rates. Needs only torch and transformers.

Shape legend: S sequences, L tokens of the longest, N positions that meet the vocabulary (all S x L, or the M selected
ones), D hidden size, V vocabulary, K negatives, C candidates.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraModel,
)

from models.batch import MaskedBatch
from models.objectives.bert.config import BertObjectiveConfig
from models.objectives.ehealth.config import EHealthConfig
from models.objectives.electra.config import ElectraObjectiveConfig
from models.weights.convert import electra_config

IGNORED = -100
"""Label of a position without a loss."""
EXTRA_DRAWS = 3
"""Tokens drawn for each negative that is wanted; those drawn twice are passed over."""


class Padded(NamedTuple):
    """A masked batch padded to its longest sequence."""

    input_ids: Tensor
    """int64 (S, L)"""
    mask: Tensor
    """int64 (S, L): 1 for tokens, 0 for padding."""
    labels: Tensor
    """int64 (S, L): the original where a token is selected, else -100."""
    places: Tensor
    """int64 (M,): selected tokens, as indices into S x L."""

    @classmethod
    def of(cls, batch: MaskedBatch) -> "Padded":
        """Pad our masked batch."""
        lengths = list(batch.layout.lengths)
        labels = torch.full_like(batch.input_ids, IGNORED).index_copy(0, batch.selected, batch.original)
        parts = ((batch.input_ids, 0), (torch.ones_like(batch.input_ids), 0), (labels, IGNORED))
        ids, mask, labels = (
            nn.utils.rnn.pad_sequence(list(values.split(lengths)), batch_first=True, padding_value=fill)
            for values, fill in parts
        )
        return cls(ids, mask, labels, (labels.flatten() >= 0).nonzero()[:, 0])

    def to(self, device: str) -> "Padded":
        """Return the batch on `device`."""
        return Padded(*(tensor.to(device, non_blocking=True) for tensor in self))


class Peer(nn.Module):
    """An objective on transformers' models, gathered or plain: `forward(batch)` returns the weighted loss."""

    def __init__(self, gathered: bool) -> None:
        super().__init__()
        self.gathered = gathered

    def taken(self, x_SL: Tensor, batch: Padded) -> Tensor:
        """Return the rows (N, …) of the positions that meet the vocabulary."""
        flat = x_SL.flatten(0, 1)
        return flat.index_select(0, batch.places) if self.gathered else flat

    def corrupted(self, batch: Padded, sample_N: Tensor) -> Tensor:
        """Return the ids with the samples in place of the selected tokens, (S, L)."""
        if not self.gathered:
            return torch.where(batch.labels >= 0, sample_N.view(batch.labels.shape), batch.input_ids)
        return batch.input_ids.flatten().index_copy(0, batch.places, sample_N).view(batch.input_ids.shape)

    def draw(self, probabilities_NV: Tensor, original_N: Tensor, negatives: int) -> tuple[Tensor, Tensor]:
        """Return a sample (N,) of each position and distinct negatives (N, K) without the original."""
        if self.gathered:
            running_NV = probabilities_NV.cumsum(1)
            return inverted(running_NV, 1)[:, 0], distinct(probabilities_NV, running_NV, original_N, negatives)
        sample = torch.multinomial(probabilities_NV, 1)[:, 0]
        if not negatives:
            return sample, sample.new_empty(len(sample), 0)
        return sample, torch.multinomial(probabilities_NV.scatter(1, original_N[:, None], 0.0), negatives)


class BertPeer(Peer):
    """Masked language modelling by `BertForMaskedLM`."""

    def __init__(self, config: BertObjectiveConfig, gathered: bool) -> None:
        super().__init__(gathered)
        sizes = electra_config(config.encoder)
        sizes.pop("embedding_size")
        self.model = BertForMaskedLM(BertConfig(**sizes))

    def forward(self, batch: Padded) -> Tensor:
        """Return the loss, a mean over selected tokens."""
        if not self.gathered:
            return self.model(batch.input_ids, attention_mask=batch.mask, labels=batch.labels).loss
        hidden = self.model.bert(batch.input_ids, attention_mask=batch.mask)[0]
        logits_MV = self.model.cls(self.taken(hidden, batch))
        return F.cross_entropy(logits_MV.float(), self.taken(batch.labels, batch))


class ElectraPeer(Peer):
    """MLM and replaced token detection by `ElectraForMaskedLM` and `ElectraForPreTraining` on one embedding block."""

    def __init__(self, config: ElectraObjectiveConfig, gathered: bool) -> None:
        super().__init__(gathered)
        self.config = config
        self.discriminator = ElectraForPreTraining(ElectraConfig(**electra_config(config.discriminator)))
        self.generator = ElectraForMaskedLM(ElectraConfig(**electra_config(config.generator)))
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.generator_lm_head.weight = self.discriminator.electra.embeddings.word_embeddings.weight

    def forward(self, batch: Padded) -> Tensor:
        """Return MLM + rtd_weight x RTD."""
        labels_N = self.taken(batch.labels, batch)
        if self.gathered:
            hidden = self.generator.electra(batch.input_ids, attention_mask=batch.mask)[0]
            states = self.generator.generator_predictions(self.taken(hidden, batch))
            logs_NV = F.log_softmax(self.generator.generator_lm_head(states).float(), -1)
            mlm, probabilities_NV = F.nll_loss(logs_NV, labels_N), logs_NV.detach().exp()
        else:
            found = self.generator(batch.input_ids, attention_mask=batch.mask, labels=batch.labels)
            mlm, probabilities_NV = found.loss, torch.softmax(found.logits.detach().float().flatten(0, 1), -1)
        with torch.no_grad():
            sample_N, _ = self.draw(probabilities_NV, labels_N.clamp(min=0), 0)
        corrupted = self.corrupted(batch, sample_N)
        replaced = (batch.labels >= 0) & (corrupted != batch.labels)
        rtd = self.discriminator(corrupted, attention_mask=batch.mask, labels=replaced.long()).loss
        return mlm + self.config.rtd_weight * rtd


class EHealthPeer(Peer):
    """Eq. 1 to 8 of eHealth on two `ElectraModel`s."""

    def __init__(self, config: EHealthConfig, gathered: bool) -> None:
        super().__init__(gathered)
        self.config = config
        self.discriminator = ElectraModel(ElectraConfig(**electra_config(config.discriminator)))
        self.generator = ElectraModel(ElectraConfig(**electra_config(config.generator)))
        self.generator.embeddings = self.discriminator.embeddings
        width, embedding = config.hidden_size, config.discriminator.embedding_width
        self.transform = nn.Sequential(
            nn.Linear(config.generator.hidden_size, embedding), nn.GELU(), nn.LayerNorm(embedding, eps=1e-12)
        )
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.detector = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
        self.selector = nn.Linear(width, embedding) if width != embedding else nn.Identity()

    def forward(self, batch: Padded) -> Tensor:
        """Return the loss of Eq. 8."""
        table, labels_N = self.discriminator.embeddings.word_embeddings.weight, self.taken(batch.labels, batch)
        hidden = self.taken(self.generator(batch.input_ids, attention_mask=batch.mask)[0], batch)
        logs_NV = F.log_softmax(F.linear(self.transform(hidden), table, self.bias).float(), -1)
        mlm, original_N = F.nll_loss(logs_NV, labels_N, ignore_index=IGNORED), labels_N.clamp(min=0)
        with torch.no_grad():
            sample_N, negatives_NK = self.draw(logs_NV.exp(), original_N, self.config.mts_negatives)
        corrupted = self.corrupted(batch, sample_N)
        states = self.discriminator(corrupted, attention_mask=batch.mask)[0]
        replaced = (batch.labels >= 0) & (corrupted != batch.labels)
        detection = self.detector(states)[:, :, 0].float()
        rtd = F.binary_cross_entropy_with_logits(detection, replaced.float(), reduction="none")
        rtd = (rtd * batch.mask).sum() / batch.mask.sum()
        mts = self.selection(self.taken(states, batch), original_N, negatives_NK, self.taken(replaced, batch))
        weights = self.config
        return mlm + weights.rtd_weight * rtd + weights.mts_weight * mts + weights.csp_weight * self.contrast(states)

    def selection(self, states_ND: Tensor, original_N: Tensor, negatives_NK: Tensor, replaced_N: Tensor) -> Tensor:
        """Multi-token selection (Eq. 5 and 6): gathered at replaced tokens only, plain at all positions."""
        candidates_NC = torch.cat([original_N[:, None], negatives_NK], 1)
        target_N = torch.where(replaced_N, 0, IGNORED)
        if self.gathered:
            places = replaced_N.nonzero()[:, 0]
            states_ND, candidates_NC, target_N = (
                x.index_select(0, places) for x in (states_ND, candidates_NC, target_N)
            )
        embedded_NCE = self.discriminator.embeddings.word_embeddings(candidates_NC)
        scores_NC = torch.einsum("nce,ne->nc", embedded_NCE, self.selector(states_ND)).float()
        return F.cross_entropy(scores_NC, target_N, ignore_index=IGNORED)

    def contrast(self, states_SLD: Tensor) -> Tensor:
        """Contrast of the views (Eq. 7); those of a row are neighbours."""
        unit_SD = F.normalize(states_SLD[:, 0].float(), dim=1)
        cosines_SS = (unit_SD @ unit_SD.t() / self.config.csp_temperature).fill_diagonal_(-torch.inf)
        return F.cross_entropy(cosines_SS, torch.arange(len(unit_SD), device=unit_SD.device) ^ 1)


PEERS: dict[str, Any] = {"bert": BertPeer, "ehealth": EHealthPeer, "electra": ElectraPeer}
"""The peer of each objective, built of our settings and its form."""


def inverted(running_NV: Tensor, count: int) -> Tensor:
    """Return tokens drawn with replacement, int64 (N, count), from running sums of weights (N, V)."""
    target = torch.rand(len(running_NV), count, device=running_NV.device) * running_NV[:, -1:]
    return torch.searchsorted(running_NV, target).clamp_(max=running_NV.shape[1] - 1)


def distinct(probabilities_NV: Tensor, running_NV: Tensor, original_N: Tensor, count: int) -> Tensor:
    """Return distinct tokens drawn without replacement, int64 (N, count), none of them the original.

    Passing over what was drawn before is drawing without replacement. `torch.multinomial` draws a random number for
    each entry of the vocabulary; here it only adds to draws that hold too few distinct tokens. The original counts as
    drawn at first.
    """
    if not count:
        return original_N.new_empty(len(original_N), 0)
    drawn = torch.cat([original_N[:, None], inverted(running_NV, EXTRA_DRAWS * count)], 1)
    earlier = torch.ones(drawn.shape[1], drawn.shape[1], dtype=torch.bool, device=drawn.device).tril(-1)
    repeated = ((drawn[:, :, None] == drawn[:, None, :]) & earlier).any(2)
    found = drawn_once(drawn, repeated)[:, 1 : count + 1]
    short = ((~repeated).sum(1) <= count).nonzero()[:, 0]
    if len(short):
        left = probabilities_NV[short].clamp(min=1e-30).scatter(1, drawn[short], 0.0)
        more = torch.cat([drawn[short], torch.multinomial(left, count)], 1)
        found[short] = drawn_once(more, F.pad(repeated[short], (0, count)))[:, 1 : count + 1]
    return found


def drawn_once(drawn_NJ: Tensor, repeated_NJ: Tensor) -> Tensor:
    """Return the tokens (N, J) with those that were drawn before at the end, all else in order of drawing."""
    return drawn_NJ.gather(1, repeated_NJ.int().argsort(dim=1, stable=True))
