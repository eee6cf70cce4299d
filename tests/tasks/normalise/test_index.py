"""Stage `candidate_index`: counters, files, and a damaged artifact."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.artifacts import ArtifactStore
from infra.errors import UserError
from infra.stage import run
from tasks.files.raw_input import RawInput
from tasks.normalise.index import CandidateIndexParams, candidate_index, open_index
from tasks.normalise.terms.terminology import TerminologyParams, terminology
from tasks.retrieve.candidates import CandidateIndex
from tasks.retrieve.embedded import EmbeddedIndex
from tasks.retrieve.fields import SearchFields


def test_stage_builds_an_index_that_opens(store: ArtifactStore, tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text("编码,名称\nJ18.9,肺炎\nE11,2型糖尿病\n", encoding="utf-8")
    terms = run(terminology, store, TerminologyParams(format="list"), {"list": RawInput(file)}).artifact
    params = CandidateIndexParams(fields=SearchFields(bigrams=2))
    artifact = run(candidate_index, store, params, {"terminology": terms}).artifact
    index: CandidateIndex = open_index(artifact, tmp_path)
    assert artifact.manifest.counters == {"entries": 2, "names": 2}
    assert [one.code for one in index.search(["糖尿病"], 5)[0]] == ["E11"]
    assert isinstance(index, EmbeddedIndex) and index.fields == params.fields
    assert index.categories is not None and index.categories.codes == ["E11", "J18"]
    Path(artifact.path, "weights.npy").write_bytes(b"")
    with pytest.raises(UserError, match=r"weights\.npy"):
        open_index(artifact, tmp_path)
