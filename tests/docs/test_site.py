"""The site: every page has a place in its navigation, links stay right, and its pictures are those of today."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from docs.generate import python, repository
from docs.generate.repository import address, show, with_shown_files, written_pages
from docs.generate.rooms import PICTURE, drawn, floors
from infra.settings import REPOSITORY

NOT_IN_NAVIGATION = "benchmarks/results/"


class _Loader(yaml.SafeLoader):
    """Reads `!!python/…` of mkdocs.yml as None."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)
CONFIG: dict[str, Any] = yaml.load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"), Loader=_Loader)


def in_navigation(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in in_navigation(part)]


def test_every_written_page_is_in_the_navigation() -> None:
    pages = {page for page in written_pages() if page.endswith(".md") and not page.startswith(NOT_IN_NAVIGATION)}
    listed = in_navigation(CONFIG["nav"])
    assert sorted(pages - set(listed)) == [], "add them to nav in mkdocs.yml"
    assert sorted(page for page in set(listed) if listed.count(page) > 1) == [], "listed twice"


def test_the_navigation_has_only_pages_that_exist() -> None:
    hooks = (REPOSITORY / "docs" / "hooks.py").read_text(encoding="utf-8")
    made = set(re.findall(r'^    "(\w+)":', hooks, re.MULTILINE)) | {f"python/{name}" for name in python.PAGES}
    known = {*written_pages(), *(f"docs/reference/{name}.md" for name in made)}
    assert sorted(set(in_navigation(CONFIG["nav"])) - known) == []
    assert (
        sorted(made - {one[15:-3] for one in in_navigation(CONFIG["nav"]) if one.startswith("docs/reference/")}) == []
    )


def test_pages_have_addresses_of_their_own() -> None:
    pages = written_pages()
    assert len({address(page) for page in pages}) == len(pages)
    assert address("README.md") == "index.html"
    assert address("docs/text.md") == "text/index.html"
    assert address("docs/guides/refresh.md") == "guides/refresh/index.html"
    assert address("benchmarks/results/text/encode_2026-11-21.md") == "measurements/text/encode_2026-11-21/index.html"
    assert address("models/README.md") == "models/index.html"


def test_links_to_pages_stay_and_links_to_other_files_lead_to_pages_that_show_them() -> None:
    text = "[a](text.md#x) [b](../kg/fusion/types.csv) [c](../flows/presets) [d](https://example.org/x) [e](#here)"
    changed, shown = with_shown_files("docs/knowledge.md", text, {"docs/text.md"})
    assert changed == (
        "[a](text.md#x) [b](reference/source/kg/fusion/types.csv.md) [c](reference/source/flows/presets.md) "
        "[d](https://example.org/x) [e](#here)"
    )
    assert "```text" in shown["docs/reference/source/kg/fusion/types.csv.md"]
    assert "docs/reference/source/flows/presets/ehealth.toml.md" in shown
    assert "(presets/ehealth.toml.md)" in shown["docs/reference/source/flows/presets.md"]


def test_a_folder_with_a_readme_is_its_page() -> None:
    known = {"infra/elasticsearch/README.md"}
    changed, shown = with_shown_files("docs/terms.md", "[e](../infra/elasticsearch)", known)
    assert (changed, shown) == ("[e](../infra/elasticsearch/README.md)", {})


def test_long_files_are_cut_and_say_so() -> None:
    page = show(REPOSITORY / "CHANGELOG.md")
    lines = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8").count("\n")
    assert (f"of {lines:,} lines" in page) == (lines > 400)


def test_a_notebook_is_shown_as_its_cells_with_what_they_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Terms\n", "text"]},
        {
            "cell_type": "code",
            "source": ["1 + 1"],
            "outputs": [{"data": {"text/plain": ["2"], "text/html": ["<b>2</b>"]}}],
        },
        {"cell_type": "code", "source": ["print(3)"], "outputs": [{"text": ["3\n"]}]},
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    monkeypatch.setattr(repository, "REPOSITORY", tmp_path)
    page = show(tmp_path / "a.ipynb")
    assert page.split("\n\n")[0] == "# Terms\ntext"
    assert re.findall(r"^```\w+\n(.*)\n```", page, re.MULTILINE) == ["1 + 1", "2", "print(3)", "3"]


def test_the_map_of_rooms_is_that_of_the_contracts() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn(floors()), "run: .venv/bin/python -m docs.generate.rooms"


@pytest.mark.parametrize("folder", ["flows", "tasks", "models", "kg", "infra"])
def test_the_map_of_rooms_has_every_room_and_floor(folder: str) -> None:
    picture = ElementTree.fromstring(drawn(floors()))
    texts = list(picture.iter("{http://www.w3.org/2000/svg}text"))
    first = [text.text for text in texts].index(f"{folder}/")
    rooms = sum(len(floor) for floor in floors()[folder])
    places = {text.text: float(text.attrib["y"]) for text in texts[first + 1 : first + 1 + rooms]}
    tops = [max(places[room] for room in floor) for floor in floors()[folder]]
    assert tops == sorted(tops) and len(set(tops)) == len(tops)
