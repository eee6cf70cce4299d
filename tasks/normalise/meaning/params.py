"""Parameters of the stages `synonym_pairs`, `name_encoder` and `name_vectors`, apart from them, as they need torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from infra.stage import StageParams
from tasks.downstream.spec import Grid, TaskSpec
from tasks.finetune.params import Floats, Integers, TuningParams
from tasks.normalise.meaning.folders import Pooling, read_pooling


class SynonymPairsParams(StageParams):
    """Which names become pairs."""

    english: bool = Field(default=True, description="use English names, those of ICD-10 among them")
    most_pairs: int = Field(default=12, ge=1, description="pairs of a concept at most; of more, some are drawn")
    hard_negatives: int = Field(default=1, ge=0, description="names of the same category given to each pair")
    min_documents: int = Field(default=2, ge=1, description="documents that must state a synonym before it is used")
    dev_share: float = Field(default=0.02, gt=0, lt=1, description="share of the concepts that judge a training")
    seed: int = Field(default=1, ge=0, description="seed of what is drawn")


class NameEncoderParams(TuningParams):
    """Training of the encoder: SapBERT's loss, at a size for a CPU."""

    seeds: Integers = Field(default=(1,), min_length=1)
    """Seeds of the trials that a setting is judged by."""
    batch_sizes: Integers = Field(default=(128,), min_length=1)
    """Pairs in a batch (SapBERT: 512); all names of a batch are compared with each other."""
    learning_rates: Floats = Field(default=(5e-4,), min_length=1)
    """Peak learning rates to try (SapBERT, base size: 2e-5)."""
    epochs: Integers = Field(default=(3,), min_length=1)
    """Numbers of epochs to try (SapBERT, with millions of pairs: 1)."""
    pooling: Pooling = Field(
        default="mean", description="vector of a name: the mean of its tokens' states, or the state of [CLS] (SapBERT)"
    )
    margin: float = Field(default=0.2, ge=0, le=2, description="λ of equation 1: separation of ignored triplets")
    negative_scale: float = Field(default=60.0, gt=0, description="α of equation 2")
    positive_scale: float = Field(default=1.0, gt=0, description="β of equation 2")
    offset: float = Field(default=0.5, ge=-1, le=1, description="ε of equation 2, a similarity")

    def grid(self, spec: TaskSpec) -> Grid:
        """Return the grid of these parameters; the task has none."""
        return Grid(self.batch_sizes, self.learning_rates, self.epochs, "SapBERT's loss at a size for a CPU")

    @property
    def loss(self) -> dict[str, float]:
        """Fields of `models.heads.multi_similarity.MultiSimilarityConfig`."""
        return {name: getattr(self, name) for name in ("margin", "negative_scale", "positive_scale", "offset")}


class NameVectorsParams(StageParams):
    """How vectors of names are made and kept."""

    pooling: Pooling | None = Field(
        default=None, description="vector of a name; by default as the encoder was trained, or the mean"
    )
    dtype: Literal["float16", "float32"] = Field(default="float16", description="numbers that are stored")

    def of(self, encoder: Path | None) -> NameVectorsParams:
        """Return the parameters with the pooling that an encoder was trained with, which is then part of the
        fingerprint. Raises `UserError` if `pooling.json` is damaged."""
        if encoder is None or self.pooling is not None:
            return self
        return self.model_copy(update={"pooling": read_pooling(encoder)})
