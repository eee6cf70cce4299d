"""Changes for mutants: what is changed, what is left alone."""

from __future__ import annotations

import ast

from tests.mutants.changes import changes_of, sample

SOURCE = '''
"""A docstring with 1 + 1."""
LIMIT = 3

def kept(values: list[int], limit: int = 2) -> bool:
    """Another."""
    if not values and limit < LIMIT:
        raise ValueError(f"{limit + 1} is too little")
    values.append(limit + 1)
    logger.info("added %d", 1)
    return values[0] == 5
'''


def test_every_decision_is_changed_once() -> None:
    changes = changes_of(SOURCE)
    assert [change.what for change in changes if change.line == 7] == [
        "`if not values and limit < LIMIT` negated",
        "`limit < LIMIT` turned or its border moved",
        "`not values and limit < LIMIT`: and and or exchanged",
        "`not values` without not",
    ]
    assert {change.line for change in changes} == {3, 5, 7, 9, 11}
    assert len({change.source for change in changes}) == len(changes)
    assert ast.unparse(ast.parse(SOURCE)) not in {change.source for change in changes}


def test_changed_sources_do_what_they_say() -> None:
    by_name = {change.what: change.source for change in changes_of(SOURCE)}
    assert "LIMIT = 4" in by_name["constant 3 changed"]
    assert "limit <= LIMIT" in by_name["`limit < LIMIT` turned or its border moved"]
    assert "if values and limit < LIMIT" in by_name["`not values` without not"]
    assert "values.append" not in by_name["`values.append(limit + 1)` left out"]
    assert "values[0] != 5" in by_name["`values[0] == 5` turned or its border moved"]
    assert all("{limit + 1} is too little" in source for source in by_name.values())


def test_a_sample_is_the_same_for_a_seed() -> None:
    changes = changes_of(SOURCE)
    assert sample(changes, 3, 1) == sample(changes, 3, 1)
    assert len(sample(changes, 3, 1)) == 3 and sample(changes, 100, 1) == changes
