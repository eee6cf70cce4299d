"""Trust in names of graphs and texts."""

from __future__ import annotations

import pytest

from tasks.normalise.terms.trust import with_trusted_names
from tasks.retrieve.candidates import Entry

LISTED = [
    Entry("G47.3", "睡眠呼吸暂停").with_names(["阻塞性睡眠呼吸暂停低通气综合征"], "everyday"),
    Entry("R06.5", "口呼吸"),
    Entry("K44.9", "膈疝").with_names(["食管裂孔疝"], "everyday"),
    Entry("K44.0", "膈疝伴有梗阻"),
    Entry("Q40.1", "先天性食管裂孔疝"),
    Entry("N00", "急性肾炎综合征"),
    Entry("P74.1", "新生儿脱水"),
    Entry("E86", "血容量缺失"),
    Entry("D33.3", "脑神经良性肿瘤").with_names(["听神经瘤"], "everyday"),
    Entry("R96", "猝死"),
]


def judged(code: str, name: str, source: str = "graph") -> tuple[bool, str]:
    entries = [entry.with_names([name], source) if entry.code == code else entry for entry in LISTED]
    kept, doubted, _ = with_trusted_names(entries, 0.5)
    assert [entry.code for entry in kept] == [entry.code for entry in LISTED]
    reasons = ";".join(one.reasons for one in doubted)
    return any(name in entry.aliases for entry in kept if entry.code == code), reasons


@pytest.mark.parametrize(
    ("code", "name", "reason"),
    [
        ("R06.5", "阻塞性睡眠呼吸暂停低通气综合征", "known_elsewhere"),
        ("Q40.1", "食管裂孔疝", "known_elsewhere"),
        ("R06.5", "双侧听神经瘤", "names_another"),
        ("R06.5", "呼气性听神经瘤", "names_another"),  # one character in common with 口呼吸 is not enough
        ("P74.1", "慢性脱水", "context"),
        ("K44.0", "食管裂孔疝", "of_sibling"),
    ],
)
def test_wrong_names_are_marked_with_their_reason(code: str, name: str, reason: str) -> None:
    kept, reasons = judged(code, name)
    # One doubt by a context may still leave enough trust.
    assert reason in reasons.split(";") or (reason == "context" and kept)
    assert not kept or reason == "context"


@pytest.mark.parametrize(
    ("code", "name"),
    [("G47.3", "呼吸暂停综合征"), ("R96", "出现"), ("E86", "脱水"), ("R06.5", "mouth breathing"), ("N00", "急性肾炎")],
)
def test_other_names_are_kept(code: str, name: str) -> None:
    assert judged(code, name) == (True, "")


def test_doubts_add_up_over_categories_and_senses() -> None:
    entries = [entry.with_names(["慢性出现"], "graph") if entry.code in ("N00", "P74.1") else entry for entry in LISTED]
    _, doubted, counts = with_trusted_names(entries, 0.5)
    by_code = {one.code: one for one in doubted}
    assert {"contradicts", "shared"} <= set(by_code["N00"].reasons.split(";"))
    assert by_code["N00"].trust == pytest.approx(0.5 * 0.5**0.5)
    assert counts["names_of_graph_judged"] == 2 and counts["names_of_graph_doubted"] == len(doubted)
    assert with_trusted_names(entries, 0.0)[0] == entries


def test_agreement_of_sources_outweighs_doubts() -> None:
    twice = [
        Entry("N00", "急性肾炎综合征").with_names(["慢性出现"], "graph"),
        Entry("N00.9", "急性肾炎综合征:未特指").with_names(["慢性出现"], "text"),
        Entry("P74.1", "新生儿脱水").with_names(["慢性出现"], "graph"),
    ]
    _, doubted, _ = with_trusted_names(twice, 0.5)
    assert [one.code for one in doubted] == ["P74.1"]


def test_names_of_the_list_are_not_judged() -> None:
    entries = [Entry("N00", "急性肾炎综合征").with_names(["慢性肾炎"], "list"), Entry("N03", "慢性肾炎")]
    assert with_trusted_names(entries, 1.0)[:2] == (entries, [])
