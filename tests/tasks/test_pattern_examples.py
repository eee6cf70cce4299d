"""Regular expressions beside which examples are written: they match what is said there, and nothing else of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.settings import REPOSITORY
from tests.support.pattern_examples import NamedPattern, patterns_of, unnamed_patterns

ROOMS = ("clean", "decontaminate", "deduplicate", "deidentify", "text")
"""Rooms of tasks/ in which every pattern has examples."""
FILES = sorted(path for room in ROOMS for path in (REPOSITORY / "tasks" / room).rglob("*.py"))
PATTERNS = [pattern for path in FILES for pattern in patterns_of(path)]


def place(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("pattern", PATTERNS, ids=[f"{place(each.path)}:{each.name}" for each in PATTERNS])
def test_pattern_matches_its_examples_and_not_the_others(pattern: NamedPattern) -> None:
    assert pattern.matches and pattern.others, f"{place(pattern.path)}:{pattern.line}: no examples above {pattern.name}"
    assert [text for text in pattern.matches if not pattern.finds(text)] == []
    assert [text for text in pattern.others if pattern.finds(text)] == []


@pytest.mark.parametrize("path", FILES, ids=place)
def test_functions_write_no_pattern_down(path: Path) -> None:
    assert list(unnamed_patterns(path)) == []
