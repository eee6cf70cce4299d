"""Segmentation of long entities: the paper's cases, each rule, and the labelled names."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from itertools import combinations, pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kg.entities.cut_points import CutPoints, medicine_cut_points
from kg.entities.entity_segmentation import Segmentation, join_bound, merge_phrases, segment_entities
from tests.support.graphs.labelled_entities import accuracy, borders, read_names

MEDICINE = CutPoints.of(medicine_cut_points())


def cut(
    surface: str, *others: str, phrases: Mapping[str, float] | None = None, share: float = 0.3, hmm: bool = True
) -> str:
    """Return the pieces of a surface that is segmented together with other names."""
    return "|".join(segment_entities([surface, *others], MEDICINE, phrases, share, hmm=hmm)[surface].pieces)


@pytest.mark.parametrize(
    ("surface", "adjective", "atomic"),
    [
        ("再生障碍性贫血", "再生障碍性", "贫血"),
        ("新型冠状病毒肺炎", "新型冠状病毒", "肺炎"),
        ("糖尿病酮酸中毒", None, "酸中毒"),
    ],
)
def test_cases_of_the_paper(surface: str, adjective: str | None, atomic: str) -> None:
    found = segment_entities([surface, "贫血", "肺炎", "糖尿病", "酸中毒"], MEDICINE)[surface]
    assert found.is_long
    assert found.atomic == atomic
    assert found.adjective == (adjective or surface.removesuffix(atomic))


def test_sub_entities_of_the_paper_end_at_borders() -> None:
    assert "冠状病毒" in cut("新型冠状病毒肺炎").split("|")
    assert cut("糖尿病酮酸中毒").startswith("糖尿病|")
    assert cut("再生障碍性贫血") == "再生障碍性|贫血"


def test_bound_word_stays_with_the_word_before_it() -> None:
    assert cut("珠蛋白生成障碍性贫血") == "珠蛋白|生成障碍性|贫血"
    assert cut("肾功能障碍检查").startswith("肾功能|障碍")


def test_words_that_the_dictionary_lacks_are_guessed() -> None:
    assert cut("进行性核上性麻痹") == "进行性|核上性|麻痹"
    assert cut("进行性核上性麻痹", hmm=False) == "进行性|核|上|性|麻痹"


def test_guess_that_leaves_single_characters_is_not_used() -> None:
    assert cut("苯噻啶与西吡氯铵") == cut("苯噻啶与西吡氯铵", hmm=False) == "苯噻啶|与|西吡氯铵"
    assert cut("苯噻啶与西吡氯铵", share=1.0) == "苯|噻啶|与|西|吡氯铵"


def test_short_entities_stay_whole_and_form_the_dictionary() -> None:
    found = segment_entities(["格列酮", "格列酮片剂", "艾附暖"], MEDICINE)
    assert found["格列酮"] == Segmentation(("格列酮",))
    assert not found["艾附暖"].is_long
    assert found["格列酮片剂"].pieces == ("格列酮", "片剂")


def test_cut_points_come_before_the_dictionary() -> None:
    surface = "卵巢恶性肿瘤"  # 恶性肿瘤 stands in jieba's own dictionary
    assert cut(surface) == "卵巢|恶性|肿瘤"
    assert segment_entities([surface], CutPoints())[surface].pieces == ("卵巢", "恶性肿瘤")


def test_too_many_single_characters_are_corrected_by_phrases() -> None:
    surface = "枸橼酸西吡氯铵胶囊"
    uncorrected = "枸橼酸|西|吡|氯|铵|胶囊"
    assert cut(surface, share=1.0, hmm=False) == uncorrected
    assert cut(surface, phrases={"吡氯铵": 0.9}, share=0.5, hmm=False) == "枸橼酸|西|吡氯铵|胶囊"
    assert cut(surface, phrases={"吡氯铵": 0.9}, share=4 / 6, hmm=False) == uncorrected


def test_given_segments_replace_only_cuts_with_too_many_single_characters() -> None:
    corrections = {"铌钽铼铱": ("铌", "钽铼铱"), "慢性胰腺炎": ("慢", "性", "胰腺", "炎")}
    found = segment_entities(corrections, CutPoints(), {"铌钽铼": 0.9}, 0.3, corrections)
    assert found["铌钽铼铱"].pieces == ("铌", "钽铼铱")
    assert found["慢性胰腺炎"].pieces == ("慢性", "胰腺炎")
    assert segment_entities(corrections, CutPoints(), {"铌钽铼": 0.9}, 0.3)["铌钽铼铱"].pieces == ("铌钽铼", "铱")


def test_characters_without_a_phrase_become_one_unknown_word() -> None:
    assert cut("枸橼酸西吡氯铵胶囊") == "枸橼酸|西吡氯铵|胶囊"
    assert cut("苯噻啶与西吡氯铵") == "苯噻啶|与|西吡氯铵"


def test_uncut_candidate_is_short_and_stays_whole_in_longer_ones() -> None:
    found = segment_entities(["依维莫司", "依维莫司口服片"], MEDICINE)
    assert not found["依维莫司"].is_long
    assert (found["依维莫司"].atomic, found["依维莫司"].adjective) == ("依维莫司", "")
    assert found["依维莫司口服片"].pieces[0] == "依维莫司"


def test_punctuation_at_the_end_belongs_to_the_atomic_term() -> None:
    found = segment_entities(["甲硝唑（灭滴灵）", "甲硝唑", "灭滴灵"], MEDICINE)["甲硝唑（灭滴灵）"]
    assert found.pieces == ("甲硝唑", "（", "灭滴灵", "）")
    assert (found.adjective, found.atomic) == ("甲硝唑（", "灭滴灵）")


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        (["增多", "症"], ["增多症"]),
        (["软骨", "样", "汗管瘤"], ["软骨样", "汗管瘤"]),
        (["再生", "障碍性", "贫血"], ["再生障碍性", "贫血"]),
        (["再生", "障碍", "性", "贫血"], ["再生障碍性", "贫血"]),
        (["障碍性", "贫血"], ["障碍性", "贫血"]),
        (["或", "障碍性", "贫血"], ["或", "障碍性", "贫血"]),
        (["等", "症"], ["等", "症"]),
        (["（", "症"], ["（", "症"]),
        (["症", "状"], ["症状"]),
        (["0", ".", "5", "克"], ["0.5", "克"]),
        (["30", "%"], ["30%"]),
        (["E", "CT", "检查"], ["ECT", "检查"]),
        (["CD", "30", "阳性"], ["CD30", "阳性"]),
        (["T", " ", "B"], ["T", " ", "B"]),
        (["p", ".", "o"], ["p", ".", "o"]),
        ([], []),
    ],
)
def test_suffixes_and_parts_of_numbers_are_joined(pieces: list[str], joined: list[str]) -> None:
    assert join_bound(pieces) == joined


def all_ways(pieces: list[str], phrases: Mapping[str, float]) -> Iterable[list[str]]:
    """Return every way to merge neighbours into phrases, by brute force."""
    for count in range(len(pieces)):
        for chosen in combinations(range(1, len(pieces)), count):
            places = [0, *chosen, len(pieces)]
            runs = [pieces[start:end] for start, end in pairwise(places)]
            if all(len(run) == 1 or "".join(run) in phrases for run in runs):
                yield ["".join(run) for run in runs]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["甲", "乙", "丙丁", "（"]), min_size=1, max_size=7),
    st.dictionaries(st.text("甲乙丙丁（", min_size=2, max_size=5), st.sampled_from([0.5, 0.75, 1.0]), max_size=12),
)
def test_merging_leaves_the_fewest_single_characters(pieces: list[str], phrases: dict[str, float]) -> None:
    merged = merge_phrases(pieces, phrases)
    ways = list(all_ways(pieces, phrases))
    known = set(map(tuple, ways))
    assert tuple(merged) in known

    def cost(way: list[str]) -> tuple[int, int]:
        return sum(len(piece) == 1 and piece.isalnum() for piece in way), -len(way)

    assert cost(merged) == min(map(cost, ways))


characters = st.characters(exclude_categories=["Cs"])  # names come from Parquet, which cannot store a lone surrogate
surfaces = st.text(characters | st.sampled_from("急性坏死型肝炎症或等的片Aa1.%（）  "), min_size=1, max_size=12)


@settings(max_examples=20, deadline=None)  # jieba's dictionary is read for each
@given(st.lists(surfaces, max_size=12), st.randoms(use_true_random=False), st.sampled_from([0.0, 0.3, 1.0]))
def test_pieces_join_and_order_and_repeats_do_not_matter(names: list[str], drawn: random.Random, share: float) -> None:
    phrases = {name[:4]: 0.9 for name in names}
    found = segment_entities(names, MEDICINE, phrases, share)
    assert found.keys() == set(names)
    for surface, segmentation in found.items():
        assert "".join(segmentation.pieces) == surface == segmentation.adjective + segmentation.atomic
        assert "" not in segmentation.pieces and segmentation.atomic
        assert segmentation.is_long == (len(segmentation.pieces) > 1)
        assert len(surface) > 3 or not segmentation.is_long
    again = drawn.sample([*names, *names], 2 * len(names))
    assert segment_entities(again, MEDICINE, phrases, share) == found
    assert list(found) == sorted(found)


def test_no_names_give_no_segmentations() -> None:
    assert segment_entities([], MEDICINE) == {}


def test_labelled_names_are_consistent() -> None:
    names = read_names()
    assert len(names) == len({name.surface for name in names}) == 200
    assert len(read_names("tuning")) == len(read_names("held_out")) == 100
    assert all(len(name.surface) > 3 and all(name.pieces) for name in names)


def test_accuracy_equals_that_by_hand() -> None:
    names = read_names()[:2]
    assert [borders(name.pieces) for name in names] == [{2}, {4}]
    found = {names[0].surface: names[0].pieces, names[1].surface: tuple(names[1].surface)}
    assert accuracy(names, found) == (0.5, 2 / 7, 1.0, 4 / 9)


def test_real_names_are_cut_well(shared_data: Path) -> None:
    graph = pl.read_parquet(shared_data / "kg_cmekg" / "triples.parquet", columns=["head", "tail", "tail_type"])
    wanted = ~pl.col("tail_type").is_in(["Literal", "Category", "Department", "ICDCode", "AliasEN"])
    surfaces = {*graph["head"], *graph.filter(wanted)["tail"]}
    names = read_names()
    surfaces = {name for name in surfaces if 0 < len(name) <= 32} | {name.surface for name in names}
    found = {surface: cut.pieces for surface, cut in segment_entities(surfaces, MEDICINE).items()}
    reached = accuracy(names, found)
    assert reached.exact >= 0.7
    assert reached.f1 >= 0.9
