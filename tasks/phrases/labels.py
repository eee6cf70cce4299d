"""Distant labels for phrase mining: names known to be good phrases, and stop words.

Names come from the knowledge graph (its entities, or the user's lists of names) and from Wikipedia (the Chinese lists
of the package `autophrase`). `positives` count as good phrases; names that are only `known` are not used as bad ones
(AutoPhrase, section 4.1: the pool of negatives is what no knowledge base contains).

Each list may be in UTF-8, UTF-16, GB18030 or Big5. Memory grows with the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.errors import UserError
from tasks.files.encodings import SAMPLE, detect_encoding, line_encoding
from tasks.files.raw_input import RawFile
from tasks.phrases.words import STOP_WORDS, Vocabulary


@dataclass(frozen=True)
class Labels:
    """Labels of phrases and words, as text."""

    kg: frozenset[str]
    """Names of the knowledge graph and of the user's lists: positives."""
    wiki: frozenset[str]
    """Names of much-linked Wikipedia articles: positives."""
    known: frozenset[str]
    """Other names of Wikipedia articles: neither good nor bad."""
    stop_words: frozenset[str]


Cut = Callable[[Sequence[str]], Iterable[list[str]]]
"""Cuts names into pieces, as the segments were cut."""


def word_ids(pieces: Sequence[str], vocabulary: Vocabulary) -> tuple[int, ...] | None:
    """Return a name as ids of words, or None if it contains a mark, or a word that is not in the text."""
    codes = [vocabulary.get(piece, vocabulary.unknown) for piece in pieces if not piece.isspace()]
    return tuple(codes) if codes and min(codes) >= 0 else None


@dataclass(frozen=True)
class LabelIds:
    """Labels as ids of words, each once; without names that contain a word that is not in the text."""

    kg: list[tuple[int, ...]]
    wiki: list[tuple[int, ...]]
    known: list[tuple[int, ...]]
    stop_words: list[tuple[int, ...]]

    @property
    def positives(self) -> list[tuple[int, ...]]:
        """Names that count as good phrases."""
        return list(dict.fromkeys(self.kg + self.wiki))


def too_few_labels(ids: LabelIds, min_support: int, max_length: int) -> UserError:
    """Return the error for labels none of which is a candidate."""
    return UserError(
        f"None of the {len(ids.positives):,} names made of words of the text is a phrase of 2 to {max_length} words "
        f"that occurs at least {min_support} times, so there is nothing to learn from. Add more text or more names, "
        "or lower phrases.min_support."
    )


def label_ids(labels: Labels, cut: Cut, vocabulary: Vocabulary) -> LabelIds:
    """Return labels as ids; names are cut into words as the text is."""
    return LabelIds(
        kg=_ids_of(labels.kg, cut, vocabulary),
        wiki=_ids_of(labels.wiki, cut, vocabulary),
        known=_ids_of(labels.known, cut, vocabulary),
        stop_words=_ids_of(labels.stop_words, lambda words: ([word] for word in words), vocabulary),
    )


def _ids_of(names: Iterable[str], cut: Cut, vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    found = (word_ids(pieces, vocabulary) for pieces in cut(sorted(names)))
    return list(dict.fromkeys(ids for ids in found if ids is not None))


def read_labels(inputs: Mapping[str, Any]) -> Labels:
    """Return the labels among a stage's inputs.

    Args:
        inputs: any of `kg_entities`, an artifact with names and aliases; `labels`, raw files with one name per line;
            `wiki`, the package's raw files wiki_quality.txt, wiki_all.txt and stopwords.txt.

    Raises:
        UserError: there is no positive name, or a list has an unknown encoding.
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
            "Phrase mining needs names that are known to be good, and there are none. Give a knowledge graph or a list "
            "of names (one per line), or install the package autophrase, which has names from Wikipedia: "
            "pip install autophrase==1.7."
        )
    return Labels(
        kg=frozenset(kg),
        wiki=frozenset(quality - kg),
        known=frozenset(wiki.get("wiki_all.txt", set()) - kg - quality),
        stop_words=STOP_WORDS | wiki.get("stopwords.txt", set()),
    )


def read_lines(file: RawFile) -> Iterator[str]:
    """Yield the lines of a list, stripped, without empty ones.

    Raises:
        UserError: a line is in none of the supported encodings.
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
