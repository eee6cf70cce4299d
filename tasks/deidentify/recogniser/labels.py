"""Labels of characters and tokens, and which may follow which."""

from __future__ import annotations

import numpy as np

LABELS = (
    "O",
    *(f"{place}-{kind}" for kind in ("name", "record") for place in "BIES"),
    *(f"{place}-{kind}" for kind in ("address", "institution") for place in "BIE"),
)
"""Labels of tokens: the first, an inner or the last one of a span, or the only one, with its kind."""
KINDS_FOUND = tuple(dict.fromkeys(label[2:] for label in LABELS[1:]))
"""Kinds of spans, in the order of the costs."""
OUTSIDE = 0
"""Label of tokens outside of what is looked for."""

WIDTH = 16
"""Columns of the weights: the labels, and zeros that make a row two integers of 64 bits."""


def follows(before: int, label: int) -> bool:
    """Return True where a label may follow another; a span begins with B, goes on with I and ends with E, or is S."""
    one, two = LABELS[before], LABELS[label]
    if one[0] in "BI":
        return two[0] in "IE" and two[1:] == one[1:]
    return two[0] in "OBS"


MAY_FOLLOW = np.array([[follows(before, label) for label in range(len(LABELS))] for before in range(len(LABELS))])
"""True where label j may stand behind label i, bool (L, L)."""


def mark_span(labels: np.ndarray, first: int, last: int, kind: str) -> None:
    """Write the labels of a span into those of a text. A kind without single labels has no span of one."""
    if last - first == 1 and f"S-{kind}" in LABELS:
        labels[first] = LABELS.index(f"S-{kind}")
    elif last - first > 1:
        labels[first:last] = LABELS.index(f"I-{kind}")
        labels[first], labels[last - 1] = LABELS.index(f"B-{kind}"), LABELS.index(f"E-{kind}")
