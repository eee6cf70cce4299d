"""Entity pointer with multi-head selection: entities and the relations between them, jointly (eHealth, appendix E;
Bekoulis et al., 2018).

The pointer decides for each token whether an entity starts and whether one ends there. For relation k the selection
decides whether an entity that starts at i is the subject of one that starts at j:

    s_k(i, j) = h_i^T U_k h_j + a_k . h_i + c_k . h_j + b_k        (relation-specific biaffine: Dozat and Manning, 2017)

The loss needs s for all i, j and k. A relation's scores are two matrix products. They give the loss and at once its
gradient, and are then discarded. So beside the gradients, memory is that of a few relations at a time. Autograd would
keep all R L^2 scores and (T, R, D) products, and the additive form an [L, L, R, D] tensor per sequence. Prediction
computes scores only for tokens where an entity starts.

Shape legend: S sequences, T tokens laid end to end, L tokens of one sequence, D hidden size, R relations, P pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.encoder.layout import Layout
from models.encoder.linear import Linear, linear, matmul_transposed, weight_gradient
from models.heads.batch import TaskBatch
from models.heads.encoders import AnyEncoder
from models.heads.examples import HeadExample, Pointers
from models.heads.task_model import TaskModel, check_num_labels

_CHUNK_ELEMENTS = {"cpu": 1 << 23, "cuda": 1 << 27}
"""Numbers in the products of the relations that are processed together: 32 MB on a CPU, 512 MB on a GPU."""


class Triples(TaskModel):
    """Entities as pairs of pointers, relations between their first tokens."""

    name = "triples"

    def __init__(
        self,
        encoder: AnyEncoder,
        *,
        num_labels: int,
        relation_weight: float = 50.0,
        entity_threshold: float = 0.5,
        relation_threshold: float = 0.5,
        relation_prior: float = 0.01,
        dropout: float = 0.1,
    ) -> None:
        """`num_labels`: R. `relation_weight`: weight of the relation loss; that of the entity loss is 1. The thresholds
        are the probabilities above which a pointer and a relation count as found.

        `relation_prior`: probability of a relation under fresh weights (focal loss's pi: Lin et al., 2017, section
        4.1). At most one pair in ten thousand is related, and from 0.5 the first epochs would only learn that. Raises
        ValueError outside (0, 1).
        """
        super().__init__(encoder, dropout=dropout)
        self.num_labels = check_num_labels(num_labels, self.name, least=1)
        self.relation_weight = relation_weight
        self.entity_threshold = entity_threshold
        self.relation_threshold = relation_threshold
        if not 0.0 < relation_prior < 1.0:
            raise ValueError(f"relation_prior must be in (0, 1), got {relation_prior!r}")
        self.relation_prior = relation_prior
        width = self.sizes.hidden_size
        self.pointer = Linear(width, 2)
        self.selection = Linear(width, num_labels * width)
        self.subject = Linear(width, num_labels)
        self.initialise_head()
        torch.nn.init.zeros_(self.selection.weight)  # otherwise h^T U h would start with a deviation of D * std
        torch.nn.init.constant_(self.subject.bias, math.log(relation_prior / (1.0 - relation_prior)))

    def config(self) -> dict[str, Any]:
        """See `TaskModel.config`."""
        names = ("num_labels", "relation_weight", "entity_threshold", "relation_threshold", "relation_prior", "dropout")
        return {name: getattr(self, name) for name in names}

    def check_target(self, example: HeadExample) -> None:
        """Check `Pointers` within the sequence."""
        if not isinstance(example.target, Pointers):
            raise ValueError(f"the target must be Pointers, got {type(example.target).__name__}")
        length = len(example.sequences[0].input_ids)
        entities, relations = _pairs(example.target.entities, 2), _pairs(example.target.relations, 3)
        if ((entities < 0) | (entities >= length)).any() or (entities[:, 0] > entities[:, 1]).any():
            raise ValueError(f"entities must run from a first to a last token within 0 to {length - 1}")
        starts = relations[:, [0, 2]]
        if ((starts < 0) | (starts >= length)).any():
            raise ValueError(f"relations must join tokens from 0 to {length - 1}")
        kinds = relations[:, 1]
        if ((kinds < 0) | (kinds >= self.num_labels)).any():
            raise ValueError(f"relations must be numbered from 0 to {self.num_labels - 1}, got {kinds.tolist()}")

    def pack_targets(self, examples: Sequence[HeadExample], batch: TaskBatch) -> dict[str, Tensor]:
        """pointers: float32 (T, 2), where entities start and end; relations: int64 (P, 4), each once: place of its
        sequence, first token of the subject in its sequence, relation, first token of the object.
        """
        pointers = torch.zeros(batch.tokens, 2)
        relations = [np.empty((0, 4), dtype=np.int64)]
        for place, row in enumerate(batch.order.tolist()):
            target = examples[row].target
            entities = torch.from_numpy(_pairs(target.entities, 2)) + int(batch.layout.offsets[place])
            pointers[entities[:, 0], 0] = 1.0
            pointers[entities[:, 1], 1] = 1.0
            found = np.unique(_pairs(target.relations, 3), axis=0)
            relations.append(np.insert(found, 0, place, axis=1))
        return {"pointers": pointers, "relations": torch.from_numpy(np.concatenate(relations))}

    def forward(self, batch: TaskBatch) -> dict[str, Tensor]:
        """Return `entity`, `relation` and `loss` = entity + relation_weight * relation.

        Both terms are mean binary cross entropies: over tokens and their two pointers, and over all i, j, k.
        """
        pointers_T2, relations_P4 = self.targets(batch, "pointers"), self.targets(batch, "relations")
        hidden_TD = self.encode(batch)
        entity = F.binary_cross_entropy_with_logits(self.pointer(hidden_TD).float(), pointers_T2)
        relation = self._relation_loss(hidden_TD, batch.layout, relations_P4)
        return {"loss": entity + self.relation_weight * relation, "entity": entity, "relation": relation}

    def decode(self, batch: TaskBatch) -> list[Any]:
        """Return `Pointers` with scores per example."""
        hidden_TD = self.encode(batch)
        pointers_T2 = torch.sigmoid(self.pointer(hidden_TD).float()).cpu().numpy() > self.entity_threshold
        ends = np.cumsum(batch.layout.lengths)
        found = [
            self._decode(hidden_TD[end - length : end], pointers_T2[end - length : end])
            for length, end in zip(batch.layout.lengths, ends.tolist(), strict=True)
        ]
        return [found[place] for place in batch.places.tolist()]

    def _decode(self, hidden_LD: Tensor, pointers_L2: np.ndarray) -> Pointers:
        entities = decode_entities(*pointers_L2.T)
        starts = np.unique(entities[:, 0])
        if not len(starts):
            return Pointers(entities, np.empty((0, 3), dtype=np.int64), np.empty(0, dtype=np.float32))
        scores_nRn = self._scores(hidden_LD[torch.from_numpy(starts).to(hidden_LD.device)])
        probabilities = torch.sigmoid(scores_nRn).cpu().numpy()
        subject, relation, obj = np.nonzero(probabilities > self.relation_threshold)
        relations = np.stack([starts[subject], relation, starts[obj]], axis=1)
        return Pointers(entities, relations, probabilities[subject, relation, obj])

    def _scores(self, starts_nD: Tensor) -> Tensor:
        """Return s between n tokens, float32 (n, R, n)."""
        query = self.selection(starts_nD).view(len(starts_nD), self.num_labels, -1)
        return (query @ starts_nD.t().to(query.dtype)).float() + self.subject(starts_nD).float()[:, :, None]

    def _relation_loss(self, hidden_TD: Tensor, layout: Layout, relations_P4: Tensor) -> Tensor:
        subject_TR = self.subject(hidden_TD).float()
        device = hidden_TD.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden_TD.dtype
        factors = (hidden_TD.to(dtype), self.selection.weight.to(dtype), self.selection.bias.to(dtype))
        with torch.autocast(device, enabled=False):
            total = _SelectionLoss.apply(*factors, subject_TR, layout, relations_P4)
        return total / (self.num_labels * sum(length**2 for length in layout.lengths))


class _SelectionLoss(torch.autograd.Function):
    """Sum of the binary cross entropy over sequences, relations and pairs of tokens, float32 ().

    The backward pass scales the gradient that the forward pass found.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_TD: Tensor,
        weight_ED: Tensor,
        bias_E: Tensor,
        subject_TR: Tensor,
        layout: Layout,
        relations_P4: Tensor,
    ) -> Tensor:
        """`weight_ED`, `bias_E`: U and c of all relations, E = R * D."""
        wanted = any(ctx.needs_input_grad[:4])
        tokens, width = hidden_TD.shape
        loss = subject_TR.new_zeros(())
        grad_hidden = torch.zeros_like(hidden_TD, dtype=torch.float32)
        grad_weight, grad_bias, grad_subject = (torch.empty_like(t) for t in (weight_ED, bias_E, subject_TR))
        step = max(1, _CHUNK_ELEMENTS.get(hidden_TD.device.type, 1 << 23) // (tokens * width))
        for first in range(0, subject_TR.shape[1], step):
            relations = slice(first, min(first + step, subject_TR.shape[1]))
            rows = slice(relations.start * width, relations.stop * width)
            query_TE = linear(hidden_TD, weight_ED[rows], bias_E[rows])
            for place, start, length in _sequences(layout):
                span = slice(start, start + length)
                keys_LD = hidden_TD[span]
                query_ND = query_TE[span].view(-1, width)
                scores = matmul_transposed(query_ND, keys_LD).view(length, -1, length).float()
                scores += subject_TR[span, relations, None]
                i, k, j = _positives(relations_P4, place, relations)
                # -log p of a pair: softplus(s) - s where the relation holds, softplus(s) elsewhere.
                loss += F.softplus(scores).sum() - scores[i, k, j].sum()
                if not wanted:
                    continue
                grad_scores = scores.sigmoid_()
                grad_scores[i, k, j] -= 1.0
                grad_subject[span, relations] = grad_scores.sum(2)
                grad_NL = grad_scores.view(-1, length).to(hidden_TD.dtype)
                grad_hidden[span] += matmul_transposed(grad_NL.t(), query_ND.t())
                # The query is no longer needed: its gradient takes its place.
                query_ND.copy_(matmul_transposed(grad_NL, keys_LD.t()))
            if wanted:
                grad_weight[rows] = weight_gradient(query_TE, hidden_TD)
                grad_bias[rows] = query_TE.sum(0)
                grad_hidden += matmul_transposed(query_TE, weight_ED[rows].t())
        if wanted:
            ctx.save_for_backward(grad_hidden.to(hidden_TD.dtype), grad_weight, grad_bias, grad_subject)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, subject = (saved * grads[0].to(saved.dtype) for saved in ctx.saved_tensors)
        return hidden, weight, bias, subject, None, None


def decode_entities(starts_L: np.ndarray, ends_L: np.ndarray) -> np.ndarray:
    """Return the entities int64 (N, 2) of marked starts and ends, bool (L,).

    A start takes every end from itself to before the next start; if there is none, the nearest end after it. So
    entities may share a start or an end; a start with no end after it is dropped.
    """
    starts, ends = np.flatnonzero(starts_L), np.flatnonzero(ends_L)
    found = []
    # Starts 2 and 5, ends 3 and 6: entities (2, 3) and (5, 6). Starts 2 and 5, end 6 only: (2, 6) and (5, 6).
    for start, following in pairwise([*starts, len(starts_L)]):
        first, beyond = np.searchsorted(ends, (start, following))
        found += [(start, end) for end in ends[first : max(beyond, first + 1)]]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _sequences(layout: Layout) -> list[tuple[int, int, int]]:
    """Place, first token and length of each sequence."""
    starts = np.cumsum((0, *layout.lengths[:-1])).tolist()
    return list(zip(range(len(starts)), starts, layout.lengths, strict=True))


def _positives(relations_P4: Tensor, place: int, relations: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Indices (i, k, j) into a sequence's scores of these relations, where a relation holds."""
    sequence, i, k, j = relations_P4.unbind(1)
    here = (sequence == place) & (k >= relations.start) & (k < relations.stop)
    return i[here], k[here] - relations.start, j[here]


def _pairs(values: Any, width: int) -> np.ndarray:
    """Array int64 (n, width), which may be empty. Raises ValueError for another shape."""
    array = np.asarray(values, dtype=np.int64)
    if array.size == 0:
        return array.reshape(0, width)
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"expected an array of shape (n, {width}), got {array.shape}")
    return array
