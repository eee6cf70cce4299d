"""Cut points: characters before or after which a long entity is cut (EMBERT, appendix).

AutoPhrase's segmentation model cuts the entities. Characters at the start and at the end of segments are counted, and
the most frequent are written to a CSV file. A person answers yes or no in its column `keep` and passes the file back.
A character that ends words (性 in 急性胰腺炎) is a cut point after itself, one that begins words a cut point before
itself.

`cut_points_medicine.csv` was counted on the names of CMeKG, as jieba cuts them with the phrases that AutoPhrase found
in 4.5 million characters of real dialogues and articles, and was reviewed by us. Characters that also occur inside
words were not kept: 症 ends words (贫血症) no more often than it begins them (症状).
"""

from __future__ import annotations

import csv
import functools
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from infra.cells import inert, original
from infra.errors import UserError

MEDICINE_FILE = Path(__file__).with_name("cut_points_medicine.csv")

Side = Literal["start", "end"]

Place = tuple[str, Side]
"""A character and the side of a segment that it is on."""

COLUMNS = ("character", "side", "count", "occurrences", "examples", "keep")
"""Columns of the review file; a file that is passed back needs the first two and the last."""

EXAMPLES = 5
"""Number of examples per character."""

BORDER = "|"
"""Separator between the segments of an example."""

ANSWERS = {"yes": True, "no": False}


@dataclass(frozen=True)
class CutPoint:
    """A row of the review file."""

    character: str
    side: Side
    """Side of the segments on which the character was counted: cut before a start, after an end."""
    count: int
    occurrences: int
    """All occurrences of the character; if nearly all are on this side, it is a good cut point."""
    examples: tuple[str, ...]
    keep: bool


class CutPoints:
    """The accepted characters, and how they cut.

    A run of characters of one kind stays together (炎症: one cut, after 症), so that none is cut off on its own.
    """

    def __init__(self, before: Iterable[str] = (), after: Iterable[str] = ()) -> None:
        self.before = frozenset(before)
        self.after = frozenset(after)

    @classmethod
    def of(cls, rows: Iterable[CutPoint]) -> CutPoints:
        """Return the cut points among the rows of a review."""
        kept = [row for row in rows if row.keep]
        return cls(
            (row.character for row in kept if row.side == "start"), (row.character for row in kept if row.side == "end")
        )

    def split(self, surface: str) -> list[str]:
        """Split a surface at the cuts; the parts join to the surface. An empty surface has no parts."""
        cuts = [at for at in range(1, len(surface)) if self._is_cut(surface[at - 1], surface[at])]
        return [surface[start:end] for start, end in zip([0, *cuts], [*cuts, len(surface)], strict=True) if end > start]

    def _is_cut(self, left: str, right: str) -> bool:
        after_left = left in self.after and right not in self.after
        return after_left or (right in self.before and left not in self.before)


def count_cut_points(
    segmentations: Iterable[Sequence[str]], decided: Iterable[CutPoint] = (), top: int = 100
) -> list[CutPoint]:
    """Return the `top` most frequent characters with what a person needs to judge them, the most frequent first.

    They are followed by less frequent characters that were accepted before. Time grows with the characters, memory with
    the segmented entities, whose order does not matter.

    Args:
        segmentations: segments of each entity. The borders of the entity itself do not count.
        decided: earlier decisions, which become the initial answers; without one the answer is no.
    """
    answers = {(row.character, row.side): row.keep for row in decided}
    counts: Counter[Place] = Counter()
    occurrences: Counter[str] = Counter()
    examples: dict[Place, list[str]] = defaultdict(list)
    for segments in sorted(segmentations, key=lambda segments: (sum(map(len, segments)), tuple(segments))):
        occurrences.update("".join(segments))
        places = _places_of(segments)
        counts.update(places)
        for place in dict.fromkeys(places):
            if len(examples[place]) < EXAMPLES:
                examples[place].append("".join(BORDER.join(segments).split()))
    frequent = sorted(counts, key=lambda place: (-counts[place], place))[:top]
    rare = sorted(place for place, keep in answers.items() if keep and place not in frequent)
    return [
        CutPoint(*place, counts[place], occurrences[place[0]], tuple(examples[place]), answers.get(place, False))
        for place in frequent + rare
    ]


def _places_of(segments: Sequence[str]) -> list[Place]:
    ends: list[Place] = [(left[-1], "end") for left in segments[:-1]]
    starts: list[Place] = [(right[0], "start") for right in segments[1:]]
    return [place for place in ends + starts if place[0].isalpha()]


def write_cut_points(rows: Iterable[CutPoint]) -> bytes:
    """Return the rows as a review file: CSV in UTF-8 with a byte order mark, by which spreadsheets recognise UTF-8."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        # Examples begin as text does, with = too, which a spreadsheet would run.
        examples = inert(" ".join(row.examples))
        keep = "yes" if row.keep else "no"
        writer.writerow([inert(row.character), row.side, row.count, row.occurrences, examples, keep])
    return text.getvalue().encode("utf-8-sig")


def read_cut_points(data: bytes, name: str) -> list[CutPoint]:
    """Return the rows of a review file that a person has edited; rows may be added, moved and deleted.

    Args:
        name: name of the file in messages.

    Raises:
        UserError: it is not UTF-8, lacks a column, or a row is invalid; the message names the line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8 (byte {error.start:,}): save it as CSV UTF-8.") from error
    reader = csv.DictReader(io.StringIO(text, newline=""))
    missing = [column for column in ("character", "side", "keep") if column not in (reader.fieldnames or ())]
    if missing:
        raise UserError(f"{name}, line 1: no column {missing[0]}. The columns are {', '.join(COLUMNS)}, with commas.")
    rows: dict[Place, CutPoint] = {}
    for cells in reader:
        if not any(cells.values()):
            continue
        try:
            row = _row(cells)
            if (row.character, row.side) in rows:
                raise ValueError(f"{row.character!r} at the {row.side} occurs twice: keep one of the rows")
        except ValueError as error:
            raise UserError(f"{name}, line {reader.line_num}: {error}.") from error
        rows[row.character, row.side] = row
    return list(rows.values())


def _row(cells: Mapping[str | None, str | None]) -> CutPoint:
    """Return a row from its cells; raises ValueError if one of them is invalid."""
    given = {column: original((cells.get(column) or "").strip()) for column in COLUMNS}
    character, side, keep = given["character"], given["side"].lower(), given["keep"].lower()
    if len(character) != 1:
        raise ValueError(f"the column character contains {character!r}: write one character")
    if side not in get_args(Side):
        raise ValueError(f"the column side contains {side!r}: write start or end")
    if keep not in ANSWERS:
        raise ValueError(f"the column keep contains {keep!r}: write yes or no")
    return CutPoint(
        character=character,
        side="start" if side == "start" else "end",
        count=_number("count", given["count"]),
        occurrences=_number("occurrences", given["occurrences"]),
        examples=tuple(given["examples"].split()),
        keep=ANSWERS[keep],
    )


def _number(column: str, text: str) -> int:
    if not text.isdecimal() and text:
        raise ValueError(f"the column {column} contains {text!r}: write a whole number, or leave it empty")
    return int(text or 0)


@functools.cache
def medicine_cut_points() -> tuple[CutPoint, ...]:
    """Return the reviewed table for medicine that ships with the project."""
    return tuple(read_cut_points(MEDICINE_FILE.read_bytes(), MEDICINE_FILE.name))
