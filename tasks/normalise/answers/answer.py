"""Answers to a diagnosis: standard terms with the confidence that they are right, and why they were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.normalise.answers.dagger_pairs import Pair
from tasks.normalise.reading import Modifier, Statement, Status
from tasks.retrieve.candidates import Candidate
from tasks.retrieve.match import Match

REVIEW, NOT_FOUND, EMPTY = "review", "not_found", "empty"
"""Statuses besides those of tasks/normalise/reading: answers below the threshold, no candidate at all, a blank text."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A standard term for a diagnosis, or for a part of it."""

    code: str
    term: str
    confidence: float
    """Probability in [0, 1] that the code is right (tasks/normalise/answers/confidence.py), or the ranker's score."""
    part: str
    """What it answers: a part of a compound, or the whole text, in the normal form of kg/names.py."""
    match: Match | None
    """The name that it was found by; None for a sibling of a candidate, which only the ranker chose, and for indexes of
    older versions, which have no names."""
    candidates: tuple[Candidate, ...] = ()
    """The first candidates of the part, this one first; their scores come from retrieval."""
    pair: Pair | None = None
    """The dagger and the asterisk code, if ICD-10 pairs the code with one and the text names the manifestation."""


@dataclass(frozen=True, slots=True)
class Normalised:
    """A diagnosis with its answers."""

    diagnosis: str
    answers: tuple[Answer, ...]
    """Answers that reach the threshold, the surest first. Empty if none reaches it, and for a text that states no
    diagnosis of the patient."""
    considered: Sequence[Candidate]
    """All candidates: first those of the answers, then the others by falling score; last those of what the text denies,
    doubts or dates back. Their scores come from retrieval, unless there is a ranker."""
    unsure: tuple[Answer, ...] = ()
    """Answers below the threshold, by falling confidence."""
    refused: tuple[Statement, ...] = ()
    """Parts of the text that get no code, with the reason as their status."""
    modifiers: tuple[Modifier, ...] = ()
    """Stages, grades, sides and the like of what is coded, in the order of the text."""

    missed: tuple[str, ...] = ()
    """Parts of the text, in normal form, that no answer says anything of."""

    @property
    def terms(self) -> tuple[Candidate, ...]:
        """The answers without their reasons; the score is the confidence."""
        return tuple(Candidate(one.code, one.term, one.confidence) for one in self.answers)

    @property
    def matches(self) -> tuple[Match | None, ...]:
        """The match of each answer."""
        return tuple(one.match for one in self.answers)

    @property
    def statuses(self) -> tuple[str, ...]:
        """Status of each answer, of each one below the threshold, of each part that is refused or missed; not_found or
        empty if nothing else can be said."""
        found = (
            *(str(Status.CODED) for _ in self.answers),
            *(REVIEW for _ in self.unsure),
            *(str(part.status) for part in self.refused),
            *(NOT_FOUND for _ in self.missed),
        )
        return found or ((NOT_FOUND if self.diagnosis.strip() else EMPTY),)
