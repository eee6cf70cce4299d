"""Sizes and weights of eHealth (Wang et al., 2021, Table 7), checked before anything is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from models.objectives.config import Ablation, GeneratorObjectiveConfig

_NO_CSP = {"model.csp_weight": 0.0}
_NO_MTS = {"model.mts_weight": 0.0}


@dataclass(frozen=True, kw_only=True)
class EHealthConfig(GeneratorObjectiveConfig):
    """Sizes and weights; the defaults are those of the paper's Table 7. Raises ValueError naming field and remedy."""

    ablations: ClassVar[tuple[Ablation, ...]] = (
        Ablation("full", "The full setting"),
        Ablation("without_csp", "w/o CSP", _NO_CSP),
        Ablation("without_mts", "w/o MTS", _NO_MTS),
        Ablation("without_csp_mts", "w/o CSP & MTS", _NO_CSP | _NO_MTS),
    )
    ablated_in: ClassVar[str] = "eHealth, section 4.4 and Table 6"
    tabulated: ClassVar[Mapping[str, str]] = {
        "mlm_loss": "MLM loss",
        "mlm_accuracy": "MLM acc.",
        "rtd_loss": "RTD loss",
        "rtd_balanced_accuracy": "RTD bal. acc.",
        "mts_accuracy": "MTS acc.",
        "csp_accuracy": "CSP acc.",
    }

    mask_probability: float = 0.15
    """Probability that a word is selected."""
    rtd_weight: float = 50.0
    """Weight of RTD in the loss; with 0 it is not computed, and likewise the next two. With all three 0 the
    discriminator is idle, which DistributedDataParallel refuses.
    """
    mts_weight: float = 20.0
    """Weight of multi-token selection in the loss (Eq. 5)."""
    csp_weight: float = 1.0
    """Weight of contrastive sequence prediction in the loss (Eq. 7)."""
    mts_negatives: int = 5
    """Number of negatives, k of Eq. 5."""
    mts_projection: bool | None = None
    """Apply a dense layer from hidden to embedding size before Eq. 5's product. None: only if the two sizes differ, a
    case that Eq. 5 leaves open.
    """
    csp_temperature: float = 0.07
    """Temperature of the softmax of Eq. 7."""
    csp_projection: bool = False
    """Apply a dense layer to [CLS] before Eq. 7."""
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
        super().__post_init__()
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
        if self.mts_projection is False and self.discriminator.embedding_width != self.hidden_size:
            raise ValueError("mts_projection=False needs embedding_size equal to hidden_size; leave it unset")

    @property
    def projects_mts(self) -> bool:
        """True if MTS has its dense layer."""
        different = self.discriminator.embedding_width != self.hidden_size
        return different if self.mts_projection is None else self.mts_projection
