"""Sizes and settings of SMedBERT (Zhang et al., 2021), checked before anything is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from models.infusion.config import InfusionConfig
from models.objectives.bert.config import BertObjectiveConfig
from models.objectives.config import Ablation

SCORES = ("eq18", "eq16", "eq19")
RELATION_CHOICES = ("first", "drawn")


@dataclass(frozen=True, kw_only=True)
class SMedBertConfig(BertObjectiveConfig):
    """Sizes and settings; the defaults are those of appendix B. Raises ValueError naming field and remedy."""

    ablations: ClassVar[tuple[Ablation, ...]] = (
        Ablation("full", "SMedBERT"),
        Ablation("without_type_attention", "- Type Att.", {"model.type_attention": False}),
        Ablation("without_hybrid_attention", "- Hybrid Att.", {"model.infusion": False}),
        Ablation(
            "without_knowledge_loss", "- Know. Loss", {"model.neighbour_weight": 0.0, "model.mention_weight": 0.0}
        ),
    )
    ablated_in: ClassVar[str] = "SMedBERT, Table 4"
    tabulated: ClassVar[Mapping[str, str]] = {
        "mlm_loss": "MLM loss",
        "mlm_accuracy": "MLM acc.",
        "sop_accuracy": "SOP acc.",
        "mnem_loss": "MNeM loss",
        "neighbour_accuracy": "neighbour acc.",
        "mmem_loss": "MMeM loss",
        "mention_accuracy": "mention acc.",
    }

    pair_task: str = "sop"
    """sop, or none to leave the order of sentences out; both train on sentence pairs."""
    infusion: bool = True
    """Give masked mentions the knowledge of their neighbours (section 3.3). False: "- Hybrid Att." of Table 4."""
    infusion_layer: int = 10
    """Knowledge is infused after this many layers."""
    type_attention: bool = True
    """Weight neighbours by their types too. False: "- Type Att." of Table 4."""
    entity_size: int = 200
    """Width of the vectors of entities, d2: that of the knowledge arrays (embed.entity_dim)."""
    neighbours: int = 10
    """The most neighbours per mention, K."""
    hit_ratio: float = 1.0
    """Probability of each mention to be used: to be masked with knowledge, or to predict its neighbours. The others are
    plain text (section 4.5).
    """
    mention_probability: float | None = None
    """Probability that a mention in use is masked. None: `mask_probability`."""
    relation_choice: str = "first"
    """The relation by which a pair that has several is predicted. first: outgoing before incoming, then the one with
    more triples in the graph, then by name; drawn: any of them, drawn at each step.
    """
    negatives: int = 10
    """Entities of the neighbour's type that each neighbour is compared with."""
    score_scale: float = 10.0
    """mu of Eq. 16: factor of a cosine."""
    neighbour_score: str = "eq18"
    """Score of a neighbour. eq16: cosine in the space of the relation, with every entity projected; eq18: the same
    number without projecting; eq19: as printed there, another function. See models/objectives/smedbert/scores.py.
    """
    least_frequency: float = 1.0
    """Frequency that an entity counts with at least when negatives are drawn. An entity that the corpus never mentions
    could otherwise not be drawn, and the logarithm of its probability would have no value.
    """
    neighbour_weight: float = 2.0
    """Weight of masked neighbour modelling, lambda 1 of Eq. 22; 0: left out."""
    mention_weight: float = 4.0
    """Weight of masked mention modelling, lambda 2 of Eq. 22; 0: left out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pair_task not in ("none", "sop"):
            raise ValueError(f"pair_task must be none or sop, got {self.pair_task!r}; SMedBERT has no random pairs")
        for name, choices in (("neighbour_score", SCORES), ("relation_choice", RELATION_CHOICES)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        for name in ("neighbour_weight", "mention_weight"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} must be 0 (off) or positive, got {getattr(self, name)!r}")
        for name in ("hit_ratio", "mention_probability"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value <= 1.0:
                raise ValueError(f"{name} must be in (0, 1], got {value!r}")
        for name in ("score_scale", "least_frequency"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}")
        if self.negatives < 1:
            raise ValueError(f"negatives must be at least 1, got {self.negatives!r}")
        if not 1 <= self.infusion_layer <= self.num_layers:
            raise ValueError(
                f"infusion_layer={self.infusion_layer} is not a layer of an encoder of {self.num_layers}; the paper "
                "infuses after the tenth of twelve"
            )
        _ = self.hybrid_attention  # its own checks

    @property
    def hybrid_attention(self) -> InfusionConfig:
        """Sizes of the modules of section 3.3."""
        return InfusionConfig(
            hidden_size=self.hidden_size,
            entity_size=self.entity_size,
            layer=self.infusion_layer,
            neighbours=self.neighbours,
            type_attention=self.type_attention,
            layer_norm_eps=self.layer_norm_eps,
            initializer_range=self.initializer_range,
        )

    @property
    def masked_mentions(self) -> float:
        """Probability that a mention in use is masked."""
        return self.mask_probability if self.mention_probability is None else self.mention_probability

    @property
    def reads_mentions(self) -> bool:
        """True: all knowledge is that of mentions."""
        return True

    def check_knowledge(self, neighbours: int, width: int) -> None:
        """Compare the sizes of the arrays with `neighbours` and `entity_size`."""
        if neighbours < self.neighbours:
            raise ValueError(
                f"model.neighbours is {self.neighbours}, but neighbours.k is {neighbours}, and no more are ranked. Set "
                "both to the same number."
            )
        if width != self.entity_size:
            raise ValueError(
                f"model.entity_size is {self.entity_size}, but embed.entity_dim is {width}. Set both to the same width."
            )

    def data(self) -> tuple[str, ...]:
        """Return the extra data that is trained on."""
        return ("pairs",)

    def resources(self) -> tuple[str, ...]:
        """Return the resources that training needs."""
        return ("knowledge",)
