"""Statements of a diagnosis: its items, each with the status that cues give it.

    高血压、糖尿病，否认冠心病  →  高血压 coded, 糖尿病 coded, 否认冠心病 negated

An item that is exactly a name in the list is a diagnosis whatever it contains (无脑儿, 无汗症), unless a cue of another
item reaches it: 否认高血压、无脑儿. A denial ends where something is affirmed: 否认糖尿病，有高血压.

Before any other item is searched, it is put in the words of lists (wordings.py), written codes (written_codes.py) and
modifiers (modifiers.py) are taken off, a note in brackets goes where the list has it and one after a blank falls
(notes.py), so do details if a name is left (details.py), a tumour is written as its site (tumours.py), and a disease
with a complication as the name of both (complications.py).

Time grows with the length of a text times the number of cues, memory with one slab of texts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tasks.normalise.queries.compounds import are_two, names_disease, separated
from tasks.normalise.reading.complications import Complications
from tasks.normalise.reading.cues import Cue, Status, read_cues
from tasks.normalise.reading.details import COURSE, Bared, Details
from tasks.normalise.reading.modifiers import NOTE, PROCEDURE, Modifier, Modifiers
from tasks.normalise.reading.notes import moved_notes, names_before_notes
from tasks.normalise.reading.tumours import Tumours
from tasks.normalise.reading.wordings import Wordings
from tasks.normalise.reading.written_codes import WrittenCodes

MAX_CHARACTERS = 1_000
"""Number of characters of a text that are read; the rest is ignored, as in queries."""

IsName = Callable[[Sequence[str]], Sequence[bool]]
"""Tells for each text whether it is exactly a name in the list."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A run of neighbouring items with one status."""

    text: str
    status: Status
    searched: str = ""
    """What is searched instead of the text; empty if that is the text itself."""
    modifiers: tuple[Modifier, ...] = ()
    """Modifiers that its items contain, in order."""


@dataclass(frozen=True, slots=True)
class _Item:
    text: str
    mark: str
    """What separates it from the item before."""
    clause: int
    sentence: int
    left: str
    """The text without its modifiers."""
    modifiers: tuple[Modifier, ...]
    written: str
    """What is left, with tumours written as their sites, and combined names of complications."""
    moved: tuple[str, ...] = ()
    """Names that what is left may stand for, if the list has them, with and without its notes."""
    bared: tuple[Bared, ...] = ()
    """What is left without details, if the list has it."""

    @property
    def diagnosed(self) -> str:
        """The text without the procedure that was done for it: 慢性肾功能不全 血液透析."""
        return self.left if any(one.kind == PROCEDURE for one in self.modifiers) else self.text

    @property
    def names(self) -> tuple[str, ...]:
        """What to look up in the list."""
        return (self.text, self.left, *self.moved, *(one.text for one in self.bared), self.written)

    def searched(self, is_name: Sequence[bool]) -> str:
        """Return what to search, given which of `names` the list has."""
        is_item, *others = is_name
        found = (name for name, is_own in zip(self.names[1:], others, strict=True) if is_own)
        return self.text if is_item else next(found, self.written)

    def noted(self, searched: str) -> _Item:
        """Return the item with what was left out of the searched name as modifiers: 移位 of 锁骨骨折 移位."""
        if searched in (self.text, self.left, self.written):
            return self
        if searched not in self.moved:
            details = next((one.details for one in self.bared if one.text == searched), ())
            named = (replace(one, of=searched) if one.kind == COURSE else one for one in details)
            return replace(self, modifiers=(*self.modifiers, *named))
        if not self.left.startswith(searched):
            return self
        return replace(self, modifiers=(*self.modifiers, Modifier(NOTE, self.left[len(searched) :].strip())))


# matches: "、" of 肺炎、肾炎, "+" of 肺炎+肾炎, ";", ","
_MARK = re.compile(r"[;。\n,、，；]|(?<![\d+(])\+(?![\d+)])")
# matches: "?" of 肺炎?, "(-)" of 高血压(-), "(++)" of 尿蛋白(++)
_SIGN = re.compile(r"\?|\([-－—–−+]+\)")
# Numbers of a list, which NFKC would make digits: ① of ①肺炎 ②肾炎.
_CIRCLED = re.compile("[①-⑳⑴-⒇]")
_WHAT_IS_NONE = (Status.NOT_DIAGNOSIS, Status.PROCEDURE)
_ENDS_SENTENCE = ";。\n；"
_ENDS_CLAUSE = ",，"
# What affirms after a denial: 有 of 否认糖尿病,有高血压; not of 有机磷中毒, 有害气体, 有关, 有症状性癫痫, 有时.
_AFFIRMS = re.compile("(?:但|而|仅|现|目前|已)*(?:患有|有(?![机无时否创效毒害关症丝])|确诊为?|诊断为|发现)")


class Reader:
    """Tells which parts of texts are diagnoses of the patient, and what of them is searched."""

    def __init__(
        self,
        is_name: IsName,
        cues: Sequence[Cue] | None = None,
        modifiers: Modifiers | None = None,
        tumours: Tumours | None = None,
        complications: Complications | None = None,
        codes: WrittenCodes | None = None,
        wordings: Wordings | None = None,
        details: Details | None = None,
        is_short: Callable[[str], bool] = lambda word: False,
        spelled: Callable[[str], Sequence[str]] = lambda text: (),
    ) -> None:
        """Take the test for names of the list, the rules, by default those of the tables, and the list's codes.

        Args:
            is_short: tells which Latin words are short forms of diseases.
            spelled: returns a text with its unambiguous short forms written out.
        """
        self._is_name = is_name
        self._cues = tuple(read_cues() if cues is None else cues)
        self._questions = [
            (cue.pattern.search, cue.status == Status.PROCEDURE, cue.place == "text") for cue in self._cues
        ]
        self._modifiers = modifiers or Modifiers()
        self._tumours = tumours or Tumours()
        self._complications = complications or Complications()
        self._codes = codes or WrittenCodes()
        self._wordings = wordings or Wordings()
        self._details = details or Details()
        self._is_short, self._spelled = is_short, spelled

    def read(self, texts: Sequence[str]) -> list[tuple[Statement, ...]]:
        """Return the statements of each text, in order. Joined, they are the text; a blank text has none."""
        numbered = (_CIRCLED.sub(";", text[:MAX_CHARACTERS]) for text in texts)
        whole = (self._codes.separated(unicodedata.normalize("NFKC", text)) for text in numbered)
        plain = [separated(text, self._is_short) for text in whole]
        items = [self._items(text) for text in plain]
        cued = [self._cued(own) for own in items]
        # Names are looked up for all texts at once, and only where they can change a status or what is searched.
        asked = [
            [(text,), *(each for item in own for each in self._lookups(item))]
            if any(held) or any(item.written != item.text or item.moved or item.bared for item in own)
            else []
            for text, own, held in zip(plain, items, cued, strict=True)
        ]
        # Names are compared without punctuation, which may be the cue: 肺炎? is no name although 肺炎 is one.
        names = iter(self._are_names([text for own in asked for group in own for text in group]))
        named = iter([any([next(names) for _ in group]) for own in asked for group in own])
        found = []
        for own, held, queries in zip(items, cued, asked, strict=True):
            is_whole = bool(queries) and next(named)
            is_name = [[bool(queries) and next(named) for _ in item.names] for item in own]
            statuses = self._statuses(own, held, is_whole, is_name)
            is_plain = is_whole or not queries
            searched = [item.text if is_plain else item.searched(each) for item, each in zip(own, is_name, strict=True)]
            own = [item.noted(name) for item, name in zip(own, searched, strict=True)]
            found.append(_statements(own, statuses, searched))
        return found

    def _lookups(self, item: _Item) -> list[tuple[str, ...]]:
        """Return what to look up for each of the item's names; what is left of it may be a short form: COPD."""
        first, left, *others, written = item.names
        # A short form alone may as well be no disease: LC is also an operation. 急性MI is a name, and needs no baring.
        names = (left,) if self._is_short(left) else (left, *self._spelled(left))
        return [(first,), names, *((each, *self._spelled(each)) for each in others), (written,)]

    def _are_names(self, texts: Sequence[str]) -> list[bool]:
        signed = {text for text in texts if _SIGN.search(text)}
        known = dict(zip(texts, self._is_name(["" if text in signed else text for text in texts]), strict=True))
        return [known[text] for text in texts]

    def _items(self, text: str) -> list[_Item]:
        """Cut a text at marks outside brackets, and read each piece."""
        items: list[_Item] = []
        start, mark, clause, sentence = 0, "", 0, 0
        for end, following in (*_marks(text), (len(text), "")):
            if own := text[start:end].strip():
                uncoded, codes = self._codes.taken_off(own)
                worded = self._wordings.written(_plain(uncoded) if items else uncoded)
                left, modifiers = self._modifiers.taken_off(worded)
                written = self._complications.written(self._tumours.written(left))
                kept = (*codes, *modifiers)
                moved = (*moved_notes(left), *names_before_notes(left))
                bared = self._bared((left, *moved, *((written,) if written != left else ())))
                items.append(_Item(own, mark, clause, sentence, left, kept, written, moved, bared))
                mark = ""
            start = end + len(following)
            if following:
                # Of 肺炎。、肾炎 the stronger mark counts.
                mark = following if not mark or following in _ENDS_SENTENCE else mark
                clause += following in _ENDS_CLAUSE or following in _ENDS_SENTENCE
                sentence += following in _ENDS_SENTENCE
        return [self._without_modifiers(at, items, text) for at in range(len(items))]

    def _bared(self, texts: Sequence[str]) -> tuple[Bared, ...]:
        """Return texts without details, a tumour also as its site."""
        found = (one for text in texts for one in self._details.bared(text))
        named = ((one, (one.text, self._tumours.written(one.text))) for one in found)
        return tuple(Bared(name, one.details) for one, names in named for name in dict.fromkeys(names))

    def _without_modifiers(self, at: int, items: Sequence[_Item], text: str) -> _Item:
        """Return an item, not to be searched if it is a modifier of a disease before it: 冠心病,心功能III级."""
        if any(names_disease(one.left) for one in items[:at]) and (own := self._modifiers.only(items[at].text, text)):
            return replace(items[at], left="", written="", modifiers=own)
        return items[at]

    def _cued(self, items: Sequence[_Item]) -> list[list[int]]:
        """Return for each item the places of the cues that it contains."""
        return [self._cues_in(item, len(items) == 1) if item.written else [] for item in items]

    def _cues_in(self, item: _Item, is_only: bool) -> list[int]:
        # What was found to be a modifier needs no other reason to get no code.
        text, diagnosed = item.text, item.diagnosed
        return [
            place
            for place, (search, is_procedure, is_of_text) in enumerate(self._questions)
            if (is_only or not is_of_text) and search(diagnosed if is_procedure else text)
        ]

    def _statuses(
        self, items: Sequence[_Item], cued: Sequence[Sequence[int]], is_whole: bool, is_name: Sequence[Sequence[bool]]
    ) -> list[Status]:
        # A code alone says what somebody coded, not what the patient has.
        if items and not any(item.left or item.modifiers[0].kind != "code" for item in items):
            return [Status.CODE_ONLY] * len(items)
        found = [Status.CODED] * len(items)
        if not any(cued):
            return found
        first = [len(self._cues)] * len(items)
        for at, places in enumerate(cued):
            for place in places:
                cue = self._cues[place]
                for reached in _reached(items, at, cue):
                    if (reached != at and not is_whole) or not _outdone(cue, is_whole or is_name[at][0], is_name[at]):
                        first[reached] = min(first[reached], place)
        return [self._cues[place].status if place < len(self._cues) else Status.CODED for place in first]


def _marks(text: str) -> list[tuple[int, str]]:
    depth, places = 0, []
    found = {match.start(): match[0] for match in _MARK.finditer(text)}
    if not found:
        return []
    for place, character in enumerate(text):
        depth = max(0, depth + (character in "([{") - (character in ")]}"))
        if depth == 0 and place in found:
            places.append((place, found[place]))
    return places


def _reached(items: Sequence[_Item], at: int, cue: Cue) -> list[int]:
    """Return the places of the items that a cue in one of them reaches."""
    if cue.reach == "item":
        return [at]
    unit = [getattr(item, cue.reach) for item in items]
    way = range(at, -1, -1) if cue.place == "after" else range(at, len(items))
    if cue.status == Status.NEGATED:
        way = way[: next((steps for steps, place in enumerate(way) if steps and _affirms(items[place])), len(way))]
    return [place for place in way if unit[place] == unit[at]]


def _outdone(cue: Cue, is_item: bool, is_name: Sequence[bool]) -> bool:
    """Return True if a cue says less than the names of its item: 无 of 无脑儿, and 注意 of 注意缺陷多动障碍(ADHD).

    A history of the family is one although the list has its name: 糖尿病家族史.
    """
    if cue.status == Status.FAMILY and cue.place == "after":
        return False
    # 乳腺癌, as 乳癌改良根治术 is written, says nothing against the procedure.
    return is_item or (cue.status in _WHAT_IS_NONE and any(is_name[: -1 if cue.status == Status.PROCEDURE else None]))


def _affirms(item: _Item) -> bool:
    """Return True if an item affirms a disease, and is no further part of an enumeration: 、有高血压."""
    is_apart = item.mark in _ENDS_CLAUSE or item.mark in _ENDS_SENTENCE
    return is_apart and _AFFIRMS.match(item.text) is not None and names_disease(item.left)


def _plain(text: str) -> str:
    """Return an item without the words that affirm it: 高血压 of 有高血压."""
    rest = _AFFIRMS.sub("", text, count=1) if _AFFIRMS.match(text) else text
    return rest if names_disease(rest) else text


def _statements(items: Sequence[_Item], statuses: Sequence[Status], searched: Sequence[str]) -> tuple[Statement, ...]:
    """Join neighbours of one status."""
    joined: list[Statement] = []
    rows = zip(items, statuses, searched, strict=True)
    for status, own in groupby(rows, key=lambda row: row[1]):
        held = list(own)
        left = [(item.mark, asked) for item, _, asked in held if asked]
        # A semicolon always cuts.
        kept = [
            (";" if at and are_two(left[at - 1][1], asked) else mark, asked) for at, (mark, asked) in enumerate(left)
        ]
        text, query = ("".join(_piece(*row) for row in each) for each in (
            [(at, item.mark, item.text) for at, (item, _, _) in enumerate(held)],
            [(at, mark, asked) for at, (mark, asked) in enumerate(kept)],
        ))  # fmt: skip
        modifiers = tuple(one for item, _, _ in held for one in item.modifiers)
        joined.append(Statement(text, status, "" if query == text else query, modifiers))
    return tuple(joined)


def _piece(at: int, mark: str, text: str) -> str:
    return f"{mark}{text}" if at else text
