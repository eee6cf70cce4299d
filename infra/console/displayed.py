"""Results as a notebook shows them: small HTML tables, in which every text from outside is escaped.

A class with `_repr_html_` builds it of these functions alone, so that a label such as `<script>` stays text.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from infra.console.printable import printable

MOST_ROWS = 50
"""Rows of a table that are shown; the last line says how many more there are."""


def escaped(text: object) -> str:
    """Return a text for HTML, without what a page or a terminal would obey."""
    return html.escape(printable(text))


def heading(text: object) -> str:
    """Return a line in bold."""
    return f"<p><b>{escaped(text)}</b></p>"


def paragraph(text: object) -> str:
    """Return a line of text."""
    return f"<p>{escaped(text)}</p>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; numbers are aligned on the right. Of many rows the first `MOST_ROWS` are shown."""
    listed = [list(row) for row in rows]
    head = "".join(f'<th scope="col">{escaped(one)}</th>' for one in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row, range(len(row))))}</tr>" for row in listed[:MOST_ROWS])
    more = paragraph(f"… and {len(listed) - MOST_ROWS:,} more rows") if len(listed) > MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as lines of text, for where there is no HTML; rows as in `table`."""
    listed = [tuple(columns), *rows]
    shown = [" | ".join(map(_plain, row)) for row in listed[: MOST_ROWS + 1]]
    more = [f"… and {len(listed) - 1 - MOST_ROWS:,} more rows"] if len(listed) > MOST_ROWS + 1 else []
    return "\n".join([*shown, *more])


def marked(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with marked stretches: first character, character after the last, and what the mark says."""
    parts, at = [], 0
    for start, end, title in sorted(spans):
        if start < at:
            continue  # of two marks that overlap, the first is shown
        parts += [escaped(text[at:start]), f'<mark title="{escaped(title)}">{escaped(text[start:end])}</mark>']
        at = end
    return f'<p style="white-space: pre-wrap">{"".join(parts)}{escaped(text[at:])}</p>'


def shown_path(path: str | Path) -> str:
    """Return a path as a person in the current folder would write it; a URI as it is."""
    if isinstance(path, Path) and path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return str(path)


def _plain(value: object) -> str:
    return printable(f"{value:.4g}" if isinstance(value, float) else "" if value is None else value)


def _cell(value: object, column: int) -> str:
    """Return a cell; that of the first column is the header of its row, for programs that read aloud."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    shown = escaped("" if value is None else value)
    if is_number:
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
    style = f"text-align: {'right' if is_number else 'left'}"
    if column == 0:
        return f'<th scope="row" style="{style}; font-weight: normal">{shown}</th>'
    return f'<td style="{style}">{shown}</td>'
