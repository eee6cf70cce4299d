"""Rows of a file become checked records.

Rows come with their texts under the names of `spec.fields`, and

- `entities`: [{start, end (exclusive), type, mention or None}, …] for TAGGING and NESTED_TAGGING,
- `spo_list`: as CMeIE has it, for TRIPLES,
- `options`: [text, …] and the number of the right one, for CHOICE.

What is not as it should be is an error where it tells of a wrong file (a field is missing, a label is none of the
benchmark's), and else is told of in `Reject`s, so that one bad example does not cost the rest:

| reason | what becomes of it |
|---|---|
| empty_text | train, dev: the record goes. test: it stays, as an answer is asked for |
| repeated | train, dev: a record with the id, texts and answer of an earlier one goes; test: an error |
| duplicate_id | train, dev: a record with the id of another one stays, as `id#place`; test: an error |
| no_answer | train, dev: the record goes |
| label_read_as | stays: the benchmark's own baseline reads this label as another (`same_labels`) |
| case_differs | stays: text and mention differ in upper and lower case only, and the offsets fit |
| offset_moved | stays: the mention stands somewhere else in the text, once; the entity is there now |
| offset_out_of_range, offset_mismatch | the entity goes: it is not where it is said to be, nor once anywhere else |
| overlaps | TAGGING: of entities that overlap, the longest stays, then the first |
| not_in_text | stays: a triple's subject or object is no part of the text; official scores count it |

An entity that goes is missing from the answers that predictions are compared with, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from infra.errors import UserError
from tasks.downstream.records import Answer, Entity, Kind, Record, Triple
from tasks.downstream.spec import Reject, Row, Split, TaskSpec

SHOWN = 60
"""Characters of a text that a message quotes."""

SEPARATOR = "##"
"""Between the standard terms of a CHIP-CDN mention."""


def assemble(rows: Iterable[Row], spec: TaskSpec, path: Path, split: Split) -> tuple[list[Record], list[Reject]]:
    """Records of one split, in the file's order, and what was not as it should be.

    Raises:
        UserError: naming file, place and field.
    """
    work = _Assembly(spec, path, split)
    for number, row in enumerate(rows):
        work.add(number, row)
    records = work.records
    if split == "test" and all(record.answer in (None, ()) for record in records):
        records = [_without_answer(record) for record in records]  # files to be answered have empty lists
    return records, work.rejects


def _without_answer(record: Record) -> Record:
    return Record(record.record_id, record.texts, None, record.group, record.extra)


class _Assembly:
    """The records of a file so far."""

    def __init__(self, spec: TaskSpec, path: Path, split: Split) -> None:
        self.spec, self.path, self.split = spec, path, split
        self.records: list[Record] = []
        self.rejects: list[Reject] = []
        self._by_id: dict[str, Record] = {}
        self._place = ""

    def add(self, number: int, row: Row) -> None:
        self._place = row.place
        texts = self._texts(row.fields)
        answer = self._answer(row.fields, texts)
        if self.split != "test":
            if not all(text.strip() for text in texts):
                self._reject("empty_text", f"{self._field_of_empty(texts)} holds no character", "record")
                return
            if answer is None:
                self._reject("no_answer", f"{self.spec.fields.answer} is missing or empty", "record")
                return
        record = Record(self._id(number, row), texts, answer, self._group(row.fields), self._extra(row.fields))
        kept = self._unique(record)
        if kept is not None:
            self._by_id[kept.record_id] = kept
            self.records.append(kept)

    def _unique(self, record: Record) -> Record | None:
        """The record, under an id that is its own; None for one that is there already."""
        before = self._by_id.get(record.record_id)
        if before is None:
            return record
        if self.split == "test":
            raise self._error(
                self.spec.fields.record_id or "id",
                f"the id {record.record_id!r} stands a second time; answers could not be told apart",
            )
        if (before.texts, before.answer, before.group) == (record.texts, record.answer, record.group):
            self._reject("repeated", _quote(" | ".join(record.texts)), "record")
            return None
        self._reject("duplicate_id", f"{record.record_id!r} with another text or answer", "nothing")
        renamed = f"{record.record_id}#{self._place}"
        return Record(renamed, record.texts, record.answer, record.group, record.extra)

    def _error(self, field: str, told: str) -> UserError:
        return UserError(f"{self.path}, {self._place}, field {field}: {told}.")

    def _reject(self, reason: str, detail: str, lost: Any) -> None:
        self.rejects.append(Reject(self.path.name, self._place, reason, detail, lost))

    def _texts(self, fields: Mapping[str, Any]) -> tuple[str, ...]:
        texts = []
        for name in self.spec.fields.texts:
            if name not in fields:
                there = ", ".join(map(str, fields)) or "nothing"
                raise self._error(name, f"it is missing; there is {there}")
            value = fields[name]
            for text in value if self.spec.kind == Kind.CHOICE and isinstance(value, list) else [value]:
                texts.append(self._text(name, text))
        return tuple(texts)

    def _text(self, name: str, value: Any) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._error(name, f"a text is expected, not {_quote(str(value))} ({type(value).__name__})")
        return value

    def _field_of_empty(self, texts: tuple[str, ...]) -> str:
        place = next(number for number, text in enumerate(texts) if not text.strip())
        names = self.spec.fields.texts
        return names[min(place, len(names) - 1)]

    def _id(self, number: int, row: Row) -> str:
        name = self.spec.fields.record_id
        if name is None or name not in row.fields:
            if name is not None and self.split == "test":
                raise self._error(name, "it is missing; the submission needs it")
            return str(number)
        return str(row.fields[name])

    def _group(self, fields: Mapping[str, Any]) -> str | None:
        name = self.spec.fields.group
        if name is None:
            return None
        if fields.get(name) in (None, ""):
            raise self._error(name, "it is missing; it tells which candidates belong to one question")
        return str(fields[name])

    def _extra(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Everything but the answer: a test file that has answers must not hand them to the submission."""
        hidden = {self.spec.fields.answer, "entities", "spo_list", *self.spec.fields.texts}
        return {name: value for name, value in fields.items() if name not in hidden}

    def _answer(self, fields: Mapping[str, Any], texts: tuple[str, ...]) -> Answer | None:
        match self.spec.kind:
            case Kind.TAGGING | Kind.NESTED_TAGGING:
                given = fields.get("entities")
                return None if given is None else self._entities(given, texts[0])
            case Kind.TRIPLES:
                given = fields.get("spo_list")
                return None if given is None else self._triples(given, texts[0])
        given = fields.get(self.spec.fields.answer)
        if given is None or given == "" or given == []:
            return None
        match self.spec.kind:
            case Kind.CHOICE:
                return int(given)
            case Kind.MULTI_LABEL:
                return self._labels(given)
            case Kind.NORMALISATION:
                return _unique_terms(self._text(self.spec.fields.answer, given))
        return self._label(given)

    def _label(self, given: Any) -> str:
        name = self.spec.fields.answer
        if isinstance(given, float) and given.is_integer():
            given = int(given)
        if isinstance(given, bool) or not isinstance(given, str | int):
            raise self._error(name, f"a label is expected, not {_quote(str(given))} ({type(given).__name__})")
        label = str(given).strip()
        if label in self.spec.same_labels:
            meant = self.spec.same_labels[label]
            self._reject("label_read_as", f"{label} as {meant}", "nothing")
            return meant
        if self.spec.labels is not None and label not in self.spec.labels:
            raise self._error(name, f"{label!r} is no label of {self.spec.title}; {_list(self.spec.labels)} are")
        return label

    def _labels(self, given: Any) -> tuple[str, ...]:
        values = given if isinstance(given, list) else str(given).replace("##", ",").split(",")
        return tuple(sorted({self._label(value) for value in values}))

    def _entities(self, given: Iterable[Mapping[str, Any]], text: str) -> tuple[Entity, ...]:
        placed = {entity for one in given if (entity := self._placed(one, text)) is not None}
        if self.spec.kind == Kind.NESTED_TAGGING:
            return tuple(sorted(placed))
        return tuple(sorted(self._flat(placed, text)))

    def _placed(self, given: Mapping[str, Any], text: str) -> Entity | None:
        """An entity whose offsets fit the text, or none."""
        start, end, kind = given["start"], given["end"], self._text("type", given["type"])
        mention = self._text("mention", given.get("mention"))
        if self.spec.labels is not None and kind not in self.spec.labels:
            raise self._error("type", f"{kind!r} is no type of {self.spec.title}; {_list(self.spec.labels)} are")
        inside = 0 <= start < end <= len(text)
        if inside and (not mention or text[start:end] == mention):
            return Entity(start, end, kind)
        told = f"{mention!r} at {start} to {end} of {len(text)} characters"
        if inside:
            told += f", where {text[start:end]!r} stands"
            if text[start:end].lower() == mention.lower():
                self._reject("case_differs", told, "nothing")
                return Entity(start, end, kind)
        if mention and _occurs_once(text, mention):
            moved = text.lower().find(mention.lower())
            self._reject("offset_moved", f"{told}; moved to {moved}", "nothing")
            return Entity(moved, moved + len(mention), kind)
        self._reject("offset_mismatch" if inside else "offset_out_of_range", told, "entity")
        return None

    def _flat(self, entities: Iterable[Entity], text: str) -> list[Entity]:
        """The longest of entities that overlap, then the first."""
        kept: list[Entity] = []
        for entity in sorted(entities, key=lambda one: (one.start - one.end, one.start, one.type)):
            over = next((one for one in kept if entity.start < one.end and one.start < entity.end), None)
            if over is None:
                kept.append(entity)
            else:
                told = f"{text[entity.start : entity.end]!r} ({entity.type}) with {text[over.start : over.end]!r}"
                self._reject("overlaps", told, "entity")
        return kept

    def _triples(self, given: Any, text: str) -> tuple[Triple, ...]:
        if not isinstance(given, list):
            raise self._error("spo_list", f"a list is expected, not {_quote(str(given))}")
        triples = set()
        for number, spo in enumerate(given, 1):
            try:
                triples.update(_triples_of(spo))
            except (KeyError, TypeError, AttributeError) as error:
                told = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise self._error("spo_list", f"triple {number}: {told} in {_quote(str(spo))}") from error
        for triple in sorted(triples):
            if self.spec.labels is not None and triple.predicate not in self.spec.labels:
                raise self._error(
                    "predicate", f"{triple.predicate!r} is none of the {len(self.spec.labels)} predicates"
                )
            for role, name in (("subject", triple.subject), ("object", triple.object)):
                if name not in text:
                    self._reject("not_in_text", f"{role} {name!r}", "nothing")
        return tuple(sorted(triples))


def _triples_of(spo: Mapping[str, Any]) -> list[Triple]:
    """The triples of one entry: one, except where the object has more values than `@value`."""
    objects, types = spo["object"], spo["object_type"]
    if isinstance(objects, str):
        objects, types = {"@value": objects}, {"@value": types}
    return [
        Triple(str(spo["subject"]), str(spo["subject_type"]), str(spo["predicate"]), str(value), str(types[role]))
        for role, value in objects.items()
    ]


def _unique_terms(text: str) -> tuple[str, ...]:
    """The standard terms in the file's order, each once."""
    return tuple(dict.fromkeys(term.strip() for term in text.split(SEPARATOR) if term.strip()))


def _occurs_once(text: str, mention: str) -> bool:
    """Whether a mention stands in a text once, whatever the case; not where lowering changes the places."""
    low, sought = text.lower(), mention.lower()
    return len(low) == len(text) and len(sought) == len(mention) and 0 <= low.find(sought) == low.rfind(sought)


def _quote(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")


def _list(labels: tuple[str, ...]) -> str:
    return ", ".join(labels)
