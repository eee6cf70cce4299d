"""The benchmark compares like with like, and counts what is computed."""

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.training import pretrain_step
from benchmarks.training.pretrain_peers import PEERS, EHealthPeer, ElectraPeer, Padded, distinct, inverted
from infra.settings import REPOSITORY
from models import objectives
from models.encoder import linear
from models.weights.convert import to_transformers

SCRIPT = REPOSITORY / "benchmarks" / "training" / "pretrain_step.py"
SIZES: dict[str, Any] = {
    "vocab_size": 21_128,
    "hidden_size": 64,
    "num_layers": 2,
    "num_heads": 4,
    "intermediate_size": 128,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert": SIZES,
    "electra": SIZES | {"embedding_size": 32, "generator_divisor": 2},
    "ehealth": SIZES | {"embedding_size": 32, "generator_divisor": 2},
}


def copy_weights(name: str, objective: Any, peer: Any) -> None:
    """Give a peer our weights."""
    if name == "bert":
        peer.model.load_state_dict(objective.exported("pre_training").state, strict=False)
    elif name == "electra":
        peer.discriminator.load_state_dict(objective.exported("pre_training").state, strict=False)
        peer.generator.load_state_dict(objective.exported("generator").state, strict=False)
    else:
        peer.discriminator.load_state_dict(to_transformers(objective.discriminator))
        peer.generator.load_state_dict(to_transformers(objective.generator))
        head, rtd = objective.generator_head, objective.rtd_head
        for ours, theirs in (
            (head.transform, peer.transform[0]),
            (head.norm, peer.transform[2]),
            (rtd.dense, peer.detector[0]),
            (rtd.output, peer.detector[2]),
            (objective.mts_dense, peer.selector),
        ):
            theirs.load_state_dict(ours.state_dict())


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize("name", sorted(PEERS))
def test_all_sides_compute_the_same_loss_and_gradient(
    name: str, gathered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    objective = objectives.build(name, CONFIGS[name] | {"initializer_range": 0.1}).eval()
    peer = PEERS[name](objective.config, gathered).eval()
    copy_weights(name, objective, peer)
    batch = objective.collate(pretrain_step.make_rows([20, 31, 31], seed=0), seed=1, step=0)
    padded, proposed = Padded.of(batch), []
    if name != "bert":
        objective.generator_head.register_forward_hook(lambda module, given, out: proposed.append(out))
    ours = objective(batch)["loss"]

    def draw(probabilities: Tensor, original: Tensor, negatives: int) -> tuple[Tensor, Tensor]:
        """Our samples, at all positions where the peer draws everywhere."""
        places = torch.arange(len(padded.places)) if gathered else padded.places
        sample, others = original.clone(), torch.zeros(len(original), negatives, dtype=torch.int64)
        sample[places] = proposed[0].sample
        if negatives:
            others[places] = proposed[0].negatives
        return sample, others

    monkeypatch.setattr(peer, "draw", draw)
    theirs = peer(padded)
    assert theirs.item() == pytest.approx(ours.item(), rel=1e-5)
    ours.backward()
    theirs.backward()
    table, other = (
        next(p for p in module.parameters() if p.ndim == 2 and len(p) == 21_128) for module in (objective, peer)
    )
    assert table.grad is not None and other.grad is not None
    # transformers' table ignores the gradient of [PAD] as an input, which our rows never have.
    torch.testing.assert_close(table.grad, other.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_the_flop_formula_counts_what_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 3 %: MTS and CSP are left out of the formula, and so are the heads' small layers."""
    monkeypatch.setattr(linear, "HAS_ONEDNN", False)  # torch's counter does not know oneDNN's layer
    objective = objectives.build(name, CONFIGS[name])
    batch = objective.collate(pretrain_step.make_rows([40, 40, 90, 90, 200, 200], seed=0), seed=1, step=0)
    with FlopCounterMode(display=False) as counter:
        objective(batch)["loss"].backward()
    assert counter.get_total_flops() == pytest.approx(objective.flops(batch), rel=0.03)


def test_a_round_has_the_same_rows_for_all_and_groups_them_by_length() -> None:
    lengths = np.array(pretrain_step.LENGTHS)
    grouped, at_random = pretrain_step.round_batches(4, lengths, seed=3)
    rows = [sorted(row["input_ids"].tolist() for batch in batches for row in batch) for batches in (grouped, at_random)]
    assert rows[0] == rows[1] and len(grouped) == len(at_random) == 8

    def padding(batches: list[pretrain_step.Rows]) -> float:
        sizes = [[len(row["input_ids"]) for row in batch] for batch in batches]
        return 1 - sum(map(sum, sizes)) / sum(max(one) * len(one) for one in sizes)

    assert padding(grouped) < 0.05 < 0.2 < padding(at_random)
    # One batch of each part of the range of lengths: a round is like the text.
    means = [np.mean([len(row["input_ids"]) for row in batch]) for batch in grouped]
    assert means == sorted(means)


def test_draws_of_both_forms_follow_the_softmax() -> None:
    torch.manual_seed(0)
    weights = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0]).repeat(40_000, 1)
    running = weights.cumsum(1)
    shares = inverted(running, 1)[:, 0].bincount(minlength=5) / len(weights)
    torch.testing.assert_close(shares, weights[0], atol=0.01, rtol=0.0)
    pairs = distinct(weights, running, torch.full((len(weights),), 1), 2)
    first = pairs[:, 0].bincount(minlength=5) / len(weights)
    torch.testing.assert_close(first, torch.tensor([0.5, 0.0, 0.15, 0.05, 0.0]) / 0.7, atol=0.01, rtol=0.0)
    # The second is drawn from the weights that remain: after token 0, token 2 is three times as likely as token 3.
    behind = pairs[pairs[:, 0] == 0, 1].bincount(minlength=5)
    assert behind[2] / behind[3] == pytest.approx(3.0, rel=0.1) and behind[[0, 1, 4]].sum() == 0


@pytest.mark.parametrize("gathered", [True, False])
def test_negatives_are_distinct_and_never_the_original(gathered: bool) -> None:
    peer = EHealthPeer(objectives.check("ehealth", CONFIGS["ehealth"] | {"vocab_size": 50}), gathered)
    original = torch.randint(0, 50, (300,))
    # A generator that is nearly certain: its draws repeat, and too few of them are distinct.
    certain = torch.softmax(torch.randn(300, 50) * 8, 1)
    sample, negatives = peer.draw(certain, original, 5)
    candidates = torch.cat([original[:, None], negatives], 1)
    assert sample.shape == (300,) and (candidates.sort(1).values.diff(dim=1) > 0).all()


def test_the_electra_peer_has_one_embedding_block() -> None:
    peer = ElectraPeer(objectives.check("electra", CONFIGS["electra"]), gathered=True)
    assert sum(parameter.shape[0] == 21_128 for parameter in peer.parameters()) == 2  # the table, and MLM's bias


def test_the_script_runs_and_writes_its_page(tmp_path: Path) -> None:
    lengths, page = tmp_path / "lengths.txt", tmp_path / "results" / "page.md"
    lengths.write_text("12\n20\n33\n")
    options = ["--preset", "tiny", "--objective", "bert", "--rows", "2", "4", "--rounds", "2", "--lengths", lengths]
    options += ["--compare", "transformers", "--precision", "faster", "--checkpoint-activations", "--output", page]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, SCRIPT, *options], check=True, capture_output=True, env=environment)
    text = page.read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| bert, ")]
    found = [(row[0].removeprefix("| "), row[1], row[3]) for row in rows]
    assert found == [
        (case, side, count)
        for case in ("bert, 2", "bert, 4")
        for side, count in (("ours", "2"), ("gathered", "2"), ("plain", "1"))
    ]
    assert "MFU = FLOPs of a step / seconds / peak" in text and "activations computed again by ours: yes" in text
    assert "bert, 4 rows: ours is" in text and "times as fast as gathered" in text


def test_memory_is_measured_for_both_allocators() -> None:
    args = Namespace(malloc="none", device="cpu", precision="fp32")
    case = pretrain_step.Case("ehealth", CONFIGS["ehealth"], 2)
    assert pretrain_step.measure_memory("gathered", case, np.array([12, 20]), args) > 50e6


@pytest.mark.parametrize("name", sorted(PEERS))
def test_sizes_are_those_of_the_presets_for_every_objective(name: str) -> None:
    assert {"tiny", "small", "base", "large"} <= set(pretrain_step.PRESETS)
    for size in pretrain_step.PRESETS:
        model = pretrain_step.preset_model(size, name)
        described = objectives.describe(name, model)
        assert model["hidden_size"] == pretrain_step.preset_model(size)["hidden_size"]
        assert described.config.positions == "absolute"
    assert pretrain_step.preset_model("base")["hidden_size"] == 768


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 8, 1000])
def test_the_largest_batch_is_found_in_few_tries(limit: int) -> None:
    tried: list[int] = []

    def fits(rows: int) -> bool:
        tried.append(rows)
        return rows <= limit

    assert pretrain_step.largest(fits) == limit
    assert len(tried) == len(set(tried)) <= 2 * limit.bit_length() + 1


def test_the_largest_batch_is_refused_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pretrain_step.py", "--largest-batch"])
    with pytest.raises(SystemExit):
        pretrain_step.main()
    assert "--largest-batch needs --device cuda" in capsys.readouterr().err
