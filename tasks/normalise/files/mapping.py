"""Stage `term_mapping`: the terms of one list mapped to those of another, with confidence, and a file for review.

Two files, each as .xlsx and .csv: `mapping` has a row per term of the first list, `review` what is below the threshold.
`table.json` has the counts that a run shows at its end.
A review file that was filled in is the input `names` of the next run. Time grows with the terms of the first list times
the cost of a search, memory with its terms."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.stage import Output, stage
from tasks.downstream.readers.assemble import SEPARATOR
from tasks.files.tables import write_table
from tasks.normalise.answers import Normalised
from tasks.normalise.files.normalised import found_by
from tasks.normalise.files.review import Review
from tasks.normalise.index import open_index
from tasks.normalise.normaliser import Normaliser
from tasks.normalise.params import TermMappingParams
from tasks.normalise.terms.terminology import entries_of
from tasks.retrieve.candidates import Entry
from tasks.retrieve.icd_categories import same_category

MAPPING, REVIEW = "mapping", "review"
SUFFIXES = (".xlsx", ".csv")

HEADER = ("code", "term", "mapped_code", "mapped_term", "confidence", "same_code", "found_by", "unmatched", "status")
"""Columns of a mapping. `same_code`: yes if the mapped code is the term's own, category if only the
categories are equal, else no."""


@stage(name="term_mapping", version=4, params=TermMappingParams)
def term_mapping(inputs: Mapping[str, Any], params: TermMappingParams, out: Output) -> None:
    """Map the terms of `inputs["terminology"]` to those of `inputs["index"]`, an artifact of `candidate_index`.

    Every term is taken for a diagnosis, whatever it denies or doubts: a list may contain 高血压家族史.
    """
    entries = entries_of(inputs["terminology"])
    with tempfile.TemporaryDirectory(prefix="yiwen-") as scratch:
        index = open_index(inputs["index"], Path(scratch, "index"))
        normaliser = Normaliser(index.folder, refuses=False, threshold=params.threshold)
        found = normaliser.stream([entry.term for entry in entries])
        review = Review(params.threshold)
        rows: list[tuple[str, ...]] = [HEADER]
        for number, (entry, one) in enumerate(zip(entries, found, strict=True), start=2):
            review.add(one, number)
            rows.append(_row(entry, one))
        folder = Path(scratch, "files")
        for suffix in SUFFIXES:
            write_table(folder / f"{MAPPING}{suffix}", None, rows, MAPPING)
            review.write(folder / f"{REVIEW}{suffix}", None)
        out.add_folder(folder)
    mapped = [row for row in rows[1:] if row[HEADER.index("mapped_term")]]
    same = Counter(one for row in mapped for one in set(row[HEADER.index("same_code")].split(SEPARATOR)))
    found_of = {"terms": len(entries), "mapped": len(mapped), "to_review": len(review)}
    for name, number in found_of.items():
        out.count(name, number)
    shown = {name.replace("_", " "): number for name, number in found_of.items()}
    table = [shown | {"to the same code": same["yes"], "to the same category": same["category"]}]
    out.add_bytes("table.json", json.dumps(table).encode())


def _row(entry: Entry, one: Normalised) -> tuple[str, ...]:
    columns = (
        [answer.code for answer in one.answers],
        [answer.term for answer in one.answers],
        [f"{answer.confidence:.3f}" for answer in one.answers],
        [_same(entry.code, answer.code) for answer in one.answers],
        [found_by(answer.match) for answer in one.answers],
        [" ".join(answer.match.unmatched) if answer.match else "" for answer in one.answers],
        one.statuses,
    )
    return entry.code, entry.term, *map(SEPARATOR.join, columns)


def _same(code: str, mapped: str) -> str:
    if not code or not mapped:
        return ""
    return "yes" if code == mapped else "category" if same_category(code, mapped) else "no"
