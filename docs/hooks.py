"""Hooks of mkdocs: the site's files, and checks that strict mode reports.

The sources have the repository's paths (`docs/text.md`, `benchmarks/results/…`), so relative links need no change; only
addresses are shorter. Generated pages are below `docs/reference/`.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Mapping

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.generate import (
    commands,
    downstream,
    environment,
    flows,
    measurements,
    notebooks,
    presets,
    python,
    settings,
    tables,
)
from docs.generate.repository import address, with_shown_files, written_pages
from infra.settings import REPOSITORY

log = logging.getLogger("mkdocs.yiwen")
logging.getLogger("jieba").setLevel(logging.WARNING)  # it reports how long its dictionary took

GENERATED: Mapping[str, Callable[[], str]] = {
    "flows": flows.page,
    "presets": presets.page,
    "settings": settings.stages_page,
    "models": settings.models_page,
    "tables": tables.page,
    "tasks": downstream.page,
    "commands": commands.page,
    "environment": environment.page,
    "measurements": measurements.page,
    "notebooks": notebooks.page,
    **{f"python/{name}": functools.partial(python.text_of, page) for name, page in python.PAGES.items()},
}
"""Pages made from the code, by their names below docs/reference/."""
ELSEWHERE = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=[\"']?(?P<address>(?:https?:)?//[^\"'\s>]+)"
)
"""`<script src="https://…">`: what a browser would fetch from another host; not `<a href="https://…">`."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by the repository's pages and the generated ones."""
    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    pages = written_pages()
    known = {*pages, *(f"docs/reference/{name}.md" for name in GENERATED)}
    made = {f"docs/reference/{name}.md": make() for name, make in GENERATED.items()}
    for path in pages:
        if path.endswith(".md"):
            text, shown = with_shown_files(path, (REPOSITORY / path).read_text(encoding="utf-8"), known)
            made |= {path: text, **shown}
        else:
            files.append(_placed(File.generated(config, path, abs_src_path=str(REPOSITORY / path)), path))
    for path, text in made.items():
        files.append(_placed(File.generated(config, path, content=text), path))
    return files


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Warn, which fails a strict build, if a page fetches anything from another host."""
    del config
    for found in ELSEWHERE.finditer(output):
        log.warning("%s fetches %s from elsewhere", page.file.src_uri, found["address"])
    return output


def _placed(file: File, path: str) -> File:
    file.dest_uri = address(path)
    return file
