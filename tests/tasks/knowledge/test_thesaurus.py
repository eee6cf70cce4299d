"""The stage thesaurus: the groups of kg/entities/thesaurus.py as a table, whatever the order of the graph's rows."""

from __future__ import annotations

import random
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from infra.artifacts import Artifact, ArtifactStore
from tasks.knowledge.thesaurus import ThesaurusParams, thesaurus
from tests.support.text.stages import do
from tests.support.training.given_tables import GivenTable, given_graph

ROWS = (
    ("D1", "白内障", ("晶状体混浊",), "disease"),
    ("D2", "糖尿病", ("消渴", "消渴病"), "disease"),
    ("D3", "消渴病", ("消渴",), "disease"),
    ("S1", "消渴", ("口渴",), "symptom"),
    ("S2", "头痛", (), "symptom"),
)


def made(store: ArtifactStore, graph: GivenTable, **params: Any) -> Artifact:
    return do(store, thesaurus, ThesaurusParams(**params), kg_entities=graph)


def test_groups_are_rows_of_synonyms(store: ArtifactStore) -> None:
    artifact = made(store, given_graph(*ROWS))
    rows = [tuple(row.values()) for row in artifact.to_table("synonyms").to_pylist()]
    assert rows == [
        ("D1", "D1", "晶状体混浊", "disease", False),
        ("D1", "D1", "白内障", "disease", False),
        ("D2", "D2", "消渴", "disease", True),
        ("D2", "D2", "糖尿病", "disease", False),
        ("D2", "D3", "消渴病", "disease", False),
        ("S1", "S1", "口渴", "symptom", False),
        ("S1", "S1", "消渴", "symptom", True),
    ]
    assert artifact.manifest.counters == {"entities_in": 5, "groups": 3, "largest_group": 3, "ambiguous": 2}


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_graph_changes_nothing(store: ArtifactStore, seed: int) -> None:
    shuffled = given_graph(*random.Random(seed).sample(ROWS, len(ROWS)))
    assert made(store, shuffled).to_table("synonyms") == made(store, given_graph(*ROWS)).to_table("synonyms")


def test_the_limit_is_that_of_the_parameters(store: ArtifactStore) -> None:
    groups = made(store, given_graph(*ROWS), max_size=2).to_table("synonyms")["group_id"].unique().to_pylist()
    assert groups == ["D1", "D2", "D3", "S1"]


def test_a_graph_without_aliases_has_no_synonyms(store: ArtifactStore) -> None:
    artifact = made(store, given_graph(ROWS[-1]))
    assert artifact.rows("synonyms") == 0
    assert artifact.manifest.counters["groups"] == 0


def test_a_real_graph(store: ArtifactStore, shared_data: Path) -> None:
    triples = pl.read_parquet(
        shared_data / "kg_cmekg" / "triples.parquet", columns=["head", "head_type", "relation_norm", "tail"]
    )
    aliases = triples.group_by("head").agg(
        type=pl.col("head_type").min(), aliases=pl.col("tail").filter(pl.col("relation_norm") == "SameAs")
    )
    graph = GivenTable(
        "kg_entities", aliases.select(pl.col("head").alias("entity_id"), name="head", aliases="aliases", type="type")
    )
    rows = made(store, graph).to_table("synonyms").to_pylist()
    groups = {key: [row["surface"] for row in own] for key, own in groupby(rows, key=lambda row: row["group_id"])}
    assert len(groups) > 5_000
    assert any({"股骨头坏死", "股骨头缺血性坏死"} <= set(group) for group in groups.values())
    own = dict(aliases.select("head", pl.col("aliases").list.len()).iter_rows())
    for key, group in groups.items():
        assert len(group) == len(set(group)) <= max(10, own[key] + 1)
