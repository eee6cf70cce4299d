"""Sizes and settings of BERT (Devlin et al., 2019), checked before anything is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from models.encoder.config import EncoderConfig
from models.objectives.config import ObjectiveConfig
from models.tokenizer.special_ids import NUM_SPECIAL
from models.training.field_types import check_types

PAIR_TASKS = ("none", "nsp", "sop")


@dataclass(frozen=True, kw_only=True)
class BertObjectiveConfig(ObjectiveConfig):
    """Sizes and settings; the defaults are BERT-base's. Raises ValueError naming field and remedy."""

    tabulated: ClassVar[Mapping[str, str]] = {"mlm_loss": "MLM loss", "mlm_accuracy": "MLM acc."}

    vocab_size: int
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    intermediate_size: int = 3072
    max_positions: int = 512
    type_vocab_size: int = 2
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    mask_probability: float = 0.15
    """Probability of each word to be selected; with `max_predictions`, share of each row's tokens that are."""
    max_predictions: int | None = None
    """The most tokens that are selected in a row. Set: that share of the row exactly, up to this number, as BERT's data
    preparation does. None: each word independently.
    """
    pair_task: str = "none"
    """none; nsp: does the second sentence follow the first in the text? (Devlin et al., 2019); sop: are both in the
    order of the text? (Lan et al., 2020). Both need examples with a column `second`, which the stage `encode` does not
    write: its rows are single segments.
    """
    pair_weight: float = 1.0
    """Weight of the pair task in the loss."""
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
        _ = self.encoder  # its own checks speak first
        if not 0.0 < self.mask_probability <= 1.0:
            raise ValueError(f"mask_probability must lie in (0, 1], got {self.mask_probability!r}")
        if self.max_predictions is not None and self.max_predictions < 1:
            raise ValueError(f"max_predictions must be at least 1 or None, got {self.max_predictions!r}")
        if self.pair_task not in PAIR_TASKS:
            raise ValueError(f"pair_task must be one of {', '.join(PAIR_TASKS)}, got {self.pair_task!r}")
        if not self.pair_weight > 0.0:
            raise ValueError(f"pair_weight must be positive, got {self.pair_weight!r}; pair_task='none' leaves it out")
        if self.pair_task != "none" and self.type_vocab_size < 2:
            raise ValueError(f"pair_task={self.pair_task!r} needs type_vocab_size=2, one type for each sentence")
        if self.vocab_size <= NUM_SPECIAL:
            raise ValueError(f"vocab_size={self.vocab_size} leaves no token besides the {NUM_SPECIAL} special ones")

    @property
    def encoder(self) -> EncoderConfig:
        """The encoder's sizes."""
        return EncoderConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            intermediate_size=self.intermediate_size,
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
