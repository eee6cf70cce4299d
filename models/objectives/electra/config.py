"""Sizes and weights of ELECTRA (Clark et al., 2020), checked before anything is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from models.objectives.config import GeneratorObjectiveConfig


@dataclass(frozen=True, kw_only=True)
class ElectraObjectiveConfig(GeneratorObjectiveConfig):
    """Sizes and settings; the defaults are ELECTRA-base's. Raises ValueError naming field and remedy."""

    tabulated: ClassVar[Mapping[str, str]] = {
        "mlm_loss": "MLM loss",
        "mlm_accuracy": "MLM acc.",
        "rtd_loss": "RTD loss",
        "rtd_balanced_accuracy": "RTD bal. acc.",
    }

    mask_probability: float = 0.15
    """Probability of each word to be selected."""
    rtd_weight: float = 50.0
    """Weight of replaced token detection in the loss."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.mask_probability < 1.0:
            raise ValueError(f"mask_probability must lie in (0, 1), got {self.mask_probability!r}")
        if not self.rtd_weight > 0.0:
            raise ValueError(f"rtd_weight must be positive, got {self.rtd_weight!r}; objective bert trains MLM alone")
