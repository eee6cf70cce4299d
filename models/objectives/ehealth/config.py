"""Sizes and weights of eHealth (Wang et al., 2021, Table 7), checked before anything is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from models.encoder.config import EncoderConfig
from models.objectives.config import Ablation, ObjectiveConfig
from models.tokenizer.special_ids import NUM_SPECIAL
from models.training.field_types import check_types

_NO_CSP = {"model.csp_weight": 0.0}
_NO_MTS = {"model.mts_weight": 0.0}


@dataclass(frozen=True, kw_only=True)
class EHealthConfig(ObjectiveConfig):
    """Sizes and weights; the defaults are those of the paper's Table 7. Raises ValueError naming field and remedy."""

    ablations: ClassVar[tuple[Ablation, ...]] = (
        Ablation("full", "The full setting"),
        Ablation("without_csp", "w/o CSP", _NO_CSP),
        Ablation("without_mts", "w/o MTS", _NO_MTS),
        Ablation("without_csp_mts", "w/o CSP & MTS", _NO_CSP | _NO_MTS),
    )
    """Section 4.4 and Table 6."""
    tabulated: ClassVar[Mapping[str, str]] = {
        "mlm_loss": "MLM loss",
        "mlm_accuracy": "MLM acc.",
        "rtd_loss": "RTD loss",
        "rtd_balanced_accuracy": "RTD bal. acc.",
        "mts_accuracy": "MTS acc.",
        "csp_accuracy": "CSP acc.",
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
    """Divisor of the generator's hidden size, FFN size and heads relative to the discriminator's; it must divide all
    three.
    """
    mask_probability: float = 0.15
    """Probability that a word is selected."""
    rtd_weight: float = 50.0
    """Weight of RTD in the loss; with 0 it is not computed, and likewise the next two. With all three 0 the
    discriminator is idle, which DistributedDataParallel refuses.
    """
    mts_weight: float = 20.0
    csp_weight: float = 1.0
    mts_negatives: int = 5
    """Number of negatives, k of Eq. 5."""
    mts_projection: bool | None = None
    """Apply a dense layer from hidden to embedding size before Eq. 5's product. None: only if the two sizes differ, a
    case that Eq. 5 leaves open.
    """
    csp_temperature: float = 0.07
    csp_projection: bool = False
    """Apply a dense layer to [CLS] before Eq. 7."""
    vocab_multiple: int = 1
    """Divisor of the word table's rows, filled up with zeros; 64 suits matrix units. See `EncoderConfig`."""
    positions: str = "absolute"
    """Encoding of a token's place in both networks: "absolute", as in the paper, or "rotary". See `EncoderConfig`."""
    checkpoint_activations: bool = False
    """Recompute activations in the backward pass instead of keeping them. See `EncoderConfig`."""
    compile_layers: bool = False
    """Let torch.compile fuse parts of the layers. See `EncoderConfig`."""
    csp_across_micro_batches: bool = True
    """Compare the views of the whole global batch in Eq. 7, over all workers and micro-batches, as the paper does. A
    batch cut into micro-batches then costs a second forward pass (gradient caching). False: compare a view only with
    those of its own micro-batch on its own worker. That is cheaper, but it is another loss than the paper's, with fewer
    candidates, and it depends on the number of workers and on training.micro_batch_size.
    """

    @classmethod
    def cut_dependence(cls, settings: Mapping[str, Any]) -> str | None:
        """Return the setting by which CSP compares only the views of a micro-batch; None where it compares all."""
        apart = settings.get("csp_across_micro_batches") is False and settings.get("csp_weight", 1.0) != 0
        return "model.csp_across_micro_batches=false" if apart else None

    def __post_init__(self) -> None:
        check_types(self, "model.")
        self._check_generator()
        if not 0.0 < self.mask_probability <= 1.0:
            raise ValueError(f"mask_probability must be in (0, 1], got {self.mask_probability!r}")
        for name in ("rtd_weight", "mts_weight", "csp_weight"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must be 0 (off) or positive, got {getattr(self, name)!r}")
        if not self.csp_temperature > 0.0:
            raise ValueError(f"csp_temperature must be positive, got {self.csp_temperature!r}")
        if self.mts_negatives < 1 or self.vocab_size - 1 < self.mts_negatives:
            raise ValueError(
                f"mts_negatives must be between 1 and vocab_size - 1, got {self.mts_negatives} "
                f"with vocab_size={self.vocab_size}"
            )
        if self.vocab_size <= NUM_SPECIAL:
            raise ValueError(f"vocab_size={self.vocab_size} leaves no token besides the {NUM_SPECIAL} special ones")
        if self.mts_projection is False and self.discriminator.embedding_width != self.hidden_size:
            raise ValueError("mts_projection=False needs embedding_size equal to hidden_size; leave it unset")

    def _check_generator(self) -> None:
        sizes = {name: getattr(self, name) for name in ("hidden_size", "intermediate_size", "num_heads")}
        _ = self.discriminator  # its own checks come first: num_heads may not divide hidden_size at all
        bad = [
            f"{name}={size}"
            for name, size in sizes.items()
            if self.generator_divisor < 1 or size % self.generator_divisor
        ]
        if bad:
            possible = [d for d in range(1, self.num_heads + 1) if not any(size % d for size in sizes.values())]
            raise ValueError(
                f"generator_divisor={self.generator_divisor} must divide {', '.join(bad)}; possible here: {possible}"
            )

    @property
    def discriminator(self) -> EncoderConfig:
        """Sizes of the discriminator."""
        return self._encoder(1)

    @property
    def generator(self) -> EncoderConfig:
        """Sizes of the generator: narrower, equally deep, on the same embeddings."""
        return self._encoder(self.generator_divisor)

    @property
    def projects_mts(self) -> bool:
        """True if MTS has its dense layer."""
        different = self.discriminator.embedding_width != self.hidden_size
        return different if self.mts_projection is None else self.mts_projection

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
