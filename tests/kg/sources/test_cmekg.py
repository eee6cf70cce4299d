"""CMeKG: read without trust, rendered without loss."""

from __future__ import annotations

import importlib.util
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.stage import run
from kg.articles.articles import render_article
from kg.sources import cmekg
from tasks.files.raw_input import RawInput
from tasks.ingest.render_articles import RenderParams, render_articles
from tests.support.graphs.cmekg_pickles import GRAPH, written


class Attack:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


def test_plain_graph_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, GRAPH)
    assert cmekg.load(path) == GRAPH
    assert len(list(cmekg.triples(cmekg.load(path)))) == sum(len(v) for a in GRAPH.values() for v in a.values())


def test_code_in_a_pickle_is_rejected_and_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with pytest.raises(UserError, match=r"graph\.pkl.*system"):
        cmekg.load(written(tmp_path, {"糖尿病": Attack(marker)}))
    assert not marker.exists()


@pytest.mark.parametrize("content", [[], {"a": []}, {"a": {"b": "text"}}, {"a": {"b": [1]}}, {1: {"b": ["c"]}}])
def test_wrong_structure_error_names_the_place(tmp_path: Path, content: Any) -> None:
    with pytest.raises(UserError, match=r"graph\.pkl"):
        cmekg.load(written(tmp_path, content))


@pytest.mark.parametrize("damage", [b"", b"\x80", b"hello", pickle.dumps(GRAPH)[:-20]])
def test_damaged_file_is_reported(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "graph.pkl").write_bytes(damage)
    with pytest.raises(UserError, match=r"graph\.pkl is not a readable pickle"):
        cmekg.load(tmp_path / "graph.pkl")


def test_real_graph_has_its_known_size() -> None:
    if importlib.util.find_spec(cmekg.PACKAGE) is None:
        pytest.skip("the package PyCMeKG (extra `demo`) is not installed")
    graph = cmekg.load()
    assert len(graph) == 27_403
    assert sum(1 for _ in cmekg.triples(graph)) == 967_409


names = st.text(st.characters(categories=["Lo", "Nd"]), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    subject=names,
    attributes=st.dictionaries(
        st.sampled_from(["常见症状", "成份", "ICD10", "科", "手术_麻醉方式", "未知关系"]),
        st.lists(names, min_size=1, max_size=30),
        max_size=6,
    ),
)
def test_articles_have_every_fact_and_complete_sentences(subject: str, attributes: dict[str, list[str]]) -> None:
    title, text = render_article(subject, attributes)
    assert title == subject
    assert all(value in text for values in attributes.values() for value in values)
    assert all(line.endswith("。") for line in text.splitlines())
    assert "{" not in text and render_article(subject, attributes) == (title, text)


def test_stage_writes_one_article_per_subject_for_any_parts(store: ArtifactStore, tmp_path: Path) -> None:
    kg = RawInput(written(tmp_path, GRAPH))
    artifacts = [
        run(render_articles, store, RenderParams(documents_per_part=size), {"kg": kg}).artifact for size in (1, 10)
    ]
    assert [len(artifact.parts()) for artifact in artifacts] == [3, 1]
    assert artifacts[0].to_table().to_pylist() == artifacts[1].to_table().to_pylist()
    rows = artifacts[0].to_table().to_pylist()
    assert [row["title"] for row in rows] == sorted(GRAPH)
    assert all('"templated": true' in row["meta"] and row["source"] == "encyclopedia" for row in rows)
