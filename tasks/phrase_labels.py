"""Distant labels for phrase mining: names that are known to be good phrases, and words that no phrase is.

Names come from the knowledge graph (its entities, or lists of names that the user gives) and from Wikipedia (the
Chinese lists of the package `autophrase`). `positives` are taken for good phrases; what is merely `known` is not taken
for a bad one (AutoPhrase, section 4.1: the pool of negatives is what no knowledge base knows).

Lists are read in UTF-8, UTF-16 or GB18030, whichever each of them is in. Memory grows with the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from infra.errors import UserError
from tasks.encodings import SAMPLE, detect_encoding, line_encoding
from tasks.phrase_words import STOP_WORDS
from tasks.raw_input import RawFile

LabelSource = Literal["kg", "wiki", "none"]


@dataclass(frozen=True)
class Labels:
    """What is known of phrases before anything is counted."""

    kg: frozenset[str]
    """Names of the knowledge graph and of the user's lists: positives."""
    wiki: frozenset[str]
    """Names of Wikipedia articles that others link to much: positives."""
    known: frozenset[str]
    """Other names of Wikipedia articles: neither good nor bad."""
    stop_words: frozenset[str]

    @property
    def positives(self) -> list[str]:
        """All names that are taken for good phrases, sorted."""
        return sorted(self.kg | self.wiki)

    def source_of(self, surface: str) -> LabelSource:
        """Who knows a name as a good phrase."""
        if surface in self.kg:
            return "kg"
        return "wiki" if surface in self.wiki else "none"


def read_labels(inputs: Mapping[str, Any]) -> Labels:
    """The labels among a stage's inputs.

    Args:
        inputs: any of `kg_entities`, an artifact with names and aliases; `labels`, raw files with a name a line;
            `wiki`, raw files wiki_quality.txt, wiki_all.txt and stopwords.txt, as the package has them.

    Raises:
        UserError: they hold no positive name, or a list is in no known encoding.
    """
    kg = set(_entity_names(inputs["kg_entities"])) if "kg_entities" in inputs else set()
    for file in inputs["labels"].files if "labels" in inputs else ():
        kg.update(read_lines(file))
    wiki = (
        {file.name.rpartition("/")[2]: set(read_lines(file)) for file in inputs["wiki"].files}
        if "wiki" in inputs
        else {}
    )
    quality = wiki.get("wiki_quality.txt", set())
    if not kg and not quality:
        raise UserError(
            "Mining phrases needs names that are known to be good, and none was given. Give a knowledge graph, a list "
            "of names (a name a line), or install the package autophrase, which brings names from Wikipedia: "
            "pip install autophrase==1.7."
        )
    return Labels(
        kg=frozenset(kg),
        wiki=frozenset(quality - kg),
        known=frozenset(wiki.get("wiki_all.txt", set()) - kg - quality),
        stop_words=STOP_WORDS | wiki.get("stopwords.txt", set()),
    )


def read_lines(file: RawFile) -> Iterator[str]:
    """The lines of a list, stripped, without empty ones.

    Raises:
        UserError: a line is in no encoding that is read.
    """
    data = file.read()
    encoding = detect_encoding(data[:SAMPLE])
    if encoding.startswith("utf-16"):
        lines: Iterable[str] = data.decode(encoding, "replace").splitlines()
    else:
        lines = (_decoded(line, encoding, file, number) for number, line in enumerate(data.split(b"\n"), 1))
    yield from filter(None, (line.strip().removeprefix("\ufeff").strip() for line in lines))


def _decoded(line: bytes, of_file: str, file: RawFile, number: int) -> str:
    encoding = line_encoding(line, of_file)
    if encoding is None:
        raise UserError(f"{file.name}, line {number:,}, is neither UTF-8 nor GB18030. Convert the list to UTF-8.")
    return line.decode(encoding)


def _entity_names(entities: Any) -> Iterator[str]:
    for part in entities.parts("kg_entities"):
        table = part.read(columns=["name", "aliases"])
        for name, aliases in zip(table["name"].to_pylist(), table["aliases"].to_pylist(), strict=True):
            yield from (given.strip() for given in (name, *(aliases or ())) if given.strip())
