"""Terms: `normalise.index` and `normalise.chip_cdn`, which are the deployments of these names."""

from __future__ import annotations

from flows.api.calls import runs_with
from flows.api.results import TermIndex
from flows.normalise import normalise as flow


@runs_with(flow.fn, rank=False)
def index(folder: str) -> TermIndex:
    """Index a list of terms, by default ICD-10, with all the names by which a term is found.

    Returns what `Normaliser` takes.
    """
    return TermIndex.at(folder)


@runs_with(flow.fn, rank=True)
def chip_cdn(folder: str) -> TermIndex:
    """Index a list of terms and train a normaliser on labelled diagnoses.

    If it is interrupted, the same call resumes. Returns what `Normaliser` takes.
    """
    return TermIndex.at(folder)
