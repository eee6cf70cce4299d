"""Stage `candidate_index`: a terminology becomes an embedded index, stored with the rules that queries follow."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.artifacts import Artifact
from infra.stage import Output, StageParams, stage
from tasks.normalise.query_settings import TABLES, QueryParams, read_rules, save_rules
from tasks.normalise.terminology import entries_of
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fields import SearchFields


class CandidateIndexParams(StageParams):
    """Searched fields, and how diagnoses become queries."""

    fields: SearchFields = SearchFields()
    queries: QueryParams = QueryParams()


@stage(name="candidate_index", version=5, params=CandidateIndexParams)
def candidate_index(inputs: Mapping[str, Any], params: CandidateIndexParams, out: Output) -> None:
    """Index `inputs["terminology"]` in files next to the manifest, together with the rules; see `open_index`.

    `inputs["abbreviations"]` and `inputs["typos"]`, each a `RawInput` of one table, replace the default tables.

    Raises:
        UserError: a table is invalid; the message names file and row.
    """
    entries = entries_of(inputs["terminology"])
    rules = read_rules(params.queries, {name: inputs[name] for name in TABLES if name in inputs})
    with tempfile.TemporaryDirectory(prefix="yiwen-") as folder:
        index = EmbeddedIndex.build(entries, folder, params.fields)
        out.count("entries", len(index.terms))
        out.count("names", index.num_documents)
        save_rules(rules, Path(folder))
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
