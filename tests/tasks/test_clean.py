"""Cleaning: what goes, what stays, and that no text can make it slow or unstable."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.artifacts import ArtifactStore
from infra.stage import run
from tasks.clean import PROFILES, CleanParams, CleanProfile, clean, clean_text
from tests.tables import documents_artifact

marks = st.sampled_from("患者 Aa1<>/&;#bpr=\"'\n\r\t\u00a0\u200b\ue000。，@.:wht")
texts = st.text(marks | st.characters(), max_size=60)


@settings(max_examples=300, deadline=None)
@given(text=texts, profile=st.sampled_from(sorted(PROFILES)))
@example(text="&amp;amp;lt;b>x", profile="ehealth")
@example(text="<<b>b>x&<i>lt;", profile="ehealth")
def test_cleaning_again_changes_nothing(text: str, profile: str) -> None:
    once = clean_text(text, profile)
    assert clean_text(once, profile) == once
    assert not any(mark in once for mark in "\r\u00a0\u200b\ue000\t")


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("血压\u00a0140/90\u3000mmHg", "血压 140/90 mmHg"),
        ("第一行 \r\n\r\n 第二行\r第三行", "第一行\n第二行\n第三行"),
        ("甲\ue81f状\u200b腺\x00", "甲状腺"),
        ('<p class="x">甲</p><p>乙<br/>丙', "甲\n乙\n丙"),
        ("P&lt;0.05，&amp;lt;重要&amp;gt;", "P<0.05，<重要>"),
        ("收缩压<a 且 b>c", "收缩压<a 且 b>c"),
        ("年龄18~65岁，血小板≥75×10⁹/L，Ⅱ期", "年龄18~65岁，血小板≥75×10⁹/L，Ⅱ期"),
    ],
)
def test_noise_goes_and_medicine_stays(raw: str, cleaned: str) -> None:
    assert clean_text(raw) == cleaned


def test_smedbert_profile_takes_addresses_and_symbols_away() -> None:
    assert clean_text("见http://a.b/c?d=1，邮箱x.y@z.com★，体温38.5℃", "smedbert") == "见，邮箱，体温38.5℃"
    assert clean_text("见http://a.b/c★", "ehealth") == "见http://a.b/c★"


@pytest.mark.parametrize(
    "attack", ["<a " * 60_000, "<!--" * 60_000, "a.b-" * 60_000, "&" + "amp;" * 60_000, "<" * 60_000 + "b>" * 60_000]
)
def test_cost_does_not_explode_on_hostile_text(attack: str) -> None:
    # Not a speed test: a pattern that is quadratic in the text would take minutes here.
    started = time.process_time()
    clean_text(attack, "smedbert")
    assert time.process_time() - started < 20


def test_dropped_documents_keep_their_reason(store: ArtifactStore) -> None:
    documents = documents_artifact(store, ["糖尿病患者应控制血糖。", "<p></p>", "only English words here", "短"])
    profile = CleanProfile(min_characters=5, min_han_share=0.5)
    artifact = run(clean, store, CleanParams(profile=profile), {"documents": documents}).artifact
    assert artifact.scan().collect()["text"].to_list() == ["糖尿病患者应控制血糖。"]
    rejects = {row["reason"]: row for row in artifact.to_table("rejects").to_pylist()}
    assert rejects.keys() == {"empty", "little_chinese", "too_short"}
    assert rejects["little_chinese"]["excerpt"] == "only English words here"
    assert artifact.manifest.counters["documents_in"] == 4
    assert sum(v for k, v in artifact.manifest.counters.items() if k.startswith("rejected_")) == 3


def test_unknown_profile_is_told() -> None:
    with pytest.raises(ValidationError, match=r"no profile 'ehelth'; there are ehealth, smedbert"):
        CleanParams(profile="ehelth")
