"""Page of the downstream tasks, from the catalogue."""

from __future__ import annotations

import math

from docs.generate.markdown import code, prose, table
from tasks.downstream.catalogue import suite, suites
from tasks.downstream.spec import TaskSpec


def page() -> str:
    """Return the page, a table per suite."""
    parts = [
        "# Tasks",
        "Every entry of `tasks/downstream/catalogue/`, by suite; `finetune/NAME` trains on one. How "
        "files are read and checked is on the page about downstream tasks.",
    ]
    head = ("task", "in papers", "answer", "files", "fields", "metric", "tokens", "grid", "train, dev, test", "note")
    for name in suites():
        parts.append(f"## {name}\n\n{table(head, [_row(spec) for spec in suite(name)])}")
    return "\n\n".join(parts) + "\n"


def _row(spec: TaskSpec) -> tuple[str, ...]:
    grid = spec.grid
    settings = math.prod(map(len, (grid.batch_sizes, grid.learning_rates, grid.epochs)))
    fields = (*spec.fields.texts, spec.fields.answer)
    return (
        code(spec.name),
        spec.title,
        spec.kind.value,
        code(_joined([patterns[0] for patterns in spec.files.values() if patterns])),
        ", ".join(map(code, fields)),
        code(spec.metric),
        str(spec.max_length),
        f"{settings} ({grid.source})",
        "" if spec.sizes is None else ", ".join(f"{size:,}" for size in spec.sizes),
        prose(spec.note),
    )


def _joined(names: list[str]) -> str:
    """Return names of files as one: `CMeEE_{train,dev,test}.json`."""
    start, _, end = names[0].partition("train")
    return f"{start}{{{','.join(name.removeprefix(start).removesuffix(end) for name in names)}}}{end}"
