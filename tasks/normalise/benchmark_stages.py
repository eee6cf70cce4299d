"""Stages `benchmark_mentions` and `candidate_recall`: the open benchmark of a user's term list and CMeKG, and the
share of its queries with a correct candidate (tasks/normalise/benchmark.py).

Between the two stages a terminology is built from the list and the graph that the first stage writes (`GRAPH`). That
graph contains no query of dev and test as a name.

Time and memory grow with the list, the graph, and the queries with their candidates.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from kg.sources import cmekg
from tasks.files.access import is_local
from tasks.normalise.benchmark import Mention, build_benchmark, without_queries
from tasks.normalise.meaning.vectors import open_vectors, put_vectors
from tasks.normalise.normaliser import Retrieval
from tasks.normalise.terms.terminology import entries_of
from tasks.retrieve.candidates import Candidate, CandidateIndex
from tasks.retrieve.categories import with_categories
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fields import SearchFields
from tasks.retrieve.fusion import WEIGHT, FusedIndex

GRAPH = "cmekg.tsv"
"""File with head, relation and tail of each triple left in CMeKG, one per line."""

JUDGED = ("dev", "test")
"""Splits that are scored."""


class BenchmarkParams(StageParams):
    """No parameters: the benchmark is fixed."""


@stage(
    name="benchmark_mentions", version=3, params=BenchmarkParams, tables=("benchmark_mentions", "benchmark_left_out")
)
def benchmark_mentions(inputs: Mapping[str, Any], params: BenchmarkParams, out: Output) -> None:
    """Create the benchmark from `inputs["cmekg"]` (its pickle) and `inputs["terminology"]`, built without a graph.

    Raises:
        UserError: the graph is unreadable, or dev or test has no query.
    """
    subjects = cmekg.load(_pickle(inputs["cmekg"].places()))
    benchmark = build_benchmark(subjects, entries_of(inputs["terminology"]))
    for split in JUDGED:
        if not benchmark.queries(split):
            raise UserError(
                f"The benchmark has no queries for {split}: too few names in CMeKG have a code of the list "
                f"({len(benchmark.mentions):,}). Give a list with ICD-10 codes."
            )
    with out.part() as part:
        part.write("benchmark_mentions", [one._asdict() | {"codes": list(one.codes)} for one in benchmark.mentions])
        part.write("benchmark_left_out", [one._asdict() for one in benchmark.dropped])
        for mention in benchmark.mentions:
            part.count(f"queries_{mention.split}" if mention.is_query else "names_that_stay")
    triples = cmekg.triples(without_queries(subjects, benchmark.held_out()))
    with tempfile.TemporaryDirectory(prefix="yiwen-") as folder:
        file = Path(folder, GRAPH)
        columns = dict.fromkeys(("head", "relation", "tail"), pl.String)
        rows = pl.DataFrame(list(triples), schema=columns, orient="row")
        # The file has no quotes, so a tab inside a name, as in "心衰\t(左)", would begin a new column.
        rows.with_columns(pl.all().str.replace_all(r"[\t\r\n]", " ")).write_csv(
            file, separator="\t", quote_style="never"
        )
        out.add_file(GRAPH, file)


class RecallParams(StageParams):
    """Searched fields, and numbers of candidates for recall."""

    fields: SearchFields = SearchFields()
    at: tuple[int, ...] = Field(
        default=(1, 10, 50, 100), min_length=1, description="numbers of candidates at which recall is reported"
    )
    meaning_weight: float = Field(default=WEIGHT, gt=0, description="weight of ranks by meaning; characters: 1")


@stage(name="candidate_recall", version=5, params=RecallParams, tables=("candidate_recall",))
def candidate_recall(inputs: Mapping[str, Artifact], params: RecallParams, out: Output) -> None:
    """Search `inputs["terminology"]` for the queries of `inputs["mentions"]`: by characters and, if `inputs["vectors"]`
    (of the stage `name_vectors`) are given, by meaning and by both.

    The index is not stored: it lacks the names that are queries, and nobody should normalise with it by mistake.
    """
    entries = entries_of(inputs["terminology"])
    rows = []
    with tempfile.TemporaryDirectory(prefix="yiwen-") as folder:
        index = EmbeddedIndex.build(entries, folder, params.fields)
        searched: dict[str, CandidateIndex] = {"characters": with_categories(index, index)}
        if "vectors" in inputs:
            put_vectors(inputs["vectors"], Path(folder))
            searched["meaning"] = open_vectors(index)
            searched["both"] = FusedIndex(searched["characters"], searched["meaning"], params.meaning_weight)
        for found_by, one in searched.items():
            retrieval = Retrieval(one, entries, k=max(params.at))
            for split in JUDGED:
                queries = queries_of(inputs["mentions"], split)
                found = retrieval.candidates([query.text for query in queries])
                rows += [{"split": split, "found_by": found_by, **row} for row in _rows(queries, found, params.at)]
    with out.part() as part:
        part.write("candidate_recall", rows)
    out.add_bytes("table.json", json.dumps(rows, ensure_ascii=False, indent=1).encode())


def _rows(
    queries: Sequence[Mention], found: Sequence[Sequence[Candidate]], at: Sequence[int]
) -> Iterator[dict[str, Any]]:
    unequal = [not query.is_equal for query in queries]
    for what, chosen in (("all", [True] * len(queries)), ("not equal to the term", unequal)):
        kept = [pair for pair, keep in zip(zip(queries, found, strict=True), chosen, strict=True) if keep]
        if kept:
            yield from ({"queries": what, "number": len(kept), "k": k, "recall": _recall(kept, k)} for k in at)


def queries_of(mentions: Artifact, split: str) -> list[Mention]:
    """Return the queries of a split from an artifact of the stage `benchmark_mentions`."""
    rows = mentions.to_table("benchmark_mentions").to_pylist()
    return [
        Mention(**row | {"codes": tuple(row["codes"])}) for row in rows if row["split"] == split and row["is_query"]
    ]


def _recall(answered: Sequence[tuple[Mention, Sequence[Candidate]]], k: int) -> float:
    """Return the share of queries with a correct code among the first `k` candidates."""
    return sum(any(one.code in query.codes for one in found[:k]) for query, found in answered) / len(answered)


def _pickle(places: Mapping[str, str]) -> Path:
    paths = list(places.values())
    if len(paths) != 1 or not is_local(paths[0]):
        raise UserError(f"{paths[0]}: CMeKG must be one local file. Give cmekg.pkl from the package PyCMeKG.")
    return Path(paths[0])
