"""Speed of ELECTRA+EM+PAP's steps by task: tokens per second of PAP steps beside RTD steps of the same model.

    python -m benchmarks.training.pap_step [--size small] [--steps 10] [--precision fp32]

Rows are made up, with the lengths of CMeKG's drugs: titles of 9 tokens with names of 4, 6 values of 5 tokens for each,
and text of 128. Both tasks take turns, so that what else the machine does falls on both. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from models import objectives
from models.objectives.electra_em_pap.values import VALUES, ProductValues
from models.training.allocator import keep_freed_memory

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"num_layers": 2, "hidden_size": 128, "intermediate_size": 512, "num_heads": 4, "generator_divisor": 4},
    "small": {"num_layers": 12, "hidden_size": 256, "intermediate_size": 1024, "num_heads": 4, "generator_divisor": 4},
    "base": {},
}
VOCABULARY = 20_000
ROWS = 16
TEXT_TOKENS = 128
ATTRIBUTES, VALUES_EACH = 6, 2_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    parser.add_argument("--steps", type=int, default=10, help="steps of each task that are timed")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    keep_freed_memory()
    print(f"{given.size}, {given.threads} threads, {given.precision}, torch {torch.__version__}\n")
    print("| task | tokens per step | sequences | seconds per step | tokens/s | model FLOP per token |")
    print("|---|---|---|---|---|---|")
    for task, found in measure(given.size, given.steps, given.precision).items():
        seconds, tokens = np.median(found["seconds"]), np.mean(found["tokens"])
        print(
            f"| {task} | {tokens:,.0f} | {np.mean(found['sequences']):,.0f} | {seconds:.3f} | {tokens / seconds:,.0f} "
            f"| {np.mean(found['flops']) / tokens:,.0f} |"
        )


def measure(size: str, steps: int, precision: str) -> dict[str, dict[str, list[float]]]:
    """Return seconds, tokens, sequences and operations of each timed step, by task; the first step is not timed."""
    torch.manual_seed(0)
    objective = objectives.build("electra_em_pap", {"vocab_size": VOCABULARY, **SIZES[size]}).train()
    optimizer = torch.optim.AdamW(objective.parameters(), lr=1e-4, fused=True)
    found: dict[str, dict[str, list[float]]] = {
        task: {"seconds": [], "tokens": [], "sequences": [], "flops": []} for task in ("rtd", "pap")
    }
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / VALUES).mkdir()
        _values().save(folder / VALUES)
        objective.attach("products", folder)
        for step in range(steps + 1):
            for task, rows in (("rtd", _text()), ("pap", _pairs())):
                batch = objective.collate(rows, seed=1, step=step, task=task)
                began = time.perf_counter()
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
                    objective(batch)["loss"].backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                if step:
                    own = found[task]
                    own["seconds"].append(time.perf_counter() - began)
                    own["tokens"].append(batch.tokens)
                    own["sequences"].append(batch.sequences)
                    own["flops"].append(objective.flops(batch))
    return found


def _values() -> ProductValues:
    generator = np.random.default_rng(0)
    lengths = 2 + generator.poisson(4, ATTRIBUTES * VALUES_EACH) + 1
    borders = np.concatenate([[0], np.cumsum(lengths)])
    ids = generator.integers(5, VOCABULARY, borders[-1]).astype(np.uint32)
    ids[borders[:-1]], ids[borders[1:] - 1] = 2, 3
    stated = np.arange(ATTRIBUTES * VALUES_EACH, dtype=np.uint32)
    return ProductValues(ids, borders, stated, np.arange(ATTRIBUTES + 1) * VALUES_EACH, np.ones_like(stated))


def _pairs() -> list[dict[str, Any]]:
    generator = np.random.default_rng(1)
    rows = []
    for number in range(ROWS):
        title, attribute = generator.integers(5, VOCABULARY, 4 + generator.poisson(5)), number % ATTRIBUTES
        first = attribute * VALUES_EACH
        rows.append(
            {
                "input_ids": np.concatenate([[2], title, [3], generator.integers(5, VOCABULARY, 4), [3]]),
                "second": len(title) + 2,
                "attribute": attribute,
                "values": np.sort(generator.choice(VALUES_EACH, 1 + generator.poisson(5), replace=False)) + first,
            }
        )
    return rows


def _text() -> list[dict[str, Any]]:
    generator = np.random.default_rng(2)
    return [
        {
            "input_ids": np.concatenate([[2], generator.integers(5, VOCABULARY, TEXT_TOKENS - 2), [3]]),
            "word_starts": np.arange(1, TEXT_TOKENS - 1, 2),
            "mentions": np.array([[11, 15, 0, 0], [41, 47, 0, 0]]),
        }
        for _ in range(ROWS)
    ]


if __name__ == "__main__":
    main()
