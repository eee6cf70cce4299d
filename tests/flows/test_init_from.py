"""`init_from` of the flow `pretrain`: a run that goes on from the weights of another model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from flows.pretrain import pretrain
from infra.errors import UserError
from tests.corpus import write_corpus

OVERRIDES: dict[str, Any] = {
    "vocabulary.size": 2000,
    "segment.min_tokens": 8,
    "encode.held_out_share": 0.2,
    "training.steps": 2,
    "training.warmup_steps": 1,
    "training.batch_size": 8,
    "model.num_layers": 1,
    "cluster.cpus_per_worker": 1,
    "cluster.workers": 0,
}
STILL = OVERRIDES | {"training.learning_rate": 1e-9, "training.seed": 7}
"""Another seed, so other fresh weights, and steps that change nothing to speak of."""


def weights(folder: str) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("YIWEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("YIWEN_WORKERS", "1")
    return str(write_corpus(tmp_path / "corpus"))


def test_a_run_begins_with_the_weights_that_it_is_given(corpus: str) -> None:
    first = pretrain.fn("ehealth-tiny", corpus, overrides=OVERRIDES)
    going_on = weights(pretrain.fn("ehealth-tiny", corpus, init_from=first, overrides=STILL))
    afresh = weights(pretrain.fn("ehealth-tiny", corpus, vocabulary_file=f"{first}/vocab.txt", overrides=STILL))
    name = "encoder.layer.0.output.dense.weight"
    torch.testing.assert_close(going_on, weights(first), rtol=0, atol=1e-6)
    assert (afresh[name] - weights(first)[name]).abs().max() > 1e-3


def test_a_folder_without_a_model_is_told_before_any_work(corpus: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no config\.json"):
        pretrain.fn("ehealth-tiny", corpus, init_from=str(tmp_path), overrides=OVERRIDES)
    assert not (tmp_path / "home").exists()
