"""Sizes of the modules of SMedBERT's section 3.3, checked before anything is built. Nothing here imports torch."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class InfusionConfig:
    """Sizes and settings; the defaults are those of appendix B. Raises ValueError naming field and remedy."""

    hidden_size: int = 768
    """Width of the encoder's states, d1."""
    entity_size: int = 200
    """Width of the entities' vectors, d2."""
    layer: int = 10
    """Knowledge is infused after this many layers of the encoder."""
    neighbours: int = 10
    """The most neighbours per mention, K: those with the best PEPR scores."""
    type_attention: bool = True
    """Weight neighbours by their types too (Eq. 3 and 4). False: node attention alone, a row of Table 4."""
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    """Standard deviation of the normal distribution of initial weights."""

    def __post_init__(self) -> None:
        for name in ("hidden_size", "entity_size", "layer", "neighbours"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
