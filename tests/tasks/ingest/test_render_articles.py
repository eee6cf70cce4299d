"""The facts of a graph become documents, which do not depend on the parts."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tasks.files.raw_input import RawInput
from tasks.ingest.render_articles import RenderParams, render_articles
from tests.support.text.stages import do

GRAPH = {f"药{n}": {"成份": ["水", f"物{n}"], "不良反应": ["恶心"]} for n in range(30)} | {"空": {"成份": [""]}}


def written(path: Path, graph: object) -> RawInput:
    path.write_bytes(pickle.dumps(graph))
    return RawInput(path)


def test_each_subject_gives_one_document_marked_as_templated(store: ArtifactStore, tmp_path: Path) -> None:
    artifact = do(store, render_articles, RenderParams(), kg=written(tmp_path / "g.pkl", GRAPH))
    rows = artifact.to_table("documents").to_pylist()
    assert [row["title"] for row in rows] == sorted(f"药{n}" for n in range(30))
    assert {row["source"] for row in rows} == {"encyclopedia"}
    assert json.loads(rows[0]["meta"]) == {"templated": True, "graph": "CMeKG", "subject": "药0"}
    assert "物0" in rows[0]["text"]
    assert artifact.manifest.counters["facts"] == 90
    reject = artifact.to_table("rejects").to_pylist()[0]
    assert (reject["doc_id"], reject["reason"]) == ("空", "no_facts")


def test_documents_do_not_depend_on_the_parts(store: ArtifactStore, tmp_path: Path) -> None:
    kg = written(tmp_path / "g.pkl", GRAPH)
    whole = do(store, render_articles, RenderParams(), kg=kg)
    parts = do(store, render_articles, RenderParams(documents_per_part=7), kg=kg)
    assert len(parts.parts("documents")) == 5
    assert whole.to_table().equals(parts.to_table())


def test_a_graph_without_facts_is_an_error(store: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Empty corpus"):
        do(store, render_articles, RenderParams(), kg=written(tmp_path / "g.pkl", {"空": {}}))
