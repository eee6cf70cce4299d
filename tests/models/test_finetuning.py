"""Recipe of fine-tuning: steps equal a plain loop, the best weights are kept, runs repeat and stop on request."""

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from models.finetuning import FinetuneConfig, FinetuneResult, State, finetune
from models.heads.examples import HeadExample
from models.heads.task_model import TaskModel
from models.inference import predict

Weights = dict[str, torch.Tensor]


def config(**change: Any) -> FinetuneConfig:
    return FinetuneConfig(**{"epochs": 3, "batch_size": 4, "learning_rate": 1e-3} | change)


def weights(model: TaskModel) -> Weights:
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(first: Weights, second: Weights) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def test_steps_match_a_plain_loop(make_model: Callable, make_examples: Callable) -> None:
    """Full batches: their order within the batch does not matter, so no draw of ours is needed."""
    examples = make_examples("single", count=6)
    model, plain = (make_model("single", dropout=0.0) for _ in range(2))
    settings = config(epochs=10, batch_size=6, ema_decay=0.9, ema_warmup=False, head_learning_rate=1e-2)
    finetune(model, examples, settings)

    def group(parameters: list[Any], rate: float, decay: float) -> dict[str, Any]:
        return {"params": [p for _, p in parameters], "lr": rate, "weight_decay": decay}

    named = list(plain.named_parameters())
    groups = []
    for rate, of_encoder in ((1e-3, True), (1e-2, False)):
        part = [(n, p) for n, p in named if n.startswith("encoder.") == of_encoder]
        spared = [(n, p) for n, p in part if n.endswith("bias") or "norm" in n]
        groups += [group([x for x in part if x not in spared], rate, 0.01)] if of_encoder else []
        groups += [group([x for x in part if not x[0].endswith("bias")], rate, 0.01)] if not of_encoder else []
        groups += [group(spared, rate, 0.0)]
    optimizer = torch.optim.AdamW(groups, eps=1e-8)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step < 1 else (10 - step) / 9)
    average = {name: parameter.detach().clone() for name, parameter in named}
    for _ in range(10):
        plain(plain.collate(examples))["loss"].backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        for name, parameter in named:
            average[name] = 0.9 * average[name] + 0.1 * parameter.detach()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, average[name], rtol=1e-3, atol=1e-5)


def test_every_example_is_seen_once_an_epoch_in_another_order(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("single"), make_examples("single", count=10)
    numbers = {id(example.sequences[0]): number for number, example in enumerate(examples)}
    seen: list[list[int]] = []
    collate = model.collate

    def watch(rows: list[HeadExample], **options: Any) -> Any:
        seen.append([numbers[id(row.sequences[0])] for row in rows])
        return collate(rows, **options)

    model.collate = watch
    assert finetune(model, examples, config(epochs=2)).steps == 6
    assert [len(batch) for batch in seen] == [4, 4, 2] * 2
    first, second = ([number for batch in epoch for number in batch] for epoch in (seen[:3], seen[3:]))
    assert sorted(first) == sorted(second) == list(range(10)) and first != second


def test_run_repeats_bit_for_bit_and_follows_its_seed(make_model: Callable, make_examples: Callable) -> None:
    examples = make_examples("tagging", count=9)
    ends = []
    for seed, noise in ((1, 5), (1, 6), (2, 5)):
        model = make_model("tagging")
        torch.manual_seed(noise)  # the default generator has no part in it
        finetune(model, examples, config(seed=seed))
        ends.append(weights(model))
    assert equal(ends[0], ends[1]) and not equal(ends[0], ends[2])


class Killed(Exception):
    pass


def written(state: State) -> bytes:
    file = io.BytesIO()
    torch.save(dict(state), file)
    return file.getvalue()


@pytest.mark.parametrize("change", [{}, {"ema_decay": None}, {"evaluations_per_epoch": 2, "patience": 4}])
@pytest.mark.parametrize("killed_after", [1, 2])
def test_killed_run_ends_like_an_uninterrupted_one(
    killed_after: int, change: dict[str, Any], make_model: Callable, make_examples: Callable
) -> None:
    """Weights bit for bit, the curve and what is reported; averages, moments, schedule and dropout continue."""
    examples, settings = make_examples("tagging", count=10), config(epochs=4, log_every=2, **change)
    scores = [0.3, 0.6, 0.6, 0.2, 0.4, 0.1, 0.5, 0.1]
    reports: list[list[Any]] = [[], []]
    kept: list[bytes] = []

    def begin(into: list[Any], first: int, **more: Any) -> tuple[TaskModel, FinetuneResult]:
        model, coming = make_model("tagging", dropout=0.3), iter(scores[first:])
        result = finetune(
            model,
            examples,
            settings,
            evaluate=lambda _: next(coming),
            report=lambda step, split, figures: into.append(
                (step, split, {k: v for k, v in figures.items() if k != "sequences_per_second"})
            ),
            **more,
        )
        return model, result

    def save(state: State) -> None:
        kept.append(written(state))
        if len(kept) == killed_after:
            raise Killed

    whole, expected = begin(reports[0], 0)
    with pytest.raises(Killed):
        begin(reports[1], 0, save=save)
    state = torch.load(io.BytesIO(kept[-1]), weights_only=True)
    resumed, found = begin(reports[1], len(state["curve"]), resume=state)
    assert equal(weights(whole), weights(resumed))
    assert (found.curve, found.best, found.steps, found.stopped) == (
        expected.curve, expected.best, expected.steps, expected.stopped
    )  # fmt: skip
    assert reports[0] == reports[1] and found.seconds > state["seconds"]


def test_state_is_saved_between_epochs_and_serves_no_other_run(make_model: Callable, make_examples: Callable) -> None:
    examples = make_examples("single", count=6)
    kept: list[bytes] = []
    finetune(make_model("single"), examples, config(), save=lambda state: kept.append(written(state)))
    states = [torch.load(io.BytesIO(one), weights_only=True) for one in kept]
    assert [state["done"] for state in states] == [2, 4]  # none after the last of three epochs
    others: list[tuple[TaskModel, list[HeadExample], dict[str, Any]]] = [
        (make_model("single"), examples, {"learning_rate": 2e-3}),
        (make_model("single"), examples[:5], {}),
        (make_model("multi_label"), make_examples("multi_label", count=6), {}),
    ]
    for model, given, change in others:
        with pytest.raises(ValueError, match="another model, configuration or number of examples"):
            finetune(model, given, config(**change), resume=states[0])
    with pytest.raises(ValueError, match="another version"):
        finetune(make_model("single"), examples, config(), resume=states[0] | {"format": 0})


def test_best_weights_are_kept_and_are_averages(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("single"), make_examples("single", count=8)
    scores, seen = iter([0.1, 0.7, 0.7, 0.3, 0.2, 0.6]), []
    reports: list[tuple[int, str, Mapping[str, float]]] = []

    def evaluate(given: TaskModel) -> float:
        assert not given.training
        seen.append(weights(given))
        return next(scores)

    result = finetune(
        model,
        examples,
        config(evaluations_per_epoch=2),
        evaluate=evaluate,
        report=lambda step, split, figures: reports.append((step, split, figures)),
    )
    assert not model.training and equal(weights(model), seen[1])
    assert [point.step for point in result.curve] == [1, 2, 3, 4, 5, 6]
    assert [point.score for point in result.curve] == [0.1, 0.7, 0.7, 0.3, 0.2, 0.6]
    assert result.best == result.curve[1] and result.best.epoch == 1.0 and result.stopped == "finished"
    assert [(step, split) for step, split, _ in reports if split == "train"] == [(6, "train")]
    assert [figures["best_score"] for _, split, figures in reports if split == "dev"] == [0.1] + [0.7] * 5
    assert all(np.isfinite(point.train_loss) for point in result.curve)


def test_evaluations_are_spread_over_an_epoch_and_end_with_it(make_model: Callable, make_examples: Callable) -> None:
    examples = make_examples("single", count=7)
    for parts, steps in ((1, [7, 14]), (2, [4, 7, 11, 14]), (3, [3, 5, 7, 10, 12, 14]), (50, list(range(1, 15)))):
        settings = config(epochs=2, batch_size=1, evaluations_per_epoch=parts)
        result = finetune(make_model("single"), examples, settings, evaluate=lambda model: 0.0)
        assert [point.step for point in result.curve] == steps


def test_patience_and_requests_end_a_run(make_model: Callable, make_examples: Callable) -> None:
    examples, scores = make_examples("single", count=8), iter([0.5, 0.6, 0.6, 0.1])

    def run(**options: Any) -> FinetuneResult:
        return finetune(make_model("single"), examples, config(epochs=9, patience=2), **options)

    stopped = run(evaluate=lambda model: next(scores))
    assert (stopped.stopped, stopped.steps, len(stopped.curve)) == ("patience", 8, 4)
    asked = run(should_stop=iter([False, False, True]).__next__)
    assert (asked.stopped, asked.steps, asked.best) == ("asked", 3, None)


def test_warm_averages_learn_in_a_short_run(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("single", dropout=0.0), make_examples("single")
    finetune(model, examples, config(epochs=80, batch_size=6, learning_rate=1e-2))  # 0.9999, warmed up
    assert [int(np.argmax(p)) for p in predict(model, examples)] == [example.target for example in examples]


def test_bad_input_is_named(make_model: Callable, make_examples: Callable) -> None:
    model, examples = make_model("single"), make_examples("single")
    with pytest.raises(ValueError, match="no examples given"):
        finetune(model, [], config())
    with pytest.raises(ValueError, match="example 6 has no target"):
        finetune(model, [*examples, HeadExample(examples[0].sequences)], config())
    with pytest.raises(ValueError, match="example 6: the target must be a whole number from 0 to 2, got 7"):
        finetune(model, [*examples, HeadExample(examples[0].sequences, 7)], config())
    model.classifier.bias.data[0] = torch.nan
    with pytest.raises(FloatingPointError, match=r"the loss became nan; lower learning_rate \(0\.001\)"):
        finetune(model, examples, config(log_every=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs is 0; it must be at least 1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"learning_rate": 0.0}, r"learning_rate is 0\.0; it must be positive"),
        ({"warmup_ratio": 1.0}, r"warmup_ratio is 1\.0"),
        ({"patience": 0}, "patience is 0"),
        ({"precision": "fp16"}, "precision must be fp32 or bf16"),
    ],
)
def test_impossible_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**change)
