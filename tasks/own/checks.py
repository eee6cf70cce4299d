"""Checks of a user's records: what cannot be learnt is an error, what makes scores mean less is a warning."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence

from infra.errors import UserError
from tasks.downstream.records import Kind
from tasks.downstream.spec import Split, TaskSpec
from tasks.own.params import OwnTaskParams
from tasks.own.records import OwnRecord

SHOWN = 5
"""Labels and rows that a message names."""

Records = Mapping[Split, Sequence[OwnRecord]]


def check_labels(records: Sequence[OwnRecord], params: OwnTaskParams, kind: Kind) -> list[str]:
    """Check the labels of all rows together; return warnings.

    Raises:
        UserError: there is a single class, or no entity at all; or a label occurs once and the check is strict.
    """
    counts = Counter(label for record in records for label in set(record.labels))
    first = {label: record for record in reversed(records) for label in record.labels}
    path, column = records[0].path, _answer_column(params)
    if not counts:
        syntax = "[高血压|疾病]" if params.markup == "brackets" else "entities"
        raise UserError(
            f"{path}, column {column!r}: none of {len(records):,} rows has an entity. Is markup={params.markup} how "
            f"they are written, with {syntax} in this column?"
        )
    if len(counts) == 1 and kind in (Kind.SINGLE, Kind.PAIR, Kind.RANKING):
        (label,) = counts
        raise UserError(
            f"{path}, column {column!r}: all {len(records):,} rows have the label {label!r}, so there is nothing to "
            "learn. Add rows of another label, or name another column."
        )
    once = sorted(label for label, count in counts.items() if count == 1)
    if not once:
        return []
    named = [f"{label!r} ({first[label].place}{_near(label, counts)})" for label in once[:SHOWN]]
    what = "type" if kind is Kind.TAGGING else "label"
    found = (
        f"{first[once[0]].path}, column {column!r}: {_several(once, what)} in one row only: {', '.join(named)}"
        f"{_more(once)}. Such a {what} cannot be learnt and scored"
    )
    if params.strict and kind is Kind.RANKING:  # relevances are 0 and 1: what is missing is more of the same
        queries = len({record.texts[0] for record in records})
        raise UserError(
            f"{path}, column {column!r}: {_several(once, 'relevance')} in one row only: {', '.join(named)}, of "
            f"{len(records):,} rows of {queries:,} quer{'ies' if queries > 1 else 'y'}. A ranker learns from many "
            "queries with right and wrong candidates: add some, or take these with --param strict=false."
        )
    if params.strict:
        raise UserError(f"{found}. Correct it, add rows, or take them as they are with --param strict=false.")
    return [f"{found}."]


def check_splits(split: Records, params: OwnTaskParams, spec: TaskSpec, is_drawn: bool) -> list[str]:
    """Check splits against each other; return warnings: rows of dev and test that train has too, and their groups.

    Raises:
        UserError: train has a single class, or dev or test has a label that train lacks and the check is strict.
    """
    column = _answer_column(params)
    known = {label for record in split["train"] for label in record.labels}
    if len(known) < 2 and spec.kind in (Kind.SINGLE, Kind.PAIR, Kind.RANKING):
        path = split["train"][0].path
        raise UserError(
            f"{path}, column {column!r}: all {len(split['train']):,} rows of train have the label {known.pop()!r}. Put "
            "rows of another label into train."
        )
    warnings = []
    for name in ("dev", "test"):
        rows = split.get(name, ())
        lacking = {label: record for record in reversed(rows) for label in record.labels if label not in known}
        if lacking:
            labels = sorted(lacking)
            named = [f"{label!r} ({lacking[label].place}{_near(label, known)})" for label in labels[:SHOWN]]
            found = (
                f"{rows[0].path}, column {column!r}: {name} has labels that train lacks: {', '.join(named)}"
                f"{_more(labels)}. A model cannot answer what it has not seen"
            )
            if params.strict:
                raise UserError(
                    f"{found}. Put rows with them into train, correct them, or count them as mistakes with --param "
                    "strict=false."
                )
            warnings.append(f"{found}: they count as mistakes.")
        warnings += _leaks(name, rows, split["train"], spec, is_drawn)
    return warnings


def contradictions(records: Sequence[OwnRecord]) -> list[str]:
    """Return a warning if the same texts have different answers."""
    answers: dict[tuple[str, ...], set[object]] = {}
    for record in records:
        answers.setdefault(record.texts, set()).add(record.answer)
    odd = [texts for texts, found in answers.items() if len(found) > 1]
    if not odd:
        return []
    example = next(record for record in records if record.texts == odd[0])
    return [
        f"Texts that occur with different answers: {len(odd):,}, the first in {example.path.name}, {example.place}. No "
        "model can answer these right every time."
    ]


def _leaks(
    name: str, rows: Sequence[OwnRecord], train: Sequence[OwnRecord], spec: TaskSpec, is_drawn: bool
) -> list[str]:
    if not rows:
        return []
    # A query with new candidates has been seen as well.
    what, width = ("query", 1) if spec.fields.group else ("text", None)
    seen = {record.texts[:width] for record in train}
    again = sum(record.texts[:width] in seen for record in rows)
    groups = {record.group for record in train} - {None}
    shared = {record.group for record in rows} & groups
    found = []
    if again:
        # Drawn splits keep equal texts together, unless they would join the rows of nearly all groups.
        remedy = f"Take them out of {name}, or let the splits be drawn."
        if is_drawn:
            remedy = f"They are {what}s of so many groups that only the rows of a group could be kept together."
        found.append(
            f"{again:,} of {len(rows):,} rows of {name} ({again / len(rows):.1%}) have a {what} that train has too, so "
            f"the scores of {name} are better than for new ones. {remedy}"
        )
    if shared:
        found.append(
            f"{len(shared):,} groups of {name} have rows in train too, so the scores of {name} may be better than for "
            "new groups. Keep each group in one split."
        )
    return found


def _answer_column(params: OwnTaskParams) -> str:
    return params.text_fields[0] if params.form == "tag" and params.markup == "brackets" else params.label_field


def _near(label: str, known: Counter[str] | set[str]) -> str:
    near = difflib.get_close_matches(label, [one for one in known if one != label], n=1, cutoff=0.8)
    return f"; is it {near[0]!r}?" if near else ""


def _several(labels: Sequence[str], what: str) -> str:
    return f"a {what} is" if len(labels) == 1 else f"{len(labels):,} {what}s are"


def _more(labels: Sequence[str]) -> str:
    return f" and {len(labels) - SHOWN:,} more" if len(labels) > SHOWN else ""
