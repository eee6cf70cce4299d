"""Stage `ablation`: models that differ only in their pre-training tasks, side by side: eHealth's Table 6.

Rows are settings. Columns are the newest held-out figures of pre-training and, if given, scores of fine-tuning. The
artifact has a self-contained `report.html`, `table.md`, `table.json` and `summary.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field

from infra.artifacts import Artifact
from infra.errors import UserError
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.pretrain.model_card import held_out_figures

TEMPLATE = Path(__file__).with_name("ablation.html.j2")


@dataclass(frozen=True)
class Setting:
    """One row of Table 6: its title there, and the preset keys that make it."""

    name: str
    title: str
    overrides: Mapping[str, Any] = field(default_factory=dict)


NO_CSP = {"model.csp_weight": 0.0}
NO_MTS = {"model.mts_weight": 0.0}

SETTINGS = (
    Setting("full", "The full setting"),
    Setting("without_csp", "w/o CSP", NO_CSP),
    Setting("without_mts", "w/o MTS", NO_MTS),
    Setting("without_csp_mts", "w/o CSP & MTS", NO_CSP | NO_MTS),
)
"""Settings of eHealth, section 4.4. The last is plain ELECTRA."""

HELD_OUT = {
    "mlm_loss": "MLM loss",
    "mlm_accuracy": "MLM acc.",
    "rtd_loss": "RTD loss",
    "rtd_balanced_accuracy": "RTD bal. acc.",
    "mts_accuracy": "MTS acc.",
    "csp_accuracy": "CSP acc.",
}
"""Held-out figures of the table, in its order. A term that is off has none."""

AVERAGE = "Avg."


class AblationParams(StageParams):
    """Title of the page, and scores of fine-tuning."""

    title: str = "Pre-training tasks"
    scores: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="Scores of fine-tuning by setting and task, in percent."
    )


@stage(name="ablation", version=1, params=AblationParams)
def ablation(inputs: Mapping[str, Artifact], params: AblationParams, out: Output) -> None:
    """Tabulate `inputs`, which are `train` artifacts under the names of their settings.

    Raises:
        UserError: the scores name an unknown setting.
    """
    check_scores(params.scores)
    figures = {name: held_out_figures(checkpoint) for name, checkpoint in inputs.items()}
    columns, rows = tabulate(figures, params.scores)
    steps = {name: checkpoint.manifest.counters["steps"] for name, checkpoint in inputs.items()}
    summary = {"figures": figures, "scores": params.scores, "steps": steps}
    page = render(TEMPLATE, title=params.title, columns=columns, rows=rows, steps=max(steps.values()))
    add_report(out, page, summary, rows)
    out.add_bytes("table.md", as_markdown(columns, rows).encode())


def check_scores(scores: Mapping[str, Mapping[str, float]]) -> None:
    """Raise `UserError` if the scores name an unknown setting."""
    known = [setting.name for setting in SETTINGS]
    for name in scores:
        if name not in known:
            raise UserError(f"scores: unknown setting {name!r}. Choose from {', '.join(known)}.")


def tabulate(
    figures: Mapping[str, Mapping[str, float]], scores: Mapping[str, Mapping[str, float]]
) -> tuple[list[str], list[dict[str, str]]]:
    """Return the columns and the rows of the table, each value as it is shown; a missing one is –.

    Tasks come before the figures of pre-training, as in the paper. If there are several, `AVERAGE` follows them, with a
    value for settings that have a score for each.
    """
    tasks = list(dict.fromkeys(task for of_setting in scores.values() for task in of_setting))
    shown = [name for name in HELD_OUT if any(name in found for found in figures.values())]
    averaged = [AVERAGE] if len(tasks) > 1 else []
    rows = []
    for setting in SETTINGS:
        if setting.name in figures:  # in the order of the paper, not of the inputs
            row = {"Model": setting.title}
            row |= _task_cells(scores.get(setting.name, {}), tasks)
            row |= {HELD_OUT[name]: _cell(figures[setting.name].get(name), 4) for name in shown}
            rows.append(row)
    return ["Model", *tasks, *averaged, *(HELD_OUT[name] for name in shown)], rows


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
