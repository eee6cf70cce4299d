"""Objectives of several tasks: each with its own rows, batches, parameters and figures, resumed to the same bits."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.encoder.randomness import Stream, uniforms
from models.objectives.config import check_shares
from models.training.loop import TrainingConfig, Worker, evaluate, load_state, save_state, train, training_config
from models.training.optimisation import make_optimizer
from models.training.streams import by_task, check_streams, described, stream_seed
from models.training.tasks import Task, drawn_task, joined
from tests.support.training.memory_part import stream_of
from tests.support.training.synthetic_examples import synthetic_rows, training
from tests.support.training.tiny_training import Entries
from tests.support.training.tiny_training import build as one_task
from tests.support.training.tiny_training import run as run_one_task
from tests.support.training.two_tasks import build, streams

pytestmark = pytest.mark.slow

DROPOUT = {"hidden_dropout": 0.1, "attention_dropout": 0.1}
OWN = {"classify": {"batch_size": 6, "longest": 12}}
GENERATOR = ("generator", "generator_head", "rtd_head")
"""Parts that only steps of `detect` use."""
CLASSIFIER = ("second", "classifier")
"""Parts that only steps of `classify` use."""


@pytest.fixture(autouse=True)
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def run(objective: Any, settings: dict[str, Any], **arguments: Any) -> tuple[Entries, dict[int, dict[str, Any]]]:
    """Train on rows of both tasks; what was reported, and the state at each checkpoint."""
    entries: Entries = []
    states: dict[int, dict[str, Any]] = {}
    train(
        objective,
        arguments.pop("examples", None) or streams(),
        streams(20, 15, seed=7),
        TrainingConfig(**settings),
        report=lambda step, split, figures: entries.append((step, split, dict(figures))),
        save=lambda step, state, held_out: states.update({step: state}),
        **arguments,
    )
    return entries, states


def tasks_of(steps: int, seed: int = 42) -> list[str]:
    return [build().task(step, seed) for step in range(steps)]


@given(st.integers(0, 2**63 - 1), st.integers(0, 10**6))
def test_task_of_a_step_is_a_function_of_seed_and_step(seed: int, step: int) -> None:
    shares = {"one": 0.5, "two": 0.3, "three": 0.2}
    assert drawn_task(shares, step, seed) == drawn_task(dict(shares), step, seed) in shares
    assert drawn_task({"only": 1.0}, step, seed) == "only"


def test_tasks_have_their_shares_of_the_steps() -> None:
    shares = {"rtd": 0.95, "pap": 0.05}
    found = Counter(drawn_task(shares, step, 3) for step in range(20_000))
    assert found["pap"] == pytest.approx(1_000, abs=4 * math.sqrt(20_000 * 0.05 * 0.95))
    assert [drawn_task(shares, step, 3) for step in range(200)] != [drawn_task(shares, step, 4) for step in range(200)]


def test_a_task_is_drawn_where_its_share_lies() -> None:
    """In the order of the shares: the first task has the draws from 0 to its share."""
    shares = {"one": 0.5, "two": 0.3, "three": 0.2}
    for step in range(500):
        draw = float(uniforms(7, step, 0, Stream.TASK, 0)[0])
        expected = "one" if draw < 0.5 else "two" if draw < 0.8 else "three"
        assert drawn_task(shares, step, 7) == expected


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"rtd": 0.9, "pap": 0.2}, r"must add up to 1, but rtd 0\.9 \+ pap 0\.2 is 1\.1"),
        ({"rtd": 0.5, "pap": 0.4}, r"must add up to 1, but rtd 0\.5 \+ pap 0\.4 is 0\.9"),
        ({"rtd": 1.0, "pap": 0.0}, r"share of task pap in the steps is 0; it must be over 0"),
        ({"rtd": 1.5, "pap": -0.5}, r"share of task pap in the steps is -0\.5"),
        ({"rtd": math.nan, "pap": 0.5}, r"share of task rtd in the steps is nan"),
    ],
)
def test_shares_that_do_not_add_up_are_named(shares: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_shares(shares)


def test_shares_may_add_up_within_rounding() -> None:
    shares = {"a": 0.7, "b": 0.2, "c": 0.1}
    assert 0.7 + 0.2 + 0.1 < 1.0
    check_shares(shares)
    assert {drawn_task(shares, step, 0) for step in range(100)} == set(shares)


def test_each_task_reads_its_rows_in_an_order_of_its_own() -> None:
    tasks = (Task("one"), Task("two"))
    assert stream_seed(42, tasks[0], tasks[:1]) == 42  # an only task: the run's seed
    seeds = {stream_seed(seed, task, tasks) for task in tasks for seed in (42, 43)}
    assert len(seeds) == 4 and all(0 <= seed < 2**63 for seed in seeds)
    rows = synthetic_rows(0, 40)
    first, second = (stream_of(rows, stream_seed(42, task, tasks)).take(0, 40) for task in tasks)
    assert [row.input_ids.tolist() for row in first] != [row.input_ids.tolist() for row in second]


def test_streams_and_tasks_must_match() -> None:
    tasks = build().tasks
    with pytest.raises(ValueError, match=r"the tasks are detect, classify, but the streams are for detect$"):
        by_task(tasks, stream_of(synthetic_rows(0, 4)))
    with pytest.raises(ValueError, match=r"but the streams are for detect, other"):
        by_task(tasks, {"detect": streams()["detect"], "other": streams()["classify"]})


def test_stream_that_no_task_reads_is_refused() -> None:
    with pytest.raises(ValueError, match=r"but the streams are for detect, classify, more"):
        by_task(build().tasks, {**streams(), "more": streams()["detect"]})


def test_order_of_a_tasks_rows_is_that_of_runs_before() -> None:
    """A seed that changed would lead the positions of checkpoints to other rows."""
    assert stream_seed(42, Task("one"), (Task("one"), Task("two"))) == ONE_OF_TWO


ONE_OF_TWO = int.from_bytes(hashlib.sha256(b"42 one").digest()[:8], "little") // 2


@pytest.mark.parametrize(
    ("key", "value"),
    [("table", "pairs"), ("columns", ["input_ids"]), ("rows", 3), ("parts", 7), ("seed", 5)],
)
def test_everything_that_moves_a_position_is_described(key: str, value: Any) -> None:
    own = described(build().tasks, streams())
    check_streams(own, own)
    changed = {**own, "classify": {**own["classify"], key: value}}
    with pytest.raises(ValueError, match=rf"the {key} of task classify is .* there and .* here"):
        check_streams(own, changed)


def plain_run(steps: int) -> tuple[Any, list[float]]:
    """The same training written plainly: which task, its next rows, one optimiser, no gradient for what is not used."""
    objective, given, given_at = build(**DROPOUT), streams(), {"detect": 0, "classify": 0}
    sizes = {"detect": 8, "classify": 6}
    named = dict(objective.named_parameters())
    decay = {name: 0.0 if name.endswith("bias") or "norm" in name.lower() else 0.01 for name in named}
    groups = [{"params": [p], "weight_decay": decay[name]} for name, p in named.items()]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, eps=1e-6, foreach=False)
    losses = []
    for step in range(steps):
        rate = 1e-3 * (step + 1) / 2 if step < 2 else 1e-3 * (steps - step) / (steps - 2)
        task = objective.task(step, 42)
        rows = given[task].take(given_at[task], sizes[task])
        given_at[task] += sizes[task]
        objective.train()
        loss = objective(objective.collate(rows, seed=42, step=step, task=task))["loss"]
        loss.backward()
        losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
    return objective, losses


def test_mixed_run_is_that_of_a_plain_loop() -> None:
    expected, losses = plain_run(12)
    objective = build(**DROPOUT)
    entries, _ = run(objective, training(tasks={"classify": {"batch_size": 6}}))
    told = [figures for _, split, figures in entries if split == "step"]
    found = [figures.get("loss_detect", figures.get("loss_classify")) for figures in told]
    assert found == pytest.approx(losses, rel=1e-5)
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(objective.state_dict()[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"tasks": OWN},
        {"tasks": OWN, "micro_batch_size": 3, "prefetch_batches": 1},
        {"tasks": {"classify": {"batch_tokens": 90}}, "length_warmup_steps": 7, "length_warmup_tokens": 12},
        {"batch_size": None, "batch_tokens": 120, "log_every": 5, "precision": "bf16"},
    ],
    ids=["own batches", "micro-batches", "own tokens and warm-up", "bf16 and entries of five steps"],
)
def test_resumed_run_ends_with_the_same_bits(options: dict[str, Any], tmp_path: Path) -> None:
    settings = training(**options)
    told, states = run(build(**DROPOUT), settings)
    assert states[8]["positions"].keys() == states[12]["positions"].keys() == {"detect", "classify"}
    for stop_at in (4, 8):
        save_state(states[stop_at], tmp_path)
        again, resumed = run(build(**DROPOUT), settings, state=load_state(tmp_path))
        assert all(torch.equal(resumed[12]["model"][name], value) for name, value in states[12]["model"].items())
        for key in ("positions", "streams", "skipped"):
            assert resumed[12][key] == states[12][key]
        kept = [entry for entry in told if entry[0] > stop_at and entry[1] in ("step", "held_out")]
        assert repr([entry for entry in again if entry[0] > stop_at and entry[1] in ("step", "held_out")]) == repr(kept)


def test_checkpoint_of_one_stream_of_the_format_before_is_read(tmp_path: Path) -> None:
    settings = training(spike_factor=3.0)
    _, states = run_one_task(one_task(), settings)
    guard = states[8]["skipped"]["ehealth"]
    before = {name: value for name, value in states[8].items() if name not in ("positions", "streams")} | {
        "format": 1,
        "position": states[8]["positions"]["ehealth"],
        "skipped": {"steps": guard["steps"], "recent_losses": guard["recent_losses"]},
    }
    save_state(before, tmp_path)
    _, again = run_one_task(one_task(), settings, state=load_state(tmp_path))
    assert all(torch.equal(again[12]["model"][name], value) for name, value in states[12]["model"].items())
    assert again[12]["positions"] == states[12]["positions"] and again[12]["skipped"] == states[12]["skipped"]


def moments_by_name(objective: Any, state: dict[str, Any]) -> dict[str, dict[str, torch.Tensor]]:
    """State of the optimiser by the names of parameters."""
    names = {id(parameter): name for name, parameter in objective.named_parameters()}
    order = [names[id(p)] for group in make_optimizer(objective).param_groups for p in group["params"]]
    return {order[index]: kept for index, kept in state["optimizer"]["state"].items()}


def test_step_leaves_the_other_tasks_parameters_and_their_moments_alone() -> None:
    objective = build()
    settings = training(checkpoint_every=1, weight_decay=0.5, tasks=OWN)
    _, states = run(objective, settings)
    order = tasks_of(12)
    assert {"detect", "classify"} == set(order[1:])
    done = Counter(order[:1])
    for step in range(2, 13):
        before, after = states[step - 1], states[step]
        task = order[step - 1]
        done[task] += 1
        moments = [moments_by_name(objective, state) for state in (before, after)]
        for name, _ in objective.named_parameters():
            part = name.split(".")[0]
            used = part not in (CLASSIFIER if task == "detect" else GENERATOR)
            same = torch.equal(before["model"][name], after["model"][name])
            assert same != used, (step, task, name)
            if not used:
                assert (name in moments[0]) == (name in moments[1])
                for kind, value in moments[0].get(name, {}).items():
                    assert torch.equal(value, moments[1][name][kind]), (step, name, kind)
            own = {"detect": GENERATOR, "classify": CLASSIFIER}[task]
            if part in own:
                # Adam's correction of its moments counts the steps that a parameter took part in.
                assert float(moments[1][name]["step"]) == done[task]


def test_tasks_have_batches_and_lengths_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int]] = []
    objective = build()
    collate = objective.collate

    def watch(rows: Any, **given: Any) -> Any:
        if given["seed"] == 42:
            seen.append((given["task"], len(rows), max(len(row.input_ids) for row in rows)))
        return collate(rows, **given)

    monkeypatch.setattr(objective, "collate", watch)
    _, states = run(objective, training(tasks=OWN))
    assert [task for task, _, _ in seen] == tasks_of(12)
    assert {size for task, size, _ in seen if task == "detect"} == {8}
    assert {size for task, size, _ in seen if task == "classify"} == {6}
    assert max(longest for task, _, longest in seen if task == "classify") == 12
    assert max(longest for task, _, longest in seen if task == "detect") > 20
    found = Counter(tasks_of(12))
    assert states[12]["positions"] == {"detect": 8 * found["detect"], "classify": 6 * found["classify"]}


def test_length_warm_up_and_a_tasks_own_length_both_hold() -> None:
    config = TrainingConfig(**training(tasks=OWN, length_warmup_steps=5, length_warmup_tokens=20))
    assert [config.longest_row(step, "classify") for step in (0, 4, 5)] == [12, 12, 12]
    assert [config.longest_row(step, "detect") for step in (0, 4, 5)] == [20, 20, None]
    short = TrainingConfig(**training(tasks=OWN, length_warmup_steps=5, length_warmup_tokens=8))
    assert [short.longest_row(step, "classify") for step in (4, 5)] == [8, 12]


def test_figures_are_by_task() -> None:
    objective = build()
    entries, _ = run(objective, training(log_every=6, tasks=OWN))
    order = tasks_of(12)
    for step, split, figures in entries:
        if split == "step":
            task = order[step - 1]
            other = {"detect": "classify", "classify": "detect"}[task]
            assert {f"loss_{task}", f"gradient_norm_{task}", "learning_rate"} <= figures.keys()
            assert f"loss_{other}" not in figures and "loss" not in figures
            assert ("class" in figures) == (task == "classify") == ("mlm" not in figures)
    means = {step: figures for step, split, figures in entries if split == "train"}
    steps = {step: figures for step, split, figures in entries if split == "step"}
    for last in (6, 12):
        for name in ("loss_detect", "loss_classify", "class", "rtd"):
            own = [steps[step][name] for step in range(last - 5, last + 1) if name in steps[step]]
            assert means[last][name] == pytest.approx(np.mean(own))
        for task in ("detect", "classify"):
            assert means[last][f"tokens_per_second_{task}"] > 0
        own_seconds = sum(
            means[last][f"step_seconds_{task}"] * order[last - 6 : last].count(task) for task in set(order)
        )
        assert own_seconds == pytest.approx(6 * means[last]["step_seconds"], rel=0.2)
    held_out = [figures for _, split, figures in entries if split == "held_out"][-1]
    assert set(held_out) == set(objective.held_out_figures)
    whole = held_out["mlm_loss"] + 5.0 * held_out["rtd_loss"] + 2.0 * held_out["class_loss"]
    assert held_out["loss"] == pytest.approx(whole)


def test_tasks_that_report_the_same_figure_are_named() -> None:
    assert joined({"a": {"loss": 1.0, "x": 2.0}, "b": {"loss": 0.5, "y": 3.0}}) == {"loss": 1.5, "x": 2.0, "y": 3.0}
    with pytest.raises(ValueError, match=r"another task than b reports accuracy too"):
        joined({"a": {"loss": 1.0, "accuracy": 0.5}, "b": {"loss": 1.0, "accuracy": 0.6}})


def test_every_task_is_evaluated_on_its_own_held_out_rows() -> None:
    objective, config = build(), TrainingConfig(**training(tasks=OWN, held_out_batches=9))
    held_out = streams(20, 15, seed=7)
    both = evaluate(objective, held_out, config, Worker())
    other = evaluate(objective, {**held_out, "classify": streams(20, 15, seed=8)["classify"]}, config, Worker())
    assert both["mlm_loss"] == other["mlm_loss"] and both["class_loss"] != other["class_loss"]
    rows = [row for row in held_out["classify"].take(0, 12)]  # 15 rows in batches of 6: the last 3 are no batch
    objective.eval()
    loss = 0.0
    for first in (0, 6):
        chosen = [cut(row) for row in rows[first : first + 6]]
        batch = objective.collate(chosen, seed=43, step=first // 6, task="classify")
        loss += float(objective.metrics(batch)["class_loss_sum"])
    assert both["class_loss"] == pytest.approx(loss / 12, rel=1e-6)


def cut(row: Any) -> Any:
    """A row as OWN["classify"] cuts it."""
    ids = row.input_ids
    return row if len(ids) <= 12 else row._replace(input_ids=np.concatenate([ids[:11], ids[-1:]]))


def poison(objective: Any, chosen: Callable[[int, str], bool], how: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Change the loss of the steps (from 0) and tasks that `chosen` says."""
    forward = objective.forward

    def poisoned(batch: Any, share: Any = None) -> dict[str, torch.Tensor]:
        values = forward(batch, share)
        task = objective.task(batch.step, 42)
        return {**values, "loss": how(values["loss"])} if chosen(batch.step, task) else values

    objective.forward = poisoned
    return objective


def test_loss_is_compared_with_those_of_its_own_task() -> None:
    """A class loss of 1.4 becomes 7: far below ELECTRA's 8 to 9, far above the class losses before."""
    steps = 90
    order = tasks_of(steps)
    late = [step for step in range(steps) if order[step] == "classify"][-1]
    settings = training(steps=steps, evaluate_every=steps, checkpoint_every=steps, spike_factor=3.0, batch_size=4)
    objective = poison(build(), lambda step, task: step == late, lambda loss: loss * 5.0)
    entries, states = run(objective, settings)
    assert [step for step, split, _ in entries if split == "skipped"] == [late + 1]
    told = {step: figures for step, split, figures in entries if split == "step"}
    others = [told[step + 1]["loss_detect"] for step in range(steps) if order[step] == "detect"]
    assert told[late + 1]["loss_classify"] < 1.5 * min(others)
    assert states[steps]["skipped"]["classify"]["steps"] == [late + 1]
    assert states[steps]["skipped"]["detect"]["steps"] == []


def test_task_of_few_steps_that_are_all_bad_ends_the_run() -> None:
    """Four of its own steps, though few of the last hundred of all."""
    shares = {"detect_share": 0.9, "classify_share": 0.1}
    objective = poison(build(**shares), lambda step, task: task == "classify", lambda loss: loss * math.nan)
    settings = training(steps=100, max_skipped=3, batch_size=2, evaluate_every=100, checkpoint_every=100)
    with pytest.raises(FloatingPointError, match=r"loss_classify nan.* 4 of the last 4 steps .*max_skipped is 3"):
        run(objective, settings)


def test_run_whose_streams_changed_is_refused_by_name() -> None:
    settings = training(tasks=OWN)
    _, states = run(build(), settings)
    with pytest.raises(ValueError, match=r"on other rows: the rows of task classify is 50 there and 40 here"):
        run(build(), settings, state=states[4], examples=streams(others=40))
    other_order = {**streams(), "detect": stream_of(synthetic_rows(1, 90), 9)}
    with pytest.raises(ValueError, match=r"the seed of task detect is 1 there and 9 here"):
        run(build(), settings, state=states[4], examples=other_order)
    without = {**states[4], "streams": {"detect": states[4]["streams"]["detect"], "old": {}}}
    with pytest.raises(ValueError, match=r"task old is only there; task classify is only here"):
        run(build(), settings, state=without)
    with pytest.raises(ValueError, match=r"another model: .*classify_share is 0\.3 there and 0\.1 here"):
        run(build(classify_share=0.1, detect_share=0.9), settings, state=states[4])


def test_too_few_held_out_rows_are_named_with_their_task() -> None:
    with pytest.raises(ValueError, match=r"held-out text of task classify of 15 rows .* among 16 workers"):
        run(build(), training(), worker=Worker(rank=0, world_size=16))


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (
            {"classify": {"batch_sise": 4}},
            r"unknown key 'batch_sise' in training\.tasks\.classify; did you mean batch_s",
        ),
        ({"classify": {"batch_size": 0}}, r"training\.tasks\.classify\.batch_size is 0; it must be at least 1"),
        ({"classify": {"batch_size": 4, "batch_tokens": 9}}, r"tasks\.classify\.batch_size and .* are both given"),
        ({"classify": {"longest": 2}}, r"training\.tasks\.classify\.longest is 2; it must be at least 3"),
        ({"classify": {"batch_size": "4"}}, r"tasks\.classify\.batch_size is '4'; it must be an integer or left out"),
        ({"classify": 4}, r"training\.tasks\.classify is 4; it must be a section"),
        (4, r"training\.tasks is 4; it must be a section for each task"),
    ],
)
def test_impossible_settings_of_a_task_are_named(tasks: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        training_config(training(tasks=tasks))


def test_learns_both_tasks_on_held_out_rows() -> None:
    settings = training(steps=100, warmup_steps=10, learning_rate=3e-3, evaluate_every=10, log_every=50)
    entries, _ = run(build(), settings)
    held_out = [figures for _, split, figures in entries if split == "held_out"]
    assert held_out[-1]["mlm_loss"] < held_out[0]["mlm_loss"] - 0.3
    assert held_out[-1]["class_loss"] < held_out[0]["class_loss"] - 0.1
