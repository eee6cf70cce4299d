"""A disk that is full when a stage of the corpus writes its scratch: the user is told what to do, and goes on there."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileOpener

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import StorageFullError
from tasks.decontaminate import DecontaminateParams, decontaminate
from tasks.deduplicate import DeduplicateParams, deduplicate
from tasks.raw_input import RawInput
from tasks.repeated_lines import RepeatedLinesParams, repeated_lines
from tests.tables import documents_artifact
from tests.tasks.corpora import do, texts_of

ARTICLE = "高血压患者应当长期控制血压，低盐饮食，规律运动，按时服药，定期复查，避免情绪激动和过度劳累。"
NOTICE = "本站文章仅供参考，不能代替医生的诊断。"
TEXTS = (
    f"{ARTICLE}祝您健康。\n{NOTICE}",
    f"{ARTICLE}祝您早日康复。\n{NOTICE}",
    f"布洛芬的不良反应。\n{NOTICE}",
)


def near_duplicates(store: ArtifactStore, documents: Artifact, folder: Path) -> Artifact:
    return do(store, deduplicate, DeduplicateParams(threshold=0.6), documents=documents)


def lines(store: ArtifactStore, documents: Artifact, folder: Path) -> Artifact:
    return do(store, repeated_lines, RepeatedLinesParams(min_documents=2), documents=documents)


def overlaps(store: ArtifactStore, documents: Artifact, folder: Path) -> Artifact:
    (folder / "test.txt").write_text(NOTICE, encoding="utf-8")
    params = DecontaminateParams(min_share=0)
    return do(store, decontaminate, params, documents=documents, benchmarks=RawInput(folder / "test.txt"))


@pytest.mark.parametrize(("work", "left"), [(near_duplicates, 2), (lines, 3), (overlaps, 3)])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_explained_and_the_run_goes_on_when_there_is_room(
    work: Callable[..., Artifact], left: int, number: int, store: ArtifactStore, tmp_path: Path
) -> None:
    documents = documents_artifact(store, TEXTS)

    def full(*_: object) -> None:
        raise OSError(number, "full")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalFileOpener, "write", full)
        with pytest.raises(StorageFullError, match=r"No room left while writing .*scratch.*YIWEN_HOME.* run again"):
            work(store, documents, tmp_path)
    found = texts_of(work(store, documents, tmp_path))
    assert len(found) == left
    assert sum(NOTICE in text for text in found) == {near_duplicates: 2, lines: 1, overlaps: 0}[work]
