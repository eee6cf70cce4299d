"""Stages `similarity_sets` and `name_frequencies`: the sets D1, D2 and D3 of SMedBERT's section 4.3 and appendix C.

A pair of equal names gives two samples: each name is asked about once, and the other is the right answer among 20
candidates. The 19 wrong ones are names of entities of the same type that resemble the right one by more than 0.6
(Jaro-Winkler). D1 has all samples, D2 those of pairs whose names have most neighbours in common, D3 those of pairs with
a rare name: one that the segments mention at least once and at most 200 times. The paper counts "all entity mentions";
a name that is never mentioned is no mention, and with such names D3 could hardly be the ninth part of D1 that it is.

Samples are left out, and counted, if their entity has no type or fewer than 19 names resemble the right one.

Time grows with the samples times the names of their type (tasks/evaluate/similarity/negatives.py), memory with the
names of the graph and a block of comparisons. Units are samples of one type, done on all workers.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from infra.arrays.batching import batches_of
from infra.artifacts import Artifact, ArtifactStore, Part
from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from kg.linking.surface_forms import forms_of_names
from kg.names import normalise_names
from tasks.evaluate.similarity.negatives import Names, draw_negatives
from tasks.evaluate.similarity.params import NEGATIVES, SimilaritySetsParams
from tasks.knowledge.link import CHARACTERS_AT_ONCE, entity_linker, entity_rows

PAIRS_A_UNIT = 500

Row = dict[str, Any]


@stage(name="similarity_sets", version=1, params=SimilaritySetsParams, tables=("similarity_samples",))
def similarity_sets(inputs: Mapping[str, Artifact], params: SimilaritySetsParams, out: Output) -> None:
    """Draw the samples of `inputs["pairs"]`, whose names are those of `inputs["kg_entities"]`.

    `inputs["segments"]` is the text in which names are counted for D3.

    Raises:
        UserError: there are no pairs, or none has a type.
    """
    entities = inputs["kg_entities"]
    counted = {"segments": inputs["segments"], "kg_entities": entities}
    frequencies = out.run(name_frequencies, NameFrequenciesParams(), counted)
    pairs = inputs["pairs"].scan("similarity_pairs").collect()
    if pairs.is_empty():
        raise UserError(
            f"{entities.path} has no pair of equal names: no entity has an alias that differs from its name by more "
            "than spelling (and, with similarity_pairs.scripts=han, has Chinese characters). Give a graph with "
            "aliases, set similarity_pairs.scripts=all, or raise similarity_pairs.share."
        )
    typed = pairs.filter(pl.col("type") != "")
    out.count("pairs_in", pairs.height)
    out.count("without_type", pairs.height - typed.height)
    if typed.is_empty():
        raise UserError(
            f"{inputs['pairs'].path}: none of the {pairs.height:,} pairs is of an entity with a type, and wrong "
            "candidates are names of the same type. Give a graph with types, such as graphs.<name>.types."
        )
    marked = _marked(typed, frequencies, params)
    units = [
        (str(kind), rows)
        for (kind,), group in marked.group_by("type", maintain_order=True)
        for rows in batches_of(group.to_dicts(), PAIRS_A_UNIT, length=lambda _: 1)
    ]
    out.map(samples_part, units, params, entities)


def samples_part(
    part: PartWriter, unit: tuple[str, list[Row]], params: SimilaritySetsParams, entities: Artifact
) -> None:
    """Draw the samples of some pairs of one type."""
    kind, rows = unit
    names = _names((entities.store_root, entities.stage, entities.fingerprint))[kind]
    asked = [(row, query, truth) for row in rows for query, truth in (("name", "alias"), ("alias", "name"))]
    forms = [(row[f"{query}_form"], row[f"{truth}_form"]) for row, query, truth in asked]
    drawn = draw_negatives(forms, names, params.similarity, NEGATIVES, params.seed)
    found = []
    for (row, query, truth), negatives in zip(asked, drawn, strict=True):
        sets = [name for name, flag in (("d1", True), ("d2", row["is_close"]), ("d3", row["is_rare"])) if flag]
        for name in sets:
            part.count(f"{name}_samples" if negatives else f"{name}_too_few_alike")
        if negatives:
            kept = {name: row[name] for name in ("entity_id", "type", "is_close", "is_rare")}
            found.append({**kept, "query": row[query], "truth": row[truth], "negatives": negatives})
    part.write("similarity_samples", found)


class NameFrequenciesParams(StageParams):
    """No parameters."""


@stage(name="name_frequencies", version=1, params=NameFrequenciesParams, tables=("name_frequencies",), heavy=True)
def name_frequencies(inputs: Mapping[str, Artifact], params: NameFrequenciesParams, out: Output) -> None:
    """Count the mentions of each name of `inputs["kg_entities"]` in `inputs["segments"]`, part by part."""
    out.map(frequencies_part, inputs["segments"].parts("segments"), inputs["kg_entities"])


def frequencies_part(part: PartWriter, segments: Part, entities: Artifact) -> None:
    """Count in one part: the longest names, from left to right, as links are made."""
    linker = entity_linker(entities, {})
    counts = np.zeros(linker.num_surfaces, np.int64)
    texts = segments.read(columns=["text"])["text"].to_pylist()
    for batch in batches_of(texts, CHARACTERS_AT_ONCE, length=len):
        counts += np.bincount(linker.link_many(batch).forms, minlength=linker.num_surfaces)
    forms = _linked_forms((entities.store_root, entities.stage, entities.fingerprint))
    rows = [{"form": forms[number], "count": int(counts[number])} for number in np.flatnonzero(counts).tolist()]
    part.write("name_frequencies", sorted(rows, key=lambda row: row["form"]))


def _marked(pairs: pl.DataFrame, frequencies: Artifact, params: SimilaritySetsParams) -> pl.DataFrame:
    """Return the pairs with comparable forms and the flags is_close (D2) and is_rare (D3), in the order of types."""
    counts = dict(
        frequencies.scan("name_frequencies").group_by("form").agg(pl.col("count").sum()).collect().iter_rows()
    )
    rare = np.zeros(pairs.height, bool)
    for column in ("name", "alias"):
        found = np.array([counts.get(form, 0) for form in forms_of_names(pairs[column])])
        rare |= (found >= params.least) & (found <= params.rare)
    return pairs.with_columns(
        *(normalise_names(pairs[column]).alias(f"{column}_form") for column in ("name", "alias")),
        is_close=(pl.col("jaccard") >= params.jaccard) & (pl.col("common") >= params.common),
        is_rare=pl.Series(rare),
    ).sort("type", "entity_id", "alias_form")


@functools.lru_cache(maxsize=1)
def _names(address: tuple[str, str, str]) -> dict[str, Names]:
    """Return all names of a graph's entities by type."""
    by_type: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for kind, row, form, name in _spelled(address):
        by_type[kind].append((row, form, name))
    return {kind: Names.of(rows) for kind, rows in by_type.items()}


def _spelled(address: tuple[str, str, str]) -> Iterator[tuple[str, int, str, str]]:
    """Yield (type, row, comparable form, name) of every name and alias."""
    rows = _artifact(address).scan("kg_entities").select("name", "aliases", "type").collect().with_row_index("row")
    listed = rows.select("type", "row", name=pl.concat_list(pl.concat_list("name"), "aliases")).explode("name")
    forms = normalise_names(listed["name"])
    yield from zip(listed["type"], listed["row"], forms, listed["name"], strict=True)


@functools.lru_cache(maxsize=1)
def _linked_forms(address: tuple[str, str, str]) -> list[str]:
    """Return the surface forms that the linker of a graph's names finds, by their numbers there."""
    entities = _artifact(address)
    rows = entities.scan("kg_entities").select("name", "aliases").collect().rows()
    places = entity_rows(entities, {}).tolist()
    return forms_of_names((rows[row][0], *rows[row][1])[number] for row, number in places)


def _artifact(address: tuple[str, str, str]) -> Artifact:
    root, stage_name, fingerprint = address
    found = ArtifactStore(root).get(stage_name, fingerprint)
    assert found is not None, "the caller holds it"
    return found
