"""The benchmark of bfloat16 against float32 compares curves window by window, and says so when they part."""

import importlib.util
from argparse import Namespace
from itertools import pairwise

import numpy as np

from infra.settings import REPOSITORY

SCRIPT = REPOSITORY / "benchmarks" / "training" / "precision.py"
SPEC = importlib.util.spec_from_file_location("precision_benchmark", SCRIPT)
assert SPEC is not None and SPEC.loader is not None
benchmark = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(benchmark)


def test_rows_follow_a_rule_that_can_be_learnt() -> None:
    rows = benchmark.make_rows(200, 40, 50, seed=0)
    followers: dict[int, set[int]] = {}
    for row in rows:
        ids = row["input_ids"]
        assert len(ids) == 40 and (ids[0], ids[-1]) == (2, 3) and ids[1:-1].min() >= 5 and ids.max() < 50
        for one, other in pairwise(ids[1:-1]):
            followers.setdefault(int(one), set()).add(int(other))
    assert max(map(len, followers.values())) == 4


def test_the_verdict_follows_the_gap() -> None:
    args = Namespace(steps=100, preset="tiny", device="cpu", rows=8, length=32, vocabulary=100, learning_rate=1e-3)
    rng = np.random.default_rng(0)
    fp32 = 60 + rng.normal(size=(100, 5))
    near, far = fp32 + 0.01, fp32 + 3.0
    for bf16, other, verdict in ((near, far, "is within"), (far, near, "is NOT within")):
        curves = {"fp32": fp32, "other": other, "bf16": bf16}
        page = "\n".join(benchmark.report(curves, {"fp32": 1.0}, args))
        assert f"bf16 {verdict} the noise" in page and page.count("| loss |") == 1


def test_a_page_says_when_nothing_was_learnt() -> None:
    args = Namespace(steps=100, preset="tiny", device="cpu", rows=8, length=32, vocabulary=100, learning_rate=1e-3)
    rng = np.random.default_rng(0)
    flat = 6 + rng.normal(size=(100, 5)) / 100
    for fp32, told in ((flat, True), (flat - np.linspace(0, 2, 100)[:, None], False)):
        curves = {"fp32": fp32, "other": fp32 + 0.1, "bf16": fp32 + 0.01}
        assert ("nothing is learnt" in "\n".join(benchmark.report(curves, {"fp32": 1.0}, args))) == told
