"""Stage `ablation`: models that differ only in their pre-training tasks, side by side, as in the objective's paper.

Rows are settings, and what guessing would score. Columns are the newest held-out figures of pre-training and, if given,
scores of fine-tuning. The artifact has a self-contained `report.html`, `table.md`, `table.json` and `summary.json`.
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
from tasks.training.terms import chance_of

TEMPLATE = Path(__file__).with_name("ablation.html.j2")


AVERAGE = "Avg."
GUESSING = "By chance"
"""Title of the row of what guessing would score."""


class AblationParams(StageParams):
    """Title of the page, and scores of fine-tuning."""

    title: str | None = Field(default=None, description="Title of the page; by default the name of the objective.")
    scores: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="Scores of fine-tuning by setting and task, in percent."
    )


@stage(name="ablation", version=3, params=AblationParams)
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
    page = render(
        TEMPLATE,
        title=params.title or f"Pre-training tasks of {objective}",
        columns=columns,
        rows=rows,
        steps=max(steps.values()),
        source=source,
        has_scores=bool(params.scores),
    )
    add_report(out, page, summary, rows)
    out.add_bytes("table.md", as_markdown(columns, rows).encode())


def tabulate(
    objective: str, figures: Mapping[str, Mapping[str, float]], scores: Mapping[str, Mapping[str, float]]
) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and the rows of the table, each value as it is shown; a missing one is –.

    Tasks come before the figures of pre-training, as in the paper. If there are several, `AVERAGE` follows them, with a
    value for settings that have a score for each. The last row, if a figure has a chance level, is `GUESSING`.
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
    chances = {name: _chance(name, figures) for name in shown}
    if any(chance is not None for chance in chances.values()):
        without = dict.fromkeys((*tasks, *averaged), _cell(None, 1))
        rows.append({"Model": GUESSING, **without, **{titles[name]: _cell(chances[name], 4) for name in shown}})
    return ["Model", *tasks, *averaged, *(titles[name] for name in shown)], rows


def _chance(name: str, figures: Mapping[str, Mapping[str, float]]) -> float | None:
    """Return the chance level of a figure, by the first setting that has it: it depends on the text alone."""
    for own in figures.values():
        if name in own and (chance := chance_of(name, own)) is not None:
            return own[chance]
    return None


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
