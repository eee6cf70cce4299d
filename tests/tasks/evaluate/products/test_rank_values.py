"""Stage `rank_values`: values of held-out titles ranked by a checkpoint's own distance, beside their frequency."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import gelu

from infra.artifacts import Artifact, ArtifactStore
from infra.stage import Output, StageParams, stage
from models import objectives
from models.encoder.layout import Layout
from models.tokenizer.special_ids import CLS, SEP
from models.training.checkpoint import Progress, save_state, snapshot
from tasks.evaluate.products.rank_values import rank_values
from tasks.evaluate.products.value_params import RankValuesParams
from tests.support.text.stages import do
from tests.support.text.tokenizers import VOCABULARY, save_ours
from tests.support.training.given_records import given_records

VALUES = [a + b for a in "高头发咳血肺" for b in "压痛热嗽糖部"]
ROWS = [
    (f"{first}{second}", "用药", tuple(VALUES[number % 7 :: 9]), number % 4 == 0)
    for number, (first, second) in enumerate((a, b) for a in "患病糖检" for b in "者尿查部")
]
MODEL: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 24,
    "num_layers": 2,
    "num_heads": 6,
    "intermediate_size": 48,
    "max_positions": 64,
    "initializer_range": 0.3,
}
KEYS = {token: number for number, token in enumerate(VOCABULARY)}


class FolderParams(StageParams):
    folder: str


@stage(name="train", version=1, params=FolderParams)
def given_folder(inputs: Any, params: FolderParams, out: Output) -> None:
    out.add_folder(Path(params.folder))


def checkpoint(store: ArtifactStore, folder: Path, norm: int) -> tuple[Artifact, Any]:
    """A `train` artifact with random weights, and its objective."""
    torch.manual_seed(0)
    objective = objectives.build("electra_em_pap", MODEL | {"distance_norm": norm}).eval()
    folder.mkdir()
    state = snapshot(objective, torch.optim.SGD(objective.parameters()), Progress(), {}, keep=True)
    assert state is not None
    save_state(state, folder)
    spec = {
        "name": "run", "store": str(store.root), "storage": str(folder), "sources": {}, "objective": "electra_em_pap",
        "model": MODEL | {"distance_norm": norm}, "training": {}, "workers": 0, "cpus_per_worker": 1, "gpu": False,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(spec))
    return do(store, given_folder, FolderParams(folder=str(folder))), objective


def state(objective: Any, ids: list[int], second: int) -> np.ndarray:
    types_T = (torch.arange(len(ids)) >= second).long()
    states_TD = objective.discriminator(torch.tensor(ids), Layout.from_lengths([len(ids)]), types_T)
    projected_D = gelu(objective.pap_head.dense.weight @ states_TD[0] + objective.pap_head.dense.bias)
    return np.asarray(projected_D.detach().numpy(), dtype=np.float64)


@pytest.mark.parametrize("norm", [1, 2])
def test_values_are_ranked_by_the_distance_of_the_training(tmp_path: Path, norm: int) -> None:
    """Few values are wrong for a title, so both kinds of candidates are all of them, and their ranks can be counted."""
    store = ArtifactStore(tmp_path / "store")
    trained, objective = checkpoint(store, tmp_path / "run", norm)
    vocabulary = do(store, given_folder, FolderParams(folder=str(save_ours(tmp_path / "tokenizer"))))
    inputs = {"checkpoint": trained, "vocabulary": vocabulary, "records": given_records(store, ROWS)}
    ranked = do(store, rank_values, RankValuesParams(), **inputs)
    found = {
        (row["title"], row["value"], row["wrong"]): (row["rank"], row["popularity_rank"])
        for row in ranked.to_table("value_ranks").to_pylist()
    }
    counts = Counter(value for _, _, values, held_out in ROWS if not held_out for value in values)
    every = {value for _, _, values, _ in ROWS for value in values}

    def ids(text: str) -> list[int]:
        return [KEYS[character] for character in text]

    asked = [(title, values) for title, _, values, held_out in ROWS if held_out]
    assert {title for title, _, _ in found} == {title for title, _ in asked}
    for title, values in asked:
        point = state(objective, [CLS, *ids(title), SEP, *ids("用药"), SEP], len(title) + 2)
        at = {value: state(objective, [CLS, *ids(value), SEP], len(value) + 2) - point for value in every}
        far = {value: np.abs(gap).sum() if norm == 1 else np.square(gap).sum() for value, gap in at.items()}
        wrong = every - set(values)
        for value in values:
            own = 1 + sum(far[other] < far[value] for other in wrong)
            more = sum(counts[other] > counts[value] for other in wrong)
            equal = sum(counts[other] == counts[value] for other in wrong)
            for kind in ("values", "records"):
                assert found[title, value, kind] == (own, 1 + more + equal / 2)
