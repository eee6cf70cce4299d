"""Sizes and weights of ELECTRA (Clark et al., 2020), checked before anything is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from models.encoder.config import EncoderConfig
from models.objectives.config import ObjectiveConfig
from models.tokenizer.special_ids import NUM_SPECIAL
from models.training.field_types import check_types


@dataclass(frozen=True, kw_only=True)
class ElectraObjectiveConfig(ObjectiveConfig):
    """Sizes and settings; the defaults are ELECTRA-base's. Raises ValueError naming field and remedy."""

    tabulated: ClassVar[Mapping[str, str]] = {
        "mlm_loss": "MLM loss",
        "mlm_accuracy": "MLM acc.",
        "rtd_loss": "RTD loss",
        "rtd_balanced_accuracy": "RTD bal. acc.",
    }

    vocab_size: int
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    intermediate_size: int = 3072
    embedding_size: int | None = None
    max_positions: int = 512
    type_vocab_size: int = 2
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    generator_divisor: int = 3
    """The generator's hidden size, FFN size and heads are the discriminator's divided by this; it must divide all."""
    mask_probability: float = 0.15
    """Probability of each word to be selected."""
    rtd_weight: float = 50.0
    """Weight of replaced token detection in the loss."""
    positions: str = "absolute"
    """How a token's place enters: "absolute", as the paper has it, or "rotary". See `EncoderConfig`."""
    vocab_multiple: int = 1
    """Fill the word table up to a multiple of this inside; 64 suits matrix units. See `EncoderConfig`."""
    checkpoint_activations: bool = False
    """Compute activations again in the backward pass in place of keeping them. See `EncoderConfig`."""
    compile_layers: bool = False
    """Let torch.compile fuse parts of the layers. See `EncoderConfig`."""

    def __post_init__(self) -> None:
        check_types(self, "model.")
        _ = self.discriminator  # its own checks speak first
        sizes = {name: getattr(self, name) for name in ("hidden_size", "intermediate_size", "num_heads")}
        divisor = self.generator_divisor
        bad = [f"{name}={size}" for name, size in sizes.items() if divisor < 1 or size % divisor]
        if bad:
            possible = [d for d in range(1, self.num_heads + 1) if not any(size % d for size in sizes.values())]
            raise ValueError(f"generator_divisor={divisor} must divide {', '.join(bad)}; possible here: {possible}")
        if not 0.0 < self.mask_probability < 1.0:
            raise ValueError(f"mask_probability must lie in (0, 1), got {self.mask_probability!r}")
        if not self.rtd_weight > 0.0:
            raise ValueError(f"rtd_weight must be positive, got {self.rtd_weight!r}; objective bert trains MLM alone")
        if self.vocab_size <= NUM_SPECIAL:
            raise ValueError(f"vocab_size={self.vocab_size} leaves no token besides the {NUM_SPECIAL} special ones")

    @property
    def discriminator(self) -> EncoderConfig:
        """The discriminator's sizes."""
        return self._encoder(1)

    @property
    def generator(self) -> EncoderConfig:
        """The generator's sizes: narrower, equally deep, on the same embeddings."""
        return self._encoder(self.generator_divisor)

    def _encoder(self, divisor: int) -> EncoderConfig:
        return EncoderConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size // divisor,
            num_layers=self.num_layers,
            num_heads=self.num_heads // divisor,
            intermediate_size=self.intermediate_size // divisor,
            embedding_size=self.hidden_size if self.embedding_size is None else self.embedding_size,
            max_positions=self.max_positions,
            type_vocab_size=self.type_vocab_size,
            hidden_dropout=self.hidden_dropout,
            attention_dropout=self.attention_dropout,
            layer_norm_eps=self.layer_norm_eps,
            initializer_range=self.initializer_range,
            vocab_multiple=self.vocab_multiple,
            positions=self.positions,
            checkpoint_activations=self.checkpoint_activations,
            compile_layers=self.compile_layers,
        )
