"""The curves of a training run as one picture: a panel a loss term, and one for accuracy on held-out text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LOSS_TERMS = ("mlm", "rtd", "mts", "csp")
CHANCE = "_chance"


def draw_curves(entries: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the entries of a metrics file (step, split, figures) into a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    losses = series_of(entries, "train")
    accuracies = {n: s for n, s in series_of(entries, "held_out").items() if n.endswith("accuracy")}
    chances = {n: s[-1][1] for n, s in series_of(entries, "held_out").items() if n.endswith(CHANCE)}
    terms = [term for term in LOSS_TERMS if term in losses]
    figure = Figure(figsize=(3.2 * (len(terms) + 1.4), 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(terms) + 1, width_ratios=[1.0] * len(terms) + [1.6])
    for axis, term in zip(axes, terms, strict=False):
        axis.plot(*zip(*losses[term], strict=True), color="tab:blue", linewidth=1)
        axis.set(title=f"{term.upper()} loss (training)", xlabel="step")
    for number, (name, series) in enumerate(sorted(accuracies.items())):
        color = f"C{number}"
        axes[-1].plot(*zip(*series, strict=True), marker=".", color=color, label=name.replace("_", " "))
        chance = chances.get(name.split("_")[0] + CHANCE)
        if chance is not None:
            axes[-1].axhline(chance, color=color, linestyle=":", linewidth=1)
    axes[-1].set(title="Held-out text (dotted: chance)", xlabel="step", ylim=(0, 1))
    axes[-1].legend(fontsize=7)
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def series_of(entries: Sequence[Mapping[str, Any]], split: str) -> dict[str, list[tuple[int, float]]]:
    """Each figure of a split as (step, value) in the order of the entries."""
    series: dict[str, list[tuple[int, float]]] = {}
    for entry in entries:
        if entry["split"] == split:
            for name, value in entry["figures"].items():
                series.setdefault(name, []).append((entry["step"], value))
    return series
