"""Records of train that a seed draws: nested, in the order of the file, with whole questions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tasks.downstream.records import Record
from tasks.downstream.task_data import drawn_records

RECORDS = [Record(str(number), ("头痛",), "1", None) for number in range(60)]
QUESTIONS = [Record(str(number), ("头痛",), "1", f"q{number // 4}") for number in range(60)]


def ids(records: list[Record]) -> list[int]:
    return [int(record.record_id) for record in records]


@given(st.integers(1, 59), st.integers(1, 59), st.integers(0, 1000))
def test_fewer_are_part_of_more(first: int, second: int, seed: int) -> None:
    few, many = (ids(drawn_records(RECORDS, count, seed)) for count in sorted((first, second)))
    assert len(few), len(many) == sorted((first, second))
    assert set(few) <= set(many) and few == sorted(few)


@given(st.integers(1, 59), st.integers(0, 1000))
def test_questions_stay_whole(count: int, seed: int) -> None:
    found = ids(drawn_records(QUESTIONS, count, seed))
    assert count <= len(found) < count + 4 and len(found) % 4 == 0
    assert all(number // 4 * 4 + other in found for number in found for other in range(4))


def test_seeds_draw_other_records_and_all_means_all() -> None:
    assert ids(drawn_records(RECORDS, 10, 1)) != ids(drawn_records(RECORDS, 10, 2))
    assert drawn_records(RECORDS, None, 1) == drawn_records(RECORDS, 60, 1) == RECORDS
