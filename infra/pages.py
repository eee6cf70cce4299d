"""Pages about artifacts: one self-contained HTML file each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from infra.stage import Output


def render(template: Path, **values: Any) -> str:
    """Return the page of a template. All values are escaped.

    Raises:
        jinja2.UndefinedError: the template uses a value that is missing.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["megabytes"] = lambda value: f"{value / 1e6:,.2f}"
    environment.filters["percent"] = lambda value: f"{100 * value:.2f} %"
    return environment.from_string(template.read_text(encoding="utf-8")).render(**values)


def add_report(out: Output, page: str, summary: Mapping[str, Any], table: Sequence[Mapping[str, Any]]) -> None:
    """Add a page, all its figures and its main table to an artifact.

    They are `report.html`, `summary.json` and `table.json`; the runner shows the first and the last.
    """
    out.add_bytes("report.html", page.encode())
    out.add_bytes("summary.json", json.dumps(summary, ensure_ascii=False, indent=1).encode())
    out.add_bytes("table.json", json.dumps(table, ensure_ascii=False, indent=1).encode())
