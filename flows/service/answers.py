"""Answers as JSON: the objects of the Python classes, field by field, with the floats that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tasks.finetune.prediction.rows import answer_to_value, to_json

if TYPE_CHECKING:  # a worker loads what its own engine needs, and no more
    from tasks.deidentify.explain import Explained
    from tasks.downstream.features.base import Prediction
    from tasks.normalise.answers import Answer, Normalised
    from tasks.normalise.reading import Modifier, Statement
    from tasks.retrieve.candidates import Candidate
    from tasks.retrieve.match import Match


def to_bytes(value: Any) -> bytes:
    """Return JSON in UTF-8. Floats are written so that reading gives the same bits."""
    return to_json(value).encode()


def normalised_value(one: Normalised, candidates: int) -> dict[str, Any]:
    """Return a diagnosis with its answers, and the first of the candidates that were considered."""
    return {
        "diagnosis": one.diagnosis,
        "statuses": list(one.statuses),
        "answers": [_answer(each) for each in one.answers],
        "unsure": [_answer(each) for each in one.unsure],
        "refused": [_statement(each) for each in one.refused],
        "modifiers": [_modifier(each) for each in one.modifiers],
        "missed": list(one.missed),
        "considered": [_candidate(each) for each in one.considered[:candidates]],
    }


def prediction_value(one: Prediction, text: str) -> dict[str, Any]:
    """Return a model's answer; entities have their text."""
    scores = None if one.scores is None else list(one.scores)
    return {"answer": answer_to_value(one.answer, text), "scores": scores, "error": None}


def refused_value(reason: str) -> dict[str, Any]:
    """Return the answer to a record that a model is not asked about, with the reason."""
    return {"answer": None, "scores": None, "error": reason}


def mentions_value(
    found: Sequence[tuple[int, int, str]], text: str, entities: Mapping[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    """Return the mentions of `EntityLinker.link` with the name and type of each entity."""
    return [
        {
            "start": start,
            "end": end,
            "text": text[start:end],
            "entity_id": entity,
            "name": entities[entity][0],
            "type": entities[entity][1],
        }
        for start, end, entity in found
    ]


def deidentified_value(text: str, counts: dict[str, int], found: Sequence[Explained] | None) -> dict[str, Any]:
    """Return a text without identifiers; where they were, but not what they were."""
    identifiers = None
    if found is not None:
        identifiers = [
            {"start": one.start, "end": one.end, "kind": one.kind, "rule": one.rule, "becomes": one.becomes}
            for one in found
        ]
    return {"text": text, "counts": counts, "identifiers": identifiers}


def _answer(one: Answer) -> dict[str, Any]:
    return {
        "code": one.code,
        "term": one.term,
        "confidence": one.confidence,
        "part": one.part,
        "match": None if one.match is None else _match(one.match),
        "candidates": [_candidate(each) for each in one.candidates],
        "pair": None if one.pair is None else one.pair._asdict(),
    }


def _match(one: Match) -> dict[str, Any]:
    return {
        "query": one.query,
        "name": one.name,
        "source": one.source,
        "matched": list(one.matched),
        "unmatched": list(one.unmatched),
        "query_share": one.query_share,
        "name_share": one.name_share,
        "evidence": one.evidence,
    }


def _candidate(one: Candidate) -> dict[str, Any]:
    return {"code": one.code, "term": one.term, "score": one.score}


def _statement(one: Statement) -> dict[str, Any]:
    return {
        "text": one.text,
        "status": str(one.status),
        "searched": one.searched,
        "modifiers": [_modifier(each) for each in one.modifiers],
    }


def _modifier(one: Modifier) -> dict[str, Any]:
    return {"kind": one.kind, "text": one.text, "of": one.of}
