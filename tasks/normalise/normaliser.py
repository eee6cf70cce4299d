"""Normalisation of free-text diagnoses to standard terms: candidates, ranking and decision.

    normaliser = Normaliser("path/to/normaliser")
    for one in normaliser.normalise(["2型糖尿病伴视网膜病变", "冠心病"]):
        for answer in one.answers:
            print(one.diagnosis, answer.part, answer.code, answer.term, answer.confidence)

The folder is that of an artifact of the stage `normaliser` (index, ranker and decision), or of the stage
`candidate_index`. The latter has no ranker: the answer is then the best candidate, or the best one of each part of a
compound.

Time grows with diagnoses and candidates, memory with one slab of diagnoses, the index and the model.
"""

from __future__ import annotations

import gc
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from infra.errors import UserError
from infra.keywords import explained_keywords
from infra.uses import use
from kg.names import normalise_name
from models.knowledge_model.source import GivenKnowledge
from tasks.normalise.answers import (
    THRESHOLD,
    USER,
    Answer,
    DaggerPairs,
    Normalised,
    OwnNames,
    checked_threshold,
    load_own_names,
    load_threshold,
    read_calibration,
    read_own_names,
    signs_of,
)
from tasks.normalise.doubts import best, missed_segments, settled
from tasks.normalise.meaning.search import UnitedIndex, with_meaning
from tasks.normalise.queries.candidates import Found, find
from tasks.normalise.queries.compounds import names_disease
from tasks.normalise.queries.rules import IsName, QueryRules
from tasks.normalise.queries.settings import load_rules
from tasks.normalise.queries.spelling import normal_forms
from tasks.normalise.ranking.decision import Judged, TermDecision
from tasks.normalise.reading import (
    COURSE,
    SAME_CATEGORY,
    Modifiers,
    Reader,
    SenseIndex,
    Statement,
    Status,
    WrittenCodes,
    category,
    cues_for,
    modifiers_for,
    read_cues,
    read_modifiers,
)
from tasks.normalise.terms.columns import plain_code
from tasks.retrieve.candidates import Candidate, CandidateIndex, Entry
from tasks.retrieve.categories import with_categories
from tasks.retrieve.embedded import FIELDS_FILE, EmbeddedIndex
from tasks.retrieve.icd_categories import Categories, are_procedures, categories_of
from tasks.retrieve.match import Match
from tasks.retrieve.placed import PlacedCandidates

if TYPE_CHECKING:
    from tasks.normalise.ranking.ranker import TermRanker

INDEX, MODEL, DECISION = "index", "model", "decision.json"

SLAB = 200
"""Number of diagnoses that are processed at once."""

REMEMBERED = 5_000
"""Number of texts whose answers are remembered, some 10 MB."""

OFFERED = 5
"""Number of candidates that an answer offers to a reviewer."""

Progress = Callable[[int], None]
"""Called with the number of diagnoses done so far."""


class Retrieval:
    """Retrieval of candidates for diagnoses: an index, the rules for queries, and the categories of the list.

    Args:
        entries: entries of the list, for the siblings of candidates; without them no places are reserved for siblings.
        rules: how diagnoses become queries; by default with the default tables.
        k: number of candidates per diagnosis.
        is_name: tells which texts are names in the list; a compound that is one is not cut.
    """

    def __init__(
        self,
        index: CandidateIndex,
        entries: Sequence[Entry] = (),
        *,
        rules: QueryRules | None = None,
        k: int = 100,
        is_name: IsName | None = None,
    ) -> None:
        self.k = k
        self._is_name = is_name
        self._index = index
        self.rules = rules or QueryRules.read()
        self._categories: Categories = categories_of(entries)

    def candidates(self, diagnoses: Sequence[str], k: int | None = None) -> list[list[Candidate]]:
        """Return at most `k` candidates per diagnosis, in the order of `find`."""
        return [list(one.candidates) for one in self.find(diagnoses, k)]

    def find(self, diagnoses: Sequence[str], k: int | None = None) -> list[Found]:
        """Return candidates, number of parts and best candidates of the parts for each diagnosis."""
        return find(self._index, diagnoses, k or self.k, self.rules, self._categories, self._is_name)

    def parts(self, diagnoses: Sequence[str]) -> list[int]:
        """Return the number of parts of each diagnosis, at least 1."""
        return self.rules.parts(diagnoses)


class Normaliser:
    """Returns standard terms for diagnoses.

    Args:
        folder: see the module.
        k: number of candidates ranked per diagnosis; by default the number it was trained with.
        device: `cuda` or `cpu`; by default `cuda` if available.
        index: engine to search instead of the folder's own index, as returned by `open_server_index`
            (tasks/normalise/publish.py). It must contain the same list.
        reads: refuse what a text denies, doubts or does not diagnose, and, without a ranker, order candidates by sense
            (tasks/normalise/reading/). Otherwise every text is taken for a diagnosis, as the labels of CHIP-CDN do.
        refuses: False: take every text for a diagnosis, but order candidates by sense all the same.
        threshold: confidence that an answer needs; below it, it is among `Normalised.unsure`. By default that of the
            folder, or `THRESHOLD`, or 0 if there is a ranker, if every text is taken for a diagnosis, or for an index
            of an older version, which has no names to be sure of.
        names: the user's own names of codes, by which those of the folder are completed and replaced
            (tasks/normalise/answers/own_names.py).
        knowledge: the knowledge of a ranker that reads some; by default it is looked for.
        encoder: folder of an encoder of names (normalise/encoder), to find candidates by meaning too. By default that
            of an index that was built with one; False: find them by characters alone. An index that was built without
            gets its vectors now, which takes a minute.

    Raises:
        UserError: the folder contains no normaliser, one of its files is unreadable, its ranker's knowledge is missing,
            knowledge is given and no ranker reads it, the threshold is not from 0 to 1, or the list lacks a code that
            one of the names stands for.
    """

    @explained_keywords
    def __init__(
        self,
        folder: str | Path,
        *,
        k: int | None = None,
        device: str | None = None,
        index: CandidateIndex | None = None,
        reads: bool = True,
        refuses: bool = True,
        threshold: float | None = None,
        names: Path | None = None,
        knowledge: GivenKnowledge = None,
        encoder: str | Path | bool | None = None,
    ) -> None:
        if not isinstance(folder, str | PathLike):
            raise UserError(f"Normaliser takes a folder, and was given {type(folder).__name__}. Give its path.")
        if k is not None and (not isinstance(k, int) or k < 1):
            raise UserError(f"k={k!r} must be a whole number of candidates, at least 1.")
        path = Path(folder).expanduser()
        use(path)
        own = EmbeddedIndex(index_folder(path))
        # Siblings need codes and terms only; the names of entries are not stored.
        entries = [Entry(code, term) for code, term in zip(own.codes, own.terms, strict=True)]
        self.decision, ranked_candidates, max_length = read_decision(path)
        self._own = own
        # Codes of procedures have another grammar, and none of them a dagger.
        self._pairs = None if are_procedures(own.codes) else DaggerPairs()
        self.source = f"{len(own.codes):,} terms of {path}"
        """The list that codes come from, and its folder, in words."""
        rules = load_rules(own.folder)
        self._reader = _reader_for(own, rules) if reads and refuses else None
        ranked = (path / MODEL).is_dir()
        if knowledge is not None and not ranked:
            raise UserError(f"{path} has no ranker, and nothing else reads knowledge. Leave the knowledge out.")
        self._ranker = load_ranker(path / MODEL, device, max_length, knowledge) if ranked else None
        searched = with_categories(index or own, own)
        # A ranker judges the candidates among which it was trained, in their order.
        sensed = SenseIndex(searched) if reads and self._ranker is None else searched
        united = with_meaning(sensed, own, encoder, device, index)
        self._united = united if isinstance(united, UnitedIndex) else None
        # Nor was it trained on whole compounds.
        is_name = own.are_names if reads and self._ranker is None else None
        self.retrieval = Retrieval(united, entries, rules=rules, k=k or ranked_candidates, is_name=is_name)
        self.calibration = read_calibration()
        usual = THRESHOLD if reads and self._ranker is None and own.has_names else 0.0
        kept = load_threshold(own.folder) if threshold is None else checked_threshold(threshold)
        self.threshold = usual if kept is None else kept
        given = {} if names is None else read_own_names(names)
        self._terms_of: dict[str, list[Candidate]] | None = None
        """Terms of each code; None until a text is only a code."""
        self._remembers: tuple[float, QueryRules] | None = None
        """Threshold and rules of these answers, which callers may replace."""
        self._answered_before: dict[str, Normalised] = {}
        """Answers to the texts that came last, for columns that repeat them."""
        self._names = OwnNames({**load_own_names(own.folder), **given}, entries)

    @property
    def is_trained(self) -> bool:
        """True if a trained ranker orders the candidates."""
        return self._ranker is not None

    def normalise(self, diagnoses: Sequence[str], progress: Progress = lambda done: None) -> list[Normalised]:
        """Return the standard terms of each diagnosis, in order."""
        return list(self.stream(diagnoses, progress))

    def stream(self, diagnoses: Sequence[str], progress: Progress = lambda done: None) -> Iterator[Normalised]:
        """Yield the standard terms of each diagnosis, in order, processing one slab at a time."""
        for first in range(0, len(diagnoses), SLAB):
            slab = diagnoses[first : first + SLAB]
            # A slab makes tens of thousands of small objects without cycles, through which the collector would go again
            # and again: a quarter of the time.
            with _uncollected():
                found = self._remembered(slab) if self._ranker is None else list(self._named(slab))
            yield from found
            progress(first + len(slab))

    def _remembered(self, slab: Sequence[str]) -> list[Normalised]:
        """Return the answers to a slab, in which each text is read once, or was so before.

        A ranker's answers depend in their last digits on the texts that it judges together, so they are not remembered.
        """
        known = self._answered_before
        if known and self._remembers != (self.threshold, self.retrieval.rules):
            known.clear()
        self._remembers = (self.threshold, self.retrieval.rules)
        # Another thread of a service may forget a text meanwhile.
        held = {text: one for text in dict.fromkeys(slab) if (one := known.get(text)) is not None}
        new = [text for text in dict.fromkeys(slab) if text not in held]
        found = dict(zip(new, self._named(new), strict=True))
        answers = [found[text] if text in found else held[text] for text in slab]
        known.update(found)
        for text in list(islice(known, max(0, len(known) - REMEMBERED))):
            known.pop(text, None)
        return answers

    def _named(self, slab: Sequence[str]) -> Iterator[Normalised]:
        """Yield the answers to a slab; a text that is one of the user's own names is not searched at all."""
        if not self._names:
            yield from self._answered(slab)
            return
        known = [self._names.of(form) for form in normal_forms(slab)]
        found = iter(self._answered([text for text, entries in zip(slab, known, strict=True) if entries is None]))
        for text, entries in zip(slab, known, strict=True):
            if entries is None:
                yield next(found)
            else:
                yield self._decided(text, _own_answers(text, entries), (), _dismissed(text, entries))

    def _answered(self, slab: Sequence[str]) -> Iterator[Normalised]:
        return self._read(slab) if self._reader else self._found(slab)

    def _read(self, slab: Sequence[str]) -> Iterator[Normalised]:
        """Yield the answers to what the diagnoses of a slab state, and the candidates of the rest."""
        assert self._reader is not None
        read = self._reader.read(slab)
        refused = [tuple(one for one in own if one.status != Status.CODED) for own in read]
        # What is no diagnosis is not searched at all, so nonsense has no candidates.
        doubted = [[one for one in own if one.status not in _UNSEARCHED] for own in refused]
        if self._ranker is not None:
            # A ranker was trained on diagnoses as written.
            read = [tuple(replace(one, searched="") for one in own) for own in read]
        stated = self._found([_stated(text, own) for text, own in zip(slab, read, strict=True)])
        others = iter(self._found([_joined(own) for own in doubted if own]))
        for text, own, one, without, doubts in zip(slab, read, stated, refused, doubted, strict=True):
            considered = one.considered
            if doubts:
                more = next(others).considered
                considered = _united([considered, more])
            if any(part.status == Status.CODE_ONLY for part in own):
                considered = self._with_codes([each.text for part in own for each in part.modifiers])
            modifiers = tuple(each for part in own if part.status == Status.CODED for each in part.modifiers)
            answered = replace(
                one, diagnosis=text, considered=considered, refused=(*one.refused, *without), modifiers=modifiers
            )
            yield _without_contradiction(self._without_course(answered))

    def _without_course(self, one: Normalised) -> Normalised:
        """Lower the confidence of answers that do not say the course of the disease: 胃炎 for 慢性胃炎."""
        courses = {normalise_name(each.of): each.text for each in one.modifiers if each.kind == COURSE}
        if self._ranker is not None or not courses:
            return one
        answers = [
            replace(each, confidence=SAME_CATEGORY * each.confidence)
            if each.part in courses and not _says(each, courses[each.part])
            else each
            for each in (*one.answers, *one.unsure)
        ]
        decided = self._decided(one.diagnosis, answers, one.considered, one.refused)
        return replace(decided, modifiers=one.modifiers, missed=one.missed)

    def _with_codes(self, codes: Sequence[str]) -> tuple[Candidate, ...]:
        """Return the terms of codes, with a score of 0: nothing was searched."""
        if self._terms_of is None:
            self._terms_of = defaultdict(list)
            for code, term in zip(self._own.codes, self._own.terms, strict=True):
                self._terms_of[plain_code(code)].append(Candidate(code, term, 0.0))
        return tuple(one for code in dict.fromkeys(codes) for one in self._terms_of.get(plain_code(code), ()))

    def _found(self, slab: Sequence[str]) -> Iterator[Normalised]:
        drawn = self._drawn(slab)
        # A ranker judges whole texts, and labels of texts that are all diagnoses say nothing of their segments.
        checks = self._reader is not None and self._ranker is None
        missed = self._completed(drawn) if checks and self.retrieval.rules.split else [[] for _ in slab]
        if checks:
            self._settle(drawn)
        for diagnosis, one, left in zip(slab, drawn, missed, strict=True):
            named = [(each, self._names.of(each.part)) for each in one.answers]
            owned = [(part, self._names.of(part)) for part in left]
            kept = [
                *(
                    own
                    for each, entries in named
                    for own in ([each] if entries is None else _own_answers(each.part, entries))
                ),
                *(own for part, entries in owned if entries for own in _own_answers(part, entries)),
            ]
            refused = [
                each
                for part, entries in (*((each.part, entries) for each, entries in named), *owned)
                for each in _dismissed(part, entries)
            ]
            unknown = tuple(part for part, entries in owned if entries is None)
            yield replace(self._decided(diagnosis, kept, one.considered, refused), missed=unknown)

    def _completed(self, drawn: Sequence[_Drawn]) -> list[list[str]]:
        """Search the segments of texts that their answers say nothing of, and return those that are still without any.

        What does not end like the name of a disease is not searched: a wrong code would be worse than none.
        """
        missed = [missed_segments(one.found, one.answers, self.retrieval.rules) for one in drawn]
        searched = list(dict.fromkeys(part for own in missed for part in own if names_disease(part)))
        again = dict(zip(searched, self._drawn(searched), strict=True)) if searched else {}
        for one, own in zip(drawn, missed, strict=True):
            more = [again[part] for part in own if part in again]
            one.answers.extend(answer for each in more for answer in each.answers)
            if more:
                one.considered = _united([one.considered, *(each.considered for each in more)])
        return [[part for part in own if part not in again or not again[part].answers] for own in missed]

    def _settle(self, drawn: Sequence[_Drawn]) -> None:
        """Replace answers to abbreviations whose reading the text does not decide: MI, but not 急性MI."""
        read = [
            [self.retrieval.rules.readings(answer.part, one.found.queries[0]) for answer in one.answers]
            for one in drawn
        ]
        texts = list(dict.fromkeys(text for own in read for readings, _ in own for text in readings))
        if not texts:
            return
        found = {text: best(one.answers) for text, one in zip(texts, self._drawn(texts), strict=True)}
        for one, own in zip(drawn, read, strict=True):
            one.answers = [
                settled(answer, [found[text] for text in readings], is_short, OFFERED)
                for answer, (readings, is_short) in zip(one.answers, own, strict=True)
            ]

    def _drawn(self, slab: Sequence[str]) -> list[_Drawn]:
        """Return what is found for each text, and the answers chosen among it."""
        retrieved = self.retrieval.find(slab)
        judged = self._judged(slab, retrieved)
        ordered = [self.decision.order(one) for one in judged]
        terms = [self.decision.choose(own, one.parts) for own, one in zip(ordered, judged, strict=True)]
        asked = [(found.queries_of(term), term) for found, own in zip(retrieved, terms, strict=True) for term in own]
        reasons = iter(self._own.explain_all(asked))
        return [
            _Drawn(found, considered, [self._answer(found, term, next(reasons)) for term in own])
            for found, own, considered in zip(retrieved, terms, ordered, strict=True)
        ]

    def _answer(self, found: Found, term: Candidate, match: Match | None) -> Answer:
        if self._united is not None:
            match = self._united.reason(found.queries_of(term), term, match)
        row = () if match is None else found.rows[found.queries.index(match.query)]
        if self._ranker is not None:
            confidence = term.score
        elif match is None:
            confidence = 0.0
        else:
            confidence = self.calibration.confidence(signs_of(term, match, row, found.parts))
        others = (one for one in row if (one.code, one.term) != (term.code, term.term))
        candidates = (term, *islice(others, OFFERED - 1))
        return Answer(term.code, term.term, confidence, found.part_of(term), match, candidates)

    def _decided(
        self, text: str, answers: Sequence[Answer], considered: Sequence[Candidate], refused: Sequence[Statement]
    ) -> Normalised:
        """Return the answers by confidence, those below the threshold apart, and their candidates first."""
        # The sort is stable: of equally sure answers, the first of the text comes first.
        ordered = [self._paired(one) for one in sorted(answers, key=lambda one: -one.confidence)]
        first = _answers_first(considered, [(one.code, one.term) for one in ordered])
        sure, unsure = (
            tuple(one for one in ordered if (one.confidence >= self.threshold) is is_sure) for is_sure in (True, False)
        )
        return Normalised(text, sure, first, unsure, tuple(refused))

    def _paired(self, answer: Answer) -> Answer:
        if self._pairs is None:
            return answer
        # The query spells out what the part may abbreviate: DN is 糖尿病肾病.
        named = answer.part if answer.match is None else f"{answer.part} {answer.match.query}"
        pair = self._pairs.of(answer.code, answer.term, named)
        return answer if pair is None else replace(answer, pair=pair)

    def _judged(self, slab: Sequence[str], found: Sequence[Found]) -> list[Judged]:
        if self._ranker is not None:
            return self._ranker.judge(slab, [one.candidates for one in found], [one.parts for one in found])
        return [_by_likeness(one) for one in found]


@dataclass(slots=True)
class _Drawn:
    """What is found for a text."""

    found: Found
    considered: Sequence[Candidate]
    answers: list[Answer]


def _reader_for(own: EmbeddedIndex, rules: QueryRules) -> Reader:
    procedures = are_procedures(own.codes)
    cues, modifiers = cues_for(read_cues(), procedures), modifiers_for(read_modifiers(), procedures)
    return Reader(
        own.are_names,
        cues,
        Modifiers(modifiers),
        codes=WrittenCodes(own.codes),
        is_short=rules.is_short,
        spelled=rules.spelled,
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector of cycles from running; objects without cycles are freed all the same."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _united(rows: Sequence[Sequence[Candidate]]) -> Sequence[Candidate]:
    """Return the candidates of a row, and those of the others that it lacks."""
    first, *others = rows
    placed = [row for row in rows if isinstance(row, PlacedCandidates)]
    if len(placed) < len(rows):
        known = set(first)
        return (*first, *(each for row in others for each in row if each not in known))
    own = set(zip(placed[0].places.tolist(), placed[0].scores.tolist(), strict=True))
    places, scores = (np.concatenate([getattr(row, name) for row in placed]) for name in ("places", "scores"))
    pairs = zip(places.tolist(), scores.tolist(), strict=True)
    kept = [at for at, pair in enumerate(pairs) if at < len(first) or pair not in own]
    return PlacedCandidates(placed[0].listed, places[kept], scores[kept])


def _answers_first(considered: Sequence[Candidate], answers: Sequence[tuple[str, str]]) -> Sequence[Candidate]:
    """Return candidates, those of the answers first, in the order of these."""
    if isinstance(considered, PlacedCandidates):
        wanted = [considered.listed.places.get(key, -1) for key in answers]
        if considered.places[: len(wanted)].tolist() == wanted and len(set(considered.places.tolist())) == len(
            considered
        ):
            return considered
    places = {key: place for place, key in enumerate(answers)}
    own = sorted((one for one in considered if one[:2] in places), key=lambda one: places[one[:2]])
    return (*own, *(one for one in considered if one[:2] not in places))


def _without_contradiction(one: Normalised) -> Normalised:
    """Leave to a person what contradicts the codes written in the text: E10 2型糖尿病.

    With fewer codes than answers, nobody knows which answer they were written for.
    """
    written = {category(each.text) for each in one.modifiers if each.kind == "code"}
    if not written or len(written) < len({category(each.code) for each in one.answers}):
        return one
    sure = tuple(each for each in one.answers if category(each.code) in written)
    doubtful = tuple(each for each in one.answers if each not in sure)
    return replace(one, answers=sure, unsure=(*doubtful, *one.unsure))


def _dismissed(text: str, entries: Sequence[Entry] | None) -> list[Statement]:
    """Return a text that the user's names say is no diagnosis."""
    return [Statement(text, Status.NOT_DIAGNOSIS)] if entries is not None and not entries else []


def _says(answer: Answer, course: str) -> bool:
    """Return True if a name of the code has the course."""
    return any(course in one.term for one in answer.candidates if one.code == answer.code)


def _own_answers(name: str, entries: Sequence[Entry]) -> list[Answer]:
    match = Match(name, name, USER, (name,), (), 1.0, 1.0)
    return [Answer(entry.code, entry.term, 1.0, name, match) for entry in entries]


_UNSEARCHED = (Status.NOT_DIAGNOSIS, Status.PROCEDURE, Status.CODE_ONLY)


def _stated(text: str, statements: Sequence[Statement]) -> str:
    """Return what a text states, as written if it refuses nothing."""
    if any(one.status != Status.CODED for one in statements):
        return _joined([one for one in statements if one.status == Status.CODED])
    return _joined(statements) or text


def _joined(statements: Sequence[Statement]) -> str:
    return ";".join(one.searched or one.text for one in statements)


def _by_likeness(found: Found) -> Judged:
    """Return the candidates without a ranker: first the best one of each part, which are the answers, in the order of
    retrieval; then the rest, by score. A text that is spelled out often scores more than the text as written.
    """
    first = set(found.of_parts)
    parts = max(1, len({one.term for one in first}))
    if isinstance(found.candidates, PlacedCandidates):
        order = np.argsort(-found.candidates.scores, kind="stable")
        if first:
            is_part = np.isin(found.candidates.places, [found.candidates.listed.places[one[:2]] for one in first])
            order = np.concatenate([is_part.nonzero()[0], order[~is_part[order]]])
        return Judged(parts, found.candidates.taken(order))
    # The sort is stable, so candidates with one score, and those of parts, keep the order of retrieval.
    others = found.candidates if not first else [one for one in found.candidates if one not in first]
    ordered = sorted(others, key=attrgetter("score"), reverse=True)
    return Judged(parts, (*found.of_parts, *ordered))


def load_ranker(
    folder: Path, device: str | None = None, max_length: int | None = None, knowledge: GivenKnowledge = None
) -> TermRanker:
    """Load the ranker of a normaliser.

    Args:
        folder: its subfolder `model`.
        max_length: maximum number of tokens per pair; by default that of CHIP-CDN, or the number of the encoder's
            positions if that is smaller.
        knowledge: the knowledge of a model that reads some; None: look for it (models/knowledge_model/source.py).

    Raises:
        UserError: a file is missing or unreadable, or the model's knowledge is missing.
    """
    from models import heads  # here, since without a ranker nothing needs the extra `train`
    from models.inference import device_of
    from tasks.finetune.text import open_tokenizer
    from tasks.normalise.ranking.ranker import MAX_LENGTH, TermRanker

    model = heads.load(folder, knowledge).to(device_of(device))
    tokenizer = open_tokenizer(folder, model.encoder)
    return TermRanker(model, tokenizer, max_length or min(MAX_LENGTH, model.sizes.max_positions))


class Kept(NamedTuple):
    """Content of `decision.json`."""

    decision: TermDecision
    k: int
    """Number of candidates per diagnosis for which the decision was tuned."""
    max_length: int | None
    """Maximum number of tokens per pair in training; see `load_ranker`."""


def write_decision(folder: Path, decision: TermDecision, k: int, max_length: int | None = None) -> None:
    """Write `decision.json`; see `Kept`."""
    held = {**asdict(decision), "k": k, "max_length": max_length}
    (folder / DECISION).write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")


def read_decision(folder: Path) -> Kept:
    """Read `decision.json`. If it is missing, every part of a diagnosis gets one answer.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / DECISION
    if not path.is_file():
        return Kept(TermDecision(threshold=0.0, bounded=True), 100, None)
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        decision = TermDecision(float(held["threshold"]), bool(held["bounded"]), float(held["retrieval_weight"]))
        max_length = held.get("max_length")
        return Kept(decision, int(held["k"]), None if max_length is None else int(max_length))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error}). Train the normaliser again.") from error


def index_folder(path: Path) -> Path:
    """Return the folder of the index of a normaliser: a subfolder, or the folder itself if it has no ranker.

    Raises:
        UserError: there is no index.
    """
    for folder in (path / INDEX, path):
        if (folder / FIELDS_FILE).is_file():
            return folder
    raise UserError(
        f"{path} contains no normaliser. Give the folder that normalise/chip-cdn or normalise/index printed."
    )
