"""Speed of a training step: ours against the same objective on transformers' models, at its best and written plainly.

    python benchmarks/training/pretrain_step.py --objective bert electra --rows 4 16 --compare transformers
        --minutes 7.5

A step is collate, forward, backward, clipping and AdamW (fused, on all sides). *Ours* is models/: packed sequences,
gathered positions. Its peers, *gathered* and *plain*, are in `pretrain_peers.py`. All have the same sizes, masks,
dropout rates and optimiser.

The sides take turns in one process. Each round has `ROUND_ROWS` rows, the same for every side. They are drawn as a
data loader that groups by length draws them: `GROUPED` batches' worth of rows, sorted and cut into batches, of which a
round has one from each part of the range of lengths. *Gathered* takes these batches. Ours and *plain* get the same rows
in batches of random rows, as our training has them. Ours and *gathered* keep freed memory
(models/training/allocator.py); *plain* has glibc's defaults, as a script that does nothing about it. With
`--precision faster`, ours and *gathered* have float32 or bfloat16 (autocast), whichever is faster in their first steps,
and *plain* has float32.

Rates are tokens (real ones, over all views) by seconds of the clock and by CPU seconds of the process: median over
rounds, with the smallest and the largest. *Plain*, the slowest, takes part in the first `--plain-rounds` rounds only.
`--memory` measures peak memory separately, in one process per side, since a process's peak cannot be reset.

Model FLOPs utilisation (MFU) is the objective's own FLOPs divided by time and peak; the page prints the formula. Work
repeated to save memory, and work on padding, count as time but not as FLOPs.

    python benchmarks/training/pretrain_step.py --device cuda --preset base --precision bf16 --largest-batch

finds the largest batch of 512-token rows that a device of 24, 40, 80 and 141 GB would hold, by trying whole training
steps under a cap on this device's memory.

Row lengths are those of real text (`LENGTHS`, or --lengths FILE with one number per line); token ids are random,
words are two tokens. Positions are the papers', absolute. Needs only torch and transformers.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.pages import cpu_name, publish, table
from benchmarks.training.pretrain_peers import PEERS, Padded
from models import objectives
from models.training.allocator import keep_freed_memory, return_freed_memory
from models.training.optimisation import clip_gradients, make_optimizer

VOCABULARY = 21_128
PRESETS = {"tiny": "ehealth-tiny", "small": "ehealth-small", "base": "ehealth", "large": "ehealth-large"}
"""Names here, and the files of flows/presets/ whose sizes they are, for every objective."""
PRESET_FOLDER = Path(__file__).parents[2] / "flows" / "presets"
SIDES = ("ours", "gathered", "plain")
ROUND_ROWS = 32
KEEPERS = {"best": "all but plain", "all": "all", "none": "none"}
"""Who keeps freed memory, by the values of --malloc."""
GROUPED = 50
"""Batches whose rows are sorted together, as by transformers' `group_by_length`."""
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

Rows = list[dict[str, np.ndarray]]


def preset_model(size: str, objective: str = "ehealth") -> dict[str, Any]:
    """Return the model settings of an objective at a size: those of eHealth's preset that the objective has.

    The vocabulary has `VOCABULARY` tokens. BERT has no embedding width of its own.
    """
    with (PRESET_FOLDER / f"{PRESETS[size]}.toml").open("rb") as file:
        model: dict[str, Any] = tomllib.load(file)["model"]
    known = objectives.config_keys(objective)
    own = {name: value for name, value in model.items() if name in known}
    return {"vocab_size": VOCABULARY} | own | {"positions": "absolute"}


def make_rows(lengths: Sequence[int] | np.ndarray, seed: int) -> Rows:
    """Return rows of random ordinary tokens of these lengths, in words of two tokens."""
    rng = np.random.default_rng(seed)
    rows = []
    for length in lengths:
        ids = np.concatenate([[2], rng.integers(5, VOCABULARY, length - 2), [3]])
        rows.append({"input_ids": ids, "word_starts": np.arange(1, length - 1, 2)})
    return rows


def round_batches(rows: int, lengths: np.ndarray, seed: int) -> tuple[list[Rows], list[Rows]]:
    """Return the batches of one round, of `rows` rows each: grouped by length, and the same rows at random."""
    rng = np.random.default_rng(seed)
    batches = np.sort(rng.choice(lengths, GROUPED * rows)).reshape(GROUPED, rows)
    count = max(1, ROUND_ROWS // rows)
    parts = np.array_split(np.arange(GROUPED), count)
    grouped = [make_rows(batches[rng.choice(part)], int(rng.integers(2**32))) for part in parts]
    together = [row for batch in grouped for row in batch]
    order = rng.permutation(len(together)).reshape(count, rows)
    return grouped, [[together[index] for index in chosen] for chosen in order]


class Measured(NamedTuple):
    """What steps cost; measurements add up."""

    seconds: float
    cpu_seconds: float
    tokens: int
    flops: float


def total(measured: Sequence[Measured]) -> Measured:
    """Return the sum of measurements."""
    return Measured(*(sum(values) for values in zip(*measured, strict=True)))


class Case(NamedTuple):
    """An objective with its settings, and the number of rows of a batch."""

    objective: str
    config: dict[str, Any]
    rows: int


def make_step(side: str, case: Case, args: argparse.Namespace) -> Callable[[int, Rows, str], Measured]:
    """Return a function (step, rows, precision) that trains once and returns what it cost."""
    torch.manual_seed(0)
    objective = objectives.build(case.objective, case.config)
    module: nn.Module = objective if side == "ours" else PEERS[case.objective](objective.config, side == "gathered")
    module = module.to(args.device).train()
    optimizer = make_optimizer(module)

    def step(number: int, rows: Rows, precision: str) -> Measured:
        began, began_cpu = time.perf_counter(), time.process_time()
        batch = objective.collate(rows, seed=1, step=number)
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=precision == "bf16"):
            found = module((batch if side == "ours" else Padded.of(batch)).to(args.device))
        (found["loss"] if side == "ours" else found).backward()
        clip_gradients(module)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if args.device == "cuda":
            torch.cuda.synchronize()
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
        return Measured(seconds, cpu_seconds, batch.tokens, objective.flops(batch))

    return step


class Sides:
    """The sides of a comparison in one process, each with its weights, its precision and its allocator."""

    def __init__(self, names: Sequence[str], case: Case, args: argparse.Namespace) -> None:
        self._args = args
        self._steps = {name: make_step(name, case, args) for name in names}
        self._fresh = dict.fromkeys(names, True)
        """Sides whose memory is not there yet: a training run asks the system for it once."""
        self._taken = 0
        self.precision = dict.fromkeys(names, "fp32" if args.precision == "faster" else args.precision)

    def choose_precision(self, batch: Rows) -> None:
        """Time a step in both precisions, each after one that is not counted, and keep the faster; not for plain."""
        for side in [name for name in self._steps if name != "plain"]:
            set_allocator(side, self._args)
            seconds = {}
            for precision in ("fp32", "bf16"):
                self._one(side, batch, precision)
                seconds[precision] = self._one(side, batch, precision).seconds
            self.precision[side] = min(seconds, key=lambda name: seconds[name])
            self._fresh[side] = not keeps_memory(side, self._args)

    def turn(self, side: str, batches: Sequence[Rows]) -> Measured:
        """Train a side on these batches, after a step that is not counted if its memory was returned meanwhile."""
        self._prepare(side, max(batches, key=lambda batch: sum(len(row["input_ids"]) for row in batch)))
        found = total([self._one(side, batch, self.precision[side]) for batch in batches])
        print(f"# {side}: {found.tokens} tokens, {found.seconds:.2f} s", file=sys.stderr, flush=True)
        return found

    def _prepare(self, side: str, batch: Rows) -> None:
        set_allocator(side, self._args)
        if keeps_memory(side, self._args):
            if self._fresh[side]:
                self._one(side, batch, self.precision[side])
            self._fresh[side] = False
        else:
            self._fresh = dict.fromkeys(self._fresh, True)

    def _one(self, side: str, batch: Rows, precision: str) -> Measured:
        self._taken += 1
        return self._steps[side](self._taken, batch, precision)


def keeps_memory(side: str, args: argparse.Namespace) -> bool:
    """Return whether a side keeps freed memory: as asked, else all but plain."""
    return args.malloc == "all" or (args.malloc == "best" and side != "plain")


def set_allocator(side: str, args: argparse.Namespace) -> None:
    """Give a side the allocator it runs with."""
    (keep_freed_memory if keeps_memory(side, args) else return_freed_memory)()


class Result(NamedTuple):
    """What was measured of a case: rounds of each side, the precision it chose, and its peak memory in bytes."""

    case: Case
    rounds: dict[str, list[Measured]]
    precision: dict[str, str]
    memory: dict[str, float]


def measure(case: Case, sides: Sequence[str], lengths: np.ndarray, seconds: float, args: argparse.Namespace) -> Result:
    """Return the rounds of a case: as many as fit into `seconds`, warming up included, but no fewer than `--rounds`."""
    deadline = time.monotonic() + seconds
    memory = {side: memory_in_own_process(side, case) for side in sides} if args.memory else {}
    state = Sides(sides, case, args)
    if args.precision == "faster":
        state.choose_precision(round_batches(case.rows, lengths, seed=99)[1][0])
    rounds: dict[str, list[Measured]] = {side: [] for side in sides}
    number, last = 0, 0.0
    while number < args.rounds or time.monotonic() + last < deadline:
        began = time.monotonic()
        grouped, at_random = round_batches(case.rows, lengths, seed=100 + number)
        kept = [side for side in sides if side != "plain"]
        turns = kept[number % len(kept) :] + kept[: number % len(kept)]
        turns += ["plain"] if "plain" in sides and number < args.plain_rounds else []
        for side in turns:
            rounds[side].append(state.turn(side, grouped if side == "gathered" else at_random))
        number += 1
        last = 0.0 if "plain" in turns else time.monotonic() - began
    return Result(case, rounds, state.precision, memory)


def measure_memory(side: str, case: Case, lengths: np.ndarray, args: argparse.Namespace) -> float:
    """Return the peak memory in bytes of two steps: of the process on a CPU, of the allocator on CUDA."""
    set_allocator(side, args)
    step = make_step(side, case, args)
    precision = "fp32" if args.precision == "faster" else args.precision
    for number in range(2):
        grouped, at_random = round_batches(case.rows, lengths, seed=100 + number)
        step(number, (grouped if side == "gathered" else at_random)[-1], precision)
    if args.device == "cuda":
        return float(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def memory_in_own_process(side: str, case: Case) -> float:
    """Return `measure_memory` of a process of its own, with this process's arguments."""
    chosen = ["--memory-of", side, "--objective", case.objective, "--rows", str(case.rows)]
    done = subprocess.run([sys.executable, *sys.argv, *chosen], stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout)["peak_memory"])


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Return the median, with the smallest and the largest where there are several."""
    middle = f"{statistics.median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def ratios(result: Result, side: str, rate: Callable[[Measured], float]) -> list[float]:
    """Return how many times as fast ours was as a side, for each round of that side."""
    return [rate(ours) / rate(other) for ours, other in zip(result.rounds["ours"], result.rounds[side], strict=False)]


def table_rows(result: Result, peaks: dict[str, tuple[float, str]]) -> list[list[str]]:
    """Return the rows of the page's table for a case, one per side."""
    rows = []
    for side, rounds in result.rounds.items():
        rate, peak = statistics.median(one.flops / one.seconds for one in rounds), peaks[result.precision[side]][0]
        cells = [f"{result.case.objective}, {result.case.rows}", side, result.precision[side], str(len(rounds))]
        cells.append(spread([one.tokens / one.seconds for one in rounds]))
        cells.append(spread([one.tokens / one.cpu_seconds for one in rounds]))
        cells += [f"{rate / 1e9:,.1f}", f"{rate / peak:.1%}"]
        rows.append([*cells, f"{result.memory[side] / 1e9:.2f}"] if result.memory else cells)
    return rows


def verdicts(result: Result) -> list[str]:
    """Return how many times as fast ours is as each other side of a case."""
    lines = []
    for side in [name for name in result.rounds if name != "ours"]:
        by_clock = spread(ratios(result, side, lambda one: one.tokens / one.seconds), 2)
        by_cpu = spread(ratios(result, side, lambda one: one.tokens / one.cpu_seconds), 2)
        what = f"{result.case.objective}, {result.case.rows} rows"
        lines.append(f"- {what}: ours is {by_clock} times as fast as {side}, {by_cpu} times per CPU second.")
    return lines


def report(results: Sequence[Result], args: argparse.Namespace) -> list[str]:
    """Return the result as a Markdown page."""
    precisions = sorted({precision for result in results for precision in result.precision.values()})
    peaks = {precision: peak_flops(args.device, precision) for precision in precisions}
    named = "; ".join(f"{peak / 1e9:,.0f} GFLOP/s in {name} ({source})" for name, (peak, source) in peaks.items())
    head = ["objective, rows", "side", "precision", "rounds", "tokens/s", "tokens per CPU s", "GFLOP/s", "MFU"]
    formulas = {result.case.objective: objectives.flops_formula(result.case.objective) for result in results}
    return [
        f"# Training step, size {args.preset}, {args.device}",
        "",
        f"{setting(args)}; dropout {args.dropout}; AdamW (fused) on all sides; freed memory kept by "
        f"{KEEPERS[args.malloc]}{chosen(args)}. Tokens are real tokens over all views; rates are medians over rounds, "
        "with the smallest and the largest. *Gathered* and *plain* are the forms of "
        f"benchmarks/training/pretrain_peers.py on transformers' models. Peak: {named}.",
        "",
        *table(
            [*head, *(["peak memory, GB"] if results[0].memory else [])],
            [row for result in results for row in table_rows(result, peaks)],
        ),
        "",
        *(line for result in results for line in verdicts(result)),
        "",
        "MFU = FLOPs of a step / seconds / peak. FLOPs of a step:",
        "",
        *(f"- {name}: {formula}." for name, formula in formulas.items()),
        "",
    ]


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


def fits_on_device(side: str, case: Case, args: argparse.Namespace) -> bool:
    """Return whether two training steps on rows of full length run within the cap on the device's memory."""
    try:
        step = make_step(side, case, args)
        for number in range(2):  # AdamW's state exists from the second step on
            step(number, make_rows([case.config["max_positions"]] * case.rows, seed=number), args.precision)
        return True
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def largest_batches(sides: Sequence[str], case: Case, args: argparse.Namespace) -> list[str]:
    """Return the Markdown page of `--largest-batch`."""
    whole = torch.cuda.get_device_properties(0).total_memory
    sizes = [size for size in DEVICE_SIZES if size * 1e9 <= whole]
    lines = [
        f"# Largest batch of {case.objective}, size {args.preset}, {args.precision}",
        "",
        f"{setting(args)}; rows of {case.config['max_positions']} tokens, dropout {args.dropout}"
        f"{chosen(args)}. The process's memory was capped at each size, of the {whole / 1e9:.0f} GB that are there; "
        "larger sizes are left out.",
        "",
        "| device, GB | " + " | ".join(f"{side}, rows" for side in sides) + " |",
        "|---" * (1 + len(sides)) + "|",
    ]
    for size in sizes:
        torch.cuda.set_per_process_memory_fraction(size * 1e9 / whole)
        found = [
            largest(lambda rows, side=side: fits_on_device(side, case._replace(rows=rows), args)) for side in sides
        ]
        lines.append(f"| {size} | " + " | ".join(map(str, found)) + " |")
    return [*lines, ""]


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objective", nargs="+", choices=tuple(PEERS), default=["ehealth"])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="small", help="size of every objective")
    parser.add_argument("--compare", choices=("transformers", "gathered", "nothing"), default="nothing")
    parser.add_argument("--rows", type=int, nargs="+", default=[16], help="rows in a batch; eHealth has two views each")
    parser.add_argument("--rounds", type=int, default=3, help="fewest measured rounds of each case")
    parser.add_argument("--plain-rounds", type=int, default=1, help="rounds in which plain takes part")
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="time for all cases; more rounds where there is some"
    )
    parser.add_argument("--lengths", type=Path, help="file with a row length in tokens a line; default: built-in")
    parser.add_argument("--dropout", type=float, default=0.1, help="rate of both dropouts")
    parser.add_argument(
        "--precision",
        choices=("fp32", "bf16", "faster"),
        default="fp32",
        help="bf16: autocast, weights stay fp32; faster: what each side is faster in",
    )
    for name in ("--checkpoint-activations", "--compile-layers"):
        action = argparse.BooleanOptionalAction
        parser.add_argument(
            name, action=action, help="of ours, as models/encoder/network.py says; default: the preset's"
        )
    parser.add_argument("--memory", action="store_true", help="also measure peak memory, in one process per side")
    parser.add_argument("--largest-batch", action="store_true", help="find the largest batch that fits (CUDA only)")
    parser.add_argument(
        "--malloc",
        choices=("best", "all", "none"),
        default="best",
        help="who keeps freed memory: all but plain, all, or none",
    )
    parser.add_argument("--output", type=Path, help="also write the result to this file")
    parser.add_argument("--memory-of", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.largest_batch and args.device != "cuda":
        parser.error(
            "--largest-batch needs --device cuda: it caps the device's memory and tries; a CPU has no such cap"
        )
    if args.largest_batch and args.precision == "faster":
        parser.error("--largest-batch needs --precision fp32 or bf16")
    return args


def settings_of(objective: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return an objective's settings as the command line asks for them."""
    config = preset_model(args.preset, objective) | dict.fromkeys(("hidden_dropout", "attention_dropout"), args.dropout)
    for name in ("checkpoint_activations", "compile_layers"):
        if getattr(args, name) is not None:
            config[name] = getattr(args, name)
    return config


def main() -> None:
    """Measure, print, save."""
    args = parse_arguments()
    cases = [Case(name, settings_of(name, args), rows) for name in args.objective for rows in args.rows]
    lengths = np.loadtxt(args.lengths, dtype=int, ndmin=1) if args.lengths else np.array(LENGTHS)
    lengths = np.minimum(lengths, cases[0].config["max_positions"])
    if args.memory_of:
        print(json.dumps({"peak_memory": measure_memory(args.memory_of, cases[0], lengths, args)}))
        return
    sides = {"transformers": SIDES, "gathered": SIDES[:2], "nothing": SIDES[:1]}[args.compare]
    if args.largest_batch:
        publish(largest_batches(sides, cases[0], args), args.output)
        return
    results, end = [], time.monotonic() + 60 * args.minutes
    for number, case in enumerate(cases):
        print(f"# {case.objective}, {case.rows} rows", file=sys.stderr, flush=True)
        share = max(0.0, end - time.monotonic()) / (len(cases) - number)
        results.append(measure(case, sides, lengths, share, args))
    publish(report(results, args), args.output)


if __name__ == "__main__":
    main()
