"""Names that users and outside checks import (docs: the design's section 5): they stay importable from here."""

from __future__ import annotations

import importlib

import pytest

from tests.support.fixed_names import FIXED_NAMES


@pytest.mark.parametrize("name", FIXED_NAMES)
def test_fixed_name_is_importable(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert callable(getattr(importlib.import_module(module), attribute))


def test_fixed_names_work_as_documented() -> None:
    from kg.graph import KnowledgeGraph
    from tasks.clean import clean_text
    from tasks.deduplicate import near_duplicates
    from tasks.deidentify import deidentify

    assert clean_text("患者头痛&nbsp;三天。", "ehealth")
    text, counts = deidentify("联系电话：13812345678。")
    assert "13812345678" not in text and sum(counts.values()) == 1
    texts = ["患者男性六十岁，反复咳嗽咳痰十年，加重伴气促三天，门诊以慢性阻塞性肺疾病收入院。"] * 2
    found = near_duplicates(texts, threshold=0.8, seed=0)
    assert [row["kept_index"] for row in found.to_pylist()] == [0]
    assert KnowledgeGraph.from_triples([("糖尿病", "症状", "多饮")]).triples().num_rows == 1
