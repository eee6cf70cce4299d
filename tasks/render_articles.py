"""Stage `render_articles`: the facts of CMeKG as templated encyclopedia articles, one a subject.

The demo's input: real facts in plain sentence templates (`kg/articles.py`), called templated wherever they are
shown. Time and memory grow with the graph, which is read whole by every unit of work (about 1 s, 0.5 GB).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from infra.builds import PartWriter
from infra.stage import Output, StageParams, stage
from kg.articles import render_article
from kg.sources import cmekg
from tasks.documents import make_document
from tasks.raw_input import RawInput


class RenderParams(StageParams):
    """How the articles are cut into parts."""

    documents_per_part: int = Field(default=4096, ge=1)


@stage(name="render_articles", version=1, params=RenderParams, tables=("documents",))
def render_articles(inputs: Mapping[str, RawInput], params: RenderParams, out: Output) -> None:
    """`inputs["kg"]` is the pickle of CMeKG; subjects are taken in the order of their names."""
    path = inputs["kg"].path
    subjects = sorted(cmekg.load(path))
    size = params.documents_per_part
    out.map(render_part, [subjects[first : first + size] for first in range(0, len(subjects), size)], path)


def render_part(part: PartWriter, subjects: list[str], path: Path) -> None:
    """Render the articles about some subjects."""
    graph = cmekg.load(path)
    rows = []
    for subject in subjects:
        title, text = render_article(subject, graph[subject])
        rows.append(make_document("encyclopedia", title, text, {"templated": True, "graph": "CMeKG"}))
    part.write("documents", rows)
    part.count("articles", len(rows))
