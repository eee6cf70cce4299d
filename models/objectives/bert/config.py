"""Sizes and settings of BERT (Devlin et al., 2019), checked before anything is built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from models.objectives.config import EncoderObjectiveConfig

PAIR_TASKS = ("none", "nsp", "sop")


@dataclass(frozen=True, kw_only=True)
class BertObjectiveConfig(EncoderObjectiveConfig):
    """Sizes and settings; the defaults are BERT-base's. Raises ValueError naming field and remedy."""

    tabulated: ClassVar[Mapping[str, str]] = {"mlm_loss": "MLM loss", "mlm_accuracy": "MLM acc."}

    mask_probability: float = 0.15
    """Probability of each word to be selected; with `max_predictions`, share of each row's tokens that are."""
    max_predictions: int | None = None
    """The most tokens that are selected in a row. Set: that share of the row exactly, up to this number, as BERT's data
    preparation does. None: each word independently.
    """
    whole_words: bool = True
    """Mask the tokens of a segmented word together, as later Chinese models do; false: each by itself, as Devlin et al.
    did. Of half a word the other half tells much, so that tokens are learnt sooner and seem better known.
    """
    pair_task: str = "none"
    """none; nsp: does the second sentence follow the first in the text? (Devlin et al., 2019); sop: are both in the
    order of the text? (Lan et al., 2020). Both read the tables of the stage `pairs` in place of single segments;
    segments should then have at most a third of a pair's length (segment.max_tokens), or much text is cut off.
    """
    pair_weight: float = 1.0
    """Weight of the pair task in the loss."""

    def data(self) -> tuple[str, ...]:
        """Return `("pairs",)` where there is a pair task."""
        return () if self.pair_task == "none" else ("pairs",)

    @property
    def random_pairs(self) -> bool:
        """True for next sentence prediction."""
        return self.pair_task == "nsp"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.mask_probability <= 1.0:
            raise ValueError(f"mask_probability must lie in (0, 1], got {self.mask_probability!r}")
        if self.max_predictions is not None and self.max_predictions < 1:
            raise ValueError(f"max_predictions must be at least 1 or None, got {self.max_predictions!r}")
        if self.pair_task not in PAIR_TASKS:
            raise ValueError(f"pair_task must be one of {', '.join(PAIR_TASKS)}, got {self.pair_task!r}")
        if not self.pair_weight > 0.0:
            raise ValueError(f"pair_weight must be positive, got {self.pair_weight!r}; pair_task='none' leaves it out")
        if self.data() and self.type_vocab_size < 2:
            raise ValueError("a row of two sentences needs type_vocab_size=2, one type for each")
