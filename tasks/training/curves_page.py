"""The page about a training run: one HTML file with every curve of its metrics, which needs nothing from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.pages import render
from models import objectives
from models.training.meter import MFU_FORMULA
from tasks.training.curves import CHANCE, series_of
from tasks.training.run_spec import RunSpec

TEMPLATE = Path(__file__).with_name("curves_page.html.j2")

WIDTH, HEIGHT = 320.0, 170.0
"""Of a panel's drawing area, in SVG units."""
POINTS = 400
"""Most points of a line: more than a screen shows make the page slow and no clearer."""
COLOURS = ("#2f6f8f", "#c8553d", "#588157", "#8d6a9f", "#b08900", "#4a4e69")

Series = list[tuple[int, float]]

RUN_FIGURES = {
    "learning_rate": "Learning rate",
    "gradient_norm": "Gradient norm before clipping",
    "tokens_per_second": "Tokens a second",
    "sequences_per_second": "Sequences a second",
    "data_wait_share": "Share of the time spent waiting for data",
    "step_seconds": "Seconds a step",
    "model_flops_per_second": "Model FLOP/s",
    "mfu": "Model FLOPs utilisation",
    "peak_memory_bytes": "Peak memory of the first worker, bytes",
    "skipped_steps": "Steps skipped so far",
}
"""Figures of the training split that are no losses; others that turn up get their name as title."""


@dataclass(frozen=True)
class Line:
    """One curve of a panel: its points as SVG wants them."""

    name: str
    points: str
    colour: str
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One picture: curves over steps, with ticks as (position, label)."""

    title: str
    lines: list[Line]
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]


def curves_page(spec: RunSpec, entries: Sequence[Mapping[str, Any]]) -> str:
    """The page of a run from the entries of its metrics file (step, split, figures)."""
    training, held_out = series_of(entries, "train"), series_of(entries, "held_out")
    losses = [name for name in training if name == "loss" or f"{name}_loss" in held_out]
    others = [name for name in training if name not in losses]
    chances = {name: series for name, series in held_out.items() if name.endswith(CHANCE)}
    rates = [name for name in held_out if not name.endswith(("_loss", CHANCE))]
    return render(
        TEMPLATE,
        name=spec.name,
        spec=spec,
        settings=_settings(spec),
        width=WIDTH,
        height=HEIGHT,
        groups=[
            (
                "Losses in training, means between two entries",
                [panel(_title(name), {name: training[name]}) for name in losses],
            ),
            (
                "Losses on held-out text",
                [panel(_title(name), {name: held_out[name]}) for name in held_out if name.endswith("_loss")],
            ),
            (
                "Rates on held-out text (dashed: chance)",
                [panel(_title(name), {name: held_out[name]}, _chance(name, chances)) for name in rates],
            ),
            ("The run", [panel(RUN_FIGURES.get(name, _title(name)), {name: training[name]}) for name in others]),
        ],
        formula=f"{MFU_FORMULA}; model FLOPs of a step = {objectives.flops_formula(spec.objective)}. "
        "Recorded in bf16 on GPUs whose peak is known.",
        skipped=sorted(entry["step"] for entry in entries if entry["split"] == "skipped"),
        table=[_row(name, held_out[name], _chance(name, chances)) for name in held_out if not name.endswith(CHANCE)],
        last=max((entry["step"] for entry in entries), default=0),
    )


def panel(title: str, series: Mapping[str, Series], chance: Series | None = None) -> Panel:
    """A panel of series of (step, value) on common axes; what is not finite is left out."""
    finite = {name: [(x, y) for x, y in points if math.isfinite(y)] for name, points in series.items()}
    dashed = {"chance": chance} if chance else {}
    drawn = {name: points for name, points in {**finite, **dashed}.items() if points}
    xs = [x for points in drawn.values() for x, _ in points] or [0]
    ys = [y for points in drawn.values() for _, y in points] or [0.0]
    y_labels = ticks(min(ys), max(ys))
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
    x_labels = [x for x in ticks(left, right) if left <= x <= right]
    return Panel(
        title,
        lines,
        [(place(x, low)[0], f"{x:,.0f}") for x in x_labels if x == int(x)],
        [(place(left, y)[1], f"{y:,.0f}" if abs(y) >= 1_000 else f"{y:.4g}") for y in y_labels],
    )


def ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Round numbers, evenly spaced, the first at or under `low` and the last at or over `high`."""
    if high <= low:
        low, high = low - (abs(low) or 1.0) / 2, low + (abs(low) or 1.0) / 2
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _thinned(points: Series) -> Series:
    """Every n-th point and the last, so that at most `POINTS` + 1 are drawn."""
    stride = -(-len(points) // POINTS)
    return points if stride < 2 else [*points[:-1:stride], points[-1]]


def _chance(name: str, chances: Mapping[str, Series]) -> Series | None:
    return chances.get(name.split("_")[0] + CHANCE) if name.endswith("accuracy") else None


def _row(name: str, series: Series, chance: Series | None) -> dict[str, Any]:
    finite = [(value, -step) for step, value in series if math.isfinite(value)]
    best = (min if name.endswith("loss") else max)(finite, default=None)
    return {
        "figure": _title(name),
        "last": f"{series[-1][1]:.4f}",
        "best": f"{best[0]:.4f} (step {-best[1]:,})" if best and name.endswith(("loss", "accuracy")) else "",
        "chance": f"{chance[-1][1]:.4f}" if chance else "",
    }


def _settings(spec: RunSpec) -> dict[str, str]:
    return {key: f"{value}" for key, value in {**spec.model, **spec.training}.items()}


def _title(name: str) -> str:
    words = name.replace("_", " ")
    for term in ("mlm", "rtd", "mts", "csp"):
        words = words.replace(term, term.upper())
    return words[:1].upper() + words[1:]
