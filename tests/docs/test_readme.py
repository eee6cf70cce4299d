"""README and the start pages: both languages say the same, figures stand on the pages they name, commands exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from infra.settings import REPOSITORY
from tests.support.figures import ADDRESS, numbers, stands_in

ENGLISH, CHINESE = (REPOSITORY / name for name in ("README.md", "README.zh-CN.md"))
LONGEST = 150
LINK = re.compile(r"\]\((?P<file>(?!https?:)[^)#]+)[^)]*\)")
"""`](docs/demo.md#x)`"""
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```\n", re.MULTILINE | re.DOTALL)
"""A block of code, from the line that opens it to the one that closes it."""
NO_FIGURES = re.compile(
    r"Python 3\.\d+|ICD-10|License 2\.0|\d+ GB|11 tasks|11 个任务|`[^`]*`"  # versions, names, requirements, code
)
START = [ENGLISH, CHINESE, *sorted((REPOSITORY / "docs" / "start").glob("*.md"))]
START += [REPOSITORY / "docs" / f"{name}.md" for name in ("demo", "text", "knowledge", "own_task", "tasks", "terms")]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def sections(path: Path) -> list[str]:
    """Return the parts of a page that begin with a heading of level 2, and what is before them."""
    return re.split(r"^## ", text_of(path), flags=re.MULTILINE)


def shell_blocks(text: str) -> list[str]:
    """Return the blocks of commands; a block with the log of a run (`clean: 27,403 documents …`) is none."""
    blocks = [block["code"] for block in FENCE.finditer(text) if block["language"] in ("", "sh")]
    return [block for block in blocks if not re.match(r"\w+: [\d,]+ \w+", block)]


def commands(text: str) -> list[str]:
    """Return the commands of a text, without comments, with continued lines joined."""
    code = "".join(shell_blocks(text)).replace("\\\n", " ")
    lines = (re.sub(r"(^|\s+)#.*", "", line).strip() for line in code.splitlines())
    return [" ".join(line.split()) for line in lines if line]


@pytest.mark.parametrize("page", [ENGLISH, CHINESE], ids=lambda path: path.name)
def test_readme_is_short(page: Path) -> None:
    assert len(text_of(page).splitlines()) <= LONGEST


def test_both_readmes_have_the_same_sections_commands_tables_and_figures() -> None:
    english, chinese = sections(ENGLISH), sections(CHINESE)
    assert len(english) == len(chinese)
    for one, other in zip(english, chinese, strict=True):
        title = f"{one.splitlines()[0]} | {other.splitlines()[0]}"
        assert commands(one) == commands(other), title
        rows, others = ([line for line in text.splitlines() if line.startswith("|")] for text in (one, other))
        assert len(rows) == len(others), title
        for row, counterpart in zip(rows, others, strict=True):
            assert sorted(numbers(row)) == sorted(numbers(counterpart)), f"{row}\n{counterpart}"
        links, counterparts = (
            sorted(link["file"] for link in LINK.finditer(text) if not link["file"].startswith("README"))
            for text in (one, other)
        )
        assert links == counterparts, title
        outside, counterpart = (
            "\n".join(line for line in text.splitlines() if line[:1] != "|") for text in (one, other)
        )
        assert sorted(numbers(outside)) == sorted(numbers(counterpart)), title


@pytest.mark.parametrize("page", [ENGLISH, CHINESE, REPOSITORY / "docs" / "demo.md"], ids=lambda path: path.name)
def test_a_figure_in_prose_stands_on_a_page_that_its_section_names(page: Path) -> None:
    missing = []
    for section in sections(page):
        prose = "\n".join(line for line in FENCE.sub("", section).splitlines() if not line.startswith("| "))
        figures = numbers(NO_FIGURES.sub("", ADDRESS.sub("]", prose)))
        pages = {(page.parent / link["file"]).resolve() for link in LINK.finditer(section)}
        written = {number for one in pages if one.suffix == ".md" for number in numbers(text_of(one))}
        missing += [f"{figure} in: {section[:60]!r}" for figure in figures if not stands_in(figure, written)]
    assert missing == []


def test_the_figures_of_the_demo_are_those_of_its_measurement() -> None:
    page = text_of(REPOSITORY / "docs" / "demo.md")
    [measured] = {link["file"] for link in LINK.finditer(page) if "demo_tiny" in link["file"]}
    written = set(numbers(text_of((REPOSITORY / "docs" / measured).resolve())))
    rows = [line for line in page.splitlines() if line.startswith("| ") and numbers(line)]
    assert len(rows) == 4
    assert [figure for row in rows for figure in numbers(row) if not stands_in(figure, written)] == []


def test_the_page_of_the_demo_begins_with_the_commands_of_readme() -> None:
    [first, *_] = shell_blocks(text_of(ENGLISH))
    assert first in shell_blocks(text_of(REPOSITORY / "docs" / "demo.md"))


@pytest.mark.parametrize("page", START, ids=lambda path: path.name)
def test_every_command_of_the_start_pages_exists(page: Path) -> None:
    found = commands(text_of(page))
    assert [one for line in found for one in line.split(" && ") if not known(shlex.split(one))] == []


def known(words: list[str]) -> bool:
    """Whether a command begins with a program that there is; tests/test_documents.py parses those of ours."""
    makefile = text_of(REPOSITORY / "Makefile")
    if words[0] == "make":
        return re.search(rf"^{words[1]}:", makefile, re.MULTILINE) is not None
    if words[0] == "export":
        return "=" in words[1]
    if words[:3] in ([".venv/bin/python", "-m", "flows"],) or words[0] in (".venv/bin/yiwen", "yiwen"):
        return True
    if words[0] == "pip":
        return words[1] in ("wheel", "install")  # tests/journeys/test_wheel.py does both
    return (REPOSITORY / words[0]).is_file()


@pytest.mark.parametrize(
    ("line", "expected"),
    [("make demo", True), ("make coffee", False), ("infra/fetch_icd10.sh", True), ("infra/no.sh", False)],
)
def test_unknown_programs_are_noticed(line: str, expected: bool) -> None:
    assert known(line.split()) == expected
