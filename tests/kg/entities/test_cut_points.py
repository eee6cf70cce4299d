"""Cut points: cutting, counting, and a review file that people edit."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from kg.entities.cut_points import (
    CutPoint,
    CutPoints,
    count_cut_points,
    medicine_cut_points,
    read_cut_points,
    write_cut_points,
)

SEGMENTATIONS = [
    ("急性", "胰腺炎"),
    ("慢性", "阻塞性", "肺病"),
    ("糖尿病",),
    ("性", "病", "（", "淋病", "）"),
    ("30", "%"),
]


@pytest.mark.parametrize(
    ("surface", "parts"),
    [
        ("再生障碍性贫血", ["再生障碍性", "贫血"]),
        ("急性出血性坏死性小肠炎", ["急性", "出血性", "坏死性", "小肠炎"]),
        ("慢性乙型肝炎", ["慢性", "乙型", "肝炎"]),
        ("周期性麻痹", ["周期性", "麻痹"]),
        ("女性", ["女性"]),
        ("库欣综合征", ["库欣", "综合征"]),
        ("腹痛或腹泻", ["腹痛", "或", "腹泻"]),
        ("", []),
    ],
)
def test_medical_names_are_cut_after_suffixes_and_before_heads(surface: str, parts: list[str]) -> None:
    assert CutPoints.of(medicine_cut_points()).split(surface) == parts


@settings(max_examples=300, deadline=None)
@given(st.text("性型炎综甲", max_size=12), st.sets(st.sampled_from("性型综")), st.sets(st.sampled_from("综甲性")))
def test_parts_join_and_every_border_is_at_a_cut_point(surface: str, after: set[str], before: set[str]) -> None:
    cut_points = CutPoints(before, after)
    parts = cut_points.split(surface)
    assert "".join(parts) == surface and "" not in parts
    for left, right in itertools.pairwise(parts):
        assert left[-1] in after or right[0] in before
    for part in parts:
        assert cut_points.split(part) == [part]


def test_counts_equal_those_by_hand() -> None:
    rows = {(row.character, row.side): row for row in count_cut_points(SEGMENTATIONS, top=100)}
    assert (rows["性", "end"].count, rows["性", "end"].occurrences) == (4, 4)
    assert rows["性", "end"].examples == ("急性|胰腺炎", "性|病|（|淋病|）", "慢性|阻塞性|肺病")
    assert (rows["病", "end"].count, rows["病", "end"].occurrences) == (2, 4)
    assert rows["病", "start"].count == 1 and rows["肺", "start"].count == 1
    assert ("急", "start") not in rows, "the border of the entity is no hint"
    assert not {"（", "）", "%", "0"} & {character for character, _ in rows}


def test_most_frequent_come_first_with_earlier_answers() -> None:
    decided = [CutPoint("性", "end", 0, 0, (), True), CutPoint("亚", "start", 0, 0, (), True)]
    rows = count_cut_points(SEGMENTATIONS, [*decided, CutPoint("甲", "end", 0, 0, (), False)], top=2)
    assert [(row.character, row.side, row.keep) for row in rows] == [
        ("性", "end", True),
        ("病", "end", False),
        ("亚", "start", True),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_order_does_not_matter(seed: int) -> None:
    drawn = random.Random(seed)
    segmentations = [
        tuple("".join(drawn.choices("性型炎", k=drawn.randint(1, 3))) for _ in range(drawn.randint(1, 4)))
        for _ in range(40)
    ]
    shuffled = drawn.sample(segmentations, len(segmentations))
    assert count_cut_points(segmentations, top=4) == count_cut_points(shuffled, top=4)


def test_a_spreadsheet_runs_no_example() -> None:
    rows = [CutPoint("=", "end", 1, 1, ('=HYPERLINK("http://x")', "淋病"), True)]
    data = write_cut_points(rows)
    assert """'=,end,1,1,"'=HYPERLINK(""http://x"") 淋病",yes""" in data.decode()
    assert read_cut_points(data, "review.csv") == rows


def test_review_file_can_be_edited_and_read_again() -> None:
    rows = count_cut_points(SEGMENTATIONS)
    data = write_cut_points(rows)
    assert data.startswith("\ufeffcharacter,side,count,occurrences,examples,keep\n性,end,4,4,".encode())
    assert read_cut_points(data, "review.csv") == rows
    edited = data.replace("病|（|淋病|）,no".encode(), "病|（|淋病|）,Yes".encode()).replace(b"\n", b"\r\n")
    read = read_cut_points(edited.removeprefix(b"\xef\xbb\xbf"), "review.csv")
    changed = [replace(row, keep=not row.keep) for row in rows if row.examples[-1:] == ("性|病|（|淋病|）",)]
    assert changed and all(row in read for row in changed)


def test_handwritten_rows_need_only_three_columns() -> None:
    data = "keep,character,side\nyes,性,end\n\nno,亚, START \n".encode()
    assert read_cut_points(data, "mine.csv") == [
        CutPoint("性", "end", 0, 0, (), True),
        CutPoint("亚", "start", 0, 0, (), False),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: no column character"),
        ("character;side;keep\n性;end;yes\n", "line 1: no column character"),
        ("character,side\n性,end\n", "line 1: no column keep"),
        ("character,side,keep\n性,end,yes\n综合,start,yes\n", "line 3: the column character contains '综合'"),
        ("character,side,keep\n,end,yes\n", "line 2: the column character contains ''"),
        ("character,side,keep\n性,middle,yes\n", "line 2: the column side contains 'middle'"),
        ("character,side,keep\n性,end,maybe\n", "line 2: the column keep contains 'maybe'"),
        ("character,side,keep\n性,end\n", "line 2: the column keep contains ''"),
        ("character,side,count,keep\n性,end,-1,yes\n", "line 2: the column count contains '-1'"),
        ("character,side,keep\n性,end,yes\n性,end,no\n", "line 3: '性' at the end occurs twice"),
    ],
)
def test_errors_in_a_review_file_name_the_line(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=f"^review.csv, {problem}"):
        read_cut_points(text.encode(), "review.csv")


def test_review_file_in_another_encoding_is_rejected() -> None:
    with pytest.raises(UserError, match=r"review.csv is not UTF-8 .* save it as CSV UTF-8"):
        read_cut_points("character,side,keep\n性,end,yes\n".encode("gb18030"), "review.csv")


def test_table_for_medicine_is_a_review_of_a_hundred() -> None:
    rows = medicine_cut_points()
    assert len(rows) == 100
    assert [row.count for row in rows] == sorted((row.count for row in rows), reverse=True)
    assert all(0 < row.count <= row.occurrences and row.examples for row in rows)
    assert {"性", "型"} <= CutPoints.of(rows).after
    assert write_cut_points(rows).decode("utf-8-sig").count("yes") == sum(row.keep for row in rows)
