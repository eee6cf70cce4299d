"""The recipes of docs/extend: their code is run as it stands on the page, and does what the page says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from infra.artifacts import ArtifactStore
from infra.builds import PartWriter
from infra.settings import REPOSITORY
from infra.stage import Output, StageParams, run, stage

PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    """Return the Python of a page."""
    return PYTHON.findall((REPOSITORY / "docs" / "extend" / f"{page}.md").read_text(encoding="utf-8"))


def executed(code: str, **names: Any) -> dict[str, Any]:
    """Run code with the names that its page says where to import from; returns what it defines."""
    space = {"__name__": "recipe", **names}
    exec(compile(code, "recipe", "exec", dont_inherit=True), space)
    return space


class NoParams(StageParams):
    """None."""


TEXTS = ["头痛", "患者反复咳嗽咳痰十年，加重伴气促三天，门诊以肺部感染收入院。"]


@stage(name="documents_made", version=1, params=NoParams, tables=("documents",))
def documents_made(inputs: Any, params: NoParams, out: Output) -> None:
    with out.part() as part:
        part.write(
            "documents",
            [
                {"doc_id": f"{i:032x}", "source": "emr", "title": "", "text": text, "meta": "{}"}
                for i, text in enumerate(TEXTS)
            ],
        )


def test_the_stage_keeps_long_documents_and_rejects_short_ones(tmp_path: Path) -> None:
    from collections.abc import Mapping

    from pydantic import Field

    from infra.artifacts import Artifact, Part

    declared, used = blocks("stage")
    names: dict[str, Any] = {"Mapping": Mapping, "Field": Field, "Artifact": Artifact, "Part": Part}
    names |= {"PartWriter": PartWriter, "Output": Output, "StageParams": StageParams, "stage": stage}
    space = executed(declared, **names)
    store = ArtifactStore(tmp_path)
    run(documents_made, store, NoParams(), {})
    space = executed(used, **space, ArtifactStore=lambda root: store, run=run)
    kept = space["result"].artifact
    assert kept.scan("documents").collect()["text"].to_list() == TEXTS[1:]
    assert kept.scan("rejects").collect()["reason"].to_list() == ["short"]
    assert kept.manifest.counters["rejected_short"] == 1


def test_the_objective_masks_few_words_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from models import objectives
    from models.batch import Masking, collate_masked
    from models.objectives.bert.config import BertObjectiveConfig
    from models.objectives.bert.objective import Bert

    defined, line = blocks("objective")
    names: dict[str, Any] = {"dataclass": dataclass, "BertObjectiveConfig": BertObjectiveConfig, "Bert": Bert}
    space = executed(defined, Masking=Masking, collate_masked=collate_masked, **names)
    module, _, attribute = re.search(r'"([\w.]+):(\w+)"', line).group(0).strip('"').partition(":")  # type: ignore[union-attr]
    assert module == "models.objectives.warm_mask.objective" and attribute in space
    monkeypatch.setitem(objectives._OBJECTIVES, "warm_mask", (space["WarmMaskConfig"], ""))
    assert "mask_steps" in objectives.config_keys("warm_mask")
    sizes = {"vocab_size": 60, "hidden_size": 8, "num_layers": 1, "num_heads": 2, "intermediate_size": 8}
    torch.manual_seed(1)
    model = space["WarmMask"](objectives.check("warm_mask", {**sizes, "max_positions": 64, "mask_steps": 10}))
    rows = [{"input_ids": [2, *range(5, 55), 3], "word_starts": list(range(1, 51))} for _ in range(8)]
    few, all_of_them = (model.collate(rows, seed=1, step=step) for step in (0, 9))
    assert 0 < len(few.selected) < len(all_of_them.selected) / 3
    later = model.collate(rows, seed=1, step=500)
    assert 0.1 < len(later.selected) / 400 < 0.2
    assert model(all_of_them)["loss"].isfinite()


def test_the_network_scores_sequences_whatever_shares_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import Tensor

    from models import networks
    from models.encoder.layout import Layout
    from models.encoder.randomness import SequenceNoise
    from models.networks.parts import views
    from models.networks.parts.network import Classifier

    defined, line = blocks("network")
    names: dict[str, Any] = {"Classifier": Classifier, "Tensor": Tensor, "Layout": Layout, "views": views}
    space = executed(defined, SequenceNoise=SequenceNoise, **names)
    registered = eval("{" + line + "}", space)
    monkeypatch.setitem(networks._NETWORKS, "classify", {**networks._NETWORKS["classify"], **registered})
    network = networks.build("mean_pool", 6, 3, "classify").eval()
    x_TD = torch.randn(9, 6)
    scores_SC = network(x_TD, Layout.from_lengths([4, 5]))
    alone_SC = network(x_TD[4:], Layout.from_lengths([5]))
    torch.testing.assert_close(scores_SC[1:], alone_SC)
    by_hand = network.output(torch.relu(network.hidden(x_TD[:4].mean(0, keepdim=True))))
    torch.testing.assert_close(scores_SC[:1], by_hand)


def test_the_task_is_read_from_its_files(tmp_path: Path) -> None:
    from tasks.downstream.catalogue.grids import SMEDBERT_GRID
    from tasks.downstream.readers.delimited import read_tsv
    from tasks.downstream.readers.read import read_split
    from tasks.downstream.records import Kind
    from tasks.downstream.spec import TaskSpec, files

    [entry] = blocks("task")
    names: dict[str, Any] = {"TaskSpec": TaskSpec, "Kind": Kind, "read_tsv": read_tsv, "files": files}
    spec = eval(entry, {**names, "SMEDBERT_GRID": SMEDBERT_GRID})
    (tmp_path / "intent_train.tsv").write_text("挂号\t怎么挂专家号\n用药\t头孢能和酒一起吃吗\n", encoding="utf-8")
    found = read_split(spec, tmp_path, "train")
    assert len(found.records) == 2 and found.rejects == []


def test_the_graph_format_gives_triples_and_rejects(tmp_path: Path) -> None:
    import polars as pl

    from kg.sources.source_triples import SourceTriples, checked

    defined, line = blocks("graph_format")
    names: dict[str, Any] = {"re": re, "pl": pl, "Path": Path, "SourceTriples": SourceTriples, "checked": checked}
    space = executed(defined, **names)
    file = tmp_path / "ours.txt"
    file.write_text("糖尿病 --症状--> 多饮\n没有箭头\n高血压 --用药--> 氨氯地平\n", encoding="utf-8")
    found = space["read_arrows"](file)
    assert found.triples.select("head", "relation", "tail").rows() == [
        ("糖尿病", "症状", "多饮"),
        ("高血压", "用药", "氨氯地平"),
    ]
    assert found.rejects["place"].to_list() == ["ours.txt#2"]
    from tasks.knowledge.read import _joined, _retyped

    registered = eval("{" + line + "}", {**space, "_joined": _joined, "_retyped": _retyped})
    assert registered["arrows"]([file], None, None).triples.height == 2


@pytest.mark.parametrize("page", ["stage", "objective", "network", "task", "graph_format"])
def test_every_recipe_names_one_place(page: str) -> None:
    text = (REPOSITORY / "docs" / "extend" / f"{page}.md").read_text(encoding="utf-8")
    assert text.count("**One place to touch:**") == 1
    [paragraph] = [one for one in text.split("\n\n") if "**One place to touch:**" in one]
    for name in re.findall(r"`((?:tasks|models|kg|infra|flows)/[\w/.]+)`", paragraph):
        assert (REPOSITORY / name).exists(), name
