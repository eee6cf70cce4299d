"""The benchmark compares like with like, and counts what is computed."""

import importlib.util
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from infra.settings import REPOSITORY
from models.encoder import linear
from models.objectives import build
from models.objectives.ehealth.config import EHealthConfig
from models.weights.convert import to_transformers

SCRIPT = REPOSITORY / "benchmarks" / "pretrain_step.py"
CONFIG: dict[str, Any] = {
    "vocab_size": 21_128,
    "hidden_size": 64,
    "num_layers": 2,
    "num_heads": 4,
    "intermediate_size": 128,
    "embedding_size": 32,
    "generator_divisor": 2,
}


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("pretrain_step", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_sides_compute_the_same_loss(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    objective = build("ehealth", CONFIG | {"initializer_range": 0.1}).eval()
    plain = benchmark.PlainEHealth(objective.config).eval()
    plain.discriminator.load_state_dict(to_transformers(objective.discriminator))
    plain.generator.load_state_dict(to_transformers(objective.generator))
    head, rtd = objective.generator_head, objective.rtd_head
    for ours, theirs in (
        (head.transform, plain.transform[0]),
        (head.norm, plain.transform[2]),
        (rtd.dense, plain.detector[0]),
        (rtd.output, plain.detector[2]),
        (objective.mts_dense, plain.selector),
    ):
        theirs.load_state_dict(ours.state_dict())
    batch = objective.collate(benchmark.make_rows(3, np.array([20, 31, 31]), seed=0), seed=1, step=0)
    result, padded = objective._run(batch), benchmark.pad(batch)
    places = padded["labels"] >= 0
    sample = padded["input_ids"].masked_scatter(places, result.generator.sample)
    negatives = torch.zeros(*places.shape, 5, dtype=torch.long)
    negatives[places] = result.generator.negatives
    monkeypatch.setattr(plain, "draw", lambda logits, original: (sample, negatives))
    assert plain(padded).item() == pytest.approx(objective(batch)["loss"].item(), rel=1e-5)


def test_the_flop_formula_counts_what_runs(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 3 %: the selected share differs from 15 %, and MTS and CSP are left out of the formula."""
    monkeypatch.setattr(linear, "HAS_ONEDNN", False)  # torch's counter does not know oneDNN's layer
    objective = build("ehealth", CONFIG)
    rows = benchmark.make_rows(8, np.array([40, 90, 200]), seed=0)
    batch = objective.collate(rows, seed=1, step=0)
    with FlopCounterMode(display=False) as counter:
        objective(batch)["loss"].backward()
    formula = benchmark.flops_of_step(EHealthConfig(**CONFIG), np.array([len(row["input_ids"]) for row in rows]))
    assert counter.get_total_flops() == pytest.approx(formula, rel=0.03)


def test_plain_draws_distinct_negatives_without_the_original(benchmark: ModuleType) -> None:
    plain = benchmark.PlainEHealth(EHealthConfig(**CONFIG | {"vocab_size": 50}))
    original = torch.randint(0, 50, (2, 9))
    sample, negatives = plain.draw(torch.randn(2, 9, 50), original)
    candidates = torch.cat([original[:, :, None], negatives], 2).flatten(0, 1)
    assert sample.shape == (2, 9) and (candidates.sort(1).values.diff(dim=1) > 0).all()


def test_the_script_runs_and_writes_its_page(tmp_path: Path) -> None:
    lengths, page = tmp_path / "lengths.txt", tmp_path / "results" / "page.md"
    lengths.write_text("12\n20\n33\n")
    options = ["--preset", "tiny", "--rows", "2", "--steps", "1", "--lengths", lengths, "--output", page]
    options += ["--precision", "bf16", "--checkpoint-activations"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, SCRIPT, *options], check=True, capture_output=True, env=environment)
    text = page.read_text()
    assert "| ours |" in text and "tokens/s" in text and "MFU = FLOPs of a step / seconds / peak" in text
    assert "cpu, bf16" in text and "activations computed again by ours: yes" in text


def test_memory_is_measured_for_both_allocators(benchmark: ModuleType) -> None:
    args = Namespace(malloc="default", device="cpu", precision="fp32", rows=2)
    assert benchmark.measure_memory("ours", CONFIG, np.array([12, 20]), args) > 50e6


def test_presets_are_those_of_the_flows(benchmark: ModuleType) -> None:
    assert {"tiny", "small", "base", "large"} <= set(benchmark.PRESETS)
    for name in benchmark.PRESETS:
        with torch.device("meta"):
            build("ehealth", benchmark.preset_model(name))
    assert benchmark.preset_model("base")["hidden_size"] == 768


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 8, 1000])
def test_the_largest_batch_is_found_in_few_tries(limit: int, benchmark: ModuleType) -> None:
    tried: list[int] = []

    def fits(rows: int) -> bool:
        tried.append(rows)
        return rows <= limit

    assert benchmark.largest(fits) == limit
    assert len(tried) == len(set(tried)) <= 2 * limit.bit_length() + 1


def test_the_largest_batch_is_refused_on_a_cpu(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pretrain_step.py", "--largest-batch"])
    with pytest.raises(SystemExit):
        benchmark.main()
    assert "--largest-batch needs --device cuda" in capsys.readouterr().err
