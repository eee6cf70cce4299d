"""SMedBERT from raw text and a graph to a folder: data, figures, ablations, and knowledge that is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard
from transformers import AutoModel

from flows.ablate import ablate
from flows.pretrain import pretrain
from flows.recipes.pretraining import load_preset
from infra.artifacts import Artifact, ArtifactStore
from infra.errors import UserError
from infra.stage import run as run_stage
from models import objectives
from models.knowledge import KnowledgeArrays
from models.knowledge_model.source import KNOWLEDGE_MODEL
from tasks.evaluate.trained import trained
from tasks.knowledge.arrays import KnowledgeArraysParams, knowledge_arrays
from tasks.pretrain.train import train
from tests.support.graphs.given_knowledge import given_knowledge
from tests.support.newest import latest

pytestmark = pytest.mark.slow

DISEASES = ["肺炎", "糖尿病", "高血压", "急性阑尾炎", "慢性肾炎", "再生障碍性贫血"]
SYMPTOMS = ["发热", "水肿", "咳嗽", "腹痛", "头晕", "口渴"]
OVERRIDES = {
    "vocabulary.size": 200,
    "vocabulary.min_frequency": 1,
    "encode.held_out_share": 0.3,
    "embed.entity_dim": 8,
    "embed.relation_dim": 6,
    "embed.transe_epochs": 1,
    "embed.epochs": 2,
    "embed.batch_size": 8,
    "embed.held_out": 2,
    "model.entity_size": 8,
    "model.hidden_size": 16,
    "model.num_heads": 2,
    "model.intermediate_size": 32,
    "model.negatives": 3,
    "model.mention_probability": 0.4,
    "training.steps": 6,
    "training.warmup_steps": 1,
    "training.batch_size": 8,
    "training.log_every": 2,
    "training.evaluate_every": 3,
    "training.held_out_batches": 2,
    "training.checkpoint_every": 3,
    "cluster.workers": 0,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Articles that name diseases and symptoms, and a disease that no triple names."""
    drawn = random.Random(3)
    words = ["患者", "出现", "之后", "应当", "及时", "使用", "复查", "血常规", "，", "。"]
    rows = []
    for number in range(150):
        said = drawn.choices([*DISEASES, *SYMPTOMS, "麻疹"], k=12) + drawn.choices(words, k=60)
        drawn.shuffle(said)
        rows.append({"text": "".join(said) + f"第{number}例。"})
    path = tmp_path_factory.mktemp("text") / "articles.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    path = tmp_path_factory.mktemp("graph") / "facts.tsv"
    rows = ["head\trelation\ttail"]
    for number, disease in enumerate(DISEASES):
        rows += [f"{disease}\t临床表现\t{SYMPTOMS[(number + step) % 6]}" for step in range(3)]
        rows.append(f"{disease}\t并发症\t{DISEASES[(number + 1) % 6]}")
    path.write_text("\n".join(rows), encoding="utf-8")
    return {"facts": {"path": str(path)}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all tests, so that the data is made once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def store(home: Path, work_here: None, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("YIWEN_HOME", str(home))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return ArtifactStore(home)


def test_tiny_is_trained_on_knowledge(store: ArtifactStore, corpus: str, graphs: dict[str, dict[str, Any]]) -> None:
    folder = pretrain.fn("smedbert-tiny", corpus, graphs=graphs, mentions=True, overrides=OVERRIDES)
    AutoModel.from_pretrained(folder)
    arrays, rows, run = (latest(store, stage) for stage in ("knowledge_arrays", "pairs", "train"))
    known = KnowledgeArrays.open(arrays.path)
    assert known.frequencies.min() > 0, "linked frequencies of all entities"
    norms = np.linalg.norm(known.entity_vectors @ known.projections[0], axis=1)
    np.testing.assert_allclose(known.projected_norms[0], norms, rtol=1e-5)
    assert rows.manifest.counters.get("random_pairs", 0) == 0, "the order of sentences needs none"
    inputs = run.manifest.inputs
    assert inputs["pairs"].fingerprint == rows.fingerprint
    assert inputs["knowledge"].fingerprint == arrays.fingerprint
    figures = {row["name"]: row["value"] for row in run.to_table("metrics").to_pylist() if row["split"] == "held_out"}
    for term in ("mlm", "sop", "mnem", "mmem"):
        assert figures[f"{term}_loss"] > 0.0
    assert 0.25 <= figures["neighbour_chance"] <= 0.5 and 0 < figures["mention_chance"] < 1
    plain, with_knowledge = (ModelCard.load(Path(folder) / one / "README.md") for one in (".", "knowledge_model"))
    assert (plain.data.library_name, with_knowledge.data.library_name) == ("transformers", "yiwen")
    assert {"smedbert", "knowledge-graph"} <= set(with_knowledge.data.tags or [])
    for card in (plain, with_knowledge):
        measured = {one.metric_type: one.metric_value for one in card.data.eval_results or []}
        assert measured == pytest.approx(figures, abs=1e-6)
        for section in ("## Data", "## Training", "## Held-out text", "## Licence", "## Limits"):
            assert section in card.content, section
        assert str(store.root) not in card.content
    assert f"knowledge_arrays/{arrays.fingerprint}" in with_knowledge.content
    assert pretrain.fn("smedbert-tiny", corpus, graphs=graphs, mentions=True, overrides=OVERRIDES) == folder
    assert latest(store, "train").fingerprint == run.fingerprint, "nothing is done twice"
    for form in (Path(folder), Path(folder, KNOWLEDGE_MODEL)):
        behind = trained(form).run
        assert behind is not None and behind.fingerprint == run.fingerprint
    assert trained(Path(folder, KNOWLEDGE_MODEL)).inputs.keys() == {"model"}, "its checkpoint would be the plain form"

    begun = OVERRIDES | {"training.steps": 5, "model.relation_choice": "drawn"}
    again = pretrain.fn("smedbert-tiny", corpus, graphs=graphs, mentions=True, init_from=folder, overrides=begun)
    assert "init" in latest(store, "train").manifest.inputs and again != folder
    _refuse_another_graph(store, run)


def _refuse_another_graph(store: ArtifactStore, run: Artifact) -> None:
    """The mentions of the run's pairs are rows of its own graph."""
    entities = [{"entity_id": f"e{row}", "name": f"实体{row}", "type": "疾病"} for row in range(4)]
    given = given_knowledge(store, entities, [("e0", "相关", "e1"), ("e2", "相关", "e3")], {"e0": 5})
    other = run_stage(knowledge_arrays, store, KnowledgeArraysParams(), given).artifact
    inputs = {name: store.get(record.stage, record.fingerprint) for name, record in run.manifest.inputs.items()}
    recipe = load_preset("smedbert-tiny", OVERRIDES)
    with pytest.raises(UserError, match=r"The knowledge .* is of the graph given_graph/.*, but the mentions of .* are"):
        run_stage(train, store, recipe.train, inputs | {"knowledge": other})


def test_table_4_leaves_parts_out(store: ArtifactStore, corpus: str, graphs: dict[str, dict[str, Any]]) -> None:
    folder = Path(ablate.fn("smedbert-tiny", corpus, graphs=graphs, mentions=True, overrides=OVERRIDES))
    table = {row["Model"]: row for row in json.loads((folder / "table.json").read_text(encoding="utf-8"))}
    assert list(table) == [*(variant.title for variant in objectives.ablations("smedbert")), "By chance"]
    assert table["- Know. Loss"]["MNeM loss"] == "–" != table["SMedBERT"]["MNeM loss"]
    runs = [run.manifest.params["model"] for run in store.list("train")]
    variants = [(run.get("type_attention"), run.get("infusion"), run.get("neighbour_weight")) for run in runs]
    assert {(False, None, 2.0), (None, False, 2.0), (None, None, 0.0)} <= set(variants)
    # A run that begins with weights takes their vocabulary, so that its segments and frequencies are others.
    inputs = [run.manifest.inputs for run in store.list("train") if "init" not in run.manifest.inputs]
    given = {one["knowledge"].fingerprint for one in inputs}
    assert len(given) == 1, "the graph is studied once"


def test_without_mentions_the_parameter_is_named(store: ArtifactStore, corpus: str) -> None:
    for flow in (pretrain, ablate):
        with pytest.raises(UserError, match=r"Objective smedbert reads knowledge .* --param mentions=true"):
            flow.fn("smedbert-tiny", corpus, overrides=OVERRIDES)
