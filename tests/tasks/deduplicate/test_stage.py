"""Exact deduplication: which texts are equal, which one stays, whatever the order of parts and buckets."""

from __future__ import annotations

import pickle
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import ArtifactStore, read_checked
from infra.builds import BuildPlace, Unit, WorkRecord
from infra.stage import SerialExecutor, run
from tasks.deduplicate.pairs import candidates
from tasks.deduplicate.sketches import NearParams, sketches
from tasks.deduplicate.stage import DeduplicateParams, deduplicate
from tasks.text.comparable import text_key
from tests.support.text.tables import documents_artifact


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("糖尿病 患者", "糖尿病患者\n", True),
        ("ＣＴ检查", "ct检查", True),
        ("年龄18-75岁", "年龄18~75岁", False),
        ("年龄18-75岁", "年龄18-65岁", False),
        ("血小板≥100", "血小板≤100", False),
        ("剂量1.5mg", "剂量15mg", False),
        ("血小板10⁹/L", "血小板109/L", False),
        ("血压120 80", "血压12080", False),
        ("服药1½片", "服药11/2片", False),
        ("ＨＩＶ　阴性", "hiv 阴性", True),
    ],
)
def test_equal_texts_share_a_key(left: str, right: str, same: bool) -> None:
    assert (text_key(left) == text_key(right)) == same


def deduplicated(parts: list[list[str]], per_bucket: int) -> tuple[list[str], set[tuple[str, str]]]:
    with tempfile.TemporaryDirectory() as folder:
        store = ArtifactStore(Path(folder))
        documents = documents_artifact(store, *parts)
        params = DeduplicateParams(documents_per_bucket=per_bucket)
        artifact = run(deduplicate, store, params, {"documents": documents}).artifact
        drops = {(row["doc_id"], row["kept_id"]) for row in artifact.to_table("duplicates").to_pylist()}
        return sorted(artifact.scan().collect()["doc_id"].to_list()), drops


@settings(max_examples=25, deadline=None)
@given(
    texts=st.lists(st.sampled_from(["甲", "甲 ", "乙Ａ", "乙a", "丙1", "丙2", "丁", "戊"]), min_size=1, max_size=14),
    cut=st.integers(0, 14),
    seed=st.integers(0, 9),
)
def test_one_of_each_text_stays_whatever_the_order_parts_and_buckets(texts: list[str], cut: int, seed: int) -> None:
    kept, drops = deduplicated([texts[:cut], texts[cut:]], 2)
    shuffled = random.Random(seed).sample(texts, len(texts))
    assert deduplicated([shuffled], 1_000) == (kept, drops)
    assert len(kept) == len({text_key(text) for text in texts})
    assert {kept_id for _, kept_id in drops} <= set(kept)


class ElsewhereExecutor(SerialExecutor):
    """Runs units on pickled copies of their values, as another process would."""

    in_process = False

    def run(self, place: BuildPlace, function: Callable[..., None], units: Sequence[Unit]) -> Iterator[WorkRecord]:
        yield from super().run(place, function, [pickle.loads(pickle.dumps(unit)) for unit in units])


def test_sketches_are_checked_once_rather_than_per_band(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["患者头痛三天，伴恶心呕吐，无发热。", "患者咳嗽一周，咳白痰，夜间明显加重。"]
    documents = documents_artifact(store, texts, texts[:1])
    found = run(sketches, store, NearParams(), {"documents": documents}).artifact
    checked: list[str] = []

    def noting(filesystem: Any, folder: str, record: Any) -> bytes:
        checked.append(record.path)
        return read_checked(filesystem, folder, record)

    monkeypatch.setattr("infra.artifacts.store.read_checked", noting)
    given = {"documents": documents, "sketches": found}
    run(candidates, store, NearParams(), given, executor=ElsewhereExecutor())
    assert sorted(checked) == sorted(part.record.path for part in found.parts("sketches"))
