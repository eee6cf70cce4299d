"""Stage `setting_sweep`: models that differ in one setting side by side, as in SMedBERT's Figures 3 and 4.

Rows are the values of the setting. Columns are the newest held-out figures of pre-training, Acc@1 on the sets of equal
names and scores of fine-tuning, as far as they are given. The picture has a panel for each column. The artifact has
`sweep.png`, `table.md`, `report.html`, `summary.json` and `table.json`.
"""

from __future__ import annotations

import base64
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from models import objectives
from tasks.evaluate.similarity.params import CHANCE
from tasks.pretrain.ablation import as_markdown
from tasks.pretrain.model_card import held_out_figures

TEMPLATE = Path(__file__).with_name("sweep.html.j2")
RUN, SIMILARITY = "run_", "similarity_"
"""Beginnings of the names of inputs; a value's place follows."""
PANELS_A_ROW = 3
SET = "Acc@1 "
"""Beginning of the columns of the sets of equal names: Acc@1 D1."""


class SettingSweepParams(StageParams):
    """The setting, its values, and scores of fine-tuning."""

    key: str = Field(min_length=1, description="dotted key of the preset")
    title: str = Field(default="", description="name of the setting on the axis; the key by default")
    values: tuple[float, ...] = Field(min_length=1)
    scores: tuple[dict[str, float], ...] = Field(
        default=(), description="scores of fine-tuning in percent by task, for each value"
    )


@stage(name="setting_sweep", version=3, params=SettingSweepParams)
def setting_sweep(inputs: Mapping[str, Artifact], params: SettingSweepParams, out: Output) -> None:
    """Tabulate `inputs["run_0"]`, of the stage `train`, for the first value, and so on.

    `inputs["similarity_0"]`, if given, is the model's artifact of `similarity_scores`.
    """
    objective = inputs[f"{RUN}0"].manifest.params["objective"]
    rows = [_row(place, value, inputs, params) for place, value in enumerate(params.values)]
    titles = objectives.tabulated(objective)
    columns = _columns(rows, titles)
    title = params.title or params.key
    table = [{title: f"{row['value']:g}"} | {name: _cell(row["figures"].get(name)) for name in columns} for row in rows]
    with tempfile.TemporaryDirectory(prefix="yiwen-sweep-") as folder:
        picture = Path(folder, "sweep.png")
        draw(rows, columns, title, picture)
        out.add_file("sweep.png", picture)
        shown = base64.b64encode(picture.read_bytes()).decode()
    steps = {inputs[f"{RUN}{place}"].manifest.counters["steps"] for place in range(len(rows))}
    page = render(
        TEMPLATE, title=title, objective=objective, key=params.key, rows=table, picture=shown, steps=max(steps)
    )
    add_report(out, page, {"key": params.key, "rows": rows}, table)
    out.add_bytes("table.md", as_markdown(list(table[0]), table).encode())


def draw(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str, path: Path) -> None:
    """Draw a panel for each column over the values into a PNG, with intervals and samples where there are some."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    down = math.ceil(len(columns) / PANELS_A_ROW)
    across = min(len(columns), PANELS_A_ROW)
    figure = Figure(figsize=(3.6 * across, 2.8 * down), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel, name in zip(panels, columns, strict=False):
        known = [row for row in rows if row["figures"].get(name) is not None]
        values, figures = [row["value"] for row in known], [row["figures"][name] for row in known]
        panel.plot(values, figures, marker="o", linewidth=1.5)
        ends = [row["intervals"].get(name) for row in known]
        if all(ends):
            panel.fill_between(values, [one[0] for one in ends], [one[1] for one in ends], alpha=0.2, linewidth=0)
        panel.set(xlabel=title, xticks=[row["value"] for row in rows])
        panel.set_title(panel_title(name, known), fontsize="medium")
        panel.grid(alpha=0.3)
    for panel in panels[len(columns) :]:
        panel.set_visible(False)
    figure.savefig(path, dpi=130)


def panel_title(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the title of a panel, with the size of a set of names: in 23 samples a difference says nothing."""
    counts = sorted({row["samples"][name] for row in rows if name in row["samples"]})
    asked = " or ".join(f"{count:,}" for count in counts)
    return f"{name} (n = {asked}, chance {CHANCE:g})" if counts else name


def _row(place: int, value: float, inputs: Mapping[str, Artifact], params: SettingSweepParams) -> dict[str, Any]:
    """Return a value with its figures by the titles of their columns, and intervals and samples of some."""
    run = inputs[f"{RUN}{place}"]
    titles = objectives.tabulated(run.manifest.params["objective"])
    figures = {titles[name]: found for name, found in held_out_figures(run).items() if name in titles}
    intervals: dict[str, tuple[float, float]] = {}
    samples: dict[str, int] = {}
    if similarity := inputs.get(f"{SIMILARITY}{place}"):
        for name, one in json.loads(similarity.read_file("summary.json"))["sets"].items():
            if one is not None:
                figures[SET + name.upper()] = one["accuracy"]
                intervals[SET + name.upper()] = (one["low"], one["high"])
                samples[SET + name.upper()] = one["samples"]
    figures |= params.scores[place] if params.scores else {}
    steps = run.manifest.counters["steps"]
    return {"value": value, "figures": figures, "intervals": intervals, "samples": samples, "steps": steps}


def _columns(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> list[str]:
    """Return the titles of all figures that a row has: tasks first, as the paper's figures show them."""
    found = list(dict.fromkeys(name for row in rows for name in row["figures"]))
    held_out = [title for title in dict.fromkeys(titles.values()) if title in found]
    sets = [name for name in found if name.startswith(SET)]
    return [*(name for name in found if name not in (*held_out, *sets)), *sets, *held_out]


def _cell(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:.4f}"
