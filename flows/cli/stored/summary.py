"""An artifact in a few words."""

from __future__ import annotations

from flows.cli.stored.ancestry import OUTSIDE, Ancestor
from flows.cli.wording.figures import megabytes
from infra.artifacts import Manifest


def contents(manifest: Manifest) -> str:
    """Return the rows of an artifact's tables and its size: `100 documents, 0 rejects; 54.2 kB`."""
    tables = [f"{table.rows:,} {name}" for name, table in manifest.tables.items()]
    files = [f"{len(manifest.files):,} file{'s' * (len(manifest.files) != 1)}"] if not tables else []
    return f"{', '.join([*tables, *files])}; {megabytes(manifest.bytes)}"


def described(node: Ancestor) -> str:
    """Return an ancestor in one line, without the name of the input."""
    if node.manifest is not None:
        deleted = "; content deleted" if node.is_content_deleted else ""
        return f"{node.title}  {contents(node.manifest)}{deleted}"
    if node.is_damaged:
        return f"{node.title}  its manifest is damaged; verify says more"
    size = f"  {megabytes(node.record.bytes)}" if node.record.bytes is not None else ""
    return f"{node.title}{size}" + ("" if node.record.stage in OUTSIDE else "  no longer in this store")
