"""A cache of the Hugging Face hub with models of ours, as the library lays it out: blobs, and snapshots of links."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cached(cache: Path, name: str, source: Path, commit: str = COMMIT, reference: str | None = "main") -> Path:
    """Put a model's folder into a cache under an id; returns the snapshot."""
    place = cache / f"models--{name.replace('/', '--')}"
    snapshot = place / "snapshots" / commit
    for folder in (snapshot, place / "blobs", place / "refs"):
        folder.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        blob = place / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        shutil.copyfile(file, blob)
        (snapshot / file.name).symlink_to(f"../../blobs/{blob.name}")
    if reference is not None:
        (place / "refs" / reference).write_text(commit, encoding="utf-8")
    return snapshot


def half_downloaded(snapshot: Path, file: str) -> None:
    """Leave what an interrupted download of a file leaves: a link to nothing, and the beginning of its content."""
    blob = (snapshot / file).resolve()
    blob.rename(blob.with_name(f"{blob.name}.incomplete"))
