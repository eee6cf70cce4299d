"""Modifiers, tumours and complications: what of a diagnosis is searched."""

from __future__ import annotations

import csv
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.normalise.files import normalise_file
from tasks.normalise.normaliser import Normaliser
from tasks.normalise.reading import (
    Modifiers,
    Reader,
    Site,
    Tumours,
    read_complications,
    read_modifiers,
    read_sites,
)
from tasks.normalise.reading.complications import Complication, Complications
from tasks.normalise.reading.modifiers import ModifierRule
from tasks.normalise.terms.everyday_names import read_everyday_names
from tasks.retrieve.candidates import Entry
from tasks.retrieve.embedded import EmbeddedIndex


@pytest.mark.parametrize("rule", read_modifiers(), ids=lambda rule: rule.example)
def test_example_of_each_modifier_is_taken_off(rule: ModifierRule) -> None:
    example = unicodedata.normalize("NFKC", rule.example)
    left, found = Modifiers([rule]).taken_off(example)
    assert left == unicodedata.normalize("NFKC", rule.left)
    assert found and {one.kind for one in found} == {rule.kind}
    assert all(one.text in example for one in found)


@pytest.mark.parametrize(
    ("text", "left", "kinds"),
    [
        ("右肺上叶腺癌 cT2N1M0 IIB期", "肺上叶腺癌", "side stage stage"),
        ("高血压病3级 很高危", "高血压病", "grade risk"),
        ("急性非ST段抬高型心梗 Killip II级", "急性非ST段抬高型心梗", "grade"),
        ("右乳腺Ca术后化疗后", "乳腺Ca", "side after after"),
        ("阑尾炎术后20年", "阑尾炎", "after"),
        ("慢性肾脏病3期", "慢性肾脏病3期", ""),
        ("褥疮III期", "褥疮III期", ""),
        ("2型糖尿病", "2型糖尿病", ""),
        ("左心衰竭", "左心衰竭", ""),
        ("右束支传导阻滞", "右束支传导阻滞", ""),
        ("双胎妊娠", "双胎妊娠", ""),
        ("冠状动脉搭桥术后", "冠状动脉搭桥术后", ""),
        ("重度子痫前期", "重度子痫前期", ""),
        ("慢性肾功能不全 CKD5期 血液透析", "慢性肾功能不全 CKD5期", "procedure"),
        ("胆囊结石 腹腔镜胆囊切除术", "胆囊结石", "procedure"),
        ("胆囊结石(胆囊切除术)", "胆囊结石", "procedure"),
        ("阑尾切除术", "阑尾切除术", ""),
        ("肺炎 术后", "肺炎", "after"),
        ("骨折(左桡骨远端)", "骨折(桡骨远端)", "side"),
        ("心衰(左心)", "心衰(左心)", ""),
        ("妊娠39周", "妊娠39周", ""),
        ("痤疮 IV级 面部", "痤疮", "grade site"),
        ("湿疹 手足 慢性", "湿疹", "site form"),
        ("烫伤 右前臂", "烫伤 右前臂", ""),
        ("咽炎 慢性", "咽炎 慢性", ""),
        ("椎间盘突出 C5/6", "椎间盘突出 C5/6", ""),
        ("脑梗死 恢复期", "脑梗死 恢复期", ""),
        ("糖尿病 II型", "糖尿病 II型", ""),
        ("儿童 肺炎", "儿童 肺炎", ""),
        ("甲状腺结节 TI-RADS 3类", "甲状腺结节", "grade"),
    ],
)
def test_only_what_is_no_part_of_the_name_is_taken_off(text: str, left: str, kinds: str) -> None:
    found = Modifiers().taken_off(text)
    assert (found[0], " ".join(one.kind for one in found[1])) == (left, kinds)


@given(st.text(alphabet="左右双侧肺癌高血压123级期很危术后TNM()-+ 待查ⅡIV", max_size=30))
def test_what_is_left_and_what_is_taken_off_are_the_text(text: str) -> None:
    left, found = Modifiers().taken_off(text)
    held = left + "".join(one.text for one in found)
    for character in "左右双肺癌高血压级期很危术后":
        assert held.count(character) == text.count(character)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("胃窦低分化腺癌", "胃窦癌"),
        ("升结肠Ca", "升结肠癌"),
        ("乳浸润性导管癌", "乳腺癌"),
        ("结肠肝曲癌", "结肠肝曲癌"),
        ("肺癌脑转移", "肺癌;脑转移癌"),
        ("肝癌伴骨转移", "肝癌;骨转移癌"),
        ("转移性肝癌", "肝转移癌"),
        ("肺恶性肿瘤和高血压", "肺癌;高血压"),
        ("宫颈原位癌", "宫颈原位癌"),
        ("霍奇金淋巴瘤", "霍奇金淋巴瘤"),
        ("CA125升高", "CA125升高"),
        ("胃癌前病变", "胃癌前病变"),
        ("转移性右下腹痛", "转移性右下腹痛"),
        ("肺癌化疗", "肺癌化疗"),
        ("股骨癌", "股骨癌"),
        ("胃癌肝癌", "胃癌肝癌"),
    ],
)
def test_carcinomas_are_written_as_their_sites(text: str, written: str) -> None:
    assert Tumours().written(text) == written


def test_every_site_has_a_name_with_a_code() -> None:
    names = read_everyday_names()
    for word, site in read_sites().items():
        assert not site.primary or names[f"{site.primary}癌"].startswith("C"), word
        assert not site.secondary or names[f"{site.secondary}转移癌"].startswith("C7"), word


def test_own_sites_replace_the_default_ones() -> None:
    own = Tumours({"甲": Site("乙", "丙")})
    assert own.written("甲癌") == "乙癌" and own.written("甲转移") == "丙转移癌" and own.written("肺腺癌") == "肺腺癌"


@pytest.mark.parametrize("row", read_complications(), ids=lambda row: row.example)
def test_example_of_each_complication_gets_the_combined_name(row: Complication) -> None:
    text = Complications().written(row.example)
    assert row.pattern.search(row.example)
    assert text in read_everyday_names() or text in ("支气管扩张伴感染",)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("T2DM伴周围神经病变", "2型糖尿病周围神经病变"),
        ("2型糖尿病,糖尿病肾病", "2型糖尿病肾病"),
        ("糖尿病不伴肾病", "糖尿病不伴肾病"),
        ("胆囊结石伴慢性胆囊炎", "胆囊结石伴慢性胆囊炎"),
        ("慢性胆囊炎并胆囊结石", "胆囊结石伴慢性胆囊炎"),
        ("胃溃疡", "胃溃疡"),
        ("糖尿病足月分娩", "糖尿病足月分娩"),
    ],
)
def test_complications_are_written_with_their_disease(text: str, written: str) -> None:
    assert Complications().written(text) == written


def test_names_of_the_list_are_searched_as_written() -> None:
    reader = Reader(lambda texts: [text in ("右肺腺癌", "高血压3级") for text in texts])
    named, other = (reader.read([text])[0][0] for text in ("右肺腺癌", "左肺腺癌 T1N0M0"))
    assert named.searched == "" and [one.kind for one in named.modifiers] == ["side"]
    assert other.searched == "肺癌" and [one.text for one in other.modifiers] == ["左", "T1N0M0"]
    ((both,),) = reader.read(["高血压3级 很高危、左肺腺癌"])
    assert both.searched == "高血压、肺癌" and both.text == "高血压3级 很高危、左肺腺癌"


@pytest.fixture(scope="module")
def normaliser(tmp_path_factory: pytest.TempPathFactory) -> Normaliser:
    path = tmp_path_factory.mktemp("index")
    names = {"C34": "肺癌", "C79.3": "脑转移癌", "J95": "手术后肺功能不全", "I10": "高血压", "J47": "支气管扩张"}
    entries = [Entry(code, name) for code, name in names.items()]
    EmbeddedIndex.build([*entries, Entry("R04.2", "咯血"), Entry("J47.1", "感染", ("支气管扩张伴咯血",))], path)
    return Normaliser(path)


def test_modifiers_do_not_lead_astray_and_are_kept(normaliser: Normaliser) -> None:
    one, both = normaliser.normalise(["左肺鳞癌术后 cT2N1M0", "肺癌脑转移"])
    assert [each.code for each in one.terms] == ["C34"]
    assert [(each.kind, each.text) for each in one.modifiers] == [
        ("side", "左"),
        ("after", "术后"),
        ("stage", "cT2N1M0"),
    ]
    assert {each.code for each in both.terms} == {"C34", "C79.3"} and both.modifiers == ()


def test_compound_that_is_a_name_is_not_cut(normaliser: Normaliser) -> None:
    alone, among = normaliser.normalise(["支气管扩张伴咯血", "高血压、支气管扩张伴咯血"])
    assert [each.code for each in alone.terms] == ["J47.1"]
    assert {each.code for each in among.terms} == {"I10", "J47.1"}
    (cut,) = normaliser.normalise(["高血压伴咯血"])
    assert {each.code for each in cut.terms} == {"I10", "R04.2"}


def test_modifiers_have_a_column(normaliser: Normaliser, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.csv"
    source.write_text("高血压3级 很高危\n高血压\n否认左肺癌\n", encoding="utf-8")
    normalise_file(normaliser, source, target)
    rows = list(csv.DictReader(target.read_text(encoding="utf-8-sig").splitlines()))
    assert [row["modifiers"] for row in rows] == ["grade=3级; risk=很高危", "", ""]


@pytest.mark.parametrize(
    ("read", "header", "row", "message"),
    [
        (read_modifiers, "kind,modifier,unless,example,left", "degree,3级,,a,b", "row 2: kind 'degree'"),
        (read_modifiers, "kind,modifier,unless,example,left", "grade,,,a,b", "row 2 has no modifier"),
        (read_modifiers, "kind,modifier,unless,example,left", "grade,3级(,,a,b", "row 2 is not a regular"),
        (read_sites, "word,site,secondary", ",肺,肺", "row 2 needs a word"),
        (read_sites, "word,site,secondary", "肺,,", "row 2 needs a word"),
        (read_complications, "disease,complication,combined,example", "a,,b,c", "row 2 has an empty cell"),
        (read_complications, "disease,complication,combined,example", r"a,b,\3,ab", "row 2 is not a regular"),
    ],
)
def test_fault_in_a_table_is_reported(tmp_path: Path, read, header: str, row: str, message: str) -> None:  # type: ignore[no-untyped-def]
    table = tmp_path / "table.csv"
    table.write_text(f"{header}\n{row}\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read(table)
