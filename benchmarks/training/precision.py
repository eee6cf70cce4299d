"""Loss curves of training in bfloat16 and float32, compared with the difference made by another seed.

    python benchmarks/training/precision.py --preset small --steps 500

Three runs on the same stream of synthetic rows: float32, float32 from another seed (other weights, masks, dropout and
samples), and bfloat16 by autocast from the first seed. Two runs that differ by one rounding draw different samples
within a few steps and diverge for good. So steps are not compared one by one: the mean loss of each window of steps is,
and the distance between the two float32 runs is the noise level. Rows follow a rule that can be learnt: each token is
followed by one of four others. On a CPU both precisions use the code path of pre-training there.
"""

import argparse
import datetime
import math
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import cpu_name, publish
from benchmarks.training.pretrain_step import PRESETS, preset_model
from models.objectives import build
from models.training.allocator import keep_freed_memory
from models.training.optimisation import clip_gradients, learning_rate_at, make_optimizer, set_learning_rate

TERMS = ("loss", "mlm", "rtd", "mts", "csp")
SUCCESSORS = 4


def make_rows(count: int, length: int, vocabulary: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Rows of `length` tokens in words of two, each token one of four successors of the token before it."""
    rng = np.random.default_rng(seed)
    ordinary = vocabulary - 5
    rows = []
    for _ in range(count):
        tokens = [int(rng.integers(ordinary))]
        for choice in rng.integers(SUCCESSORS, size=length - 3):
            tokens.append((tokens[-1] * 31 + 7 + 13 * int(choice)) % ordinary)
        rows.append(
            {"input_ids": np.array([2, *(t + 5 for t in tokens), 3]), "word_starts": np.arange(1, length - 1, 2)}
        )
    return rows


def train(config: dict[str, Any], precision: str, seed: int, args: argparse.Namespace) -> np.ndarray:
    """Loss and its terms at every step, (steps, 5)."""
    torch.manual_seed(seed)
    objective = build("ehealth", config).to(args.device).train()
    optimizer = make_optimizer(objective)
    curve = []
    for step in range(args.steps):
        warmup = max(1, args.steps // 10)
        rate = learning_rate_at(step, peak=args.learning_rate, warmup_steps=warmup, total_steps=args.steps)
        set_learning_rate(optimizer, rate)
        rows = make_rows(args.rows, args.length, config["vocab_size"], seed=step)
        batch = objective.collate(rows, seed=seed, step=step).to(args.device)
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=precision == "bf16"):
            losses = objective(batch)
        losses["loss"].backward()
        clip_gradients(objective)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        curve.append([float(losses[name].detach()) for name in TERMS])
        if step % 50 == 0:
            print(f"# {precision} seed {seed} step {step}: {curve[-1][0]:.3f}", file=sys.stderr, flush=True)
    return np.array(curve)


def windows(curve: np.ndarray, size: int) -> np.ndarray:
    """Mean of each window of `size` steps, (windows, 5)."""
    whole = len(curve) // size * size
    return curve[:whole].reshape(-1, size, curve.shape[1]).mean(1)


def report(curves: dict[str, np.ndarray], seconds: dict[str, float], args: argparse.Namespace) -> list[str]:
    """The result as a Markdown page."""
    size = max(1, args.steps // 10)
    fp32, other, bf16 = (windows(curves[name], size) for name in ("fp32", "other", "bf16"))
    gap, noise = np.abs(bf16 - fp32), np.abs(other - fp32)
    device = torch.cuda.get_device_name() if args.device == "cuda" else cpu_name()
    lines = [
        f"# bfloat16 against float32, preset {args.preset}, {args.steps} steps, {args.device}",
        "",
        f"{datetime.date.today()}; {device}; torch {torch.__version__}, Python {platform.python_version()}; "
        f"{args.rows} rows of {args.length} tokens, two views each, vocabulary {args.vocabulary:,}, peak learning rate "
        f"{args.learning_rate:g}. CPU seconds: "
        + ", ".join(f"{name} {value:,.0f}" for name, value in seconds.items())
        + ".",
        "",
        f"Weighted loss, mean of {size} steps each:",
        "",
        "| steps | fp32 | fp32, other seed | bf16 | bf16 - fp32 | other seed - fp32 |",
        "|---|---|---|---|---|---|",
    ]
    for i in range(len(fp32)):
        lines.append(
            f"| {i * size + 1}-{(i + 1) * size} | {fp32[i, 0]:.3f} | {other[i, 0]:.3f} | {bf16[i, 0]:.3f} | "
            f"{bf16[i, 0] - fp32[i, 0]:+.3f} | {other[i, 0] - fp32[i, 0]:+.3f} |"
        )
    lines += [
        "",
        "By term: float32 in the first and the last window, and the distances' root mean square over all windows:",
        "",
        "| term | fp32, first | fp32, last | bf16 - fp32 | other seed - fp32 |",
        "|---|---|---|---|---|",
    ]
    for i, name in enumerate(TERMS):
        ends = f"{fp32[0, i]:.3f} | {fp32[-1, i]:.3f}"
        lines.append(f"| {name} | {ends} | {_rms(gap[:, i]):.4f} | {_rms(noise[:, i]):.4f} |")
    within = _rms(gap[:, 0]) <= _rms(noise[:, 0])
    lines += ["", f"bf16 is {'within' if within else 'NOT within'} the noise of another seed."]
    if not _learnt(fp32, noise):
        lines += [
            "",
            "Behind the first window no term falls by more than that noise: nothing is learnt yet, so this shows that "
            "rounding does no harm near chance, not that both learn alike. Take more steps or a smaller vocabulary.",
        ]
    return [*lines, ""]


def _learnt(fp32: np.ndarray, noise: np.ndarray) -> bool:
    """Whether any term fell, from the second window on, by more than twice what another seed changes."""
    fell = fp32[min(1, len(fp32) - 1)] - fp32[-1]
    return bool((fell[1:] > 2 * np.sqrt((noise[:, 1:] ** 2).mean(0))).any())


def _rms(values: np.ndarray) -> float:
    return math.sqrt(float((values**2).mean()))


def main() -> None:
    """Train three times, compare, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="small")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--length", type=int, default=48, help="tokens of a row")
    parser.add_argument("--vocabulary", type=int, default=2_000)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--output", type=Path, help="also write the result to this file")
    args = parser.parse_args()
    keep_freed_memory()
    config = preset_model(args.preset) | {"vocab_size": args.vocabulary}
    curves, seconds = {}, {}
    for name, precision, seed in (("fp32", "fp32", 0), ("bf16", "bf16", 0), ("other", "fp32", 1)):
        started = time.process_time()
        curves[name] = train(config, precision, seed, args)
        seconds[name] = time.process_time() - started
    publish(report(curves, seconds, args), args.output)


if __name__ == "__main__":
    main()
