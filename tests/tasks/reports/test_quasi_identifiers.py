"""Groups of documents that share age, sex, place, month and diagnosis: sizes, samples of groups, no values shown."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tasks.reports.quasi_identifiers import SETS, SMALL, GroupSizes, attributes_of, look_at

NOTE = "〔姓名〕，女，46岁，湖北省人，于2023年4月11日入院。诊断：1.戈谢病，贫血。"


def test_attributes_are_read_from_a_note() -> None:
    assert attributes_of(NOTE) == {"age": "46", "sex": "女", "place": "湖北", "month": "2023-4", "diagnosis": "戈谢病"}
    assert attributes_of("男性激素正常，子女体健，第46例，血压120/80。") == {}


def test_documents_in_groups_are_counted() -> None:
    texts = [NOTE] * 6 + [NOTE.replace("46", "47")] * 3 + [NOTE.replace("46", "48"), "无"]
    by_set = {row["attributes"]: row for row in look_at(texts)}
    assert list(by_set) == [", ".join(names) for names in SETS]
    assert by_set["age, sex"] == {
        "attributes": "age, sex",
        "documents": 10,
        "groups": 3,
        "smallest": 1,
        "alone": 1,
        "small": 4,
        "is_estimated": False,
    }


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_sampled_in_bounded_memory_whatever_their_order(seed: int) -> None:
    values = [(str(n),) for n in range(4_000)] + [(str(n),) for n in range(1_000) for _ in range(SMALL)]
    whole = Counter(values)
    random.Random(seed).shuffle(values)
    sizes = GroupSizes(most=500)
    for value in values:
        sizes.add(value)
        assert len(sizes._sizes) <= 500
    figures = sizes.figures()
    assert figures["is_estimated"]
    assert figures["documents"] == len(values)
    assert figures["groups"] == pytest.approx(len(whole), rel=0.15)
    assert figures["alone"] == pytest.approx(3_000, rel=0.15)
    other = GroupSizes(most=500)
    for value in sorted(values):
        other.add(value)
    assert other.figures() == figures


def test_no_text_is_empty_or_breaks_it() -> None:
    assert look_at([])[0]["smallest"] == 0
    assert look_at(["\ud800，女，46岁"])[0]["documents"] == 1
