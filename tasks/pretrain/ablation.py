"""Stage `ablation`: models that differ only in their pre-training tasks, side by side, as in the objective's paper.

Rows are settings. Columns are the newest held-out figures of pre-training and, if given, scores of fine-tuning. The
artifact has a self-contained `report.html`, `table.md`, `table.json` and `summary.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from models import objectives
from tasks.pretrain.check import check_scores
from tasks.pretrain.model_card import held_out_figures

TEMPLATE = Path(__file__).with_name("ablation.html.j2")


AVERAGE = "Avg."


class AblationParams(StageParams):
    """Title of the page, and scores of fine-tuning."""

    title: str = "Pre-training tasks"
    scores: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="Scores of fine-tuning by setting and task, in percent."
    )


@stage(name="ablation", version=2, params=AblationParams)
def ablation(inputs: Mapping[str, Artifact], params: AblationParams, out: Output) -> None:
    """Tabulate `inputs`, which are `train` artifacts under the names of their settings.

    Raises:
        UserError: the scores name an unknown setting.
    """
    objective = next(iter(inputs.values())).manifest.params["objective"]
    check_scores(objective, params.scores)
    figures = {name: held_out_figures(checkpoint) for name, checkpoint in inputs.items()}
    columns, rows = tabulate(objective, figures, params.scores)
    steps = {name: checkpoint.manifest.counters["steps"] for name, checkpoint in inputs.items()}
    summary = {"figures": figures, "scores": params.scores, "steps": steps}
    source = objectives.ablated_in(objective)
    page = render(TEMPLATE, title=params.title, columns=columns, rows=rows, steps=max(steps.values()), source=source)
    add_report(out, page, summary, rows)
    out.add_bytes("table.md", as_markdown(columns, rows).encode())


def tabulate(
    objective: str, figures: Mapping[str, Mapping[str, float]], scores: Mapping[str, Mapping[str, float]]
) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and the rows of the table, each value as it is shown; a missing one is –.

    Tasks come before the figures of pre-training, as in the paper. If there are several, `AVERAGE` follows them, with a
    value for settings that have a score for each.
    """
    tasks = list(dict.fromkeys(task for of_setting in scores.values() for task in of_setting))
    titles = objectives.tabulated(objective)
    shown = [name for name in titles if any(name in found for found in figures.values())]
    averaged = [AVERAGE] if len(tasks) > 1 else []
    rows = []
    for setting in objectives.ablations(objective):
        if setting.name in figures:  # in the order of the paper, not of the inputs
            row = {"Model": setting.title}
            row |= _task_cells(scores.get(setting.name, {}), tasks)
            row |= {titles[name]: _cell(figures[setting.name].get(name), 4) for name in shown}
            rows.append(row)
    return ["Model", *tasks, *averaged, *(titles[name] for name in shown)], rows


def as_markdown(columns: list[str], rows: list[dict[str, str]]) -> str:
    """Return the table as Markdown."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *([row[name] for name in columns] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _task_cells(scores: Mapping[str, float], tasks: list[str]) -> dict[str, str]:
    cells = {task: _cell(scores.get(task), 1) for task in tasks}
    if len(tasks) > 1:
        whole = all(task in scores for task in tasks)
        cells[AVERAGE] = _cell(sum(scores.values()) / len(tasks) if whole else None, 1)
    return cells


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None or value != value else f"{value:.{digits}f}"
