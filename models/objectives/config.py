"""The part that the settings of all objectives share: what is known of an objective without its network.

Presets are checked with it, so nothing here or in an objective's `config.py` imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

from models.encoder.config import EncoderConfig
from models.tokenizer.special_ids import NUM_SPECIAL
from models.training.field_types import check_types


@dataclass(frozen=True)
class Ablation:
    """A variant of an objective that a paper compares with the full one: a row of its table."""

    name: str
    title: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Dotted preset keys to values."""


def check_shares(shares: Mapping[str, float]) -> None:
    """Check the shares of the steps that tasks have.

    Raises:
        ValueError: a share is not over 0, or they do not add up to 1; the message names them.
    """
    shown = " + ".join(f"{name} {share:g}" for name, share in shares.items())
    for name, share in shares.items():
        if not share > 0.0:
            raise ValueError(f"the share of task {name} in the steps is {share:g}; it must be over 0")
    total = math.fsum(shares.values())
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        raise ValueError(f"the shares of the tasks in the steps must add up to 1, but {shown} is {total:g}")


class ObjectiveConfig:
    """Base of the settings of an objective, which are the fields of a dataclass."""

    speed_only: ClassVar[frozenset[str]] = frozenset({"checkpoint_activations", "compile_layers"})
    """Settings that change speed and memory alone: a run may resume with other values."""
    ablations: ClassVar[tuple[Ablation, ...]] = (Ablation("full", "The full setting"),)
    """Variants that the paper compares, the full one first."""
    ablated_in: ClassVar[str] = ""
    """Where the paper compares them."""
    tabulated: ClassVar[Mapping[str, str]] = {}
    """Titles of the held-out figures that a table of variants shows, in its order. A term that is off has none."""

    def data(self) -> tuple[str, ...]:
        """Return the names of the inputs that these settings need beside examples of text.

        A table in flows/shared/pretraining.py makes each; `train` takes it under this name.
        """
        return ()

    @property
    def reads_segments(self) -> bool:
        """True if a task reads single segments: the rows of the stage `encode`, as long as it makes them."""
        return not self.data()

    @property
    def reads_mentions(self) -> bool:
        """True if the rows must say which entities of a graph they mention, and where."""
        return False

    def check_knowledge(self, neighbours: int, width: int) -> None:
        """Check that a graph's arrays will have all that is read of them, if anything is.

        Args:
            neighbours: neighbours that are ranked for each entity (`neighbours.k`).
            width: numbers of an entity's vector (`embed.entity_dim`).

        Raises:
            ValueError: they will not; the message names the setting and the remedy.
        """

    @property
    def random_pairs(self) -> bool:
        """True if half of the sentence pairs take their second sentence from another document, as for NSP."""
        return False

    def shares(self) -> Mapping[str, float]:
        """Return the share of the steps of each task, by name; empty for an objective with one task.

        They add up to 1 (`check_shares`). A task that these settings switch off is left out.
        """
        return {}

    def task_names(self) -> tuple[str, ...]:
        """Return the names of the tasks that `training.tasks` may have settings for, by default those of `shares`.

        They include tasks that these settings switch off, so that a preset can be trained without one of its tasks.
        """
        return tuple(self.shares())

    @classmethod
    def cut_dependence(cls, settings: Mapping[str, Any]) -> str | None:
        """Return the setting, as a user gives it, that makes the loss depend on how a batch is cut into micro-batches.

        None: the losses of micro-batches add up to that of the uncut batch.
        """
        return None

    def resources(self) -> tuple[str, ...]:
        """Return the names of the artifacts that the objective reads beside its rows, such as `("knowledge",)`.

        A run has an input of each name, and gives it to the objective with `attach`.
        """
        return ()


@dataclass(frozen=True, kw_only=True)
class EncoderObjectiveConfig(ObjectiveConfig):
    """Settings of an objective that trains one encoder; the defaults are BERT-base's.

    A subclass adds fields, and checks them in a `__post_init__` that calls this one first. Raises ValueError naming
    field and remedy.
    """

    vocab_size: int
    """Number of tokens; flows take it from the vocabulary."""
    hidden_size: int = 768
    """Width of the hidden states."""
    num_layers: int = 12
    """Number of layers."""
    num_heads: int = 12
    """Attention heads of a layer; they divide the hidden size."""
    intermediate_size: int = 3072
    """Width of the feed-forward layers."""
    max_positions: int = 512
    """Length of the longest sequence, in tokens."""
    type_vocab_size: int = 2
    """Number of segment types: 2 for pairs of sentences."""
    hidden_dropout: float = 0.1
    """Dropout rate of embeddings and hidden states."""
    attention_dropout: float = 0.1
    """Dropout rate of attention weights."""
    layer_norm_eps: float = 1e-12
    """Addend to the variance in layer normalisation."""
    initializer_range: float = 0.02
    """Standard deviation of the normal distribution of initial weights."""
    positions: str = "absolute"
    """Encoding of a token's place: "absolute", as in the papers, or "rotary". See `EncoderConfig`."""
    vocab_multiple: int = 1
    """Divisor of the word table's rows, filled up with zeros; 64 suits matrix units. See `EncoderConfig`."""
    checkpoint_activations: bool = False
    """Recompute activations in the backward pass instead of keeping them. See `EncoderConfig`."""
    compile_layers: bool = False
    """Let torch.compile fuse parts of the layers. See `EncoderConfig`."""

    def __post_init__(self) -> None:
        check_types(self, "model.")
        _ = self.encoder  # its own checks come first
        if self.vocab_size <= NUM_SPECIAL:
            raise ValueError(f"vocab_size={self.vocab_size} leaves no token besides the {NUM_SPECIAL} special ones")

    @property
    def encoder(self) -> EncoderConfig:
        """Sizes of the encoder that is pre-trained: every field of this config that an `EncoderConfig` has too."""
        mine = {one.name for one in fields(self)}
        return EncoderConfig(**{one.name: getattr(self, one.name) for one in fields(EncoderConfig) if one.name in mine})


@dataclass(frozen=True, kw_only=True)
class GeneratorObjectiveConfig(EncoderObjectiveConfig):
    """Settings of an objective that trains a discriminator with a generator, as ELECTRA does (Clark et al., 2020)."""

    embedding_size: int | None = None
    """Width of the embedding tables, which both networks share; None: the hidden size."""
    generator_divisor: int = 3
    """Divisor of the generator's hidden size, FFN size and heads relative to the discriminator's; it must divide all
    three.
    """
    whole_words: bool = True
    """Mask the tokens of a segmented word together, as eHealth does; false: each by itself, which a small generator
    learns much sooner.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = {name: getattr(self, name) for name in ("hidden_size", "intermediate_size", "num_heads")}
        divisor = self.generator_divisor
        bad = [f"{name}={size}" for name, size in sizes.items() if divisor < 1 or size % divisor]
        if bad:
            possible = [d for d in range(1, self.num_heads + 1) if not any(size % d for size in sizes.values())]
            raise ValueError(f"generator_divisor={divisor} must divide {', '.join(bad)}; possible here: {possible}")

    @property
    def discriminator(self) -> EncoderConfig:
        """Sizes of the discriminator, the encoder that is pre-trained."""
        return self.encoder

    @property
    def generator(self) -> EncoderConfig:
        """Sizes of the generator: narrower, equally deep, on the same embeddings."""
        wide, divisor = self.encoder, self.generator_divisor
        return replace(
            wide,
            hidden_size=wide.hidden_size // divisor,
            intermediate_size=wide.intermediate_size // divisor,
            num_heads=wide.num_heads // divisor,
        )
