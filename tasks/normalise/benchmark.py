"""An open benchmark of term normalisation: diseases of CMeKG with their ICD-10 codes, against ICD-10 in Chinese.

Anyone can make it from two packages; no row of it is in this repository. A mention is the name or another name of a
disease that has a code; its answers are the codes. Mentions that are alike in comparable form are one, with the
answers of all. Left out are, with their reasons:

    morphology      the code is one of ICD-O (M95600/0), which read as ICD-10 says something about bones
    not_one_code    the cell holds a range or an exception
    unknown_code    the list has neither the code nor one above it
    other_term      the list has the mention as the term of a code under another letter, so the code is wrong
    no_characters   nothing in the mention can be searched

Codes that share a mention are one group, and groups are dealt into train, dev and test, so that neither a code nor a
mention is in two of them. Of dev and test, about half of the mentions of every group of equal answers are queries,
the first always; the others are known. `without_queries` takes the queries out of CMeKG wherever it has them as names,
so that the names which a graph then gives the codes are those of known and train mentions and never a query itself.
Nor does it keep the foreign names of a disease that a query names: they are the query in another language.
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
"""Tenths of the groups."""


class Mention(NamedTuple):
    """A name of a disease and what it should become."""

    text: str
    codes: tuple[str, ...]
    """Its answers, sorted; each is a code of the list."""
    split: str
    is_query: bool
    """It is looked for, and no graph that the index is made of may hold it; all of train are, for training."""
    is_equal: bool
    """The list has it as the term of an answer, so it is found by comparing names."""


class Dropped(NamedTuple):
    """A pair that is not used."""

    text: str
    cell: str
    reason: str


@dataclass(frozen=True)
class NormalisationBenchmark:
    """Mentions in order of their text, and what was left out."""

    mentions: Sequence[Mention]
    dropped: Sequence[Dropped]

    def queries(self, split: str) -> list[Mention]:
        """The mentions of a split that are looked for."""
        return [mention for mention in self.mentions if mention.split == split and mention.is_query]

    def held_out(self) -> set[str]:
        """Comparable forms of the queries of dev and test: what no graph that is indexed may hold."""
        queries = [*self.queries("dev"), *self.queries("test")]
        return {form_of(form) for form in comparable_forms([mention.text for mention in queries])}


def form_of(tokens: Iterable[str]) -> str:
    """A comparable form as one string, by which mentions are told apart."""
    return "".join(tokens)


def build_benchmark(subjects: Subjects, entries: Sequence[Entry]) -> NormalisationBenchmark:
    """The benchmark of CMeKG (kg/sources/cmekg.py) against the terms of a list."""
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
            texts[form] = min(name, texts.get(form, name))
    splits = _splits(answers)
    queries = _queries(answers, splits)
    mentions = [
        Mention(texts[form], tuple(sorted(own)), splits[form], form in queries, bool(own & terms[form]))
        for form, own in answers.items()
    ]
    return NormalisationBenchmark(sorted(mentions), sorted(set(dropped)))


def without_queries(subjects: Subjects, held_out: Set[str]) -> Subjects:
    """The names and codes of CMeKG without those names whose comparable form is held out, and without the foreign names
    of the entities that have one of these, wherever they are foreign names.

    An entity whose own name is held out goes by its first other name; without one it is left out.
    """
    reduced: dict[str, dict[str, list[str]]] = {}
    names = _forms([(head, *_values(own, NAME_RELATIONS)) for head, own in subjects.items()])
    foreign = _forms([_values(own, FOREIGN_RELATIONS) for own in subjects.values()])
    translated = {
        form for own, others in zip(names, foreign, strict=True) if held_out & own.keys() for form in others
    } | held_out
    for own, others, attributes in zip(names, foreign, subjects.values(), strict=True):
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
    """(name, cell, codes of the list that the cell states)."""
    coded = [(head, cell) for head, own in subjects.items() for cell in own.get(CODE_RELATION, ())]
    stated = listed_codes([cell for _, cell in coded], codes)
    for (head, cell), found in zip(coded, stated, strict=True):
        for name in (head, *_values(subjects[head], NAME_RELATIONS)):
            yield name, cell, found


def _forms(names: Sequence[Sequence[str]]) -> list[dict[str, list[str]]]:
    """The names of every entity by their comparable form, in order."""
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
    """The split of every mention: that of the smallest code of its group."""
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
        queries.update(sorted(own_forms, key=_number)[::2])
    return queries


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)
