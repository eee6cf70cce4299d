"""Which files of the repository are pages of the site, and under which address.

The site's sources have the repository's own paths, so a relative link is right in both. Files that pages link to but
that are no pages (a table of types, a preset) are shown on pages of their own.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from docs.generate.markdown import fenced
from infra.settings import REPOSITORY

PAGES = (
    "README.md",
    "README.zh-CN.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/**/*.md",
    "models/README.md",
    "tasks/text/forms.md",
    "infra/**/README.md",
    "benchmarks/results/*/*.md",
)
"""Patterns of the written pages."""
PICTURES = (
    "docs/**/*.svg",
    "docs/**/*.png",
    "docs/**/*.css",
    "benchmarks/results/*/*.png",
    "benchmarks/results/*/*.svg",
)
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)(?P<path>[^)#\s]+)(?P<heading>#[^)\s]*)?(?=\))")
"""`docs/terms.md#two-lists` of `[terms](docs/terms.md#two-lists)`"""
SHOWN = "docs/reference/source/"
"""Folder of the pages that show other files."""
LONGEST = 400
"""Lines of a file that its page shows."""
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".sh": "bash", ".json": "json"}


def written_pages() -> list[str]:
    """Return the repository paths of the written pages and of their pictures, sorted."""
    return sorted(
        {
            path.relative_to(REPOSITORY).as_posix()
            for pattern in (*PAGES, *PICTURES)
            for path in REPOSITORY.glob(pattern)
        }
    )


def address(path: str) -> str:
    """Return the path in the site of a page's or picture's repository path: `docs/text.md` is `text/index.html`."""
    if path == "README.md":
        return "index.html"
    here = PurePosixPath(path)
    if here.suffix != ".md":
        return (
            path.removeprefix("docs/")
            if path.startswith("docs/")
            else path.replace("benchmarks/results", "measurements")
        )
    if path == "README.zh-CN.md":
        return "zh-CN/index.html"
    if here.name == "README.md":
        return f"{here.parent}/index.html"
    folder = str(here.parent).replace("benchmarks/results", "measurements")
    folder = re.sub(r"^docs(/|$)|^\.$", "", folder)
    stem = here.stem.lower() if here.stem.isupper() else here.stem
    return posixpath.join(folder, stem, "index.html")


def with_shown_files(path: str, text: str, known: set[str]) -> tuple[str, dict[str, str]]:
    """Return a page with its links to files that are no pages turned to pages that show them, and these.

    Args:
        path: repository path of the page.
        text: its Markdown.
        known: repository paths of all pages and pictures.

    Returns:
        The page's Markdown, and the Markdown of the pages that show files, by their paths.
    """
    shown: dict[str, str] = {}
    folder = posixpath.dirname(path)

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link["path"]))
        file = REPOSITORY / target
        if target in known or not file.exists():
            return link[0]  # mkdocs reports what does not exist
        if f"{target}/README.md" in known:
            page = f"{target}/README.md"
        else:
            page = f"{SHOWN}{target}.md"
            shown[page] = show(file)
            for one in _files(file):
                shown[f"{SHOWN}{one.relative_to(REPOSITORY).as_posix()}.md"] = show(one)
        return posixpath.relpath(page, folder or ".")

    return LINK.sub(replaced, text), shown


def show(path: Path) -> str:
    """Return a page with a file's text, or with the list of a folder's files."""
    name = path.relative_to(REPOSITORY).as_posix()
    hidden = "---\nsearch:\n  exclude: true\n---\n\n"
    if path.is_dir():
        lines = [f"- [{one.name}]({path.name}/{one.name}.md)" for one in _files(path)]
        return f"{hidden}# {name}/\n\n" + "\n".join(lines) + "\n"
    if path.suffix == ".ipynb":
        return _notebook(path)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    cut = f"\n\nThe first {LONGEST} of {len(lines):,} lines.\n" if len(lines) > LONGEST else ""
    return f"{hidden}# {name}\n\n{fenced(chr(10).join(lines[:LONGEST]), LANGUAGES.get(path.suffix, 'text'))}{cut}"


def _notebook(path: Path) -> str:
    """Return the cells of a notebook, with what they printed."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else fenced(source, "python"))
        for output in cell.get("outputs", ()):
            shown = output.get("text") or output.get("data", {}).get("text/plain") or ()
            if text := "".join(shown).strip():
                parts.append(fenced(text, "text"))
    return "\n\n".join(parts) + "\n"


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(one for one in path.iterdir() if one.is_file())
