"""Rates of dropout: the given one in encoder and head, or else the encoder's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from flows.recipes.finetuning import load_finetuning
from infra.errors import UserError
from tasks.downstream.catalogue import task
from tasks.downstream.task_data import load_task_data
from tasks.finetune.card import write_finetune_card
from tasks.finetune.inputs import ModelFolder, TaskFiles
from tasks.finetune.params import FinetuneParams
from tasks.finetune.stage import finetune, make_trials
from tasks.finetune.trials.run import run_trial
from tasks.finetune.trials.task_trial import TaskTrial, check_trials
from tests.support.heads import toy_task as toy

torch.set_num_threads(1)
SPEC = task("cmedqq")


@dataclass(frozen=True)
class World:
    folder: Path

    def encoder(self, hidden: float, attention: float) -> Path:
        """Return the toy encoder with these rates in its config.json."""
        folder = toy.save_toy_encoder(self.folder / f"encoder-{hidden}-{attention}")
        config = json.loads((folder / "config.json").read_text())
        rates = {"hidden_dropout_prob": hidden, "attention_probs_dropout_prob": attention}
        (folder / "config.json").write_text(json.dumps(config | rates))
        return folder

    def trial(self, encoder: Path, name: str, dropout: float | None) -> TaskTrial:
        params = FinetuneParams(
            task="cmedqq", seeds=(1,), batch_sizes=(8,), learning_rates=(5e-3,), epochs=(1,), dropout=dropout
        )
        (trial,) = make_trials(SPEC, params, ModelFolder(encoder), self.files, str(self.folder / name))
        return trial

    @property
    def files(self) -> TaskFiles:
        return TaskFiles(SPEC, self.folder / "data")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("dropout")
    toy.save_cmedqq(folder / "data", (16, 8, 8))
    return World(folder)


def trained(trial: TaskTrial) -> tuple[tuple[float, float, float], bytes]:
    """Return the rates of the trained model (hidden, attention, head), and its weights."""
    result = run_trial(trial)
    assert result.stopped == "finished"
    folder = Path(trial.folder) / "model"
    encoder, head = (json.loads((folder / name).read_text()) for name in ("config.json", "head.json"))
    rates = (encoder["hidden_dropout_prob"], encoder["attention_probs_dropout_prob"], head["dropout"])
    return rates, (folder / "model.safetensors").read_bytes()


def test_given_rate_is_that_of_hidden_states_attention_and_head(world: World) -> None:
    without, quiet = world.encoder(0.0, 0.0), world.encoder(0.1, 0.1)
    own, given = trained(world.trial(quiet, "own", None)), trained(world.trial(without, "given", 0.1))
    assert own == given and own[0] == (0.1, 0.1, 0.1)  # the same draws, so the same weights
    none, more = trained(world.trial(without, "none", 0.0)), trained(world.trial(without, "more", 0.4))
    assert (none[0], more[0]) == ((0.0, 0.0, 0.0), (0.4, 0.4, 0.4))
    assert len({weights for _, weights in (own, none, more)}) == 3


def test_without_a_rate_those_of_the_config_are_used_and_their_absence_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    trial = world.trial(world.encoder(0.2, 0.05), "config", None)
    assert trained(trial)[0] == (0.2, 0.05, 0.1)
    data = load_task_data(SPEC, world.files.path, None)
    without = world.encoder(0.0, 0.0)
    check_trials([trial], data)
    check_trials([world.trial(without, "zero", 0.0)], data)
    assert "dropout" not in caplog.text
    check_trials([world.trial(without, "zero", None)], data)
    assert "sets no dropout. For BERT's rate, set finetune.dropout=0.1" in caplog.text


def test_runs_with_other_rates_are_other_runs(world: World) -> None:
    inputs = {"model": ModelFolder(world.encoder(0.0, 0.0)), "data": world.files}
    rates = (None, 0.0, 0.1)
    assert len({finetune.fingerprint(FinetuneParams(task="cmedqq", dropout=rate), inputs) for rate in rates}) == 3
    assert len({world.trial(inputs["model"].path, "same", rate).identity for rate in rates}) == 3


def test_card_names_a_given_rate(world: World) -> None:
    encoder = world.encoder(0.0, 0.0)
    cards = [
        write_finetune_card(SPEC, run_trial(world.trial(encoder, f"card-{rate}", rate)), {}, "toy")
        for rate in (None, 0.25)
    ]
    assert ["dropout 0.25, seed 1" in card for card in cards] == [False, True]


@pytest.mark.parametrize("rate", [-0.1, 1.0, "much"])
def test_impossible_rates_are_rejected(rate: Any) -> None:
    with pytest.raises(UserError, match=r"finetune\.dropout is .*: must be"):
        load_finetuning(SPEC.name, quick=True, overrides={"finetune.dropout": rate})
