"""Stage `pap_sweep`: models that differ in ρ, the share of PAP steps, side by side, as in ELECTRA+EM+PAP's Figure 2.

ρ = 0 is the paper's ablation without PAP. All models have had equally many RTD steps, so a larger ρ costs steps of its
own and takes none away. The artifact has the picture `figure2.png`, `table.md`, `report.html`, `summary.json` and
`table.json`.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.evaluate.products.sweep_steps import RANKS, RUN, share_name

TEMPLATE = Path(__file__).with_name("pap_sweep.html.j2")
GROUPS = {"values: all": "equally often", "records: all": "by frequency"}
"""Groups of the figures of `rank_values` that the picture shows, and how their wrong values are drawn."""
REFERENCES: dict[str, Any] = {"by frequency": "--", "chance": ":"}
MEASURES = {"mrr": "MRR", "hits@1": "Hits@1", "hits@10": "Hits@10"}
HELD_OUT = {"mlm_loss": "MLM loss", "rtd_balanced_accuracy": "RTD bal. acc.", "pap_accuracy": "PAP acc."}


class PapSweepParams(StageParams):
    """The shares, and scores of fine-tuning."""

    shares: tuple[float, ...] = Field(min_length=1)
    scores: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="scores of fine-tuning in percent, by share (0.05) and task"
    )


@stage(name="pap_sweep", version=2, params=PapSweepParams)
def pap_sweep(inputs: Mapping[str, Artifact], params: PapSweepParams, out: Output) -> None:
    """Tabulate `inputs["run_0.05"]`, of the stage `train`, and `inputs["ranks_0.05"]`, of `rank_values`, by share."""
    found = [_row(share, inputs, params.scores.get(share_name(share), {})) for share in params.shares]
    tasks = list(dict.fromkeys(task for row in found for task in row["scores"]))
    table = [_shown(row, tasks) for row in found]
    with tempfile.TemporaryDirectory(prefix="yiwen-sweep-") as folder:
        picture = Path(folder, "figure2.png")
        draw(found, tasks, picture)
        out.add_file("figure2.png", picture)
        page = render(TEMPLATE, rows=table, picture=base64.b64encode(picture.read_bytes()).decode())
    add_report(out, page, {"rows": found}, table)
    lines = [list(table[0]), ["---:"] * len(table[0]), *([row[name] for name in table[0]] for row in table)]
    out.add_bytes("table.md", "".join(f"| {' | '.join(line)} |\n" for line in lines).encode())


def draw(rows: Sequence[Mapping[str, Any]], tasks: Sequence[str], path: Path) -> None:
    """Draw what the models know of held-out products over ρ, and what they score on the tasks, into a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shares = [100 * row["share"] for row in rows]
    count = len(GROUPS) + bool(tasks)
    figure = Figure(figsize=(4.6 * count, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, count, squeeze=False)[0]
    for panel, (group, drawn) in zip(panels, GROUPS.items(), strict=False):
        for number, (name, title) in enumerate(MEASURES.items()):
            own = [row["groups"][group] for row in rows]
            panel.plot(shares, [one[name] for one in own], marker="o", color=f"C{number}", label=title)
            for key, style in ((f"popularity_{name}", "--"), (f"{name}_chance", ":")):
                panel.axhline(own[0][key], color=f"C{number}", linestyle=style, linewidth=1)
        panel.set(title=f"Values of held-out titles,\nwrong values drawn {drawn}", ylim=(0, None))
    lines = panels[0].get_legend_handles_labels()[0]
    lines += [Line2D([], [], color="grey", linestyle=style, label=label) for label, style in REFERENCES.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=len(lines), fontsize=9, frameon=False)
    for task in tasks:
        known = [(share, row["scores"][task]) for share, row in zip(shares, rows, strict=True) if task in row["scores"]]
        panels[-1].plot(*zip(*known, strict=True), marker="o", label=task)
    if tasks:
        panels[-1].set(title="Fine-tuned, test", ylabel="F1, percent")
        panels[-1].legend(fontsize=9)
    for panel in panels:
        panel.set(xlabel="ρ, PAP steps in percent", xticks=shares)
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


def _row(share: float, inputs: Mapping[str, Artifact], scores: Mapping[str, float]) -> dict[str, Any]:
    name = share_name(share)
    run = inputs[RUN + name]
    metrics = run.to_table("metrics").to_pylist()
    held_out = [row for row in metrics if row["split"] == "held_out"]
    last = max(row["step"] for row in held_out)
    pap = sum(row["split"] == "step" and row["name"] == "loss_pap" for row in metrics)
    ranks = json.loads(inputs[RANKS + name].read_file("summary.json"))
    return {
        "share": share,
        "steps": run.manifest.counters["steps"],
        "pap_steps": pap,
        "held_out": {row["name"]: row["value"] for row in held_out if row["step"] == last and row["name"] in HELD_OUT},
        "distance": ranks["distance"],
        "groups": {group: ranks["groups"][group] for group in GROUPS},
        "scores": dict(scores),
    }


def _shown(row: Mapping[str, Any], tasks: Sequence[str]) -> dict[str, str]:
    """Return a line of the table, each value as it is shown; a missing one is –."""
    cells = {"ρ": f"{row['share']:.0%}", "RTD steps": f"{row['steps'] - row['pap_steps']:,}"}
    cells["PAP steps"] = f"{row['pap_steps']:,}"
    cells |= {title: _cell(row["held_out"].get(name), 4) for name, title in HELD_OUT.items()}
    values, records = (row["groups"][group] for group in GROUPS)
    cells |= {title: _cell(values[name], 4) for name, title in MEASURES.items()}
    cells |= {"MRR, wrong by frequency": _cell(records["mrr"], 4)}
    return cells | {task: _cell(row["scores"].get(task), 1) for task in tasks}


def _cell(value: float | None, digits: int) -> str:
    return "–" if value is None or value != value else f"{value:.{digits}f}"
