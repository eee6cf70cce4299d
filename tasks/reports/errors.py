"""Mistakes of a fine-tuned model on dev: confusions, scores by type, the longest misses and the surest mistakes.

Time and memory grow with the predictions, all of which are in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.deidentify import deidentify
from tasks.downstream.records import Entity, Kind, Triple
from tasks.finetune.prediction.rows import answer_from_json

EXAMPLES = 12
"""Mistakes shown of each kind."""

EXCERPT = 160
"""Characters shown of a text."""

CONFUSIONS = 20
"""Pairs of labels shown, the most frequent first."""


@dataclass(frozen=True)
class Case:
    """A record with its right answer and the model's."""

    texts: list[str]
    gold: Any
    answer: Any
    scores: list[float] | None


def summarise_errors(kind: Kind, labels: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sections of the page as plain JSON values.

    Args:
        kind: kind of the task.
        labels: labels of the task.
        rows: rows of the table predictions with a known right answer.
    """
    cases = [
        Case(row["texts"], answer_from_json(kind, row["gold"]), answer_from_json(kind, row["answer"]), row["scores"])
        for row in rows
    ]
    if kind in (Kind.TAGGING, Kind.NESTED_TAGGING):
        return _entities(cases)
    if kind is Kind.TRIPLES:
        return _triples(cases)
    return _labels(kind, labels, cases)


def _labels(kind: Kind, labels: Sequence[str], cases: Sequence[Case]) -> dict[str, Any]:
    sets = [({str(one) for one in _listed(case.gold)}, {str(one) for one in _listed(case.answer)}) for case in cases]
    wrong = [case for case in cases if set(_listed(case.gold)) != set(_listed(case.answer))]
    confused = Counter(
        (gold, answer)
        for right, given in sets
        for gold in sorted(right - given) or ["none"]
        for answer in sorted(given - right) or ["none"]
        if right != given
    )
    by_type = [] if kind is Kind.CHOICE else _by_type(sets)
    surest = sorted(wrong, key=lambda case: -max(case.scores or [0.0]))
    return {
        "by_type": by_type,
        "confusions": _confusions(confused),
        "sections": [
            {
                "name": "Surest mistakes",
                "note": f"{len(wrong):,} of {len(cases):,} answers are wrong. Of these, the model was surest of:",
                "columns": ["right", "given", "score", "text"],
                "rows": [
                    [_joined(case.gold), _joined(case.answer), f"{max(case.scores or [0.0]):.3f}", _texts(case)]
                    for case in surest[:EXAMPLES]
                ],
            }
        ],
    }


def _entities(cases: Sequence[Case]) -> dict[str, Any]:
    confused: Counter[tuple[str, str]] = Counter()
    missed: list[tuple[Case, Entity]] = []
    wrong_ends: list[tuple[Case, Entity, Entity]] = []
    invented: list[tuple[Case, Entity]] = []
    for case in cases:
        left, surplus = set(case.gold) - set(case.answer), set(case.answer) - set(case.gold)
        for gold in sorted(left):
            same = next((one for one in sorted(surplus) if (one.start, one.end) == (gold.start, gold.end)), None)
            near = next((one for one in sorted(surplus) if one.type == gold.type and _overlap(one, gold)), None)
            if same is not None:
                confused[gold.type, same.type] += 1
            elif near is not None:
                wrong_ends.append((case, gold, near))
            else:
                missed.append((case, gold))
        invented += [(case, one) for one in sorted(surplus) if not any(_overlap(one, gold) for gold in case.gold)]
    longest = sorted(missed, key=lambda one: one[1].start - one[1].end)
    return {
        "by_type": _by_type([(case.gold, case.answer) for case in cases], lambda one: one.type),
        "confusions": _confusions(confused),
        "sections": [
            {
                "name": "Longest misses",
                "note": f"{len(missed):,} entities were not found, not even in part.",
                "columns": ["type", "entity", "in"],
                "rows": [[gold.type, _mention(case, gold), _around(case, gold)] for case, gold in longest[:EXAMPLES]],
            },
            {
                "name": "Wrong ends",
                "note": f"{len(wrong_ends):,} entities have the right type but a wrong beginning or end.",
                "columns": ["type", "right", "given", "in"],
                "rows": [
                    [gold.type, _mention(case, gold), _mention(case, near), _around(case, gold)]
                    for case, gold, near in wrong_ends[:EXAMPLES]
                ],
            },
            {
                "name": "Found where there is none",
                "note": f"{len(invented):,} entities do not overlap with any right one.",
                "columns": ["type", "given", "in"],
                "rows": [[one.type, _mention(case, one), _around(case, one)] for case, one in invented[:EXAMPLES]],
            },
        ],
    }


def _triples(cases: Sequence[Case]) -> dict[str, Any]:
    def plain(triples: Iterable[Triple]) -> set[tuple[str, str, str]]:
        return {(one.subject, one.predicate, one.object) for one in triples}

    sets = [(plain(case.gold), plain(case.answer)) for case in cases]
    ends = [tuple({name for s, _, o in side for name in (s, o)} for side in pair) for pair in sets]
    confused: Counter[tuple[str, str]] = Counter()
    missed: list[tuple[Case, tuple[str, str, str]]] = []
    for case, (gold, given) in zip(cases, sets, strict=True):
        for triple in sorted(gold - given):
            other = next((one for one in sorted(given - gold) if one[0::2] == triple[0::2]), None)
            if other is not None:
                confused[triple[1], other[1]] += 1
            else:
                missed.append((case, triple))
    farthest = sorted(missed, key=lambda one: -_distance(one[0].texts[0], one[1]))
    return {
        "by_type": [
            _counted("subjects and objects of any relation", ends),
            *_by_type(sets, lambda one: one[1]),
        ],
        "confusions": _confusions(confused),
        "sections": [
            {
                "name": "Misses with ends far apart",
                "note": f"{len(missed):,} triples were not found under any relation.",
                "columns": ["relation", "subject", "object", "in"],
                "rows": [
                    [triple[1], _shown(triple[0]), _shown(triple[2]), _texts(case)]
                    for case, triple in farthest[:EXAMPLES]
                ],
            }
        ],
    }


def _by_type(sets: Sequence[tuple[Any, Any]], type_of: Callable[[Any], str] = lambda one: one) -> list[dict[str, Any]]:
    """Return precision, recall and F1 of each type, the most frequent first."""
    names = Counter(type_of(one) for gold, given in sets for one in {*gold, *given})
    return [
        _counted(
            name,
            [
                ({o for o in gold if type_of(o) == name}, {o for o in given if type_of(o) == name})
                for gold, given in sets
            ],
        )
        for name, _ in names.most_common()
    ]


def _counted(name: str, sets: Iterable[Any]) -> dict[str, Any]:
    pairs = list(sets)
    right, given = sum(len(set(one)) for one, _ in pairs), sum(len(set(other)) for _, other in pairs)
    both = sum(len(set(one) & set(other)) for one, other in pairs)
    return {
        "type": name,
        "right": right,
        "given": given,
        "agree": both,
        "precision": both / given if given else 0.0,
        "recall": both / right if right else 0.0,
        "f1": 2 * both / (right + given) if right + given else 0.0,
    }


def _confusions(counts: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"right": right, "given": given, "count": count} for (right, given), count in ordered[:CONFUSIONS]]


def _listed(answer: Any) -> list[Any]:
    return list(answer) if isinstance(answer, tuple) else [answer]


def _overlap(one: Entity, other: Entity) -> bool:
    return one.start < other.end and other.start < one.end


def _mention(case: Case, entity: Entity) -> str:
    return _shown(case.texts[0][entity.start : entity.end])


def _around(case: Case, entity: Entity) -> str:
    margin = max(0, EXCERPT - (entity.end - entity.start)) // 2
    return _shown(case.texts[0][max(0, entity.start - margin) : entity.end + margin])


def _texts(case: Case) -> str:
    return " / ".join(_shown(text) for text in case.texts)


def _joined(answer: Any) -> str:
    return ", ".join(map(str, _listed(answer))) or "none"


def _distance(text: str, triple: tuple[str, str, str]) -> int:
    return abs(text.find(triple[0]) - text.find(triple[2]))


def _shown(text: str) -> str:
    """Return the beginning of a text, on one line, without identifiers."""
    treated, _ = deidentify(text[: 2 * EXCERPT])
    line = " ".join(treated.split())
    return line if len(line) <= EXCERPT else line[:EXCERPT] + "…"


def trials_of(content: bytes) -> dict[str, Any]:
    """Return the content of `trials.json` in a finetune artifact."""
    return json.loads(content)
