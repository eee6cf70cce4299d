"""Stage `candidate_index`: a terminology becomes an embedded index, stored with the rules that queries follow."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from infra.artifacts import Artifact
from infra.stage import Output, StageParams, stage
from tasks.normalise.answers import OwnNames, read_own_names, save_own_names, save_threshold
from tasks.normalise.meaning.folders import MEANING
from tasks.normalise.queries.settings import TABLES, QueryParams, local_table, read_rules, save_rules
from tasks.normalise.terms.terminology import entries_of
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fields import SearchFields


class CandidateIndexParams(StageParams):
    """Searched fields, how diagnoses become queries, and how sure an answer must be."""

    fields: SearchFields = SearchFields()
    queries: QueryParams = QueryParams()
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="confidence that a code needs; by default 0.5, or 0 with a ranker"
    )


@stage(name="candidate_index", version=5, params=CandidateIndexParams)
def candidate_index(inputs: Mapping[str, Any], params: CandidateIndexParams, out: Output) -> None:
    """Index `inputs["terminology"]` in files next to the manifest, together with the rules; see `open_index`.

    `inputs["abbreviations"]` and `inputs["typos"]`, each a `RawInput` of one table, replace the default tables.
    `inputs["names"]`, likewise, has the user's own names of codes (tasks/normalise/answers/own_names.py).
    `inputs["vectors"]` (of the stage `name_vectors`) lets the index find by meaning too.

    Raises:
        UserError: a table is invalid, or the list lacks a code; the message names file and row.
    """
    entries = entries_of(inputs["terminology"])
    rules = read_rules(params.queries, {name: inputs[name] for name in TABLES if name in inputs})
    with tempfile.TemporaryDirectory(prefix="yiwen-") as folder:
        index = EmbeddedIndex.build(entries, folder, params.fields)
        out.count("entries", len(index.terms))
        out.count("names", index.num_documents)
        save_rules(rules, Path(folder))
        if "names" in inputs:
            names = read_own_names(local_table(inputs["names"]))
            out.count("own_names", len(OwnNames(names, entries).choices))
            save_own_names(names, Path(folder))
        if "vectors" in inputs:
            inputs["vectors"].download(Path(folder) / MEANING)
        if params.threshold is not None:
            save_threshold(params.threshold, Path(folder))
        out.add_folder(Path(folder))


def open_index(artifact: Artifact, folder: Path) -> EmbeddedIndex:
    """Open the index of an artifact after checking it against its manifest.

    Args:
        folder: where an index behind a URI is copied to.

    Raises:
        DamagedArtifactError: a file is missing or was changed.
    """
    if isinstance(artifact.path, Path):
        artifact.verify()
        return EmbeddedIndex(artifact.path)
    return EmbeddedIndex(artifact.download(folder))
