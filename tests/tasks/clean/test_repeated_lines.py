"""Repeated lines: templates are removed, lines with a figure of their own stay, however the corpus is divided."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import Artifact, ArtifactStore
from tasks.clean import repeated_lines as module
from tasks.clean.repeated_lines import LineCountsParams, RepeatedLinesParams, keys_of_lines, line_counts, repeated_lines
from tasks.text.comparable import comparable, key_of
from tests.support.text.stages import do, texts_of
from tests.support.text.tables import documents_artifact

FOOTER = "本站内容仅供参考，不作为诊断及医疗依据。"


def without(store: ArtifactStore, *parts: list[str], **params: Any) -> Artifact:
    documents = documents_artifact(store, *parts)
    return do(store, repeated_lines, RepeatedLinesParams(**params), documents=documents)


def test_footer_stays_in_one_document_only(store: ArtifactStore) -> None:
    texts = [f"第{number}篇文章的正文。\n{FOOTER}" for number in range(12)]
    documents = documents_artifact(store, texts[:5], texts[5:])
    artifact = do(store, repeated_lines, RepeatedLinesParams(), documents=documents)
    first = min(documents.to_table().to_pylist(), key=lambda row: row["doc_id"])
    for before, after in zip(documents.to_table().to_pylist(), artifact.to_table().to_pylist(), strict=True):
        if before["doc_id"] == first["doc_id"]:
            assert after == before
        else:
            assert after["text"] == before["text"].split("\n")[0]
            assert after["doc_id"] != before["doc_id"]
            assert after["meta"] == before["meta"]
    counters = artifact.manifest.counters
    assert (counters["documents_in"], counters["documents_changed"]) == (12, 11)
    assert (counters["lines_removed"], counters["characters_removed"]) == (11, 11 * (len(FOOTER) + 1))
    assert counters["repeated_lines"] == 1


def test_footer_can_be_removed_everywhere(store: ArtifactStore) -> None:
    texts = [f"{FOOTER}\n第{number}篇文章的正文。" for number in range(12)]
    assert not any(FOOTER in text for text in texts_of(without(store, texts, keep="none")))


def test_too_few_documents_or_characters_change_nothing(store: ArtifactStore) -> None:
    texts = [f"第{number}篇文章。\n{FOOTER}\n主诉：" for number in range(9)]
    texts += [f"{FOOTER}{FOOTER}\n" * 20 + f"第{number}篇文章。" for number in range(9)]
    assert texts_of(without(store, texts)) == texts
    assert not any(FOOTER in text for text in texts_of(without(store, texts, min_documents=9, keep="none")))


def test_document_of_templates_alone_is_rejected(store: ArtifactStore) -> None:
    texts = [FOOTER + "\n" * (1 + number) + "版权所有，转载请注明出处。" for number in range(10)]
    artifact = without(store, texts)
    assert artifact.rows() == 1
    rejects = artifact.to_table("rejects").to_pylist()
    assert {row["reason"] for row in rejects} == {"repeated_lines"}
    assert rejects[0]["detail"] == "each of its 2 lines is in 10 documents or more"
    assert artifact.manifest.counters["rejected_repeated_lines"] == 9


def test_results_stay_unless_the_whole_line_repeats(store: ArtifactStore) -> None:
    texts = [
        f"白细胞计数：{number / 10}×10⁹/L，血压{number}/80mmHg\n白细胞计数：109/L（正常参考）" for number in range(40)
    ]
    texts += ["白细胞计数：10⁹/L（正常参考）"]
    left = texts_of(without(store, texts, keep="none"))
    assert left[:-1] == [text.split("\n")[0] for text in texts[:-1]]
    assert left[-1] == texts[-1]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8") | st.sampled_from(" \n\r\x85²Σ"), max_size=20), max_size=4))
def test_key_of_a_line_is_that_of_its_form(texts: list[str]) -> None:
    found = list(keys_of_lines(texts, 2))
    for text, keys in zip(texts, found, strict=True):
        forms = [comparable(line) for line in text.split("\n")]
        assert [key is None for key in keys] == [len(form) < 2 for form in forms]
        assert [key for key in keys if key is not None] == [
            int.from_bytes(key_of(form)[:8], "big") for form in forms if len(form) >= 2
        ]


lines = st.sampled_from(["甲乙丙丁", "甲 乙丙丁", "甲乙丙1", "子丑寅卯", "ＡＢＣ１", "abc1", "短", ""])
corpora = st.lists(st.lists(lines, min_size=1, max_size=5).map("\n".join).filter(str.strip), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(corpora, st.integers(2, 4), st.sampled_from(["none", "first"]), st.integers(1, 8), st.integers(1, 50))
def test_result_equals_that_of_plain_python(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], least: int, keep: str, size: int, bucket: int
) -> None:
    store = ArtifactStore(tmp_path_factory.mktemp("store"))
    parts = [texts[first : first + size] for first in range(0, len(texts), size)]
    rows = documents_artifact(store, *parts).to_table().to_pylist()
    holders: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for form in {comparable(line) for line in row["text"].split("\n")}:
            holders[form].append(row["doc_id"])
    expected = []
    for row in rows:
        kept = []
        for line in row["text"].split("\n"):
            held = holders[comparable(line)]
            is_repeated = len(comparable(line)) >= 4 and len(held) >= least
            if not is_repeated or (keep == "first" and row["doc_id"] == min(held)):
                kept.append(line)
        left = "\n".join(kept)
        expected.append(left if left == row["text"] else left.strip())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LINES_PER_BUCKET", bucket)
        artifact = without(store, *parts, min_documents=least, min_characters=4, keep=keep)
    assert texts_of(artifact) == [text for text in expected if text]


@pytest.mark.parametrize(("size", "bucket"), [(1, 10**6), (7, 13), (60, 1)])
def test_parts_order_and_buckets_do_not_matter(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, size: int, bucket: int
) -> None:
    drawn = random.Random(size)
    templates = [f"第{number}号模板：请按时复诊并携带病历。" for number in range(8)]
    texts = ["\n".join([f"文章{number}的正文", *drawn.sample(templates, drawn.randrange(4))]) for number in range(60)]

    def outcome(*parts: list[str]) -> Any:
        artifact = without(store, *parts)
        rows = [(row["doc_id"], row["text"]) for row in artifact.to_table().to_pylist()]
        return sorted(rows), artifact.manifest.counters

    whole = outcome(texts)
    assert whole[1]["lines_removed"] > 20
    monkeypatch.setattr(module, "LINES_PER_BUCKET", bucket)
    shuffled = drawn.sample(texts, len(texts))
    assert outcome(*[shuffled[first : first + size] for first in range(0, len(texts), size)]) == whole


def test_lines_are_counted_once_per_document(store: ArtifactStore) -> None:
    texts = [f"{FOOTER}\n{FOOTER}\n一二三", f"{FOOTER}"]
    documents = documents_artifact(store, texts)
    counts = do(store, line_counts, LineCountsParams(), documents=documents).to_table().to_pylist()
    ids = documents.to_table()["doc_id"].to_pylist()
    assert [(row["documents"], row["first_id"]) for row in counts] == [(2, min(ids))]


def test_corpus_without_documents_or_lines_passes(store: ArtifactStore) -> None:
    assert texts_of(without(store, [])) == []
    assert texts_of(without(store, ["短", "短"], min_documents=2)) == ["短", "短"]


def test_real_dialogues_keep_their_own_lines(store: ArtifactStore, shared_data: Path) -> None:
    answers = pl.read_parquet(shared_data / "toyhom_dialogue" / "im_sample.parquet")["answer"].to_list()
    texts = [
        "\n".join(part.strip() for part in text.split("。")) for text in dict.fromkeys(answers[:3000]) if text.strip()
    ]
    artifact = without(store, texts[:1000], texts[1000:])
    holders = Counter(line for text in texts for line in {comparable(each) for each in text.split("\n")})
    left = Counter(line for text in texts_of(artifact) for line in {comparable(each) for each in text.split("\n")})
    assert artifact.manifest.counters["lines_removed"] > 0
    for line, count in holders.items():
        if len(line) < 10 or count < 10:
            assert left[line] == count or not line
        else:
            assert left[line] == 1
