"""Equal texts are found whatever their spelling; texts that differ in a number are kept apart."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from tasks.deduplicate.stage import DeduplicateParams, deduplicate
from tasks.text.comparable import comparable, text_key
from tests.support.text.stages import do, texts_of
from tests.support.text.tables import documents_artifact


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ＡＢＣ，１２３。", "abc,123。"),
        ("患者 男\n65 岁", "患者男65岁"),
        ("服用 5 mg", "服用5mg"),
        ("ﾀﾞ", "ダ"),
    ],
)
def test_spellings_of_one_text_have_one_form(one: str, other: str) -> None:
    assert text_key(one) == text_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("年龄18-75岁", "年龄18~65岁"),
        ("年龄18-65岁", "年龄18~65岁"),
        ("血小板≥100", "血小板≥75"),
        ("血小板≥100", "血小板≤100"),
        ("0.5mg", "05mg"),
        ("0.5mg", "5mg"),
        ("白细胞10⁹/L", "白细胞109/L"),
        ("1½片", "11⁄2片"),
        ("①5mg", "15mg"),
        ("120 80", "12080"),
        ("+5", "-5"),
        ("in vivo", "invivo"),
    ],
)
def test_texts_with_different_meanings_have_different_forms(one: str, other: str) -> None:
    assert text_key(one) != text_key(other)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8") | st.sampled_from("0159①²½⒈ \n,.－~")))
def test_comparable_form_keeps_every_digit_in_its_place(text: str) -> None:
    plain = unicodedata.normalize("NFKC", text)
    assert [c for c in comparable(text) if c.isdecimal()] == [c for c in plain if c.isdecimal()]


def planted(seed: int) -> list[str]:
    """300 texts with repeats in other spellings."""
    drawn = random.Random(seed)
    texts = [f"第{n}例患者，年龄{n % 90}岁，服药{n / 10}mg。" for n in range(200)]
    texts += [drawn.choice(texts[:80]).replace("，", drawn.choice([",", "， ", "，"])) for _ in range(100)]
    drawn.shuffle(texts)
    return texts


def cut_into(texts: list[str], size: int) -> list[list[str]]:
    return [texts[first : first + size] for first in range(0, len(texts), size)]


def kept_ids(artifact: Artifact) -> list[str]:
    return sorted(artifact.to_table("documents")["doc_id"].to_pylist())


def test_one_of_equal_documents_stays_and_the_others_are_listed(store: ArtifactStore) -> None:
    texts = planted(1)
    documents = documents_artifact(store, *cut_into(texts, 40))
    artifact = do(store, deduplicate, DeduplicateParams(), documents=documents)
    forms = Counter(comparable(text) for text in texts)
    kept = artifact.to_table("documents").to_pylist()
    assert Counter(comparable(row["text"]) for row in kept) == Counter(forms.keys())
    by_id = {row["doc_id"]: comparable(row["text"]) for row in documents.to_table().to_pylist()}
    smallest: dict[str, str] = {}
    for doc_id, form in by_id.items():
        smallest[form] = min(doc_id, smallest.get(form, doc_id))
    assert {row["doc_id"] for row in kept} == set(smallest.values())
    duplicates = artifact.to_table("duplicates").to_pylist()
    assert len(duplicates) == len(texts) - len(kept) == artifact.manifest.counters["dropped_exact"]
    for row in duplicates:
        assert row["kept_id"] == smallest[by_id[row["doc_id"]]]
        assert (row["kind"], row["similarity"]) == ("exact", 1.0)


@pytest.mark.parametrize(("size", "bucket"), [(300, 10_000), (7, 10_000), (40, 13), (300, 1)])
def test_parts_order_and_buckets_do_not_matter(store: ArtifactStore, size: int, bucket: int) -> None:
    texts = planted(2)[: 60 if bucket == 1 else None]  # each bucket is a unit of work
    first = do(store, deduplicate, DeduplicateParams(), documents=documents_artifact(store, texts))
    shuffled = random.Random(size).sample(texts, len(texts))
    documents = documents_artifact(store, *cut_into(shuffled, size))
    other = do(store, deduplicate, DeduplicateParams(documents_per_bucket=bucket), documents=documents)
    assert kept_ids(first) == kept_ids(other)

    def pairs(artifact: Artifact) -> list[Any]:
        return sorted((row["doc_id"], row["kept_id"]) for row in artifact.to_table("duplicates").to_pylist())

    assert pairs(first) == pairs(other) != []


def test_kept_documents_stay_in_order(store: ArtifactStore) -> None:
    documents = documents_artifact(store, ["甲", "乙"], ["乙", "丙", "甲"], ["丁"])
    artifact = do(store, deduplicate, DeduplicateParams(), documents=documents)
    assert texts_of(artifact) == ["甲", "乙", "丙", "丁"]
