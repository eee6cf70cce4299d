"""Names of figures, for notes and curves. The objective names its loss terms."""

from __future__ import annotations

from collections.abc import Collection

LOSS_OF_TASK = "loss_"
"""Beginning of the figure that is the whole loss of one of several tasks in training: `loss_pap`."""
CHANCE = "_chance"
"""Ending of the figure that says what guessing would score: `mts_chance` belongs to `mts_accuracy`."""


def chance_of(figure: str) -> str | None:
    """Return the name of the chance level of a figure, if it is an accuracy: `mts_accuracy` gives `mts_chance`."""
    return figure.split("_")[0] + CHANCE if figure.endswith("accuracy") else None


def title_of(figure: str, terms: Collection[str]) -> str:
    """Return the name of a figure for people: `mlm_loss` gives `MLM loss` where `mlm` is one of the terms."""
    first, _, rest = figure.partition("_")
    words = f"{first.upper() if first in terms else first} {rest}".replace("_", " ").strip()
    return words[:1].upper() + words[1:]
