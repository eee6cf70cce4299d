"""Speed of drawing wrong candidates for SMedBERT's sets D1 to D3, beside plain Python.

    python benchmarks/knowledge/similarity_sets.py [--pairs 2000] [--plain 3] [--output FILE.md]

The graph is CMeKG (package PyCMeKG), fused. The first pairs of each of the three largest types are asked for, and every
right name is compared with all names of its type. The peer computes Jaro-Winkler letter by letter, for fewer samples.
Both draw from the same candidates, which is checked.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.pages import cpu_name, publish, table
from kg.fusion.fused_graph import fuse
from kg.graph import KnowledgeGraph
from kg.names import normalise_names
from kg.sources.cmekg import read_cmekg
from tasks.evaluate.similarity.negatives import Names, draw_negatives
from tasks.evaluate.similarity.params import NEGATIVES
from tests.support.text.plain_jaro_winkler import jaro_winkler

TYPES = 3
LIMIT = 0.6


def names_of(graph: KnowledgeGraph, kind: str) -> tuple[Names, list[tuple[str, str]]]:
    """Return the names of a type, and its samples (query, truth)."""
    frame = pl.DataFrame({"entity": range(graph.num_entities), "name": graph.names, "aliases": graph.aliases})
    frame = frame.filter(pl.Series(graph.types) == kind)
    listed = frame.select("entity", form=pl.concat_list(pl.concat_list("name"), "aliases")).explode("form")
    listed = listed.with_columns(normalise_names(listed["form"])).unique(maintain_order=True)
    first = listed.unique("entity", keep="first", maintain_order=True)
    pairs = listed.join(first, on="entity", maintain_order="left").filter(pl.col("form") != pl.col("form_right"))
    couples = list(zip(pairs["form_right"], pairs["form"], strict=True))
    names = Names.of((entity, form, form) for entity, form in listed.iter_rows())
    return names, [way for one, other in couples for way in ((one, other), (other, one))]


def plainly(samples: list[tuple[str, str]], names: Names) -> list[list[str]]:
    """Return the names that resemble each right one."""
    return [[name for name in names.forms if jaro_winkler(truth, name) > LIMIT] for _, truth in samples]


def measured(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the CPU seconds that it took."""
    begun = time.process_time()
    return work(), time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000, help="pairs of each type")
    parser.add_argument("--plain", type=int, default=3, help="samples of each type for plain Python")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    graph = fuse([read_cmekg().graph("cmekg")])
    named = Counter(kind for kind, aliases in zip(graph.types, graph.aliases, strict=True) for _ in aliases if kind)
    rows = []
    for kind, _ in named.most_common(TYPES):
        names, samples = names_of(graph, kind)
        samples = samples[: 2 * given.pairs]
        drawn, seconds = measured(lambda: list(draw_negatives(samples, names, LIMIT, NEGATIVES, 42)))  # noqa: B023
        few = samples[: given.plain]
        plain, plain_seconds = measured(lambda: plainly(few, names))  # noqa: B023
        assert all(set(own or ()) <= set(alike) for own, alike in zip(drawn, plain, strict=False))
        rows.append(
            [
                kind,
                f"{len(names.forms):,}",
                f"{len(samples):,}",
                f"{drawn.count(None):,}",
                f"{seconds:.1f}",
                f"{len(samples) * len(names.forms) / seconds / 1e6:.2f}",
                f"{len(few) * len(names.forms) / plain_seconds / 1e6:.3f}",
            ]
        )
    head = ["type", "names", "samples", "fewer than 19 alike", "CPU s", "million pairs per CPU s", "plain Python"]
    page = [
        f"# Wrong candidates for the sets D1 to D3, {date.today()}",
        "",
        f"Python {platform.python_version()}, {cpu_name()}; one process, pairs of names compared per CPU second.",
        "",
        *table(head, rows),
        "",
    ]
    publish(page, given.output)


if __name__ == "__main__":
    main()
