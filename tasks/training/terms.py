"""Names of the loss terms, for notes and curves."""

from __future__ import annotations

LOSS_TERMS = ("mlm", "rtd", "mts", "csp")
"""Terms in the order in which people see them."""

CHANCE = "_chance"
"""Ending of the figure that says what guessing would score: `mts_chance` belongs to `mts_accuracy`."""


def chance_of(figure: str) -> str | None:
    """Return the name of the chance level of a figure, if it is an accuracy: `mts_accuracy` gives `mts_chance`."""
    return figure.split("_")[0] + CHANCE if figure.endswith("accuracy") else None


def title_of(figure: str) -> str:
    """Return the name of a figure for people: `mlm_loss` gives `MLM loss`."""
    words = figure.replace("_", " ")
    for term in LOSS_TERMS:
        words = words.replace(term, term.upper())
    return words[:1].upper() + words[1:]
