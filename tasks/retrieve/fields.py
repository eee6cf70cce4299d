"""Definition of the search that both engines implement: fields, their tokens, and the score of a match.

Each name of an entry, i.e. its term and every alias, is a document with these fields:

    exact        the whole name in comparable form                    2型糖尿病足
    characters   its characters; Latin words and numbers stay whole   2 型 糖 尿 病 足
    bigrams      pairs of neighbouring characters                     2型 型糖 糖尿 尿病 病足
    pinyin       pronunciation of the characters (off by default)     2 xing tang niao bing zu

`category` is not a field of a name. It weights the similarity between the term and all names of an ICD-10 category,
which is computed on top of the engine (tasks/retrieve/categories.py).

The score of a document is the sum over its fields of `boost` times BM25, in the form that Lucene has used since
version 8. The field `exact` adds just its boost if the names are equal. Let a token occur f times in a field of |d|
tokens, and let n of the N documents with this field contain the token. Then its BM25 is

    ln(1 + (N - n + 0.5) / (n + 0.5)) · f / (f + k1 · (1 - b + b · |d| / average |d|))

A token that is repeated in the query counts once. The score of an entry is that of its best document, so the number of
aliases makes no difference. Statistics cover all documents, which is why an index on a server has one shard.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, model_validator

from infra.errors import UserError
from kg.names import forms_of
from tasks.retrieve.candidates import Entry

MAX_CHARACTERS = 200
"""Number of characters of a comparable form that are searched; the rest of a longer form is ignored."""

EXACT, CHARACTERS, BIGRAMS, PINYIN = "exact", "characters", "bigrams", "pinyin"
FIELDS = (EXACT, CHARACTERS, BIGRAMS, PINYIN)

FieldTokens = Mapping[str, Sequence[str]]
"""Tokens by field, in order, with repeats. Tokens contain no white space and have at most `MAX_CHARACTERS`."""

# Latin words, numbers and single characters: copd, 1.5 and 肺 of "copd 1.5肺", but not _ or a full stop.
_TOKEN = re.compile(r"[a-zß-öø-ɏ]+|\d+(?:\.\d+)?|[^\W_]")


class SearchFields(BaseModel):
    """Boost of each field (0: not searched), and the parameters of BM25."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    exact: float = Field(default=20.0, ge=0, description="score added if the whole names are equal")
    characters: float = Field(default=1.0, ge=0)
    """Weight of the field of single characters in the score; 0 leaves it out."""
    bigrams: float = Field(default=0.5, ge=0)
    """Weight of the field of pairs of characters in the score; 0 leaves it out."""
    pinyin: float = Field(default=0.0, ge=0, description="requires the package pypinyin")
    category: float = Field(default=0.2, ge=0, description="weight of the score of a candidate's category")
    k1: float = Field(default=1.2, ge=0, description="saturation of repeated tokens in BM25")
    b: float = Field(default=0.5, ge=0, le=1, description="length normalisation of BM25: how much longer names lose")

    @model_validator(mode="after")
    def _searched(self) -> SearchFields:
        if not self.boosts():
            raise ValueError(f"no field is searched: set at least one of {', '.join(FIELDS)} to a value above 0")
        return self

    def boosts(self) -> dict[str, float]:
        """Return the boost of every searched field."""
        boosts = {field: float(getattr(self, field)) for field in FIELDS}
        return {field: boost for field, boost in boosts.items() if boost > 0}

    def document_tokens(self, names: Sequence[str]) -> Iterator[FieldTokens]:
        """Yield the tokens of each name by searched field. Fields may be empty: all are for a name of punctuation only.

        Raises:
            UserError: pinyin is searched, but pypinyin is not installed.
        """
        fields = tuple(self.boosts())
        return (_tokens(form, fields) for form in comparable_forms(names))

    def query_tokens(self, terms: Sequence[str]) -> Iterator[FieldTokens]:
        """Yield the tokens of each search term by field, without repeats."""
        for tokens in self.document_tokens(terms):
            yield {field: tuple(dict.fromkeys(held)) for field, held in tokens.items()}


@dataclass(frozen=True)
class Documents:
    """What is indexed: distinct entries, sorted by (term, code), and their names."""

    entries: Sequence[Entry]
    names: Sequence[str]
    owners: Sequence[int]
    """For each name, the position of its entry in `entries`; ascending."""
    sources: Sequence[str]
    """For each name, where it comes from; empty for standard terms, and for aliases whose source is not known."""


def documents_of(entries: Iterable[Entry]) -> Documents:
    """Return the documents of entries, which may come in any order.

    Entries with the same code and term are merged. If names of an entry have the same comparable form, the first is
    kept; the term precedes its aliases.
    """
    aliases: dict[tuple[str, str], dict[str, str]] = {}
    for entry in entries:
        held = aliases.setdefault((entry.term, entry.code), {})
        for alias, source in entry.source_of.items():
            # Entries come in any order: of two sources of an alias, the first in alphabetical order is kept.
            held[alias] = min(source, held[alias]) if held.get(alias) else source
    merged = [
        Entry(code, term, tuple(sorted(own)), tuple(own[alias] for alias in sorted(own)))
        for (term, code), own in sorted(aliases.items())
    ]
    named = [
        (place, name, source)
        for place, entry in enumerate(merged)
        for name, source in ((entry.term, ""), *entry.source_of.items())
    ]
    first: dict[tuple[int, str], tuple[str, str]] = {}
    for (owner, name, source), form in zip(named, comparable_forms([name for _, name, _ in named]), strict=True):
        first.setdefault((owner, "".join(form)), (name, source))
    names, sources = ([each[place] for each in first.values()] for place in range(2))
    return Documents(merged, names, [owner for owner, _ in first], sources)


def content_of(documents: Documents, fields: SearchFields) -> str:
    """Return an identifier of the content of an index, 32 hex digits.

    It covers entries and names, whatever their order, the searched fields and the parameters of BM25. Boosts are not
    part of it, since they only affect queries.
    """
    entries = [(entry.code, entry.term) for entry in documents.entries]
    searched = [list(fields.boosts()), fields.k1, fields.b]
    content = json.dumps([entries, list(documents.names), list(documents.owners), searched])
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def comparable_forms(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the comparable form of each name as tokens.

    Names that differ only in width, case, brackets, numerals (kg/names.py), punctuation or white space have equal
    forms: Ⅱ型糖尿病（足） and 2型糖尿病足.
    """
    # polars raises on lone surrogates such as \ud800, which JSON can contain; they become "?", which is dropped below.
    whole = [name.encode("utf-8", "replace").decode() for name in names]
    return [_form(name[: 2 * MAX_CHARACTERS]) for name in forms_of(whole)]


def _form(name: str) -> tuple[str, ...]:
    tokens = _TOKEN.findall(name)
    return tuple(tokens if len(name) <= MAX_CHARACTERS else _cut(tokens))


def tokens_of(form: tuple[str, ...], field: str) -> Sequence[str]:
    """Return the tokens of a comparable form in a field."""
    return _ANALYSERS[field](form)


def _cut(tokens: list[str]) -> Iterator[str]:
    room = MAX_CHARACTERS
    for token in tokens:
        yield token[:room]
        room -= len(token)
        if room <= 0:
            return


def _tokens(form: tuple[str, ...], fields: Sequence[str]) -> FieldTokens:
    return {field: _ANALYSERS[field](form) for field in fields}


def _whole(form: tuple[str, ...]) -> Sequence[str]:
    return ("".join(form),) if form else ()


def _pairs(form: tuple[str, ...]) -> Sequence[str]:
    return tuple(one + other for one, other in itertools.pairwise(form))


def _sounds(form: tuple[str, ...]) -> Sequence[str]:
    if importlib.util.find_spec("pypinyin") is None:
        raise UserError("The field pinyin requires the package pypinyin. Install it: pip install -e '.[pinyin]'.")
    from pypinyin import lazy_pinyin

    return tuple(lazy_pinyin(list(form)))


_ANALYSERS = {EXACT: _whole, CHARACTERS: lambda form: form, BIGRAMS: _pairs, PINYIN: _sounds}
