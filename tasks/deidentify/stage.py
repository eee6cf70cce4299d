"""Stage `deidentify`: identifiers of persons in clinical text are replaced by typed placeholders.

What counts as one is in `tasks/deidentify/kinds.py` and `tasks/deidentify/forms/names.py`, what becomes of it in
`tasks/deidentify/operators.py`. Rules miss some
identifiers: benchmarks/results has measured figures, and text that must not leak has to be checked by a person too.
Time grows with the characters, memory with one part. With the encoder a unit of work is a piece of a part.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from infra.arrays.batching import batches_of
from infra.artifacts import Artifact, Part
from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from tasks.deidentify.document_persons import meta_may_name, speakers
from tasks.deidentify.forms.identifier import Profile
from tasks.deidentify.operators import Operator
from tasks.deidentify.plan import Plan, make_plan
from tasks.deidentify.treatment import Treatment
from tasks.deidentify.untreated import count_untreated
from tasks.deidentify.user_rules import parse_rules, rules_text
from tasks.documents import document_id, meta_json, source_called, warn_of_absent_sources

DIALOGUE = "dialogue"
"""Source whose documents are turns, one per line."""


CHARACTERS_AT_ONCE = 200_000
"""Characters of a unit of work of the encoder, which reads them in some ten to sixty seconds."""


class DeidentifyParams(StageParams):
    """Which documents are treated, for which kinds of identifiers, and what becomes of them."""

    sources: tuple[str, ...] = ("emr", "dialogue")
    """Sources whose documents are treated; documents of other sources stay as they are."""
    profile: Profile = Field(
        default="minimal",
        description="kinds to treat: minimal (what names a person), hipaa (Safe Harbor: dates, ages over 89, devices, "
        "licences … too) or gbt35273 (annexes A and B); `python -m flows deidentify --kinds` lists them",
    )
    kinds: dict[str, bool] = Field(
        default_factory=dict, description="single kinds on or off: deidentify.kinds.hospital=true"
    )
    operator: Operator = Field(
        default="placeholder",
        description="what becomes of every kind: placeholder, mask, hash, surrogate, encrypt or keep; hash, surrogate "
        "and encrypt need a secret key in YIWEN_DEIDENTIFY_KEY",
    )
    operators: dict[str, Operator] = Field(
        default_factory=dict,
        description="the same for single kinds; date and birth_date also take shift (by the same secret days in a "
        "person's or document's texts), month and year: deidentify.operators.date=shift",
    )
    person_field: str | None = Field(
        default=None,
        description="key of meta that holds a person's number: documents with the same number share surrogates and "
        "shifted days; without it, each document has its own",
    )
    rules: str | None = Field(
        default=None,
        description="TOML file with rules of your own: recognisers, allow and deny lists, cue words (docs/privacy.md)",
    )
    recogniser: bool = Field(
        default=True,
        description="look for names, numbers and addresses by the trained recogniser too: more is found, more slowly",
    )
    encoder: bool = Field(
        default=False,
        description="let a larger encoder read again wherever names may be: more is found, at a twentieth of the speed "
        "or less",
    )
    rules_content: str | None = Field(default=None, repr=False, exclude=True)
    """Content of the file `rules`, which is read once, where the flow starts."""

    @field_validator("sources")
    @classmethod
    def _called(cls, sources: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(source_called, sources))

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        """Read the file of rules, so that a process on another machine need not have it."""
        if isinstance(given, dict) and isinstance(given.get("rules"), str) and given.get("rules_content") is None:
            return {**given, "rules_content": rules_text(given["rules"])}
        return given

    @model_validator(mode="after")
    def _usable(self) -> DeidentifyParams:
        self.plan()
        return self

    @model_serializer(mode="wrap")
    def _identity(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is at its default, so that older artifacts stay valid; write fingerprints of rules and key."""
        values: dict[str, Any] = write(self)
        for name in ("profile", "kinds", "operator", "operators", "person_field", "rules", "recogniser", "encoder"):
            if getattr(self, name) == type(self).model_fields[name].get_default(call_default_factory=True):
                values.pop(name, None)
        plan = self.plan()
        if plan.rules is not None:
            values["rules"] = plan.rules.fingerprint
        if plan.key is not None:
            values["key"] = plan.key.fingerprint
        return values

    def plan(self) -> Plan:
        """Return the plan of these settings; raises `UserError` where they contradict each other."""
        rules = None
        if self.rules is not None and self.rules_content is not None:
            rules = parse_rules(self.rules_content, self.rules)
        return make_plan(self.profile, self.kinds, self.operator, self.operators, rules, self.recogniser, self.encoder)


@stage(name="deidentify", version=29, params=DeidentifyParams, tables=("documents",), heavy=True)
def deidentify_documents(inputs: Mapping[str, Artifact], params: DeidentifyParams, out: Output) -> None:
    """Treat title, text and the values of `meta` in `inputs["documents"]`, part by part."""
    warn_of_absent_sources("deidentify.sources", params.sources, inputs["documents"])
    parts = inputs["documents"].parts("documents")
    if params.encoder:  # a part takes it many minutes: pieces of one show progress, and survive a kill
        out.map(deidentify_rows, [rows for part in parts for rows in pieces_of(part)], params)
    else:
        out.map(deidentify_part, parts, params)


class Rows(NamedTuple):
    """Some rows of a part. A plain tuple: finished artifacts know their units by such keys."""

    part: Part
    start: int
    end: int


def pieces_of(part: Part) -> Iterator[Rows]:
    """Yield the rows of a part in pieces of some `CHARACTERS_AT_ONCE`; a longer text is a piece of its own."""
    ends = np.cumsum(pc.utf8_length(part.read(["text"])["text"]).to_numpy())
    # A piece ends behind the row with which the characters pass a multiple.
    passing = np.flatnonzero(np.diff(ends // CHARACTERS_AT_ONCE, prepend=0)) + 1
    bounds = [0, *(end for end in passing.tolist() if end < part.rows), part.rows]
    yield from (Rows(part, start, end) for start, end in itertools.pairwise(bounds))


def deidentify_part(part: PartWriter, documents: Part, params: DeidentifyParams) -> None:
    """Treat one part. The counters hold types and numbers; nothing that was replaced is written anywhere."""
    _treat_table(part, documents.read(), params)


def deidentify_rows(part: PartWriter, rows: Rows, params: DeidentifyParams) -> None:
    """Treat some rows of a part, as `deidentify_part` treats all of them."""
    _treat_table(part, rows.part.read().slice(rows.start, rows.end - rows.start), params)


def _treat_table(part: PartWriter, table: pa.Table, params: DeidentifyParams) -> None:
    part.count("documents_in", table.num_rows)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    changed = 0
    treated = [place for place, source in enumerate(columns["source"]) if source in params.sources]
    plan = params.plan()
    for place, meta_may_hold in _suspected(columns, treated, plan):
        row = {name: values[place] for name, values in columns.items()}
        counts = _treat(row, meta_may_hold, plan, _scope(row, params.person_field))
        if counts:
            changed += 1
            for kind, number in counts.items():
                part.count(f"replaced_{kind}", number)
            for name, value in row.items():
                columns[name][place] = value
    if treated:
        part.count("documents_treated", len(treated))
        part.count("documents_changed", changed)
    if len(treated) < table.num_rows:
        part.counters.update(count_untreated(columns["source"], columns["text"], params.sources))
    part.write("documents", pa.table(columns, schema=table.schema) if changed else table)


def _scope(row: Mapping[str, Any], person_field: str | None) -> str:
    """Return the person of a document, as its `meta` says, or else the document itself."""
    person = json.loads(row["meta"]).get(person_field) if person_field else None
    return f"person {person}" if person not in (None, "") else f"document {row['doc_id']}"


def _suspected(columns: Mapping[str, Sequence[str]], places: Sequence[int], plan: Plan) -> Iterator[tuple[int, bool]]:
    """Yield the rows among some that may hold an identifier, and whether their `meta` may; batch by batch."""
    may_hold = plan.finder.may_hold
    for batch in batches_of(places, length=lambda place: len(columns["text"][place])):
        texts, titles = ([columns[name][place] for place in batch] for name in ("text", "title"))
        # {"姓名": "王芳"} is read as 姓名：王芳
        held = [columns["meta"][place] for place in batch]
        metas = may_hold([meta.replace('": ', "：") for meta in held]) | np.array([*map(meta_may_name, held)])
        spoken = [columns["source"][place] == DIALOGUE and bool(speakers(columns["text"][place])) for place in batch]
        suspected = metas | may_hold(texts) | may_hold(titles) | np.array(spoken)
        yield from ((place, meta) for place, meta, is_it in zip(batch, metas.tolist(), suspected, strict=True) if is_it)


def _treat(row: dict[str, Any], meta_may_hold: bool, plan: Plan, scope: str) -> Counter[str]:
    """Replace the identifiers of a row in place, and return their number by kind."""
    treatment = Treatment(plan, scope)
    meta = json.loads(row["meta"]) if meta_may_hold else None
    title, text = row["title"], row["text"]
    of_text = treatment.of_turns if row["source"] == DIALOGUE else treatment.of
    known = -1
    while known < len(treatment.names):  # the text may give a name that the title, treated before it, holds too
        known = len(treatment.names)
        if meta is None and known:
            meta = json.loads(row["meta"])
        if meta is not None:
            meta = treatment.of_value("", meta)
        title, text = treatment.of(title), of_text(text)
    if treatment.counts:
        title, text, meta = treatment.finished(title), treatment.finished(text), treatment.finished(meta)
        row |= {"doc_id": document_id(row["source"], title, text), "title": title, "text": text}
        if meta is not None:
            row["meta"] = meta_json(meta)
    return treatment.counts
