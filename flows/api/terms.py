"""Standard terms for diagnoses: `Normaliser`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flows.api.calls import checked_texts
from flows.api.configuration import current_display
from infra.console.displayed import plain_table, table
from infra.console.progress import displayed, new_bar
from infra.errors import UserError
from tasks.normalise.answers import Normalised
from tasks.normalise.normaliser import Normaliser as BareNormaliser
from tasks.normalise.normaliser import Progress

_COLUMNS = ("diagnosis", "code", "term", "confidence", "status")


class Answers(list[Normalised]):
    """Standard terms of diagnoses, in order, which a notebook shows as a table."""

    def __init__(self, found: Iterable[Normalised]) -> None:
        super().__init__(found)

    def rows(self) -> list[tuple[str, str, str, float | None, str]]:
        """Return diagnosis, code, term, confidence and status of each answer; a row without code for other parts."""
        return [row for one in self for row in _rows(one)]

    def __repr__(self) -> str:
        return plain_table(_COLUMNS, self.rows())

    def _repr_html_(self) -> str:
        return table(_COLUMNS, self.rows())


class Normaliser(BareNormaliser):
    __doc__ = BareNormaliser.__doc__

    def normalise(self, diagnoses: Sequence[str], progress: Progress | None = None) -> Answers:
        """Return the standard terms of each diagnosis, in order; with a progress bar, unless `progress` is given.

        Raises:
            UserError: a text in place of a list of texts, or an item that is no text.
        """
        checked_texts("normalise", diagnoses)
        for number, one in enumerate(diagnoses):
            if not isinstance(one, str):
                raise UserError(f"normalise: number {number} is {one!r} and no text. Leave it out, or give ''.")
        if progress is not None:
            return Answers(super().normalise(diagnoses, progress))
        with displayed(current_display()), new_bar(total=len(diagnoses), unit="diagnosis", leave=False) as bar:
            return Answers(super().normalise(diagnoses, lambda done: bar.update(done - bar.n)))


def _rows(one: Normalised) -> list[tuple[str, str, str, float | None, str]]:
    """Return the answers of a diagnosis, those below the threshold too, and what it says that gets no code."""
    answers = (*one.answers, *one.unsure)
    found = [
        (one.diagnosis, answer.code, answer.term, answer.confidence, status)
        for answer, status in zip(answers, one.statuses, strict=False)
    ]
    others = one.statuses[len(answers) :]
    return [*found, *((one.diagnosis, "", "", None, status) for status in others)]
