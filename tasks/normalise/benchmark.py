"""Open benchmark of term normalisation: diseases of CMeKG with ICD-10 codes, against ICD-10 in Chinese.

Anyone can create it from two packages; none of its rows is in this repository. A mention is a name of a disease with a
code, and its answers are the codes. Mentions with the same comparable form are merged, with the answers of all. Pairs
are dropped for one of these reasons:

    morphology      the code is from ICD-O (M95600/0), and read as ICD-10 would refer to bones
    not_one_code    the cell contains a range or an exception
    unknown_code    the list has neither the code nor one above it
    other_term      in the list the mention is the term of a code with another letter, so the code is wrong
    no_characters   the mention contains no searchable character

Codes that share a mention form a group. Groups are distributed over train, dev and test, so no code and no mention is
in two of them. In dev and test, about half of the mentions with equal answers are queries, always including the first;
the others are known. `without_queries` removes the queries from CMeKG wherever they are names. So a graph adds the
names of known mentions and of train to codes, but never a query. It also removes the foreign names of a disease named
by a query, since they are the query in another language.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from kg.code_names import listed_codes
from kg.codes import MORPHOLOGY, NOT_ONE_CODE
from kg.sources.cmekg import Subjects
from tasks.retrieve.candidates import Entry
from tasks.retrieve.fields import comparable_forms

CODE_RELATION = "ICD10"
NAME_RELATIONS = ("别称", "又称", "同义词", "别名", "俗称")
FOREIGN_RELATIONS = ("英文名称", "英文名", "英文别名", "英文别称", "外文名")
SHARES = {"train": 6, "dev": 2, "test": 2}
"""Share of each split in the groups, in tenths."""


class Mention(NamedTuple):
    """A name of a disease with its answers."""

    text: str
    codes: tuple[str, ...]
    """Answers, sorted; each is a code of the list."""
    split: str
    is_query: bool
    """True if it is searched for. No graph used for the index may contain it. All mentions of train are queries."""
    is_equal: bool
    """True if an answer's term equals the mention, so that comparing names finds it."""


class Dropped(NamedTuple):
    """A pair that is left out."""

    text: str
    cell: str
    reason: str


@dataclass(frozen=True)
class NormalisationBenchmark:
    """Mentions, ordered by text, and dropped pairs."""

    mentions: Sequence[Mention]
    dropped: Sequence[Dropped]

    def queries(self, split: str) -> list[Mention]:
        """Return the mentions of a split that are searched for."""
        return [mention for mention in self.mentions if mention.split == split and mention.is_query]

    def held_out(self) -> set[str]:
        """Return the comparable forms of the queries of dev and test, which no indexed graph may contain."""
        queries = [*self.queries("dev"), *self.queries("test")]
        return {form_of(form) for form in comparable_forms([mention.text for mention in queries])}


def form_of(tokens: Iterable[str]) -> str:
    """Return a comparable form as one string, which identifies a mention."""
    return "".join(tokens)


def build_benchmark(subjects: Subjects, entries: Sequence[Entry]) -> NormalisationBenchmark:
    """Return the benchmark of CMeKG (kg/sources/cmekg.py) against the terms of a list."""
    codes = {entry.code for entry in entries}
    terms: dict[str, set[str]] = defaultdict(set)
    for entry, tokens in zip(entries, comparable_forms([entry.term for entry in entries]), strict=True):
        terms[form_of(tokens)].add(entry.code)
    answers: dict[str, set[str]] = defaultdict(set)
    texts: dict[str, str] = {}
    dropped = []
    pairs = list(_pairs(subjects, codes))
    forms = map(form_of, comparable_forms([name for name, _, _ in pairs]))
    for (name, cell, stated), form in zip(pairs, forms, strict=True):
        reason = _reason(form, cell, stated, terms)
        if reason:
            dropped.append(Dropped(name, cell, reason))
        else:
            answers[form].update(stated)
            # The first spelling in sorted order represents the mention, whatever the order of CMeKG.
            texts[form] = min(name, texts.get(form, name))
    splits = _splits(answers)
    queries = _queries(answers, splits)
    mentions = [
        Mention(texts[form], tuple(sorted(own)), splits[form], form in queries, bool(own & terms[form]))
        for form, own in answers.items()
    ]
    return NormalisationBenchmark(sorted(mentions), sorted(set(dropped)))


def without_queries(subjects: Subjects, held_out: Set[str]) -> Subjects:
    """Return the names and codes of CMeKG without names in `held_out` (comparable forms), and without foreign names of
    entities that have such a name, wherever these are foreign names.

    An entity whose own name is held out is called by its first other name, or dropped if it has none.
    """
    reduced: dict[str, dict[str, list[str]]] = {}
    names = _forms([(head, *_values(own, NAME_RELATIONS)) for head, own in subjects.items()])
    foreign = _forms([_values(own, FOREIGN_RELATIONS) for own in subjects.values()])
    translated = {
        form for own, others in zip(names, foreign, strict=True) if held_out & own.keys() for form in others
    } | held_out
    for own, others, attributes in zip(names, foreign, subjects.values(), strict=True):
        # A foreign name that is also another name of a disease stays one, unless it is held out itself.
        kept = [
            *(name for form, same in own.items() if form not in held_out for name in same),
            *(name for form, same in others.items() if form not in translated for name in same),
        ]
        if kept:
            own = reduced.setdefault(kept[0], {})
            own.setdefault(CODE_RELATION, []).extend(attributes.get(CODE_RELATION, ()))
            own.setdefault(NAME_RELATIONS[0], []).extend(kept[1:])
    return reduced


def _pairs(subjects: Subjects, codes: Set[str]) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield (name, cell, codes of the list that the cell states)."""
    coded = [(head, cell) for head, own in subjects.items() for cell in own.get(CODE_RELATION, ())]
    stated = listed_codes([cell for _, cell in coded], codes)
    for (head, cell), found in zip(coded, stated, strict=True):
        for name in (head, *_values(subjects[head], NAME_RELATIONS)):
            yield name, cell, found


def _forms(names: Sequence[Sequence[str]]) -> list[dict[str, list[str]]]:
    """Return the names of each entity by comparable form, in order."""
    forms = map(form_of, comparable_forms([name for own in names for name in own]))
    found: list[dict[str, list[str]]] = []
    for own in names:
        found.append({})
        for name in own:
            found[-1].setdefault(next(forms), []).append(name)
    return found


def _values(attributes: Mapping[str, Sequence[str]], relations: Sequence[str]) -> list[str]:
    return [value.strip() for relation in relations for value in attributes.get(relation, ()) if value.strip()]


def _reason(form: str, cell: str, stated: Sequence[str], terms: Mapping[str, Set[str]]) -> str:
    if MORPHOLOGY.search(cell):
        return "morphology"
    if not stated:
        return "not_one_code" if NOT_ONE_CODE.search(cell) else "unknown_code"
    if not form:
        return "no_characters"
    named = terms.get(form, set())
    return "other_term" if named and not {code[0] for code in named} & {code[0] for code in stated} else ""


def _splits(answers: Mapping[str, Set[str]]) -> dict[str, str]:
    """Return the split of each mention, which depends on the smallest code of its group."""
    # A union-find structure of codes: `smallest` leads from each code to a smaller one of its group.
    smallest: dict[str, str] = {}

    def root(code: str) -> str:
        while smallest.setdefault(code, code) != code:
            code = smallest[code]
        return code

    for own in answers.values():
        roots = sorted({root(code) for code in own})
        for other in roots[1:]:
            smallest[other] = roots[0]
    return {form: _dealt(root(min(own))) for form, own in answers.items()}


def _dealt(code: str) -> str:
    # By hash, so that neighbouring codes, whose names are similar, are spread over the splits.
    place = _number(code) % sum(SHARES.values())
    for split, share in SHARES.items():
        if place < share:
            return split
        place -= share
    raise AssertionError("the shares add up")


def _queries(answers: Mapping[str, Set[str]], splits: Mapping[str, str]) -> set[str]:
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for form, own in answers.items():
        groups[tuple(sorted(own))].append(form)
    queries = {form for form, split in splits.items() if split == "train"}
    for own_forms in groups.values():
        # Every second mention in the order of hashes; a single mention is a query.
        queries.update(sorted(own_forms, key=_number)[::2])
    return queries


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)
