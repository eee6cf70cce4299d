"""List of all pages of measurements."""

from __future__ import annotations

import re

from docs.generate.markdown import table
from infra.settings import REPOSITORY

RESULTS = REPOSITORY / "benchmarks" / "results"
DATED = re.compile(r"(?P<subject>.+)_(?P<date>\d{4}-\d\d-\d\d)")
"""`encode_2026-11-21`"""


def page() -> str:
    """Return the page, the newest measurements first."""
    rows = []
    for path in RESULTS.glob("*/*.md"):
        name = DATED.fullmatch(path.stem)
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        rows.append(
            (name["date"] if name else "", f"[{title}](../../benchmarks/results/{path.parent.name}/{path.name})")
        )
    rows.sort(key=lambda row: row[1])
    rows.sort(key=lambda row: row[0], reverse=True)
    return "\n\n".join(
        [
            "# All measurements",
            "Every page names its date, machine, data and script. Later pages of a subject replace earlier ones.",
            table(("date", "page"), rows),
        ]
    )
