"""Stage `synonym_pairs`: names of one concept, in pairs, with hard negatives from the same category.

A pair are two names of a concept (tasks/normalise/meaning/concepts.py). Its hard negatives are names of other concepts
in the category of its own: of 肺结核 such of A15 and not any names. Of a concept with many names some pairs are drawn.
All pairs of a few concepts are kept apart for judging a training.

With the mentions of the open benchmark, no name that is a query of its dev or test part is used, unless the list itself
has it.

Time and memory grow with the names of list, graph and text.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.stage import Output, stage
from tasks.normalise.benchmark import form_of
from tasks.normalise.benchmark_stages import JUDGED, queries_of
from tasks.normalise.meaning.concepts import Concept, Concepts
from tasks.normalise.meaning.params import SynonymPairsParams
from tasks.normalise.terms.terminology import entries_of, pairs_in
from tasks.retrieve.fields import comparable_forms

REPORT = "report.json"
_SHOWN = 20


@stage(name="synonym_pairs", version=1, params=SynonymPairsParams, tables=("synonym_pairs",))
def synonym_pairs(inputs: Mapping[str, Any], params: SynonymPairsParams, out: Output) -> None:
    """Draw pairs from `inputs["terminology"]` and, if given, `["graph"]` (a fused graph) and `["synonyms"]` (an
    artifact of the stage `text_synonyms`), without the queries of `["held_out"]` (of the stage `benchmark_mentions`).

    Raises:
        UserError: there is no pair to learn from, or none to judge by.
    """
    gathered = Concepts(_held_out(inputs.get("held_out")), english=params.english)
    gathered.add_entries(entries_of(inputs["terminology"]))
    if "graph" in inputs:
        gathered.add_entities(_entities(inputs["graph"]))
    if "synonyms" in inputs:
        stated = pairs_in(inputs["synonyms"])
        gathered.add_entities(
            ((pair, "text") for pair in sorted(stated) if stated[pair] >= params.min_documents), source="text"
        )
    concepts = gathered.finished()
    rows = list(_rows(concepts, params))
    splits = Counter(row["split"] for row in rows)
    if not splits["train"] or not splits["dev"]:
        raise UserError(
            f"There are {splits['train']:,} pairs of names to learn from and {splits['dev']:,} to judge by; both are "
            "needed. Give a list, a graph or texts with more synonyms."
        )
    sources = Counter(source or "term" for concept in concepts for source in concept.names.values())
    counts = {
        "concepts": len(concepts),
        "concepts_with_synonyms": sum(len(concept.names) > 1 for concept in concepts),
        **{f"names_of_{source}": number for source, number in sorted(sources.items())},
        **{f"pairs_{split}": number for split, number in sorted(splits.items())},
        "hard_negatives": sum(len(row["negatives"]) for row in rows),
        **dict(sorted(gathered.counts.items())),
    }
    with out.part() as part:
        part.write("synonym_pairs", rows)
        for name, number in counts.items():
            part.count(name, number)
    shown = [rows[place] for place in range(0, len(rows), max(1, len(rows) // _SHOWN))][:_SHOWN]
    out.add_bytes(REPORT, json.dumps({"counts": counts, "pairs": shown}, ensure_ascii=False, indent=1).encode())


def _held_out(mentions: Artifact | None) -> set[str]:
    """Return the comparable forms of the queries of dev and test."""
    if mentions is None:
        return set()
    texts = [query.text for split in JUDGED for query in queries_of(mentions, split)]
    return {form_of(form) for form in comparable_forms(texts)}


def _entities(graph: Artifact) -> Iterator[tuple[Sequence[str], str]]:
    table = graph.scan("kg_entities").select("entity_id", "name", "aliases", "type").sort("entity_id").collect()
    for _, name, aliases, kind in table.iter_rows():
        yield (name, *aliases), kind


def _rows(concepts: Sequence[Concept], params: SynonymPairsParams) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table, in the order of the concepts."""
    of_category: dict[str, list[int]] = defaultdict(list)
    for number, concept in enumerate(concepts):
        of_category[concept.category].append(number)
    for number, concept in enumerate(concepts):
        names = list(concept.names)
        pairs = list(combinations(names, 2))
        if not pairs:
            continue
        draw = np.random.Generator(np.random.Philox(np.random.SeedSequence((params.seed, number))))
        chosen = draw.permutation(len(pairs))[: params.most_pairs]
        split = "dev" if _share(names[0]) < params.dev_share else "train"
        near = of_category[concept.category]
        for place in sorted(chosen):
            first, second = pairs[place]
            others = _others(near, number, params.hard_negatives, draw)
            negatives = [list(concepts[other].names) for other in others]
            yield {
                "concept": number,
                "first": first,
                "second": second,
                "first_source": concept.names[first] or "term",
                "second_source": concept.names[second] or "term",
                "category": concept.category,
                "negatives": [own[draw.integers(len(own))] for own in negatives],
                "negative_concepts": others,
                "split": split,
            }


def _others(near: Sequence[int], number: int, count: int, draw: np.random.Generator) -> list[int]:
    """Return concepts of a category besides one, without repeats; fewer than `count` if it has no more."""
    drawn = draw.integers(len(near), size=2 * count)
    return list(dict.fromkeys(near[place] for place in drawn if near[place] != number))[:count]


def _share(name: str) -> float:
    """Return a number from 0 to 1 that depends on a name alone, so that further concepts move no concept."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:12], 16) / 16**12


def read_pairs(artifact: Artifact) -> pl.DataFrame:
    """Return the table of an artifact of the stage."""
    return artifact.scan("synonym_pairs").collect()
