"""Speed and memory of an eHealth training step: ours against the same objective written plainly on transformers.

    python benchmarks/pretrain_step.py --device cpu --preset small --compare transformers

A step is collate, forward, backward, clipping and AdamW. *Ours* is models/: packed sequences, gathered positions.
*Plain* is the obvious first version: two `ElectraModel`s on batches padded to their longest row, logits of the whole
vocabulary at every position, sample and negatives by `torch.multinomial` from their softmax. Both get the same rows,
masking, sizes and dropout, and take turns in one process. Each has the allocator it would run with: ours keeps freed
memory (models/training/allocator.py), plain has glibc's defaults; with --malloc both plain keeps it too, and needs much
more memory. A turn of ours begins with a step that is not counted, because the other's turn returned the memory to the
system, which never happens in a training run. Peak memory is measured separately, in one process each, since a
process's peak cannot be reset.

Model FLOPs utilisation (MFU) is the objective's own FLOPs divided by time and peak; the page prints the formula. Work
repeated to save memory, and work on padding, count as time but not as FLOPs.

    python benchmarks/pretrain_step.py --device cuda --preset base --precision bf16 --largest-batch

finds the largest batch of 512-token rows that a device of 24, 40, 80 and 141 GB would hold, by trying whole training
steps under a cap on this device's memory.

Row lengths are those of real text (`LENGTHS`, or --lengths FILE with one number per line); token ids are random,
words are two tokens. Needs only torch and transformers.
"""

import argparse
import datetime
import gc
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from transformers import ElectraConfig, ElectraModel

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.pages import cpu_name, publish
from models.batch import MaskedBatch
from models.objectives import build
from models.objectives.ehealth.config import EHealthConfig
from models.objectives.ehealth.objective import EHealth
from models.training.allocator import keep_freed_memory, return_freed_memory
from models.training.optimisation import clip_gradients, make_optimizer
from models.weights.convert import electra_config

VOCABULARY = 21_128
PRESETS = {"tiny": "ehealth-tiny", "small": "ehealth-small", "base": "ehealth", "large": "ehealth-large"}
"""Names here, and the files of flows/presets/ whose model they are."""
PRESET_FOLDER = Path(__file__).parents[1] / "flows" / "presets"
# fmt: off
LENGTHS = (
    34, 35, 37, 42, 47, 52, 57, 62, 66, 71, 76, 80, 84, 88, 93, 97, 102, 107, 112, 117, 122, 128, 133, 139, 146,
    153, 161, 168, 176, 183, 191, 200, 209, 217, 225, 234, 243, 253, 266, 282, 300, 321, 346, 375, 403, 431, 453,
    466, 475, 481, 486, 490, 493, 496, 499, 501, 503, 505, 506, 508, 509, 510, 511, 512,
)
# fmt: on
"""Tokens of a row, [CLS] and [SEP] included: the middles of 64 equally frequent classes. Measured on 138,741
documents (69 MB) of the project's shared data: dialogues, answers, abstracts, trial criteria, classical books. They
were split at sentence ends into segments of at most 510 characters, those under 32 dropped as in the paper, a
character counted as a token: 88,018 segments, mean 256, median 204. Sixteen drawn at random and padded to their
longest are half padding.
"""

PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12}
"""Dense bf16 FLOP/s by the makers' data sheets, for devices whose name holds the key."""

DEVICE_SIZES = (24, 40, 80, 141)
"""GB (10^9 bytes) of the devices that `--largest-batch` asks about."""
MFU_FORMULA = (
    "MFU = FLOPs of a step / seconds / peak; FLOPs = sum over both networks of 6 T (n (4 D^2 + 2 D F) + [E != D] E D) "
    "+ 12 n D sum(L^2), + 6 T (m E (V + G) + D^2), with T tokens and L lengths over both views, n layers, D width, F "
    "FFN, E embedding, m share masked, V vocabulary, G the generator's width"
)


def preset_model(name: str) -> dict[str, Any]:
    """The section `model` of a preset, with a vocabulary of `VOCABULARY`."""
    with (PRESET_FOLDER / f"{PRESETS[name]}.toml").open("rb") as file:
        model: dict[str, Any] = tomllib.load(file)["model"]
    return {"vocab_size": VOCABULARY} | model


class PlainEHealth(nn.Module):
    """Eq. 1 to 8 of eHealth on padded transformers models, everything computed everywhere."""

    def __init__(self, config: EHealthConfig) -> None:
        super().__init__()
        self.config = config
        self.discriminator = ElectraModel(ElectraConfig(**electra_config(config.discriminator)))
        self.generator = ElectraModel(ElectraConfig(**electra_config(config.generator)))
        self.generator.embeddings = self.discriminator.embeddings
        width, embedding = config.hidden_size, config.discriminator.embedding_width
        self.transform = nn.Sequential(
            nn.Linear(config.generator.hidden_size, embedding), nn.GELU(), nn.LayerNorm(embedding, eps=1e-12)
        )
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.detector = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
        self.selector = nn.Linear(width, embedding) if width != embedding else nn.Identity()

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """The weighted loss for padded tensors (S, L)."""
        ids, mask, labels = batch["input_ids"], batch["attention_mask"], batch["labels"]
        table = self.discriminator.embeddings.word_embeddings.weight
        hidden_g = self.generator(ids, attention_mask=mask)[0]
        logits = F.linear(self.transform(hidden_g), table, self.bias).float()
        mlm = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        original = labels.clamp(min=0)
        sample, negatives = self.draw(logits.detach(), original)
        corrupted = torch.where(labels >= 0, sample, ids)
        replaced = (labels >= 0) & (corrupted != original)
        hidden = self.discriminator(corrupted, attention_mask=mask)[0]
        detection = self.detector(hidden)[:, :, 0].float()
        rtd = F.binary_cross_entropy_with_logits(detection, replaced.float(), reduction="none")
        candidates = F.embedding(torch.cat([original[:, :, None], negatives], 2), table)
        scores = torch.einsum("slke,sle->slk", candidates, self.selector(hidden)).float()
        target = torch.where(replaced, 0, -100)
        mts = F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=-100)
        unit = F.normalize(hidden[:, 0].float(), dim=1)
        cosines = (unit @ unit.t() / self.config.csp_temperature).fill_diagonal_(-torch.inf)
        csp = F.cross_entropy(cosines, torch.arange(len(unit), device=unit.device) ^ 1)
        return mlm + 50 * (rtd * mask).sum() / mask.sum() + 20 * mts + csp

    @torch.no_grad()
    def draw(self, logits: Tensor, original: Tensor) -> tuple[Tensor, Tensor]:
        """Sample (S, L) and negatives (S, L, k) from the softmax at every position."""
        probabilities = torch.softmax(logits, -1)
        sample = torch.multinomial(probabilities.flatten(0, 1), 1)
        probabilities.scatter_(2, original[:, :, None], 0.0)
        negatives = torch.multinomial(probabilities.flatten(0, 1), self.config.mts_negatives)
        return sample.view(original.shape), negatives.view(*original.shape, -1)


def pad(batch: MaskedBatch) -> dict[str, Tensor]:
    """Our masked batch as padded (S, L) tensors with labels of -100 where nothing was selected."""
    lengths = list(batch.layout.lengths)
    labels = torch.full_like(batch.input_ids, -100).index_copy(0, batch.selected, batch.original)
    mask = torch.ones_like(batch.input_ids)
    parts = {"input_ids": (batch.input_ids, 0), "labels": (labels, -100), "attention_mask": (mask, 0)}
    return {
        name: nn.utils.rnn.pad_sequence(list(values.split(lengths)), batch_first=True, padding_value=fill)
        for name, (values, fill) in parts.items()
    }


def make_rows(count: int, lengths: np.ndarray, seed: int) -> list[dict[str, np.ndarray]]:
    """Rows of random ordinary tokens with lengths drawn from `lengths`, in words of two tokens."""
    rng = np.random.default_rng(seed)
    rows = []
    for length in rng.choice(lengths, count):
        ids = np.concatenate([[2], rng.integers(5, VOCABULARY, length - 2), [3]])
        rows.append({"input_ids": ids, "word_starts": np.arange(1, length - 1, 2)})
    return rows


def make_step(side: str, config: dict[str, Any], args: argparse.Namespace) -> Callable[[int, list[Any]], int]:
    """A function (step, rows) that trains once and returns the number of real tokens, both views counted."""
    torch.manual_seed(0)
    objective: EHealth = build("ehealth", config)
    module: nn.Module = (objective if side == "ours" else PlainEHealth(objective.config)).to(args.device).train()
    optimizer = make_optimizer(module) if side == "ours" else torch.optim.AdamW(module.parameters(), lr=2e-4, eps=1e-6)
    autocast = torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.precision == "bf16")

    def step(number: int, rows: list[Any]) -> int:
        batch = objective.collate(rows, seed=1, step=number)
        with autocast:
            if side == "ours":
                loss = module(batch.to(args.device))["loss"]
            else:
                loss = module({name: value.to(args.device) for name, value in pad(batch).items()})
        loss.backward()
        clip_gradients(module)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if args.device == "cuda":
            torch.cuda.synchronize()
        return batch.tokens

    return step


def flops_of_step(config: EHealthConfig, lengths: np.ndarray) -> float:
    """FLOPs that the objective needs, forward and backward, for these row lengths: 6 a matrix weight and token,
    both networks, both views; 12 L D a token and layer for attention; the vocabulary at 15 % of the tokens.
    """
    tokens, squares = 2.0 * lengths.sum(), 2.0 * (lengths.astype(float) ** 2).sum()
    total = 0.0
    for encoder in (config.generator, config.discriminator):
        width, projection = encoder.hidden_size, encoder.embedding_width
        weights = encoder.num_layers * (4 * width * width + 2 * width * encoder.intermediate_size)
        weights += projection * width if projection != width else 0
        total += 6 * weights * tokens + 12 * encoder.num_layers * width * squares
    head = config.discriminator.embedding_width * (config.vocab_size + config.generator.hidden_size)
    return total + 6 * tokens * (config.mask_probability * head + config.hidden_size**2)


def peak_flops(device: str, precision: str) -> tuple[float, str]:
    """FLOP/s that the device could do, and where the number comes from."""
    if device == "cuda" and precision == "bf16":
        name = torch.cuda.get_device_name()
        for key, value in PEAKS.items():
            if key in name:
                return value, "data sheet"
    from models.encoder.linear import matmul_transposed

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    size = 4096 if device == "cuda" else 2048
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    best = 0.0
    for _ in range(4):
        started = time.perf_counter()
        matmul_transposed(a, b)
        if device == "cuda":
            torch.cuda.synchronize()
        best = max(best, 2 * size**3 / (time.perf_counter() - started))
    return best, f"measured {precision} product of {size}"


class Measured(NamedTuple):
    """One step of one side."""

    seconds: float
    tokens: int
    flops: float


def measure_time(
    sides: list[str], config: dict[str, Any], lengths: np.ndarray, args: argparse.Namespace
) -> dict[str, list[Measured]]:
    """Each side's steps over the same batches, taken in turns, after one step each for warming up."""
    steps = {side: make_step(side, config, args) for side in sides}
    found: dict[str, list[Measured]] = {side: [] for side in sides}
    for number in range(-1, args.steps):
        rows = make_rows(args.rows, lengths, seed=100 + number)
        flops = flops_of_step(EHealthConfig(**config), np.array([len(row["input_ids"]) for row in rows]))
        for side, step in steps.items():
            set_allocator(side, args)
            if side == "ours":
                step(max(number, 0), rows)  # the other side's turn gave the memory back; no run would
            started = time.perf_counter()
            tokens = step(max(number, 0), rows)
            seconds = time.perf_counter() - started
            print(f"# step {number} {side}: {tokens} tokens, {seconds:.2f} s", file=sys.stderr, flush=True)
            if number >= 0:
                found[side].append(Measured(seconds, tokens, flops))
    return found


def set_allocator(side: str, args: argparse.Namespace) -> None:
    """Give a side the allocator it runs with: `keep_freed_memory` for ours, glibc's defaults for plain, or as asked."""
    keeps = args.malloc == "both" or (args.malloc == "ours" and side == "ours")
    (keep_freed_memory if keeps else return_freed_memory)()


def measure_memory(side: str, config: dict[str, Any], lengths: np.ndarray, args: argparse.Namespace) -> float:
    """Peak memory in bytes of two steps on the first two batches: of the process on a CPU, of the allocator on
    CUDA.
    """
    set_allocator(side, args)
    step = make_step(side, config, args)
    for number in range(2):
        step(number, make_rows(args.rows, lengths, seed=100 + number))
    if args.device == "cuda":
        return float(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def memory_in_own_process(side: str) -> float:
    """`measure_memory` in a process of its own, with this process's arguments."""
    command = [sys.executable, *sys.argv, "--memory-of", side]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout)["peak_memory"])


def report(found: dict[str, list[Measured]], memory: dict[str, float], args: argparse.Namespace) -> list[str]:
    """The result as a Markdown page. Rates are medians over steps, which a busy machine disturbs less than means."""
    peak, source = peak_flops(args.device, args.precision)
    lines = [
        f"# eHealth training step, preset {args.preset}, {args.device}, {args.precision}",
        "",
        f"{setting(args)}; {args.rows} rows, {args.steps} steps, dropout {args.dropout}, "
        f"freed memory kept by {args.malloc}{chosen(args)}. Tokens are real tokens over both views; rates are medians "
        f"over steps. Peak {peak / 1e9:,.0f} GFLOP/s ({source}). {MFU_FORMULA}.",
        "",
        "| step | tokens/s | sequences/s | GFLOP/s | MFU | peak memory, GB |",
        "|---|---|---|---|---|---|",
    ]
    speeds = {}
    for side, steps in found.items():
        speeds[side] = statistics.median(step.tokens / step.seconds for step in steps)
        sequences = statistics.median(2 * args.rows / step.seconds for step in steps)
        rate = statistics.median(step.flops / step.seconds for step in steps)
        lines.append(
            f"| {side} | {speeds[side]:,.0f} | {sequences:.1f} | {rate / 1e9:,.1f} | {rate / peak:.1%} | "
            f"{memory[side] / 1e9:.2f} |"
        )
    if "plain" in found:
        share = memory["ours"] / memory["plain"]
        ratio = speeds["ours"] / speeds["plain"]
        lines += ["", f"Ours is {ratio:.1f} times as fast, with {share:.2f} of the memory."]
    return [*lines, ""]


def setting(args: argparse.Namespace) -> str:
    """Date, device and versions, for the page."""
    threads = torch.get_num_threads()
    device = torch.cuda.get_device_name() if args.device == "cuda" else f"{cpu_name()}, {threads} threads"
    return (
        f"{datetime.date.today()}; {device}; torch {torch.__version__}, transformers {transformers.__version__}, "
        f"Python {platform.python_version()}"
    )


def chosen(args: argparse.Namespace) -> str:
    """The options of ours that differ from the preset's, for the page."""
    names = {"checkpoint_activations": "activations computed again", "compile_layers": "layers compiled"}
    return "".join(
        f", {words} by ours: {'yes' if getattr(args, key) else 'no'}"
        for key, words in names.items()
        if getattr(args, key) is not None
    )


def largest(fits: Callable[[int], bool]) -> int:
    """The largest n >= 0 with fits(n), where fits(n) implies fits(n - 1): by doubling, then halving the gap."""
    below, above = 0, 1
    while fits(above):
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if fits(middle) else (below, middle)
    return below


def fits_on_device(side: str, config: dict[str, Any], rows: int, args: argparse.Namespace) -> bool:
    """Whether two training steps on `rows` rows of full length run within the cap on the device's memory."""
    full = np.array([config["max_positions"]])
    try:
        step = make_step(side, config, args)
        for number in range(2):  # AdamW's state exists from the second step on
            step(number, make_rows(rows, full, seed=number))
        return True
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def largest_batches(sides: list[str], config: dict[str, Any], args: argparse.Namespace) -> list[str]:
    """The Markdown page of `--largest-batch`."""
    total = torch.cuda.get_device_properties(0).total_memory
    sizes = [size for size in DEVICE_SIZES if size * 1e9 <= total]
    lines = [
        f"# Largest batch of eHealth, preset {args.preset}, {args.precision}",
        "",
        f"{setting(args)}; rows of {config['max_positions']} tokens, two views each, dropout {args.dropout}"
        f"{chosen(args)}. The process's memory was capped at each size, of the {total / 1e9:.0f} GB that are there; "
        "larger sizes are left out.",
        "",
        "| device, GB | " + " | ".join(f"{side}, rows" for side in sides) + " |",
        "|---" * (1 + len(sides)) + "|",
    ]
    for size in sizes:
        torch.cuda.set_per_process_memory_fraction(size * 1e9 / total)
        found = [largest(lambda rows, side=side: fits_on_device(side, config, rows, args)) for side in sides]
        lines.append(f"| {size} | " + " | ".join(map(str, found)) + " |")
    return [*lines, ""]


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="small")
    parser.add_argument("--compare", choices=("transformers", "nothing"), default="nothing")
    parser.add_argument("--rows", type=int, default=16, help="rows in a batch; each is two sequences")
    parser.add_argument("--steps", type=int, default=3, help="measured steps of each side, after one for warming up")
    parser.add_argument("--lengths", type=Path, help="file with a row length in tokens a line; default: built-in")
    parser.add_argument("--dropout", type=float, default=0.1, help="rate of both dropouts")
    parser.add_argument(
        "--precision", choices=("fp32", "bf16"), default="fp32", help="bf16: autocast, weights stay fp32"
    )
    for name in ("--checkpoint-activations", "--compile-layers"):
        action = argparse.BooleanOptionalAction
        parser.add_argument(
            name, action=action, help="of ours, as models/encoder/network.py says; default: the preset's"
        )
    parser.add_argument("--largest-batch", action="store_true", help="find the largest batch that fits (CUDA only)")
    parser.add_argument("--malloc", choices=("ours", "both", "default"), default="ours", help="who keeps freed memory")
    parser.add_argument("--output", type=Path, help="also write the result to this file")
    parser.add_argument("--memory-of", choices=("ours", "plain"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.largest_batch and args.device != "cuda":
        parser.error(
            "--largest-batch needs --device cuda: it caps the device's memory and tries; a CPU has no such cap"
        )
    return args


def main() -> None:
    """Measure, print, save."""
    args = parse_arguments()
    config = preset_model(args.preset) | {"hidden_dropout": args.dropout, "attention_dropout": args.dropout}
    for name in ("checkpoint_activations", "compile_layers"):
        if getattr(args, name) is not None:
            config[name] = getattr(args, name)
    lengths = np.loadtxt(args.lengths, dtype=int, ndmin=1) if args.lengths else np.array(LENGTHS)
    lengths = np.minimum(lengths, config["max_positions"])
    if args.memory_of:
        print(json.dumps({"peak_memory": measure_memory(args.memory_of, config, lengths, args)}))
        return
    sides = ["ours", "plain"] if args.compare == "transformers" else ["ours"]
    if args.largest_batch:
        publish(largest_batches(sides, config, args), args.output)
        return
    memory = {side: memory_in_own_process(side) for side in sides}
    page = report(measure_time(sides, config, lengths, args), memory, args)
    publish(page, args.output)


if __name__ == "__main__":
    main()
