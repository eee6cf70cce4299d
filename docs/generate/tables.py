"""Page of all tables that stages write, from infra/schemas.py."""

from __future__ import annotations

from docs.generate.markdown import code, prose, table
from infra.schemas import TABLES, describe


def page() -> str:
    """Return the page. Tables of one schema share a section."""
    names: dict[int, list[str]] = {}
    for name, schema in TABLES.items():
        names.setdefault(id(schema), []).append(name)
    parts = [
        "# Tables",
        "Artifacts hold Parquet parts of these tables, `<stage>/<fingerprint>/<table>/part-….parquet`. Names and types "
        "are checked before a table is read.",
    ]
    for shared in names.values():
        rows = [
            (code(column["name"]), code(column["type"]), prose(column["description"]))
            for column in describe(TABLES[shared[0]])
        ]
        parts.append(f"## {', '.join(shared)}\n\n{table(('column', 'type', 'meaning'), rows)}")
    return "\n\n".join(parts) + "\n"
