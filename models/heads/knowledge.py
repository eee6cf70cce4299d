"""The knowledge model as a head's encoder: states with knowledge of the entities that a text mentions.

The mentions come with the examples: their texts are linked where they are cut into tokens (tasks/knowledge/names.py).
Neighbours are looked up for each batch.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from models.encoder import inference
from models.encoder.randomness import SequenceNoise
from models.heads.batch import TokenBatch
from models.heads.first_token import finish_first
from models.heads.task_encoder import EncoderSizes, PlainEncoder, TaskEncoder
from models.knowledge_model.folder import fresh, load_model, save_model
from models.knowledge_model.network import KnowledgeNetwork
from models.knowledge_model.source import GivenKnowledge, KnowledgeSource


class KnowledgeEncoder(nn.Module, TaskEncoder):
    """A knowledge network as a `TaskEncoder`. A text's states do not depend on the texts beside it."""

    def __init__(self, network: KnowledgeNetwork, source: KnowledgeSource) -> None:
        super().__init__()
        self.network = network
        self._source = source

    @classmethod
    def load(cls, folder: Path, dropout: float | None = None, knowledge: GivenKnowledge = None) -> KnowledgeEncoder:
        """Load the encoder of a folder; arguments and errors are those of `load_model`."""
        return cls(*load_model(folder, dropout, knowledge))

    @property
    def sizes(self) -> EncoderSizes:
        """See `TaskEncoder.sizes`; the infusion has no dropout."""
        return PlainEncoder(self.network.encoder).sizes

    @property
    def graph(self) -> tuple[str, str] | None:
        """See `TaskEncoder.graph`."""
        return None if self.network.knowledge is None else self._source.graph

    def states(self, batch: TokenBatch, noise: SequenceNoise | None) -> Tensor:
        """See `TaskEncoder.states`. Raises ValueError for a mention of an entity that the graph does not have."""
        return self.network(batch.input_ids, batch.layout, batch.type_ids, batch.mentions, noise)

    def first_states(self, batch: TokenBatch, noise: SequenceNoise | None) -> Tensor:
        """See `TaskEncoder.first_states`; the last layer runs for the first tokens alone."""
        encoder = self.network.encoder
        before = len(encoder.layers) - 1
        if before < self.network.infusion.config.layer:
            return super().first_states(batch, noise)
        x_TD = self.network.infused(batch.input_ids, batch.layout, batch.type_ids, batch.mentions, noise, before)
        if inference.applies(encoder):
            return inference.finish_first(encoder, x_TD, batch.layout)
        return finish_first(encoder, x_TD, batch.layout, noise)

    def save(self, folder: Path) -> None:
        """See `TaskEncoder.save`; config.json names the folder in which the knowledge was found."""
        save_model(self.network, self._source, folder)

    def fresh(self, seed: int) -> KnowledgeEncoder:
        """See `TaskEncoder.fresh`; the knowledge stays."""
        return KnowledgeEncoder(fresh(self.network, seed), self._source)
