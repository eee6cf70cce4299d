"""Word vectors on a plane, coloured by the types of a knowledge graph (CMedLMs, Figure 3).

Shape legend: N points, D width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from infra.pictures import chinese_font, new_figure, png_of

MOST_TYPES = 9
"""Types with a colour of their own; the others share grey."""
FEWEST_POINTS = 5
LABEL_POINTS = 7.5
INCHES = 11.0


def on_a_plane(vectors_ND: np.ndarray, seed: int) -> np.ndarray:
    """Return float (N, 2): t-SNE by cosine, begun at the two main components.

    Time grows with N log N, memory with 90 neighbours of each point. One thread, because with more the sums are rounded
    differently in every run.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    unit_ND = vectors_ND / np.maximum(np.linalg.norm(vectors_ND, axis=1, keepdims=True), 1e-12)
    # For unit vectors squared distances are 2 - 2 cosine.
    perplexity = min(30.0, (len(unit_ND) - 1) / 3)
    with threadpool_limits(1):
        found: np.ndarray = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(unit_ND)
    return found


def draw_scatter(
    places_N2: np.ndarray, labels: Sequence[str], types: Sequence[str], labelled: int, title: str
) -> bytes:
    """Draw points as a PNG; the first `labelled` of them that have room get their label.

    Args:
        places_N2: float (N, 2).
        labels: text of each point, the most important first.
        types: type of each point; empty if unknown.
        labelled: largest number of labels.
        title: line above the picture.
    """
    figure = new_figure(INCHES, INCHES * 0.82)
    axis = figure.subplots()
    frequent = [kind for kind, _ in Counter(types).most_common() if kind][:MOST_TYPES]
    for number, kind in enumerate([*frequent, None]):
        chosen = [place for place, own in enumerate(types) if (own if own in frequent else None) == kind]
        if not chosen:
            continue
        colour = f"C{number + (number > 6)}" if kind else "lightgrey"  # C7 is a grey of its own
        name = f"{kind or 'other'} ({len(chosen):,})"
        axis.scatter(
            places_N2[chosen, 0],
            places_N2[chosen, 1],
            s=9,
            color=colour,
            label=name,
            zorder=2 if kind else 1,
            linewidths=0,
        )
    axis.set_xticks([])
    axis.set_yticks([])
    axis.margins(0.04)
    axis.legend(prop=chinese_font(9), loc="upper left", bbox_to_anchor=(1.0, 1.0), markerscale=2, frameon=False)
    axis.set_title(title, fontproperties=chinese_font(11), parse_math=False, wrap=True)
    figure.draw_without_rendering()  # the layout decides how much room the labels have
    pixels_N2 = axis.transData.transform(places_N2)
    font = chinese_font(LABEL_POINTS)
    for place in _with_room(pixels_N2, labels, figure.dpi * LABEL_POINTS / 72, labelled):
        axis.annotate(
            labels[place],
            places_N2[place],
            xytext=(2, 2),
            textcoords="offset points",
            fontproperties=font,
            parse_math=False,
            zorder=3,
            annotation_clip=False,
        )
    return png_of(figure)


def _with_room(pixels_N2: np.ndarray, labels: Sequence[str], size: float, most: int) -> list[int]:
    """Return the points whose labels do not cover one another, the first ones first."""
    taken: list[tuple[float, float, float, float]] = []
    found: list[int] = []
    for place, label in enumerate(labels):
        left, bottom = (float(value) for value in pixels_N2[place])
        # A Chinese character is as wide as the font is high, a Latin one half of it.
        width = sum(1.0 if ord(one) > 0x2E80 else 0.6 for one in label) * size + size / 2
        box = (left, bottom, left + width, bottom + 1.5 * size)
        if all(box[0] > x1 or box[2] < x0 or box[1] > y1 or box[3] < y0 for x0, y0, x1, y1 in taken):
            taken.append(box)
            found.append(place)
        if len(found) == most:
            break
    return found
