"""Stage `render_articles`: the facts of CMeKG as templated encyclopedia articles, one a subject.

The demo's input: real facts in plain sentence templates (`kg/articles/articles.py`), called templated wherever they are
shown. The graph is read once and whole (about 1 s, 0.3 GB); a unit of work gets its subjects' facts with it.
Time grows with the facts.
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
    """How the articles are cut into parts."""

    documents_per_part: int = Field(default=4096, ge=1)


@stage(name="render_articles", version=2, params=RenderParams, tables=("documents", "rejects"))
def render_articles(inputs: Mapping[str, RawInput], params: RenderParams, out: Output) -> None:
    """`inputs["kg"]` is the pickle of CMeKG; subjects are taken in the order of their names.

    Raises:
        UserError: the pickle is not CMeKG, or holds no subject with a fact.
    """
    path = inputs["kg"].path
    subjects = sorted(cmekg.load(path).items())
    size = params.documents_per_part
    out.map(render_part, (subjects[first : first + size] for first in range(0, len(subjects), size)))
    if not out.rows("documents"):
        raise UserError(f"Empty corpus: {path} holds no subject with a fact; give the cmekg.pkl of PyCMeKG.")


def render_part(part: PartWriter, subjects: list[tuple[str, dict[str, list[str]]]]) -> None:
    """Render the articles about some subjects."""
    rows = []
    for subject, attributes in subjects:
        title, text = render_article(subject, attributes)
        if not text:
            detail = f"none of the relations {', '.join(attributes) or '(there is none)'} has a value"
            part.reject(doc_id=subject, source=SOURCE, reason="no_facts", detail=detail, text="")
            continue
        rows.append(make_document(SOURCE, title, text, {"templated": True, "graph": "CMeKG", "subject": subject}))
        part.count("facts", sum(map(len, attributes.values())))
    part.write("documents", rows)
