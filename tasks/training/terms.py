"""Names of figures, for notes and curves. The objective names its loss terms."""

from __future__ import annotations

from collections.abc import Collection, Container

LOSS_OF_TASK = "loss_"
"""Beginning of the figure that is the whole loss of one of several tasks in training: `loss_pap`."""
CHANCE = "_chance"
"""Ending of the figure that says what guessing would score: `mts_chance` belongs to `mts_accuracy`."""
COUNT = "_count"
"""Ending of a figure that counts what a rate was taken over."""
_ACCURACY = "_accuracy"
_LONGEST_ABBREVIATION = 4


def chance_of(figure: str, known: Container[str]) -> str | None:
    """Return the name of the chance level of an accuracy among the known figures; None if there is none.

    `mts_accuracy` gives `mts_chance`, and `sop_unseen_accuracy` gives `sop_unseen_chance` before `sop_chance`.
    """
    if not figure.endswith(_ACCURACY):
        return None
    own, of_term = figure.removesuffix(_ACCURACY) + CHANCE, figure.split("_")[0] + CHANCE
    return next((name for name in (own, of_term) if name in known), None)


def title_of(figure: str, terms: Collection[str]) -> str:
    """Return the name of a figure for people: `mlm_loss` gives `MLM loss` where `mlm` is one of the terms.

    Terms of more than four letters are words and no abbreviations: `atomic_loss` gives `Atomic loss`.
    """
    first, _, rest = figure.partition("_")
    is_short = first in terms and len(first) <= _LONGEST_ABBREVIATION
    words = f"{first.upper() if is_short else first} {rest}".replace("_", " ").strip()
    return words[:1].upper() + words[1:]
