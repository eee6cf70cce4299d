"""The house rules that no linter knows: no test imports another, and fixed names stay where they are."""

from __future__ import annotations

import ast

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


def test_no_test_module_imports_another() -> None:
    modules = {".".join(test.relative_to(REPOSITORY).with_suffix("").parts) for test in TESTS}
    found = {str(test): imported_modules(test.read_text(encoding="utf-8")) & modules for test in TESTS}
    assert {test: names for test, names in found.items() if names} == {}
    assert len(modules) > 300


def test_every_page_of_measurements_is_in_a_room() -> None:
    """The site has the pages of rooms alone."""
    results = REPOSITORY / "benchmarks" / "results"
    assert [path.name for path in results.iterdir() if path.is_file()] == []
