"""Text: `corpus.refresh`, which is the flow corpus/refresh."""

from __future__ import annotations

from flows.api.calls import runs
from flows.api.results import Corpus
from flows.corpus import corpus as flow


@runs(flow.fn)
def refresh(folder: str) -> Corpus:
    """Turn raw text into clean, de-identified, deduplicated segments; work that was done before is reused.

    If it is interrupted, the same call resumes. Returns the segments with the stages that the text went through.
    """
    return Corpus.at(folder)
