"""Sizes of an encoder, checked before anything is built. Nothing here imports torch."""

from dataclasses import dataclass, fields
from typing import Any

from infra.limits import limits

POSITIONS = ("absolute", "rotary")
TRANSFORMERS_TYPES = ("bert", "electra", "ernie", "roformer")
"""Kinds of transformers' models that our encoder reads: `model_type` in their config.json."""


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes of one encoder; the defaults are BERT-base's, as in eHealth's Table 7.

    Raises ValueError naming field and remedy.
    """

    vocab_size: int
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    intermediate_size: int = 3072
    embedding_size: int | None = None
    """Width of the embedding tables; None: `hidden_size`. If they differ, one dense layer projects."""
    max_positions: int = 512
    """Length of the longest sequence, in tokens."""
    type_vocab_size: int = 2
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    """Standard deviation of the normal distribution of initial weights."""
    vocab_multiple: int = 1
    """Divisor of the word table's rows, filled up with zeros; 64 suits a GPU's matrix units. The added rows are not
    tokens: they have no gradient, are never drawn and are not exported.
    """
    checkpoint_activations: bool = False
    """Keep only each layer's input for the backward pass, and recompute the layer there: less memory for a third more
    work, same numbers.
    """
    positions: str = "absolute"
    """Encoding of a token's place: "absolute", a learned table (BERT, ELECTRA), or "rotary", turned queries and keys
    (RoFormer; models/encoder/rotary.py).
    """
    compile_layers: bool = False
    """Let torch.compile fuse what follows attention in a layer; one graph serves all lengths and layers."""

    def __post_init__(self) -> None:
        if self.embedding_size is None:
            object.__setattr__(self, "embedding_size", self.hidden_size)
        elif not (_is_integer(self.embedding_size) and self.embedding_size > 0):
            raise ValueError(f"embedding_size must be a positive integer or None, got {self.embedding_size!r}")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in ("int", int) and not (_is_integer(value) and value > 0):
                raise ValueError(f"{field.name} must be a positive integer, got {value!r}")
            if isinstance(value, int) and value > (most := _most(field.name)):
                raise ValueError(f"{field.name} must be at most {most:,}, got {value:,}; YIWEN_LIMITS raises the limit")
        if self.hidden_size % self.num_heads:
            raise ValueError(
                f"num_heads={self.num_heads} must divide hidden_size={self.hidden_size}; choose one of "
                f"{[h for h in range(1, 65) if self.hidden_size % h == 0]} or another hidden_size"
            )
        for name in ("checkpoint_activations", "compile_layers"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if self.positions not in POSITIONS:
            raise ValueError(f"positions must be one of {', '.join(POSITIONS)}, got {self.positions!r}")
        if self.positions == "rotary" and self.hidden_size // self.num_heads % 2:
            raise ValueError(
                f"rotary positions turn pairs of channels, and a head has {self.hidden_size // self.num_heads}; choose "
                "num_heads such that hidden_size / num_heads is even"
            )
        for name in ("hidden_dropout", "attention_dropout"):
            if not (_is_number(getattr(self, name)) and 0.0 <= getattr(self, name) < 1.0):
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)!r}")
        for name in ("layer_norm_eps", "initializer_range"):
            if not (_is_number(getattr(self, name)) and getattr(self, name) > 0.0):
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")

    @property
    def embedding_width(self) -> int:
        """E, with its default resolved."""
        return self.embedding_size or self.hidden_size

    @property
    def table_rows(self) -> int:
        """Rows of the word table: `vocab_size` rounded up to a multiple of `vocab_multiple`."""
        return -(-self.vocab_size // self.vocab_multiple) * self.vocab_multiple

    @property
    def parameters(self) -> int:
        """Number of weights of such an encoder, without biases and layer norms."""
        tables = (self.vocab_size + self.max_positions + self.type_vocab_size) * self.embedding_width
        return tables + self.num_layers * self.hidden_size * (4 * self.hidden_size + 2 * self.intermediate_size)


def _most(name: str) -> int:
    """Return the largest value of a size, so that a damaged or hostile config.json builds nothing endless."""
    known = limits()
    return {"num_layers": known.layers, "vocab_size": known.vocabulary}.get(name, known.width)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # true of JSON is no size


def _is_number(value: Any) -> bool:
    # bool is an int in Python, but dropout = true is a mistake.
    return isinstance(value, int | float) and not isinstance(value, bool)
