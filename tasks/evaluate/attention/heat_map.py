"""Picture of the attention between the tokens of a sentence (EMBERT, Figure 3), with Chinese labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infra.pictures import chinese_font, new_figure, png_of

MOST_TOKENS = 64
"""Tokens of the longest sentence that is drawn: with more, labels cannot be read."""
INCHES_PER_TOKEN = 0.24


def draw_heat_map(map_LL: np.ndarray, labels: Sequence[str], entities: Sequence[tuple[int, int]], title: str) -> bytes:
    """Draw a map as a PNG: row i has the attention that token i pays, the darker the more.

    Args:
        map_LL: rows that sum to one, [CLS] first and [SEP] last. The darkest is the highest weight between others.
        labels: text of each token.
        entities: first token of each entity, and the token after its last; framed with blue dashes.
        title: line above the map.
    """
    from matplotlib.patches import Rectangle

    size = len(labels)
    side = max(3.2, INCHES_PER_TOKEN * size)
    figure = new_figure(side + 1.6, side + 0.7)
    axis = figure.subplots()
    # [CLS] and [SEP] often get most of the attention; on their scale all else would be white.
    highest = float(map_LL[1:-1, 1:-1].max())
    image = axis.imshow(map_LL, cmap="Greys", vmin=0.0, vmax=highest, interpolation="nearest")
    font = chinese_font(10)
    places = np.arange(size)
    axis.set_xticks(places, labels, fontproperties=font, parse_math=False)
    axis.set_yticks(places, labels, fontproperties=font, parse_math=False)
    for number, label in enumerate(axis.get_xticklabels()):
        label.set_rotation(90 if len(labels[number]) > 1 else 0)
    axis.tick_params(length=0)
    axis.set_ylabel("token that attends")
    axis.set_xlabel("token that is attended to")
    axis.set_title(title, fontproperties=font, parse_math=False, wrap=True)
    for first, behind in entities:
        box = (first - 0.5, first - 0.5), behind - first, behind - first
        axis.add_patch(Rectangle(*box, fill=False, edgecolor="tab:blue", linestyle="--", linewidth=1.6))
    figure.colorbar(image, ax=axis, shrink=0.8, extend="max")
    # A square map beside its scale leaves a margin, which differs with the number of tokens.
    return png_of(figure, trimmed=True)
