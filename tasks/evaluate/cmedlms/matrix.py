"""Stage `network_matrix`: networks x embeddings on several tasks, in the shape of CMedLMs' Tables 7 to 9, with curves.

The published rows are beside, although they are of other records, so only their order can be compared. A small table
says how many of each embedding's tokens have no vector of their own. The artifact has `report.html`, `table.md`,
`summary.json`, `table.json`, and for each task a picture of the best networks' dev scores by epoch (Figures 4 to 6).
"""

from __future__ import annotations

import base64
import csv
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from infra.artifacts import Artifact
from infra.pages import add_report, render
from infra.stage import Output, StageParams, stage
from tasks.downstream.catalogue import task
from tasks.evaluate.cmedlms.tables import EMBEDDINGS, TABLES
from tasks.finetune.networks import FIGURES

TEMPLATE = Path(__file__).with_name("matrix.html.j2")
TOKENS = (
    "Tokens that each embedding reads, and the share of them without a vector of their own. They get the mean vector "
    "of a file, or what bare embeddings and encoders have for unknown tokens. Where windows of a long text overlap, "
    "a token counts in each. In classification, neighbouring characters without a vector are one token."
)
PUBLISHED = Path(__file__).with_name("published.csv")
"""The cells of Tables 7 to 9, transcribed; some of the paper's parameters are misprints."""
SHOWN = 3
"""Networks of each embedding in a picture."""
NAMES = {
    "bilstm_crf": "BiLSTM-CRF", "cnn_lstm": "CNN-LSTM", "bilstm": "BiLSTM", "bigru": "BiGRU", "cnn": "CNN",
    "staresgru_cnn_crf": "StaResGRU-CNN-CRF", "staresgru_cnn": "StaResGRU-CNN", "cnn_gru": "CNN-GRU", "dpcnn": "DPCNN",
    "dropout_bigru": "Dropout-BiGRU", "dropout_avrnn": "Dropout-AVRNN", "avrnn": "AVRNN", "avcnn": "AVCNN",
}  # fmt: skip
"""Networks as the paper writes them."""


class Cell(BaseModel):
    """One task with one embedding."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    embedding: str


class NetworkMatrixParams(StageParams):
    """What the inputs are, and how the page describes the run."""

    cells: dict[str, Cell] = Field(min_length=1)
    """By the name of the input, an artifact of the stage `networks`."""
    notes: tuple[str, ...] = ()
    """Sentences about data and limits, shown above the tables."""


@stage(name="network_matrix", version=2, params=NetworkMatrixParams)
def network_matrix(inputs: Mapping[str, Artifact], params: NetworkMatrixParams, out: Output) -> None:
    """Tabulate the artifacts that `params.cells` names."""
    found: dict[str, list[dict[str, Any]]] = {}
    tokens: dict[str, list[dict[str, str]]] = {}
    for name, cell in params.cells.items():
        rows = json.loads(inputs[name].read_file(FIGURES))
        counted = _tokens(cell.embedding, rows[0]["split"], inputs[name].manifest.counters)
        tokens.setdefault(cell.task, []).append(counted)
        found.setdefault(cell.task, []).extend({"embedding": cell.embedding, **row} for row in rows)
    published = _published()
    tables = {name: [_shown(row, published, name) for row in rows] for name, rows in found.items()}
    pictures = {}
    with tempfile.TemporaryDirectory(prefix="yiwen-matrix-") as folder:
        for name, rows in found.items():
            picture = Path(folder, f"curves_{name}.png")
            draw(rows, f"{task(name).title}: {task(name).metric} on dev", picture)
            out.add_file(picture.name, picture)
            pictures[name] = base64.b64encode(picture.read_bytes()).decode()
    sections = [
        {
            "title": task(name).title,
            "about": _about(name, found[name]),
            "rows": rows,
            "tokens": tokens[name],
            "best": max(range(len(rows)), key=lambda place: found[name][place]["f1"]),
            "picture": pictures[name],
        }
        for name, rows in tables.items()
    ]
    page = render(TEMPLATE, sections=sections, notes=params.notes, about_tokens=TOKENS)
    flat = [{"Task": task(name).title, **row} for name, rows in tables.items() for row in rows]
    add_report(out, page, {"tasks": found, "tokens": tokens, "notes": params.notes}, flat)
    out.add_bytes("table.md", _markdown(sections, params.notes).encode())


def draw(rows: Sequence[Mapping[str, Any]], title: str, path: Path) -> None:
    """Draw the dev score by epoch of each embedding's best networks into a PNG (Figures 4 to 6)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    embeddings = list(dict.fromkeys(row["embedding"] for row in rows))
    columns = min(3, len(embeddings))
    lines = -(-len(embeddings) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.1 * lines + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False, sharey=True).flat
    colours = {network: f"C{number}" for number, network in enumerate(dict.fromkeys(row["network"] for row in rows))}
    for panel, embedding in zip(panels, embeddings, strict=False):
        own = sorted((row for row in rows if row["embedding"] == embedding), key=lambda row: -row["f1"])[:SHOWN]
        for row in own:
            epochs, scores = zip(*row["curve"], strict=True)
            label = f"{NAMES.get(row['network'], row['network'])} ({row['f1']:.3f})"
            panel.plot(epochs, scores, marker=".", color=colours[row["network"]], label=label)
        panel.set(title=EMBEDDINGS.get(embedding, embedding), xlabel="epoch", ylim=(0, 1.02))
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7, loc="best")
    for panel in list(figure.axes)[len(embeddings) :]:
        panel.set_visible(False)
    figure.suptitle(f"{title} (in brackets: F1 of the table)")
    figure.savefig(path, dpi=110)


def _published() -> dict[tuple[str, str, str], dict[str, str]]:
    with PUBLISHED.open(encoding="utf-8", newline="") as lines:
        return {(row["task"], row["embedding"], row["network"]): row for row in csv.DictReader(lines)}


def _shown(row: Mapping[str, Any], published: Mapping[tuple[str, str, str], Mapping[str, str]], name: str) -> dict:
    """Return a line of the table, each value as it is shown; – where the paper has no such cell."""
    table = TABLES.get(name)
    paper = published.get((table.published, row["embedding"], row["network"])) if table is not None else None
    cells = {
        "Embedding": EMBEDDINGS.get(row["embedding"], row["embedding"]),
        "Model": NAMES.get(row["network"], row["network"]),
        "Params": f"{row['parameters'] / 1e6:.2f}M",
        "P": f"{row['precision']:.4f}",
        "R": f"{row['recall']:.4f}",
        "F1": f"{row['f1']:.4f}",
        "s/epoch": f"{row['seconds_per_epoch']:.1f}",
        "Loss/Valid": f"{row['train_loss']:.2f}/{row['dev_loss']:.2f}",
        "Epochs": f"{row['epochs']:g}",
    }
    shown = {
        "parameters": "Params",
        "precision": "P",
        "recall": "R",
        "f1": "F1",
        "seconds": "s/epoch",
        "losses": "Loss/Valid",
    }
    return cells | {f"paper {title}": "–" if paper is None else paper[key] for key, title in shown.items()}


def _tokens(embedding: str, split: str, counters: Mapping[str, int]) -> dict[str, str]:
    """Return how many tokens of train and of the scored split there are, and the share of them without a vector."""
    cells = {"Embedding": EMBEDDINGS.get(embedding, embedding)}
    for one in ("train", split):
        total = counters[f"tokens_{one}"]
        share = counters[f"tokens_without_vector_{one}"] / max(total, 1)
        cells |= {f"Tokens of {one}": f"{total:,}", f"without a vector, {one}": f"{share:.2%}"}
    return cells


def _about(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    spec, table = task(name), TABLES.get(name)
    split, records = rows[0]["split"], rows[0]["records"]
    beside = "" if table is None else f" Beside it, {table.title} of the paper, on other records."
    return (
        f"Scores of {records:,} records of {split}; the best seed by {spec.metric} on dev.{beside} {spec.note}".strip()
    )


def _markdown(sections: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> str:
    parts = [f"{note}\n" for note in notes]
    for section in sections:
        tables = [_table(section["rows"], 2), f"{TOKENS}\n", _table(section["tokens"], 1)]
        parts.append("\n".join([f"## {section['title']}\n", f"{section['about']}\n", *tables]))
    return "\n".join(parts)


def _table(rows: Sequence[Mapping[str, str]], texts: int) -> str:
    """Return a table in Markdown whose first `texts` columns are texts."""
    names = list(rows[0])
    lines = [names, [*["---"] * texts, *["---:"] * (len(names) - texts)], *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
