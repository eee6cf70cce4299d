"""How names are searched: one definition for every engine, of the fields, their tokens, and what a match is worth.

Every name of an entry, its term and each alias, is a document of its own with these fields:

    exact        the whole name in comparable form                    2型糖尿病足
    characters   its characters; Latin words and numbers are whole    2 型 糖 尿 病 足
    bigrams      two neighbours of these                              2型 型糖 糖尿 尿病 病足
    pinyin       the characters as they sound (off by default)        2 xing tang niao bing zu

`category` is no field of a name: it says how much counts what the names of a whole category of ICD-10 have in common
with a term (tasks/retrieve/categories.py), which is worked out above the engine.

The score of a document is the sum over its fields of `boost` times BM25 as Lucene has it since version 8; the field
`exact` adds its boost alone where the names are equal. With f occurrences of a token in a field of |d| tokens, n of
the N documents that have the field holding it:

    ln(1 + (N - n + 0.5) / (n + 0.5)) · f / (f + k1 · (1 - b + b · |d| / average |d|))

A token of the query counts once, however often it stands there. An entry's score is that of its best document, so that
many aliases neither help nor harm. Engines must count over all documents at once: a server's index has one shard.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from infra.errors import UserError
from kg.names import normalise_names
from tasks.retrieve.candidates import Entry

MAX_CHARACTERS = 200
"""Characters of a comparable form that are searched or found by; the rest of a longer one is not looked at."""

EXACT, CHARACTERS, BIGRAMS, PINYIN = "exact", "characters", "bigrams", "pinyin"
FIELDS = (EXACT, CHARACTERS, BIGRAMS, PINYIN)

FieldTokens = Mapping[str, Sequence[str]]
"""Tokens by field, in order and with repeats. No token holds white space or has more than `MAX_CHARACTERS`."""

_TOKEN = re.compile(r"[a-zß-öø-ɏ]+|\d+(?:\.\d+)?|[^\W_]")


class SearchFields(BaseModel):
    """What a match in each field is worth (0: the field is not searched), and the parameters of BM25."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    exact: float = Field(default=20.0, ge=0, description="added where the whole names are equal")
    characters: float = Field(default=1.0, ge=0)
    bigrams: float = Field(default=0.5, ge=0)
    pinyin: float = Field(default=0.0, ge=0, description="needs the package pypinyin")
    category: float = Field(default=0.2, ge=0, description="what the names of its whole category add to a candidate")
    k1: float = Field(default=1.2, ge=0, description="how much a repeated token adds")
    b: float = Field(default=0.5, ge=0, le=1, description="how much longer names lose")

    @model_validator(mode="after")
    def _searched(self) -> SearchFields:
        if not self.boosts():
            raise ValueError(f"no field is searched: give {', '.join(FIELDS)} or one of them a value above 0")
        return self

    def boosts(self) -> dict[str, float]:
        """The boost of every field that is searched."""
        boosts = {field: float(getattr(self, field)) for field in FIELDS}
        return {field: boost for field, boost in boosts.items() if boost > 0}

    def document_tokens(self, names: Sequence[str]) -> Iterator[FieldTokens]:
        """The tokens of every name by searched field; a field may be empty, all are for a name of punctuation alone.

        Raises:
            UserError: pinyin is searched and pypinyin is not installed.
        """
        fields = tuple(self.boosts())
        return (_tokens(form, fields) for form in comparable_forms(names))

    def query_tokens(self, terms: Sequence[str]) -> Iterator[FieldTokens]:
        """The same of terms that are looked for, where each token counts once."""
        for tokens in self.document_tokens(terms):
            yield {field: tuple(dict.fromkeys(held)) for field, held in tokens.items()}


@dataclass(frozen=True)
class Documents:
    """What is indexed: entries, distinct and sorted by (term, code), and their names."""

    entries: Sequence[Entry]
    names: Sequence[str]
    owners: Sequence[int]
    """Place in `entries` of the entry that goes by each name; ascending."""


def documents_of(entries: Iterable[Entry]) -> Documents:
    """The documents of entries in any order. Entries of the same code and term become one; of the names of an entry
    that are alike in comparable form the first stays, the term before its aliases.
    """
    aliases: dict[tuple[str, str], dict[str, None]] = {}
    for entry in entries:
        aliases.setdefault((entry.term, entry.code), {}).update(dict.fromkeys(entry.aliases))
    merged = [Entry(code, term, tuple(sorted(aliases[term, code]))) for term, code in sorted(aliases)]
    names = [name for entry in merged for name in (entry.term, *entry.aliases)]
    owners = [place for place, entry in enumerate(merged) for _ in range(1 + len(entry.aliases))]
    first: dict[tuple[int, str], str] = {}
    for owner, name, form in zip(owners, names, comparable_forms(names), strict=True):
        first.setdefault((owner, "".join(form)), name)
    return Documents(merged, list(first.values()), [owner for owner, _ in first])


def content_of(documents: Documents, fields: SearchFields) -> str:
    """32 hex digits that tell what an index holds from what another holds: its entries and names, in whatever order
    they were given, and the fields and the formula that they are searched by. Boosts are a matter of the query.
    """
    entries = [(entry.code, entry.term) for entry in documents.entries]
    searched = [list(fields.boosts()), fields.k1, fields.b]
    content = json.dumps([entries, list(documents.names), list(documents.owners), searched])
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def comparable_forms(names: Sequence[str]) -> list[tuple[str, ...]]:
    """The tokens that each name is compared by: kg/names.py makes width, case, brackets and numerals one, then
    punctuation and white space go.
    """
    # Half a character, which no file in UTF-8 can hold, would stop polars.
    whole = [name.encode("utf-8", "replace").decode() for name in names]
    plain = normalise_names(pl.Series(whole, dtype=pl.String)).str.slice(0, 2 * MAX_CHARACTERS)
    return [tuple(_cut(_TOKEN.findall(name))) for name in plain.to_list()]


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
        raise UserError("The field pinyin needs the package pypinyin. Install it: pip install -e '.[pinyin]'.")
    from pypinyin import lazy_pinyin

    return tuple(lazy_pinyin(list(form)))


_ANALYSERS = {EXACT: _whole, CHARACTERS: lambda form: form, BIGRAMS: _pairs, PINYIN: _sounds}
