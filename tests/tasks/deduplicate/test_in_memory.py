"""Near duplicates in memory and in a corpus: the right ones are found, whatever the order, parts and buckets."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from tasks.deduplicate import buckets
from tasks.deduplicate import pairs as candidates
from tasks.deduplicate.in_memory import near_duplicates
from tasks.deduplicate.stage import DeduplicateParams, deduplicate
from tasks.text import comparable_batch
from tasks.text.comparable import comparable, text_key
from tasks.text.comparable_batch import comparables
from tests.support.text.edited import document, edited
from tests.support.text.stages import do
from tests.support.text.tables import documents_artifact


def similarity(one: str, other: str, size: int = 5) -> float:
    a, b = ({form[at : at + size] for at in range(len(form) - size + 1)} for form in map(comparable, (one, other)))
    return len(a & b) / len(a | b) if a | b else 1.0


def planted(seed: int, count: int = 150) -> list[str]:
    """Return documents, some with edited copies, copies of copies, and equal ones."""
    drawn = random.Random(seed)
    texts = [document(drawn, drawn.choice([1, 3, 8])) for _ in range(count)]
    texts += [edited(drawn.choice(texts[:60]), drawn.choice([0.01, 0.03, 0.2]), drawn) for _ in range(count // 2)]
    texts += [drawn.choice(texts) + " " for _ in range(count // 10)] + ["甲", "甲", "乙", "发热。", ""]
    drawn.shuffle(texts)
    return texts


def brute_force(texts: list[str], threshold: float) -> dict[int, int]:
    """Return the texts that are dropped and the text each is dropped for, by comparing all pairs."""
    parents = list(range(len(texts)))

    def root(place: int) -> int:
        while parents[place] != place:
            place = parents[place]
        return place

    forms = [comparable(text) for text in texts]
    leader = [forms.index(form) for form in forms]
    for b in sorted(set(leader)):
        for a in sorted(set(leader)):
            if a < b and len(forms[b]) > 4 and similarity(texts[a], texts[b]) >= threshold:
                parents[root(b)] = root(a)
    clusters: dict[int, list[int]] = {}
    for place in sorted(set(leader), key=lambda place: (-len(forms[place]), text_key(texts[place]))):
        clusters.setdefault(root(place), []).append(place)
    goes = {}
    for left in clusters.values():
        while left:
            kept = left.pop(0)
            near = [place for place in left if similarity(texts[kept], texts[place]) >= threshold and forms[kept]]
            goes |= dict.fromkeys(near, kept)
            left = [place for place in left if place not in near]
    return {place: goes.get(lead, lead) for place, lead in enumerate(leader) if goes.get(lead, lead) != place}


def test_drops_are_those_of_a_comparison_of_all_pairs() -> None:
    texts = planted(1)
    found = near_duplicates(texts, 0.7, seed=5).to_pylist()
    assert {row["index"]: row["kept_index"] for row in found} == brute_force(texts, 0.7)
    for row in found:
        assert row["similarity"] == pytest.approx(similarity(texts[row["index"]], texts[row["kept_index"]]))
        assert row["similarity"] >= 0.7


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("年龄18-75岁", "年龄18~65岁"),
        ("血小板≥100", "血小板≥75"),
        ("血小板≥100", "血小板≤100"),
        ("每天服用三次", "每天服用两次"),
        ("剂量0.5mg", "剂量5mg"),
        ("患者随机分为两组", "患者随机分为三组"),
        ("尿蛋白++，管型-", "尿蛋白+，管型-"),
        ("术后恢复良好", "术后恢复良好，血压120/80mmHg"),
    ],
)
def test_numbers_keep_texts_apart_unless_switched_off(one: str, other: str) -> None:
    common = document(random.Random(3), 30)
    texts = [common + one, common + other]
    assert near_duplicates(texts, 0.8).num_rows == 0
    assert near_duplicates(texts, 0.8, numbers_apart=False).num_rows == 1


def test_word_that_begins_with_a_numeral_is_not_a_number() -> None:
    common = document(random.Random(4), 30)
    assert near_duplicates([common + "一般情况尚可。", common + "情况尚可。"], 0.8).num_rows == 1


def test_short_texts_are_compared_exactly_and_never_lost() -> None:
    found = near_duplicates(["发热。", "发热", "发热。", "", " ", "头痛。"], 0.5)
    assert found.to_pydict() == {"index": [2, 4], "kept_index": [0, 3], "similarity": [1.0, 1.0]}


def test_no_texts_have_no_duplicates() -> None:
    assert near_duplicates([], 0.8).num_rows == 0


@pytest.mark.parametrize("threshold", [0.0, 1.5])
def test_impossible_thresholds_are_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold"):
        near_duplicates(["发热"], threshold)


def drops(artifact: Artifact) -> list[Any]:
    return sorted(tuple(row.values()) for row in artifact.to_table("duplicates").to_pylist())


def kept(artifact: Artifact) -> list[str]:
    return sorted(artifact.to_table("documents")["doc_id"].to_pylist())


def test_stage_drops_what_the_function_drops(store: ArtifactStore) -> None:
    texts = planted(2)
    artifact = do(store, deduplicate, DeduplicateParams(threshold=0.7), documents=documents_artifact(store, texts))
    found = near_duplicates(texts, 0.7)
    stays = sorted(set(range(len(texts))) - set(found["index"].to_pylist()))
    # Of equal texts the stage keeps the one with the smallest id, the function the first.
    left = artifact.to_table("documents")["text"].to_pylist()
    assert sorted(map(comparable, left)) == sorted(comparable(texts[place]) for place in stays)
    counters = artifact.manifest.counters
    assert counters["dropped_exact"] + counters["dropped_near"] == found.num_rows
    assert counters["dropped_near"] > 20 and counters["dropped_exact"] > 10
    rows = artifact.to_table("duplicates").to_pylist()
    assert {row["kept_id"] for row in rows} <= set(kept(artifact))
    assert {row["kind"] for row in rows} == {"exact", "near"}


@pytest.mark.parametrize(("size", "bucket", "characters"), [(7, 10_000, 1 << 25), (300, 13, 2_000), (40, 1, 1)])
def test_order_parts_and_buckets_change_nothing(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, size: int, bucket: int, characters: int
) -> None:
    texts = planted(3, 40 if bucket == 1 else 150)  # each bucket is a unit of work
    first = do(store, deduplicate, DeduplicateParams(threshold=0.7), documents=documents_artifact(store, texts))
    monkeypatch.setattr(buckets, "CHARACTERS_PER_BUCKET", characters)
    monkeypatch.setattr(candidates, "DOCUMENTS_PER_SLICE", 150)
    shuffled = random.Random(size).sample(texts, len(texts))
    documents = documents_artifact(store, *(shuffled[at : at + size] for at in range(0, len(texts), size)))
    params = DeduplicateParams(threshold=0.7, documents_per_bucket=bucket)
    other = do(store, deduplicate, params, documents=documents)
    assert kept(first) == kept(other)
    assert drops(first) == drops(other)
    assert first.manifest.counters["dropped_near"] > 3


def test_without_a_threshold_only_equal_texts_are_dropped(store: ArtifactStore) -> None:
    texts = planted(4)
    artifact = do(store, deduplicate, DeduplicateParams(threshold=None), documents=documents_artifact(store, texts))
    assert artifact.rows("documents") == len({comparable(text) for text in texts})
    assert artifact.manifest.counters["dropped_near"] == 0


@settings(max_examples=400, deadline=None)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8") | st.sampled_from("  \n\t１2aＺ病，。…℃①²½ΣΑς́가\u1161　²Ⅳ"), max_size=14),
        max_size=6,
    )
)
def test_batch_of_forms_equals_single_forms(texts: list[str]) -> None:
    assert comparables(texts) == [comparable(text) for text in texts]


def test_forms_are_never_looked_up_beyond_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    # Run as plain Python, which checks its indices: U+FAD7 and others become characters beyond U+20000.
    monkeypatch.setattr(comparable_batch, "_write_forms", comparable_batch._write_forms.py_func)
    texts = [
        f"a {chr(code)} b" for code in (*range(0xF900, 0xFB00), *range(0x1FF00, 0x20100), *range(0x2F800, 0x2FA20))
    ]
    assert comparables(texts) == [comparable(text) for text in texts]


def test_every_character_has_its_form_between_other_characters() -> None:
    characters = [chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000]
    for frame in ("a{}b", "1{}1", "病{}"):
        texts = [frame.format(character) for character in characters]
        assert comparables(texts) == [comparable(text) for text in texts]
