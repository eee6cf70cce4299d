"""The page of normal forms: every cell of its comparison is what the code returns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from infra.settings import REPOSITORY
from kg.linking.surface_forms import forms_of_names
from kg.names import normalise_name
from models.tokenizer.wordpiece import split_words
from tasks.clean import clean_text
from tasks.decontaminate.plain_form import plain_forms
from tasks.retrieve.fields import comparable_forms
from tasks.text.comparable import GUARD, comparable

PAGE = (REPOSITORY / "tasks/text/forms.md").read_text(encoding="utf-8")
FORMS: dict[str, Callable[[str], str]] = {
    "cleaned": clean_text,
    "comparable": comparable,
    "plain": lambda text: plain_forms([text]).points.tobytes().decode("utf-32-le"),
    "name": normalise_name,
    "search": lambda text: " ".join(comparable_forms([text])[0]),
    "surface": lambda text: forms_of_names([text])[0],
    "tokens": lambda text: " ".join(split_words(text)),
}


def cells_of(line: str) -> list[str]:
    return [cell.strip().strip("`").replace("␂", GUARD) for cell in line.strip("|").split("|")]


HEADER, _, *ROWS = (cells_of(line) for line in PAGE.partition("## Side by side")[2].splitlines() if line[:1] == "|")
CELLS = [(row[0], form, cell) for row in ROWS for form, cell in zip(HEADER[1:], row[1:], strict=True)]


def test_page_compares_all_forms() -> None:
    assert ["text", *FORMS] == HEADER
    assert len(ROWS) >= 10


@pytest.mark.parametrize(("text", "form", "expected"), CELLS)
def test_cell_is_what_the_code_returns(text: str, form: str, expected: str) -> None:
    assert FORMS[form](text) == expected
