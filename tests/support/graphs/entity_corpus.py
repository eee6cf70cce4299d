"""A small graph and the segments of a text that names its entities."""

from __future__ import annotations

from infra.artifacts import Artifact, ArtifactStore
from tasks.segment.stage import SegmentParams, segment
from tests.support.text.stages import do
from tests.support.text.synthetic_text import synthetic_documents
from tests.support.text.tables import documents_artifact

GRAPH_ROWS = (
    ("D1", "糖尿病", ("消渴病",), "disease"),
    ("D2", "甲状腺功能亢进症", ("甲亢",), "disease"),
    ("D3", "急性出血性坏死性胰腺炎", (), "disease"),
    ("M1", "奥美拉唑", ("A",), "drug"),
    ("S1", "发热", (), "symptom"),
    ("S2", "恶性肿瘤", (), ""),
)


TEXTS = [document["text"] for document in synthetic_documents()]


def segments_of(store: ArtifactStore, *parts: list[str]) -> Artifact:
    return do(store, segment, SegmentParams(min_tokens=1), documents=documents_artifact(store, *parts))
