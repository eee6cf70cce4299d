"""docs/privacy.md: its tables are those of the table of kinds, and what it says of settings is so."""

from __future__ import annotations

import re

import pytest

from infra.settings import REPOSITORY
from tasks.deidentify.forms.identifier import PROFILES
from tasks.deidentify.kinds import KINDS, kinds_of
from tasks.deidentify.operators import OPERATORS
from tasks.deidentify.user_rules import parse_rules
from tests.support.text.kinds_table import SAFE_HARBOR, gbt_table, kinds_table, safe_harbor_table

PAGE = (REPOSITORY / "docs" / "privacy.md").read_text(encoding="utf-8")
TABLES = {"kinds": kinds_table(), "hipaa": safe_harbor_table(), "gbt35273": gbt_table()}


@pytest.mark.parametrize("name", TABLES)
def test_table_is_that_of_the_kinds(name: str) -> None:
    block = re.search(f"<!-- {name} -->\n(.*?)\n<!-- end of {name} -->", PAGE, re.DOTALL)
    assert block is not None
    assert block[1].split("\n") == TABLES[name], "write tests/support/text/kinds_table.py's rows into docs/privacy.md"


def test_every_kind_of_a_regulation_is_in_its_table() -> None:
    assert len(SAFE_HARBOR) == 18
    for name in kinds_of("hipaa"):
        assert f"`{name}`" in "\n".join(safe_harbor_table())
    assert [row for row in safe_harbor_table() if "none: text" in row] == [
        "| P | biometric identifiers | none: text holds none |",
        "| Q | full-face photographs | none: text holds none |",
    ]


def test_settings_that_the_page_names_exist() -> None:
    assert all(f"`{name}`" in PAGE for name in (*OPERATORS, *PROFILES))
    for kind in re.findall(r"deidentify\.(?:kinds|operators)\.(\w+)=", PAGE):
        assert kind in KINDS


def test_example_of_rules_is_accepted() -> None:
    rules = re.search("```toml\n(.*?)```", PAGE, re.DOTALL)
    assert rules is not None
    assert parse_rules(rules[1], "rules.toml").own_kinds == {"project"}
