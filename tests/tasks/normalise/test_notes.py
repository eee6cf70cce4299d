"""What follows the name of a disease after a blank."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tasks.normalise.reading import Reader, Statement
from tasks.normalise.reading.notes import names_before_notes

NAMES = {"白癜风", "锁骨骨折", "骨折", "精神发育迟滞", "先心病", "糖尿病", "高血压"}


def _read(text: str) -> tuple[Statement, ...]:
    def is_name(texts: Sequence[str]) -> list[bool]:
        return [one in NAMES for one in texts]

    return Reader(is_name).read([text])[0]


@pytest.mark.parametrize(
    ("text", "searched", "note"),
    [
        ("白癜风 节段 观察", "白癜风", "节段 观察"),
        ("锁骨骨折 移位", "锁骨骨折", "移位"),
        ("高血压 服药控制", "高血压", "服药控制"),
    ],
)
def test_what_follows_a_name_after_a_blank_is_a_note(text: str, searched: str, note: str) -> None:
    (found,) = _read(text)
    assert found.searched == searched
    assert [(one.kind, one.text) for one in found.modifiers] == [("note", note)]


@pytest.mark.parametrize(
    "text",
    [
        "糖尿病 肾病",  # another disease
        "骨折 桡骨远端",  # the site, without which it is another disease
        "先心病 VSD",  # perhaps a disease by its short form
        "精神发育迟滞 中度",  # a degree that has a code of its own
        "高血压 未控制",  # a denial is no note
        "肺心病 服药控制",  # no name of the list
    ],
)
def test_other_things_after_a_blank_stay(text: str) -> None:
    (found, *_) = _read(text)
    assert not any(one.kind == "note" for one in found.modifiers)


def test_the_longest_name_comes_first() -> None:
    assert names_before_notes("白癜风 节段 观察") == ("白癜风 节段", "白癜风")
    assert names_before_notes("白癜风") == ()
