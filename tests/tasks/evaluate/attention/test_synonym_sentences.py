"""Sentences with entities, synonyms and random entities: what may be replaced, by what, and how often."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from tasks.evaluate.attention.synonym_sentences import SynonymSentencesParams, synonym_sentences
from tasks.knowledge.thesaurus import ThesaurusParams, thesaurus
from tests.support.graphs.entity_corpus import segments_of
from tests.support.graphs.linked import entities_artifact
from tests.support.text.stages import do

GRAPH = (
    ("D1", "糖尿病", ["消渴病"], "disease"),
    ("D2", "糖尿病肾病", [], "disease"),
    ("D3", "甲状腺功能亢进症", ["甲亢", "甲状腺亢进"], "disease"),
    ("D4", "感染性腹泻", [], "disease"),
    ("D5", "肝炎", ["肝病"], "disease"),
    ("S6", "肝区疼痛", ["肝病"], "symptom"),
    ("M1", "阿司匹林", ["乙酰水杨酸"], "drug"),
    ("M2", "布洛芬", [], "drug"),
)
GROUPS = {
    "D1": {"糖尿病", "消渴病"},
    "D3": {"甲状腺功能亢进症", "甲亢", "甲状腺亢进"},
    "M1": {"阿司匹林", "乙酰水杨酸"},
}
TEXTS = [
    f"第{number}例患者{sign}三天。既往有{name}病史多年！曾服用阿司匹林片治疗\n患者一般情况好，{name}稳定。"
    for number, (name, sign) in enumerate(
        (name, sign) for name in ("糖尿病", "糖尿病肾病", "甲亢", "肝病", "肝炎") for sign in ("发热", "咳嗽", "头晕")
    )
]


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path)


def made(store: ArtifactStore, texts: list[list[str]], graph: Any = GRAPH, **params: Any) -> Artifact:
    names = ("entity_id", "name", "aliases", "type")
    entities = entities_artifact(store, [dict(zip(names, row, strict=True)) for row in graph])
    synonyms = do(store, thesaurus, ThesaurusParams(), kg_entities=entities)
    settings = SynonymSentencesParams(**params)
    segments = segments_of(store, *texts)
    return do(store, synonym_sentences, settings, segments=segments, kg_entities=entities, synonyms=synonyms)


def test_rows_hold_an_entity_a_synonym_and_another_entity_of_the_type(store: ArtifactStore) -> None:
    rows = made(store, [TEXTS], per_group=100, shortest=5).to_table().to_pylist()
    types = {name: row[3] for row in GRAPH for name in (row[1], *row[2])}
    for row in rows:
        assert row["sentence"][row["start"] : row["end"]] == row["entity"]
        assert row["sentence"] == row["sentence"].strip() and row["sentence"].count("。") <= 1
        own = GROUPS[row["group_id"]]
        assert {row["entity"], row["synonym"]} <= own and row["entity"] != row["synonym"]
        assert row["random"] not in own and types[row["random"]] == types[row["entity"]] == row["type"]
        assert row["synonym"] not in row["sentence"] and row["random"] not in row["sentence"]
    # 糖尿病 inside 糖尿病肾病, 肝病 (a disease and a symptom) and 肝炎 (no other alias) have no synonym.
    assert Counter(row["entity"] for row in rows) == {"糖尿病": 6, "甲亢": 6, "阿司匹林": 15}
    assert {row["random"] for row in rows if row["type"] == "drug"} == {"布洛芬"}


def test_names_without_a_chinese_character_are_left_out(store: ArtifactStore) -> None:
    """Neither as entity (COPD), nor as synonym (DM), nor as random entity (TBI)."""
    graph = (
        ("D1", "糖尿病", ["DM", "消渴病"], "disease"),
        ("D2", "慢阻肺", ["COPD"], "disease"),
        ("D3", "TBI", [], "disease"),
        ("D4", "Ⅰ型糖尿病", [], "disease"),
    )
    texts = [f"第{number}例患者既往有{name}病史多年。" for number in range(9) for name in ("糖尿病", "慢阻肺", "COPD")]
    rows = made(store, [texts], graph, per_group=100, shortest=5).to_table().to_pylist()
    assert {(row["entity"], row["synonym"]) for row in rows} == {("糖尿病", "消渴病")}
    assert {row["random"] for row in rows} == {"慢阻肺"}
    with pytest.raises(UserError, match="no sentence"):
        made(store, [texts], graph[1:], shortest=5)


def test_random_entities_are_as_long_as_the_synonym_or_nearly(store: ArtifactStore) -> None:
    rows = made(store, [TEXTS], per_group=100, shortest=5).to_table().to_pylist()
    lengths = [(len(row["synonym"]), len(row["random"])) for row in rows if row["type"] == "disease"]
    # Both names of three characters mean 糖尿病; those of two are nearest. None but 甲状腺功能亢进症 has eight.
    assert set(lengths) <= {(3, 2), (5, 5), (8, 5)} and {(3, 2), (5, 5)} <= set(lengths)


def test_limits_are_of_groups_and_of_all(store: ArtifactStore) -> None:
    rows = made(store, [TEXTS], per_group=2, shortest=5).to_table().to_pylist()
    assert set(Counter(row["group_id"] for row in rows).values()) == {2}
    assert made(store, [TEXTS], per_group=2, shortest=5, sentences=3).rows() == 3


def test_the_choice_does_not_depend_on_parts(store: ArtifactStore) -> None:
    one = made(store, [TEXTS], per_group=2, shortest=5).to_table().to_pylist()
    other = made(store, [TEXTS[:4], TEXTS[4:5], TEXTS[5:]], per_group=2, shortest=5).to_table().to_pylist()
    assert {row["segment_id"] for row in one} and one == other
    assert one != made(store, [TEXTS], per_group=2, shortest=5, seed=43).to_table().to_pylist()


def test_sentences_have_the_lengths_that_are_asked_for(store: ArtifactStore) -> None:
    rows = made(store, [TEXTS], per_group=100, shortest=12, longest=13).to_table().to_pylist()
    assert {len(row["sentence"]) for row in rows} <= {12, 13}


@pytest.mark.parametrize(
    ("texts", "graph"),
    [
        (["患者头痛发热，检查血常规未见异常。"], GRAPH),
        (TEXTS, tuple((*row[:2], [], row[3]) for row in GRAPH)),
        (TEXTS, GRAPH[:1]),
    ],
    ids=["no name in the text", "no aliases", "no other entity of the type"],
)
def test_text_without_pairs_is_told_with_the_remedy(store: ArtifactStore, texts: list[str], graph: Any) -> None:
    with pytest.raises(UserError, match=r"entity with a synonym .* another entity of its type .* graph with aliases"):
        made(store, [texts], graph)
