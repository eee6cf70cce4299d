"""Stage `render_articles`: the facts of CMeKG as templated encyclopedia articles, one per subject.

They are the demo's input: real facts in plain sentence templates (`kg/articles/articles.py`), marked as templated
wherever they are shown. The whole graph is read once (about 1 s, 0.3 GB), and each unit of work carries the facts of
its subjects. Time grows with the facts.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from infra.builds import PartWriter
from infra.errors import UserError
from infra.stage import Output, StageParams, stage
from kg.articles.articles import render_article
from kg.sources import cmekg
from tasks.documents import make_document
from tasks.files.raw_input import RawInput

SOURCE = "encyclopedia"


class RenderParams(StageParams):
    """Size of the parts."""

    documents_per_part: int = Field(default=4096, ge=1)
    """Articles in a part of the table."""


@stage(name="render_articles", version=2, params=RenderParams, tables=("documents", "rejects"))
def render_articles(inputs: Mapping[str, RawInput], params: RenderParams, out: Output) -> None:
    """Render the pickle of CMeKG, `inputs["kg"]`, with subjects in the order of their names.

    Raises:
        UserError: the pickle is not CMeKG, or contains no subject with a fact.
    """
    path = inputs["kg"].path
    subjects = sorted(cmekg.load(path).items())
    size = params.documents_per_part
    out.map(render_part, (subjects[first : first + size] for first in range(0, len(subjects), size)))
    if not out.rows("documents"):
        raise UserError(f"Empty corpus: {path} contains no subject with a fact. Give the cmekg.pkl of PyCMeKG.")


def render_part(part: PartWriter, subjects: list[tuple[str, dict[str, list[str]]]]) -> None:
    """Render the articles about some subjects."""
    rows = []
    for subject, attributes in subjects:
        title, text = render_article(subject, attributes)
        if not text:
            relations = ", ".join(attributes)
            detail = f"no relation has a value: {relations}" if relations else "the subject has no relation"
            part.reject(doc_id=subject, source=SOURCE, reason="no_facts", detail=detail, text="")
            continue
        rows.append(make_document(SOURCE, title, text, {"templated": True, "graph": "CMeKG", "subject": subject}))
        part.count("facts", sum(map(len, attributes.values())))
    part.write("documents", rows)
