"""What a stage did, in one line."""

from __future__ import annotations

from infra.counted import counted
from infra.stage import StageResult


def sentence(result: StageResult) -> str:
    """Return one line about a stage: its tables, its cost, and its page if it made one."""
    manifest = result.artifact.manifest
    tables = ", ".join(counted(table.rows, name) for name, table in manifest.tables.items())
    page = next((f"; {result.artifact.path}/{file.path}" for file in manifest.files if file.path == "report.html"), "")
    if result.reused:
        return f"{manifest.stage}: reused {manifest.fingerprint[:8]} ({tables or 'files only'}){page}"
    return (
        f"{manifest.stage}: {tables or counted(len(manifest.files), 'files')} in {manifest.wall_seconds:.1f} s, "
        f"peak memory {manifest.peak_memory_bytes / 2**20:,.0f} MiB{page}"
    )
