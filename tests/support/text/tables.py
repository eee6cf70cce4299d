"""Artifacts with a table of documents, for tests of single stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.artifacts import Artifact, ArtifactStore
from infra.builds import PartWriter
from infra.stage import Output, StageParams, run, stage
from tasks.documents import make_document


class TextParams(StageParams):
    parts: tuple[tuple[str, ...], ...]


def write_texts(part: PartWriter, texts: Sequence[str]) -> None:
    part.write("documents", [make_document("article", "", text, {"row": i}) for i, text in enumerate(texts)])


@stage(name="documents", version=1, params=TextParams, tables=("documents",))
def given_texts(inputs: Mapping[str, Any], params: TextParams, out: Output) -> None:
    out.map(write_texts, params.parts)


def documents_artifact(store: ArtifactStore, *parts: Sequence[str]) -> Artifact:
    """An artifact of documents with these texts, one sequence a part."""
    return run(given_texts, store, TextParams(parts=tuple(tuple(texts) for texts in parts)), {}).artifact
