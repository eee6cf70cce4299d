"""The curves of a training run: a picture (`draw_curves`) and one self-contained HTML page (`curves_page`)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from infra.pages import render
from models import objectives
from models.training.config import COSTS
from tasks.training.run_spec import RunSpec
from tasks.training.terms import CHANCE, COUNT, LOSS_OF_TASK, chance_of, title_of

TEMPLATE = Path(__file__).with_name("curves_page.html.j2")

WIDTH, HEIGHT = 320.0, 170.0
"""Size of a panel's drawing area, in SVG units."""
POINTS = 400
"""Most points of a line. More than a screen can show make the page slow and no clearer."""
COLOURS = (1, 2, 3, 4, 5, 6)
"""Numbers of the stylesheet's colours of curves."""

Series = list[tuple[float, float]]

RUN_FIGURES = {
    "learning_rate": "Learning rate",
    "gradient_norm": "Gradient norm before clipping",
    "tokens_per_second": "Tokens per second",
    "sequences_per_second": "Sequences per second",
    "data_wait_share": "Share of the time spent waiting for data",
    "step_seconds": "Seconds per step",
    "model_flops_per_second": "Model FLOP/s",
    "mfu": "Model FLOPs utilisation",
    "peak_memory_bytes": "Peak memory of the first worker, bytes",
    "skipped_steps": "Steps skipped so far",
    "cpu_seconds": "CPU seconds so far",
    "flops": "Model FLOPs so far",
}
"""Titles of the figures of the training split that are not losses. Any other figure is shown under its own name."""

UNITS = {
    "tokens_per_second": "tokens/s",
    "sequences_per_second": "sequences/s",
    "data_wait_share": "share",
    "step_seconds": "seconds",
    "model_flops_per_second": "FLOP/s",
    "mfu": "share",
    "peak_memory_bytes": "bytes",
    "skipped_steps": "steps",
    "gradient_norm": "norm",
    "cpu_seconds": "seconds",
    "flops": "FLOPs",
}
"""Titles of the vertical axes of `RUN_FIGURES`."""

NO_RATES = frozenset(COSTS)
"""Figures of an evaluation that say when it was, not what was found."""

LIMITS = {"share": (0.0, 1.0), "percent": (0.0, 100.0)}
"""Least and greatest value of an axis by its title."""


@dataclass(frozen=True)
class Line:
    """One curve of a panel."""

    name: str
    points: str
    """As SVG has them: `0.0,85.0 160.0,12.5`."""
    colour: int
    """Number of a colour of the stylesheet."""
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One picture: curves over steps. Ticks are (position, label)."""

    title: str
    lines: list[Line]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    x_title: str = "step"
    y_title: str = ""


def draw_curves(entries: Sequence[Mapping[str, Any]], path: Path, terms: Collection[str]) -> None:
    """Draw the entries of a metrics file into a PNG: a panel per loss term, and one for accuracy on held-out text.

    Args:
        entries: mappings with step, split and figures.
        terms: names of the objective's loss terms.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    losses, held_out = series_of(entries, "train"), series_of(entries, "held_out")
    shown = [term for term in terms if term in losses]
    figure = Figure(figsize=(3.2 * (len(shown) + 1.4), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = np.atleast_1d(figure.subplots(1, len(shown) + 1, width_ratios=[1.0] * len(shown) + [1.6]))
    for axis, term in zip(axes, shown, strict=False):
        axis.plot(*zip(*losses[term], strict=True), color="tab:blue", linewidth=1)
        axis.set(title=f"{term.upper()} loss (training)", xlabel="step")
    for number, name in enumerate(sorted(name for name in held_out if name.endswith("accuracy"))):
        color = f"C{number}"
        axes[-1].plot(*zip(*held_out[name], strict=True), marker=".", color=color, label=name.replace("_", " "))
        chance = _chance(name, held_out)
        if chance is not None:
            axes[-1].axhline(chance[-1][1], color=color, linestyle=":", linewidth=1)
    axes[-1].set(title="Held-out text (dotted: chance)", xlabel="step", ylim=(0, 1))
    axes[-1].legend(fontsize=7)
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def series_of(entries: Sequence[Mapping[str, Any]], split: str) -> dict[str, Series]:
    """Return each figure of a split as (step, value), in the order of the entries."""
    left_out = NO_RATES if split == "held_out" else frozenset[str]()
    series: dict[str, Series] = {}
    for entry in entries:
        if entry["split"] == split:
            for name, value in entry["figures"].items():
                if name not in left_out:
                    series.setdefault(name, []).append((entry["step"], value))
    return series


def curves_page(spec: RunSpec, entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of a run as HTML: every curve of its metrics, its last figures and its settings.

    Args:
        entries: those of its metrics file, with step, split and figures.
    """
    from models.training.meter import MFU_FORMULA  # imports torch, which a reused run need not wait for

    held_out = series_of(entries, "held_out")
    return render(
        TEMPLATE,
        name=spec.name,
        spec=spec,
        settings={key: f"{value}" for key, value in {**spec.model, **spec.training}.items()},
        width=WIDTH,
        height=HEIGHT,
        groups=_groups(series_of(entries, "train"), held_out, spec.terms),
        formula=f"{MFU_FORMULA}; model FLOPs of a step = {objectives.flops_formula(spec.objective)}. "
        "Recorded in bf16 on GPUs whose peak is known.",
        skipped=sorted(entry["step"] for entry in entries if entry["split"] == "skipped"),
        table=[
            _row(name, held_out[name], _chance(name, held_out), spec.terms)
            for name in held_out
            if not name.endswith(CHANCE)
        ],
        last=max((entry["step"] for entry in entries), default=0),
    )


def _groups(
    training: Mapping[str, Series], held_out: Mapping[str, Series], terms: Collection[str]
) -> list[tuple[str, list[Panel]]]:
    """Return the headings of the page, each with its panels."""
    losses = [
        name for name in training if name == "loss" or name.startswith(LOSS_OF_TASK) or f"{name}_loss" in held_out
    ]
    rates = [name for name in held_out if not name.endswith(("loss", CHANCE))]
    return [
        (
            "Losses in training, means since the previous entry",
            [panel(_title(name, terms), {name: training[name]}, y_title="loss") for name in losses],
        ),
        (
            "Losses on held-out text",
            [
                panel(title_of(name, terms), {name: held_out[name]}, y_title="loss")
                for name in held_out
                if name.endswith("loss")
            ],
        ),
        (
            "Rates on held-out text (dashed: chance)",
            [
                panel(
                    title_of(name, terms),
                    {name: held_out[name]},
                    _chance(name, held_out),
                    y_title="count" if name.endswith(COUNT) else "share",
                )
                for name in rates
            ],
        ),
        (
            "The run",
            [
                panel(_title(name, terms), {name: series}, y_title=_unit(name))
                for name, series in training.items()
                if name not in losses
            ],
        ),
    ]


def _title(name: str, terms: Collection[str]) -> str:
    """Return the title of a figure of training; the task of one of several is in brackets: `Loss (pap)`."""
    for one, title in {**RUN_FIGURES, "loss": "Loss"}.items():
        if name == one:
            return title
        if name.startswith(f"{one}_"):
            return f"{title} ({name.removeprefix(f'{one}_')})"
    return title_of(name, terms)


def _unit(name: str) -> str:
    return next((unit for one, unit in UNITS.items() if name == one or name.startswith(f"{one}_")), "")


def panel(
    title: str,
    series: Mapping[str, Series],
    chance: Series | None = None,
    *,
    x_title: str = "step",
    y_title: str = "",
) -> Panel:
    """Return a panel of series of (step, value) on common axes. Values that are not finite are left out."""
    finite = {name: _finite(points) for name, points in series.items()}
    dashed = {"chance": _finite(chance)} if chance else {}
    drawn = {name: points for name, points in {**finite, **dashed}.items() if points}  # a loss may be NaN throughout
    xs = [x for points in drawn.values() for x, _ in points] or [0]
    ys = [y for points in drawn.values() for _, y in points] or [0.0]
    bottom, top = LIMITS.get(y_title, (-math.inf, math.inf))
    if min(ys) >= 0:
        bottom = 0.0
    if max(ys) > top * (1 + 1e-9):  # a figure that is none of these, such as an objective's count, keeps its own axis
        top = math.inf
    # A flat line has room above and below it, but no share is above 1, and no number of steps below 0.
    y_labels = [y for y in ticks(min(ys), max(ys)) if bottom <= y <= top * (1 + 1e-9)]
    low, high = min(*y_labels, *ys), max(*y_labels, *ys)
    left, right = min(xs), max(max(xs), min(xs) + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        return WIDTH * (x - left) / (right - left), HEIGHT * (high - y) / (high - low)

    lines = [
        Line(
            name, " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in _thinned(points)), colour, name in dashed
        )
        for (name, points), colour in zip(drawn.items(), COLOURS, strict=False)
    ]
    # Ticks of y reach beyond the values; those of x would leave room beside the curve, and steps are whole numbers.
    x_labels = [x for x in ticks(left, right) if left <= x <= right]
    return Panel(
        title,
        lines,
        [(place(x, low)[0], f"{x:,.0f}") for x in x_labels if x == int(x)],
        [(place(left, y)[1], _tick(y)) for y in y_labels],
        x_title,
        y_title,
    )


def _tick(value: float) -> str:
    """Return a tick's label of at most eight characters: 0.25, 12,500, 1.5 T."""
    for power, letter in ((15, "P"), (12, "T"), (9, "G"), (6, "M")):
        if 10.0**power <= abs(value) < 10.0 ** (power + 4):
            return f"{value / 10.0**power:.4g} {letter}"
    if abs(value) >= 1_000_000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Return round numbers, evenly spaced, from at or below `low` to at or above `high`: 0, 0.5, 1 for 0.1 to 0.9."""
    if high <= low:  # a flat line: room above and below it
        low, high = low - (abs(low) or 1.0) / 2, low + (abs(low) or 1.0) / 2
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _finite(points: Series) -> Series:
    """Return the points whose values are finite: the rate of nothing is NaN."""
    return [(x, y) for x, y in points if math.isfinite(y)]


def _thinned(points: Series) -> Series:
    """Return every n-th point and the last, at most `POINTS` + 1."""
    stride = -(-len(points) // POINTS)
    return points if stride < 2 else [*points[:-1:stride], points[-1]]


def _chance(name: str, held_out: Mapping[str, Series]) -> Series | None:
    """Return the curve of what guessing would score, for an accuracy that has one."""
    chance = chance_of(name, held_out)
    return None if chance is None else held_out[chance]


def _row(name: str, series: Series, chance: Series | None, terms: Collection[str]) -> dict[str, Any]:
    finite = [(value, -step) for step, value in series if math.isfinite(value)]
    best = (min if name.endswith("loss") else max)(finite, default=None)
    return {
        "figure": title_of(name, terms),
        "last": f"{series[-1][1]:,.0f}" if name.endswith(COUNT) else f"{series[-1][1]:.4f}",
        "best": f"{best[0]:.4f} (step {-best[1]:,})" if best and name.endswith(("loss", "accuracy")) else "",
        "chance": f"{chance[-1][1]:.4f}" if chance else "",
    }
