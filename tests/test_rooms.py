"""The house rules that no linter knows: no test imports another, and fixed names stay where they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from infra.settings import REPOSITORY

TESTS = sorted((REPOSITORY / "tests").rglob("test_*.py"))


def imported_modules(source: str) -> set[str]:
    """Modules that a file imports, by their full names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_test_module_imports_another(path: Path) -> None:
    modules = {".".join(test.relative_to(REPOSITORY).with_suffix("").parts) for test in TESTS}
    assert not imported_modules(path.read_text(encoding="utf-8")) & modules


def test_every_page_of_measurements_is_in_a_room() -> None:
    """The site has the pages of rooms alone."""
    results = REPOSITORY / "benchmarks" / "results"
    assert [path.name for path in results.iterdir() if path.is_file()] == []
