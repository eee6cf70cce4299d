"""Later mentions of names that a document has given."""

from __future__ import annotations

import pytest

from tasks.deidentify.search.names_again import names_again
from tests.support.text.linear_time import LINEAR, ratio_of_doubling
from tests.support.text.rules_alone import deidentify


@pytest.mark.parametrize(
    ("text", "treated"),
    [
        ("患者王建国，男。王建国诉头痛。", "患者〔姓名〕，男。〔姓名〕诉头痛。"),
        ("姓名：谭雪琴\n谭 雪 琴复查，谭雪\n琴签字", "姓名：〔姓名〕\n〔姓名〕复查，〔姓名〕签字"),
        ("姓名：谭雪琴\n雪琴说不痛。", "姓名：〔姓名〕\n〔姓名〕说不痛。"),
        (
            "姓名：王建国\n老王今天好多了，王总、小王也来了。",
            "姓名：〔姓名〕\n〔姓名〕今天好多了，〔姓名〕、〔姓名〕也来了。",
        ),
        ("姓名：铁蛋\n奶奶说铁蛋发热", "姓名：〔姓名〕\n奶奶说〔姓名〕发热"),
        ("姓名：佳佳\n奶奶说佳佳发热", "姓名：〔姓名〕\n奶奶说〔姓名〕发热"),
        ("姓名：小宝\n奶奶说小宝发热", "姓名：〔姓名〕\n奶奶说〔姓名〕发热"),
    ],
)
def test_whole_split_and_partial_mentions_are_replaced(text: str, treated: str) -> None:
    assert deidentify(text)[0] == treated


@pytest.mark.parametrize(
    "text", ["病情总结，建国以来，老王家", "白细胞。老白干，小白兔", "高总体。小高峰", "王\n芳香化浊，王浆"]
)
def test_words_with_the_same_characters_stay(text: str) -> None:
    said = "姓名：王建国，姓名：白玉霞，姓名：高志远，姓名：王芳\n"
    assert deidentify(said + text)[0].endswith("\n" + text)


def test_a_name_that_is_a_word_is_not_looked_for_again() -> None:
    assert deidentify("姓名：安静\n病房安静，高峰浓度")[0] == "姓名：〔姓名〕\n病房安静，高峰浓度"


@pytest.mark.parametrize(
    ("text", "treated"),
    [
        ("姓名：白雪\n白雪自述咳嗽", "姓名：〔姓名〕\n〔姓名〕自述咳嗽"),
        ("姓名：白雪\n家属称白雪对青霉素过敏", "姓名：〔姓名〕\n家属称〔姓名〕对青霉素过敏"),
        ("姓名：高峰\n高峰体温降至正常，流感高峰期", "姓名：〔姓名〕\n〔姓名〕体温降至正常，流感高峰期"),
        ("姓名：安静\n夜间安静入睡，安静拒绝输液", "姓名：〔姓名〕\n夜间安静入睡，〔姓名〕拒绝输液"),
    ],
)
def test_a_name_that_is_a_word_is_found_again_where_a_person_is_meant(text: str, treated: str) -> None:
    assert deidentify(text)[0] == treated


def test_what_a_field_calls_a_person_is_found_wherever_it_is_a_word_of_its_own() -> None:
    text = "高峰来诊，流感高峰期，家属问高峰。白术10g，白术睡了"
    again = names_again(text, {"高峰", "白术"}, {"高峰", "白术"})
    assert [(one.start, text[one.start : one.end]) for one in again] == [(0, "高峰"), (14, "高峰"), (23, "白术")]
    assert names_again(text, {"高峰", "白术"}) == []


@pytest.mark.parametrize("word", ["小腿", "阵阵", "妈妈", "宝宝", "鸡蛋", "小心"])
def test_a_word_that_was_taken_for_a_name_takes_no_others_along(word: str) -> None:
    assert names_again(f"诉{word}不适", {word}) == []
    assert [one.rule for one in names_again("诉佳佳不适", {word, "佳佳"})] == ["found before"]


def test_hundreds_of_names_are_all_found_again_in_linear_time() -> None:
    surnames, given = "王李张刘陈杨黄赵吴周徐孙", "建国志远秀兰桂英玉梅晓东文博雪琴海燕俊杰"
    names = [s + a + b for s in surnames for a in given[:8] for b in given[8:]][:1000]

    def text_of(number: int) -> str:
        said = "\n".join(f"姓名：{name}" for name in names[:number])
        return said + "\n" + "，".join(f"见{name}好" for name in names[:number])

    treated, counts = deidentify(text_of(1000))
    assert counts["name"] == 2 * len(names)
    assert not any(name in treated for name in names)
    assert ratio_of_doubling(deidentify, text_of, 500) < LINEAR


def test_a_name_that_one_round_uncovers_is_found_in_the_next() -> None:
    """The first round reads 王芳小 as a name, and has 女儿王芳 left."""
    treated, counts = deidentify("小女儿王芳小女儿王芳")
    assert "王芳" not in treated and counts == {"name": 2}
