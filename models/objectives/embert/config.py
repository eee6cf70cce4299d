"""Sizes and settings of EMBERT (Cai et al., 2021), checked before anything is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from models.objectives.bert.config import BertObjectiveConfig
from models.objectives.config import Ablation

_NO_CONSISTENCY = {"model.consistency_weight": 0.0}
_NO_SEGMENTATION = {"model.segmentation_weight": 0.0}
_NO_BIDIRECTIONAL = {"model.bidirectional_weight": 0.0}


@dataclass(frozen=True, kw_only=True)
class EmbertConfig(BertObjectiveConfig):
    """Sizes and settings; the defaults are those of section 4.1. Raises ValueError naming field and remedy."""

    ablations: ClassVar[tuple[Ablation, ...]] = (
        Ablation("full", "EMBERT"),
        Ablation("without_consistency", "w/o entity consistency", _NO_CONSISTENCY),
        Ablation("without_bidirectional", "w/o bidirectional mask", _NO_BIDIRECTIONAL),
        Ablation("without_segmentation", "w/o entity segmentation", _NO_SEGMENTATION),
        Ablation("without_all", "w/o all above", _NO_CONSISTENCY | _NO_BIDIRECTIONAL | _NO_SEGMENTATION),
    )
    ablated_in: ClassVar[str] = "EMBERT, section 4.4 and Table 4"
    tabulated: ClassVar[Mapping[str, str]] = {
        "mlm_loss": "MLM loss",
        "mlm_accuracy": "MLM acc.",
        "sop_accuracy": "SOP acc.",
        "consistency_accuracy": "consistency acc.",
        "segmentation_accuracy": "segmentation acc.",
        "atomic_accuracy": "atomic acc.",
        "adjective_accuracy": "adjective acc.",
    }

    pair_task: str = "sop"
    """sop, or none to leave the order of sentences out."""
    consistency_weight: float = 2.0
    """Weight of context-entity consistency (lambda 1 of Eq. 10). 0: the head is left out, and no entity is replaced."""
    segmentation_weight: float = 2.0
    """Weight of entity segmentation (lambda 2); 0: the head is left out."""
    bidirectional_weight: float = 0.5
    """Weight of bidirectional entity masking (lambda 3). 0: the head is left out, and no term is masked for it."""
    replace_probability: float | None = None
    """Probability that an entity with a synonym is replaced, half by a synonym, half by another entity of its type.
    None: that of masking, so that `mask_probability` is the corruption rate of Table 5.
    """
    wrong_entity: str = "random"
    """Draw of a wrong entity: random, any entity of the type equally often, as in the paper. Or as_frequent, its
    names as often as right ones, so that only the context tells; that is harder, and needs more training.
    """
    term_probability: float | None = None
    """Probability that one of the two terms of a long entity is masked. None: as above."""
    term_positions: int = 64
    """Offsets inside a term that have an embedding of their own."""
    term_position_size: int = 200
    """Width of these embeddings (section 4.1)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pair_task not in ("none", "sop"):
            raise ValueError(f"pair_task must be none or sop, got {self.pair_task!r}; EMBERT has no random pairs")
        if self.wrong_entity not in ("random", "as_frequent"):
            raise ValueError(f"wrong_entity must be random or as_frequent, got {self.wrong_entity!r}")
        for name in ("consistency_weight", "segmentation_weight", "bidirectional_weight"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must be 0 (off) or positive, got {getattr(self, name)!r}")
        for name in ("replace_probability", "term_probability"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value <= 1.0:
                raise ValueError(f"{name} must lie in (0, 1], or be None for mask_probability; got {value!r}")
        for name in ("term_positions", "term_position_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")

    def data(self) -> tuple[str, ...]:
        """Return the extra data that is trained on."""
        return ("entity_examples",)

    def resources(self) -> tuple[str, ...]:
        """Return the resources that training needs."""
        return ("entity_surfaces",)

    @property
    def replaced_share(self) -> float:
        """Probability that an entity with a synonym is replaced."""
        return self.mask_probability if self.replace_probability is None else self.replace_probability

    @property
    def masked_terms(self) -> float:
        """Probability that a term of a long entity is masked."""
        return self.mask_probability if self.term_probability is None else self.term_probability
