"""Parameters of the stages `neighbours` and `kg_embeddings`.

Nothing here imports torch: a mistyped key is explained before that.
"""

from __future__ import annotations

from pydantic import Field

from infra.stage import StageParams
from kg.pepr.limits import MAX_DENSE
from tasks.training.cluster import Cluster


class NeighbourParams(StageParams):
    """SMedBERT, section 3.2."""

    k: int = Field(default=10, ge=1, description="neighbours kept per entity at most")
    alpha: float = Field(default=0.15, gt=0, le=1, description="probability of a restart")
    max_dense: int = Field(
        default=MAX_DENSE, ge=0, description="entities of the largest core that is inverted densely, in 4 n² bytes"
    )


class EmbedParams(StageParams):
    """Sizes and training of the vectors. Settings that change only speed are left out of the fingerprint."""

    entity_dim: int = Field(default=200, ge=1, description="width of an entity's vector (SMedBERT: d2)")
    relation_dim: int = Field(default=200, ge=1, description="width of a relation's vector")
    transe_epochs: int = Field(default=20, ge=0, description="passes of TransE at most, for the first vectors; 0: none")
    epochs: int = Field(default=100, ge=1, description="passes of TransR at most")
    batch_size: int = Field(default=4096, ge=1, description="triples in the global batch, over all workers")
    negatives: int = Field(default=1, ge=1, description="corrupted triples per triple")
    filtered_negatives: bool = Field(default=False, description="never use a triple of the graph as a negative")
    margin: float = Field(default=1.0, gt=0)
    """Margin of the ranking loss between true and corrupted triples."""
    squared: bool = Field(default=True, description="squared distances in the loss; false: plain ones")
    learning_rate: float = Field(default=0.05, gt=0)
    """Learning rate of the entities' and relations' vectors."""
    projection_rate: float = Field(default=0.1, gt=0, description="learning rate of the projections, as a factor")
    held_out: int = Field(default=1000, ge=0, description="triples held out at most; 0: no evaluation")
    evaluate_every: int = Field(default=5, ge=1, description="epochs between two evaluations")
    patience: int = Field(default=3, ge=0, description="evaluations without a better MRR before training stops; 0: any")
    seed: int = 42
    """Seed of initial vectors, negatives and the order of triples."""
    checkpoint_every: int = Field(default=5, ge=1, exclude=True, description="epochs between two checkpoints")
    cluster: Cluster = Field(default_factory=Cluster, exclude=True)
