"""Changes of a module that a test should notice: every place where one small error can be made."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
LEFT_ALONE = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)
"""Their contents are for people to read, or of no effect on results."""
LOGS = frozenset({"debug", "info", "warning", "exception"})


@dataclass(frozen=True)
class Change:
    """A line, what is done there, and the whole source with it."""

    line: int
    what: str
    source: str


def changes_of(source: str) -> list[Change]:
    """Return all changes of a module, in the order of its lines.

    Comparisons lose or gain their border or are turned round, sums become differences, `and` becomes `or`, conditions
    are negated, whole numbers grow by 1, truth values turn, and calls whose result nobody uses are left out.
    Docstrings, annotations, messages of errors and logs, and decorators stay.
    """
    tree = ast.parse(source)
    found = []
    for path, what in places(tree):
        changed = copy.deepcopy(tree)
        node = node_at(changed, path)
        apply(node, changed, path)
        found.append(Change(getattr(node, "lineno", 0), what, ast.unparse(ast.fix_missing_locations(changed))))
    return sorted(found, key=lambda change: (change.line, change.what))


def sample(changes: list[Change], count: int, seed: int) -> list[Change]:
    """Return some of the changes, drawn by a seed, in the order of their lines."""
    if count >= len(changes):
        return changes
    chosen = sorted(random.Random(seed).sample(range(len(changes)), count))
    return [changes[index] for index in chosen]


Path = tuple[tuple[str, int | None], ...]


def places(node: ast.AST, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield where a change is possible below a node, and what it is."""
    what = described(node)
    if what:
        yield path, what
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if isinstance(child, ast.AST) and not left_alone(child):
                yield from places(child, (*path, (name, index)))


def left_alone(node: ast.AST) -> bool:
    """Whether nothing is changed below a node."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr in LOGS:
        return True
    return isinstance(node, LEFT_ALONE)


def described(node: ast.AST) -> str | None:
    """Return the change of one node in words, or None if there is none."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        return f"`{ast.unparse(node)}` turned or its border moved"
    if (
        isinstance(node, ast.BinOp)
        and type(node.op) in OPERATORS
        and not isinstance(node.left, ast.Constant | ast.JoinedStr)
    ):
        return f"`{ast.unparse(node)}`: {OPERATORS[type(node.op)].__name__}"
    if isinstance(node, ast.BoolOp):
        return f"`{ast.unparse(node)}`: and and or exchanged"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"`{ast.unparse(node)}` without not"
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Constant):
        return f"`if {ast.unparse(node.test)}` negated"
    if isinstance(node, ast.Constant) and type(node.value) in (int, bool):
        return f"constant {node.value} changed"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not left_alone(node.value):
        return f"`{ast.unparse(node)}` left out"
    return None


def apply(node: ast.AST, tree: ast.AST, path: Path) -> None:
    """Make the change of a node in its tree."""
    if isinstance(node, ast.Compare):
        node.ops = [COMPARISONS[type(node.ops[0])]()]
    elif isinstance(node, ast.BinOp):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp):
        replace(tree, path, node.operand)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else int(str(node.value)) + 1
    else:
        replace(tree, path, ast.Pass())


def node_at(tree: ast.AST, path: Path) -> ast.AST:
    """Return the node at a path."""
    for name, index in path:
        value = getattr(tree, name)
        tree = value if index is None else value[index]
    return tree


def replace(tree: ast.AST, path: Path, node: ast.AST) -> None:
    """Put another node at a path."""
    parent = node_at(tree, path[:-1])
    name, index = path[-1]
    if index is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[index] = node
