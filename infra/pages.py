"""Pages about artifacts: one self-contained HTML file each, with one look (report.css), made for readers of all kinds.

Every table gets a caption, which is the heading above it, every cell of a header its scope, and every row its first
cell as a header, so that a program that reads a page aloud can say what a table and a cell are about. Wide tables
scroll by keyboard, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from infra.stage import Output

SHARED = Path(__file__).parent
"""Folder of the stylesheet and of the macros that templates import (panel.html.j2)."""

# Matches "<h2>Scores</h2>", "<figcaption>F1</figcaption>", '<div class="scroll">', '<table class="cuts">' and "<th>" or
# '<th class="n">'.
# Not: "<thead>", '<th scope="row">'
_PLACE = re.compile(
    r'<(?P<tag>h[1-3]|figcaption)[^>]*>(?P<heading>.*?)</(?P=tag)>|<div class="scroll">'
    r"|<table[^>]*>(?P<captioned>\s*<caption)?|<th(?![a-z])(?![^>]*scope=)",
    re.DOTALL,
)
# Matches '<tr><td>emr</td>' and '<tr class="lost"><td class="n">32</td>'
# Not: '<tr><th>source</th>'
_ROW = re.compile(r"(?P<row><tr[^>]*>\s*)<td(?P<form>[^>]*)>(?P<name>.*?)</td>", re.DOTALL)
# Matches "<b>"
# Not: "a < b"
_TAG = re.compile(r"<[^<>]*>")


def render(template: Path, **values: Any) -> str:
    """Return the page of a template. All values are escaped.

    Raises:
        jinja2.UndefinedError: the template uses a value that is missing.
    """
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(SHARED),
    )
    environment.globals["style"] = Markup((SHARED / "report.css").read_text(encoding="utf-8"))
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["megabytes"] = lambda value: f"{value / 1e6:,.2f}"
    environment.filters["percent"] = lambda value: f"{100 * value:.2f} %"
    return _accessible(environment.from_string(template.read_text(encoding="utf-8")).render(**values))


def _accessible(page: str) -> str:
    """Return a page with captions of its tables, headers of columns and rows, and regions that scroll by keyboard."""
    start = max(0, page.find("<body"))  # a section of a page has no body of its own
    heading = ""

    def completed(place: re.Match[str]) -> str:
        nonlocal heading
        found = place[0]
        if place["heading"] is not None:
            heading = _TAG.sub("", place["heading"]).strip()
        elif found.startswith("<div"):
            return f'<div class="scroll" tabindex="0" role="region" aria-label="{heading}">'
        elif found.startswith("<table") and not place["captioned"]:
            return f'{found}<caption class="unseen">{heading}</caption>'
        elif found.startswith("<th"):
            return '<th scope="col"'
        return found

    body = _ROW.sub(r'\g<row><th scope="row"\g<form>>\g<name></th>', _PLACE.sub(completed, page[start:]))
    return page[:start] + body


def add_report(out: Output, page: str, summary: Mapping[str, Any], table: Sequence[Mapping[str, Any]]) -> None:
    """Add a page, all its figures and its main table to an artifact.

    They are `report.html`, `summary.json` and `table.json`; the runner shows the first and the last.
    """
    out.add_bytes("report.html", page.encode())
    out.add_bytes("summary.json", json.dumps(summary, ensure_ascii=False, indent=1).encode())
    out.add_bytes("table.json", json.dumps(table, ensure_ascii=False, indent=1).encode())
