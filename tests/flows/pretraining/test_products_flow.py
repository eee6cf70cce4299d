"""ELECTRA+EM+PAP from raw text and a table of products to a folder, and what it knows of products it has not seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from flows.evaluate_products import evaluate
from flows.pretrain import pretrain
from flows.sweep import sweep
from infra.artifacts import ArtifactStore
from infra.errors import UserError
from tests.support.newest import latest
from tests.support.text.synthetic_text import DISEASES, DRUGS, SYMPTOMS, write_corpus

pytestmark = pytest.mark.slow

OVERRIDES: dict[str, Any] = {
    "vocabulary.size": 2000,
    "encode.held_out_share": 0.2,
    "encode.mention_types": ["Drug"],
    "model.num_layers": 1,
    "model.pap_share": 0.5,
    "training.steps": 12,
    "training.warmup_steps": 1,
    "training.batch_size": 8,
    "training.tasks.pap.batch_size": 8,
    "training.evaluate_every": 6,
    "training.checkpoint_every": 6,
    "training.held_out_batches": 1,
    "product_records.held_out_share": 0.2,
    "cluster.cpus_per_worker": 1,
    "cluster.workers": 0,
}


@pytest.fixture
def store(tmp_path: Path, work_here: None, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return ArtifactStore(tmp_path / "home")


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """A corpus, a graph and a table of products."""
    triples = [f"{drug}\tused_for\t{disease}\tDrug\tDisease" for drug, disease in zip(DRUGS, DISEASES, strict=True)]
    (tmp_path / "graph.tsv").write_text("head\trelation\ttail\thead_type\ttail_type\n" + "\n".join(triples) + "\n")
    rows = [
        (f"{maker}{drug}片", attribute, value)
        for maker in ("康泰", "仁和", "华润", "同济")
        for number, drug in enumerate(DRUGS)
        for attribute, value in (("适应症", DISEASES[number]), ("适应症", SYMPTOMS[number]), ("成份", drug))
    ]
    table = "".join(",".join(row) + "\n" for row in (("title", "attribute", "value"), *rows))
    (tmp_path / "products.csv").write_text(table, encoding="utf-8")
    graph = {"path": str(tmp_path / "graph.tsv"), "type_columns": ["head_type", "tail_type"]}
    return {
        "corpus": str(write_corpus(tmp_path / "corpus")),
        "graphs": {"mine": graph},
        "mentions": True,
        "overrides": OVERRIDES | {"product_records.source": str(tmp_path / "products.csv")},
    }


def test_products_are_trained_on_and_ranked(store: ArtifactStore, given: dict[str, Any], tmp_path: Path) -> None:
    folder = pretrain.fn("electra-em-pap-tiny", **given)
    _, report = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    run = latest(store, "train")
    assert run.manifest.inputs["products"].fingerprint == latest(store, "products").fingerprint
    metrics = run.to_table("metrics").to_pylist()
    held_out = {row["name"] for row in metrics if row["split"] == "held_out"}
    assert {"rtd_loss", "pap_loss", "pap_accuracy", "pap_chance", "mlm_loss"} <= held_out
    steps = [row["name"] for row in metrics if row["split"] == "step"]
    assert steps.count("loss_rtd") + steps.count("loss_pap") == 12 and steps.count("loss_pap") > 2
    mentions = [row["mentions"] for row in latest(store, "encode").to_table("examples").to_pylist()]
    assert any(mentions)

    other = tmp_path / "other.csv"
    other.write_text("drug,for\n" + "".join(f"新{drug},{DISEASES[n]}\n" for n, drug in enumerate(DRUGS)))
    second = {"source": str(other), "columns": ["drug", "", ""], "attribute_columns": {"for": "适应症"}}
    ranked = Path(evaluate.fn(folder, other=second, overrides={"rank_values.negatives": 5}))
    summary = json.loads((ranked / "summary.json").read_text())
    whole = summary["groups"]["values: all"]
    assert whole["mrr_chance"] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6) / 6)
    assert 0 < whole["mrr"] <= 1 and whole["popularity_mrr"] > 0
    rows = latest(store, "rank_values").to_table("value_ranks").to_pylist()
    assert {row["title"] for row in rows} == {f"新{drug}" for drug in DRUGS}
    assert not any(row["is_known_title"] for row in rows)


def test_without_pap_no_products_are_read(store: ArtifactStore, given: dict[str, Any]) -> None:
    folder = pretrain.fn("electra-em-pap-tiny", **{**given, "overrides": given["overrides"] | {"model.pap_share": 0.0}})
    assert store.latest("products") is None
    overrides = {"product_records.source": given["overrides"]["product_records.source"], "rank_values.negatives": 5}
    ranked = Path(evaluate.fn(folder, overrides=overrides))
    assert json.loads((ranked / "summary.json").read_text())["distance"] == "‖E(t ⊕ n) − E(v)‖"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"product_records.source": "/nowhere/products.csv"}, "/nowhere/products.csv does not exist"),
        ({"product_records.source": "sqlite:////nowhere/shop.db"}, "There is no database /nowhere/shop.db"),
    ],
)
def test_products_that_are_not_there_are_told_before_any_work(
    store: ArtifactStore, given: dict[str, Any], changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        pretrain.fn("electra-em-pap-tiny", **{**given, "overrides": given["overrides"] | changed})
    assert store.list() == []


def test_mentions_that_are_missing_are_told_with_the_parameter(store: ArtifactStore, given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"--param mentions=true"):
        pretrain.fn("electra-em-pap-tiny", **{**given, "graphs": None, "mentions": False})
    with pytest.raises(UserError, match=r"The parameter graphs is given, but .* --param mentions=true"):
        without = {"mentions": False, "overrides": given["overrides"] | {"model.entity_masking": False}}
        pretrain.fn("electra-em-pap-tiny", **{**given, **without})
    assert store.list() == []


def test_it_starts_from_any_electra(store: ArtifactStore, given: dict[str, Any]) -> None:
    """Weights that hardly change under a tiny learning rate; PAP's own head begins at random."""
    electra = {name: value for name, value in OVERRIDES.items() if name.split(".")[0] not in ("product_records",)}
    del electra["model.pap_share"], electra["training.tasks.pap.batch_size"], electra["encode.mention_types"]
    first = pretrain.fn("electra-tiny", given["corpus"], overrides=electra)
    still = given["overrides"] | {"training.learning_rate": 1e-9, "training.seed": 7}
    second = pretrain.fn("electra-em-pap-tiny", **{**given, "init_from": first, "overrides": still})
    before, after = (load_file(Path(folder) / "model.safetensors") for folder in (first, second))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)


def test_shares_are_swept_with_equally_many_rtd_steps(
    store: ArtifactStore, given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "flows")
    wanted = {key: given[key] for key in ("corpus", "graphs")}
    overrides = given["overrides"] | {"rank_values.negatives": 5}
    folder = Path(sweep.fn("electra-em-pap-tiny", shares=[0.0, 0.5], overrides=overrides, **wanted))
    assert "Setting 2 of 2: PAP in 50% of the steps" in caplog.text
    rows = json.loads((folder / "summary.json").read_text())["rows"]
    assert [row["share"] for row in rows] == [0.0, 0.5]
    assert rows[0]["steps"] == rows[1]["steps"] - rows[1]["pap_steps"] and rows[1]["pap_steps"] > 2
    assert rows[0]["pap_steps"] == 0 and "pap_accuracy" not in rows[0]["held_out"]
    assert (folder / "figure2.png").stat().st_size > 10_000
    assert (folder / "table.md").read_text().count("\n") == 4
