"""Examples beside regular expressions: texts that a pattern matches and texts that it must not.

They are comments directly above a pattern, as Python strings:

    # matches: "138 1234 5678", "13812345678"
    # not: "2019-05-06"
    _MOBILE = re.compile(…)

A string that is a piece of other patterns may have them too.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from infra.settings import REPOSITORY

_MODULES = ("re", "regex")
_FUNCTIONS = frozenset({"compile", "search", "match", "fullmatch", "sub", "subn", "split", "finditer", "findall"})


class NamedPattern(NamedTuple):
    """A regular expression of a module with its examples."""

    path: Path
    name: str
    line: int
    matches: tuple[str, ...]
    others: tuple[str, ...]
    """Texts that it must not match."""
    method: str
    """Way in which the module uses it: search, match or fullmatch."""

    def finds(self, text: str) -> bool:
        """Return True where the pattern matches a text, in the way in which its module uses it."""
        pattern: Any = getattr(importlib.import_module(_module_of(self.path)), self.name)
        if isinstance(pattern, str):
            pattern = re.compile(pattern)
        return bool(getattr(pattern, self.method)(text) is not None)


def patterns_of(path: Path) -> Iterator[NamedPattern]:
    """Yield the patterns of a module: all that are compiled under a name, and other strings with examples."""
    source = path.read_text(encoding="utf-8")
    lines, tree = source.splitlines(), ast.parse(source)
    methods = _methods(tree)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            matches, others = _examples(lines, node.lineno - 1)
            if matches or others or _is_call(node.value, {"compile"}):
                name = node.targets[0].id
                yield NamedPattern(
                    path,
                    name,
                    node.lineno,
                    matches,
                    others,
                    _method(methods[name], looks_behind="(?<=" in ast.unparse(node.value)),
                )


def unnamed_patterns(path: Path) -> Iterator[int]:
    """Yield the lines on which a function writes a pattern down, where no examples can stand beside it."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if _is_call(node, _FUNCTIONS) and isinstance(node.args[0], ast.Constant) and _is_special(node.args[0]):
                    yield node.lineno


def _is_special(pattern: ast.Constant) -> bool:
    """Return True for a pattern that says more than one plain character set: [0-9] is its own example."""
    return not re.fullmatch(r"\[[^\[\]]*\]|\\[a-z]", str(pattern.value))


def _is_call(node: ast.AST, functions: set[str] | frozenset[str]) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in _MODULES
        and node.func.attr in functions
    )


def _examples(lines: list[str], line: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the examples in the comments directly above a line."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    while line and lines[line - 1].startswith("#"):
        line -= 1
        kind, _, texts = lines[line].removeprefix("#").strip().partition(": ")
        if kind in ("matches", "not"):
            found[kind] += ast.literal_eval(f"({texts},)")
    return found["matches"], found["not"]


def _methods(tree: ast.Module) -> dict[str, set[str]]:
    """Return the methods that a module uses of each name."""
    found: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found[node.value.id].add(node.attr)
    return found


def _method(used: set[str], *, looks_behind: bool) -> str:
    used &= _FUNCTIONS
    if used == {"fullmatch"}:
        return "fullmatch"
    if looks_behind:
        return "search"  # such a pattern is matched further on in a text, where an example has something before it
    return "match" if used and used <= {"match", "fullmatch"} else "search"


def _module_of(path: Path) -> str:
    return ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
