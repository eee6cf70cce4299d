"""Pages about artifacts: one HTML file each, which needs nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from infra.stage import Output


def render(template: Path, **values: Any) -> str:
    """The page of a template; everything that is put in is escaped, and a value that is missing is an error."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["megabytes"] = lambda value: f"{value / 1e6:,.2f}"
    environment.filters["percent"] = lambda value: f"{100 * value:.2f} %"
    return environment.from_string(template.read_text(encoding="utf-8")).render(**values)


def add_report(out: Output, page: str, summary: Mapping[str, Any], table: Sequence[Mapping[str, Any]]) -> None:
    """Put a page, all its figures and its main table beside the tables of an artifact: `report.html`, `summary.json`
    and `table.json`, which the runner shows."""
    out.add_bytes("report.html", page.encode())
    out.add_bytes("summary.json", json.dumps(summary, ensure_ascii=False, indent=1).encode())
    out.add_bytes("table.json", json.dumps(table, ensure_ascii=False, indent=1).encode())
