"""Checked records, made of the rows of a file.

Rows hold their texts under the names of `spec.fields`, and

- `entities`: [{start, end (exclusive), type, mention or None}, …] for TAGGING and NESTED_TAGGING,
- `spo_list`: in CMeIE's form, for TRIPLES,
- `options`: [text, …] and the number of the right one, for CHOICE.

A problem is an error where it indicates a wrong file: a field is missing, or a label is not one of the benchmark's.
Any other problem becomes a `Reject`, so that one bad example does not spoil the rest:

| reason | effect |
|---|---|
| empty_text | train, dev: the record is dropped; test: it is kept, as an answer is expected |
| repeated | train, dev: a record with the id, texts and answer of an earlier one is dropped; test: an error |
| duplicate_id | train, dev: another record with the same id is kept, as `id#place`; test: an error |
| no_answer | train, dev: the record is dropped |
| label_read_as | kept: the benchmark's own baseline reads this label as another (`same_labels`) |
| case_differs | kept: text and mention differ only in upper and lower case, and the offsets fit |
| offset_moved | kept: the mention occurs elsewhere in the text, once; the entity is moved there |
| offset_out_of_range, offset_mismatch | the entity is dropped: its mention is not there, nor exactly once elsewhere |
| overlaps | TAGGING: of entities that overlap, the longest is kept, then the first |
| not_in_text | kept: a triple's subject or object does not occur in the text; official scores count it |

A dropped entity is also missing from the answers that predictions are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from infra.errors import UserError
from tasks.downstream.records import Answer, Entity, Kind, Record, Triple
from tasks.downstream.spec import Reject, Row, Split, TaskSpec

SHOWN = 60
"""Maximum number of characters of a text that a message quotes."""

SEPARATOR = "##"
"""Separator of the standard terms of a CHIP-CDN mention."""


def assemble(rows: Iterable[Row], spec: TaskSpec, path: Path, split: Split) -> tuple[list[Record], list[Reject]]:
    """Return the records of one split, in the file's order, and the problems found.

    Raises:
        UserError: the file is not of the task's form; the message names file, place and field.
    """
    work = _Assembly(spec, path, split)
    for number, row in enumerate(rows):
        work.add(number, row)
    records = work.records
    if split == "test" and all(record.answer in (None, ()) for record in records):
        # CBLUE's test files are to be filled in: their lists of entities or triples are there, but empty.
        records = [_without_answer(record) for record in records]
    return records, work.rejects


def _without_answer(record: Record) -> Record:
    return Record(record.record_id, record.texts, None, record.group, record.extra)


class _Assembly:
    """Records of a file so far."""

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
                self._reject("empty_text", f"{self._field_of_empty(texts)} has no characters", "record")
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
        """Return the record under a unique id; None for a repetition."""
        before = self._by_id.get(record.record_id)
        if before is None:
            return record
        if self.split == "test":
            raise self._error(
                self.spec.fields.record_id or "id",
                f"the id {record.record_id!r} occurs twice; the benchmark could not tell the answers apart",
            )
        if (before.texts, before.answer, before.group) == (record.texts, record.answer, record.group):
            self._reject("repeated", _quote(" | ".join(record.texts)), "record")
            return None
        self._reject("duplicate_id", f"{record.record_id!r} with another text or answer", "nothing")
        renamed = f"{record.record_id}#{self._place}"
        return Record(renamed, record.texts, record.answer, record.group, record.extra)

    def _error(self, field: str, problem: str) -> UserError:
        return UserError(f"{self.path}, {self._place}, field {field}: {problem}.")

    def _reject(self, reason: str, detail: str, lost: Any) -> None:
        self.rejects.append(Reject(self.path.name, self._place, reason, detail, lost))

    def _texts(self, fields: Mapping[str, Any]) -> tuple[str, ...]:
        texts = []
        for name in self.spec.fields.texts:
            if name not in fields:
                there = ", ".join(map(str, fields)) or "nothing"
                raise self._error(name, f"it is missing; the fields are {there}")
            value = fields[name]
            for text in value if self.spec.kind == Kind.CHOICE and isinstance(value, list) else [value]:
                texts.append(self._text(name, text))
        return tuple(texts)

    def _text(self, name: str, value: Any) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._error(name, f"expected a text, got {_quote(str(value))} ({type(value).__name__})")
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
            raise self._error(name, "it is missing; it names the question that a candidate belongs to")
        return str(fields[name])

    def _extra(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """All fields but the answer: a test file that has answers must not copy them into the submission."""
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
            raise self._error(name, f"expected a label, got {_quote(str(given))} ({type(given).__name__})")
        label = str(given).strip()
        if label in self.spec.same_labels:
            meant = self.spec.same_labels[label]
            self._reject("label_read_as", f"{label} as {meant}", "nothing")
            return meant
        if self.spec.labels is not None and label not in self.spec.labels:
            raise self._error(name, f"{label!r} is not a label of {self.spec.title}; use {_list(self.spec.labels)}")
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
        """Return an entity whose offsets fit the text, or None."""
        start, end, kind = given["start"], given["end"], self._text("type", given["type"])
        mention = self._text("mention", given.get("mention"))
        if self.spec.labels is not None and kind not in self.spec.labels:
            raise self._error("type", f"{kind!r} is not a type of {self.spec.title}; use {_list(self.spec.labels)}")
        inside = 0 <= start < end <= len(text)
        if inside and (not mention or text[start:end] == mention):
            return Entity(start, end, kind)
        problem = f"{mention!r} at {start} to {end} of {len(text)} characters"
        if inside:
            problem += f", where the text has {text[start:end]!r}"
            if text[start:end].lower() == mention.lower():
                self._reject("case_differs", problem, "nothing")
                return Entity(start, end, kind)
        if mention and _occurs_once(text, mention):
            moved = text.lower().find(mention.lower())
            self._reject("offset_moved", f"{problem}; moved to {moved}", "nothing")
            return Entity(moved, moved + len(mention), kind)
        self._reject("offset_mismatch" if inside else "offset_out_of_range", problem, "entity")
        return None

    def _flat(self, entities: Iterable[Entity], text: str) -> list[Entity]:
        """Return the longest of entities that overlap, then the first."""
        kept: list[Entity] = []
        for entity in sorted(entities, key=lambda one: (one.start - one.end, one.start, one.type)):
            over = next((one for one in kept if entity.start < one.end and one.start < entity.end), None)
            if over is None:
                kept.append(entity)
            else:
                problem = f"{text[entity.start : entity.end]!r} ({entity.type}) with {text[over.start : over.end]!r}"
                self._reject("overlaps", problem, "entity")
        return kept

    def _triples(self, given: Any, text: str) -> tuple[Triple, ...]:
        if not isinstance(given, list):
            raise self._error("spo_list", f"expected a list, got {_quote(str(given))}")
        triples = set()
        for number, spo in enumerate(given, 1):
            try:
                triples.update(_triples_of(spo))
            except (KeyError, TypeError, AttributeError) as error:
                problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise self._error("spo_list", f"triple {number}: {problem} in {_quote(str(spo))}") from error
        for triple in sorted(triples):
            if self.spec.labels is not None and triple.predicate not in self.spec.labels:
                raise self._error(
                    "predicate", f"{triple.predicate!r} is not one of the {len(self.spec.labels)} predicates"
                )
            for role, name in (("subject", triple.subject), ("object", triple.object)):
                if name not in text:
                    self._reject("not_in_text", f"{role} {name!r}", "nothing")
        return tuple(sorted(triples))


def _triples_of(spo: Mapping[str, Any]) -> list[Triple]:
    """Triples of one entry: one, unless the object has more values than `@value`."""
    objects, types = spo["object"], spo["object_type"]
    if isinstance(objects, str):
        objects, types = {"@value": objects}, {"@value": types}
    return [
        Triple(str(spo["subject"]), str(spo["subject_type"]), str(spo["predicate"]), str(value), str(types[role]))
        for role, value in objects.items()
    ]


def _unique_terms(text: str) -> tuple[str, ...]:
    """Standard terms in the file's order, each once."""
    return tuple(dict.fromkeys(term.strip() for term in text.split(SEPARATOR) if term.strip()))


def _occurs_once(text: str, mention: str) -> bool:
    """True if a mention occurs exactly once in a text, in any case.

    False if lowering changes a length: offsets in the lowered text would not be those in the text (İ becomes two).
    """
    low, sought = text.lower(), mention.lower()
    return len(low) == len(text) and len(sought) == len(mention) and 0 <= low.find(sought) == low.rfind(sought)


def _quote(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[:SHOWN] + "…")


def _list(labels: tuple[str, ...]) -> str:
    return ", ".join(labels)
