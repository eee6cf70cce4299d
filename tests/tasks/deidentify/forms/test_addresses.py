"""Addresses in English around a road: where they begin and end."""

from __future__ import annotations

import pytest

from tasks.deidentify.forms.addresses import english_address


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("at 12 Nanjing Road, Shanghai 200001, daily", "12 Nanjing Road, Shanghai 200001"),
        ("at Flat 12B, 88 Queen's Garden, Nathan Road with pain", "Flat 12B, 88 Queen's Garden, Nathan Road"),
        ("12 Nanjing Road", "12 Nanjing Road"),
        ("B12 Nanjing Road", None),  # the end of a code
        ("on Nanjing Road", None),
        ("on day 3 of the Road", None),
    ],
)
def test_an_english_address_has_a_number(text: str, found: str | None) -> None:
    start = text.index("Road")
    spans = english_address(text, start, start + 4, 0)
    assert [text[first:last] for first, last in spans] == ([] if found is None else [found])


def test_an_address_may_begin_right_behind_another() -> None:
    text = "6 Queen's Road Central6 Queen's Road Central"
    second = text.rindex("Road")
    assert english_address(text, second, second + 4, 22) == [(22, 44)]
    assert english_address(text, second, second + 4, 0) == []
