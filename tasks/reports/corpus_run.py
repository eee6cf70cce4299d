"""The page of one run over a corpus: that of `report_corpus`, with date, files, parameters given, and what has changed.

An artifact says nothing of when and where it was made, so that the same work has the same address and the same bytes.
What belongs to a run is written beside the artifacts instead, where nothing is compared:

    <root>/.pages/corpus-<hash of the corpus' path>/<time>.html     a page for each run
    <root>/.pages/corpus-<hash of the corpus' path>/last.json       the last run: date, and fingerprint of its report

The change is that since the last run over the same files and folders that gave another result.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from infra.artifacts import Artifact, ArtifactStore, make_folder
from infra.disk.private_files import private_files
from infra.errors import DamagedArtifactError
from infra.pages import render

TEMPLATE = Path(__file__).with_name("corpus_run.html.j2")
PLACE = "<!-- this run -->"
"""Comment of the page of `report_corpus` in whose place the section about the run is put."""

COLUMNS = ("documents", "bytes", "segments", "tokens")
"""Figures of a source whose change is shown."""


class LastRun(BaseModel):
    """What is kept of a run for the next one."""

    date: str
    report: str
    """Fingerprint of its `report_corpus`."""
    before: str = ""
    """Date of the last run that had another report."""
    before_report: str = ""


@private_files()
def write_run_page(store: ArtifactStore, report: Artifact, corpus: str, given: Mapping[str, Any], now: datetime) -> str:
    """Write the page of a run, readable by this user only, and return its path or URI.

    Args:
        store: where the artifacts are.
        report: the artifact of `report_corpus`.
        corpus: files and folders of the text.
        given: parameters that differ from those of the preset.
        now: time of the run.

    Raises:
        OSError: the store cannot be written.
    """
    folder = store.absolute(f".pages/corpus-{hashlib.sha256(corpus.encode()).hexdigest()[:12]}")
    date = now.astimezone().strftime("%Y-%m-%d %H:%M %Z")
    last = _last(store, posixpath.join(folder, "last.json"))
    if last is None:
        run = LastRun(date=date, report=report.fingerprint)
    elif last.report == report.fingerprint:
        run = last.model_copy(update={"date": date})
    else:
        run = LastRun(date=date, report=report.fingerprint, before=last.date, before_report=last.report)
    earlier = _sources_of(store, report.stage, run.before_report)
    section = render(
        TEMPLATE,
        date=date,
        corpus=corpus,
        given=[(key, json.dumps(value, ensure_ascii=False)) for key, value in sorted(given.items())],
        is_first=last is None,
        is_same=last is not None and last.report == report.fingerprint,
        last=last,
        before=run.before,
        is_known=earlier is not None,
        changes=[] if earlier is None else changes(earlier, _sources(report)),
    )
    page = report.read_file("report.html").decode()
    name = f"{now.astimezone(UTC):%Y%m%dT%H%M%S}.html"
    make_folder(store.filesystem, folder)
    store.filesystem.pipe_file(posixpath.join(folder, name), page.replace(PLACE, section, 1).encode())
    store.filesystem.pipe_file(posixpath.join(folder, "last.json"), run.model_dump_json().encode())
    return posixpath.join(folder, name)


def changes(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each source, with its figures and how they have changed; sources that are gone come last."""
    old = {row["source"]: row for row in before}
    new = {row["source"]: row for row in now}
    zeros = dict.fromkeys(COLUMNS, 0)
    return [
        {"source": source}
        | {
            name: (new.get(source, zeros)[name], new.get(source, zeros)[name] - old.get(source, zeros)[name])
            for name in COLUMNS
        }
        for source in [*(one for one in new if one != "all"), *(one for one in old if one not in new), "all"]
    ]


def _sources(report: Artifact) -> list[dict[str, Any]]:
    sources: list[dict[str, Any]] = json.loads(report.read_file("summary.json"))["sources"]
    return sources


def _sources_of(store: ArtifactStore, stage: str, fingerprint: str) -> list[dict[str, Any]] | None:
    """Return the sources of an earlier report, or None if it is not in the store any more."""
    try:
        earlier = store.get(stage, fingerprint) if fingerprint else None
        return None if earlier is None else _sources(earlier)
    except (DamagedArtifactError, FileNotFoundError):
        return None


def _last(store: ArtifactStore, location: str) -> LastRun | None:
    try:
        return LastRun.model_validate_json(store.filesystem.cat_file(location))
    except (FileNotFoundError, ValidationError):
        return None
