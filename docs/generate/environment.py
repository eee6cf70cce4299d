"""Page of the environment variables that the code reads, each with the sentence of the docstring that describes it."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from docs.generate.markdown import code, prose, table
from infra.settings import LOCAL_RAY_DEFAULTS, PREFECT_DEFAULTS, PRIVACY_DEFAULTS, REPOSITORY

OWN = re.compile(r"(?:YIWEN|ELASTICSEARCH)_[A-Z]+(?:_[A-Z]+)*")
"""`YIWEN_HOME`"""
INTERNAL = frozenset({"YIWEN_RUN"})
"""Variables that processes of one run give each other; nobody sets them."""
OTHERS = {
    "RAY_ADDRESS": "Address of a running Ray cluster, or of its job endpoint (`http://head:8265`).",
    "RAY_AUTH_TOKEN": "The cluster's token; `RAY_AUTH_TOKEN_PATH` names a file that holds it.",
    "PREFECT_API_URL": "Address of the Prefect server that records runs; without it a run needs no server.",
    "MLFLOW_TRACKING_URI": "Server or file of MLflow that runs are recorded in, instead of the store's own.",
    "TMPDIR": "Folder for temporary files.",
}
"""Variables of other programs that matter here."""


def page() -> str:
    """Return the page."""
    own = [(code(name), prose(meaning)) for name, meaning in sorted(variables().items()) if name not in INTERNAL]
    defaults = PRIVACY_DEFAULTS | PREFECT_DEFAULTS | LOCAL_RAY_DEFAULTS
    parts = [
        "# Environment",
        "Secrets come from here only; they enter no artifact, log or manifest.",
        table(("variable", "meaning"), own),
        "## Of other programs",
        table(("variable", "meaning"), [(code(name), meaning) for name, meaning in OTHERS.items()]),
        "## Defaults that Yiwen sets",
        "Variables that are set already win. Those of Ray hold where no `RAY_ADDRESS` names a cluster.",
        table(("variable", "value"), [(code(name), code(value)) for name, value in defaults.items()]),
    ]
    return "\n\n".join(parts) + "\n"


def variables() -> dict[str, str]:
    """Return the variables of ours that the code names, with the sentence that describes each; empty if none does."""
    names: set[str] = set()
    texts: list[tuple[int, str]] = []
    for folder in ("infra", "kg", "models", "tasks", "flows"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names |= {
                node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and OWN.fullmatch(node.value)
            }
            texts += _docstrings(tree, path)
    texts.sort(key=lambda one: one[0])
    names |= {found for _, text in texts for found in re.findall(rf"`({OWN.pattern})`", text)}
    return {name: next(_sentences(name, texts), "") for name in names}


def _docstrings(tree: ast.Module, path: Path) -> Iterator[tuple[int, str]]:
    """Yield strings that describe something, with their rank: below assignments, of functions and classes, of files."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        is_settings = path.name == "settings.py"
        for one, following in itertools.pairwise(body):
            if isinstance(one, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
                value = following.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    target = one.value.value if isinstance(one.value, ast.Constant) else ""
                    name = f"`{target}`: " if isinstance(target, str) and OWN.fullmatch(target) else ""
                    yield 0 if is_settings or name else 1, name + inspect.cleandoc(value.value)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield 3 if isinstance(node, ast.Module) else 2, text


def _sentences(name: str, texts: list[tuple[int, str]]) -> Iterator[str]:
    for _, text in texts:
        if f"`{name}`" in text:
            paragraph = next(one for one in re.split(r"\n\s*\n", text) if f"`{name}`" in one)
            sentences = re.split(r"(?<=\.)\s+(?=[A-Z`])", " ".join(paragraph.split()))
            yield next(one for one in sentences if f"`{name}`" in one).removeprefix(f"`{name}`: ")
