"""Pages that people read: links lead somewhere, and commands are ones that the program takes."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from flows.catalogue import find
from flows.cli.parameters import merge_parameters
from flows.recipes.partial import load_recipe
from infra.settings import REPOSITORY
from tests.support.processes.command_line import parsed

PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "models/README.md", "infra/**/README.md", "tasks/text/forms.md")
    for path in REPOSITORY.glob(pattern)
    if not path.name.startswith("mutants")
)
LINK = re.compile(r"\]\((?!https?:|mailto:)(?P<file>[^)#\s]*)(?:#(?P<heading>[^)\s]+))?\)")
"""`](docs/terms.md#two-lists)`"""
COMMAND = re.compile(
    r"^(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(?:python -m flows|yiwen) (?P<arguments>.+?)(?: *[#>].*)?$", re.MULTILINE
)
"""`YIWEN_HOME=/data .venv/bin/python -m flows run corpus/refresh  # weekly`, `.venv/bin/yiwen list > flows.txt`"""


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def headings(text: str) -> set[str]:
    """Addresses of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.finditer(page.read_text(encoding="utf-8")):
        target = (page.parent / link["file"]).resolve() if link["file"] else page
        heading = link["heading"]
        if not target.exists() or (heading and heading not in headings(target.read_text(encoding="utf-8"))):
            broken.append(link[0])
    assert broken == []


def commands() -> list[str]:
    texts = (page.read_text(encoding="utf-8").replace("\\\n", " ") for page in PAGES)
    return sorted({command["arguments"].strip() for text in texts for command in COMMAND.finditer(text)})


def _has(model: type[BaseModel], key: str) -> bool:
    """Return True if a model has a dotted key, such as `encoder.epochs`."""
    name, _, rest = key.partition(".")
    field = model.model_fields.get(name)
    inner = None if field is None else field.annotation
    return field is not None and (not rest or not isinstance(inner, type) or _has(inner, rest))


@pytest.mark.parametrize("command", commands())
def test_commands_are_ones_that_the_program_takes(command: str) -> None:
    options = parsed(shlex.split(command))
    if "param" in options:
        entry = find(options["name"])
        parameters = merge_parameters(entry, options["param"] or [])
        function = entry.load_flow().fn
        if "overrides" in parameters and "preset" not in inspect.signature(function).parameters:
            models = sys.modules[function.__module__].SETTINGS
            assert [key for key in parameters["overrides"] if not any(_has(model, key) for model in models)] == []
        elif "overrides" in parameters:
            load_recipe(parameters.get("preset") or "default", parameters["overrides"])


def test_pages_have_commands() -> None:
    assert len(commands()) > 10
