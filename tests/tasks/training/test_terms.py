"""Names of figures, and the chance levels that belong to them."""

from __future__ import annotations

import pytest

from tasks.training.terms import chance_of, title_of


@pytest.mark.parametrize(
    ("figure", "known", "expected"),
    [
        ("mts_accuracy", ["mts_chance"], "mts_chance"),
        ("sop_unseen_accuracy", ["sop_chance", "sop_unseen_chance"], "sop_unseen_chance"),
        ("rtd_balanced_accuracy", ["rtd_chance"], "rtd_chance"),
        ("mlm_accuracy", ["rtd_chance"], None),
        ("mts_loss", ["mts_chance"], None),
    ],
)
def test_an_accuracy_has_the_chance_of_its_own_rows_if_there_is_one(
    figure: str, known: list[str], expected: str | None
) -> None:
    assert chance_of(figure, known) == expected


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        ("mlm_loss", "MLM loss"),
        ("mmem", "MMEM"),
        ("atomic_unseen_accuracy", "Atomic unseen accuracy"),
        ("selected_rate", "Selected rate"),
    ],
)
def test_abbreviations_are_capitals_and_words_are_words(figure: str, expected: str) -> None:
    assert title_of(figure, {"mlm", "mmem", "atomic"}) == expected
