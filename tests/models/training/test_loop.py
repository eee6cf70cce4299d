"""Training loop by itself: exact resume, learning, and clear errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from infra.artifacts import ArtifactStore
from infra.settings import REPOSITORY
from models import objectives
from models.training.loop import Report, TrainingConfig, load_state, save_state, train
from models.training.reader import ExampleStream
from tests.support.training.synthetic_examples import TINY_MODEL, VOCABULARY, make_inputs, training

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _deterministic() -> Any:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def streams(store: ArtifactStore) -> tuple[ExampleStream, ExampleStream]:
    examples = make_inputs(store)["examples"]
    return ExampleStream(examples.parts("examples"), 1), ExampleStream(examples.parts("held_out"), 1)


def build() -> Any:
    torch.manual_seed(0)
    return objectives.build("ehealth", {**TINY_MODEL, "vocab_size": VOCABULARY})


def same_weights(left: Any, right: Any) -> bool:
    states = left.state_dict(), right.state_dict()
    return states[0].keys() == states[1].keys() and all(torch.equal(states[0][k], states[1][k]) for k in states[0])


def into(told: dict[tuple[int, str], dict[str, float]]) -> Report:
    """A report that keeps the figures by step and split."""
    return lambda step, split, figures: told.update({(step, split): dict(figures)})


def losses(told: dict[tuple[int, str], dict[str, float]]) -> dict[tuple[int, str, str], float]:
    """Figures of training, without times."""
    return {
        (step, split, name): figures[name]
        for (step, split), figures in told.items()
        if split in ("train", "step")
        for name in ("loss", "mlm", "rtd", "csp", "mts", "gradient_norm")
    }


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"micro_batch_size": 3, "prefetch_batches": 1},
        {"batch_size": None, "batch_tokens": 150, "micro_batch_size": 2},
        {"length_warmup_steps": 7, "length_warmup_tokens": 12},
        {"precision": "bf16", "micro_batch_size": 3},
        {"log_every": 5},
    ],
    ids=["whole", "micro-batches", "tokens", "length warm-up", "bf16", "entries of five steps"],
)
def test_resumed_run_ends_with_the_same_bits(store: ArtifactStore, tmp_path: Path, options: dict[str, Any]) -> None:
    examples, held_out = streams(store)
    config = TrainingConfig(**training(**options))
    states: dict[int, dict[str, Any]] = {}
    handed: dict[int, dict[str, float]] = {}

    def keep(step: int, state: Any, figures: Any) -> None:
        folder = tmp_path / str(step)
        folder.mkdir(exist_ok=True)
        save_state(state, folder)
        states[step], handed[step] = load_state(folder), dict(figures)

    whole, told = build(), {}
    train(whole, examples, held_out, config, report=into(told), save=keep)
    assert not same_weights(whole, build())
    for stop_at in (4, 8):
        resumed, again, told_again = build(), {}, {}
        train(
            resumed,
            examples,
            held_out,
            config,
            state=states[stop_at],
            report=into(told_again),
            save=lambda step, state, figures, again=again: again.update({step: (state, dict(figures))}),
        )
        assert same_weights(whole, resumed)
        behind = {key: values for key, values in told.items() if key[0] > stop_at}
        assert losses(behind).items() <= losses(told_again).items() <= losses(told).items()
        assert again[12][0]["positions"] == states[12]["positions"]
        assert all(again[step][1] == pytest.approx(handed[step], abs=0, nan_ok=True) for step in again)
    assert handed[4] == {}  # before the first evaluation, at 6
    assert handed[8] == pytest.approx(states[8]["held_out"], abs=0, nan_ok=True) and handed[8]["mlm_loss"] > 0


def test_run_resumes_in_other_micro_batches_with_the_same_losses(store: ArtifactStore, tmp_path: Path) -> None:
    examples, held_out = streams(store)

    def keep(step: int, state: Any, figures: Any) -> None:
        if step == 4:
            save_state(state, tmp_path)

    told: dict[tuple[int, str], dict[str, float]] = {}
    train(build(), examples, held_out, TrainingConfig(**training()), report=into(told), save=keep)
    for size in (5, 3):
        again: dict[tuple[int, str], dict[str, float]] = {}
        config = TrainingConfig(**training(micro_batch_size=size))
        train(build(), examples, held_out, config, state=load_state(tmp_path), report=into(again))
        expected = losses({key: figures for key, figures in told.items() if key[0] > 4})
        assert losses(again) == pytest.approx(expected, rel=1e-6, abs=1e-6)


CHILD = """
import os, signal, sys, torch
from pathlib import Path
from infra.artifacts import ArtifactStore
from models.training.loop import TrainingConfig, load_state, save_state, train
from tests.models.training.test_loop import build
from tests.models.training.test_loop import streams
from tests.support.training.synthetic_examples import training
torch.use_deterministic_algorithms(True)
folder = Path(sys.argv[2])
def save(step, state, held_out):
    temporary = folder / "new"
    temporary.mkdir(exist_ok=True)
    save_state(state, temporary)
    os.replace(temporary / "state.pt", folder / "state.pt")
def process(die_after):
    def report(step, split, figures):
        if step == die_after and split == "train":
            os.kill(os.getpid(), signal.SIGKILL)
    examples, held_out = streams(ArtifactStore(sys.argv[1]))
    objective = build()
    state = load_state(folder) if (folder / "state.pt").exists() else None
    config = TrainingConfig(**training(checkpoint_every=3))
    train(objective, examples, held_out, config, state=state, report=report, save=save)
for die_after in map(int, sys.argv[3:]):
    # Each is a process of its own; forked before anything is trained, so that torch is imported once.
    if (child := os.fork()) == 0:
        try:
            process(die_after)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_killed_process_resumes_to_the_same_bits(store: ArtifactStore, tmp_path: Path) -> None:
    examples, held_out = streams(store)
    whole = build()
    train(whole, examples, held_out, TrainingConfig(**training(checkpoint_every=3)))
    folder = tmp_path / "run"
    folder.mkdir()
    die_after = ("2", "8", "99")  # before the first checkpoint, between later ones, and never
    children = subprocess.run(
        [sys.executable, "-c", CHILD, store.root, str(folder), *die_after],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": str(torch.get_num_threads())},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert [int(status) for status in children.stdout.split()] == [-signal.SIGKILL, -signal.SIGKILL, 0]
    ended = build()
    ended.load_state_dict(load_state(folder)["model"])
    assert same_weights(whole, ended)


def test_tiny_model_learns_on_held_out_examples(store: ArtifactStore) -> None:
    examples, held_out = streams(store)
    figures: dict[int, dict[str, float]] = {}

    def report(step: int, split: str, values: Any) -> None:
        if split == "held_out":
            figures[step] = dict(values)

    config = TrainingConfig(**training(steps=120, warmup_steps=10, learning_rate=5e-3, evaluate_every=5, batch_size=16))
    train(build(), examples, held_out, config, report=report)
    first, last = figures[5], figures[120]
    assert last["mlm_loss"] < first["mlm_loss"] - 0.3
    assert last["csp_accuracy"] > 10 * last["csp_chance"]


def test_loss_that_is_not_finite_stops_the_run(store: ArtifactStore) -> None:
    examples, held_out = streams(store)
    objective = build()
    with torch.no_grad():
        objective.generator_head.bias.fill_(np.nan)
    with pytest.raises(FloatingPointError, match=r"step 11: .*mlm nan.*11 of the last 11.*last checkpoint is intact"):
        train(objective, examples, held_out, TrainingConfig(**training()))


def test_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "state.pt").write_bytes(b"\x00" * 100)
    with pytest.raises(ValueError, match=r"state\.pt is not a readable checkpoint"):
        load_state(tmp_path)


def test_checkpoint_with_code_in_it_is_refused(tmp_path: Path) -> None:
    torch.save({"step": 1, "model": os.system, "optimizer": {}}, tmp_path / "state.pt")
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        load_state(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, r"training\.steps is 0"),
        ({"batch_size": 0}, r"training\.batch_size is 0"),
        ({"warmup_steps": 12}, r"training\.warmup_steps \(12\)"),
    ],
)
def test_impossible_settings_are_named(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**training(**changes))
