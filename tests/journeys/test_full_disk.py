"""A disk that is full when scratch is written: the user is told what to do, and goes on there."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from fsspec.implementations.local import LocalFileOpener

from infra.artifacts import Artifact, ArtifactStore
from infra.errors import StorageFullError
from kg.embedding.batches import Triples
from kg.embedding.checkpoint import save_state
from kg.embedding.split import SplitGraph, save_split
from tasks.clean.repeated_lines import RepeatedLinesParams, repeated_lines
from tasks.decontaminate.stage import DecontaminateParams, decontaminate
from tasks.deduplicate.stage import DeduplicateParams, deduplicate
from tasks.entities.counts import Surfaces
from tasks.files.raw_input import RawInput
from tasks.knowledge.neighbours import NeighbourParams, neighbours
from tasks.phrases.arrays import SharedArray
from tests.support.graphs.graph_artifacts import graph_artifact, random_triples
from tests.support.text.stages import do, texts_of
from tests.support.text.tables import documents_artifact

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


TOLD = r"No space left while writing .*scratch.*YIWEN_HOME.* run again"


@contextlib.contextmanager
def full_disk(number: int = errno.ENOSPC) -> Iterator[None]:
    def full(*_: object) -> None:
        raise OSError(number, "full")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalFileOpener, "write", full)
        yield


@pytest.mark.parametrize(("work", "left"), [(near_duplicates, 2), (lines, 3), (overlaps, 3)])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_explained_and_the_run_goes_on_when_there_is_room(
    work: Callable[..., Artifact], left: int, number: int, store: ArtifactStore, tmp_path: Path
) -> None:
    documents = documents_artifact(store, TEXTS)
    with full_disk(number), pytest.raises(StorageFullError, match=TOLD):
        work(store, documents, tmp_path)
    found = texts_of(work(store, documents, tmp_path))
    assert len(found) == left
    assert sum(NOTICE in text for text in found) == {near_duplicates: 2, lines: 1, overlaps: 0}[work]


def test_so_is_one_under_the_ranking_of_neighbours(store: ArtifactStore) -> None:
    graph = graph_artifact(store, random_triples(1))
    with full_disk(), pytest.raises(StorageFullError, match=TOLD):
        do(store, neighbours, NeighbourParams(), graph=graph)
    assert do(store, neighbours, NeighbourParams(), graph=graph).rows()


NO_TRIPLES = Triples(*(np.zeros(0, np.int64) for _ in range(3)))


@pytest.mark.parametrize(
    "write",
    [
        lambda path: Surfaces.save(["高血压"], path),
        lambda path: SharedArray.save(np.ones(3), path),
        lambda path: save_split(SplitGraph(NO_TRIPLES, NO_TRIPLES, 0, 0), f"{path}/split.npz"),
        lambda path: save_state({"entities": torch.ones(3)}, f"{path}/state.pt"),
    ],
    ids=["surfaces", "arrays", "split", "embeddings"],
)
def test_so_is_one_under_other_scratch(write: Callable[[str], object], tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with full_disk(), pytest.raises(StorageFullError, match=TOLD):
        write(str(scratch))
    write(str(scratch))
