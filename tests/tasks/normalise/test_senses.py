"""Sense of candidates: contexts that a text does not give, and contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.errors import UserError
from tasks.normalise.normaliser import Normaliser
from tasks.normalise.reading import CONTEXTS, CONTRADICTIONS, Sense, SenseIndex, read_senses
from tasks.retrieve.candidates import Candidate, Entry
from tasks.retrieve.embedded import EmbeddedIndex


class Fixed:
    """An engine that finds the same for every text."""

    def __init__(self, *found: Candidate) -> None:
        self.found = list(found)

    def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
        return [self.found[:k] for _ in terms]


@pytest.mark.parametrize("sense", read_senses(), ids=lambda sense: f"{sense.example} {sense.wrong}")
def test_wrong_name_of_each_row_loses_by_that_row(sense: Sense) -> None:
    engine = Fixed(Candidate("", sense.wrong, 1.0), Candidate("", "别名", 0.99))
    (found,) = SenseIndex(engine, [sense]).search([sense.example], 9)
    assert [one.term for one in found] == ["别名", sense.wrong]
    assert [one.score for one in found] == [0.99, pytest.approx(sense.factor)]


@pytest.mark.parametrize(
    ("text", "code", "term"),
    [
        ("新生儿脱水", "P74.1", "新生儿脱水"),
        ("肺原位癌", "D02.2", "支气管和肺原位癌"),
        ("肺癌脑转移", "C79.3", "脑和脑膜继发性恶性肿瘤"),
        ("恶性胸腔积液", "C78.2", "胸膜继发性恶性肿瘤"),
        ("脑梗死后遗症", "I69.3", "脑梗死后遗症"),
        ("NSTEMI", "I21.4", "急性心内膜下心肌梗死"),
        ("慢性肾炎急性发作", "N03", "慢性肾炎综合征"),
        ("产后出血", "O72.1", "其他即时产后出血"),
        ("右侧股骨骨折", "S72.9", "右侧股骨骨折"),
    ],
)
def test_sense_that_the_text_gives_costs_nothing(text: str, code: str, term: str) -> None:
    ((found,),) = SenseIndex(Fixed(Candidate(code, term, 1.0))).search([text], 1)
    # 慢性肾炎急性发作 says both, and may lose once.
    assert found.score == 1.0 or (text == "慢性肾炎急性发作" and found.score == 0.5)


def test_chapters_count_without_a_word_in_the_name() -> None:
    engine = Fixed(Candidate("O86.0", "切口感染", 1.0), Candidate("T81.4", "操作感染", 0.9))
    (found,) = SenseIndex(engine).search(["术后切口感染"], 2)
    assert [one.code for one in found] == ["T81.4", "O86.0"]
    (other,) = SenseIndex(engine).search(["剖宫产术后切口感染"], 2)
    assert [one.code for one in other] == ["O86.0", "T81.4"]


def test_asterisk_codes_come_after_their_dagger_codes() -> None:
    engine = Fixed(Candidate("M90.0", "骨结核（A18.0+）", 1.0), Candidate("A18.0", "骨和关节的结核", 0.9))
    (found,) = SenseIndex(engine).search(["骨关节结核"], 2)
    assert [one.code for one in found] == ["A18.0", "M90.0"]
    engine = Fixed(Candidate("H36.0", "糖尿病视网膜病变", 1.0), Candidate("E14.3", "糖尿病眼部病变", 0.9))
    assert [one.code for one in SenseIndex(engine).search(["糖尿病眼底病"], 2)[0]] == ["E14.3", "H36.0"]


def test_list_with_other_codes_has_no_chapters_and_keeps_equal_order() -> None:
    engine = Fixed(Candidate("1", "甲", 1.0), Candidate("2", "乙", 1.0), Candidate("3", "丙", 0.5))
    (found,) = SenseIndex(engine).search(["感染"], 3)
    assert [one.term for one in found] == ["乙", "甲", "丙"], "equal scores are ordered by term, as engines do"
    assert [one.score for one in found] == [1.0, 1.0, 0.5]


def test_arrays_give_what_candidates_one_by_one_do(tmp_path: Path) -> None:
    senses = read_senses()
    entries = [Entry(f"{'OPCDZ'[at % 5]}{at:02}.0", sense.wrong) for at, sense in enumerate(senses)]
    index = EmbeddedIndex.build(list({entry.term: entry for entry in entries}.values()), tmp_path)
    texts = [text for sense in senses for text in (sense.example, sense.wrong)]

    class OneByOne:
        def search(self, terms: Sequence[str], k: int) -> list[list[Candidate]]:
            return index.search(terms, k)

    found = SenseIndex(index, senses).search(texts, 9)
    assert found == SenseIndex(OneByOne(), senses).search(texts, 9)
    assert found != index.search(texts, 9)
    first = SenseIndex(index, senses[:64]).search(texts, 9)
    assert first == SenseIndex(OneByOne(), senses[:64]).search(texts, 9)


def test_normaliser_answers_by_sense(tmp_path: Path) -> None:
    names = {"D02.2": "肺原位癌", "C34": "支气管和肺恶性肿瘤", "P74.1": "新生儿脱水", "E86": "血容量缺失"}
    EmbeddedIndex.build([Entry(code, name) for code, name in names.items()], tmp_path)
    found = Normaliser(tmp_path).normalise(["肺癌", "肺原位癌", "脱水", "新生儿脱水"])
    assert [one.terms[0].code for one in found] == ["C34", "D02.2", "E86", "P74.1"]
    assert all((one.terms[0].code, one.terms[0].term) == one.considered[0][:2] for one in found)
    for one in found:
        scores = [each.score for each in one.considered]
        assert scores == sorted(scores, reverse=True)
    (plain,) = Normaliser(tmp_path, reads=False).normalise(["新生儿脱水"])
    assert plain.terms[0].code == "P74.1"


@pytest.mark.parametrize(
    ("table", "row", "message"),
    [
        ("contexts", "x,O.*,,孕,1.5,a,b", "row 2: the factor '1.5' must be a number between 0 and 1"),
        ("contexts", "x,O.*,,孕,half,a,b", "row 2: the factor 'half'"),
        ("contexts", "x,,,孕,0.5,a,b", "row 2: fill in given, and codes or names"),
        ("contexts", "x,O.*,,,0.5,a,b", "row 2: fill in given, and codes or names"),
        ("contexts", "x,O(,,孕,0.5,a,b", "row 2: 'O\\(' is not a regular expression"),
        ("contradictions", "急性,,a,b", "row 2: fill in said and named"),
    ],
)
def test_fault_in_a_table_is_reported(tmp_path: Path, table: str, row: str, message: str) -> None:
    heads = {"contexts": "context,codes,names,given,factor,example,wrong", "contradictions": "said,named,example,wrong"}
    path = tmp_path / f"{table}.csv"
    path.write_text(f"{heads[table]}\n{row}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_senses(**{"contexts": CONTEXTS, "contradictions": CONTRADICTIONS, table: path})
