"""Sizes and settings of ELECTRA+EM+PAP (Liu et al., 2023), checked before anything is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from models.objectives.electra.config import ElectraObjectiveConfig

RTD, PAP = "rtd", "pap"
"""Names of the tasks."""
NEGATIVES = {"values": 0.0, "records": 1.0, "both": 0.5}
"""Draws of negatives: the share that is drawn by frequency."""
PRODUCTS = "products"
"""Name of the table of pairs, and of the input that has it."""


@dataclass(frozen=True, kw_only=True)
class ElectraEmPapConfig(ElectraObjectiveConfig):
    """Sizes and settings; the defaults are the paper's base model. Raises ValueError naming field and remedy."""

    tabulated: ClassVar[Mapping[str, str]] = {
        **ElectraObjectiveConfig.tabulated,
        "pap_loss": "PAP loss",
        "pap_accuracy": "PAP acc.",
    }

    entity_masking: bool = True
    """Mask mentions of entities whole, as words are (section 3.1). The examples must name their mentions."""
    pap_share: float = 0.05
    """ρ, the probability of a step to be one of product attribute prediction (Algorithm 1). 0: there are none, and no
    products are needed.
    """
    margin: float = 4.0
    """γ of Equation 3: the distance at which a value is as likely right as wrong."""
    distance_norm: int = 2
    """Norm of Equation 2: 2, or 1 as in TransE's other form."""
    negatives_per_value: int = 2
    """Negative values for each positive; the paper's k is twice the number of positives."""
    negatives: str = "values"
    """Draw of the negatives among those of the same attribute: "values", each with equal probability; "records", in
    proportion to the titles that have it; or "both", half of them so and half so. The paper says randomly. Most values
    are rare, so that of "values" a model learns first which are frequent; of "records" it must look at the title, but
    never learns that a rare value is seldom right.
    """
    shared_negatives: int = 0
    """Negatives drawn for each attribute of a step and shared by its pairs, in place of `negatives_per_value`. 0: each
    pair draws its own, as in the paper. Shared ones are encoded once: a pair is compared with many more in less time,
    and Equation 3 takes their mean as it does of few.
    """
    most_values: int = 8
    """The most positives of a pair of title and attribute in a step; others are drawn at another. It bounds the memory
    of a step: a pair is at most 1 + most_values x (1 + negatives_per_value) sequences, or with shared negatives 1 +
    most_values + shared_negatives. (The paper has 6.5 values per
    title; drugs of CMeKG have up to hundreds.)
    """

    def data(self) -> tuple[str, ...]:
        """Products, where there are PAP steps."""
        return (PRODUCTS,) if self.pap_share else ()

    @property
    def reads_segments(self) -> bool:
        """True: RTD steps read text."""
        return True

    @property
    def reads_mentions(self) -> bool:
        """True if mentions are masked whole."""
        return self.entity_masking

    def resources(self) -> tuple[str, ...]:
        """The same artifact again: its arrays of values, from which negatives are drawn."""
        return self.data()

    def shares(self) -> Mapping[str, float]:
        """ρ of the steps are PAP's, the others RTD's."""
        return {RTD: 1.0 - self.pap_share, PAP: self.pap_share} if self.pap_share else {}

    def task_names(self) -> tuple[str, ...]:
        """Both tasks, whatever ρ is."""
        return (RTD, PAP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.pap_share < 1.0:
            raise ValueError(f"pap_share must be in [0, 1), got {self.pap_share!r}: RTD steps train the embeddings")
        if self.pap_share and self.type_vocab_size < 2:
            raise ValueError("pap_share > 0 needs type_vocab_size=2, one type for titles and one for attributes")
        if not self.margin > 0.0:
            raise ValueError(f"margin must be positive, got {self.margin!r}")
        if self.distance_norm not in (1, 2):
            raise ValueError(f"distance_norm must be 1 or 2, got {self.distance_norm!r}")
        if self.negatives not in NEGATIVES:
            raise ValueError(f"negatives must be one of {', '.join(NEGATIVES)}, got {self.negatives!r}")
        if self.shared_negatives < 0:
            raise ValueError(f"shared_negatives must be 0 (off) or positive, got {self.shared_negatives!r}")
        for name in ("negatives_per_value", "most_values"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
