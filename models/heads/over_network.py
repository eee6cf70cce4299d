"""Heads in which a network of models/networks/ answers, instead of a dense layer on an encoder's states.

What the network reads are vectors of tokens: a table's (embedding_table.py), a frozen encoder's states (frozen.py), or
the states of any other kind of encoder, which is then trained with it.

Shape legend: T tokens laid end to end, S sequences, C labels.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from models import networks
from models.encoder.network import Encoder
from models.heads.batch import TaskBatch
from models.heads.classification import MultiLabel, Single
from models.heads.encoders import AnyEncoder
from models.heads.frozen import FrozenStates
from models.heads.tagging import OneStream
from models.heads.task_model import TaskModel, check_num_labels
from models.networks.parts.crf import ConditionalRandomField
from models.networks.parts.network import DROPOUT, Network
from models.weights.task_heads import TransformersHead


class _OverNetwork(TaskModel):
    """Base class of the three heads."""

    kind: str
    network: Network

    def __init__(self, encoder: AnyEncoder, *, num_labels: int, network: str, dropout: float = DROPOUT) -> None:
        """`network`: a name of `models.networks.build`; `dropout`: rate inside it."""
        reader = FrozenStates(encoder) if isinstance(encoder, Encoder) else encoder
        TaskModel.__init__(self, reader, dropout=dropout)
        self.num_labels = check_num_labels(num_labels, self.name)
        self.network_name = network
        self.network = networks.build(network, self.sizes.hidden_size, num_labels, self.kind, dropout=dropout)

    def config(self) -> dict[str, Any]:
        """See `TaskModel.config`."""
        return {"num_labels": self.num_labels, "network": self.network_name, "dropout": self.dropout}

    @property
    def form(self) -> str:
        """See `TaskModel.form`."""
        return f"{self.name}-{self.network_name}"

    def transformers_head(self) -> TransformersHead | None:
        """See `TaskModel.transformers_head`; transformers has no such network."""
        return None

    def answers(self, batch: TaskBatch) -> Tensor:
        """Return the network's scores (T, C) or (S, C), in the layout's order."""
        noise = self._noise(batch)
        states_TD = self.reader.states(batch, noise)
        site = self.sizes.dropout_sites  # the encoder's own are those before
        return self.network(states_TD, batch.layout, noise.fork(site) if noise else None)


class NetworkSingle(_OverNetwork, Single):
    """Softmax over C classes of one text."""

    kind = networks.CLASSIFY

    def logits(self, batch: TaskBatch) -> Tensor:
        """Return float32 (S, C), in the examples' order."""
        return self.answers(batch)[batch.places]


class NetworkMultiLabel(_OverNetwork, MultiLabel):
    """C independent yes-or-no questions about one text."""

    kind = networks.CLASSIFY

    def logits(self, batch: TaskBatch) -> Tensor:
        """Return float32 (S, C), in the examples' order."""
        return self.answers(batch)[batch.places]


class NetworkTagging(_OverNetwork, OneStream):
    """One tag per token, by softmax or by the network's CRF."""

    kind = networks.TAG

    @property
    def transitions(self) -> ConditionalRandomField | None:
        """See `OneStream.transitions`."""
        return self.network.crf

    def emissions(self, batch: TaskBatch) -> Tensor:
        """See `OneStream.emissions`."""
        return self.answers(batch)


OVER_NETWORKS: dict[str, type[TaskModel]] = {
    head.name: head for head in (NetworkSingle, NetworkMultiLabel, NetworkTagging)
}
"""Heads that a network can answer for, by the name of the head."""
