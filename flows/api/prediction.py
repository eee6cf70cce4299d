"""Answers of fine-tuned models: `Predictor`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flows.api.calls import checked_texts
from flows.api.configuration import current_display
from infra.console.displayed import plain_table, table
from infra.console.progress import displayed, new_bar
from infra.errors import UserError
from tasks.downstream.features.base import Prediction
from tasks.finetune.predict import Given
from tasks.finetune.predict import Predictor as BarePredictor

MOST_CHARACTERS = 60
"""Characters of a text that a table shows."""

_COLUMNS = ("text", "answer", "probability")


class Predictions(list[Prediction]):
    """Answers to texts, in order, which a notebook shows as a table."""

    def __init__(self, found: Iterable[Prediction], texts: Sequence[Given]) -> None:
        super().__init__(found)
        self.texts = list(texts)

    def rows(self) -> list[tuple[str, str, float | None]]:
        """Return the beginning of each text, its answer, and the highest of its scores."""
        return [
            (_shortened(text), _shown(one.answer), max(one.scores) if one.scores else None)
            for text, one in zip(self.texts, self, strict=True)
        ]

    def __repr__(self) -> str:
        return plain_table(_COLUMNS, self.rows())

    def _repr_html_(self) -> str:
        return table(_COLUMNS, self.rows())


class Predictor(BarePredictor):
    __doc__ = BarePredictor.__doc__

    def predict(self, texts: Sequence[Given], progress: Callable[[int], None] | None = None) -> Predictions:
        """Return an answer to each record, in order; with a progress bar, unless `progress` is given.

        Raises:
            UserError: a text in place of a list, a record that does not have the task's number of texts, or an empty
                text; the message has the record's number.
        """
        checked_texts("predict", texts)
        for number, given in enumerate(texts):
            if reason := self.refusal(given):
                raise UserError(f"Record {number}: {reason}. Leave it out.")
        if progress is not None:
            return Predictions(super().predict(texts, progress), texts)
        with displayed(current_display()), new_bar(unit="text", leave=False) as bar:
            return Predictions(super().predict(texts, lambda done: bar.update(done - bar.n)), texts)


def _shortened(given: Given) -> str:
    text = given if isinstance(given, str) else " | ".join(given)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _shown(answer: Any) -> str:
    if isinstance(answer, tuple | list):
        return "; ".join(_shown(one) for one in answer)
    return str(answer)
