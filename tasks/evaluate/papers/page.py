"""Stage `papers_page`: the comparison as far as it has come, from the artifacts of what was run.

One table has the mean test score and the deviation over seeds of every model and task at one number of records; cells
that were not run say so. Another has the paired tests, a third the cost and the held-out figures of pre-training. Two
pictures show scores by records of train, and by share of pre-training. The artifact has `report.html`, `table.md`,
`summary.json`, `table.json`, `records.png` and `time.png`. Time and memory grow with cells x test records.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pydantic import Field

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.downstream.catalogue import task
from tasks.evaluate.papers.cell import CellScores, read_cell
from tasks.evaluate.papers.cells import NOT_RUN, Cell, size_name
from tasks.evaluate.papers.models import BY_NAME, MODELS, RANDOM
from tasks.evaluate.papers.paired import Difference, paired
from tasks.evaluate.papers.pictures import by_records, over_time
from tasks.pretrain.model_card import held_out_figures

TEMPLATE = Path(__file__).with_name("page.html.j2")
RUN, CELL = "run_", "cell_"
"""Beginnings of the names of inputs; the name of a model or a cell follows."""
MEAN = "mean"


class PapersPageParams(StageParams):
    """What was asked for, whether or not it was run."""

    models: tuple[str, ...] = Field(description="Names of tasks/evaluate/papers/models.py, and random.")
    tasks: tuple[str, ...]
    sizes: tuple[int | None, ...] = Field(description="Records of train; null: all.")
    cells: tuple[Cell, ...] = Field(description="All cells of the comparison.")
    notes: tuple[str, ...] = Field(default=(), description="Sentences about data and limits above the tables.")


@stage(name="papers_page", version=3, params=PapersPageParams)
def papers_page(inputs: Mapping[str, Artifact], params: PapersPageParams, out: Output) -> None:
    """Tabulate the inputs: `run_<model>` of the stage `train`, `cell_<name>` of `papers_cell`."""
    scores = {cell: read_cell(inputs[CELL + cell.name]) for cell in params.cells if CELL + cell.name in inputs}
    runs = {name: inputs[RUN + name] for name in params.models if RUN + name in inputs}
    tables = [(size, score_table(scores, params, size)) for size in params.sizes]
    tests = test_rows(scores, params)
    costs = cost_rows(runs, params.models)
    done = f"{len(scores)} of {len(params.cells)} cells and {len(runs)} of {len(params.models) - 1} models were run."
    with tempfile.TemporaryDirectory(prefix="yiwen-papers-") as folder:
        pictures = {}
        for name, draw in (("records", by_records), ("time", over_time)):
            file = Path(folder, f"{name}.png")
            draw(scores, params.tasks, file)
            out.add_file(file.name, file)
            pictures[name] = base64.b64encode(file.read_bytes()).decode()
    sections = [
        {"title": f"{'All' if size is None else f'{size:,}'} records of train", "rows": rows} for size, rows in tables
    ]
    sections += [{"title": "Paired tests", "rows": tests}, {"title": "Pre-training", "rows": costs}]
    sections = [section for section in sections if section["rows"]]
    notes = (done, *params.notes)
    summary = {"done": done, "cells": {cell.name: _summary(found) for cell, found in scores.items()}}
    page = render(TEMPLATE, sections=sections, notes=notes, pictures=pictures)
    add_report(out, page, summary, tables[0][1])
    out.add_bytes("table.md", markdown(sections, notes).encode())


def score_table(scores: Mapping[Cell, CellScores], params: PapersPageParams, size: int | None) -> list[dict[str, str]]:
    """Return a row per start, the floor first, with a cell per task; the mean only of rows without gaps."""
    rows = []
    for name in (RANDOM, *(model.name for model in MODELS)):
        if name not in params.models:
            continue
        found = {one: scores.get(Cell(name, one, size)) for one in params.tasks}
        row = {"Start": title_of(name)} | {task(one).title: _cell(own) for one, own in found.items()}
        means = [own.mean for own in found.values() if own is not None]
        if len(params.tasks) > 1:
            row[MEAN] = f"{100 * mean(means):.1f}" if len(means) == len(params.tasks) else NOT_RUN
        rows.append(row)
    return rows


def test_rows(scores: Mapping[Cell, CellScores], params: PapersPageParams) -> list[dict[str, str]]:
    """Return a row per test between a model and one that it is compared with, of cells that were run."""
    rows = []
    for model in MODELS:
        for other in model.against:
            for size in params.sizes:
                for name in params.tasks:
                    pair = scores.get(Cell(model.name, name, size)), scores.get(Cell(other, name, size))
                    if pair[0] is None or pair[1] is None:
                        continue
                    found = paired(pair[0], pair[1])
                    if found is not None:
                        rows.append(_test_row(model.title, title_of(other), name, size, found))
    return rows


def cost_rows(runs: Mapping[str, Artifact], models: Sequence[str]) -> list[dict[str, str]]:
    """Return a row per model with its budget, its steps, and its newest held-out figures."""
    rows = []
    for model in (one for one in MODELS if one.name in models):
        row = {"Model": model.title, "from": title_of(model.start or RANDOM)}
        run = runs.get(model.name)
        if run is None:
            rows.append(row | {"cost": NOT_RUN, "steps": "", "held out": ""})
            continue
        figures = held_out_figures(run)
        shown = [
            f"{name.replace('_', ' ')} {value:.3f}"
            for name, value in figures.items()
            if name.endswith(("accuracy", "mlm_loss"))
        ]
        cost = "–"
        if "cpu_seconds" in figures:
            cost = f"{figures['cpu_seconds']:,.0f} CPU s"
        elif "flops" in figures:
            cost = f"{figures['flops']:.2e} FLOPs"
        steps = f"{run.manifest.counters['steps']:,}"
        rows.append(row | {"cost": cost, "steps": steps, "held out": ", ".join(shown)})
    return rows


def title_of(name: str) -> str:
    """Return a start as people read it."""
    return "random weights" if name == RANDOM else BY_NAME[name].title


def markdown(sections: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> str:
    """Return the page as Markdown, without its pictures."""
    parts = [*notes, ""]
    for section in sections:
        names = list(section["rows"][0])
        lines = [names, ["---"] * len(names), *(list(row.values()) for row in section["rows"])]
        parts += [f"## {section['title']}", "", *(f"| {' | '.join(line)} |" for line in lines), ""]
    return "\n".join(parts)


def _cell(found: CellScores | None) -> str:
    """Return mean and deviation over seeds in percent: 61.2 ± 0.8."""
    if found is None:
        return NOT_RUN
    values = [100 * value for value in found.test.values()]
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def _test_row(model: str, other: str, name: str, size: int | None, found: Difference) -> dict[str, str]:
    return {
        "Model": model,
        "against": other,
        "task": task(name).title,
        "records": size_name(size),
        "difference": f"{100 * found.difference:+.1f}",
        "95 %": f"{100 * found.low:+.1f} to {100 * found.high:+.1f}",
        "p (records)": f"{found.p_records:.3f}",
        "p (seeds)": "–" if found.p_seeds != found.p_seeds else f"{found.p_seeds:.3f}",
        "seeds": str(found.seeds),
        "clear": "yes" if found.is_clear else "no",
    }


def _summary(found: CellScores) -> dict[str, Any]:
    return {"setting": found.setting, "test": found.test, "dev": found.dev, "seconds": round(found.seconds, 1)}
