"""Similarity of equal names, from raw text, a graph, encoders and word vectors to one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.evaluate_intrinsic import evaluate
from flows.recipes.data import Recipe
from flows.shared.graphs import fused, requested_graphs
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from models.encoder.config import EncoderConfig
from models.weights.pretrained import random_encoder, save_encoder
from models.word_vectors import WordVectors
from tasks.evaluate.similarity.learnt import joined_by
from tasks.runner import stage_runner
from tests.support.graphs.equal_names import ALIKE, PAIRS, TEXT, write_graph
from tests.support.text.tokenizers import VOCABULARY, save_ours

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return ArtifactStore(tmp_path / "home")


@pytest.fixture
def asked(tmp_path: Path) -> dict[str, Any]:
    lines = [json.dumps({"text": text * 2 + str(number)}, ensure_ascii=False) for number, text in enumerate(TEXT)]
    (tmp_path / "text.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return {
        "corpus": str(tmp_path / "text.jsonl"),
        "graphs": {"own": write_graph(tmp_path)},
        "overrides": {"segment.min_tokens": 4, "similarity_scores.rounds": 100},
    }


def save_encoder_folder(folder: Path) -> str:
    save_ours(folder)
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "intermediate_size": 32, "max_positions": 64}
    save_encoder(random_encoder(EncoderConfig(vocab_size=len(VOCABULARY), **sizes), 1), folder)
    return str(folder)


def save_vectors(folder: Path) -> str:
    folder.mkdir()
    characters = sorted({character for name in ALIKE for character in name} - set("炎"))
    drawn = np.random.default_rng(0).normal(size=(len(characters), 8)).astype(np.float32)
    WordVectors(characters, drawn).save(folder)
    return str(folder)


def test_all_models_are_in_one_table(store: ArtifactStore, asked: dict[str, Any], tmp_path: Path) -> None:
    given = {"model": save_encoder_folder(tmp_path / "mine"), "vectors": {"chars": save_vectors(tmp_path / "vectors")}}
    folder = Path(evaluate.fn(**asked, **given, evaluations=["similarity"]))
    table = json.loads((folder / "table.json").read_text())
    assert [row["Model"] for row in table] == ["Jaro-Winkler of the names", "mine, fresh weights", "chars", "mine"]
    assert [row["joined"] for row in table] == ["0", "0", "0", "unknown"]
    summary = json.loads((folder / "summary.json").read_text())
    assert {one["sets"]["d1"]["samples"] for one in summary["rows"]} == {4}
    assert summary["counters"]["d1_too_few_alike"] == 2
    # The same command is done at once; other vectors change the table alone.
    stages = {name: len(store.list(name)) for name in ("similarity_sets", "similarity_scores")}
    assert evaluate.fn(**asked, **given, evaluations=["similarity"]) == str(folder)
    alone = Path(evaluate.fn(**asked, vectors=given["vectors"]))
    assert [row["Model"] for row in json.loads((alone / "table.json").read_text())] == [table[0]["Model"], "chars"]
    assert {name: len(store.list(name)) for name in stages} == stages


def test_a_graph_without_types_is_told(store: ArtifactStore, asked: dict[str, Any], tmp_path: Path) -> None:
    write_graph(tmp_path, types="relation,head_type,tail_type\n症状,,\n")
    with pytest.raises(UserError, match="Give a graph with types"):
        evaluate.fn(**asked, vectors={"chars": save_vectors(tmp_path / "vectors")})


def test_knowledge_that_no_model_reads_is_refused_before_any_work(
    store: ArtifactStore, asked: dict[str, Any], tmp_path: Path
) -> None:
    given = {"model": save_encoder_folder(tmp_path / "mine"), "knowledge": str(tmp_path)}
    with pytest.raises(UserError, match="none of the models reads knowledge"):
        evaluate.fn(**asked, **given, evaluations=["similarity"])
    assert not store.list()


def test_unreadable_vectors_are_refused_before_any_work(
    store: ArtifactStore, asked: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "general.txt").write_text("3 x\na 1 2\n")
    with pytest.raises(UserError, match=r"general\.txt, line 1: '3 x' is not the number of words"):
        evaluate.fn(**asked, vectors={"general": str(tmp_path / "general.txt")})
    assert not store.list()


def test_a_recipe_that_holds_pairs_out_fuses_a_graph_without_them(
    store: ArtifactStore, asked: dict[str, Any], tmp_path: Path
) -> None:
    graphs = requested_graphs(asked["graphs"])
    with stage_runner() as run:
        whole, apart, fewer = (
            fused(run, Recipe(description="", similarity_pairs=choice), graphs)
            for choice in ({}, {"hold_out": True}, {"hold_out": True, "share": 0.7})
        )
    pairs = sorted(PAIRS)
    assert joined_by(pairs, [whole]).all() and not joined_by(pairs, [apart]).any()
    assert 0 < joined_by(pairs, [fewer]).sum() < 3
