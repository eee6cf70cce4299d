"""Parameters of the stage `attention`, and which layers it reads. Nothing here imports torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from infra.errors import UserError
from infra.stage import StageParams

SENTENCES = (
    "患者因再生障碍性贫血入院，既往有丙肝病史。",
    "低蛋白血症患者出现感染性腹泻，给予白蛋白。",
)
"""Sentences of the default heat maps: made up, with the entities of EMBERT's Figures 2 and 3."""
PAPER_LAYERS = 12
"""Layers of the encoders in the paper."""
SUMS_LAYER, HEAT_MAP_LAYER = 11, 10
"""Layers that Figure 2 and Figure 3 read, counted from 1."""

Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class AttentionParams(StageParams):
    """Layers that are read, and sentences of which heat maps are drawn."""

    layer: int | None = Field(
        default=None,
        ge=1,
        description="layer whose attention is compared, from 1; by default 11, or the second last of fewer than 12",
    )
    heat_map_layer: int | None = Field(
        default=None,
        ge=1,
        description="layer that heat maps show, from 1; by default 10, or the second last of fewer than 12",
    )
    sentences: tuple[Sentence, ...] = Field(default=SENTENCES, description="sentences of which heat maps are drawn")
    rounds: int = Field(default=2_000, ge=100, description="rounds of each test and of each interval")
    seed: int = 42
    """Seed of the resamples."""


def layer_of(asked: int | None, paper: int, layers: int, key: str) -> int:
    """Return the layer to read, from 1, of an encoder with some layers.

    Args:
        asked: the layer that a user wants; None for the paper's, or the second last of fewer layers than there.
        paper: the paper's layer.
        layers: number of layers of the encoder.
        key: name of the user's parameter, for messages.

    Raises:
        UserError: the encoder has no such layer.
    """
    if asked is None:
        return paper if layers >= PAPER_LAYERS else max(1, layers - 1)
    if asked > layers:
        raise UserError(f"{key}={asked}: the encoder has {layers} layers. Give a layer from 1 to {layers}.")
    return asked
