"""EMBERT from raw text and a graph to a folder: its data, its figures, its ablations, and a run that is resumed."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModel

from flows.ablate import ablate
from flows.pretrain import pretrain
from flows.recipes.pretraining import load_preset
from flows.shared.documents import text_inputs
from flows.shared.graphs import requested_graphs
from flows.shared.pretraining import more_inputs, prepare
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.stage import run as run_stage
from models import objectives
from tasks.pretrain.entity_surfaces import EntitySurfacesParams, entity_surfaces
from tasks.pretrain.train import train
from tasks.runner import stage_runner
from tests.support.newest import latest

pytestmark = pytest.mark.slow

NAMES = {
    "再生障碍性贫血": "再障",
    "新型冠状病毒肺炎": "新冠肺炎",
    "糖尿病酮酸中毒": "酮症",
    "急性阑尾炎": "盲肠炎",
    "慢性肾小球肾炎": "慢性肾炎",
}
OVERRIDES: dict[str, Any] = {
    "vocabulary.size": 400,
    "vocabulary.min_frequency": 1,
    "segment.min_tokens": 8,
    "encode.held_out_share": 0.2,
    "phrases.min_support": 3,
    "phrases.trees": 20,
    "model.num_layers": 1,
    "model.replace_probability": 0.5,  # every name here has a synonym, and terms of the others are masked
    "training.steps": 4,
    "training.warmup_steps": 1,
    "training.batch_size": 8,
    "training.evaluate_every": 2,
    "cluster.cpus_per_worker": 1,
    "cluster.workers": 0,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Synthetic articles about diseases, under their names and others."""
    drawn = random.Random(3)
    words = ["患者", "出现", "之后", "应当", "及时", "使用", "复查", "血常规", "发热", "水肿", "，", "。"]
    rows = []
    for number in range(150):
        name, alias = list(NAMES.items())[number % 5]
        said = [drawn.choice((name, alias)) for _ in range(8)] + drawn.choices(words, k=60)
        drawn.shuffle(said)
        rows.append({"text": "".join(said) + f"第{number}例。"})
    path = tmp_path_factory.mktemp("text") / "articles.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    path = tmp_path_factory.mktemp("graph") / "names.tsv"
    rows = ["head\trelation\ttail", *(f"{name}\t别称\t{alias}" for name, alias in NAMES.items())]
    rows += [f"{name}\t临床表现\t发热" for name in NAMES]
    path.write_text("\n".join(rows), encoding="utf-8")
    return {"names": {"path": str(path)}}


@pytest.fixture
def store(tmp_path: Path, work_here: None, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return ArtifactStore(tmp_path / "home")


def test_tiny_is_trained_on_entities(store: ArtifactStore, corpus: str, graphs: dict[str, dict[str, Any]]) -> None:
    folder = pretrain.fn("embert-tiny", corpus, graphs=graphs, mentions=True, overrides=OVERRIDES)
    AutoModel.from_pretrained(folder)
    surfaces, rows, run = (latest(store, stage) for stage in ("entity_surfaces", "entity_examples", "train"))
    named = {row["surface"]: row for row in surfaces.to_table("entity_surfaces").to_pylist()}
    assert named["再障"]["group_id"] == named["再生障碍性贫血"]["group_id"]
    assert named["再障"]["replaceable"]
    assert named["再生障碍性贫血"]["pieces"] > 1
    assert rows.manifest.counters["entities"] > 500
    assert latest(store, "pairs").manifest.counters.get("random_pairs", 0) == 0, "the order of sentences needs none"
    inputs = run.manifest.inputs
    assert inputs["entity_examples"].fingerprint == rows.fingerprint
    assert inputs["entity_surfaces"].fingerprint == surfaces.fingerprint
    figures = {row["name"]: row["value"] for row in run.to_table("metrics").to_pylist() if row["split"] == "held_out"}
    for term in ("mlm", "sop", "consistency", "segmentation", "atomic", "adjective"):
        assert figures[f"{term}_loss"] > 0.0
    assert 0.5 <= figures["consistency_chance"] < 1.0
    checkpoint = run.fingerprint
    assert pretrain.fn("embert-tiny", corpus, graphs=graphs, mentions=True, overrides=OVERRIDES) == folder
    assert latest(store, "train").fingerprint == checkpoint, "nothing is done twice"

    begun = OVERRIDES | {"training.steps": 5}
    again = pretrain.fn("embert-tiny", corpus, graphs=graphs, mentions=True, init_from=folder, overrides=begun)
    assert "init" in latest(store, "train").manifest.inputs and again != folder


def test_table_4_leaves_terms_out(store: ArtifactStore, corpus: str, graphs: dict[str, dict[str, Any]]) -> None:
    folder = Path(ablate.fn("embert-tiny", corpus, graphs=graphs, mentions=True, overrides=OVERRIDES))
    table = {row["Model"]: row for row in json.loads((folder / "table.json").read_text(encoding="utf-8"))}
    assert list(table) == [*(variant.title for variant in objectives.ablations("embert")), "By chance"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "(EMBERT, section 4.4 and Table 4)" in page and "eHealth" not in page
    columns = {"w/o entity consistency": "consistency acc.", "w/o entity segmentation": "segmentation acc."}
    for model, column in columns.items():
        assert table[model][column] == "–" != table["EMBERT"][column]
    assert table["w/o all above"]["atomic acc."] == "–"
    assert len(store.list("entity_examples")) == 1 and len(store.list("train")) == 5


def test_without_mentions_the_parameter_is_named(store: ArtifactStore, corpus: str) -> None:
    for flow in (pretrain, ablate):
        with pytest.raises(UserError, match=r"Objective embert reads knowledge .* --param mentions=true"):
            flow.fn("embert-tiny", corpus, overrides=OVERRIDES)


def test_surfaces_of_other_examples_are_refused(
    store: ArtifactStore, corpus: str, graphs: dict[str, dict[str, Any]]
) -> None:
    recipe = load_preset("embert-tiny", OVERRIDES)
    with stage_runner() as run:
        data = prepare(run, recipe, text_inputs(corpus), graphs=requested_graphs(graphs))
        made = more_inputs(run, recipe, data)
        with pytest.raises(UserError, match="--param mentions=true"):
            more_inputs(run, recipe, replace(data, entities=None))
    given = {"vocabulary": data.vocabulary, "entities": data.entities}
    other = run_stage(entity_surfaces, store, EntitySurfacesParams(), given).artifact
    inputs = {"examples": data.examples, "vocabulary": data.vocabulary, **made, "entity_surfaces": other}
    with pytest.raises(UserError, match=r"was made with the entity_surfaces .*, and not with"):
        run_stage(train, store, recipe.train, inputs)
