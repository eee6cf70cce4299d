"""The two pictures of the comparison: scores by records of train, and by share of pre-training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.downstream.catalogue import task
from tasks.evaluate.papers.cell import CellScores
from tasks.evaluate.papers.cells import NOT_RUN, Cell, size_name
from tasks.evaluate.papers.models import BY_NAME, FOLLOWED, MILESTONES, MODELS, RANDOM

ORDER = (RANDOM, *(model.name for model in MODELS))


def by_records(scores: Mapping[Cell, CellScores], tasks: Sequence[str], path: Path) -> None:
    """Draw the score of every start over the records of train, a panel for each task, into a PNG."""
    panels = _panels(tasks)
    for panel, name in zip(panels, tasks, strict=True):
        for start in ORDER:
            own = [(cell, found) for cell, found in scores.items() if cell.model == start and cell.task == name]
            points = sorted(
                (cell.records or _all(scores, name), found) for cell, found in own if cell.milestone is None
            )
            if points:
                _line(panel, [place for place, _ in points], [found for _, found in points], start)
        panel.set(xlabel="records of train", title=task(name).title)
        places = {cell.records or _all(scores, name): size_name(cell.records) for cell in scores if cell.task == name}
        if places:
            panel.set_xscale("log")
            panel.set_xticks(list(places), list(places.values()))
            panel.set_xticks([], minor=True)
    _save(panels, path)


def over_time(scores: Mapping[Cell, CellScores], tasks: Sequence[str], path: Path) -> None:
    """Draw the score of followed models over the share of their pre-training, a panel for each task, into a PNG."""
    panels = _panels(tasks)
    for panel, name in zip(panels, tasks, strict=True):
        sizes = {cell.records for cell in scores if cell.milestone is not None and cell.task == name}
        for size in sorted(sizes, key=str):
            floor = scores.get(Cell(RANDOM, name, size))
            for start in FOLLOWED:
                found = {share: scores.get(Cell(start, name, size, share)) for share in MILESTONES}
                found |= {1.0: scores.get(Cell(start, name, size))}
                points = sorted((share, own) for share, own in found.items() if own is not None)
                if not points:
                    continue  # the floor alone is no line of a model
                points = [(0.0, floor), *points] if floor is not None else points
                _line(panel, [share for share, _ in points], [own for _, own in points], start)
        panel.set(xlabel="share of pre-training", title=task(name).title)
    _save(panels, path)


def _all(scores: Mapping[Cell, CellScores], name: str) -> int:
    """Place of "all records" on the axis: beyond the largest number."""
    return 3 * max((cell.records or 0 for cell in scores if cell.task == name), default=1) or 1_000


def _line(panel: Any, places: Sequence[float], found: Sequence[CellScores], start: str) -> None:
    """Draw the means, with a band from the lowest to the highest seed."""
    means = [100 * one.mean for one in found]
    colour = f"C{ORDER.index(start) % 10}"
    style = "--" if start == RANDOM else "-"
    label = "random weights" if start == RANDOM else BY_NAME[start].title
    panel.plot(places, means, style, marker=".", color=colour, label=label)
    lows, highs = ([100 * end(one.test.values()) for one in found] for end in (min, max))
    panel.fill_between(places, lows, highs, color=colour, alpha=0.15, linewidth=0)


def _panels(tasks: Sequence[str]) -> list[Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(3, len(tasks))
    down = -(-len(tasks) // across)
    figure = Figure(figsize=(4.2 * across, 3.2 * down), layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for panel in panels[len(tasks) :]:
        panel.set_visible(False)
    return panels[: len(tasks)]


def _save(panels: Sequence[Any], path: Path) -> None:
    for panel in panels:
        panel.grid(alpha=0.3)
        panel.set_ylabel("test score, %")
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize=7)
        else:
            panel.set(xticks=[], yticks=[])
            panel.text(0.5, 0.5, NOT_RUN, ha="center", va="center", transform=panel.transAxes, color="grey")
    panels[0].figure.savefig(path, dpi=110)
