"""Micro-batch of a GPU by its size, and the formula behind it against what autograd keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flows.recipes.pretraining import load_preset
from models import objectives
from models.objectives.electra_em_pap.values import ProductValues
from models.training.config import TrainingConfig, training_config
from models.training.memory import choose_micro_batch, rows_that_fit, state_bytes, usable_memory
from tests.support.training.token_rows import random_rows

GB = 1e9


def on_meta(name: str, **changes: Any) -> Any:
    preset = load_preset(name)
    with torch.device("meta"):
        return objectives.build(preset.objective, preset.model | {"vocab_size": preset.vocabulary.size} | changes)


def settings(name: str, **changes: Any) -> TrainingConfig:
    return training_config(load_preset(name).train.training | changes)


@pytest.mark.parametrize(("size", "alone"), [(24, 29), (40, 51), (80, 106), (141, 190)])
def test_papers_batch_on_gpus_of_four_sizes(size: int, alone: int) -> None:
    """256 rows of 2 x 512 tokens: cut on one GPU, uncut on eight except the smallest."""
    objective, config, memory = on_meta("ehealth"), settings("ehealth"), 0.85 * size * GB
    assert choose_micro_batch(objective, config, 1, memory) == alone
    assert choose_micro_batch(objective, config, 8, memory) == (29 if size == 24 else None)
    full = choose_micro_batch(objective, settings("ehealth", precision="fp32"), 1, memory)
    assert full is not None and 0.4 * alone < full < 0.7 * alone


def test_large_fits_because_it_recomputes_activations() -> None:
    config = settings("ehealth-large")
    with_it = choose_micro_batch(on_meta("ehealth-large"), config, 32, 20 * GB)
    without = choose_micro_batch(on_meta("ehealth-large", checkpoint_activations=False), config, 32, 20 * GB)
    assert with_it is not None and without is not None and with_it > 4 * without


def test_token_batches_are_cut_if_they_do_not_fit() -> None:
    objective = on_meta("ehealth")
    many = settings("ehealth", batch_size=None, batch_tokens=131_072)
    assert choose_micro_batch(objective, many, 1, 68 * GB) == 106
    assert choose_micro_batch(objective, many, 8, 68 * GB) is None


def test_the_task_with_the_largest_rows_decides_if_it_does_not_fit() -> None:
    """A PAP row of 128 tokens brings 24 values of up to 128: 16 of them take more than 128 rows of text."""
    objective, config = on_meta("electra-em-pap"), settings("electra-em-pap")
    state = state_bytes(sum(p.numel() for p in objective.parameters()), config.precision) + objective.workspace_bytes()
    text, pairs = (objective.row_bytes_of(task, config.precision) for task in ("rtd", "pap"))
    assert text == objective.row_bytes(config.precision) and 8 * text < pairs < 25 * text
    assert config.batch_of("pap").batch_size == 16
    assert choose_micro_batch(objective, config, 1, state + 16 * pairs + 1) is None
    assert choose_micro_batch(objective, config, 1, state + 15 * pairs + 1) == 15
    assert choose_micro_batch(objective, config, 2, state + 8 * pairs + 1) is None
    # 100 tokens of short pairs may be 20 pairs: how many is not known, so no batch may be larger than what fits.
    by_tokens = settings("electra-em-pap", tasks={"pap": {"batch_tokens": 100}})
    assert choose_micro_batch(objective, by_tokens, 1, state + 40 * pairs + 1) == 40
    without = on_meta("electra-em-pap", pap_share=0.0)
    assert choose_micro_batch(without, settings("electra-em-pap", tasks={}), 1, state + 128 * text) is None


def test_sharding_leaves_room_for_rows() -> None:
    objective = on_meta("ehealth-large")
    rows = [
        choose_micro_batch(objective, settings("ehealth-large", parallel=kind, batch_size=4096), 8, 20 * GB)
        for kind in ("ddp", "fsdp2")
    ]
    assert rows[0] is not None and rows[1] is not None and rows[1] > rows[0]
    assert state_bytes(100, "bf16") == 1800 and state_bytes(100, "fp32", shards=4) == 400


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.floats(1e5, 1e10))
def test_rows_fill_the_memory_and_not_more(memory: float, state: float, per_row: float) -> None:
    rows = rows_that_fit(memory, state, per_row)
    assert rows >= 1
    assert rows == 1 or state + rows * per_row <= memory * (1 + 1e-9) + per_row * 1e-6
    assert state + (rows + 1) * per_row > memory * (1 - 1e-9)


def test_only_a_gpu_plans_with_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_memory(torch.device("cpu")) is None
    monkeypatch.setattr("models.training.memory.torch.cuda.mem_get_info", lambda device: (79e9, 80e9))
    assert usable_memory(torch.device("cuda")) == 68e9
    monkeypatch.setattr("models.training.memory.torch.cuda.mem_get_info", lambda device: (30e9, 80e9))
    assert usable_memory(torch.device("cuda")) == 30e9


@pytest.mark.parametrize("name", ["ehealth", "electra"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("again", "least"), [(False, 0.65), (True, 0.25)], ids=["kept", "computed again"])
def test_formula_covers_what_autograd_keeps(name: str, precision: str, again: bool, least: float) -> None:
    """Bytes that a row adds to the tensors saved for the backward pass, on a CPU.

    So dropout's masks are missing, and what exists only for a time: the gradients of one layer, and the activations of
    a layer that is recomputed.
    """
    length, model = 64, {"num_layers": 4, "hidden_size": 96, "num_heads": 3, "intermediate_size": 384}
    options = {"vocab_size": 300, "max_positions": length, "hidden_dropout": 0.0, "attention_dropout": 0.0}
    objective = objectives.build(name, {**model, **options, "checkpoint_activations": again})
    kept = [_kept_bytes(objective, random_rows([length] * rows), precision) for rows in (2, 6)]
    measured, estimated = (kept[1] - kept[0]) / 4, objective.row_bytes(precision)
    assert least * estimated < measured < estimated, (measured, estimated)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_formula_covers_a_pair_with_its_longest_values(precision: str, tmp_path: Path) -> None:
    """Every title is as long as the model reads; attribute 0 has 60 values of 50 tokens, attribute 1 has 40 of 4."""
    (tmp_path / "values").mkdir()
    lengths = np.where(np.arange(100) < 60, 50, 4)
    ids, stated = np.full(lengths.sum(), 7, dtype=np.uint32), np.arange(100, dtype=np.uint32)
    borders = np.cumsum([0, *lengths])
    ProductValues(ids, borders, stated, np.array([0, 60, 100]), np.ones_like(stated)).save(tmp_path / "values")
    model = {"num_layers": 4, "hidden_size": 96, "num_heads": 3, "intermediate_size": 384, "max_positions": 64}
    plain = {"vocab_size": 300, "hidden_dropout": 0.0, "attention_dropout": 0.0}
    objective = objectives.build("electra_em_pap", {**model, **plain, "most_values": 20})
    whole = objective.row_bytes_of("pap", precision)
    objective.attach("products", tmp_path)
    pair = {"input_ids": np.full(64, 7), "second": 50, "attribute": 0, "values": np.arange(20)}
    kept = [_kept_bytes(objective, [pair] * rows, precision, task="pap") for rows in (2, 6)]
    measured, estimated = (kept[1] - kept[0]) / 4, objective.row_bytes_of("pap", precision)
    assert 0.65 * estimated < measured < estimated < whole, (measured, estimated, whole)


def _kept_bytes(objective: Any, rows: list[Any], precision: str, **task: str) -> int:
    storages: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    batch = objective.collate(rows, seed=1, step=0, **task)
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"),
    ):
        objective(batch)
    return sum(storage.nbytes() for storage in storages.values())
