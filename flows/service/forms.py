"""Requests as they are checked, and answers as they are documented. The answers themselves are made by answers.py.

Checks name the field and the number of a text, never the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flows.recipes.problems import in_words

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MOST_CANDIDATES = 100


class Form(BaseModel):
    """A JSON object without other fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DiagnosesRequest(Form):
    """Diagnoses to normalise."""

    texts: list[str] = Field(description="diagnoses as written, each with any number of parts")
    candidates: int = Field(
        default=10, ge=0, le=MOST_CANDIDATES, description="candidates in `considered` of each answer"
    )


class RecordsRequest(Form):
    """Records for a fine-tuned model."""

    texts: list[str | list[str]] = Field(
        description="one text per record, or a list of texts where the task has several, in the task's order"
    )


class TextsRequest(Form):
    """Plain texts."""

    texts: list[str] = Field(description="any texts")


class DeidentifyRequest(Form):
    """Texts whose identifiers are replaced."""

    texts: list[str] = Field(description="any texts")
    explain: bool = Field(
        default=False, description="also return where identifiers were, and the rules that found them"
    )


class CandidateForm(Form):
    """A standard term."""

    code: str
    term: str
    score: float


class MatchForm(Form):
    """The name that a query was found by (tasks/retrieve/match.py)."""

    query: str
    name: str
    source: str = Field(description="where the name comes from; empty for the standard term itself")
    matched: list[str] = Field(description="runs of the query that the name contains")
    unmatched: list[str] = Field(description="runs that it lacks")
    query_share: float
    name_share: float
    evidence: float


class PairForm(Form):
    """Codes that ICD-10 pairs: a disease and its manifestation."""

    dagger: str
    asterisk: str


class AnswerForm(Form):
    """A standard term for a diagnosis or a part of it."""

    code: str
    term: str
    confidence: float
    part: str = Field(description="the part of the diagnosis that it answers")
    match: MatchForm | None
    candidates: list[CandidateForm]
    pair: PairForm | None = Field(description="both codes, if the text names the manifestation too")


class ModifierForm(Form):
    """A stage, grade, side or the like."""

    kind: str
    text: str
    of: str


class StatementForm(Form):
    """A part of a diagnosis that gets no code."""

    text: str
    status: str = Field(description="negated, uncertain, family, history, procedure or not_diagnosis")
    searched: str
    modifiers: list[ModifierForm]


class NormalisedForm(Form):
    """A diagnosis with its answers (tasks/normalise/answers/answer.py)."""

    diagnosis: str
    statuses: list[str]
    answers: list[AnswerForm] = Field(description="answers that reach the threshold, the surest first")
    unsure: list[AnswerForm] = Field(description="answers below the threshold")
    refused: list[StatementForm]
    modifiers: list[ModifierForm]
    missed: list[str] = Field(description="parts that no answer says anything of")
    considered: list[CandidateForm]


class NormaliseResponse(Form):
    """Answers in the order of the texts."""

    fingerprint: str
    threshold: float
    answers: list[NormalisedForm]


class PredictionForm(Form):
    """A model's answer to a record (tasks/downstream/records.py has the forms)."""

    answer: Any = Field(description="a label, a number, labels, entities or triples; null if there is an error")
    scores: list[float] | None = Field(description="probability of each label or option; null for entities")
    error: str | None = Field(description="why this record has no answer, such as an empty text; null if it has one")


class PredictResponse(Form):
    """Answers in the order of the records."""

    model: str
    fingerprint: str
    task: str
    labels: list[str] = Field(description="labels in the order of the scores")
    answers: list[PredictionForm]


class MentionForm(Form):
    """A name of an entity in a text: characters `start` to `end`, exclusive."""

    start: int
    end: int
    text: str
    entity_id: str
    name: str
    type: str


class LinkResponse(Form):
    """Mentions of each text, in order."""

    fingerprint: str
    answers: list[list[MentionForm]]


class IdentifierForm(Form):
    """An identifier: characters `start` to `end`, exclusive, of the text that was given. It is not repeated here."""

    start: int
    end: int
    kind: str
    rule: str
    becomes: str


class DeidentifiedForm(Form):
    """A text without identifiers."""

    text: str
    counts: dict[str, int] = Field(description="number of identifiers replaced, by kind")
    identifiers: list[IdentifierForm] | None = Field(description="null unless `explain` was asked for")


class DeidentifyResponse(Form):
    """Texts in the order given."""

    fingerprint: str
    answers: list[DeidentifiedForm]


class EngineHealth(Form):
    """State of one engine."""

    name: str
    kind: str
    ready: bool
    fingerprint: str = Field(description="hash of the content of its files")
    artifact: str | None = Field(description="stage/fingerprint of the artifact that it came from, if that is known")
    about: dict[str, Any]
    waiting: int = Field(description="texts that wait")
    restarts: int = Field(description="number of times its process had to be started again")


class HealthLimits(Form):
    """What a request may have."""

    body_bytes: int
    texts: int
    characters: int
    diagnosis_characters: int


class Health(Form):
    """State of the service."""

    alive: bool
    ready: bool
    version: str
    limits: HealthLimits
    engines: list[EngineHealth]


class Problem(Form):
    """A fault in a request."""

    where: list[str | int]
    message: str


class ErrorResponse(Form):
    """What is wrong, and what to do; it never repeats a text."""

    error: str
    message: str
    problems: list[Problem] = []


def problems_of(error: ValidationError, form: type[Form]) -> list[dict[str, Any]]:
    """Return the faults of a body, without its values: each place once, in the words of JSON."""
    found: dict[tuple[str | int, ...], str] = {}
    for one in error.errors(include_url=False, include_input=False):
        # Of a text or a list of texts pydantic says "str" or "list[str]" where its parts are.
        where = [part for part in one["loc"] if part not in _TYPES]
        # A key that is not ours may be a text.
        place = tuple(part if isinstance(part, int) or part in form.model_fields else "?" for part in where)
        found.setdefault(place, _message(one, form))
    return [{"where": list(place), "message": message} for place, message in [*found.items()][:10]]


def _message(problem: ErrorDetails, form: type[Form]) -> str:
    if problem["type"] == "json_invalid":
        return "The body is not JSON in UTF-8."
    if problem["type"] == "extra_forbidden":
        return f"There is no such field; the fields here are {', '.join(form.model_fields)}."
    if "str" in problem["loc"]:
        return "Must be a text, or a list of texts."
    return in_words(problem)


_TYPES = {"str", "list[str]"}
